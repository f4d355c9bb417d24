/* src/kapi/api_calls_test.c: the connections of a client over TLS and HTTP/2, against the server's half of net on a
 * loop of its own in the same thread. Over HTTP/1.1: here which connection a call goes to, else kube_client_test.c. */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include <belfry/kube.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/rng.h"
#include "kapi/kube_request.h"
#include "net/tls_test_keys.h"
#include "server/inbound.h"
#include "support/refuse.h"

#define SOON_MS   5000
#define EXCHANGES 1024 /* what is tried again on a busy machine included */
#define CALLERS   64

static struct test_keys keys;

/* ---- the server ---- */

struct served {
    struct exchange *x; /* NULL: over */
    uint64_t conn;
    bool taken; /* by the test */
    bool begun; /* its head was sent */
};

static struct server {
    uv_loop_t loop;
    struct inbound_group *group;
    struct belfry_tls *tls;
    int listener;
    uint16_t port;
    struct served served[EXCHANGES];
    size_t n_served, n_gone, n_accepted;
    size_t refuse; /* so many of those that come are refused */
    bool is_plain; /* so its clients speak HTTP/1.1 */
} server;

static void on_gone(struct exchange *x, void *user)
{
    struct served *served = user;
    assert_ptr_equal(served->x, x);
    served->x = NULL;
    server.n_gone++;
}

static const struct exchange_events exchange_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = exchange_ignore, .gone = on_gone};

static void on_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    (void)head;
    (void)user;
    assert_true(server.n_served < EXCHANGES);
    if (server.refuse > 0) {
        server.refuse--;
        exchange_reset(x, 7); /* REFUSED_STREAM */
        return;
    }
    struct served *served = &server.served[server.n_served++];
    *served = (struct served){.x = x, .conn = exchange_conn(x)->id};
    exchange_handle(x, &exchange_events, served);
}

static void serve_with(const char *cert, const char *key, uint32_t max_streams)
{
    char why[256];
    struct belfry_tls_server_opts tls = {.cert = cert, .key = key};
    struct inbound_opts opts = {.loop = &server.loop, .begin = on_begin, .max_streams = max_streams};
    if (!server.is_plain)
        assert_int_equal(belfry_tls_create_server(&tls, &server.tls, why, sizeof(why)), BELFRY_OK);
    assert_int_equal(inbound_create(&opts, &server.group), BELFRY_OK);
}

static void listen_at(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof(address);
    int on = 1;
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(server.listener >= 0);
    setsockopt(server.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(server.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server.listener, 16), 0);
    assert_int_equal(getsockname(server.listener, (struct sockaddr *)&address, &len), 0);
    server.port = ntohs(address.sin_port);
}

static void serve_turn(void)
{
    int fd;
    if (server.group == NULL)
        return;
    while ((fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        server.n_accepted++;
        struct inbound_arrival arrival = {.fd = fd, .tls = server.tls};
        enum belfry_err err = inbound_accept(server.group, &arrival, belfry_clock_ms());
        assert_true(err == BELFRY_OK || err == BELFRY_ERR_NOMEM);
    }
    uv_run(&server.loop, UV_RUN_NOWAIT);
    while (inbound_flush(server.group, belfry_clock_ms())) {
    }
    uv_run(&server.loop, UV_RUN_NOWAIT);
}

static void stop_serving(void)
{
    inbound_destroy(server.group);
    server.group = NULL;
    belfry_tls_destroy(server.tls);
    server.tls = NULL;
    for (int i = 0; i < 10; i++)
        uv_run(&server.loop, UV_RUN_NOWAIT);
}

/* The next request that nobody has taken. */
static struct served *next_served(void)
{
    for (size_t i = 0; i < server.n_served; i++) {
        if (!server.served[i].taken && server.served[i].x != NULL) {
            server.served[i].taken = true;
            return &server.served[i];
        }
    }
    return NULL;
}

static void begin(struct served *served)
{
    static const struct belfry_http_field json = {{"content-type", 12}, {"application/json", 16}};
    served->begun = true;
    exchange_respond(served->x, 200, &json, 1);
}

static void say(struct served *served, const char *name, const char *version)
{
    char text[256];
    int n =
        snprintf(text, sizeof(text),
                 "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\","
                 "\"namespace\":\"x\",\"resourceVersion\":\"%s\"}}}\n",
                 name, version);
    exchange_write(served->x, text, (size_t)n);
}

static void end(struct served *served)
{
    exchange_end(served->x, NULL, 0);
    served->x = NULL;
}

/* ---- the client ---- */

struct caller {
    struct belfry_kube_request *request; /* NULL: gone */
    size_t n_events, n_ends;
    int err;
    char last[32], why[256];
    enum belfry_next next; /* answered once */
};

static struct client {
    struct belfry *b;
    struct belfry_kube *k;
    struct caller callers[CALLERS];
    size_t n_callers, n_lines;
    bool inside;
    size_t held;
} client;

static enum belfry_next on_event(struct belfry_kube_request *request, const struct belfry_kube_event *event, void *user)
{
    struct caller *caller = user;
    assert_true(client.inside);
    assert_int_equal(caller->n_ends, 0);
    assert_ptr_equal(caller->request, request);
    if (event->kind == BELFRY_KUBE_END) {
        caller->n_ends++;
        caller->err = event->err;
        caller->request = NULL;
        snprintf(caller->why, sizeof(caller->why), "%s", event->why);
    } else {
        caller->n_events++;
        snprintf(caller->last, sizeof(caller->last), "%.*s", (int)event->version.len, event->version.data);
    }
    enum belfry_next next = caller->next;
    caller->next = BELFRY_MORE;
    return next;
}

static struct caller *watch_pods(void)
{
    assert_true(client.n_callers < CALLERS);
    struct caller *caller = &client.callers[client.n_callers++];
    assert_int_equal(
        belfry_kube_watch(client.k, belfry_resource("v1", "pods", NULL), NULL, on_event, caller, &caller->request),
        BELFRY_OK);
    return caller;
}

static enum belfry_err open_client(void)
{
    char url[64], why[256];
    struct belfry_opts *opts = NULL;
    memset(&client.callers, 0, sizeof(client.callers));
    client.n_callers = client.n_lines = 0;
    snprintf(url, sizeof(url), "%s://127.0.0.1:%u", server.is_plain ? "http" : "https", server.port);
    int err = belfry_open(NULL, NULL, &client.b);
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "server", url);
    if (err == BELFRY_OK && !server.is_plain)
        err = belfry_opts_set(&opts, "cacert", keys.ca);
    if (err == BELFRY_OK)
        err = belfry_kube_open(client.b, opts, &client.k, why, sizeof(why));
    belfry_opts_free(opts);
    return (enum belfry_err)err;
}

static void close_client(void)
{
    client.inside = true;
    belfry_close(client.b);
    client.inside = false;
    client.b = NULL;
    client.k = NULL;
}

static bool is_readable(int ms)
{
    struct pollfd fd = {.fd = belfry_fd(client.b), .events = POLLIN};
    return poll(&fd, 1, ms) == 1;
}

/* The client's turn comes when its descriptor says so: what it does not say is not done. */
static void turn(void)
{
    serve_turn();
    if (!is_readable(1))
        return;
    client.inside = true;
    assert_int_equal(belfry_dispatch(client.b), BELFRY_OK);
    client.inside = false;
}

#define drive_until(condition)                                                                                         \
    do {                                                                                                               \
        uint64_t end_ = belfry_clock_ms() + SOON_MS;                                                                   \
        while (!(condition) && belfry_clock_ms() < end_)                                                               \
            turn();                                                                                                    \
        assert_true(condition);                                                                                        \
    } while (0)

static void drive_for(uint64_t ms)
{
    uint64_t until = belfry_clock_ms() + ms;
    while (belfry_clock_ms() < until)
        turn();
}

static struct served *next_request(void)
{
    struct served *served = NULL;
    drive_until(served != NULL || (served = next_served()) != NULL);
    return served;
}

/* A watch that has had its first event. */
static struct served *watching(struct caller **out)
{
    *out = watch_pods();
    struct served *served = next_request();
    begin(served);
    say(served, "a", "5");
    drive_until((*out)->n_events == 1);
    return served;
}

static const struct belfry_kube_stats *stats(void)
{
    return belfry_kube_get_stats(client.k);
}

/* ---- a bed for each test ---- */

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

static int setup_with(uint32_t max_streams, bool is_plain)
{
    memset(&server, 0, sizeof(server));
    server.is_plain = is_plain;
    memset(&client, 0, sizeof(client));
    client.held = refuse_held();
    assert_int_equal(uv_loop_init(&server.loop), 0);
    serve_with(keys.server, keys.server_key, max_streams);
    listen_at(0);
    return open_client() == BELFRY_OK ? 0 : -1;
}

static int setup(void **state)
{
    (void)state;
    return setup_with(0, false);
}

static int setup_narrow(void **state)
{
    (void)state;
    return setup_with(4, false);
}

static int setup_sixteen(void **state)
{
    (void)state;
    return setup_with(16, false);
}

static int setup_plain(void **state)
{
    (void)state;
    return setup_with(0, true);
}

static int teardown(void **state)
{
    (void)state;
    close_client();
    stop_serving();
    close(server.listener);
    assert_int_equal(uv_loop_close(&server.loop), 0);
    if (refuse_held() != client.held)
        fail_msg("%zd blocks leaked", (ssize_t)(refuse_held() - client.held));
    return 0;
}

/* ---- streams ---- */

static void many_watches_share_a_connection(void **state)
{
    (void)state;
    struct served *served[40];
    for (int i = 0; i < 40; i++)
        watch_pods();
    for (int i = 0; i < 40; i++) {
        served[i] = next_request();
        begin(served[i]);
        say(served[i], "a", "5");
    }
    for (size_t i = 0; i < 40; i++)
        drive_until(client.callers[i].n_events == 1);
    assert_int_equal(stats()->connections, 1);
    assert_int_equal(stats()->http2, 1);
    for (int i = 0; i < 40; i++)
        end(served[i]);
    for (size_t i = 0; i < 40; i++) {
        drive_until(client.callers[i].n_ends == 1);
        assert_int_equal(client.callers[i].err, BELFRY_OK);
    }
    assert_int_equal(stats()->losses, 0);
}

/* The server allows four streams. */
static void beyond_the_peers_limit_another_connection_is_made(void **state)
{
    (void)state;
    struct caller *callers[11];
    watching(&callers[0]); /* now the limit is known */
    for (int i = 1; i < 11; i++)
        callers[i] = watch_pods();
    for (int i = 1; i < 11; i++) {
        struct served *served = next_request();
        begin(served);
        say(served, "a", "5");
    }
    for (int i = 0; i < 11; i++)
        drive_until(callers[i]->n_events == 1);
    assert_in_range(stats()->connections, 3, 5); /* a new one is filled before its limit is known */
    assert_int_equal(stats()->http2, stats()->connections);
    size_t accepted = server.n_accepted;
    belfry_kube_cancel(callers[0]->request);
    callers[0]->request = NULL;
    drive_until(server.n_gone >= 1);
    struct caller *caller;
    watching(&caller); /* takes its place */
    assert_int_equal(server.n_accepted, accepted);
}

static enum belfry_next on_decoded(struct belfry_kube_request *request, const struct belfry_decoded *decoded,
                                   void *user)
{
    (void)request;
    (void)decoded;
    (void)user;
    return BELFRY_MORE;
}

struct lister {
    struct belfry_kube_request *request;
    struct served *served;
    uint64_t link; /* it came on */
    bool is_over;
};

static void on_opened(struct belfry_kube_request *request, void *user)
{
    struct lister *lister = user;
    lister->link = belfry_request_link(request);
}

static void on_ended(struct belfry_kube_request *request, const struct belfry_ended *ended, void *user)
{
    struct lister *lister = user;
    (void)request;
    (void)ended;
    lister->is_over = true;
}

/* The request is with the server, which has not answered. */
static void open_list(struct lister *lister, uint64_t link)
{
    static const struct belfry_request_hooks hooks = {.decoded = on_decoded, .opened = on_opened, .ended = on_ended};
    struct belfry_request_ask ask = {
        .mode = BELFRY_DECODE_LIST, .target = {.base = "", .group_version = "v1", .plural = "pods"}, .link = link};
    *lister = (struct lister){0};
    assert_int_equal(belfry_request_open(client.k, &ask, &hooks, lister, &lister->request), BELFRY_OK);
    lister->served = next_request();
}

static void answer_list(struct lister *lister)
{
    static const char page[] = "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"9\"},"
                               "\"items\":[]}";
    begin(lister->served);
    exchange_write(lister->served->x, page, sizeof(page) - 1);
    end(lister->served);
    drive_until(lister->is_over);
}

/* Where a list that prefers `link` goes to. */
static uint64_t conn_of_list(uint64_t link)
{
    struct lister lister;
    open_list(&lister, link);
    uint64_t conn = lister.served->conn;
    belfry_kube_cancel(lister.request);
    drive_for(5);
    return conn;
}

/* Behind the address of a balancer they may lead to different servers. */
static void two_connections_at_the_same_time_are_two_links(void **state)
{
    (void)state;
    struct caller *callers[20];
    struct served *served[20];
    for (int i = 0; i < 20; i++)
        served[i] = watching(&callers[i]);
    assert_int_not_equal(served[0]->conn, served[19]->conn);
    for (int i = 0; i < 20; i++) {
        bool same = served[i]->conn == served[0]->conn;
        assert_int_equal(belfry_request_link(callers[i]->request) == belfry_request_link(callers[0]->request), same);
    }
    for (int i = 0; i < 20; i += 19) /* watches leave room for it */
        assert_int_equal(conn_of_list(belfry_request_link(callers[i]->request)), served[i]->conn);
}

/* Over HTTP/1.1, too, though each has one call at a time: who prefers one that is free gets it, and else another. */
static void connections_of_http1_are_links_of_their_own(void **state)
{
    (void)state;
    struct lister one, other, again;
    open_list(&one, 0);
    open_list(&other, 0);
    assert_int_not_equal(one.served->conn, other.served->conn);
    answer_list(&one);
    answer_list(&other);
    assert_true(one.link != 0 && other.link != 0 && one.link != other.link);
    assert_true(one.link % 2 == 0 && other.link % 2 == 0); /* nothing else can go there meanwhile */
    const struct lister *firsts[] = {&one, &other, &other, &one, &one};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        uint64_t conn = firsts[i]->served->conn;
        open_list(&again, firsts[i]->link);
        assert_int_equal(again.served->conn, conn);
        answer_list(&again);
        assert_int_equal(again.link, firsts[i]->link);
    }
    open_list(&again, one.link);
    struct lister late;
    open_list(&late, one.link);
    assert_int_equal(late.served->conn, other.served->conn);
    answer_list(&late);
    answer_list(&again);
    assert_int_equal(again.link, one.link);
    assert_int_equal(late.link, other.link);
    assert_int_equal(server.n_accepted, 2);
}

/* One that has ended is not confused with the one that is made in its place. */
static void connection_of_http1_made_anew_is_another_link(void **state)
{
    (void)state;
    struct lister one, other;
    open_list(&one, 0);
    answer_list(&one);
    inbound_shut(server.group, INBOUND_ALL, SIZE_MAX);
    drive_for(20);
    inbound_destroy(server.group);
    belfry_tls_destroy(server.tls);
    serve_with(keys.server, keys.server_key, 0);
    open_list(&other, one.link);
    answer_list(&other);
    assert_int_not_equal(other.link, one.link);
}

static void a_refused_stream_is_sent_again_at_once(void **state)
{
    (void)state;
    uint64_t began = belfry_clock_ms();
    struct caller *caller;
    server.refuse = 1;
    watching(&caller);
    assert_true(belfry_clock_ms() - began < 800);
    assert_int_equal(stats()->retries, 0);
}

static void a_server_that_refuses_every_stream_is_not_asked_without_a_pause(void **state)
{
    (void)state;
    server.refuse = 1000;
    watch_pods();
    drive_for(500);
    assert_in_range(1000 - server.refuse, 2, 4);
    assert_int_equal(client.callers[0].n_ends, 0);
}

static void a_watch_goes_on_while_its_connection_is_left(void **state)
{
    (void)state;
    struct caller *old, *new;
    struct served *served = watching(&old);
    inbound_shut(
        server.group, INBOUND_ALL,
        SIZE_MAX); /* GOAWAY; and every connection that comes is told to leave, too, so there is another server: */
    drive_for(50);
    struct inbound_group *leaving = server.group;
    struct belfry_tls *tls = server.tls;
    serve_with(keys.server, keys.server_key, 0);
    struct served *other = watching(&new);
    assert_int_not_equal(served->conn, other->conn);
    say(served, "b", "6");
    inbound_flush(leaving, belfry_clock_ms());
    drive_until(old->n_events == 2);
    assert_int_equal(stats()->connections, 2);
    end(served);
    inbound_flush(leaving, belfry_clock_ms());
    drive_until(old->n_ends == 1);
    assert_int_equal(old->err, BELFRY_OK);
    assert_int_equal(stats()->connections, 1);
    inbound_destroy(leaving);
    belfry_tls_destroy(tls);
}

/* ---- cancelling and pausing ---- */

static void a_watch_cancelled_from_outside_is_told_to_the_server(void **state)
{
    (void)state;
    struct caller *caller;
    watching(&caller);
    drive_for(20);
    assert_false(is_readable(0));
    belfry_kube_cancel(caller->request);
    caller->request = NULL;
    assert_true(is_readable(0));
    drive_until(server.n_gone == 1);
    drive_for(20);
    assert_false(is_readable(0));
    assert_int_equal(stats()->connections, 1);
}

static void a_paused_watch_does_not_hold_up_the_others(void **state)
{
    (void)state;
    struct caller *paused, *other;
    struct served *served = watching(&paused), *free_one = watching(&other);
    paused->next = BELFRY_PAUSE;
    for (int i = 0; i < 1000; i++)
        say(served, "a", "6");
    drive_until(paused->n_events == 2);
    say(free_one, "b", "7");
    drive_until(other->n_events == 2);
    drive_for(20);
    assert_int_equal(paused->n_events, 2);
    assert_false(is_readable(0));
    belfry_kube_resume(paused->request);
    drive_until(paused->n_events == 1001);
}

static void what_came_before_a_connection_was_lost_is_given_when_the_pause_ends(void **state)
{
    (void)state;
    struct caller *whole, *broken, *other;
    struct served *first = watching(&whole), *second = watching(&broken);
    watching(&other);
    whole->next = broken->next = BELFRY_PAUSE;
    for (int i = 0; i < 10; i++) {
        say(first, "a", "6");
        say(second, "a", "6");
        serve_turn();
    }
    drive_until(whole->n_events == 2 && broken->n_events == 2);
    say(first, "a", "7");
    say(second, "a", "7");
    end(first);
    drive_for(20);
    stop_serving();
    drive_for(20);
    serve_with(keys.server, keys.server_key, 0);
    drive_until(other->n_ends == 1); /* who is not paused knows at once */
    assert_int_equal(whole->n_ends + broken->n_ends, 0);
    belfry_kube_resume(whole->request);
    belfry_kube_resume(broken->request);
    drive_until(whole->n_ends == 1 && broken->n_ends == 1);
    assert_int_equal(whole->n_events, 12);
    assert_int_equal(whole->err, BELFRY_OK);
    assert_int_equal(broken->n_events, 12);
    assert_int_equal(broken->err, BELFRY_ERR_UNAVAILABLE);
    assert_int_equal(stats()->losses, 1);
    assert_int_equal(stats()->connections, 0);
}

static void a_paused_watch_can_be_cancelled_when_its_connection_is_lost(void **state)
{
    (void)state;
    struct caller *caller;
    struct served *served = watching(&caller);
    caller->next = BELFRY_PAUSE;
    say(served, "a", "6");
    drive_until(caller->n_events == 2);
    stop_serving();
    drive_for(20);
    serve_with(keys.server, keys.server_key, 0);
    belfry_kube_cancel(caller->request);
    caller->request = NULL;
    drive_for(20);
    assert_int_equal(caller->n_ends, 0);
    assert_int_equal(stats()->connections, 0);
    watching(&caller);
}

/* ---- a connection that is lost ---- */

/* A connection that was idle once: the server ends it before it answers anybody. */
static void all_that_wait_for_an_answer_on_an_old_connection_are_sent_again(void **state)
{
    (void)state;
    struct caller *first;
    end(watching(&first));
    drive_until(first->n_ends == 1);
    struct caller *callers[3];
    for (int i = 0; i < 3; i++)
        callers[i] = watch_pods();
    for (int i = 0; i < 3; i++)
        next_request();
    stop_serving();
    serve_with(keys.server, keys.server_key, 0);
    uint64_t began = belfry_clock_ms();
    for (int i = 0; i < 3; i++) {
        struct served *served = next_request();
        begin(served);
        say(served, "a", "5");
    }
    for (int i = 0; i < 3; i++)
        drive_until(callers[i]->n_events == 1);
    assert_true(belfry_clock_ms() - began < 800);
    assert_int_equal(stats()->retries, 0);
    assert_int_equal(stats()->losses, 1);
}

/* ---- TLS ---- */

static void count_line(enum belfry_level level, const char *event, const char *text, void *user)
{
    (void)user;
    if (level != BELFRY_WARN || strcmp(event, "tls_kept") != 0)
        return;
    assert_non_null(strstr(text, "ca.pem"));
    client.n_lines++;
}

static void copy_file(const char *from, const char *to)
{
    char bytes[8192];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    assert_true(in != NULL && out != NULL);
    size_t n = fread(bytes, 1, sizeof(bytes), in);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    fclose(out);
}

static void lose_and_watch_again(struct caller **out)
{
    stop_serving();
    serve_with(keys.server, keys.server_key, 0);
    for (size_t i = 0; i < client.n_callers; i++)
        drive_until(client.callers[i].n_ends == 1);
    *out = watch_pods();
}

static void files_that_change_are_followed_and_those_that_cannot_be_used_told_once(void **state)
{
    (void)state;
    struct caller *caller;
    char kept[128];
    snprintf(kept, sizeof(kept), "%s/kept.pem", keys.folder);
    copy_file(keys.ca, kept);
    belfry_set_log(client.b, BELFRY_INFO, count_line, NULL);
    watching(&caller);
    FILE *broken = fopen(keys.ca, "w");
    assert_non_null(broken);
    fputs("this is no certificate\n", broken);
    fclose(broken);
    for (int i = 0; i < 3; i++) {
        lose_and_watch_again(&caller); /* the old one serves on */
        begin(next_request());
        drive_for(10);
    }
    assert_int_equal(client.n_lines, 1);
    copy_file(keys.other_ca, keys.ca);
    lose_and_watch_again(&caller);
    drive_until(caller->n_ends == 1); /* by which the server is a stranger */
    assert_int_equal(caller->err, BELFRY_ERR_TLS);
    copy_file(kept, keys.ca);
    caller = watch_pods();
    begin(next_request());
    drive_for(10);
    assert_int_equal(caller->n_ends, 0);
    assert_int_equal(client.n_lines, 1);
    unlink(kept);
}

/* ---- anything in any order ---- */

static struct served *any_served(struct belfry_rng *rng)
{
    if (server.n_served == 0)
        return NULL;
    struct served *served = &server.served[belfry_rng_below(rng, server.n_served)];
    return served->x != NULL ? served : next_served();
}

static void client_does_something(struct belfry_rng *rng)
{
    struct caller *caller = &client.callers[belfry_rng_below(rng, CALLERS)];
    uint64_t what = belfry_rng_below(rng, 6);
    if (caller->request == NULL) {
        if (client.n_callers < CALLERS)
            watch_pods();
    } else if (what == 0) {
        belfry_kube_cancel(caller->request);
        caller->request = NULL;
    } else if (what == 1) {
        belfry_kube_resume(caller->request);
    } else {
        caller->next = what == 2 ? BELFRY_PAUSE : BELFRY_MORE;
    }
}

static void server_does_something(struct belfry_rng *rng)
{
    struct served *served = any_served(rng);
    uint64_t what = belfry_rng_below(rng, 40);
    if (what == 0) {
        stop_serving();
        serve_with(keys.server, keys.server_key, (uint32_t)belfry_rng_below(rng, 3));
    } else if (what == 1) {
        server.refuse = belfry_rng_below(rng, 3);
    } else if (served == NULL) {
        return;
    } else if (what < 5) {
        struct exchange *x = served->x;
        served->x = NULL;
        exchange_reset(x, what == 2 ? 7 : 8);
    } else if (!served->begun) {
        begin(served);
    } else if (what < 8) {
        end(served);
    } else {
        say(served, "a", "6");
    }
}

static void whatever_happens_in_whatever_order_it_ends_well(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 15; seed++) {
        struct belfry_rng rng = {seed};
        server.n_served = server.refuse = 0;
        for (int i = 0; i < 150; i++) {
            client_does_something(&rng);
            server_does_something(&rng);
            if (belfry_rng_below(&rng, 3) > 0)
                turn();
        }
        if (seed % 2 == 0) {
            client.inside = true;
            belfry_kube_close(client.k);
            client.inside = false;
        }
        close_client();
        for (size_t i = 0; i < client.n_callers; i++)
            assert_null(client.callers[i].request);
        stop_serving();
        serve_with(keys.server, keys.server_key, 0);
        assert_int_equal(open_client(), BELFRY_OK);
    }
}

/* ---- out of memory ---- */

static enum belfry_err life(void)
{
    enum belfry_err err = open_client();
    struct caller *caller = &client.callers[0];
    client.n_callers = 1;
    server.n_served = 0;
    if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_kube_watch(client.k, belfry_resource("v1", "pods", NULL), NULL, on_event, caller,
                                                 &caller->request);
    uint64_t until = belfry_clock_ms() + 60; /* what waits a second to be tried again is not waited for */
    while (err == BELFRY_OK && caller->n_ends == 0 && belfry_clock_ms() < until) {
        turn();
        struct served *served = next_served();
        if (served != NULL) {
            begin(served);
            say(served, "a", "5");
            end(served);
        }
    }
    close_client();
    for (int i = 0; i < 5; i++)
        serve_turn();
    return err;
}

/* The server's own memory is refused in the same way: it then ends the connection. What it keeps goes with it, so that
 * leaks are counted at the end of the test. */
static void no_memory_is_an_end_and_leaks_nothing(void **state)
{
    (void)state;
    size_t n = 0;
    bool reached = true;
    close_client();
    for (; reached; n++) {
        refuse_begin(n);
        enum belfry_err err = life();
        reached = refuse_end();
        assert_true(err == BELFRY_OK || (reached && err == BELFRY_ERR_NOMEM));
        for (int i = 0; i < 5; i++)
            serve_turn();
        assert_int_equal(inbound_connections(server.group), 0);
    }
    assert_true(n > 50);
    assert_int_equal(open_client(), BELFRY_OK);
}

#define row(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(many_watches_share_a_connection),
        cmocka_unit_test_setup_teardown(beyond_the_peers_limit_another_connection_is_made, setup_narrow, teardown),
        cmocka_unit_test_setup_teardown(two_connections_at_the_same_time_are_two_links, setup_sixteen, teardown),
        cmocka_unit_test_setup_teardown(connections_of_http1_are_links_of_their_own, setup_plain, teardown),
        cmocka_unit_test_setup_teardown(connection_of_http1_made_anew_is_another_link, setup_plain, teardown),
        row(a_refused_stream_is_sent_again_at_once),
        row(a_server_that_refuses_every_stream_is_not_asked_without_a_pause),
        row(a_watch_goes_on_while_its_connection_is_left),
        row(a_watch_cancelled_from_outside_is_told_to_the_server),
        row(a_paused_watch_does_not_hold_up_the_others),
        row(what_came_before_a_connection_was_lost_is_given_when_the_pause_ends),
        row(a_paused_watch_can_be_cancelled_when_its_connection_is_lost),
        row(all_that_wait_for_an_answer_on_an_old_connection_are_sent_again),
        row(files_that_change_are_followed_and_those_that_cannot_be_used_told_once),
        row(whatever_happens_in_whatever_order_it_ends_well),
        row(no_memory_is_an_end_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
