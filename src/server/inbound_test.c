/* src/server/inbound_test.c: a group with real sockets on loopback; the peers are plain sockets of the suite. */
#include "server/inbound.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/tls_test_keys.h"
#include "server/inbound_probe.h"
#include "support/refuse.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define HELLO     "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"

/* Of the PROXY protocol: 203.0.113.9:4711 connects to 192.0.2.1:23790. */
#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define HEAD_V4   SIGNATURE "\x21\x11\0\x0c\xcb\0\x71\x09\xc0\0\2\1\x12\x67\x5c\xee"
static const struct client_network loopback_v4 = {{.family = CLIENT_IPV4, .bytes = {127}}, 8};
static const struct client_networks loopback = {&loopback_v4, 1};

#define N_OPEN 16

/* The handler: /hello answers; /open responds and stays open; /pump responds and writes for ever, as there is room. */
struct fixture {
    uv_loop_t loop;
    struct inbound_group *group;
    exchange_begin_fn begin; /* another handler; NULL: that one */
    struct exchange *open[N_OPEN];
    size_t n_open;
    size_t pumped[N_OPEN]; /* bytes written by each /pump */
    int n_gone, n_begun;
    char user[64], peer[64], client[64]; /* client: as shares name it */
    struct client_address address;
    const void *policy;
    uint64_t id;
    bool tls;
    struct belfry_tls *server_tls;         /* owned; NULL: none yet */
    const struct client_networks *proxies; /* of connections from now on */
    const char *head;                      /* what a peer with TLS sends first: HEAD_V4, NULL: nothing */
};

static struct fixture f;
static struct test_keys keys;

static size_t place_of(const struct exchange *x)
{
    size_t i = 0;
    while (i < N_OPEN && f.open[i] != x)
        i++;
    assert_true(i < N_OPEN);
    return i;
}

static void pump(struct exchange *x)
{
    static const char bytes[8192];
    size_t room;
    while ((room = exchange_room(x)) > 0) {
        size_t n = room < sizeof(bytes) ? room : sizeof(bytes);
        exchange_write(x, bytes, n);
        f.pumped[place_of(x)] += n;
    }
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)user;
    exchange_taken(x, bytes.len);
}

static void on_body_end(struct exchange *x, void *user)
{
    (void)x, (void)user;
}

static void on_writable(struct exchange *x, void *user)
{
    (void)user;
    if (f.pumped[place_of(x)] > 0)
        pump(x);
}

static void on_gone(struct exchange *x, void *user)
{
    (void)user;
    f.open[place_of(x)] = NULL;
    f.n_gone++;
}

static const struct exchange_events events = {on_body, on_body_end, on_writable, on_gone};

static void begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    const struct exchange_conn *conn = exchange_conn(x);
    assert_ptr_equal(user, &f);
    if (f.begin != NULL) {
        f.begin(x, head, user);
        return;
    }
    f.n_begun++;
    f.id = conn->id;
    f.policy = conn->policy;
    f.tls = conn->tls;
    snprintf(f.user, sizeof(f.user), "%s", conn->user != NULL ? conn->user : "");
    snprintf(f.peer, sizeof(f.peer), "%s", conn->peer);
    snprintf(f.client, sizeof(f.client), "%s", shares_name(exchange_share(x)));
    f.address = conn->address;
    if (belfry_bytes_equal(head->path, belfry_bytes_str("/hello"))) {
        exchange_answer(x, 200, NULL, 0, belfry_bytes_str("hello"));
        return;
    }
    assert_true(f.n_open < N_OPEN);
    f.open[f.n_open++] = x;
    exchange_handle(x, &events, NULL);
    exchange_respond(x, 200, NULL, 0);
    exchange_set_probes(x, belfry_bytes_equal(head->path, belfry_bytes_str("/ready")));
    if (belfry_bytes_equal(head->path, belfry_bytes_str("/pump")))
        pump(x);
}

static enum belfry_err open_group(struct inbound_opts opts)
{
    memset(&f, 0, sizeof(f));
    assert_int_equal(uv_loop_init(&f.loop), 0);
    opts.loop = &f.loop;
    opts.begin = begin;
    opts.user = &f;
    return inbound_create(&opts, &f.group);
}

static void close_group(void)
{
    inbound_destroy(f.group);
    f.group = NULL;
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f.loop), 0);
    belfry_tls_destroy(f.server_tls);
    f.server_tls = NULL;
}

static int setup(void **state)
{
    (void)state;
    return open_group((struct inbound_opts){.greet_ms = 600, .linger_ms = 200, .idle_ms = 1500}) == BELFRY_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    int open = 0, gone = f.n_gone;
    for (size_t i = 0; i < N_OPEN; i++)
        open += f.open[i] != NULL;
    close_group();
    assert_int_equal(f.n_gone, gone + open);
    assert_int_equal(refuse_held(), 0);
    return 0;
}

/* ---- the loop, as its owner turns it ---- */

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void turn(void)
{
    uv_timer_t timer;
    for (int i = 0; i < 8 && inbound_flush(f.group, belfry_clock_ms()); i++)
        ;
    uv_timer_init(&f.loop, &timer);
    uv_timer_start(&timer, on_tick, 5, 0);
    uv_run(&f.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    inbound_flush(f.group, belfry_clock_ms());
}

static struct inbound_stats stats(void)
{
    struct inbound_stats s;
    inbound_stats(f.group, &s);
    return s;
}

/* ---- the peer ---- */

static void make_pair(int *client, int *server, int client_rcvbuf)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &len), 0);
    *client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client_rcvbuf != 0)
        setsockopt(*client, SOL_SOCKET, SO_RCVBUF, &client_rcvbuf, sizeof(client_rcvbuf));
    assert_int_equal(connect(*client, (struct sockaddr *)&at, sizeof(at)), 0);
    *server = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(*server >= 0);
    close(listening);
    fcntl(*client, F_SETFL, O_NONBLOCK);
}

/* The peer is said to be 127.0.0.1:5. */
static enum belfry_err accept_from(int server, const uint8_t address[4], struct belfry_tls *tls)
{
    static const int policy = 7;
    struct inbound_arrival arrival = {
        .fd = server, .peer = client_address_ipv4(address, 5), .tls = tls, .policy = &policy, .proxies = f.proxies};
    return inbound_accept(f.group, &arrival, belfry_clock_ms());
}

static enum belfry_err accept_plain(int server, struct belfry_tls *tls)
{
    return accept_from(server, (const uint8_t[]){127, 0, 0, 1}, tls);
}

static int connect_peer(struct belfry_tls *tls)
{
    int client, server;
    make_pair(&client, &server, 0);
    assert_int_equal(accept_plain(server, tls), BELFRY_OK);
    return client;
}

static void say_bytes(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

/* Turns the loop until the peer has heard `len` bytes, or the connection's end (returned then: what came). */
static size_t hear(int fd, char *buf, size_t len)
{
    uint64_t end = belfry_clock_ms() + 5000;
    size_t got = 0;
    while (got < len && belfry_clock_ms() < end) {
        ssize_t n = recv(fd, buf + got, len - got, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return got;
        if (n > 0)
            got += (size_t)n;
        else
            turn();
    }
    return got;
}

static void expect(int fd, const char *expected)
{
    char buf[1024] = "";
    size_t len = strlen(expected);
    assert_true(len < sizeof(buf));
    if (hear(fd, buf, len) != len || memcmp(buf, expected, len) != 0)
        fail_msg("expected <%s>, got <%s>", expected, buf);
}

/* True: the connection ends within the time, without another byte. */
static bool ends_within(int fd, uint64_t ms)
{
    char byte;
    uint64_t end = belfry_clock_ms() + ms;
    while (belfry_clock_ms() < end) {
        ssize_t n = recv(fd, &byte, 1, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        assert_true(n < 0);
        turn();
    }
    return false;
}

/* The same, whatever is said before. */
static bool ends_at_last(int fd, uint64_t ms)
{
    char bytes[4096];
    uint64_t end = belfry_clock_ms() + ms;
    while (belfry_clock_ms() < end) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        turn();
    }
    return false;
}

static void turn_until_begun(int n)
{
    uint64_t end = belfry_clock_ms() + 5000;
    while (f.n_begun < n && belfry_clock_ms() < end)
        turn();
    assert_int_equal(f.n_begun, n);
}

static void turn_for(uint64_t ms)
{
    for (uint64_t end = belfry_clock_ms() + ms; belfry_clock_ms() < end;)
        turn();
}

/* ---- HTTP/1.1 ---- */

static void http1_is_served_and_kept_alive(void **state)
{
    (void)state;
    int fd = connect_peer(NULL);
    say(fd, GET("/hello"));
    expect(fd, HELLO);
    uint64_t id = f.id;
    say(fd, GET("/hello") GET("/hello"));
    expect(fd, HELLO HELLO);
    assert_int_equal(f.id, id);
    assert_string_equal(f.peer, "127.0.0.1:5");
    assert_string_equal(f.client, "127.0.0.0/8");
    assert_string_equal(f.user, "");
    assert_int_equal(*(const int *)f.policy, 7);
    assert_int_equal(stats().http1, 1);
    int other = connect_peer(NULL);
    say(other, GET("/hello"));
    expect(other, HELLO);
    assert_true(f.id > id);
    assert_int_equal(stats().connections, 2);
    close(fd);
    close(other);
    turn_for(20);
    assert_int_equal(stats().connections, 0);
    assert_int_equal(stats().closed, 2);
}

static void work_is_counted_to_its_client(void **state)
{
    (void)state;
    struct shares_walk walk;
    struct shares_view view;
    int fd = connect_peer(NULL);
    say(fd, GET("/hello") GET("/hello"));
    expect(fd, HELLO HELLO);
    shares_walk_begin(&walk, inbound_shares(f.group));
    assert_true(shares_walk_next(&walk, &view));
    assert_string_equal(view.name, "127.0.0.0/8");
    shares_walk_end(&walk);
    const struct work *work = &inbound_shares(f.group)->work;
    uint64_t done[WORK_N];
    for (enum work_kind kind = 0; kind < WORK_N; kind++)
        done[kind] = work->now[kind] + work->before[kind]; /* a window may have ended meanwhile */
    assert_int_equal(done[WORK_CONNECTIONS], 1);
    assert_int_equal(done[WORK_REQUESTS], 2);
    assert_int_equal(done[WORK_BYTES_IN], strlen(GET("/hello") GET("/hello")));
    assert_int_equal(done[WORK_BYTES_OUT], strlen(HELLO HELLO));
    assert_int_equal(done[WORK_BYTES_OUT], stats().bytes_out);
    assert_true(done[WORK_IO] > stats().writes);
    assert_true(view.rates.per_s[WORK_REQUESTS] > 0);
    close(fd);
}

static void a_refusal_reaches_a_peer_that_is_still_sending(void **state)
{
    (void)state;
    char buf[256] = "";
    static char junk[40000];
    int fd = connect_peer(NULL);
    memset(junk, 'x', sizeof(junk));
    say(fd, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    say_bytes(fd, junk, sizeof(junk));
    turn_for(20);
    say_bytes(fd, junk, sizeof(junk));
    assert_true(hear(fd, buf, sizeof(buf) - 1) > 0);
    assert_memory_equal(buf, "HTTP/1.1 431 ", 13);
    close(fd);
}

static void a_half_closed_peer_gets_the_rest_of_its_response(void **state)
{
    (void)state;
    int fd = connect_peer(NULL);
    say(fd, GET("/open"));
    turn_until_begun(1);
    shutdown(fd, SHUT_WR);
    turn_for(20);
    assert_int_equal(f.n_gone, 0);
    struct exchange *x = f.open[0];
    exchange_write(x, "abc", 3);
    f.open[0] = NULL;
    exchange_end(x, NULL, 0);
    expect(fd, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_true(ends_within(fd, 1000));
    close(fd);
}

static void a_peer_that_resets_is_gone(void **state)
{
    (void)state;
    struct linger hard = {1, 0};
    int fd = connect_peer(NULL);
    say(fd, GET("/open"));
    turn_until_begun(1);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
    turn_for(20);
    assert_int_equal(f.n_gone, 1);
    assert_int_equal(stats().connections, 0);
}

/* ---- behind a balancer ---- */

static void a_balancer_names_its_client(void **state)
{
    (void)state;
    static const char request[] = HEAD_V4 GET("/hello");
    f.proxies = &loopback;
    int whole = connect_peer(NULL), single = connect_peer(NULL);
    say_bytes(whole, request, sizeof(request) - 1);
    expect(whole, HELLO);
    assert_string_equal(f.peer, "203.0.113.9:4711");
    assert_string_equal(f.client, "203.0.113.9");
    assert_int_equal(f.address.family, CLIENT_IPV4);
    assert_memory_equal(f.address.bytes, "\xcb\0\x71\x09", 4);
    f.peer[0] = '\0';
    for (size_t i = 0; i < sizeof(request) - 1; i++) {
        say_bytes(single, request + i, 1);
        turn();
    }
    expect(single, HELLO);
    assert_string_equal(f.peer, "203.0.113.9:4711");
    assert_int_equal(stats().refused_heads, 0);
    close(whole);
    close(single);
}

static void a_health_check_of_a_balancer_has_its_own_address(void **state)
{
    (void)state;
    f.proxies = &loopback;
    int fd = connect_peer(NULL), mute = connect_peer(NULL);
    say_bytes(fd, SIGNATURE "\x20\0\0\0", 16);
    say(fd, GET("/hello"));
    expect(fd, HELLO);
    assert_string_equal(f.peer, "127.0.0.1:5");
    close(mute); /* it only looked whether there is a port */
    turn_for(20);
    assert_int_equal(stats().refused_heads, 0);
    assert_int_equal(stats().connections, 1);
    close(fd);
}

static void a_balancer_without_a_head_is_closed(void **state)
{
    (void)state;
    f.proxies = &loopback;
    int plain = connect_peer(NULL), wrong = connect_peer(NULL), half = connect_peer(NULL);
    say(plain, GET("/hello"));
    assert_true(ends_within(plain, 500));
    say_bytes(wrong, SIGNATURE "\x21\x12\0\0", 16);
    assert_true(ends_within(wrong, 500));
    assert_int_equal(stats().refused_heads, 2);
    say_bytes(half, SIGNATURE, 12);
    assert_true(ends_within(half, 2000)); /* its time is that of a greeting */
    assert_int_equal(stats().ended_greetings, 1);
    assert_int_equal(stats().refused_heads, 2);
    assert_int_equal(f.n_begun, 0);
    close(plain);
    close(wrong);
    close(half);
}

static void a_head_from_elsewhere_is_no_http(void **state)
{
    (void)state;
    static const struct client_network other = {{.family = CLIENT_IPV4, .bytes = {10}}, 8};
    static const struct client_networks others = {&other, 1};
    f.proxies = &others;
    char buf[256] = "";
    int own = connect_peer(NULL), forged = connect_peer(NULL);
    say(own, GET("/hello"));
    expect(own, HELLO);
    assert_string_equal(f.peer, "127.0.0.1:5");
    say_bytes(forged, HEAD_V4 GET("/hello"), sizeof(HEAD_V4 GET("/hello")) - 1);
    hear(forged, buf, sizeof(buf) - 1);
    assert_memory_equal(buf, "HTTP/1.1 400 ", 13);
    assert_int_equal(f.n_begun, 1);
    assert_int_equal(stats().refused_heads, 0);
    close(own);
    close(forged);
}

/* ---- whose time is up ---- */

static void who_says_nothing_is_closed(void **state)
{
    (void)state;
    int mute = connect_peer(NULL), half = connect_peer(NULL), slow = connect_peer(NULL), barely = connect_peer(NULL);
    say(half, "PRI * HT");
    say(slow, "GET / HTTP/1.1\r\n");
    say(barely, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); /* and no SETTINGS */
    static char settings[64];
    hear(barely, settings, 9 + 6);
    turn_for(100);
    assert_int_equal(stats().connections, 4);
    assert_true(ends_within(barely, 2000));
    close(barely);
    assert_true(ends_within(mute, 2000));
    assert_true(ends_within(half, 2000));
    assert_true(ends_within(slow, 2000));
    assert_int_equal(stats().ended_greetings, 4);
    close(mute);
    close(half);
    close(slow);
}

static void an_idle_http1_connection_is_closed_and_an_open_one_is_not(void **state)
{
    (void)state;
    int idle = connect_peer(NULL), open = connect_peer(NULL);
    say(idle, GET("/hello"));
    say(open, GET("/open"));
    expect(idle, HELLO);
    expect(open, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    turn_for(800);
    assert_int_equal(stats().connections, 2); /* later than it had for its greeting */
    assert_true(ends_within(idle, 4000));
    close(idle);
    turn_for(20);
    assert_int_equal(stats().connections, 1);
    assert_int_equal(f.n_gone, 0);
    close(open);
}

/* ---- HTTP/2 ---- */

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static const unsigned char empty_settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
static const unsigned char wide_window[] = {0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0, 0};

/* HEADERS of GET `path` with END_STREAM, HPACK without a table. */
static void say_h2_request(int fd, unsigned char id, const char *path)
{
    unsigned char frame[64] = {0, 0, 0, 1, 5, 0, 0, 0, id, 0x82, 0x86, 0x01, 1, 'a', 0x04};
    size_t len = strlen(path);
    frame[2] = (unsigned char)(7 + len);
    frame[15] = (unsigned char)len;
    memcpy(frame + 16, path, len);
    say_bytes(fd, frame, 16 + len);
}

static void say_h2_window(int fd, unsigned char id)
{
    unsigned char frame[sizeof(wide_window)];
    memcpy(frame, wide_window, sizeof(frame));
    frame[8] = id;
    say_bytes(fd, frame, sizeof(frame));
}

static void say_h2_greeting(int fd)
{
    say(fd, PREFACE);
    say_bytes(fd, empty_settings, sizeof(empty_settings));
    say_h2_window(fd, 0);
}

/* The next frame of `type`; its payload's length. Others are passed over, but answered when they must be. */
static size_t hear_frame(int fd, unsigned char type, char *payload, size_t cap)
{
    unsigned char head[9];
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(hear(fd, (char *)head, sizeof(head)), sizeof(head));
        size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        assert_true(len <= cap);
        assert_int_equal(hear(fd, payload, len), len);
        if (head[3] == type)
            return len;
    }
    fail_msg("no frame of type %d", type);
    return 0;
}

/* ---- who is read, how much and when ---- */

#define POST "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"

static struct {
    uint64_t takes_ns; /* what a handler does with each piece of a body */
    uint64_t first_id; /* of connections */
    char order[64];    /* whose pieces came, as letters */
    size_t sizes[64];  /* of the first pieces */
    size_t longest_piece, n_pieces;
} reading;

static void take_time(const struct exchange *x)
{
    if (strlen(reading.order) < sizeof(reading.order) - 1)
        reading.order[strlen(reading.order)] = (char)('a' + (exchange_conn(x)->id - reading.first_id));
    for (uint64_t until = uv_hrtime() + reading.takes_ns; uv_hrtime() < until;) {
    }
}

static void on_piece(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)user;
    if (reading.n_pieces < sizeof(reading.sizes) / sizeof(reading.sizes[0]))
        reading.sizes[reading.n_pieces] = bytes.len;
    reading.n_pieces++;
    reading.longest_piece = bytes.len > reading.longest_piece ? bytes.len : reading.longest_piece;
    take_time(x);
    exchange_taken(x, bytes.len);
}

static void begin_pieces(struct exchange *x, const struct exchange_head *head, void *user)
{
    (void)head, (void)user;
    static const struct exchange_events pieces = {on_piece, on_body_end, exchange_ignore, exchange_ignore};
    exchange_handle(x, &pieces, NULL);
}

/* A unix socket, which holds more than one read takes. */
static int connect_unix(void)
{
    int pair[2], held = 512 * 1024;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &held, sizeof(held));
    struct inbound_arrival arrival = {.fd = pair[1], .peer = {.family = CLIENT_UNIX}};
    assert_int_equal(inbound_accept(f.group, &arrival, belfry_clock_ms()), BELFRY_OK);
    return pair[0];
}

static void reads_are_as_large_as_handling_them_is_fast(void **state)
{
    (void)state;
    enum { LEAST = 2 * 1024, FIRST = 16 * 1024, MOST = 64 * 1024, HELD = 2 * MOST, PIECES = 20 };
    static char bytes[HELD];
    memset(&reading, 0, sizeof(reading));
    f.begin = begin_pieces;
    int fd = connect_unix();

    reading.takes_ns = 600000; /* each time more than a turn's reads of a connection may take */
    say(fd, POST);
    say_bytes(fd, bytes, HELD);
    uint64_t end = belfry_clock_ms() + 5000;
    for (size_t turns = 1; reading.n_pieces < PIECES && belfry_clock_ms() < end; turns++) {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        assert_true(reading.n_pieces <= turns + 1); /* one read in each; the first has one more, of those put off */
    }
    assert_true(reading.n_pieces >= PIECES);
    assert_int_equal(reading.sizes[0], FIRST - strlen(POST));
    size_t most = FIRST;
    for (size_t i = 1; i < PIECES; i++) {
        most = most / 2 < LEAST ? LEAST : most / 2;
        assert_int_equal(reading.sizes[i], most);
    }

    reading.takes_ns = 0;
    for (end = belfry_clock_ms() + 5000; reading.longest_piece < MOST && belfry_clock_ms() < end; turn())
        belfry_ignore(send(fd, bytes, HELD, MSG_NOSIGNAL));
    for (int i = 0; i < 20; i++, turn())
        belfry_ignore(send(fd, bytes, HELD, MSG_NOSIGNAL));
    assert_int_equal(reading.longest_piece, MOST); /* as long as the buffer */
    close(fd);
}

/* What follows an open request is kept, and more of it is not wanted. */
static void a_turn_ends_when_no_more_is_wanted(void **state)
{
    (void)state;
    enum { FIRST = 16 * 1024 };
    static char bytes[4 * FIRST];
    int fd = connect_unix();
    say(fd, GET("/open"));
    say_bytes(fd, bytes, sizeof(bytes));
    turn_until_begun(1);
    assert_int_equal(stats().bytes_in, FIRST);
    close(fd);
}

static void run_until_order(size_t n)
{
    for (uint64_t end = belfry_clock_ms() + 5000; strlen(reading.order) < n && belfry_clock_ms() < end;)
        uv_run(&f.loop, UV_RUN_NOWAIT);
}

/* Two of them use up the time of a turn, and nothing is flushed: from then on each that can be read is put off. */
static void connections_that_are_put_off_have_their_turns_in_order(void **state)
{
    (void)state;
    enum { PEERS = 4 };
    int fds[PEERS], probe = connect_peer(NULL);
    say(probe, GET("/hello"));
    expect(probe, HELLO);
    memset(&reading, 0, sizeof(reading));
    reading.first_id = f.id + 1;
    f.begin = begin_pieces;
    for (int i = 0; i < PEERS; i++) {
        fds[i] = connect_peer(NULL);
        say(fds[i], POST);
    }
    turn_for(20);
    reading.takes_ns = 2100000; /* more than there is for all that are put off */
    for (int i = 0; i < PEERS; i++)
        say(fds[i], "piece");
    run_until_order(3);
    assert_string_equal(reading.order, "abc");
    assert_int_equal(uv_backend_timeout(&f.loop), 0); /* it does not block while some are put off */
    say(fds[2], "piece");
    run_until_order(5);
    assert_string_equal(reading.order, "abcdc"); /* the one without a turn yet was first */
    for (int i = 0; i < 4; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_int_not_equal(uv_backend_timeout(&f.loop), 0);
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    close(probe);
}

/* One that has a place among those is read for a newcomer, takes long, and is put off again. */
static void a_connection_that_is_put_off_twice_keeps_its_place(void **state)
{
    (void)state;
    enum { SLOW = 64 * 1024 }; /* more than one read takes */
    static char bytes[SLOW];
    close_group();
    assert_int_equal(open_group((struct inbound_opts){.limits.total[SHARES_CONNECTIONS] = 6, .newcomers_first = true}),
                     BELFRY_OK);
    int probe = connect_peer(NULL);
    say(probe, GET("/hello"));
    expect(probe, HELLO);
    close(probe);
    turn_for(20);
    memset(&reading, 0, sizeof(reading));
    reading.first_id = f.id + 1;
    f.begin = begin_pieces;
    int slow = connect_peer(NULL), first = connect_peer(NULL), second = connect_peer(NULL);
    say(slow, POST);
    say(second, POST);
    turn_for(20);
    reading.takes_ns = 4100000; /* more than there is for a turn */
    say_bytes(slow, bytes, SLOW);
    say(first, POST "piece");
    say(second, "piece");
    uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_null(strpbrk(reading.order, "bc")); /* both are put off */
    size_t n = strlen(reading.order);
    int newcomer = connect_peer(NULL);
    assert_string_equal(reading.order + n, "b");
    assert_int_equal(stats().connections, 3); /* `slow`, whose request came first, has made way */
    say(first, "piece");
    run_until_order(n + 3);
    assert_string_equal(reading.order + n, "bbc");
    close(newcomer);
    close(slow);
    close(first);
    close(second);
}

/* Those that are late wait among others, whose pieces take 50 ms: they end while they are put off. */
static void a_connection_that_has_ended_has_no_turn(void **state)
{
    (void)state;
    enum { PAIRS = 24 };
    int slow[PAIRS], late[PAIRS];
    close_group();
    assert_int_equal(open_group((struct inbound_opts){.greet_ms = 30}), BELFRY_OK);
    memset(&reading, 0, sizeof(reading));
    f.begin = begin_pieces;
    for (int i = 0; i < PAIRS; i++) {
        slow[i] = connect_peer(NULL);
        say(slow[i], POST);
    }
    turn_for(20);
    reading.takes_ns = 2100000;
    for (int i = 0; i < PAIRS; i++)
        late[i] = connect_peer(NULL);
    for (int i = 0; i < PAIRS; i++) {
        say(late[i], "GET /never");
        say(slow[i], "piece");
    }
    for (uint64_t end = belfry_clock_ms() + 5000; belfry_clock_ms() < end;) {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        if (reading.n_pieces == PAIRS && stats().ended_greetings == PAIRS)
            break;
    }
    assert_int_equal(reading.n_pieces, PAIRS);
    assert_int_equal(stats().ended_greetings, PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        close(slow[i]);
        close(late[i]);
    }
}

static void costly_input_is_put_off(void **state)
{
    (void)state;
    enum { FIELD = 3900, PACKED = 16000 };
    static unsigned char head[9 + 12 + FIELD] = {0,
                                                 (12 + FIELD) >> 8,
                                                 (12 + FIELD) & 0xff,
                                                 1,
                                                 1,
                                                 0,
                                                 0,
                                                 0,
                                                 1,
                                                 0x82,
                                                 0x86,
                                                 0x84,
                                                 0x01,
                                                 1,
                                                 'a',
                                                 0x40,
                                                 1,
                                                 'x',
                                                 0x7f,
                                                 0xbd,
                                                 0x1d};
    static unsigned char rest[9 + PACKED] = {0, PACKED >> 8, PACKED & 0xff, 9, 4, 0, 0, 0, 1};
    char payload[16 * 1024];
    memset(head + 21, 'v', FIELD);
    memset(rest + 9, 0xbe, PACKED); /* one byte stands for the field: 60 MB in all */
    int costly = connect_peer(NULL), other = connect_peer(NULL);
    say_h2_greeting(costly);
    hear_frame(costly, 4, payload, sizeof(payload));
    say_bytes(costly, head, sizeof(head));
    say_bytes(costly, rest, sizeof(rest));
    turn();
    for (int i = 0; i < 5; i++) {
        say(other, GET("/hello"));
        expect(other, HELLO);
    }
    assert_int_equal(f.n_begun, 5);
    while (recv(costly, payload, sizeof(payload), 0) > 0) /* the ACK of its SETTINGS, and no answer */
        assert_int_equal(payload[3], 4);
    hear_frame(costly, 1, payload, sizeof(payload)); /* it gets its answer, 431 */
    say(other, GET("/hello"));
    expect(other, HELLO);
    close(costly);
    close(other);
}

static void http2_is_served(void **state)
{
    (void)state;
    static char payload[65536];
    int fd = connect_peer(NULL);
    say_h2_greeting(fd);
    say_h2_request(fd, 1, "/hello");
    size_t len = hear_frame(fd, 0, payload, sizeof(payload));
    assert_int_equal(len, 5);
    assert_memory_equal(payload, "hello", 5);
    say_h2_request(fd, 3, "/open");
    turn_until_begun(2);
    assert_int_equal(stats().http2, 1);
    turn_for(800); /* longer than a greeting may take */
    exchange_write(f.open[0], "later", 5);
    len = hear_frame(fd, 0, payload, sizeof(payload));
    assert_int_equal(len, 5);
    assert_memory_equal(payload, "later", 5);
    close(fd);
    turn_for(20);
    assert_int_equal(f.n_gone, 1);
}

static void the_protocol_is_known_from_single_bytes(void **state)
{
    (void)state;
    static char payload[65536];
    static const char first[] = PREFACE, second[] = "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    int h2 = connect_peer(NULL), h1 = connect_peer(NULL);
    for (size_t i = 0; i < sizeof(first) - 1; i++) {
        say_bytes(h2, first + i, 1);
        turn();
    }
    for (size_t i = 0; i < sizeof(second) - 1; i++) { /* begins with the same letter */
        say_bytes(h1, second + i, 1);
        if (i < 5)
            turn();
    }
    say_bytes(h2, empty_settings, sizeof(empty_settings));
    say_h2_request(h2, 1, "/hello");
    assert_int_equal(hear_frame(h2, 0, payload, sizeof(payload)), 5);
    expect(h1, HELLO);
    assert_int_equal(stats().http1, 1);
    assert_int_equal(stats().http2, 1);
    close(h1);
    close(h2);
}

static void broken_http2_ends_with_a_goaway(void **state)
{
    (void)state;
    static char payload[65536];
    static const unsigned char data_on_nothing[] = {0, 0, 1, 0, 0, 0, 0, 0, 9, 'x'};
    int fd = connect_peer(NULL);
    say_h2_greeting(fd);
    say_bytes(fd, data_on_nothing, sizeof(data_on_nothing));
    assert_int_equal(hear_frame(fd, 7, payload, sizeof(payload)) >= 8, 1);
    assert_int_equal(payload[7], 1); /* PROTOCOL_ERROR */
    assert_true(ends_within(fd, 1000));
    assert_int_equal(stats().refused_floods, 1);
    close(fd);
}

/* Go's clients name a stream of their own in it. */
static void a_goodbye_is_no_flood(void **state)
{
    (void)state;
    static const unsigned char goaway[] = {0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
    int fd = connect_peer(NULL);
    say_h2_greeting(fd);
    say_h2_request(fd, 1, "/open");
    turn_until_begun(1);
    say_bytes(fd, goaway, sizeof(goaway));
    assert_true(ends_at_last(fd, 1000));
    assert_int_equal(stats().refused_floods, 0);
    assert_int_equal(f.n_gone, 1);
    close(fd);
}

/* ---- heads that are not complete ---- */

static void a_later_head_that_is_not_completed_ends_its_connection(void **state)
{
    (void)state;
    static char payload[65536];
    static const unsigned char half[] = {0, 0, 8, 1, 5, 0, 0, 0, 3, 0x82, 0x86}; /* 8 bytes of HEADERS: two of them */
    int h2 = connect_peer(NULL), h1 = connect_peer(NULL);
    say_h2_greeting(h2);
    say_h2_request(h2, 1, "/hello");
    say(h1, GET("/hello"));
    assert_int_equal(hear_frame(h2, 0, payload, sizeof(payload)), 5);
    expect(h1, HELLO);
    say_bytes(h2, half, sizeof(half));
    say(h1, "GET /hel");
    turn_for(400);
    say_bytes(h2, "\x84", 1); /* that it is alive is not enough */
    say(h1, "l");
    assert_int_equal(stats().connections, 2);
    size_t len = hear_frame(h2, 7, payload, sizeof(payload));
    assert_int_equal(payload[7], 11); /* ENHANCE_YOUR_CALM */
    assert_memory_equal(payload + 8, "belfry: a request's head was begun", 34);
    assert_true(len > 8 + 34);
    assert_true(ends_at_last(h2, 1000));
    assert_true(ends_at_last(h1, 1000));
    assert_int_equal(stats().ended_heads, 2);
    assert_int_equal(stats().refused_floods, 0);
    close(h1);
    close(h2);
}

/* A block of HEADERS without a whole field, and half the trailers of a request that runs. */
static void half_of_any_headers_is_waited_for(void **state)
{
    (void)state;
    static char payload[65536];
    static const unsigned char nothing[] = {0, 0, 0, 1, 0, 0, 0, 0, 3}, trailers[] = {0, 0, 0, 1, 1, 0, 0, 0, 1};
    static const unsigned char request[] = {0, 0, 6, 1, 4, 0, 0, 0, 1, 0x83, 0x86, 0x84, 0x01, 1, 'a'};
    int empty = connect_peer(NULL), late = connect_peer(NULL);
    say_h2_greeting(empty);
    say_h2_greeting(late);
    say_bytes(late, request, sizeof(request));
    turn_until_begun(1);
    say_bytes(empty, nothing, sizeof(nothing));
    say_bytes(late, trailers, sizeof(trailers));
    hear_frame(empty, 7, payload, sizeof(payload));
    hear_frame(late, 7, payload, sizeof(payload));
    assert_true(ends_at_last(empty, 1000));
    assert_true(ends_at_last(late, 1000));
    assert_int_equal(stats().ended_heads, 2);
    close(empty);
    close(late);
}

static bool is_told_to_leave(int fd)
{
    char payload[256];
    unsigned char head[9];
    while (recv(fd, head, sizeof(head), MSG_PEEK) == sizeof(head)) {
        assert_int_equal(recv(fd, head, sizeof(head), 0), sizeof(head));
        assert_int_equal(head[1], 0);
        if (head[2] > 0)
            assert_int_equal(recv(fd, payload, head[2], 0), head[2]);
        if (head[3] == 7)
            return memcmp(payload + 4, "\0\0\0\0", 4) == 0; /* NO_ERROR */
    }
    return false;
}

static void idle_http2_connections_leave_while_there_are_many(void **state)
{
    (void)state;
    close_group();
    struct inbound_opts opts = {
        .limits = {.total[SHARES_CONNECTIONS] = 8, .percent[SHARES_CLIENT] = 100}, .idle_ms = 200, .linger_ms = 50};
    assert_int_equal(open_group(opts), BELFRY_OK);
    int fds[7];
    for (size_t i = 0; i < 4; i++) {
        fds[i] = connect_peer(NULL);
        say_h2_greeting(fds[i]);
        turn_for(20); /* each is idle for longer than the next */
    }
    say_h2_request(fds[0], 1, "/open");
    turn_for(600);
    assert_int_equal(stats().connections, 4); /* half: all stay, however long they are idle */
    for (size_t i = 4; i < 7; i++) {
        fds[i] = connect_peer(NULL);
        say_h2_greeting(fds[i]);
    }
    turn_for(100); /* three too many: those that were idle longest; not the one with a request */
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(is_told_to_leave(fds[i]), i >= 1 && i <= 3);
    turn_for(600);
    assert_int_equal(stats().connections, 4);
    assert_int_equal(stats().ended_idle, 3);
    assert_int_equal(f.n_gone, 0);
    for (size_t i = 0; i < 7; i++)
        close(fds[i]);
}

static void output_that_is_not_read_is_waited_for_while_memory_is_short(void **state)
{
    (void)state;
    static char payload[65536];
    for (int is_short = 0; is_short < 2; is_short++) {
        struct inbound_opts opts = {.unread_ms = 300, .sndbuf = 4096};
        opts.limits.total[SHARES_MEMORY] = is_short ? 32 * 1024 : 8 << 20;
        opts.limits.percent[SHARES_CLIENT] = 100;
        close_group();
        assert_int_equal(open_group(opts), BELFRY_OK);
        int slow, server, other = connect_peer(NULL);
        make_pair(&slow, &server, 4096);
        assert_int_equal(accept_plain(server, NULL), BELFRY_OK);
        say_h2_greeting(slow);
        say_h2_request(slow, 1, "/pump");
        say_h2_window(slow, 1);
        say(other, GET("/open"));
        turn_until_begun(2);
        uint64_t end = belfry_clock_ms() + (is_short ? 10000 : 1000);
        while (stats().ended_unread == 0 && belfry_clock_ms() < end)
            turn();
        assert_int_equal(stats().ended_unread, is_short);
        assert_int_equal(stats().connections, 2 - is_short);
        assert_int_equal(f.n_gone, is_short);
        if (!is_short)
            assert_true(hear_frame(slow, 0, payload, sizeof(payload)) > 0);
        close(slow);
        close(other);
    }
}

/* A malformed request is reset, and no head is waited for: its connection goes on. */
static void a_malformed_head_is_not_waited_for(void **state)
{
    (void)state;
    static char payload[65536];
    static const unsigned char forbidden[] = {0,  0,   17,  1,   5,   0,   0,   0,   3,   0x82, 0x86, 0x84, 0x00,
                                              10, 'c', 'o', 'n', 'n', 'e', 'c', 't', 'i', 'o',  'n',  1,    'x'};
    static const unsigned char pathless[] = {0, 0, 2, 1, 5, 0, 0, 0, 5, 0x82, 0x86};
    int fd = connect_peer(NULL);
    say_h2_greeting(fd);
    say_h2_request(fd, 1, "/open");
    turn_until_begun(1);
    say_bytes(fd, forbidden, sizeof(forbidden));
    assert_int_equal(hear_frame(fd, 3, payload, sizeof(payload)), 4);
    turn_for(1000); /* longer than a head may take */
    say_bytes(fd, pathless, sizeof(pathless));
    assert_int_equal(hear_frame(fd, 3, payload, sizeof(payload)), 4);
    turn_for(1000);
    assert_int_equal(stats().ended_heads, 0);
    assert_int_equal(stats().connections, 1);
    exchange_write(f.open[0], "later", 5);
    assert_int_equal(hear_frame(fd, 0, payload, sizeof(payload)), 5);
    close(fd);
}

/* ---- answers to PINGs ---- */

static void say_ping(int fd)
{
    say_bytes(fd, (const unsigned char[17]){0, 0, 8, 6}, 17);
}

static int open_h2_stream(int n)
{
    static char payload[65536];
    int fd = connect_peer(NULL);
    say_h2_greeting(fd);
    say_h2_request(fd, 1, "/open");
    hear_frame(fd, 1, payload, sizeof(payload));
    assert_int_equal(f.n_begun, n);
    return fd;
}

static void answers_to_pings_wait_for_company_but_not_for_long(void **state)
{
    (void)state;
    char payload[64];
    int first = open_h2_stream(1), second = open_h2_stream(2);
    uint64_t from = belfry_clock_ms();
    say_ping(first);
    turn_for(20);
    uint64_t later = belfry_clock_ms();
    say_ping(second);
    hear_frame(first, 6, payload, sizeof(payload));
    assert_true(belfry_clock_ms() >= from + 50);
    hear_frame(second, 6, payload, sizeof(payload));
    assert_true(belfry_clock_ms() >= later + 50);
    say_ping(second); /* the timer goes on for those that come later */
    hear_frame(second, 6, payload, sizeof(payload));
    uint64_t writes = stats().writes;
    say_ping(first);
    turn();
    exchange_write(f.open[0], "later", 5);
    hear_frame(first, 6, payload, sizeof(payload));
    assert_int_equal(hear_frame(first, 0, payload, sizeof(payload)), 5);
    assert_int_equal(stats().writes, writes + 1); /* both with one */
    close(first);
    close(second);
}

static uint64_t looked_writes;

static void on_look(uv_timer_t *timer)
{
    (void)timer;
    inbound_flush(f.group, belfry_clock_ms());
    looked_writes = stats().writes;
}

/* Bytes come 30 ms after the PING, and 60 ms after it the answer was sent. */
static void an_answer_that_is_owed_keeps_its_time(void **state)
{
    (void)state;
    char payload[64], byte;
    uv_timer_t look;
    int fd = open_h2_stream(1);
    uint64_t writes = stats().writes;
    say_ping(fd);
    turn();
    looked_writes = 0;
    uv_timer_init(&f.loop, &look);
    uv_update_time(&f.loop);
    uv_timer_start(&look, on_look, 60, 0);
    turn_for(30);
    say_bytes(fd, "", 1); /* a frame begins */
    for (uint64_t end = belfry_clock_ms() + 5000; looked_writes == 0 && belfry_clock_ms() < end;)
        turn();
    uv_close((uv_handle_t *)&look, NULL);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_int_equal(looked_writes, writes + 1);
    hear_frame(fd, 6, payload, sizeof(payload));
    say_bytes(fd, "", 1);
    turn_for(60);
    assert_int_equal(recv(fd, &byte, 1, 0), -1); /* it came once */
    assert_int_equal(stats().writes, writes + 1);
    close(fd);
}

static void a_connection_that_has_ended_owes_no_answer(void **state)
{
    (void)state;
    char payload[64];
    int stays = open_h2_stream(1), leaves = open_h2_stream(2);
    say_ping(leaves);
    say_ping(stays);
    turn();
    close(leaves);
    hear_frame(stays, 6, payload, sizeof(payload));
    assert_int_equal(stats().connections, 1);
    say_ping(stays);
    turn();
    close(stays);
    turn_for(20);
    assert_false(uv_loop_alive(&f.loop)); /* no timer keeps it */
}

/* ---- many exchanges ---- */

static size_t n_crowd; /* how many are open, of those that /crowd began */

static void crowd_gone(struct exchange *x, void *user)
{
    (void)x, (void)user;
    n_crowd--;
}

static const struct exchange_events crowd_events = {on_body, on_body_end, on_writable, crowd_gone};

static void begin_crowd(struct exchange *x, const struct exchange_head *head, void *user)
{
    (void)head, (void)user;
    n_crowd++;
    exchange_handle(x, &crowd_events, NULL);
    exchange_respond(x, 200, NULL, 0);
}

enum { HEAD_ENDS = 4, REQUEST_ENDS = 5 }; /* flags of HEADERS */

static void say_heads(int fd, uint32_t first, uint32_t n, unsigned char flags)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = 1 + 2 * (first + i);
        const unsigned char frame[] = {0,
                                       0,
                                       6,
                                       1,
                                       flags,
                                       (unsigned char)(id >> 24),
                                       (unsigned char)(id >> 16),
                                       (unsigned char)(id >> 8),
                                       (unsigned char)id,
                                       0x82,
                                       0x86,
                                       0x84,
                                       0x01,
                                       1,
                                       'a'};
        say_bytes(fd, frame, sizeof(frame));
        if (i % 256 == 255)
            turn();
    }
}

static void say_crowd(int fd, uint32_t first, uint32_t n)
{
    say_heads(fd, first, n, REQUEST_ENDS);
}

static void open_crowd(struct inbound_opts opts)
{
    assert_int_equal(open_group(opts), BELFRY_OK);
    n_crowd = 0;
    f.begin = begin_crowd;
}

static void heads_that_follow_each_other_have_their_own_time_each(void **state)
{
    (void)state;
    static const unsigned char head[] = {0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x01, 1, 'a'};
    assert_int_equal(open_group((struct inbound_opts){.greet_ms = 300}), BELFRY_OK);
    f.begin = begin_crowd;
    n_crowd = 0;
    int fd = connect_peer(NULL);
    say_h2_greeting(fd);
    unsigned char frame[sizeof(head)];
    memcpy(frame, head, sizeof(head));
    say_bytes(fd, frame, 11);
    for (unsigned char id = 3; id < 9;
         id = (unsigned char)(id + 2)) { /* the end of one and the beginning of the next */
        turn_for(200);
        say_bytes(fd, frame + 11, sizeof(frame) - 11);
        frame[8] = id;
        say_bytes(fd, frame, 11);
    }
    turn_for(50);
    assert_int_equal(n_crowd, 3);
    assert_int_equal(stats().ended_heads, 0);
    assert_true(ends_at_last(fd, 1000));
    assert_int_equal(stats().ended_heads, 1);
    close(fd);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

static void a_crowd_that_leaves_is_told_in_steps(void **state)
{
    (void)state;
    open_crowd((struct inbound_opts){0});
    int fd = connect_peer(NULL);
    say_h2_greeting(fd);
    say_crowd(fd, 0, 2000);
    while (n_crowd < 2000)
        turn();
    assert_true(stats().bytes > 2000 * 1024);
    close(fd);
    while (stats().connections > 0)
        uv_run(&f.loop, UV_RUN_ONCE);
    size_t most = 0, flushes = 0;
    for (bool more = true; more; flushes++) {
        size_t before = n_crowd;
        more = inbound_flush(f.group, belfry_clock_ms());
        most = before - n_crowd > most ? before - n_crowd : most;
    }
    assert_int_equal(n_crowd, 0);
    assert_in_range(most, 1, 256);
    assert_in_range(flushes, 2000 / 256, 10);
    assert_int_equal(stats().bytes, 0);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

static void a_crowd_that_is_leaving_is_told_when_the_group_ends(void **state)
{
    (void)state;
    open_crowd((struct inbound_opts){0});
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = connect_peer(NULL);
        say_h2_greeting(fds[i]);
        say_crowd(fds[i], 0, 300);
    }
    while (n_crowd < 600)
        turn();
    close(fds[0]);
    while (stats().connections > 1)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_true(n_crowd > 300);
    close_group();
    assert_int_equal(n_crowd, 0);
    assert_int_equal(refuse_held(), 0);
    close(fds[1]);
}

static void a_crowd_that_breaks_the_protocol_leaves_in_steps(void **state)
{
    (void)state;
    static char payload[1 << 16];
    open_crowd((struct inbound_opts){.linger_ms = 50});
    int fd = connect_peer(NULL);
    say_h2_greeting(fd);
    say_crowd(fd, 0, 600);
    while (n_crowd < 600)
        turn();
    say_bytes(fd, (const unsigned char[]){0, 0, 1, 6, 0, 0, 0, 0, 0, 0}, 10); /* a PING of one byte */
    for (int i = 0; i < 7; i++)
        hear_frame(fd, 1, payload, sizeof(payload));
    turn_for(200);
    assert_int_equal(n_crowd, 0);
    assert_int_equal(stats().connections, 0);
    assert_int_equal(stats().bytes, 0);
    close(fd);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

/* Every client may have all of it. */
#define ALL_MEMORY(bytes)                                                                                              \
    {                                                                                                                  \
        .total = {[SHARES_MEMORY] = (bytes)}, .percent = { 100, 100 }                                                  \
    }

/* As streams.py of old did: streams that ask for nothing, until nobody else has room. */
static void over_the_memory_the_connection_with_most_unfinished_requests_is_ended(void **state)
{
    (void)state;
    static char payload[1 << 16];
    open_crowd((struct inbound_opts){.limits = ALL_MEMORY(1024 * 1024), .linger_ms = 50});
    int good = connect_peer(NULL), hostile = connect_peer(NULL);
    say_h2_greeting(good);
    say_crowd(good, 0, 300); /* in good order: it has asked for what it is given */
    say_h2_greeting(hostile);
    say_heads(hostile, 0, 680, HEAD_ENDS);
    while (n_crowd < 980)
        turn();
    assert_in_range(stats().bytes, 1010 * 1024, 1024 * 1024);
    int later = connect_peer(NULL); /* a new connection */
    assert_true(later >= 0);
    say_h2_greeting(later);
    say_crowd(later, 0, 10);
    say_crowd(good, 300, 20); /* and new streams of an old one */
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(n_crowd, 330);
    assert_int_equal(stats().refused_streams, 0);
    assert_int_equal(stats().refused_connections, 0);
    assert_int_equal(stats().ended_largest, 1);
    assert_int_equal(stats().refused_floods, 0);
    size_t len = hear_frame(hostile, 7, payload, sizeof(payload));
    assert_int_equal(payload[7], 11); /* ENHANCE_YOUR_CALM */
    payload[len] = '\0';
    assert_non_null(strstr(payload + 8, "belfry: room was needed for memory, of which "));
    assert_non_null(strstr(payload + 8, " on this connection, 696320 bytes of unfinished requests"));
    assert_true(ends_at_last(hostile, 1000));
    close(hostile);
    close(good);
    close(later);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

static void a_connection_that_fills_the_memory_alone_is_ended_itself(void **state)
{
    (void)state;
    open_crowd((struct inbound_opts){.limits = ALL_MEMORY(1024 * 1024), .linger_ms = 50});
    int hostile = connect_peer(NULL);
    say_h2_greeting(hostile);
    say_heads(hostile, 0, 1100, HEAD_ENDS);
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(n_crowd, 0);
    assert_int_equal(stats().ended_largest, 1);
    assert_in_range(stats().bytes, 0, 4096);
    close(hostile);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

static void over_the_memory_there_are_no_new_streams_and_connections(void **state)
{
    (void)state;
    open_crowd((struct inbound_opts){.limits = ALL_MEMORY(100 * 1024)});
    int fd = connect_peer(NULL), client, server;
    say_h2_greeting(fd);
    say_crowd(fd, 0, 200);
    for (int i = 0; i < 20; i++)
        turn();
    assert_in_range(n_crowd, 70, 84); /* of 1 KiB, and 16 for the connection */
    assert_int_equal(stats().refused_streams, 200 - n_crowd);
    assert_in_range(stats().bytes, 99 * 1024, 101 * 1024);
    make_pair(&client, &server, 0);
    assert_int_equal(accept_plain(server, NULL), BELFRY_ERR_LIMIT);
    assert_int_equal(stats().refused_connections, 1);
    say(client, GET("/"));
    assert_true(ends_at_last(client, 1000));
    close(client);
    close(fd);
    while (n_crowd > 0)
        turn();
    assert_int_equal(stats().bytes, 0);
    close(connect_peer(NULL)); /* there is room again */
    close_group();
    assert_int_equal(refuse_held(), 0);
}

/* A group of few connections whose newcomers always find a place. */
static void a_newcomer_takes_the_place_of_the_connection_that_waits_longest(void **state)
{
    (void)state;
    static char payload[1 << 16];
    open_crowd((struct inbound_opts){.limits.total[SHARES_CONNECTIONS] = 8, .newcomers_first = true});
    int busy = connect_peer(NULL), idle[3], more[20], other, server;
    say_h2_greeting(busy);
    say_crowd(busy, 0, 1);
    for (int i = 0; i < 3; i++) {
        idle[i] = connect_peer(NULL);
        if (i == 0)
            say_h2_greeting(idle[i]);
    }
    while (n_crowd == 0)
        turn();
    assert_int_equal(stats().connections, 4); /* half of 8: this client may have no more */
    for (int i = 0; i < 20; i++) {
        more[i] = connect_peer(NULL);
        assert_int_equal(stats().connections, 4);
        if (i == 0) {
            size_t len = hear_frame(idle[0], 7, payload, sizeof(payload));
            payload[len] = '\0';
            assert_non_null(strstr(payload + 8, "a new one needed the place"));
        }
        turn();
    }
    assert_true(ends_at_last(idle[0], 1000) && ends_within(idle[1], 1000) && ends_within(idle[2], 1000));
    assert_true(ends_within(more[0], 1000));
    assert_int_equal(n_crowd, 1); /* it has a request */
    assert_int_equal(stats().ended_for_newcomers, 20);

    int busier[4];
    for (int i = 0; i < 4; i++) { /* now all have one: the first of them goes */
        busier[i] = connect_peer(NULL);
        say_h2_greeting(busier[i]);
        say_crowd(busier[i], 0, 1);
        turn_for(5);
    }
    assert_true(ends_at_last(busy, 1000));
    assert_int_equal(n_crowd, 4);
    make_pair(&other, &server, 0);
    assert_int_equal(accept_from(server, (const uint8_t[]){10, 0, 0, 1}, NULL), BELFRY_OK);
    assert_int_equal(stats().connections, 5); /* another client has its own */
    for (uint8_t i = 2; i < 12; i++) {
        int one;
        make_pair(&one, &server, 0);
        assert_int_equal(accept_from(server, (const uint8_t[]){10, 0, 0, i}, NULL), BELFRY_OK);
        assert_in_range(stats().connections, 5, 8);
        close(one);
    }
    for (int i = 0; i < 20; i++)
        close(more[i]);
    for (int i = 0; i < 4; i++)
        close(busier[i]);
    for (int i = 0; i < 3; i++)
        close(idle[i]);
    close(busy);
    close(other);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

/* Probes that have asked, but were not read yet, among newcomers of the same client that are accepted in one turn. */
static void a_newcomer_ends_no_connection_that_has_asked_already(void **state)
{
    (void)state;
    enum { N = 200, PROBES = 3 };
    int probes[PROBES], fds[N];
    assert_int_equal(
        open_group((struct inbound_opts){.limits.total[SHARES_CONNECTIONS] = 128, .newcomers_first = true}), BELFRY_OK);
    for (int i = 0; i < PROBES; i++) {
        probes[i] = connect_peer(NULL);
        say(probes[i], GET("/hello"));
    }
    for (int i = 0; i < N; i++)
        fds[i] = connect_peer(NULL);
    for (int i = 0; i < PROBES; i++) {
        expect(probes[i], HELLO);
        close(probes[i]);
    }
    assert_int_equal(stats().ended_for_newcomers, N + PROBES - 64);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

/* Its answer takes the turns of other threads, and other connections of its client have requests that came later. */
static void probe_that_waits_for_its_answer_makes_way_last(void **state)
{
    (void)state;
    int probe, fds[12];
    assert_int_equal(open_group((struct inbound_opts){.limits.total[SHARES_CONNECTIONS] = 8, .newcomers_first = true}),
                     BELFRY_OK);
    probe = connect_peer(NULL);
    say(probe, GET("/ready"));
    while (f.n_begun == 0)
        turn();
    for (int i = 0; i < 12; i++) {
        fds[i] = connect_peer(NULL);
        say(fds[i], GET("/open"));
        while (f.n_begun < i + 2)
            turn();
    }
    assert_int_equal(stats().ended_for_newcomers, 13 - 4);
    assert_non_null(f.open[0]);
    assert_int_equal(f.n_gone, 9);
    exchange_end(f.open[0], NULL, 0);
    f.open[0] = NULL;
    for (int i = 0; i < 12; i++)
        close(fds[i]);
    close(probe);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

/* Memory that is being freed comes soon: the connections that are there need not go. */
static void nobody_makes_way_while_memory_is_being_freed(void **state)
{
    (void)state;
    struct shares_conn gone;
    int there[4], client, server;
    open_crowd((struct inbound_opts){.limits.total = {[SHARES_CONNECTIONS] = 64, [SHARES_MEMORY] = 1024 * 1024},
                                     .newcomers_first = true});
    for (int i = 0; i < 4; i++)
        there[i] = connect_peer(NULL);
    assert_int_equal(shares_join(inbound_shares(f.group), &gone, SHARES_CLIENT, "gone"), BELFRY_OK);
    shares_count(&gone, SHARES_MEMORY, 0, 2 * 1024 * 1024);
    shares_end(&gone);
    make_pair(&client, &server, 0);
    assert_int_equal(accept_plain(server, NULL), BELFRY_ERR_LIMIT);
    assert_int_equal(stats().ended_for_newcomers, 0);
    shares_count(&gone, SHARES_MEMORY, 2 * 1024 * 1024, 0);
    shares_leave(&gone);
    int later = connect_peer(NULL);
    assert_int_equal(stats().ended_for_newcomers, 0);
    for (int i = 0; i < 4; i++)
        close(there[i]);
    close(client);
    close(later);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

static void over_the_memory_another_client_is_served_and_the_largest_yields(void **state)
{
    (void)state;
    static char payload[1 << 16];
    open_crowd((struct inbound_opts){.limits = ALL_MEMORY(256 * 1024)});
    int fd = connect_peer(NULL), other, server;
    say_h2_greeting(fd);
    say_crowd(fd, 0, 300);
    for (int i = 0; i < 20; i++)
        turn();
    make_pair(&other, &server, 0);
    assert_int_equal(accept_from(server, (const uint8_t[]){10, 0, 0, 1}, NULL), BELFRY_OK);
    assert_int_equal(stats().ended_largest, 1);
    say_h2_greeting(other);
    say_crowd(other, 0, 10);
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(n_crowd, 10);
    size_t len = hear_frame(fd, 7, payload, sizeof(payload));
    payload[len] = '\0';
    assert_non_null(strstr(payload + 8, "belfry: room was needed for memory, of which 127.0.0.0/8 holds "));
    close(other);
    close(fd);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

/* ---- connections for which there is no room ---- */

#define REFUSAL "belfry: no room for one more connection"

/* One connection of a client at a time. */
static void open_narrow(uint64_t linger_ms)
{
    struct inbound_opts opts = {.linger_ms = linger_ms};
    opts.limits.total[SHARES_CONNECTIONS] = 2;
    assert_int_equal(open_group(opts), BELFRY_OK);
}

/* A connection that is refused. Its peer has said `text` before it was accepted. */
static int connect_refused(const char *text, size_t len, struct belfry_tls *tls)
{
    int client, server;
    make_pair(&client, &server, 0);
    say_bytes(client, text, len);
    assert_int_equal(accept_plain(server, tls), BELFRY_ERR_LIMIT);
    return client;
}

/* All that the peer is told until its connection ends, which is an end and no reset. */
static size_t hear_all(int fd, char *buf, size_t cap)
{
    uint64_t end = belfry_clock_ms() + 5000;
    size_t got = 0;
    for (ssize_t n; belfry_clock_ms() < end; turn()) {
        while ((n = recv(fd, buf + got, cap - 1 - got, 0)) > 0)
            got += (size_t)n;
        if (n < 0 && errno != EAGAIN)
            fail_msg("the connection is reset: %s", strerror(errno));
        if (n == 0)
            break;
    }
    buf[got] = '\0';
    return got;
}

static void a_connection_without_room_is_answered_and_not_reset(void **state)
{
    (void)state;
    static const char tls_hello[] = "\x16\3\1\0\x40\1";
    char buf[1024];
    open_narrow(200);
    int fd = connect_peer(NULL);

    int asks = connect_refused(GET("/hello"), sizeof(GET("/hello")) - 1, NULL);
    hear_all(asks, buf, sizeof(buf));
    assert_memory_equal(buf, "HTTP/1.1 503 Service Unavailable\r\n", 34);
    assert_non_null(strstr(buf, "\r\nretry-after: 1\r\n"));
    assert_non_null(strstr(buf, "\r\n\r\n" REFUSAL));
    assert_int_equal(strlen(strstr(buf, REFUSAL)), strtoul(strstr(buf, "content-length: ") + 16, NULL, 10));

    int late = connect_refused("", 0, NULL); /* its request comes after the refusal, in two parts */
    turn_for(20);
    say(late, "PO");
    turn_for(20);
    say(late, "ST / HTTP/1.1\r\n\r\n");
    hear_all(late, buf, sizeof(buf));
    assert_memory_equal(buf, "HTTP/1.1 503 ", 13);

    int h2 = connect_refused(PREFACE, sizeof(PREFACE) - 1, NULL);
    say_bytes(h2, empty_settings, sizeof(empty_settings));
    size_t len = hear_all(h2, buf, sizeof(buf));
    assert_memory_equal(buf, empty_settings, sizeof(empty_settings));
    assert_int_equal(buf[9 + 2] + 9 + 9, len); /* the GOAWAY is the last, and whole */
    assert_int_equal(buf[9 + 3], 7);
    assert_memory_equal(buf + 9 + 9, "\0\0\0\0\0\0\0\x0b" REFUSAL, 8 + sizeof(REFUSAL) - 1);

    int hello = connect_refused(tls_hello, sizeof(tls_hello), NULL);
    assert_int_equal(hear_all(hello, buf, sizeof(buf)), 0); /* plain text is nothing to read for it */

    int mute = connect_refused("", 0, NULL);
    assert_int_equal(hear_all(mute, buf, sizeof(buf)), 0); /* it has the time of one that lingers */

    assert_int_equal(stats().refused_connections, 5);
    say(fd, GET("/hello"));
    expect(fd, HELLO);
    close(asks);
    close(late);
    close(h2);
    close(hello);
    close(mute);
    turn_for(20);
    assert_int_equal(stats().connections, 1);
    close(fd);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

/* A client at its share, or any while descriptors are used up, opens many connections, and asks a moment later. */
static void a_hundred_refused_connections_are_answered_whenever_they_ask(void **state)
{
    (void)state;
    enum { N = 100 };
    static const int policy = 7;
    int fds[N], server;
    char buf[1024];
    for (int of_process = 0; of_process < 2; of_process++) {
        open_narrow(60000);
        int fd = connect_peer(NULL);
        for (int i = 0; i < N; i++) {
            struct inbound_arrival arrival = {
                .peer = client_address_ipv4((const uint8_t[]){10, 0, 0, 9}, 5), .policy = &policy, .refused = true};
            if (of_process == 0) {
                fds[i] = connect_refused("", 0, NULL);
                continue;
            }
            make_pair(&fds[i], &server, 0);
            arrival.fd = server;
            assert_int_equal(inbound_accept(f.group, &arrival, belfry_clock_ms()), BELFRY_ERR_LIMIT);
        }
        turn_for(20);
        for (int i = 0; i < N; i++)
            say(fds[i], GET("/hello"));
        assert_int_equal(stats().refused, N);
        assert_int_equal(stats().refused_connections, of_process ? 0 : N);
        for (int i = 0; i < N; i++) {
            hear_all(fds[i], buf, sizeof(buf));
            assert_memory_equal(buf, "HTTP/1.1 503 ", 13);
            close(fds[i]);
        }
        close(fd);
        close_group();
    }
    assert_int_equal(refuse_held(), 0);
}

static void refused_connections_are_bounded_and_answered_all_the_same(void **state)
{
    (void)state;
    enum { N = 100, WAITING = 64 };
    int fds[N];
    char buf[1024];
    assert_int_equal(open_group((struct inbound_opts){
                         .linger_ms = 60000, .limits.total[SHARES_CONNECTIONS] = 2, .refused_most = WAITING}),
                     BELFRY_OK);
    int fd = connect_peer(NULL);
    for (int i = 0; i < WAITING; i++)
        fds[i] = connect_refused("", 0, NULL);
    assert_int_equal(stats().connections, 1 + WAITING);
    say(fds[0], GET("/hello"));
    for (int i = WAITING; i < N; i++) /* the first of them make way */
        fds[i] = connect_refused(GET("/hello"), sizeof(GET("/hello")) - 1, NULL);
    assert_int_equal(stats().connections, 1 + WAITING);
    hear_all(fds[0], buf, sizeof(buf));
    assert_memory_equal(buf, "HTTP/1.1 503 ", 13);
    for (int i = 1; i < N - WAITING; i++)
        assert_int_equal(hear_all(fds[i], buf, sizeof(buf)), 0);
    for (int i = WAITING; i < N; i++) {
        hear_all(fds[i], buf, sizeof(buf));
        assert_memory_equal(buf, "HTTP/1.1 503 ", 13);
    }
    for (int i = 0; i < N; i++)
        close(fds[i]);
    close(fd);
    turn_for(50);
    assert_int_equal(stats().connections, 0);
    fd = connect_peer(NULL); /* they held no place */
    close(connect_refused("", 0, NULL));
    close(fd);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

static void a_client_of_a_balancer_without_room_is_answered(void **state)
{
    (void)state;
    static const char request[] = HEAD_V4 GET("/hello");
    char buf[1024];
    struct inbound_opts opts = {.linger_ms = 200};
    opts.limits.total[SHARES_CONNECTIONS] = 4;
    assert_int_equal(open_group(opts), BELFRY_OK);
    f.proxies = &loopback;
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = connect_peer(NULL);
        say_bytes(fds[i], request, sizeof(request) - 1);
        expect(fds[i], HELLO);
    }
    int third = connect_peer(NULL);
    say_bytes(third, request, sizeof(request) - 1);
    hear_all(third, buf, sizeof(buf));
    assert_memory_equal(buf, "HTTP/1.1 503 ", 13);
    assert_int_equal(stats().refused_connections, 1);
    close(fds[0]);
    close(fds[1]);
    close(third);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

static void a_request_that_crosses_the_end_of_an_idle_connection_is_not_reset(void **state)
{
    (void)state;
    char buf[64];
    int fd = connect_peer(NULL);
    say(fd, GET("/hello"));
    expect(fd, HELLO);
    while (stats().ended_idle == 0)
        turn();
    say(fd, GET("/hello"));
    turn_for(50);
    assert_int_equal(hear_all(fd, buf, sizeof(buf)), 0);
    close(fd);
}

/* ---- full sockets ---- */

static void a_stalled_reader_holds_only_itself(void **state)
{
    (void)state;
    static char sink[1 << 20], payload[65536];
    int slow, server, fast = connect_peer(NULL);
    make_pair(&slow, &server, 8192);
    assert_int_equal(accept_plain(server, NULL), BELFRY_OK);
    say_h2_greeting(slow);
    say_h2_request(slow, 1, "/pump");
    say_h2_window(slow, 1);
    turn_until_begun(1);
    say(fast, GET("/pump"));
    for (size_t got = 0; got < 32 * sizeof(sink);) { /* 32 MiB pass beside it */
        size_t n = hear(fast, sink, sizeof(sink));
        assert_true(n > 0);
        got += n;
    }
    size_t stalled_at = f.pumped[0];
    assert_in_range(stalled_at, 65536, 1 << 20); /* socket buffers, one write, one window's worth of room */
    close(fast);
    turn_for(50);
    struct inbound_stats s = stats();
    assert_int_equal(s.kernel_bytes, 2 * INBOUND_SNDBUF);
    assert_in_range(s.bytes, 1024, 256 * 1024);
    assert_int_equal(exchange_room(f.open[0]), 0);
    int other = connect_peer(NULL);
    say(other, GET("/hello"));
    expect(other, HELLO);
    assert_int_equal(f.pumped[0], stalled_at);

    while (f.pumped[0] < stalled_at + (4 << 20)) /* it reads again, and goes on where it was */
        assert_true(hear_frame(slow, 0, payload, sizeof(payload)) > 0);
    close(slow);
    close(other);
}

static void all_bytes_arrive_in_order_through_a_small_window(void **state)
{
    (void)state;
    static unsigned char pattern[300000], got[sizeof(pattern)];
    char head[128];
    int fd, server;
    make_pair(&fd, &server, 4096);
    assert_int_equal(accept_plain(server, NULL), BELFRY_OK);
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (unsigned char)(i * 31 >> 5);
    say(fd, "GET /open HTTP/1.0\r\n\r\n"); /* raw until the end: no chunks in between */
    turn_until_begun(1);
    struct exchange *x = f.open[0];
    exchange_write(x, pattern, sizeof(pattern));
    f.open[0] = NULL;
    exchange_end(x, NULL, 0);
    size_t len = strlen("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
    assert_int_equal(hear(fd, head, len), len);
    assert_int_equal(hear(fd, (char *)got, sizeof(got)), sizeof(got));
    assert_memory_equal(got, pattern, sizeof(got));
    assert_true(ends_within(fd, 1000));
    close(fd);
}

static void nothing_is_allocated_for_what_the_socket_takes(void **state)
{
    (void)state;
    static const char buf[512];
    int fd = connect_peer(NULL);
    say(fd, GET("/open"));
    turn_until_begun(1);
    exchange_write(f.open[0], buf, 300);
    turn_for(10);
    refuse_begin(0);
    for (int i = 0; i < 20; i++) {
        exchange_write(f.open[0], buf, 300);
        assert_false(inbound_flush(f.group, belfry_clock_ms()));
    }
    assert_false(refuse_end());
    assert_int_equal(f.n_gone, 0);
    close(fd);
}

/* ---- shutting ---- */

static void shutting_goes_on_from_the_oldest(void **state)
{
    (void)state;
    int peers[3];
    for (int i = 0; i < 3; i++) {
        peers[i] = connect_peer(NULL);
        say(peers[i], GET("/hello"));
        expect(peers[i], HELLO);
    }
    assert_true(inbound_shut(f.group, INBOUND_ALL, 1));
    assert_true(ends_within(peers[0], 1000));
    assert_true(inbound_shut(f.group, INBOUND_ALL, 0));
    say(peers[1], GET("/hello"));
    expect(peers[1], HELLO); /* its turn has not come, and it is served as ever */
    assert_false(inbound_shut(f.group, INBOUND_ALL, 2));
    assert_true(ends_within(peers[1], 1000));
    assert_true(ends_within(peers[2], 1000));
    assert_false(inbound_shut(f.group, INBOUND_ALL, 7));
    for (int i = 0; i < 3; i++)
        close(peers[i]);
    turn_for(20);
}

static void shutting_up_to_a_number_spares_newcomers(void **state)
{
    (void)state;
    int old = connect_peer(NULL);
    say(old, GET("/hello"));
    expect(old, HELLO);
    uint64_t newest = inbound_newest(f.group);
    int new = connect_peer(NULL);
    say(new, GET("/hello"));
    expect(new, HELLO);
    assert_true(inbound_shut(f.group, newest, 0));
    assert_false(inbound_shut(f.group, newest, 5));
    assert_true(ends_within(old, 1000));
    int newer = connect_peer(NULL);
    assert_false(inbound_shut(f.group, newest, 5));
    for (int i = 0; i < 2; i++) {
        say(i == 0 ? new : newer, GET("/hello"));
        expect(i == 0 ? new : newer, HELLO); /* it does not say that it will be closed */
    }
    assert_false(inbound_shut(f.group, INBOUND_ALL, SIZE_MAX));
    assert_true(ends_within(new, 1000));
    assert_true(ends_within(newer, 1000));
    close(old);
    close(new);
    close(newer);
    turn_for(20);
    assert_int_equal(stats().connections, 0);
}

static void shutting_ends_the_idle_and_waits_for_the_rest(void **state)
{
    (void)state;
    static char payload[65536];
    int idle = connect_peer(NULL), open = connect_peer(NULL), h2 = connect_peer(NULL);
    say(idle, GET("/hello"));
    expect(idle, HELLO);
    say(open, GET("/open"));
    expect(open, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    say_h2_greeting(h2);
    say_h2_request(h2, 1, "/open");
    turn_until_begun(3);
    assert_false(inbound_shut(f.group, INBOUND_ALL, SIZE_MAX));
    assert_true(ends_within(idle, 1000));
    assert_int_equal(hear_frame(h2, 7, payload, sizeof(payload)), 8);
    turn_for(300);
    assert_int_equal(f.n_gone, 0);
    for (int i = 0; i < 2; i++) {
        struct exchange *x = f.open[i];
        f.open[i] = NULL;
        exchange_end(x, NULL, 0);
    }
    expect(open, "0\r\n\r\n");
    assert_true(ends_within(open, 1000));
    turn_for(700); /* the HTTP/2 peer did not answer the PING */
    close(idle);
    close(open);
    turn_for(20);
    int late = connect_peer(NULL);
    say(late, GET("/hello"));
    expect(late, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
    assert_true(ends_within(late, 1000));
    close(late);
    close(h2);
    turn_for(20);
    assert_int_equal(stats().connections, 0);
}

/* ---- TLS ---- */

struct tls_peer {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
};

static struct tls_peer connect_tls(const char *alpn, bool with_cert)
{
    struct tls_peer p = {.ctx = SSL_CTX_new(TLS_client_method())};
    char why[256];
    struct belfry_tls_server_opts opts = {
        .cert = keys.server, .key = keys.server_key, .client_ca = with_cert ? keys.ca : NULL};
    if (f.server_tls == NULL) /* for the next connection, too; the group must not outlive it */
        assert_int_equal(belfry_tls_create_server(&opts, &f.server_tls, why, sizeof(why)), BELFRY_OK);
    p.fd = connect_peer(f.server_tls);
    if (f.head != NULL)
        say_bytes(p.fd, f.head, sizeof(HEAD_V4) - 1);
    if (with_cert) {
        SSL_CTX_use_certificate_chain_file(p.ctx, keys.client);
        SSL_CTX_use_PrivateKey_file(p.ctx, keys.client_key, SSL_FILETYPE_PEM);
    }
    if (alpn != NULL)
        SSL_CTX_set_alpn_protos(p.ctx, (const unsigned char *)alpn, (unsigned)strlen(alpn));
    p.ssl = SSL_new(p.ctx);
    SSL_set_fd(p.ssl, p.fd);
    SSL_set_connect_state(p.ssl);
    for (int i = 0; i < 500 && SSL_do_handshake(p.ssl) != 1; i++)
        turn();
    assert_true(SSL_is_init_finished(p.ssl));
    return p;
}

static void close_tls(struct tls_peer *p)
{
    SSL_free(p->ssl);
    SSL_CTX_free(p->ctx);
    close(p->fd);
    ERR_clear_error();
}

static size_t hear_tls(struct tls_peer *p, char *buf, size_t len)
{
    uint64_t end = belfry_clock_ms() + 10000;
    size_t got = 0;
    while (got < len && belfry_clock_ms() < end) {
        int n = SSL_read(p->ssl, buf + got, (int)(len - got));
        if (n > 0)
            got += (size_t)n;
        else if (SSL_get_error(p->ssl, n) != SSL_ERROR_WANT_READ)
            break;
        else
            turn();
    }
    ERR_clear_error();
    return got;
}

static void a_balancers_head_comes_before_tls(void **state)
{
    (void)state;
    char buf[sizeof(HELLO)] = "";
    f.proxies = &loopback;
    f.head = HEAD_V4;
    struct tls_peer p = connect_tls(NULL, true);
    assert_int_equal(SSL_write(p.ssl, GET("/hello"), sizeof(GET("/hello")) - 1), sizeof(GET("/hello")) - 1);
    assert_int_equal(hear_tls(&p, buf, sizeof(HELLO) - 1), sizeof(HELLO) - 1);
    assert_string_equal(f.peer, "203.0.113.9:4711");
    assert_string_equal(f.user, "alice");
    close_tls(&p);
}

static void tls_serves_http1_and_knows_the_user(void **state)
{
    (void)state;
    char buf[sizeof(HELLO)] = "";
    struct tls_peer p = connect_tls(NULL, true);
    assert_int_equal(SSL_write(p.ssl, GET("/hello"), sizeof(GET("/hello")) - 1), sizeof(GET("/hello")) - 1);
    assert_int_equal(hear_tls(&p, buf, sizeof(HELLO) - 1), sizeof(HELLO) - 1);
    assert_string_equal(buf, HELLO);
    assert_string_equal(f.user, "alice");
    assert_string_equal(f.client, "user \"alice\"");
    assert_string_equal(f.peer, "127.0.0.1:5");
    assert_true(f.tls);
    assert_int_equal(stats().tls, 1);
    assert_int_equal(stats().http1, 1);
    assert_false(ends_within(p.fd, 50));
    close_tls(&p);
    turn_for(20);
    assert_int_equal(stats().tls, 0);
}

static bool is_tier(const void *policy, const char *user)
{
    return *(const int *)policy == 7 && strcmp(user, "alice") == 0;
}

static void a_tier_below_is_known_by_its_certificate(void **state)
{
    (void)state;
    char buf[sizeof(HELLO)] = "";
    close_group();
    assert_int_equal(open_group((struct inbound_opts){.is_tier = is_tier}), BELFRY_OK);
    struct tls_peer p = connect_tls(NULL, true);
    assert_int_equal(SSL_write(p.ssl, GET("/hello"), sizeof(GET("/hello")) - 1), sizeof(GET("/hello")) - 1);
    assert_int_equal(hear_tls(&p, buf, sizeof(HELLO) - 1), sizeof(HELLO) - 1);
    assert_string_equal(f.user, "alice");
    assert_string_equal(f.client, "tier \"alice\"");
    close_tls(&p);
}

static void gone_of_alice(struct exchange *x, void *user)
{
    assert_string_equal(exchange_conn(x)->user, "alice");
    crowd_gone(x, user);
}

static void begin_of_alice(struct exchange *x, const struct exchange_head *head, void *user)
{
    static const struct exchange_events of_alice = {on_body, on_body_end, on_writable, gone_of_alice};
    begin_crowd(x, head, user);
    exchange_handle(x, &of_alice, NULL);
}

/* Exchanges end in steps, when the TLS connection is no more. */
static void the_user_is_known_until_the_last_exchange_has_ended(void **state)
{
    (void)state;
    static const char greeting[] = PREFACE "\0\0\0\4\0\0\0\0\0";
    f.begin = begin_of_alice;
    n_crowd = 0;
    struct tls_peer p = connect_tls("\x02h2", true);
    assert_int_equal(SSL_write(p.ssl, greeting, sizeof(greeting) - 1), sizeof(greeting) - 1);
    for (unsigned char id = 1; id < 128; id = (unsigned char)(id + 2)) {
        const unsigned char frame[] = {0, 0, 6, 1, 5, 0, 0, 0, id, 0x82, 0x86, 0x84, 0x01, 1, 'a'};
        assert_int_equal(SSL_write(p.ssl, frame, sizeof(frame)), sizeof(frame));
    }
    for (uint64_t end = belfry_clock_ms() + 5000; n_crowd < 64 && belfry_clock_ms() < end;)
        turn();
    close_tls(&p);
    for (uint64_t end = belfry_clock_ms() + 5000; stats().connections > 0 && belfry_clock_ms() < end;)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_in_range(n_crowd, 1, 63);
    turn_for(20);
    assert_int_equal(n_crowd, 0);
}

static void tls_serves_http2_by_alpn_and_carries_megabytes(void **state)
{
    (void)state;
    static char sink[65536];
    static const char greeting[] = PREFACE "\0\0\0\4\0\0\0\0\0\0\0\4\x08\0\0\0\0\0\x7f\xff\0\0"
                                           "\0\0\x0c\1\5\0\0\0\1\x82\x86\x01\1\141\x04\x05/pump"
                                           "\0\0\4\x08\0\0\0\0\1\x7f\xff\0\0";
    struct tls_peer p = connect_tls("\x02h2\x08http/1.1", false);
    assert_int_equal(SSL_write(p.ssl, greeting, sizeof(greeting) - 1), sizeof(greeting) - 1);
    for (size_t got = 0; got < 8 << 20; got += sizeof(sink))
        assert_int_equal(hear_tls(&p, sink, sizeof(sink)), sizeof(sink));
    assert_int_equal(stats().http2, 1);
    turn_for(100); /* it reads no more: what is unsent is bounded */
    assert_in_range(stats().bytes, 1024, 256 * 1024);
    assert_int_equal(f.n_gone, 0);
    close_tls(&p);
    turn_for(20);
    assert_int_equal(f.n_gone, 1);
}

static void a_user_without_room_is_answered_inside_tls(void **state)
{
    (void)state;
    char buf[1024] = "";
    struct inbound_opts opts = {.linger_ms = 200};
    opts.limits.total[SHARES_CONNECTIONS] = 4;
    assert_int_equal(open_group(opts), BELFRY_OK);
    struct tls_peer served[2], refused;
    for (int i = 0; i < 2; i++) {
        served[i] = connect_tls(NULL, true);
        turn_for(20); /* the server knows the user after the client's last message */
    }
    refused = connect_tls(NULL, true);
    SSL_write(refused.ssl, GET("/hello"), sizeof(GET("/hello")) - 1);
    hear_tls(&refused, buf, sizeof(buf) - 1);
    assert_memory_equal(buf, "HTTP/1.1 503 ", 13);
    assert_non_null(strstr(buf, "\r\n\r\n" REFUSAL));
    assert_int_equal(stats().refused_connections, 1);
    assert_int_equal(stats().refused_handshakes, 0);
    close_tls(&refused);
    close_tls(&served[0]);
    close_tls(&served[1]);
    close_group();
    assert_int_equal(refuse_held(), 0);
}

static void who_does_not_speak_tls_is_closed(void **state)
{
    (void)state;
    struct belfry_tls *tls;
    char why[256];
    struct belfry_tls_server_opts opts = {.cert = keys.server, .key = keys.server_key};
    assert_int_equal(belfry_tls_create_server(&opts, &tls, why, sizeof(why)), BELFRY_OK);
    int plain = connect_peer(tls), mute = connect_peer(tls);
    say(plain, GET("/hello"));
    assert_true(ends_within(plain, 500));
    assert_true(ends_within(mute, 2000));
    assert_int_equal(stats().ended_handshakes, 1);
    assert_int_equal(stats().refused_handshakes, 1);
    assert_int_equal(f.n_begun, 0);
    close(plain);
    close(mute);
    belfry_tls_destroy(tls);
}

static int64_t seconds_later;

static int64_t on_unix_s(void)
{
    return (int64_t)time(NULL) + seconds_later;
}

/* Both protocols; with a certificate that is good for five days. */
static void connection_ends_when_its_certificate_expires(void **state)
{
    (void)state;
    static const char greeting[] = PREFACE "\0\0\0\4\0\0\0\0\0";
    char buf[512] = "";
    seconds_later = 0;
    close_group();
    assert_int_equal(open_group((struct inbound_opts){.check_ms = 200, .linger_ms = 50, .unix_s = on_unix_s}),
                     BELFRY_OK);
    struct tls_peer h1 = connect_tls(NULL, true), h2 = connect_tls("\x02h2", true);
    assert_int_equal(SSL_write(h2.ssl, greeting, sizeof(greeting) - 1), sizeof(greeting) - 1);
    turn_for(500);
    assert_int_equal(stats().connections, 2);
    seconds_later = 4 * 86400;
    turn_for(500);
    assert_int_equal(stats().connections, 2);
    seconds_later = 6 * 86400;
    uint64_t from = belfry_clock_ms();
    size_t n = hear_tls(&h2, buf, sizeof(buf));
    assert_true(belfry_clock_ms() - from < 5000);
    assert_non_null(memmem(buf, n, "belfry: certificate verify failed: certificate has expired", 58));
    assert_int_equal(hear_tls(&h1, buf, sizeof(buf)), 0);
    turn_for(200);
    assert_int_equal(stats().connections, 0);
    assert_int_equal(stats().ended_certificates, 2);
    close_tls(&h1);
    close_tls(&h2);
}

static void connections_are_checked_one_after_another(void **state)
{
    (void)state;
    struct tls_peer peers[8];
    char why[256];
    seconds_later = 0;
    close_group();
    assert_int_equal(open_group((struct inbound_opts){.check_ms = 4000, .unix_s = on_unix_s}), BELFRY_OK);
    for (size_t i = 0; i < 8; i++)
        peers[i] = connect_tls(NULL, true);
    utimes(keys.ca, NULL); /* the same authority: each is verified again, and none ends */
    assert_int_equal(belfry_tls_refresh(f.server_tls, why, sizeof(why)), BELFRY_OK);
    seconds_later = 6 * 86400;
    uint64_t from = belfry_clock_ms(), first = 0;
    while (stats().ended_certificates < 8 && belfry_clock_ms() - from < 10000) {
        turn();
        if (first == 0 && stats().ended_certificates > 0)
            first = belfry_clock_ms();
    }
    uint64_t last = belfry_clock_ms();
    assert_true(last - from < 4000);  /* in time */
    assert_true(last - first > 1000); /* and spread */
    for (size_t i = 0; i < 8; i++)
        close_tls(&peers[i]);
}

/* ---- dead peers ---- */

static void peers_are_judged_by_what_they_acknowledge(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct {
            uint64_t at_ms;
            struct inbound_probe_info info;
        } asked[6];
        enum inbound_verdict last;
    } rows[] = {
        {"all acknowledged", {{1000, {.last_ack_ms = 900000}}}, INBOUND_CLEAR},
        {"reset", {{1000, {.closed = true}}}, INBOUND_DEAD},
        {"window closed, probes answered",
         {{1000, {.unsent = true, .last_ack_ms = 100000}}, {99000, {.unsent = true, .last_ack_ms = 110000}}},
         INBOUND_WAITING},
        {"just sent after a long silence", {{1000000, {.underway = true, .last_ack_ms = 900000}}}, INBOUND_WAITING},
        {"59 s without an acknowledgement",
         {{1000, {.underway = true, .last_ack_ms = 500}}, {60000, {.underway = true, .last_ack_ms = 59500}}},
         INBOUND_WAITING},
        {"60 s without one",
         {{1000, {.underway = true, .last_ack_ms = 500}}, {61000, {.underway = true, .last_ack_ms = 60500}}},
         INBOUND_DEAD},
        {"something is always underway, and acknowledged",
         {{1000, {.underway = true, .last_ack_ms = 5}},
          {31000, {.underway = true, .last_ack_ms = 5}},
          {61000, {.underway = true, .last_ack_ms = 5}},
          {91000, {.underway = true, .last_ack_ms = 5}}},
         INBOUND_WAITING},
        {"a window probe seen on its way twice, answered between",
         {{1000, {.underway = true, .unsent = true, .last_ack_ms = 100000}},
          {16000, {.unsent = true, .last_ack_ms = 14900}},
          {121000, {.underway = true, .unsent = true, .last_ack_ms = 119900}}},
         INBOUND_WAITING},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct inbound_probe probe = {0};
        enum inbound_verdict verdict = INBOUND_CLEAR;
        for (size_t k = 0; k < 6 && rows[i].asked[k].at_ms != 0; k++)
            verdict = inbound_probe_judge(&probe, &rows[i].asked[k].info, rows[i].asked[k].at_ms, 60000);
        if (verdict != rows[i].last)
            fail_msg("%s: %d", rows[i].name, (int)verdict);
    }
}

static void the_kernel_tells_of_unread_bytes_and_of_resets(void **state)
{
    (void)state;
    static char bytes[65536];
    struct inbound_probe_info info;
    struct linger hard = {1, 0};
    int client, server;
    make_pair(&client, &server, 4096);
    inbound_probe_ask(server, &info);
    assert_false(info.closed || info.underway || info.unsent);
    while (send(server, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        ;
    inbound_probe_ask(server, &info);
    assert_true(info.unsent);
    setsockopt(client, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(client);
    inbound_probe_ask(server, &info);
    assert_true(info.closed);
    close(server);
}

static void the_kernel_tells_of_a_unix_socket_that_its_peer_has_closed(void **state)
{
    (void)state;
    struct inbound_probe_info info;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    inbound_probe_ask(pair[0], &info);
    assert_false(info.closed);
    shutdown(pair[1], SHUT_WR); /* it still reads */
    inbound_probe_ask(pair[0], &info);
    assert_false(info.closed);
    close(pair[1]);
    inbound_probe_ask(pair[0], &info);
    assert_true(info.closed);
    close(pair[0]);
}

/* HTTP/1.1: the end of a peer's output may be all that ends, so a response that runs goes on. */
static void a_peer_that_closes_its_unix_socket_during_a_response_is_found(void **state)
{
    (void)state;
    close_group();
    assert_int_equal(open_group((struct inbound_opts){.probe_ms = 100}), BELFRY_OK);
    int half = connect_unix(), whole = connect_unix();
    say(half, GET("/open"));
    say(whole, GET("/open"));
    turn_until_begun(2);
    shutdown(half, SHUT_WR);
    close(whole);
    turn_for(400);
    assert_int_equal(f.n_gone, 1);
    assert_int_equal(stats().connections, 1);
    close(half);
}

/* A peer that pipelines is not read from while its first response runs, so that only asking the kernel tells. */
static void a_peer_that_resets_unread_is_found_by_asking(void **state)
{
    (void)state;
    close_group();
    assert_int_equal(open_group((struct inbound_opts){.probe_ms = 100}), BELFRY_OK);
    struct linger hard = {1, 0};
    int alive = connect_peer(NULL), fd = connect_peer(NULL);
    say(alive, GET("/open") GET("/open"));
    say(fd, GET("/open") GET("/open"));
    turn_until_begun(2);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
    turn_for(400);
    assert_int_equal(f.n_gone, 1);
    assert_int_equal(stats().dead, 1);
    assert_int_equal(stats().connections, 1);
    close(alive);
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    int client, server;
    char buf[64];
    enum belfry_err err = open_group((struct inbound_opts){0});
    if (err == BELFRY_OK) {
        make_pair(&client, &server, 0);
        err = accept_plain(server, NULL);
        if (err == BELFRY_OK) {
            say(client, GET("/open"));
            if (hear(client, buf, 47) != 47)
                err = BELFRY_ERR_NOMEM; /* the connection was closed instead */
            if (err == BELFRY_OK)
                exchange_write(f.open[0], "abc", 3);
            if (err == BELFRY_OK && hear(client, buf, 8) != 8)
                err = BELFRY_ERR_NOMEM;
        }
        close(client);
    }
    close_group();
    return err;
}

static void refused_memory_costs_a_connection_at_most(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 8);
}

static enum belfry_err h2_scenario(void)
{
    int client, server;
    char buf[50];
    enum belfry_err err = open_group((struct inbound_opts){0});
    if (err == BELFRY_OK) {
        make_pair(&client, &server, 0);
        err = accept_plain(server, NULL);
        if (err == BELFRY_OK) {
            say_h2_greeting(client);
            say_h2_request(client, 1, "/hello");
            /* our SETTINGS, the ACK of theirs, and frames of the response behind them */
            size_t got = hear(client, buf, sizeof(buf));
            err = got == sizeof(buf) ? BELFRY_OK : BELFRY_ERR_NOMEM;
        }
        close(client);
    }
    close_group();
    return err;
}

static void refused_memory_costs_an_http2_connection_at_most(void **state)
{
    (void)state;
    assert_true(refuse_sweep(h2_scenario) >= 8);
}

/* False: the handshake is done, or has failed. */
static bool tls_goes_on(struct tls_peer *p, int done)
{
    bool waits = done <= 0 && SSL_get_error(p->ssl, done) == SSL_ERROR_WANT_READ;
    if (waits)
        turn();
    ERR_clear_error();
    return waits;
}

static enum belfry_err tls_scenario(void)
{
    int server;
    char buf[sizeof(HELLO)] = "";
    struct tls_peer p;
    struct belfry_tls_server_opts opts = {.cert = keys.server, .key = keys.server_key, .client_ca = keys.ca};
    enum belfry_err err = open_group((struct inbound_opts){0});
    char why[256];
    if (err == BELFRY_OK)
        err = belfry_tls_create_server(&opts, &f.server_tls, why, sizeof(why));
    if (err == BELFRY_OK) {
        make_pair(&p.fd, &server, 0);
        err = accept_plain(server, f.server_tls);
        p.ctx = SSL_CTX_new(TLS_client_method());
        SSL_CTX_use_certificate_chain_file(p.ctx, keys.client);
        SSL_CTX_use_PrivateKey_file(p.ctx, keys.client_key, SSL_FILETYPE_PEM);
        p.ssl = SSL_new(p.ctx);
        SSL_set_fd(p.ssl, p.fd);
        SSL_set_connect_state(p.ssl);
        if (err == BELFRY_OK) {
            while (tls_goes_on(&p, SSL_do_handshake(p.ssl)))
                ;
            SSL_write(p.ssl, GET("/hello"), sizeof(GET("/hello")) - 1);
            err = hear_tls(&p, buf, sizeof(HELLO) - 1) == sizeof(HELLO) - 1 ? BELFRY_OK : BELFRY_ERR_NOMEM;
        }
        close_tls(&p);
    }
    close_group();
    return err;
}

static void refused_memory_costs_a_connection_with_tls_at_most(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN); /* OpenSSL may write when the server has closed */
    assert_true(refuse_sweep(tls_scenario) >= 8);
    signal(SIGPIPE, SIG_DFL);
}

static enum belfry_err proxy_scenario(void)
{
    int client, server;
    char buf[sizeof(HELLO)] = "";
    enum belfry_err err = open_group((struct inbound_opts){0});
    if (err == BELFRY_OK) {
        f.proxies = &loopback;
        make_pair(&client, &server, 0);
        err = accept_plain(server, NULL);
        if (err == BELFRY_OK) {
            say_bytes(client, HEAD_V4 GET("/hello"), sizeof(HEAD_V4 GET("/hello")) - 1);
            err = hear(client, buf, sizeof(HELLO) - 1) == sizeof(HELLO) - 1 ? BELFRY_OK : BELFRY_ERR_NOMEM;
        }
        close(client);
    }
    close_group();
    return err;
}

static void refused_memory_costs_a_balancers_connection_at_most(void **state)
{
    (void)state;
    assert_true(refuse_sweep(proxy_scenario) >= 8);
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
        cmocka_unit_test_setup_teardown(http1_is_served_and_kept_alive, setup, teardown),
        cmocka_unit_test_setup_teardown(work_is_counted_to_its_client, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_reaches_a_peer_that_is_still_sending, setup, teardown),
        cmocka_unit_test_setup_teardown(a_half_closed_peer_gets_the_rest_of_its_response, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_resets_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(who_says_nothing_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(an_idle_http1_connection_is_closed_and_an_open_one_is_not, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_that_crosses_the_end_of_an_idle_connection_is_not_reset, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(http2_is_served, setup, teardown),
        cmocka_unit_test_setup_teardown(the_protocol_is_known_from_single_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_http2_ends_with_a_goaway, setup, teardown),
        cmocka_unit_test_setup_teardown(a_goodbye_is_no_flood, setup, teardown),
        cmocka_unit_test_setup_teardown(a_later_head_that_is_not_completed_ends_its_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(half_of_any_headers_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(idle_http2_connections_leave_while_there_are_many, setup, teardown),
        cmocka_unit_test_setup_teardown(output_that_is_not_read_is_waited_for_while_memory_is_short, setup, teardown),
        cmocka_unit_test_setup_teardown(a_malformed_head_is_not_waited_for, setup, teardown),
        cmocka_unit_test(heads_that_follow_each_other_have_their_own_time_each),
        cmocka_unit_test(a_crowd_that_leaves_is_told_in_steps),
        cmocka_unit_test(a_crowd_that_is_leaving_is_told_when_the_group_ends),
        cmocka_unit_test(a_crowd_that_breaks_the_protocol_leaves_in_steps),
        cmocka_unit_test(over_the_memory_the_connection_with_most_unfinished_requests_is_ended),
        cmocka_unit_test(a_connection_that_fills_the_memory_alone_is_ended_itself),
        cmocka_unit_test(over_the_memory_there_are_no_new_streams_and_connections),
        cmocka_unit_test(a_connection_without_room_is_answered_and_not_reset),
        cmocka_unit_test(a_hundred_refused_connections_are_answered_whenever_they_ask),
        cmocka_unit_test(refused_connections_are_bounded_and_answered_all_the_same),
        cmocka_unit_test(a_client_of_a_balancer_without_room_is_answered),
        cmocka_unit_test(a_user_without_room_is_answered_inside_tls),
        cmocka_unit_test(a_newcomer_takes_the_place_of_the_connection_that_waits_longest),
        cmocka_unit_test(a_newcomer_ends_no_connection_that_has_asked_already),
        cmocka_unit_test(probe_that_waits_for_its_answer_makes_way_last),
        cmocka_unit_test(nobody_makes_way_while_memory_is_being_freed),
        cmocka_unit_test(over_the_memory_another_client_is_served_and_the_largest_yields),
        cmocka_unit_test_setup_teardown(a_stalled_reader_holds_only_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(all_bytes_arrive_in_order_through_a_small_window, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_allocated_for_what_the_socket_takes, setup, teardown),
        cmocka_unit_test_setup_teardown(shutting_goes_on_from_the_oldest, setup, teardown),
        cmocka_unit_test_setup_teardown(shutting_up_to_a_number_spares_newcomers, setup, teardown),
        cmocka_unit_test_setup_teardown(shutting_ends_the_idle_and_waits_for_the_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_are_as_large_as_handling_them_is_fast, setup, teardown),
        cmocka_unit_test_setup_teardown(a_turn_ends_when_no_more_is_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(connections_that_are_put_off_have_their_turns_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_that_is_put_off_twice_keeps_its_place, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_that_has_ended_has_no_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(costly_input_is_put_off, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_to_pings_wait_for_company_but_not_for_long, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_is_owed_keeps_its_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_that_has_ended_owes_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_balancer_names_its_client, setup, teardown),
        cmocka_unit_test_setup_teardown(a_health_check_of_a_balancer_has_its_own_address, setup, teardown),
        cmocka_unit_test_setup_teardown(a_balancer_without_a_head_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_from_elsewhere_is_no_http, setup, teardown),
        cmocka_unit_test_setup_teardown(a_balancers_head_comes_before_tls, setup, teardown),
        cmocka_unit_test_setup_teardown(tls_serves_http1_and_knows_the_user, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tier_below_is_known_by_its_certificate, setup, teardown),
        cmocka_unit_test_setup_teardown(the_user_is_known_until_the_last_exchange_has_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(tls_serves_http2_by_alpn_and_carries_megabytes, setup, teardown),
        cmocka_unit_test_setup_teardown(who_does_not_speak_tls_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(connection_ends_when_its_certificate_expires, setup, teardown),
        cmocka_unit_test_setup_teardown(connections_are_checked_one_after_another, setup, teardown),
        cmocka_unit_test(peers_are_judged_by_what_they_acknowledge),
        cmocka_unit_test(the_kernel_tells_of_unread_bytes_and_of_resets),
        cmocka_unit_test(the_kernel_tells_of_a_unix_socket_that_its_peer_has_closed),
        cmocka_unit_test_setup_teardown(a_peer_that_resets_unread_is_found_by_asking, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_closes_its_unix_socket_during_a_response_is_found, setup, teardown),
        cmocka_unit_test(refused_memory_costs_a_connection_at_most),
        cmocka_unit_test(refused_memory_costs_an_http2_connection_at_most),
        cmocka_unit_test(refused_memory_costs_a_connection_with_tls_at_most),
        cmocka_unit_test(refused_memory_costs_a_balancers_connection_at_most),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
