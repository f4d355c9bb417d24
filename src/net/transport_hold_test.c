/* src/net/transport_hold_test.c: a transport that is held, files that are rotated between two of them, and dead peers.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "net/dock_test.h"
#include "net/tls_test_keys.h"
#include "net/transport.h"
#include "support/refuse.h"

#define MUCH (4u * 1024 * 1024)

static struct test_keys keys;
static char much[MUCH];

struct client {
    struct dock dock;
    struct belfry_tls *tls;
    struct belfry_transport *transport;
    size_t n_received, to_send;
    size_t hold_at; /* bytes after which it holds itself; 0: never */
    int ups, losts;
    enum belfry_err err;
    char first[64], why[400], alpn[16];
};

static void on_up(struct belfry_transport *t, void *user)
{
    struct client *c = user;
    c->ups++;
    snprintf(c->alpn, sizeof(c->alpn), "%s", belfry_transport_alpn(t));
}

static void on_bytes(struct belfry_transport *t, struct belfry_bytes bytes, void *user)
{
    struct client *c = user;
    if (c->n_received == 0)
        snprintf(c->first, sizeof(c->first), "%.*s", (int)bytes.len, bytes.data);
    for (size_t i = 0; i < bytes.len; i += 997)
        if (c->dock.say >= much && c->dock.say <= much + MUCH && bytes.data[i] != much[c->n_received + i])
            fail_msg("byte %zu is wrong", c->n_received + i);
    c->n_received += bytes.len;
    if (c->hold_at != 0 && c->n_received >= c->hold_at)
        belfry_transport_hold(t, true);
}

static struct belfry_bytes on_pull(struct belfry_transport *t, void *user)
{
    struct client *c = user;
    (void)t;
    size_t n = c->to_send;
    c->to_send = 0;
    return belfry_bytes_of(much, n);
}

static void on_lost(struct belfry_transport *t, enum belfry_err err, const char *why, void *user)
{
    struct client *c = user;
    (void)t;
    c->losts++;
    c->err = err;
    snprintf(c->why, sizeof(c->why), "%s", why);
}

static const struct belfry_transport_events events = {on_up, on_bytes, on_pull, on_lost};

static bool is_up(void *user)
{
    struct client *c = user;
    return c->ups > 0 || c->losts > 0;
}

static bool is_lost(void *user)
{
    return ((struct client *)user)->losts > 0;
}

static bool has_all(void *user)
{
    return ((struct client *)user)->n_received == MUCH;
}

static struct belfry_tls *make_server(void)
{
    struct belfry_tls_server_opts opts = {.cert = keys.server, .key = keys.server_key};
    struct belfry_tls *tls;
    char why[256];
    assert_int_equal(belfry_tls_create_server(&opts, &tls, why, sizeof(why)), BELFRY_OK);
    return tls;
}

static struct belfry_tls *make_client(const char *cacert)
{
    struct belfry_tls_opts opts = {.cacert = cacert, .server_name = "etcd.test", .http1 = true};
    struct belfry_tls *tls;
    char why[256];
    assert_int_equal(belfry_tls_create(&opts, &tls, why, sizeof(why)), BELFRY_OK);
    return tls;
}

static enum belfry_err open_transport(struct client *c)
{
    struct belfry_endpoint endpoint = dock_endpoint(&c->dock);
    struct belfry_transport_opts opts = {belfry_loop_uv(c->dock.loop), c->dock.dns, &endpoint, c->tls, DOCK_LIMIT_MS};
    return belfry_transport_open(&opts, &events, c, &c->transport);
}

/* Up, with nothing said by the peer yet. */
static struct client *start(bool tls)
{
    static struct client client;
    struct client *c = &client;
    memset(c, 0, sizeof(*c));
    assert_int_equal(dock_init(&c->dock), BELFRY_OK);
    if (tls) {
        c->dock.tls = make_server();
        c->tls = make_client(keys.ca);
    }
    assert_int_equal(open_transport(c), BELFRY_OK);
    dock_run(&c->dock, is_up, c);
    assert_int_equal(c->ups, 1);
    dock_rest(&c->dock);
    return c;
}

static void stop(struct client *c)
{
    belfry_transport_close(c->transport);
    struct belfry_tls *server = c->dock.tls;
    dock_fini(&c->dock);
    belfry_tls_destroy(server);
    belfry_tls_destroy(c->tls);
}

static void a_held_transport_leaves_all_in_the_socket_and_loses_nothing(void **state)
{
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct client *c = start(tls == 1);
        assert_string_equal(c->alpn, tls == 1 ? "h2" : "");
        belfry_transport_hold(c->transport, true);
        dock_say(&c->dock, much, MUCH);
        dock_rest(&c->dock);
        assert_int_equal(c->n_received, 0);
        assert_true(c->dock.n_said < MUCH); /* the peer feels it */
        c->dock.n_turns = 0;
        dock_rest(&c->dock);
        assert_true(c->dock.n_turns < 8); /* and waiting costs nothing */
        belfry_transport_hold(c->transport, false);
        dock_run(&c->dock, has_all, c);
        assert_int_equal(c->losts, 0);
        stop(c);
    }
}

static void holding_from_inside_a_callback_stops_after_what_was_read(void **state)
{
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct client *c = start(tls == 1);
        c->hold_at = 1;
        dock_say(&c->dock, much, MUCH);
        dock_rest(&c->dock);
        assert_in_range(c->n_received, 1, 80 * 1024);
        for (int i = 0; i < 1000 && c->n_received < MUCH; i++) {
            size_t before = c->n_received;
            belfry_transport_hold(c->transport, false);
            dock_run_for(&c->dock, dock_never, NULL, 2);
            assert_true(c->n_received - before <= 80 * 1024);
        }
        assert_int_equal(c->n_received, MUCH);
        stop(c);
    }
}

static void the_end_waits_while_it_is_held(void **state)
{
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct client *c = start(tls == 1);
        belfry_transport_hold(c->transport, true);
        dock_say_text(&c->dock, "goodbye");
        dock_rest(&c->dock);
        dock_hang_up(&c->dock);
        close(c->dock.listener); /* or the dock would wait for another */
        c->dock.listener = -1;
        dock_rest(&c->dock);
        assert_int_equal(c->n_received + (size_t)c->losts, 0);
        belfry_transport_hold(c->transport, false);
        dock_run(&c->dock, is_lost, c);
        assert_string_equal(c->first, "goodbye");
        assert_int_equal(c->err, BELFRY_ERR_UNAVAILABLE);
        stop(c);
    }
}

static void a_write_that_fails_while_it_is_held_waits_too(void **state)
{
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct client *c = start(tls == 1);
        belfry_transport_hold(c->transport, true);
        dock_say_text(&c->dock, "goodbye");
        dock_rest(&c->dock);
        dock_hang_up(&c->dock);
        for (int i = 0; i < 3; i++) {
            c->to_send = 100;
            belfry_transport_kick(c->transport);
            dock_rest(&c->dock);
        }
        assert_int_equal(c->n_received + (size_t)c->losts, 0);
        c->dock.n_turns = 0;
        dock_rest(&c->dock);
        assert_true(c->dock.n_turns < 8);
        belfry_transport_hold(c->transport, false);
        dock_run(&c->dock, is_lost, c);
        assert_string_equal(c->first, "goodbye");
        assert_int_equal(c->err, BELFRY_ERR_UNAVAILABLE);
        stop(c);
    }
}

static void a_held_transport_still_writes(void **state)
{
    (void)state;
    struct client *c = start(true);
    belfry_transport_hold(c->transport, true);
    c->to_send = 1000;
    belfry_transport_kick(c->transport);
    dock_rest(&c->dock);
    assert_int_equal(c->dock.n_heard, 1000);
    stop(c);
}

/* ---- rotation ---- */

static void copy_file(const char *from, const char *to)
{
    char text[4096];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    assert_true(in != NULL && out != NULL);
    size_t n = fread(text, 1, sizeof(text), in);
    assert_int_equal(fwrite(text, 1, n, out), n);
    fclose(in);
    fclose(out);
}

static void files_rotated_between_two_connections_serve_the_second(void **state)
{
    (void)state;
    static struct client client;
    struct client *c = &client;
    char cacert[128], why[256];
    memset(c, 0, sizeof(*c));
    assert_int_equal(dock_init(&c->dock), BELFRY_OK);
    snprintf(cacert, sizeof(cacert), "%s/rotated.pem", keys.folder);
    copy_file(keys.other_ca, cacert);
    c->dock.tls = make_server();
    c->tls = make_client(cacert);
    assert_int_equal(open_transport(c), BELFRY_OK);
    dock_run(&c->dock, is_up, c);
    assert_int_equal(c->err, BELFRY_ERR_TLS); /* signed by somebody else */
    belfry_transport_close(c->transport);
    dock_hang_up(&c->dock);
    assert_false(belfry_tls_refresh_why(c->tls, why, sizeof(why)));

    copy_file(keys.ca, cacert);
    c->losts = 0;
    assert_int_equal(open_transport(c), BELFRY_OK);
    dock_run(&c->dock, is_up, c);
    assert_int_equal(c->ups, 1);
    belfry_transport_close(c->transport);
    dock_hang_up(&c->dock);

    unlink(cacert); /* what cannot be read leaves what was read, and says so */
    c->ups = 0;
    assert_int_equal(open_transport(c), BELFRY_OK);
    dock_run(&c->dock, is_up, c);
    assert_int_equal(c->ups, 1);
    assert_true(belfry_tls_refresh_why(c->tls, why, sizeof(why)));
    assert_non_null(strstr(why, "rotated.pem"));
    stop(c);
}

/* ---- dead peers ---- */

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);
    getsockopt(fd, level, name, &value, &len);
    return value;
}

/* Our end of the connection to `port`, among all that are open. */
static int socket_to(uint16_t port)
{
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_in to;
        socklen_t len = sizeof(to);
        if (getpeername(fd, (struct sockaddr *)&to, &len) == 0 && to.sin_family == AF_INET &&
            ntohs(to.sin_port) == port)
            return fd;
    }
    return -1;
}

static void tcp_looks_after_a_peer_that_is_silent(void **state)
{
    (void)state;
    static struct client client;
    struct client *c = &client;
    memset(c, 0, sizeof(*c));
    assert_int_equal(dock_init(&c->dock), BELFRY_OK);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    struct belfry_endpoint endpoint;
    char text[64], why[200];
    snprintf(text, sizeof(text), "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    assert_int_equal(belfry_endpoint_parse(text, strlen(text), &endpoint, why, sizeof(why)), BELFRY_OK);
    struct belfry_transport_opts opts = {belfry_loop_uv(c->dock.loop), c->dock.dns, &endpoint, NULL, DOCK_LIMIT_MS};
    assert_int_equal(belfry_transport_open(&opts, &events, c, &c->transport), BELFRY_OK);
    dock_run(&c->dock, is_up, c);
    int fd = socket_to(ntohs(at.sin_port));
    assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 30);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 10);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    close(listener);
    stop(c);
}

static enum belfry_err scenario(void)
{
    static struct client client;
    struct client *c = &client;
    memset(c, 0, sizeof(*c));
    enum belfry_err err = dock_init(&c->dock);
    if (err == BELFRY_OK)
        err = open_transport(c);
    if (err == BELFRY_OK) {
        belfry_transport_hold(c->transport, true);
        dock_say(&c->dock, much, MUCH);
        dock_run(&c->dock, is_up, c);
        err = c->err;
    }
    if (err == BELFRY_OK) {
        belfry_transport_hold(c->transport, false);
        dock_run_for(&c->dock, has_all, c, DOCK_LIMIT_MS);
        err = c->losts > 0 ? c->err : BELFRY_OK;
    }
    stop(c);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

static int make_all(void **state)
{
    (void)state;
    keys_make(&keys);
    for (size_t i = 0; i < MUCH; i++)
        much[i] = (char)(i * 131 >> 5);
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    keys_remove(&keys);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_transport_leaves_all_in_the_socket_and_loses_nothing),
        cmocka_unit_test(holding_from_inside_a_callback_stops_after_what_was_read),
        cmocka_unit_test(the_end_waits_while_it_is_held),
        cmocka_unit_test(a_write_that_fails_while_it_is_held_waits_too),
        cmocka_unit_test(a_held_transport_still_writes),
        cmocka_unit_test(files_rotated_between_two_connections_serve_the_second),
        cmocka_unit_test(tcp_looks_after_a_peer_that_is_silent),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
