/* bench/belfry-bench/h2conn_tls_test.c: a connection with TLS, against a server of ours on a socket pair. */
#include "h2conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/tls_test_keys.h"

#define PREFACE   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define MAX_TURNS 20

static struct test_keys files;

struct rig {
    int poll, peer;
    struct h2conn *conn;
    struct belfry_tls *client_tls, *server_tls;
    struct belfry_tls_conn *server;
    size_t n_messages, message_bytes;
    char why[320];
};

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct rig *rig = user;
    (void)call;
    rig->n_messages++;
    rig->message_bytes += message.len;
}

static void on_ended(void *user, uint32_t call, int status, const char *text)
{
    (void)user, (void)call, (void)status, (void)text;
}

static void on_failed(void *user, const char *why)
{
    struct rig *rig = user;
    snprintf(rig->why, sizeof(rig->why), "%s", why);
}

static const struct h2conn_events events = {on_message, on_ended, on_failed};

static int make_files(void **state)
{
    (void)state;
    keys_make(&files);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    keys_remove(&files);
    return 0;
}

/* `ca`: whom the client trusts. */
static void open_rig(struct rig *rig, const char *ca)
{
    struct belfry_tls_opts client = {.cacert = ca};
    struct belfry_tls_server_opts server = {.cert = files.server, .key = files.server_key};
    struct belfry_tls_conn *tls;
    char why[256];
    int fds[2];
    *rig = (struct rig){.poll = poller_create()};
    assert_int_equal(belfry_tls_create(&client, &rig->client_tls, why, sizeof(why)), BELFRY_OK);
    assert_int_equal(belfry_tls_create_server(&server, &rig->server_tls, why, sizeof(why)), BELFRY_OK);
    assert_int_equal(belfry_tls_conn_create(rig->client_tls, "127.0.0.1", &tls), BELFRY_OK);
    assert_int_equal(belfry_tls_conn_accept(rig->server_tls, &rig->server), BELFRY_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    rig->peer = fds[1];
    rig->conn = h2conn_create_on(rig->poll, fds[0], tls, 1, &events, rig);
}

static void close_rig(struct rig *rig)
{
    h2conn_destroy(rig->conn);
    belfry_tls_conn_destroy(rig->server);
    belfry_tls_destroy(rig->client_tls);
    belfry_tls_destroy(rig->server_tls);
    close(rig->peer);
    close(rig->poll);
}

static void server_sends(struct rig *rig)
{
    struct belfry_bytes output = belfry_tls_conn_output(rig->server);
    if (output.len > 0)
        assert_int_equal(send(rig->peer, output.data, output.len, MSG_NOSIGNAL), (ssize_t)output.len);
    belfry_tls_conn_sent(rig->server, output.len);
}

/* Lends the server what the client has sent. */
static void server_receives(struct rig *rig)
{
    static char wire[65536];
    poller_turn(rig->poll, 0);
    ssize_t n = recv(rig->peer, wire, sizeof(wire), MSG_DONTWAIT);
    belfry_tls_conn_feed(rig->server, belfry_bytes_of(wire, n > 0 ? (size_t)n : 0));
}

static enum belfry_err shake(struct rig *rig)
{
    enum belfry_err err = BELFRY_ERR_AGAIN;
    for (int i = 0; i < MAX_TURNS && err == BELFRY_ERR_AGAIN; i++) {
        server_receives(rig);
        err = belfry_tls_conn_handshake(rig->server);
        server_sends(rig);
    }
    poller_turn(rig->poll, 0);
    return err;
}

/* What the client says first, decrypted. */
static size_t read_first(struct rig *rig, char *to, size_t size)
{
    size_t n = 0;
    enum belfry_err err = belfry_tls_conn_read(rig->server, to, size, &n);
    for (int i = 0; i < MAX_TURNS && err == BELFRY_ERR_AGAIN; i++) {
        server_receives(rig);
        err = belfry_tls_conn_read(rig->server, to, size, &n);
    }
    assert_int_equal(err, BELFRY_OK);
    return n;
}

static void what_is_said_before_the_handshake_comes_after_it(void **state)
{
    (void)state;
    struct rig rig;
    char plain[4096];
    open_rig(&rig, files.ca);
    assert_int_equal(h2conn_call(rig.conn, "/a/b"), 0);
    h2conn_flush(rig.conn); /* it waits */
    assert_int_equal(shake(&rig), BELFRY_OK);
    assert_string_equal(belfry_tls_conn_alpn(rig.server), "h2");
    size_t n = read_first(&rig, plain, sizeof(plain));
    assert_true(n > sizeof(PREFACE));
    assert_memory_equal(plain, PREFACE, sizeof(PREFACE) - 1);
    assert_int_equal(h2conn_state(rig.conn), H2CONN_OPEN);
    close_rig(&rig);
}

static void messages_of_many_records_arrive_whole(void **state)
{
    (void)state;
    enum { N_FRAMES = 20, FRAME = 16384 };
    static uint8_t frame[9 + FRAME] = {FRAME >> 16, FRAME >> 8 & 255, FRAME & 255, 0, 0, 0, 0, 0, 1};
    struct rig rig;
    frame[9 + 3] = (FRAME - 5) >> 8; /* one message per frame */
    frame[9 + 4] = (FRAME - 5) & 255;
    open_rig(&rig, files.ca);
    assert_int_equal(h2conn_call(rig.conn, "/a/b"), 0);
    assert_int_equal(shake(&rig), BELFRY_OK);
    for (int i = 0; i < N_FRAMES; i++) {
        size_t n;
        for (struct belfry_bytes left = belfry_bytes_of(frame, sizeof(frame)); left.len > 0;
             left = belfry_bytes_of(left.data + n, left.len - n))
            assert_int_equal(belfry_tls_conn_write(rig.server, left, &n), BELFRY_OK);
        server_sends(&rig);
        server_receives(&rig);
    }
    assert_int_equal(rig.n_messages, N_FRAMES);
    assert_int_equal(rig.message_bytes, N_FRAMES * (FRAME - 5));
    assert_true(h2conn_bytes_read(rig.conn) > N_FRAMES * sizeof(frame)); /* with what TLS adds */
    assert_string_equal(rig.why, "");
    close_rig(&rig);
}

static void a_server_that_is_not_trusted_is_a_fault(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, files.other_ca);
    shake(&rig);
    assert_non_null(strstr(rig.why, "certificate verify failed"));
    assert_int_equal(h2conn_state(rig.conn), H2CONN_CLOSED);
    close_rig(&rig);
}

static void a_server_without_tls_is_a_fault(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, files.ca);
    server_receives(&rig);
    assert_int_equal(send(rig.peer, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL), 28);
    poller_turn(rig.poll, 0);
    assert_non_null(strstr(rig.why, "does not speak TLS"));
    close_rig(&rig);
}

static void an_end_in_good_order_is_told(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, files.ca);
    assert_int_equal(shake(&rig), BELFRY_OK);
    belfry_tls_conn_end(rig.server);
    server_sends(&rig);
    poller_turn(rig.poll, 0);
    assert_string_equal(rig.why, "the server closed the connection");
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_before_the_handshake_comes_after_it),
        cmocka_unit_test(messages_of_many_records_arrive_whole),
        cmocka_unit_test(a_server_that_is_not_trusted_is_a_fault),
        cmocka_unit_test(a_server_without_tls_is_a_fault),
        cmocka_unit_test(an_end_in_good_order_is_told),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
