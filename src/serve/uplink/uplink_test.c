/* src/serve/uplink/uplink_test.c: calls through real sockets on loopback, against support/fakeupstream. */
#include "serve/uplink/uplink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/tls_test_keys.h"
#include "support/uplinkbed.h"

#define PATH belfry_bytes_str("/etcdserverpb.KV/Range")

static struct belfry_tls *tls; /* of the bed; NULL: plain */

static int teardown(void **state)
{
    (void)state;
    close_bed();
    belfry_tls_destroy(tls);
    tls = NULL;
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- a call ---- */

struct seen {
    struct uplink_call *call; /* NULL: closed */
    char fields[2000];
    char body[100];
    size_t body_len, untaken;
    int blocks;
    bool take, complete, ended, close_at_data;
    const char *send;
    size_t sent, n_send;
    bool send_end;
    struct uplink_end end;
    char why[300];
    struct seen *other; /* to be closed when this one is */
};

static void on_field(struct uplink_call *call, struct belfry_bytes name, struct belfry_bytes value, void *user)
{
    struct seen *seen = user;
    size_t used = strlen(seen->fields);
    (void)call;
    snprintf(seen->fields + used, sizeof(seen->fields) - used, "%.*s: %.*s\n", (int)name.len, name.data, (int)value.len,
             value.data);
}

static void on_block(struct uplink_call *call, bool last, void *user)
{
    struct seen *seen = user;
    seen->blocks++;
    if (!last)
        return;
    seen->complete = true;
    uplink_close(call);
    seen->call = NULL;
}

static void on_data(struct uplink_call *call, struct belfry_bytes bytes, void *user)
{
    struct seen *seen = user;
    for (size_t i = 0; i < bytes.len && seen->body_len < sizeof(seen->body) - 1; i++)
        seen->body[seen->body_len++] = bytes.data[i];
    if (seen->take)
        uplink_taken(call, bytes.len);
    else
        seen->untaken += bytes.len;
    if (seen->close_at_data) {
        uplink_close(call);
        seen->call = NULL;
    }
}

static void on_end(struct uplink_call *call, void *user)
{
    struct seen *seen = user;
    (void)call;
    seen->complete = seen->ended = true; /* left to uplink_destroy() */
}

static size_t on_read(struct uplink_call *call, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    struct seen *seen = user;
    (void)call;
    size_t n = seen->n_send - seen->sent < cap ? seen->n_send - seen->sent : cap;
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)seen->send[(seen->sent + i) % strlen(seen->send)];
    seen->sent += n;
    *out_end = seen->send_end && seen->sent == seen->n_send;
    return n;
}

static void on_closed(struct uplink_call *call, const struct uplink_end *end, void *user)
{
    struct seen *seen = user;
    (void)call;
    if (bed.over)
        return;
    seen->call = NULL;
    seen->end = *end;
    snprintf(seen->why, sizeof(seen->why), "%s", end->why);
    if (seen->other != NULL && seen->other->call != NULL) {
        uplink_close(seen->other->call);
        seen->other->call = NULL;
    }
}

static const struct uplink_events events = {
    .field = on_field, .block = on_block, .data = on_data, .end = on_end, .read = on_read, .closed = on_closed};

static enum belfry_err start(struct seen *seen, unsigned *pin)
{
    const struct belfry_http_field fields[] = {{belfry_bytes_str("content-type"), belfry_bytes_str("application/grpc")},
                                               {belfry_bytes_str("token"), belfry_bytes_str("secret.1")},
                                               {belfry_bytes_str("x"), belfry_bytes_str("1")},
                                               {belfry_bytes_str("x"), belfry_bytes_str("")}};
    const struct uplink_request request = {.path = PATH, .fields = fields, .n_fields = 4};
    return uplink_open(bed.uplink, pin, &request, &events, seen, &seen->call);
}

static void open_call(struct seen *seen)
{
    assert_int_equal(start(seen, NULL), BELFRY_OK);
}

static const char *const plain_head[] = {":status", "200", "content-type", "application/grpc", NULL};
static const char *const ok_trailers[] = {"grpc-status", "0", "grpc-message", "", NULL};

/* ---- tests ---- */

static void fields_and_bytes_arrive_as_they_were_given_and_come_back_as_they_were_sent(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen seen = {.take = true, .send = "hello", .n_send = 5, .send_end = true};
    open_call(&seen);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->ended);
    char expected[400];
    snprintf(expected, sizeof(expected),
             ":method: POST\n:scheme: http\n:path: /etcdserverpb.KV/Range\n:authority: %s\n"
             "content-type: application/grpc\ntoken: secret.1\nx: 1\nx: \n",
             upstream_url(bed.members[0]) + strlen("http://"));
    const struct upstream_request *request = upstream_request(bed.members[0], 0);
    assert_string_equal(request->fields, expected);
    assert_memory_equal(request->body, "hello", 5);
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, "world", 5);
    upstream_trailers(bed.members[0], 0, ok_trailers);
    drive_until(seen.complete);
    assert_string_equal(seen.fields, ":status: 200\ncontent-type: application/grpc\ngrpc-status: 0\ngrpc-message: \n");
    assert_string_equal(seen.body, "world");
    assert_int_equal(seen.blocks, 2);
    assert_int_equal(stats().calls, 0);
    assert_int_equal(stats().connections, 1);
}

static void a_response_may_end_without_trailers(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen seen = {.take = true, .send = "", .send_end = true};
    open_call(&seen);
    drive_until(upstream_count(bed.members[0]) == 1);
    upstream_head(bed.members[0], 0, (const char *const[]){":status", "404", NULL}, false);
    upstream_data(bed.members[0], 0, "no", 2);
    upstream_trailers(bed.members[0], 0, NULL);
    drive_until(seen.ended);
    assert_string_equal(seen.body, "no");
    assert_int_equal(stats().calls, 1); /* its owner has not closed it */
    uplink_close(seen.call);
    assert_int_equal(stats().calls, 0);
}

static void calls_share_one_connection_and_wait_in_order_for_streams(void **state)
{
    (void)state;
    make(&(struct upstream_opts){.max_streams = 1}, 1);
    struct seen first = {.take = true, .send = "1", .n_send = 1, .send_end = true};
    open_call(&first); /* the limit is not known before the connection is up */
    drive_until(upstream_count(bed.members[0]) == 1);
    struct seen seen[3];
    for (int i = 0; i < 3; i++) {
        seen[i] = (struct seen){.take = true, .send = &"234"[i], .n_send = 1, .send_end = true};
        open_call(&seen[i]);
    }
    drive_for(50);
    assert_int_equal(upstream_count(bed.members[0]), 1);
    for (size_t i = 0; i < 4; i++) {
        drive_until(upstream_count(bed.members[0]) == i + 1 && upstream_request(bed.members[0], i)->ended);
        assert_int_equal(upstream_request(bed.members[0], i)->body[0], '1' + (int)i);
        upstream_grpc(bed.members[0], i, "", 0, "0");
    }
    drive_until(stats().calls == 0);
    assert_int_equal(upstream_n_conns(bed.members[0]), 1);
    assert_int_equal(stats().connects, 1);
}

static void calls_that_wait_behind_long_ones_get_another_connection(void **state)
{
    (void)state;
    bed.full_ms = 50;
    make(&(struct upstream_opts){.max_streams = 1}, 1);
    struct seen first = {.take = true, .send = "1", .n_send = 1}, second = {.take = true, .send = "2", .n_send = 1};
    open_call(&first);
    drive_until(upstream_count(bed.members[0]) == 1);
    uint64_t began = belfry_clock_ms();
    open_call(&second);
    drive_until(upstream_count(bed.members[0]) == 2);
    assert_true(belfry_clock_ms() - began >= 50);
    assert_int_equal(upstream_n_conns(bed.members[0]), 2);
    assert_int_equal(stats().losses, 0);
    upstream_grpc(bed.members[0], 0, "", 0, "0"); /* the first has lost nothing by it */
    drive_until(first.complete);
    drive_until(upstream_n_conns(bed.members[0]) == 1); /* and the connection it had to itself goes */
    upstream_grpc(bed.members[0], 1, "", 0, "0");
    drive_until(second.complete);
    drive_for(150);
    assert_int_equal(upstream_n_conns(bed.members[0]), 1);
}

static void connections_that_are_full_are_bounded(void **state)
{
    (void)state;
    bed.full_ms = 1;
    bed.max_conns = 3;
    make(&(struct upstream_opts){.max_streams = 1}, 1);
    struct seen seen[4];
    for (size_t i = 0; i < 4; i++) {
        seen[i] = (struct seen){.take = true, .send = "x", .n_send = 1};
        open_call(&seen[i]);
        if (i < 3)
            drive_until(upstream_count(bed.members[0]) == i + 1);
    }
    drive_for(100);
    assert_int_equal(upstream_count(bed.members[0]), 3);
    assert_int_equal(upstream_n_conns(bed.members[0]), 3);
}

static void a_closed_call_is_reset_and_one_that_was_not_sent_leaves_no_trace(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen seen = {.send = "x"}, unsent = {.send = "x"};
    open_call(&seen);
    drive_until(upstream_count(bed.members[0]) == 1);
    open_call(&unsent);
    uplink_close(unsent.call);
    uplink_close(seen.call);
    drive_until(upstream_request(bed.members[0], 0)->closed);
    assert_int_equal(upstream_request(bed.members[0], 0)->code, 8); /* CANCEL */
    drive_for(30);
    assert_int_equal(upstream_count(bed.members[0]), 1);
    assert_int_equal(stats().calls, 0);
}

static void a_call_may_be_closed_from_its_own_data(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen seen = {.send = "", .send_end = true, .close_at_data = true};
    open_call(&seen);
    drive_until(upstream_count(bed.members[0]) == 1);
    upstream_grpc(bed.members[0], 0, "12345", 5, "0");
    drive_until(seen.call == NULL);
    drive_for(30);
    assert_false(seen.complete);
    assert_int_equal(stats().calls, 0);
}

static void a_stalled_response_holds_one_window_and_nobody_else(void **state)
{
    (void)state;
    make(NULL, 1);
    static char much[1024 * 1024];
    struct seen slow = {.send = "", .send_end = true}, quick = {.take = true, .send = "", .send_end = true};
    open_call(&slow);
    drive_until(upstream_count(bed.members[0]) == 1);
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, much, sizeof(much));
    drive_until(slow.untaken == UPLINK_WINDOW);
    open_call(&quick);
    drive_until(upstream_count(bed.members[0]) == 2);
    upstream_head(bed.members[0], 1, plain_head, false);
    upstream_data(bed.members[0], 1, much, sizeof(much));
    upstream_trailers(bed.members[0], 1, ok_trailers);
    drive_until(quick.complete);
    assert_int_equal(slow.untaken, UPLINK_WINDOW);
    uplink_taken(slow.call, slow.untaken);
    drive_until(slow.untaken == 2 * UPLINK_WINDOW);
}

static void a_request_goes_on_when_it_has_more_to_say(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen seen = {.take = true, .send = "ab", .n_send = 1};
    open_call(&seen);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->body_len == 1);
    seen.n_send = 500000;
    seen.send_end = true;
    uplink_resume(seen.call);
    drive_until(upstream_request(bed.members[0], 0)->ended);
    assert_int_equal(upstream_request(bed.members[0], 0)->body_len, 500000);
}

static void a_reset_says_its_code_and_whether_it_was_seen(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen seen = {.send = "x"}, refused = {.send = "x"};
    open_call(&seen);
    open_call(&refused);
    drive_until(upstream_count(bed.members[0]) == 2);
    upstream_reset(bed.members[0], 0, 2);
    upstream_reset(bed.members[0], 1, 7); /* REFUSED_STREAM */
    drive_until(seen.call == NULL && refused.call == NULL);
    assert_int_equal(seen.end.h2_code, 2);
    assert_false(seen.end.lost || seen.end.unprocessed);
    assert_true(refused.end.unprocessed);
    assert_string_equal(seen.why, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR");
    assert_string_equal(refused.why, "stream terminated by RST_STREAM with error code: REFUSED_STREAM");
}

static void a_call_that_was_sent_falls_with_its_connection_and_closing_others_meanwhile_is_fine(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen first = {.send = "x"}, second = {.send = "x"}, third = {.send = "x"};
    first.other = &second;
    open_call(&first);
    open_call(&second);
    open_call(&third);
    drive_until(upstream_count(bed.members[0]) == 3);
    upstream_drop(bed.members[0], false);
    drive_until(first.call == NULL && third.call == NULL);
    assert_true(first.end.lost && !first.end.unprocessed);
    assert_null(second.call);
    assert_string_equal(second.why, ""); /* it was closed, and heard nothing */
    drive_for(100);
    assert_int_equal(upstream_count(bed.members[0]), 3); /* never sent twice */
    assert_int_equal(stats().losses, 1);
}

static void a_call_that_was_not_sent_goes_over_the_next_connection(void **state)
{
    (void)state;
    make(&(struct upstream_opts){.max_streams = 1}, 1);
    struct seen first = {.send = "x"}, second = {.take = true, .send = "", .send_end = true};
    open_call(&first);
    drive_until(upstream_count(bed.members[0]) == 1);
    open_call(&second); /* no stream for it */
    upstream_drop(bed.members[0], false);
    drive_until(first.call == NULL && upstream_count(bed.members[0]) == 2);
    upstream_grpc(bed.members[0], 1, "", 0, "0");
    drive_until(second.complete);
    char why[200];
    uplink_describe(bed.uplink, why, sizeof(why));
    assert_string_equal(why, ""); /* it serves again */
}

static void after_goaway_what_runs_goes_on_and_what_is_new_dials_anew(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen old = {.take = true, .send = "x"}, fresh = {.take = true, .send = "", .send_end = true};
    open_call(&old);
    drive_until(upstream_count(bed.members[0]) == 1);
    upstream_goaway(bed.members[0], false);
    drive_until(stats().connections == 0);
    open_call(&fresh);
    drive_until(upstream_count(bed.members[0]) == 2);
    assert_int_equal(upstream_n_conns(bed.members[0]), 2);
    upstream_grpc(bed.members[0], 0, "", 0, "0");
    upstream_grpc(bed.members[0], 1, "", 0, "0");
    drive_until(old.complete && fresh.complete);
    drive_until(upstream_n_conns(bed.members[0]) == 1); /* the drained one goes with its last call */
}

static void goaway_ends_what_was_not_looked_at(void **state)
{
    (void)state;
    make(NULL, 1);
    struct seen seen[2] = {{.take = true, .send = "x"}, {.take = true, .send = "x"}};
    open_call(&seen[0]);
    open_call(&seen[1]);
    drive_until(upstream_count(bed.members[0]) == 2);
    upstream_goaway(bed.members[0], true);
    drive_until(seen[1].call == NULL);
    assert_true(seen[1].end.unprocessed && seen[1].end.lost);
    assert_non_null(seen[0].call);
}

static void calls_with_a_pin_stay_together_and_others_take_turns(void **state)
{
    (void)state;
    make(NULL, 2);
    struct seen seen[6];
    unsigned pins[2] = {0, 0};
    for (int i = 0; i < 6; i++) {
        seen[i] = (struct seen){.send = "x"};
        assert_int_equal(start(&seen[i], &pins[i % 2]), BELFRY_OK);
    }
    assert_true(pins[0] != pins[1] && pins[0] > 0 && pins[1] > 0);
    drive_until(upstream_count(bed.members[0]) == 3 && upstream_count(bed.members[1]) == 3);
}

static void who_is_pinned_to_an_endpoint_that_is_down_gets_another(void **state)
{
    (void)state;
    make(NULL, 2);
    upstream_drop(bed.members[0], true);
    struct seen seen = {.send = "x"};
    unsigned pin = 1;
    assert_int_equal(start(&seen, &pin), BELFRY_OK);
    drive_until(upstream_count(bed.members[1]) == 1);
    assert_int_equal(pin, 2);
    /* and when it is back it is used again, by those who have no pin */
    upstream_listen(bed.members[0]);
    struct seen more[8];
    for (int i = 0; i < 8; i++) {
        more[i] = (struct seen){.send = "x"};
        open_call(&more[i]);
        drive_for(30);
    }
    drive_until(upstream_count(bed.members[0]) > 0);
}

static void barred_endpoint_gets_nothing_even_when_there_is_no_other(void **state)
{
    (void)state;
    make(NULL, 2);
    uplink_bar(bed.uplink, 1);
    struct seen seen[6];
    unsigned pin = 1;
    for (int i = 0; i < 5; i++) {
        seen[i] = (struct seen){.send = "x"};
        assert_int_equal(start(&seen[i], i == 0 ? &pin : NULL), BELFRY_OK);
    }
    drive_until(upstream_count(bed.members[1]) == 5);
    assert_int_equal(pin, 2);
    upstream_drop(bed.members[1], true);
    drive_until(stats().connections == 0);
    seen[5] = (struct seen){.send = "x"};
    open_call(&seen[5]);
    drive_for(500);
    assert_int_equal(upstream_count(bed.members[0]), 0);
    size_t before = upstream_count(bed.members[1]);
    upstream_listen(bed.members[1]);
    drive_until(upstream_count(bed.members[1]) > before); /* it has waited for that one */
    assert_int_equal(upstream_count(bed.members[0]), 0);
}

static void without_any_endpoint_a_call_ends_after_the_wait_and_says_why(void **state)
{
    (void)state;
    make(NULL, 2);
    upstream_drop(bed.members[0], true);
    upstream_drop(bed.members[1], true);
    struct seen seen = {.send = "x"}, crowd[10] = {0};
    drive_for(10); /* the loop knows what time it is: the wait is counted by that */
    uint64_t began = belfry_clock_ms();
    open_call(&seen);
    for (size_t i = 0; i < 10; i++) {
        drive_for(8);
        open_call(&crowd[i]);
    }
    drive_until(seen.call == NULL);
    assert_in_range(belfry_clock_ms() - began, UPLINK_WAIT_MS - 50, UPLINK_WAIT_MS + 3000);
    size_t looks = 1; /* at all calls that wait */
    for (uint64_t n = stats().unavailable; n < 11; n = stats().unavailable, looks++)
        drive_until(stats().unavailable > n);
    assert_in_range(looks, 1, 3);
    assert_true(seen.end.lost && seen.end.unprocessed);
    assert_non_null(strstr(seen.why, "connection refused"));
    assert_non_null(strstr(seen.why, upstream_url(bed.members[1])));
    assert_int_equal(stats().unavailable, 11);
    assert_int_equal(upstream_count(bed.members[0]) + upstream_count(bed.members[1]), 0);
}

static void an_endpoint_that_comes_up_in_time_gets_those_who_waited(void **state)
{
    (void)state;
    make(NULL, 1);
    upstream_drop(bed.members[0], true);
    struct seen seen = {.send = "x"};
    open_call(&seen);
    drive_for(300);
    assert_non_null(seen.call);
    upstream_listen(bed.members[0]);
    drive_until(upstream_count(bed.members[0]) == 1);
}

static void destroying_tells_every_call(void **state)
{
    (void)state;
    make(&(struct upstream_opts){.max_streams = 1}, 1);
    struct seen running = {.send = "x"}, waiting = {.send = "x"};
    open_call(&running);
    drive_until(upstream_count(bed.members[0]) == 1);
    open_call(&waiting);
    uplink_destroy(bed.uplink);
    bed.uplink = NULL;
    assert_null(running.call);
    assert_null(waiting.call);
    assert_true(running.end.lost && waiting.end.lost && waiting.end.unprocessed);
}

static void fields_that_http2_does_not_allow_are_refused_and_so_is_too_much(void **state)
{
    (void)state;
    make(NULL, 1);
    struct uplink_call *call;
    static char big[48 * 1024];
    memset(big, 'a', sizeof(big));
    const struct belfry_http_field bad[] = {{belfry_bytes_str("Upper"), belfry_bytes_str("x")},
                                            {belfry_bytes_str(":path"), belfry_bytes_str("/x")},
                                            {belfry_bytes_str("x"), belfry_bytes_str("a\nb")},
                                            {belfry_bytes_str(""), belfry_bytes_str("x")},
                                            {belfry_bytes_str("x"), belfry_bytes_of(big, sizeof(big))}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct uplink_request request = {.path = PATH, .fields = &bad[i], .n_fields = 1};
        assert_int_equal(uplink_open(bed.uplink, NULL, &request, &events, NULL, &call), BELFRY_ERR_INVALID);
    }
    const struct uplink_request no_path = {.path = belfry_bytes_str("x")};
    assert_int_equal(uplink_open(bed.uplink, NULL, &no_path, &events, NULL, &call), BELFRY_ERR_INVALID);
    assert_int_equal(stats().calls, 0);
}

static void there_is_a_limit_on_calls(void **state)
{
    (void)state;
    make(NULL, 1);
    upstream_drop(bed.members[0], true);
    struct seen *seen = test_calloc(UPLINK_CALLS + 1, sizeof(*seen));
    for (size_t i = 0; i < UPLINK_CALLS; i++)
        open_call(&seen[i]);
    assert_int_equal(start(&seen[UPLINK_CALLS], NULL), BELFRY_ERR_LIMIT);
    uplink_close(seen[0].call);
    open_call(&seen[UPLINK_CALLS]);
    uplink_destroy(bed.uplink);
    bed.uplink = NULL;
    test_free(seen);
}

/* ---- whose call it is ---- */

static struct test_keys keys;
static char cert_file[128], key_file[128]; /* that the tier's certificate is read from */

static int make_keys(void **state)
{
    (void)state;
    keys_make(&keys);
    return 0;
}

static int remove_keys(void **state)
{
    (void)state;
    unlink(cert_file);
    unlink(key_file);
    keys_remove(&keys);
    return 0;
}

/* By rename, as certificates are rotated. */
static void copy_file(const char *from, const char *to)
{
    char text[4096], fresh[140];
    snprintf(fresh, sizeof(fresh), "%s.new", to);
    FILE *in = fopen(from, "r"), *out = fopen(fresh, "w");
    assert_non_null(in);
    assert_non_null(out);
    size_t n = fread(text, 1, sizeof(text), in);
    assert_int_equal(fwrite(text, 1, n, out), n);
    fclose(in);
    fclose(out);
    assert_int_equal(rename(fresh, to), 0);
}

static void put_certificate(const char *cert, const char *key)
{
    copy_file(cert, cert_file);
    copy_file(key, key_file);
}

static void make_with(const char *cert, const char *key)
{
    char why[256];
    snprintf(cert_file, sizeof(cert_file), "%s/tier.pem", keys.folder);
    snprintf(key_file, sizeof(key_file), "%s/tier.key", keys.folder);
    put_certificate(cert, key);
    struct belfry_tls_opts opts = {.cacert = keys.ca, .cert = cert_file, .key = key_file};
    assert_int_equal(belfry_tls_create(&opts, &tls, why, sizeof(why)), BELFRY_OK);
    bed.tls = tls;
    make(&(struct upstream_opts){.cert = keys.server, .key = keys.server_key}, 1);
}

/* Sends a call with that field (NULL: none) and returns whether it went up as nobody's. */
static bool goes_as_nobody(struct seen *seen, const char *field, enum uplink_caller caller)
{
    const struct belfry_http_field fields[] = {{belfry_bytes_str("content-type"), belfry_bytes_str("application/grpc")},
                                               {belfry_bytes_str(field != NULL ? field : ""), belfry_bytes_str("t.1")}};
    const struct uplink_request request = {
        .path = PATH, .fields = fields, .n_fields = field != NULL ? 2 : 1, .caller = caller};
    size_t n = upstream_count(bed.members[0]);
    *seen = (struct seen){.send = "x"};
    assert_int_equal(uplink_open(bed.uplink, NULL, &request, &events, seen, &seen->call), BELFRY_OK);
    drive_until(upstream_count(bed.members[0]) == n + 1);
    return upstream_field(bed.members[0], n, "grpcgateway-accept") != NULL;
}

static bool is_what_it_points_at(void *user)
{
    return *(bool *)user;
}

static void a_clients_call_without_a_user_is_sent_as_nobodys_by_a_certificate_with_a_name(void **state)
{
    (void)state;
    make_with(keys.client, keys.client_key);
    struct seen seen[6];
    bool off = false;
    assert_true(uplink_may_have_name(bed.uplink)); /* nothing is known yet */
    assert_true(goes_as_nobody(&seen[0], NULL, UPLINK_CALLER_CLIENT));
    assert_true(uplink_may_have_name(bed.uplink));
    assert_false(goes_as_nobody(&seen[1], "token", UPLINK_CALLER_CLIENT));
    assert_false(goes_as_nobody(&seen[2], "authorization", UPLINK_CALLER_CLIENT));
    assert_false(goes_as_nobody(&seen[3], NULL, UPLINK_CALLER_ANYONE));
    uplink_ask_auth(bed.uplink, is_what_it_points_at, &off);
    assert_true(goes_as_nobody(&seen[4], NULL, UPLINK_CALLER_CLIENT));
    off = true;
    assert_false(goes_as_nobody(&seen[5], NULL, UPLINK_CALLER_CLIENT));
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(uplink_is_lent(seen[i].call), i == 5);
    uplink_ask_auth(bed.uplink, NULL, NULL);
}

static void the_certificate_of_each_connection_decides_when_it_is_rotated(void **state)
{
    (void)state;
    make_with(keys.unnamed, keys.unnamed_key);
    struct seen seen;
    for (int round = 0; round < 2; round++) {
        assert_false(goes_as_nobody(&seen, NULL, UPLINK_CALLER_CLIENT));
        assert_false(uplink_may_have_name(bed.uplink));
        put_certificate(keys.client, keys.client_key);
        assert_false(goes_as_nobody(&seen, NULL, UPLINK_CALLER_CLIENT)); /* by the connection that is there */
        upstream_drop(bed.members[0], false);
        drive_until(seen.call == NULL);
        assert_true(goes_as_nobody(&seen, NULL, UPLINK_CALLER_CLIENT));
        assert_true(uplink_may_have_name(bed.uplink));
        put_certificate(keys.unnamed, keys.unnamed_key);
        assert_true(goes_as_nobody(&seen, NULL, UPLINK_CALLER_CLIENT));
        upstream_drop(bed.members[0], false);
        drive_until(seen.call == NULL);
    }
}

/* ---- Kubernetes' API ---- */

static void a_request_has_its_method_its_base_and_no_body_if_it_is_bodiless(void **state)
{
    (void)state;
    bed.base = "/k8s/clusters/c1";
    bed.is_kube = true;
    make(NULL, 1);
    struct seen seen = {.take = true, .send = "x", .n_send = 5, .send_end = true};
    const struct uplink_request request = {
        .method = belfry_bytes_str("GET"), .path = belfry_bytes_str("/api?a=b"), .is_bodiless = true};
    assert_int_equal(uplink_open(bed.uplink, NULL, &request, &events, &seen, &seen.call), BELFRY_OK);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->ended);
    assert_string_equal(upstream_field(bed.members[0], 0, ":method"), "GET");
    assert_string_equal(upstream_field(bed.members[0], 0, ":path"), "/k8s/clusters/c1/api?a=b");
    assert_int_equal(upstream_request(bed.members[0], 0)->body_len, 0);
    upstream_head(bed.members[0], 0, plain_head, true);
    drive_until(seen.complete);
    assert_int_equal(seen.sent, 0);
}

static void a_clients_call_never_goes_to_an_api_server_by_the_tiers_certificate(void **state)
{
    (void)state;
    bed.is_kube = true;
    make_with(keys.unnamed, keys.unnamed_key); /* an API server may know a user by other names than the common one */
    struct seen seen = {.send = "x"};
    struct uplink_request request = {.path = PATH, .caller = UPLINK_CALLER_CLIENT};
    assert_int_equal(uplink_open(bed.uplink, NULL, &request, &events, &seen, &seen.call), BELFRY_ERR_AUTH);
    assert_false(goes_as_nobody(&seen, NULL, UPLINK_CALLER_ANYONE));
}

static void an_api_server_gets_no_field_of_etcds(void **state)
{
    (void)state;
    char why[256];
    bed.is_kube = true;
    assert_int_equal(belfry_tls_create(&(struct belfry_tls_opts){.cacert = keys.ca}, &tls, why, sizeof(why)),
                     BELFRY_OK);
    bed.tls = tls;
    make(&(struct upstream_opts){.cert = keys.server, .key = keys.server_key}, 1);
    struct seen seen;
    assert_false(goes_as_nobody(&seen, NULL, UPLINK_CALLER_CLIENT));
}

/* ---- memory ---- */

static void run_scenario(struct seen *seen)
{
    uint64_t end = belfry_clock_ms() + SOON_MS;
    bool answered = false;
    while (seen->call != NULL && belfry_clock_ms() < end) {
        turn();
        if (!answered && upstream_count(bed.members[0]) > 0) {
            answered = true;
            upstream_grpc(bed.members[0], 0, "12345", 5, "0");
        }
    }
}

static enum belfry_err scenario(void)
{
    bed.members[0] = upstream_create(NULL);
    bed.base = "/base";
    static struct seen seen;
    seen = (struct seen){.take = true, .send = "", .send_end = true};
    enum belfry_err err = open_bed();
    if (err == BELFRY_OK)
        err = start(&seen, NULL);
    if (err == BELFRY_OK) {
        run_scenario(&seen);
        assert_null(seen.call);
        err = seen.complete ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    close_bed();
    return err;
}

static void without_memory_a_call_ends_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(fields_and_bytes_arrive_as_they_were_given_and_come_back_as_they_were_sent, teardown),
        cmocka_unit_test_teardown(a_response_may_end_without_trailers, teardown),
        cmocka_unit_test_teardown(calls_share_one_connection_and_wait_in_order_for_streams, teardown),
        cmocka_unit_test_teardown(calls_that_wait_behind_long_ones_get_another_connection, teardown),
        cmocka_unit_test_teardown(connections_that_are_full_are_bounded, teardown),
        cmocka_unit_test_teardown(a_closed_call_is_reset_and_one_that_was_not_sent_leaves_no_trace, teardown),
        cmocka_unit_test_teardown(a_call_may_be_closed_from_its_own_data, teardown),
        cmocka_unit_test_teardown(a_stalled_response_holds_one_window_and_nobody_else, teardown),
        cmocka_unit_test_teardown(a_request_goes_on_when_it_has_more_to_say, teardown),
        cmocka_unit_test_teardown(a_reset_says_its_code_and_whether_it_was_seen, teardown),
        cmocka_unit_test_teardown(a_call_that_was_sent_falls_with_its_connection_and_closing_others_meanwhile_is_fine,
                                  teardown),
        cmocka_unit_test_teardown(a_call_that_was_not_sent_goes_over_the_next_connection, teardown),
        cmocka_unit_test_teardown(after_goaway_what_runs_goes_on_and_what_is_new_dials_anew, teardown),
        cmocka_unit_test_teardown(goaway_ends_what_was_not_looked_at, teardown),
        cmocka_unit_test_teardown(calls_with_a_pin_stay_together_and_others_take_turns, teardown),
        cmocka_unit_test_teardown(who_is_pinned_to_an_endpoint_that_is_down_gets_another, teardown),
        cmocka_unit_test_teardown(barred_endpoint_gets_nothing_even_when_there_is_no_other, teardown),
        cmocka_unit_test_teardown(without_any_endpoint_a_call_ends_after_the_wait_and_says_why, teardown),
        cmocka_unit_test_teardown(an_endpoint_that_comes_up_in_time_gets_those_who_waited, teardown),
        cmocka_unit_test_teardown(destroying_tells_every_call, teardown),
        cmocka_unit_test_teardown(fields_that_http2_does_not_allow_are_refused_and_so_is_too_much, teardown),
        cmocka_unit_test_teardown(there_is_a_limit_on_calls, teardown),
        cmocka_unit_test_teardown(a_clients_call_without_a_user_is_sent_as_nobodys_by_a_certificate_with_a_name,
                                  teardown),
        cmocka_unit_test_teardown(the_certificate_of_each_connection_decides_when_it_is_rotated, teardown),
        cmocka_unit_test_teardown(a_request_has_its_method_its_base_and_no_body_if_it_is_bodiless, teardown),
        cmocka_unit_test_teardown(a_clients_call_never_goes_to_an_api_server_by_the_tiers_certificate, teardown),
        cmocka_unit_test_teardown(an_api_server_gets_no_field_of_etcds, teardown),
        cmocka_unit_test_teardown(without_memory_a_call_ends_and_nothing_leaks, teardown),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
