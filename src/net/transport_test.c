/* src/net/transport_test.c: against real sockets on loopback; each peer is a thread with blocking calls. */
#include "net/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/dns_private.h"
#include "net/loop.h"
#include "net/tls_test_keys.h"
#include "support/refuse.h"

#define MUCH     (5u * 1024 * 1024)
#define GREETING 500
#define LIMIT_MS 30000 /* for what should take milliseconds, and under a sanitizer on a busy machine takes seconds */

static struct test_keys keys;

/* Byte `at` of all that is sent, whoever sends it. */
static char pattern(size_t at)
{
    return (char)(at * 131 >> 5);
}

enum peer_kind {
    PEER_ECHO,   /* sends back all it gets, until the end */
    PEER_SINK,   /* reads nothing until it is stopped */
    PEER_CLOSE,  /* takes the connection and ends it */
    PEER_RESET,  /* the same with RST */
    PEER_GREET,  /* sends a greeting, reads nothing and ends it */
    PEER_SILENT, /* takes the connection and says nothing */
    PEER_HTTP    /* answers like a plain HTTP server */
};

struct peer_opts {
    enum peer_kind kind;
    bool tls, no_alpn, want_client_cert;
    const char *address; /* NULL: 127.0.0.1 */
    const char *unix_path;
    int listener; /* 0: made here; otherwise the two above say nothing */
};

struct peer {
    struct peer_opts opts;
    int fd;
    uint16_t port;
    SSL_CTX *ctx;
    pthread_t thread;
    int stop[2]; /* closing stop[1] ends the thread */
};

static bool stopped(struct peer *peer, int fd)
{
    struct pollfd fds[] = {{fd, POLLIN, 0}, {peer->stop[0], POLLIN, 0}};
    poll(fds, 2, -1);
    return fds[1].revents != 0;
}

static ssize_t peer_read(int fd, SSL *ssl, void *buf, size_t len)
{
    return ssl != NULL ? SSL_read(ssl, buf, (int)len) : read(fd, buf, len);
}

static bool peer_write(int fd, SSL *ssl, const char *buf, size_t len)
{
    while (len > 0) {
        ssize_t n = ssl != NULL ? SSL_write(ssl, buf, (int)len) : write(fd, buf, len);
        if (n <= 0)
            return false;
        buf += n;
        len -= (size_t)n;
    }
    return true;
}

static void echo(struct peer *peer, int fd, SSL *ssl)
{
    char buf[50000];
    while ((ssl != NULL && SSL_pending(ssl) > 0) || !stopped(peer, fd)) {
        ssize_t n = peer_read(fd, ssl, buf, sizeof(buf));
        if (n <= 0 || !peer_write(fd, ssl, buf, (size_t)n))
            return;
    }
}

static void serve_one(struct peer *peer, int fd, SSL *ssl)
{
    struct linger at_once = {1, 0};
    char buf[1000];
    switch (peer->opts.kind) {
    case PEER_ECHO:
        echo(peer, fd, ssl);
        break;
    case PEER_CLOSE:
        break;
    case PEER_RESET:
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        break;
    case PEER_GREET:
        for (size_t i = 0; i < GREETING; i++)
            buf[i] = pattern(i);
        peer_write(fd, ssl, buf, GREETING);
        break;
    case PEER_HTTP:
        if (read(fd, buf, sizeof(buf)) > 0)
            peer_write(fd, NULL, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
        break;
    case PEER_SINK:
    case PEER_SILENT:
        stopped(peer, -1);
        break;
    }
}

static int pick_h2(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                   unsigned in_len, void *user)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    unsigned char *chosen;
    (void)ssl, (void)user;
    if (SSL_select_next_proto(&chosen, out_len, h2, 3, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void serve_tls(struct peer *peer, int fd)
{
    SSL *ssl = SSL_new(peer->ctx);
    SSL_set_fd(ssl, fd);
    if (!stopped(peer, fd) && SSL_accept(ssl) == 1) {
        serve_one(peer, fd, ssl);
        SSL_shutdown(ssl);
    }
    SSL_free(ssl);
    ERR_clear_error();
}

static void *peer_main(void *user)
{
    struct peer *peer = user;
    sigset_t pipe_signal; /* the peers' writes may meet closed sockets; the library's own must not raise it at all */
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
    while (!stopped(peer, peer->fd)) {
        int fd = accept(peer->fd, NULL, NULL);
        if (fd < 0)
            continue;
        if (peer->opts.tls)
            serve_tls(peer, fd);
        else
            serve_one(peer, fd, NULL);
        close(fd);
    }
    return NULL;
}

static SSL_CTX *server_context(const struct peer_opts *opts)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate_chain_file(ctx, keys.server);
    SSL_CTX_use_PrivateKey_file(ctx, keys.server_key, SSL_FILETYPE_PEM);
    if (!opts->no_alpn)
        SSL_CTX_set_alpn_select_cb(ctx, pick_h2, NULL);
    if (opts->want_client_cert) {
        SSL_CTX_load_verify_file(ctx, keys.ca);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    return ctx;
}

/* -1: somebody else has the port. */
static int try_listen(const char *address, uint16_t *port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, address, &at.sin_addr);
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
        assert_int_equal(errno, EADDRINUSE);
        close(fd);
        return -1;
    }
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static int listen_tcp(const char *address, uint16_t *port, int backlog)
{
    int fd = try_listen(address, port, backlog);
    assert_true(fd >= 0);
    return fd;
}

/* Both listen at the port that is returned. The kernel picks it for the first: it may be taken at the second. */
static uint16_t listen_twice(const char *const *addresses, int *fds)
{
    for (int tries = 0; tries < 100; tries++) {
        uint16_t port = 0;
        fds[0] = listen_tcp(addresses[0], &port, 8);
        fds[1] = try_listen(addresses[1], &port, 8);
        if (fds[1] >= 0)
            return port;
        close(fds[0]);
    }
    fail_msg("no port is free at both addresses");
    return 0;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void start_peer(struct peer *peer, struct peer_opts opts)
{
    memset(peer, 0, sizeof(*peer));
    peer->opts = opts;
    if (opts.listener > 0)
        peer->fd = opts.listener;
    else if (opts.unix_path != NULL)
        peer->fd = listen_unix(opts.unix_path);
    else
        peer->fd = listen_tcp(opts.address == NULL ? "127.0.0.1" : opts.address, &peer->port, 8);
    if (opts.tls)
        peer->ctx = server_context(&opts);
    assert_int_equal(pipe(peer->stop), 0);
    assert_int_equal(pthread_create(&peer->thread, NULL, peer_main, peer), 0);
}

static void stop_peer(struct peer *peer)
{
    close(peer->stop[1]);
    pthread_join(peer->thread, NULL);
    close(peer->stop[0]);
    close(peer->fd);
    SSL_CTX_free(peer->ctx);
}

enum moment { NEVER, IN_UP, IN_BYTES, IN_PULL, IN_LOST };

struct client {
    struct belfry_loop *loop;
    struct belfry_dns *dns;
    struct belfry_tls *tls;
    struct belfry_transport *transport;
    int name_server; /* -1, or a UDP socket that answers with n_addresses loopback addresses */
    size_t n_addresses;
    enum moment close_at;
    bool in_kick; /* nothing may call back now */

    size_t to_send, sent, received;
    size_t pull_bytes; /* given per pull */
    size_t largest_read;
    int ups, losts, late; /* late: callbacks after close */
    enum belfry_err err;
    char why[400];
    char out[70000];
};

static void maybe_close(struct client *c, enum moment now)
{
    assert_false(c->in_kick);
    if (c->transport == NULL)
        c->late++;
    if (c->close_at != now)
        return;
    belfry_transport_close(c->transport);
    c->transport = NULL;
}

static void on_up(struct belfry_transport *t, void *user)
{
    struct client *c = user;
    (void)t;
    c->ups++;
    maybe_close(c, IN_UP);
}

static void on_bytes(struct belfry_transport *t, struct belfry_bytes bytes, void *user)
{
    struct client *c = user;
    (void)t;
    for (size_t i = 0; i < bytes.len; i++)
        if (c->to_send > 0 && bytes.data[i] != pattern(c->received + i))
            fail_msg("byte %zu is wrong", c->received + i);
    c->received += bytes.len;
    if (bytes.len > c->largest_read)
        c->largest_read = bytes.len;
    maybe_close(c, IN_BYTES);
}

static struct belfry_bytes on_pull(struct belfry_transport *t, void *user)
{
    struct client *c = user;
    size_t n = c->to_send - c->sent;
    (void)t;
    if (n > c->pull_bytes)
        n = c->pull_bytes;
    for (size_t i = 0; i < n; i++)
        c->out[i] = pattern(c->sent + i);
    c->sent += n;
    maybe_close(c, IN_PULL);
    return belfry_bytes_of(c->out, n);
}

static void on_lost(struct belfry_transport *t, enum belfry_err err, const char *why, void *user)
{
    struct client *c = user;
    (void)t;
    c->losts++;
    c->err = err;
    snprintf(c->why, sizeof(c->why), "%s", why);
    maybe_close(c, IN_LOST);
}

static const struct belfry_transport_events events = {on_up, on_bytes, on_pull, on_lost};

static int set_up(void **state)
{
    static struct client c;
    memset(&c, 0, sizeof(c));
    c.name_server = -1;
    c.pull_bytes = sizeof(c.out);
    assert_int_equal(belfry_loop_create(&c.loop), BELFRY_OK);
    assert_int_equal(belfry_dns_create(belfry_loop_uv(c.loop), &c.dns), BELFRY_OK);
    *state = &c;
    return 0;
}

static int tear_down(void **state)
{
    struct client *c = *state;
    belfry_transport_close(c->transport);
    belfry_dns_destroy(c->dns);
    belfry_loop_destroy(c->loop);
    belfry_tls_destroy(c->tls);
    if (c->name_server >= 0)
        close(c->name_server);
    assert_int_equal(c->late, 0);
    assert_true(c->ups <= 1 && c->losts <= 1);
    return 0;
}

/* `format` takes the port. */
__attribute__((format(printf, 2, 0))) static struct belfry_endpoint endpoint_at(uint16_t port, const char *format)
{
    struct belfry_endpoint endpoint;
    char text[200], why[200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof(text), format, (unsigned)port);
#pragma GCC diagnostic pop
    assert_int_equal(belfry_endpoint_parse(text, strlen(text), &endpoint, why, sizeof(why)), BELFRY_OK);
    return endpoint;
}

static void open_at(struct client *c, struct belfry_endpoint endpoint, uint32_t dial_timeout_ms)
{
    struct belfry_transport_opts opts = {belfry_loop_uv(c->loop), c->dns, &endpoint, c->tls, dial_timeout_ms};
    assert_int_equal(belfry_transport_open(&opts, &events, c, &c->transport), BELFRY_OK);
    assert_int_equal(c->ups + c->losts, 0);
    belfry_loop_rearm(c->loop);
}

static void use_tls(struct client *c, struct belfry_tls_opts opts)
{
    char why[256];
    if (belfry_tls_create(&opts, &c->tls, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
}

static void kick(struct client *c)
{
    c->in_kick = true;
    belfry_transport_kick(c->transport);
    c->in_kick = false;
    belfry_loop_rearm(c->loop);
}

/* The question is at byte 12; A gets the addresses 127.0.0.1, .2, ..., AAAA none. */
static void answer_name(struct client *c)
{
    uint8_t packet[1024];
    struct sockaddr_storage from;
    socklen_t from_len = sizeof(from);
    ssize_t len = recvfrom(c->name_server, packet, 512, 0, (struct sockaddr *)&from, &from_len);
    size_t end = 12;
    if (len < 12)
        return;
    while (packet[end] != 0)
        end += packet[end] + 1u;
    size_t n = packet[end + 2] == 1 ? c->n_addresses : 0;
    end += 5;
    memcpy(packet + 2, (uint8_t[]){0x81, 0x80, 0, 1, 0, (uint8_t)n, 0, 0, 0, 0}, 10);
    for (size_t i = 0; i < n; i++, end += 16)
        memcpy(packet + end, (uint8_t[]){0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, (uint8_t)(i + 1)}, 16);
    sendto(c->name_server, packet, end, 0, (struct sockaddr *)&from, from_len);
}

static void start_name_server(struct client *c, size_t n_addresses, const char *resolv_conf)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    FILE *file = fopen(resolv_conf, "w");
    assert_non_null(file);
    fputs("nameserver 127.0.0.1\n", file);
    fclose(file);
    c->n_addresses = n_addresses;
    c->name_server = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(c->name_server, (struct sockaddr *)&at, sizeof(at)), 0);
    getsockname(c->name_server, (struct sockaddr *)&at, &len);
    belfry_dns_redirect(c->dns, resolv_conf, ntohs(at.sin_port));
}

typedef bool (*done_fn)(const struct client *c);

static bool is_up(const struct client *c)
{
    return c->ups > 0 || c->losts > 0;
}

static bool is_lost(const struct client *c)
{
    return c->losts > 0;
}

static bool is_echoed(const struct client *c)
{
    return c->received == c->to_send || c->losts > 0;
}

static bool is_closed(const struct client *c)
{
    return c->transport == NULL;
}

static bool is_never(const struct client *c)
{
    (void)c;
    return false;
}

/* Returns the number of turns. */
static int run_for(struct client *c, done_fn done, int limit_ms)
{
    uint64_t end = belfry_clock_ms() + (uint64_t)limit_ms;
    int turns = 0;
    while (!done(c)) {
        uint64_t now = belfry_clock_ms();
        struct pollfd fds[] = {{belfry_loop_fd(c->loop), POLLIN, 0}, {c->name_server, POLLIN, 0}};
        if (now >= end || poll(fds, 2, (int)(end - now)) == 0)
            break;
        if (fds[1].revents != 0)
            answer_name(c);
        if (fds[0].revents != 0) {
            assert_int_equal(belfry_loop_dispatch(c->loop), BELFRY_OK);
            turns++;
        }
    }
    return turns;
}

static void run(struct client *c, done_fn done)
{
    run_for(c, done, LIMIT_MS);
    if (!done(c))
        fail_msg("still waiting after %d ms: ups %d, losts %d, sent %zu, received %zu", LIMIT_MS, c->ups, c->losts,
                 c->sent, c->received);
}

static void assert_lost(struct client *c, enum belfry_err err, const char *why)
{
    run(c, is_lost);
    if (c->err != err || strstr(c->why, why) == NULL)
        fail_msg("lost with %s: %s", belfry_errname((int)c->err), c->why);
}

static void assert_quiet(struct client *c)
{
    assert_true(run_for(c, is_never, 100) < 8);
}

static void echo_much(struct client *c)
{
    c->to_send = MUCH;
    run(c, is_echoed);
    assert_int_equal(c->ups, 1);
    assert_int_equal(c->losts, 0);
    assert_int_equal(c->sent, MUCH);
    assert_int_equal(c->received, MUCH);
    assert_in_range(c->largest_read, 1, 64 * 1024);
    assert_quiet(c);
}

static void plain_bytes_go_both_ways(void **state)
{
    struct client *c = *state;
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO});
    open_at(c, endpoint_at(peer.port, "127.0.0.1:%u"), LIMIT_MS);
    echo_much(c);
    stop_peer(&peer);
}

static void tls_bytes_go_both_ways(void **state)
{
    struct client *c = *state;
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO, .tls = true});
    use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
    open_at(c, endpoint_at(peer.port, "https://127.0.0.1:%u"), LIMIT_MS);
    echo_much(c);
    stop_peer(&peer);
}

static void unix_sockets_work_plain_and_with_tls(void **state)
{
    static const char *const schemes[] = {"unix", "unixs"};
    for (size_t i = 0; i < 2; i++) {
        struct client *c = *state;
        struct peer peer;
        char path[100], text[120];
        snprintf(path, sizeof(path), "%s/sock", keys.folder);
        snprintf(text, sizeof(text), "%s://%s/sock", schemes[i], keys.folder);
        start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO, .tls = i == 1, .unix_path = path});
        use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
        struct belfry_endpoint endpoint;
        assert_int_equal(belfry_endpoint_parse(text, strlen(text), &endpoint, c->why, sizeof(c->why)), BELFRY_OK);
        open_at(c, endpoint, LIMIT_MS);
        echo_much(c);
        unlink(path);
        stop_peer(&peer);
        if (i == 0) {
            tear_down(state);
            set_up(state);
        }
    }
}

static void kick_outside_a_turn_is_pulled_on_the_next(void **state)
{
    struct client *c = *state;
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO});
    open_at(c, endpoint_at(peer.port, "127.0.0.1:%u"), LIMIT_MS);
    run(c, is_up);
    for (size_t round = 1; round <= 20; round++) {
        assert_quiet(c);
        c->to_send += 10 * round;
        kick(c);
        kick(c); /* twice is once */
        run(c, is_echoed);
        assert_int_equal(c->received, c->to_send);
    }
    stop_peer(&peer);
}

static void small_pulls_are_written_in_order(void **state)
{
    struct client *c = *state;
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO, .tls = true});
    use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
    c->pull_bytes = 37;
    c->to_send = 100000;
    open_at(c, endpoint_at(peer.port, "https://localhost:%u"), LIMIT_MS);
    run(c, is_echoed);
    assert_int_equal(c->received, 100000);
    stop_peer(&peer);
}

/* Returns how much went until nothing more did; how long that takes is the machine's affair. */
static size_t wait_until_full(struct client *c)
{
    for (int tries = 0; tries < 20; tries++) {
        size_t before = c->sent;
        run_for(c, is_never, 500);
        if (c->sent == before && before > 0)
            return before;
    }
    fail_msg("still pulling after %zu bytes", c->sent);
    return 0;
}

/* A peer that does not read stops the pulling; it must neither spin nor buffer. */
static void peer_that_does_not_read_stops_the_pulling(void **state)
{
    for (int tls = 0; tls < 2; tls++) {
        struct client *c = *state;
        struct peer peer;
        start_peer(&peer, (struct peer_opts){.kind = PEER_SINK, .tls = tls == 1});
        use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
        c->to_send = SIZE_MAX;
        open_at(c, endpoint_at(peer.port, tls ? "https://127.0.0.1:%u" : "127.0.0.1:%u"), LIMIT_MS);
        run(c, is_up);
        size_t sent = wait_until_full(c);
        kick(c);
        assert_quiet(c);
        assert_int_equal(c->sent, sent);
        stop_peer(&peer);
        assert_lost(c, BELFRY_ERR_UNAVAILABLE, "the peer");
        if (tls == 0) {
            tear_down(state);
            set_up(state);
        }
    }
}

static uint16_t free_port(void)
{
    uint16_t port = 0;
    close(listen_tcp("127.0.0.1", &port, 1));
    return port;
}

static void refused_port_is_told(void **state)
{
    struct client *c = *state;
    open_at(c, endpoint_at(free_port(), "127.0.0.1:%u"), LIMIT_MS);
    assert_lost(c, BELFRY_ERR_UNAVAILABLE, "connection refused");
    assert_quiet(c);
}

static void missing_unix_socket_is_told_from_the_loop(void **state)
{
    struct client *c = *state;
    open_at(c, endpoint_at(1, "unix:///tmp/belfry-no-such-socket-%u"), LIMIT_MS);
    assert_lost(c, BELFRY_ERR_UNAVAILABLE, "there is no such socket");
}

/* Fills the queue of a listening socket until the kernel answers no more; the descriptors stay open. */
static size_t fill_backlog(uint16_t port, const char *address, int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
        inet_pton(AF_INET, address, &at.sin_addr);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fds[i], (struct sockaddr *)&at, sizeof(at));
        struct pollfd poller = {fds[i], POLLOUT, 0};
        if (poll(&poller, 1, 200) == 0)
            return i + 1;
    }
    fail_msg("the backlog does not fill");
    return n;
}

static void close_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
}

static void connect_without_answer_ends_at_the_timeout(void **state)
{
    struct client *c = *state;
    int fds[16];
    uint16_t port = 0;
    int listener = listen_tcp("127.0.0.1", &port, 0);
    size_t n = fill_backlog(port, "127.0.0.1", fds, 16);
    uint64_t start = belfry_clock_ms();
    open_at(c, endpoint_at(port, "127.0.0.1:%u"), 300);
    assert_lost(c, BELFRY_ERR_TIMEOUT, "no answer within 300 ms");
    assert_in_range(belfry_clock_ms() - start, 290, 2000);
    close_all(fds, n);
    close(listener);
}

static void handshake_without_answer_ends_at_the_timeout(void **state)
{
    struct client *c = *state;
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_SILENT});
    use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
    open_at(c, endpoint_at(peer.port, "https://127.0.0.1:%u"), 2000); /* enough to be connected by then */
    assert_lost(c, BELFRY_ERR_TIMEOUT, "the TLS handshake did not end within 2000 ms");
    stop_peer(&peer);
}

static void silent_name_server_ends_at_the_timeout(void **state)
{
    struct client *c = *state;
    char path[100];
    snprintf(path, sizeof(path), "%s/resolv.conf", keys.folder);
    start_name_server(c, 1, path);
    int fd = c->name_server;
    c->name_server = -1; /* nobody answers */
    open_at(c, endpoint_at(1, "etcd.test:%u"), 300);
    assert_lost(c, BELFRY_ERR_TIMEOUT, "the name was not resolved within 300 ms");
    close(fd);
    unlink(path);
}

static void name_without_address_is_told(void **state)
{
    struct client *c = *state;
    char path[100];
    snprintf(path, sizeof(path), "%s/resolv.conf", keys.folder);
    start_name_server(c, 0, path);
    open_at(c, endpoint_at(1, "etcd.test:%u"), LIMIT_MS);
    assert_lost(c, BELFRY_ERR_RESOLVE, "etcd.test: the name has no address");
    unlink(path);
}

/* Two addresses, one of which refuses: whichever comes first, the other is reached. */
static void addresses_are_tried_in_turn(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2"};
    for (size_t i = 0; i < 2; i++) {
        struct client *c = *state;
        struct peer peer;
        char path[100];
        snprintf(path, sizeof(path), "%s/resolv.conf", keys.folder);
        start_name_server(c, 2, path);
        start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO, .address = addresses[i]});
        c->to_send = 1000;
        open_at(c, endpoint_at(peer.port, "etcd.test:%u"), LIMIT_MS);
        run(c, is_echoed);
        assert_int_equal(c->received, 1000);
        stop_peer(&peer);
        unlink(path);
        tear_down(state);
        set_up(state);
    }
}

static void all_addresses_refusing_is_lost_once(void **state)
{
    struct client *c = *state;
    char path[100];
    snprintf(path, sizeof(path), "%s/resolv.conf", keys.folder);
    start_name_server(c, 5, path);
    open_at(c, endpoint_at(free_port(), "etcd.test:%u"), LIMIT_MS);
    assert_lost(c, BELFRY_ERR_UNAVAILABLE, "connection refused");
    assert_quiet(c);
    unlink(path);
}

/* How long it took to be up, given `dial_timeout_ms` for two addresses; 0: it was lost. */
static uint64_t time_to_up(struct client *c, uint16_t port, uint32_t dial_timeout_ms)
{
    uint64_t start = belfry_clock_ms();
    open_at(c, endpoint_at(port, "https://etcd.test:%u"), dial_timeout_ms);
    run(c, is_up);
    return c->losts == 0 ? belfry_clock_ms() - start : 0;
}

/* The first address hangs in its handshake, the second is good: half of the time goes to each. That the second got its
 * half is seen by being up at all. A half that a busy machine takes for the handshake is doubled until it is enough;
 * were it none, no time would be. */
static void silent_address_gets_only_its_share_of_the_time(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2"};
    struct client *c = *state;
    struct peer silent, good;
    int listeners[2];
    char path[100];
    uint32_t dial_timeout_ms = 1000;
    snprintf(path, sizeof(path), "%s/resolv.conf", keys.folder);
    uint16_t port = listen_twice(addresses, listeners);
    start_peer(&silent, (struct peer_opts){.kind = PEER_SILENT, .listener = listeners[0]});
    start_peer(&good, (struct peer_opts){.kind = PEER_ECHO, .tls = true, .listener = listeners[1]});
    for (;; dial_timeout_ms *= 2) {
        start_name_server(c, 2, path);
        use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
        c->to_send = 100;
        uint64_t took_ms = time_to_up(c, port, dial_timeout_ms);
        if (took_ms > 0) {
            assert_in_range(took_ms, dial_timeout_ms / 2 - 10, LIMIT_MS); /* the silent one was tried, for its half */
            break;
        }
        assert_int_equal(c->err, BELFRY_ERR_TIMEOUT);
        assert_true(dial_timeout_ms < 16000);
        tear_down(state);
        set_up(state);
    }
    run(c, is_echoed);
    assert_int_equal(c->received, 100);
    stop_peer(&silent);
    stop_peer(&good);
    unlink(path);
}

static void peer_that_ends_is_told(void **state)
{
    static const struct {
        enum peer_kind kind;
        bool tls;
        const char *why;
    } rows[] = {{PEER_CLOSE, false, "the peer closed the connection"},
                {PEER_CLOSE, true, "the peer closed the connection"},
                {PEER_RESET, false, "the peer reset the connection"}};
    for (size_t i = 0; i < 3; i++) {
        struct client *c = *state;
        struct peer peer;
        start_peer(&peer, (struct peer_opts){.kind = rows[i].kind, .tls = rows[i].tls});
        use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
        open_at(c, endpoint_at(peer.port, rows[i].tls ? "https://127.0.0.1:%u" : "127.0.0.1:%u"), LIMIT_MS);
        assert_lost(c, BELFRY_ERR_UNAVAILABLE, rows[i].why);
        assert_quiet(c);
        stop_peer(&peer);
        tear_down(state);
        set_up(state);
    }
}

/* SIGPIPE has its default action here: raised, it would end the suite. */
static void writing_to_a_dead_peer_raises_no_signal(void **state)
{
    for (int tls = 0; tls < 2; tls++) {
        struct client *c = *state;
        struct peer peer;
        start_peer(&peer, (struct peer_opts){.kind = PEER_RESET, .tls = tls == 1});
        use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
        c->to_send = SIZE_MAX;
        open_at(c, endpoint_at(peer.port, tls ? "https://127.0.0.1:%u" : "127.0.0.1:%u"), LIMIT_MS);
        run(c, is_lost);
        assert_int_equal(c->err, BELFRY_ERR_UNAVAILABLE);
        stop_peer(&peer);
        tear_down(state);
        set_up(state);
    }
}

/* We write all the time, so that it is a write that finds the peer gone; its greeting still arrives. */
static void last_words_of_the_peer_are_read_before_it_is_lost(void **state)
{
    for (int round = 0; round < 20; round++) {
        struct client *c = *state;
        struct peer peer;
        c->to_send = SIZE_MAX;
        start_peer(&peer, (struct peer_opts){.kind = PEER_GREET});
        open_at(c, endpoint_at(peer.port, "127.0.0.1:%u"), LIMIT_MS);
        run(c, is_lost);
        if (c->received != GREETING)
            fail_msg("round %d: %zu bytes, then lost with %s", round, c->received, c->why);
        stop_peer(&peer);
        tear_down(state);
        set_up(state);
    }
}

static void wrong_tls_is_told_with_the_reason(void **state)
{
    const struct {
        struct peer_opts peer;
        struct belfry_tls_opts client;
        const char *why;
    } rows[] = {
        {{.kind = PEER_ECHO, .tls = true}, {.cacert = keys.other_ca}, "certificate verify failed"},
        {{.kind = PEER_ECHO, .tls = true}, {.cacert = keys.ca, .server_name = "x.test"}, "hostname mismatch"},
        {{.kind = PEER_ECHO, .tls = true, .no_alpn = true}, {.cacert = keys.ca}, "did not offer HTTP/2 (ALPN h2)"},
        {{.kind = PEER_ECHO, .tls = true, .want_client_cert = true}, {.cacert = keys.ca}, "certificate required"},
        {{.kind = PEER_HTTP}, {.cacert = keys.ca}, "does not speak TLS"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *c = *state;
        struct peer peer;
        start_peer(&peer, rows[i].peer);
        use_tls(c, rows[i].client);
        open_at(c, endpoint_at(peer.port, "https://127.0.0.1:%u"), LIMIT_MS);
        assert_lost(c, BELFRY_ERR_TLS, rows[i].why);
        stop_peer(&peer);
        tear_down(state);
        set_up(state);
    }
}

static void client_certificate_is_shown(void **state)
{
    struct client *c = *state;
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO, .tls = true, .want_client_cert = true});
    use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca, .cert = keys.client, .key = keys.client_key});
    c->to_send = 1000;
    open_at(c, endpoint_at(peer.port, "https://127.0.0.1:%u"), LIMIT_MS);
    run(c, is_echoed);
    assert_int_equal(c->received, 1000);
    stop_peer(&peer);
}

static void peer_that_ends_in_the_handshake_is_told(void **state)
{
    struct client *c = *state;
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_CLOSE});
    use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
    open_at(c, endpoint_at(peer.port, "https://127.0.0.1:%u"), LIMIT_MS);
    run(c, is_lost);
    assert_int_equal(c->err, BELFRY_ERR_UNAVAILABLE); /* an end or a reset, as the kernel sees our hello */
    stop_peer(&peer);
}

static void every_callback_may_close(void **state)
{
    static const enum moment moments[] = {IN_UP, IN_BYTES, IN_PULL, IN_LOST};
    for (size_t i = 0; i < 8; i++) {
        struct client *c = *state;
        struct peer peer;
        bool tls = i >= 4;
        c->close_at = moments[i % 4];
        c->to_send = 300000;
        start_peer(&peer, (struct peer_opts){.kind = c->close_at == IN_LOST ? PEER_CLOSE : PEER_ECHO, .tls = tls});
        use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
        open_at(c, endpoint_at(peer.port, tls ? "https://127.0.0.1:%u" : "127.0.0.1:%u"), LIMIT_MS);
        run(c, is_closed);
        assert_quiet(c);
        assert_int_equal(c->losts, c->close_at == IN_LOST ? 1 : 0);
        stop_peer(&peer);
        tear_down(state);
        set_up(state);
    }
}

/* Closed after each number of turns, so in every state it passes through. */
static void close_in_any_state_makes_no_further_callback(void **state)
{
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO, .tls = true});
    for (int turns = 0; turns < 12; turns++) {
        struct client *c = *state;
        use_tls(c, (struct belfry_tls_opts){.cacert = keys.ca});
        c->to_send = 300000;
        open_at(c, endpoint_at(peer.port, "https://localhost:%u"), LIMIT_MS);
        for (int i = 0; i < turns && belfry_loop_wait(c->loop, 100) == BELFRY_OK; i++)
            assert_int_equal(belfry_loop_dispatch(c->loop), BELFRY_OK);
        belfry_transport_close(c->transport);
        c->transport = NULL;
        belfry_loop_rearm(c->loop);
        assert_quiet(c);
        tear_down(state);
        set_up(state);
    }
    stop_peer(&peer);
}

static void wrong_options_are_refused(void **state)
{
    struct client *c = *state;
    struct belfry_endpoint tls = endpoint_at(1, "https://127.0.0.1:%u"), plain = endpoint_at(1, "127.0.0.1:%u");
    struct belfry_transport_opts no_tls = {belfry_loop_uv(c->loop), c->dns, &tls, NULL, 100};
    struct belfry_transport_opts no_time = {belfry_loop_uv(c->loop), c->dns, &plain, NULL, 0};
    assert_int_equal(belfry_transport_open(&no_tls, &events, c, &c->transport), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_transport_open(&no_time, &events, c, &c->transport), BELFRY_ERR_INVALID);
    belfry_transport_close(NULL);
}

static void no_descriptors_left_is_told(void **state)
{
    struct client *c = *state;
    struct rlimit old, low;
    int lowest = dup(0);
    close(lowest);
    open_at(c, endpoint_at(1, "127.0.0.1:%u"), LIMIT_MS);
    getrlimit(RLIMIT_NOFILE, &old);
    low = (struct rlimit){(rlim_t)lowest, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    for (int i = 0; i < 5 && c->losts == 0; i++)
        belfry_ignore(belfry_loop_dispatch(c->loop)); /* looked at below, with the limit back */
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(c->err, BELFRY_ERR_LIMIT);
    assert_non_null(strstr(c->why, "raise the limit"));
}

static struct peer *swept_peer;

static enum belfry_err echo_scenario(void)
{
    static struct client c;
    struct belfry_tls_opts tls = {.cacert = keys.ca};
    struct belfry_endpoint endpoint = endpoint_at(swept_peer->port, "https://127.0.0.1:%u");
    memset(&c, 0, sizeof(c));
    c.name_server = -1;
    c.to_send = 200000;
    c.pull_bytes = sizeof(c.out);
    enum belfry_err err = belfry_loop_create(&c.loop);
    if (err == BELFRY_OK)
        err = belfry_dns_create(belfry_loop_uv(c.loop), &c.dns);
    if (err == BELFRY_OK)
        err = belfry_tls_create(&tls, &c.tls, c.why, sizeof(c.why));
    if (err == BELFRY_OK) {
        struct belfry_transport_opts opts = {belfry_loop_uv(c.loop), c.dns, &endpoint, c.tls, 5000};
        err = belfry_transport_open(&opts, &events, &c, &c.transport);
    }
    if (err == BELFRY_OK) {
        belfry_loop_rearm(c.loop);
        run_for(&c, is_echoed, LIMIT_MS);
        err = c.losts > 0 ? c.err : c.received == c.to_send ? BELFRY_OK : BELFRY_ERR_TIMEOUT;
    }
    belfry_transport_close(c.transport);
    belfry_dns_destroy(c.dns);
    belfry_loop_destroy(c.loop);
    belfry_tls_destroy(c.tls);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    struct peer peer;
    start_peer(&peer, (struct peer_opts){.kind = PEER_ECHO, .tls = true});
    swept_peer = &peer;
    assert_true(refuse_sweep(echo_scenario) >= 6);
    stop_peer(&peer);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plain_bytes_go_both_ways),
        TEST(tls_bytes_go_both_ways),
        TEST(unix_sockets_work_plain_and_with_tls),
        TEST(kick_outside_a_turn_is_pulled_on_the_next),
        TEST(small_pulls_are_written_in_order),
        TEST(peer_that_does_not_read_stops_the_pulling),
        TEST(refused_port_is_told),
        TEST(missing_unix_socket_is_told_from_the_loop),
        TEST(connect_without_answer_ends_at_the_timeout),
        TEST(handshake_without_answer_ends_at_the_timeout),
        TEST(silent_name_server_ends_at_the_timeout),
        TEST(name_without_address_is_told),
        TEST(addresses_are_tried_in_turn),
        TEST(all_addresses_refusing_is_lost_once),
        TEST(silent_address_gets_only_its_share_of_the_time),
        TEST(peer_that_ends_is_told),
        TEST(writing_to_a_dead_peer_raises_no_signal),
        TEST(last_words_of_the_peer_are_read_before_it_is_lost),
        TEST(wrong_tls_is_told_with_the_reason),
        TEST(client_certificate_is_shown),
        TEST(peer_that_ends_in_the_handshake_is_told),
        TEST(every_callback_may_close),
        TEST(close_in_any_state_makes_no_further_callback),
        TEST(wrong_options_are_refused),
        TEST(no_descriptors_left_is_told),
        TEST(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
