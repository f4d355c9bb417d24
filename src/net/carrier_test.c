/* src/net/carrier_test.c: HTTP on real sockets, and connections that began in the past for what the clock does. */
#include "net/carrier.h"

#include "net/dock_test.h"
#include "net/fetch.h"
#include "net/fetch_seen_test.h"
#include "net/tls_test_keys.h"
#include "support/refuse.h"

#define OK_HEAD  "HTTP/1.1 200 OK\r\n"
#define PLAIN    OK_HEAD "Content-Length: 5\r\n\r\nhello"
#define NONSENSE "it talks nonsense"

static struct test_keys keys;

struct client {
    struct dock dock;
    struct belfry_tls *tls;
    struct belfry_list all;
    struct belfry_carrier *carrier;   /* NULL once it is closed */
    struct belfry_http *http;         /* its own */
    enum belfry_http_version version; /* 0: what TLS agreed on */
    uint64_t ago_ms;                  /* how long ago it is told to have come up */
    int ups, losts, drainings, gones;
    enum belfry_err err;
    char why[400], alpn[16];
    enum { NEVER, IN_UP, IN_LOST, IN_DRAINING } close_at;
};

static void close_carrier(struct client *c)
{
    belfry_carrier_close(c->carrier);
    c->carrier = NULL;
}

static void on_up(struct belfry_carrier *carrier, const char *alpn, void *user)
{
    struct client *c = user;
    assert_ptr_equal(carrier, c->carrier);
    c->ups++;
    snprintf(c->alpn, sizeof(c->alpn), "%s", alpn);
    enum belfry_http_version version = strcmp(alpn, "h2") == 0 ? BELFRY_HTTP_2 : BELFRY_HTTP_1;
    if (c->version != 0)
        version = c->version;
    if (belfry_http_start(c->http, version, belfry_clock_ms() - c->ago_ms) != BELFRY_OK) {
        c->err = BELFRY_ERR_NOMEM;
        c->losts++;
        close_carrier(c);
    } else if (c->close_at == IN_UP) {
        close_carrier(c);
    }
}

static void on_lost(struct belfry_carrier *carrier, enum belfry_err err, const char *why, void *user)
{
    struct client *c = user;
    assert_ptr_equal(carrier, c->carrier);
    c->losts++;
    c->err = err;
    snprintf(c->why, sizeof(c->why), "%s", why);
    if (c->close_at == IN_LOST)
        close_carrier(c);
}

static void on_draining(struct belfry_carrier *carrier, void *user)
{
    struct client *c = user;
    assert_ptr_equal(carrier, c->carrier);
    c->drainings++;
    if (c->close_at == IN_DRAINING)
        close_carrier(c);
}

static void on_gone(void *user)
{
    ((struct client *)user)->gones++;
}

static const struct belfry_carrier_events events = {
    .up = on_up, .lost = on_lost, .draining = on_draining, .gone = on_gone};

static enum belfry_err open_within(struct client *c, uint32_t dial_timeout_ms, struct seen *first)
{
    struct belfry_endpoint endpoint = dock_endpoint(&c->dock);
    struct belfry_carrier_opts opts = {
        .transport = {belfry_loop_uv(c->dock.loop), c->dock.dns, &endpoint, c->tls, dial_timeout_ms},
        .nonsense = NONSENSE,
        .all = &c->all,
        .events = &events,
        .user = c};
    enum belfry_err err = belfry_http_create(&seen_opts, belfry_clock_ms(), &c->http);
    if (err != BELFRY_OK)
        return err;
    if (first != NULL)
        get(c->http, "/first", first);
    opts.http = c->http;
    return belfry_carrier_open(&opts, &c->carrier);
}

static enum belfry_err open_http(struct client *c)
{
    return open_within(c, DOCK_LIMIT_MS, NULL);
}

static struct client *make_client(void)
{
    static struct client client;
    memset(&client, 0, sizeof(client));
    belfry_list_init(&client.all);
    assert_int_equal(dock_init(&client.dock), BELFRY_OK);
    return &client;
}

static struct client *start_http(void)
{
    struct client *c = make_client();
    assert_int_equal(open_http(c), BELFRY_OK);
    return c;
}

static void stop(struct client *c)
{
    struct belfry_tls *server = c->dock.tls;
    bool opened = c->ups + c->losts > 0 || c->carrier != NULL;
    close_carrier(c);
    dock_fini(&c->dock);
    belfry_tls_destroy(server);
    belfry_tls_destroy(c->tls);
    assert_int_equal(c->gones, opened ? 1 : 0);
}

static void send_get(struct client *c, const char *target, struct seen *seen)
{
    get(c->http, target, seen);
    belfry_carrier_flush(c->carrier);
}

static bool is_over_now(void *user)
{
    return is_over(user);
}

static bool is_lost(void *user)
{
    return ((struct client *)user)->losts > 0;
}

static bool is_up(void *user)
{
    return ((struct client *)user)->ups > 0;
}

static bool is_closed(void *user)
{
    return ((struct client *)user)->carrier == NULL;
}

static bool has_heard(void *user)
{
    return strstr(((struct client *)user)->dock.heard, "\r\n\r\n") != NULL;
}

/* ---- HTTP ---- */

static void calls_opened_before_it_is_up_go_out_then_and_the_next_on_the_same(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen first = {0}, second = {0};
    send_get(c, "/first", &first);
    dock_run(&c->dock, has_heard, c);
    assert_string_equal(c->alpn, "");
    assert_memory_equal(c->dock.heard, "GET /first HTTP/1.1\r\n", 21);
    dock_say_text(&c->dock, PLAIN);
    dock_run(&c->dock, is_over_now, &first);
    assert_ended(&first, 200, "hello");
    c->dock.n_heard = 0;
    send_get(c, "/second", &second);
    dock_rest(&c->dock);
    assert_memory_equal(c->dock.heard, "GET /second HTTP/1.1\r\n", 22);
    dock_say_text(&c->dock, "HTTP/1.1 204 No Content\r\n\r\n");
    dock_run(&c->dock, is_over_now, &second);
    assert_ended(&second, 204, "");
    assert_int_equal(c->losts + c->drainings, 0);
    stop(c);
}

static void http2_is_spoken_where_tls_agrees_on_it(void **state)
{
    (void)state;
    static const char response[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 5, 0, 0, 0, 1, (char)0x89}; /* 204 */
    struct client *c = make_client();
    struct seen seen = {0};
    struct belfry_tls_server_opts server = {.cert = keys.server, .key = keys.server_key};
    struct belfry_tls_opts client = {.cacert = keys.ca, .server_name = "etcd.test", .http1 = true};
    assert_int_equal(belfry_tls_create_server(&server, &c->dock.tls, c->why, sizeof(c->why)), BELFRY_OK);
    assert_int_equal(belfry_tls_create(&client, &c->tls, c->why, sizeof(c->why)), BELFRY_OK);
    assert_int_equal(open_http(c), BELFRY_OK);
    send_get(c, "/api", &seen);
    dock_run(&c->dock, has_heard, c); /* the preface has an empty line */
    assert_string_equal(c->alpn, "h2");
    assert_int_equal(belfry_http_version(c->http), BELFRY_HTTP_2);
    dock_rest(&c->dock);
    dock_say(&c->dock, response, sizeof(response));
    dock_run(&c->dock, is_over_now, &seen);
    assert_ended(&seen, 204, "");
    stop(c);
}

static void a_held_call_stops_the_reading(void **state)
{
    (void)state;
    static char much[4 * 1024 * 1024];
    struct client *c = start_http();
    struct seen seen = {0};
    send_get(c, "/big", &seen);
    dock_run(&c->dock, has_heard, c);
    dock_say_text(&c->dock, OK_HEAD "Content-Length: 4194304\r\n\r\n");
    dock_rest(&c->dock);
    assert_int_equal(seen.n_heads, 1);
    belfry_fetch_hold(seen.call, true);
    belfry_carrier_flush(c->carrier);
    dock_say(&c->dock, much, sizeof(much));
    dock_rest(&c->dock);
    assert_int_equal(seen.n_bytes, 0);
    assert_true(c->dock.n_said < sizeof(much));
    assert_false(is_over(&seen) || c->losts > 0);
    belfry_fetch_hold(seen.call, false);
    belfry_carrier_flush(c->carrier);
    dock_run(&c->dock, is_over_now, &seen);
    assert_int_equal(seen.n_ends, 1);
    assert_int_equal(seen.n_bytes, sizeof(much));
    stop(c);
}

static void the_end_of_the_peer_is_told_to_the_calls_and_then_to_the_owner(void **state)
{
    (void)state;
    for (int closes = 0; closes < 2; closes++) {
        struct client *c = start_http();
        struct seen seen = {0};
        c->close_at = closes == 1 ? IN_LOST : NEVER;
        send_get(c, "/api", &seen);
        dock_run(&c->dock, has_heard, c);
        dock_hang_up(&c->dock);
        dock_run(&c->dock, is_lost, c);
        assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "the peer closed the connection");
        assert_int_equal(c->err, BELFRY_ERR_UNAVAILABLE);
        assert_int_equal(c->losts, 1);
        stop(c);
    }
}

static void nonsense_is_told_with_the_sentence_of_the_owner(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen seen = {0};
    send_get(c, "/api", &seen);
    dock_run(&c->dock, has_heard, c);
    dock_say_text(&c->dock, "SSH-2.0\r\n");
    dock_run(&c->dock, is_lost, c);
    assert_int_equal(c->err, BELFRY_ERR_PROTOCOL);
    assert_string_equal(c->why, NONSENSE);
    assert_failed(&seen, BELFRY_ERR_PROTOCOL, "not HTTP/1.1");
    stop(c);
}

static void draining_is_told_once(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen seen = {0};
    send_get(c, "/api", &seen);
    dock_run(&c->dock, has_heard, c);
    dock_say_text(&c->dock, OK_HEAD "Connection: close\r\nContent-Length: 5\r\n\r\nhe");
    dock_rest(&c->dock);
    assert_int_equal(c->drainings, 1);
    dock_say_text(&c->dock, "llo");
    dock_run(&c->dock, is_over_now, &seen);
    assert_ended(&seen, 200, "hello");
    dock_rest(&c->dock);
    assert_int_equal(c->drainings, 1);
    stop(c);
}

static void cancelling_over_http1_is_told_as_draining_and_those_that_wait_fail(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen first = {0}, second = {0};
    send_get(c, "/first", &first);
    send_get(c, "/second", &second);
    dock_run(&c->dock, has_heard, c);
    belfry_fetch_cancel(first.call);
    belfry_carrier_flush(c->carrier);
    assert_int_equal(c->drainings, 1);
    assert_false(is_over(&second));
    dock_run(&c->dock, is_over_now, &second);
    assert_failed(&second, BELFRY_ERR_UNAVAILABLE, "cancelled");
    assert_true(second.unprocessed);
    stop(c);
}

/* ---- closing from inside ---- */

static struct client *closing;

static void close_it(struct seen *seen)
{
    (void)seen;
    close_carrier(closing);
}

static void it_may_be_closed_from_inside_any_callback_of_a_call(void **state)
{
    (void)state;
    for (int moment = 0; moment < 3; moment++) {
        struct client *c = start_http();
        struct seen seen = {0}, waiting = {0};
        closing = c;
        seen.on_head = moment == 0 ? close_it : NULL;
        seen.on_body = moment == 1 ? close_it : NULL;
        seen.on_last = moment == 2 ? close_it : NULL;
        send_get(c, "/api", &seen);
        send_get(c, "/waiting", &waiting);
        dock_run(&c->dock, has_heard, c);
        dock_say_text(&c->dock, OK_HEAD "Content-Length: 6\r\n\r\nhello");
        if (moment == 2) {
            dock_rest(&c->dock);
            dock_say_text(&c->dock, "!");
        }
        dock_run(&c->dock, is_closed, c);
        assert_true(is_over(&seen)); /* when the carrier was left, its connection was destroyed */
        assert_int_equal(seen.n_failures, moment == 2 ? 0 : 1);
        assert_failed(&waiting, BELFRY_ERR_UNAVAILABLE, "closed");
        dock_rest(&c->dock);
        assert_int_equal(c->losts, 0);
        assert_int_equal(c->gones, 1);
        stop(c);
    }
}

static void it_may_be_closed_from_inside_its_own_callbacks(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen seen = {0};
    c->close_at = IN_UP;
    send_get(c, "/api", &seen);
    dock_run(&c->dock, is_closed, c);
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "closed");
    stop(c);

    c = start_http();
    seen = (struct seen){0};
    c->close_at = IN_DRAINING;
    send_get(c, "/api", &seen);
    dock_run(&c->dock, has_heard, c);
    dock_say_text(&c->dock, OK_HEAD "Connection: close\r\nContent-Length: 5\r\n\r\nhe");
    dock_run(&c->dock, is_closed, c);
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "closed");
    stop(c);

    c = start_http(); /* before anything has happened */
    seen = (struct seen){0};
    send_get(c, "/api", &seen);
    close_carrier(c);
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "closed");
    c->ups = 1; /* as far as stop() is concerned */
    stop(c);
}

/* ---- retiring ---- */

static void a_retired_one_ends_with_its_last_call_and_says_nothing_more(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen seen = {0};
    send_get(c, "/api", &seen);
    dock_run(&c->dock, has_heard, c);
    belfry_carrier_retire(c->carrier);
    assert_false(belfry_list_empty(&c->all));
    dock_say_text(&c->dock, OK_HEAD "Connection: close\r\nContent-Length: 5\r\n\r\nhe");
    dock_rest(&c->dock);
    dock_say_text(&c->dock, "llo");
    dock_run(&c->dock, is_over_now, &seen);
    assert_ended(&seen, 200, "hello");
    assert_true(belfry_list_empty(&c->all));
    assert_int_equal(c->losts + c->drainings, 0);
    c->carrier = NULL;
    dock_rest(&c->dock);
    assert_int_equal(c->gones, 1);
    stop(c);
}

static void a_retired_one_that_is_lost_or_has_no_call_is_closed(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen seen = {0};
    send_get(c, "/api", &seen);
    dock_run(&c->dock, has_heard, c);
    belfry_carrier_retire(c->carrier);
    c->carrier = NULL;
    dock_hang_up(&c->dock);
    dock_run(&c->dock, is_over_now, &seen);
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "the peer closed the connection");
    assert_int_equal(c->losts, 0);
    dock_rest(&c->dock);
    stop(c);

    c = start_http();
    dock_run(&c->dock, is_up, c);
    belfry_carrier_retire(c->carrier);
    c->carrier = NULL;
    assert_true(belfry_list_empty(&c->all));
    dock_rest(&c->dock);
    stop(c);
}

static void all_are_closed_and_their_calls_are_told_why(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen seen = {0};
    send_get(c, "/api", &seen);
    dock_run(&c->dock, has_heard, c);
    belfry_carrier_close_all(&c->all, "it is late");
    c->carrier = NULL;
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "it is late");
    assert_int_equal(c->losts, 0);
    stop(c);
}

/* ---- the clock ---- */

#define PING_MS    30000 /* of seen_opts */
#define TIMEOUT_MS 15000
#define LATE_MS    5000

/* A connection over HTTP/2 with a call and a PING that was sent long ago, whose answer has been due for LATE_MS. */
static struct client *start_late(struct seen *seen)
{
    struct client *c = make_client();
    c->version = BELFRY_HTTP_2;
    c->ago_ms = PING_MS + TIMEOUT_MS + LATE_MS;
    assert_int_equal(open_http(c), BELFRY_OK);
    dock_run(&c->dock, is_up, c);
    get(c->http, "/api", seen);
    assert_int_equal(belfry_http_tick(c->http, belfry_clock_ms() - TIMEOUT_MS - LATE_MS), BELFRY_OK);
    return c;
}

static void after_a_gap_the_socket_is_read_before_the_clock_is_told(void **state)
{
    (void)state;
    static const char settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    struct seen seen = {0};
    struct client *c = start_late(&seen); /* as if the process had been stopped for that long */
    dock_say(&c->dock, settings, sizeof(settings));
    dock_act(&c->dock);
    dock_act(&c->dock); /* it lies in the socket */
    belfry_carrier_flush(c->carrier);
    dock_rest(&c->dock);
    assert_int_equal(c->losts, 0);
    assert_false(is_over(&seen));
    assert_true(belfry_http_due(c->http) > belfry_clock_ms()); /* the PING was answered, and the next is far away */
    stop(c);
}

static void a_tick_that_fails_is_the_end(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct client *c = start_late(&seen);
    belfry_carrier_flush(c->carrier);
    assert_int_equal(c->losts, 0); /* but from the loop, and after a look at the socket */
    dock_run(&c->dock, is_lost, c);
    assert_int_equal(c->err, BELFRY_ERR_TIMEOUT);
    assert_string_equal(c->why, "it does not answer pings");
    assert_failed(&seen, BELFRY_ERR_TIMEOUT, "PING");
    stop(c);
}

static void what_is_due_immediately_is_done_from_the_loop(void **state)
{
    (void)state;
    struct client *c = start_http();
    struct seen first = {0}, second = {0};
    send_get(c, "/first", &first);
    send_get(c, "/second", &second);
    dock_run(&c->dock, has_heard, c);
    belfry_fetch_cancel(first.call); /* which ends the connection over HTTP/1.1 */
    assert_int_equal(belfry_http_due(c->http), 0);
    belfry_carrier_flush(c->carrier);
    assert_false(is_over(&second));
    belfry_loop_rearm(c->dock.loop);
    assert_int_equal(belfry_loop_dispatch(c->dock.loop), BELFRY_OK);
    assert_true(is_over(&second));
    stop(c);
}

static void a_connection_is_owned_also_when_opening_fails(void **state)
{
    (void)state;
    struct client *c = make_client();
    struct seen seen = {0};
    assert_int_equal(open_within(c, 0, &seen), BELFRY_ERR_INVALID);
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "closed"); /* it was destroyed, and its calls were told */
    stop(c);
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    static struct client client;
    struct client *c = &client;
    struct seen seen = {0};
    memset(c, 0, sizeof(*c));
    belfry_list_init(&c->all);
    enum belfry_err err = dock_init(&c->dock);
    if (err == BELFRY_OK)
        err = open_http(c);
    if (err == BELFRY_OK)
        err = ask(c->http, "GET", "/api", &seen);
    if (err == BELFRY_OK) {
        dock_say_text(&c->dock, PLAIN);
        c->dock.n_say = 0; /* said once the request is here */
        belfry_carrier_flush(c->carrier);
        for (int i = 0; i < 5000 && !is_over(&seen) && c->losts == 0; i++) {
            dock_run_for(&c->dock, dock_never, NULL, 1);
            if (c->dock.n_say == 0 && c->dock.n_said == 0 && has_heard(c))
                c->dock.n_say = strlen(PLAIN);
        }
        err = c->losts > 0 ? c->err : is_over(&seen) ? seen.err : BELFRY_ERR_TIMEOUT;
    }
    if (err == BELFRY_OK)
        assert_ended(&seen, 200, "hello");
    close_carrier(c);
    dock_fini(&c->dock);
    assert_null(seen.call);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 10);
}

static int make_keys(void **state)
{
    (void)state;
    keys_make(&keys);
    return 0;
}

static int remove_keys(void **state)
{
    (void)state;
    keys_remove(&keys);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_opened_before_it_is_up_go_out_then_and_the_next_on_the_same),
        cmocka_unit_test(http2_is_spoken_where_tls_agrees_on_it),
        cmocka_unit_test(a_held_call_stops_the_reading),
        cmocka_unit_test(the_end_of_the_peer_is_told_to_the_calls_and_then_to_the_owner),
        cmocka_unit_test(nonsense_is_told_with_the_sentence_of_the_owner),
        cmocka_unit_test(draining_is_told_once),
        cmocka_unit_test(cancelling_over_http1_is_told_as_draining_and_those_that_wait_fail),
        cmocka_unit_test(it_may_be_closed_from_inside_any_callback_of_a_call),
        cmocka_unit_test(it_may_be_closed_from_inside_its_own_callbacks),
        cmocka_unit_test(a_retired_one_ends_with_its_last_call_and_says_nothing_more),
        cmocka_unit_test(a_retired_one_that_is_lost_or_has_no_call_is_closed),
        cmocka_unit_test(all_are_closed_and_their_calls_are_told_why),
        cmocka_unit_test(after_a_gap_the_socket_is_read_before_the_clock_is_told),
        cmocka_unit_test(a_tick_that_fails_is_the_end),
        cmocka_unit_test(what_is_due_immediately_is_done_from_the_loop),
        cmocka_unit_test(a_connection_is_owned_also_when_opening_fails),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
