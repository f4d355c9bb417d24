/* src/server/inbound_socket_test.c: one end of a socket pair; the test reads the other, as slowly as it likes. */
#include "server/inbound_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/tls_test_keys.h"
#include "support/refuse.h"

#define SNDBUF    4096
#define BIG       ((size_t)1 << 20) /* much more than both buffers of the pair take */
#define TLS_PIECE ((size_t)48 << 10)

static struct {
    int peer;
    struct inbound_socket socket;
    struct inbound_traffic traffic;
    char *big; /* BIG bytes, each other than its neighbours */
} bed;

static int open_with(struct belfry_tls *tls)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    bed.peer = fds[1];
    bed.traffic = (struct inbound_traffic){0};
    return inbound_socket_open(&bed.socket, fds[0], tls, SNDBUF, &bed.traffic);
}

static int setup(void **state)
{
    (void)state;
    bed.big = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        bed.big[i] = (char)(i % 251);
    return open_with(NULL);
}

static int teardown(void **state)
{
    (void)state;
    inbound_socket_close(&bed.socket);
    if (bed.peer >= 0)
        close(bed.peer);
    free(bed.big);
    assert_int_equal(bed.traffic.n_full, 0);
    return refuse_held() == 0 ? 0 : -1;
}

/* Reads up to `len` bytes at the other end; they must be those of bed.big from `at` on. Returns how many there were. */
static size_t hear(size_t at, size_t len)
{
    static char data[64 * 1024];
    size_t got = 0;
    while (got < len) {
        ssize_t n = recv(bed.peer, data, len - got < sizeof(data) ? len - got : sizeof(data), 0);
        if (n <= 0)
            break;
        assert_memory_equal(data, bed.big + at + got, (size_t)n);
        got += (size_t)n;
    }
    return got;
}

/* ---- plain ---- */

static void what_the_kernel_takes_is_not_kept(void **state)
{
    (void)state;
    size_t held = refuse_held();
    assert_true(inbound_socket_write(&bed.socket, belfry_bytes_of(bed.big, 100)));
    assert_false(bed.socket.full);
    assert_int_equal(bed.traffic.bytes_out, 100);
    assert_int_equal(bed.traffic.writes, 1);
    assert_int_equal(bed.traffic.n_full, 0);
    assert_int_equal(inbound_socket_bytes(&bed.socket), 0);
    assert_int_equal(refuse_held(), held);
    assert_int_equal(hear(0, 1000), 100);
}

static void a_full_socket_sends_the_rest_in_order_when_it_can(void **state)
{
    (void)state;
    assert_true(inbound_socket_write(&bed.socket, belfry_bytes_of(bed.big, BIG)));
    assert_true(bed.socket.full);
    assert_int_equal(bed.traffic.n_full, 1);
    assert_true(bed.traffic.bytes_out < BIG);
    assert_true(inbound_socket_bytes(&bed.socket) >= BIG - bed.traffic.bytes_out);
    assert_true(inbound_socket_flush(&bed.socket)); /* the peer has read nothing */
    assert_true(bed.socket.full);
    assert_int_equal(bed.traffic.n_full, 1);
    size_t got = 0;
    for (unsigned turns = 0; bed.socket.full; turns++) {
        assert_true(turns < BIG / 1000);
        got += hear(got, 64 * 1024);
        assert_true(inbound_socket_flush(&bed.socket));
    }
    got += hear(got, BIG);
    assert_int_equal(got, BIG);
    assert_int_equal(bed.traffic.bytes_out, BIG);
    assert_int_equal(bed.traffic.n_full, 0);
    assert_int_equal(inbound_socket_bytes(&bed.socket), 0); /* the memory is given back */
    uint64_t writes = bed.traffic.writes;
    assert_true(inbound_socket_flush(&bed.socket)); /* nothing waits: no system call */
    assert_int_equal(bed.traffic.writes, writes);
}

static void a_peer_that_is_gone_is_no_signal_but_a_lost_connection(void **state)
{
    (void)state;
    close(bed.peer);
    bed.peer = -1;
    assert_false(inbound_socket_write(&bed.socket, belfry_bytes_of(bed.big, 100)));
    assert_int_equal(bed.traffic.bytes_out, 0);
}

static void a_rest_whose_peer_is_gone_is_a_lost_connection(void **state)
{
    (void)state;
    assert_true(inbound_socket_write(&bed.socket, belfry_bytes_of(bed.big, BIG)));
    close(bed.peer);
    bed.peer = -1;
    assert_false(inbound_socket_flush(&bed.socket));
}

static void a_full_socket_that_is_closed_is_not_counted_any_more(void **state)
{
    (void)state;
    int fd = bed.socket.fd;
    assert_true(inbound_socket_write(&bed.socket, belfry_bytes_of(bed.big, BIG)));
    assert_int_equal(bed.traffic.n_full, 1);
    inbound_socket_close(&bed.socket);
    assert_int_equal(bed.traffic.n_full, 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(open_with(NULL), BELFRY_OK); /* for teardown */
}

static void no_memory_for_the_rest_is_a_lost_connection(void **state)
{
    (void)state;
    refuse_begin(0);
    bool written = inbound_socket_write(&bed.socket, belfry_bytes_of(bed.big, BIG));
    assert_true(refuse_end());
    assert_false(written);
}

static void a_plain_socket_says_no_goodbye(void **state)
{
    (void)state;
    inbound_socket_say_goodbye(&bed.socket, INBOUND_GOODBYE);
    assert_false(inbound_socket_has_output(&bed.socket));
    assert_int_equal(hear(0, 10), 0);
}

/* ---- TLS ---- */

static struct test_keys keys;
static struct belfry_tls *server_tls, *client_tls;

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

static int setup_tls(void **state)
{
    char why[256];
    const struct belfry_tls_server_opts server = {.cert = keys.server, .key = keys.server_key};
    const struct belfry_tls_opts client = {.skip_verify = true};
    setup(state);
    inbound_socket_close(&bed.socket);
    close(bed.peer);
    assert_int_equal(belfry_tls_create_server(&server, &server_tls, why, sizeof(why)), BELFRY_OK);
    assert_int_equal(belfry_tls_create(&client, &client_tls, why, sizeof(why)), BELFRY_OK);
    return open_with(server_tls);
}

static int teardown_tls(void **state)
{
    belfry_tls_destroy(server_tls);
    belfry_tls_destroy(client_tls);
    return teardown(state);
}

/* The other end speaks TLS: what comes from the socket goes into it, and back. */
static struct belfry_tls_conn *peer_tls;

static size_t feed(int fd, struct belfry_tls_conn *tls)
{
    static char data[256 * 1024];
    ssize_t n = recv(fd, data, sizeof(data), 0);
    if (n > 0)
        belfry_tls_conn_feed(tls, belfry_bytes_of(data, (size_t)n));
    return n > 0 ? (size_t)n : 0;
}

static void shake_hands(void)
{
    assert_int_equal(belfry_tls_conn_create(client_tls, "server", &peer_tls), BELFRY_OK);
    enum belfry_err ours = BELFRY_ERR_AGAIN, theirs = BELFRY_ERR_AGAIN;
    for (unsigned turns = 0; ours == BELFRY_ERR_AGAIN || theirs == BELFRY_ERR_AGAIN; turns++) {
        assert_true(turns < 20);
        theirs = belfry_tls_conn_handshake(peer_tls);
        struct belfry_bytes out = belfry_tls_conn_output(peer_tls);
        if (out.len > 0)
            belfry_tls_conn_sent(peer_tls, (size_t)send(bed.peer, out.data, out.len, 0));
        if (feed(bed.socket.fd, bed.socket.tls) > 0)
            ours = belfry_tls_conn_handshake(bed.socket.tls);
        assert_true(inbound_socket_flush(&bed.socket));
        feed(bed.peer, peer_tls);
    }
    assert_int_equal(ours, BELFRY_OK);
    assert_int_equal(theirs, BELFRY_OK);
}

/* Decrypts what has been fed, checks it against bed.big from *at on. Returns how that ended. */
static enum belfry_err decrypt(size_t *at)
{
    static char plain[64 * 1024];
    for (;;) {
        size_t n;
        enum belfry_err err = belfry_tls_conn_read(peer_tls, plain, sizeof(plain), &n);
        if (err != BELFRY_OK)
            return err;
        assert_memory_equal(plain, bed.big + *at, n);
        *at += n;
    }
}

static void all_bytes_pass_tls_however_slowly_the_peer_reads(void **state)
{
    (void)state;
    shake_hands();
    size_t before = inbound_socket_bytes(&bed.socket); /* what TLS costs */
    assert_true(before >= 16 * 1024);
    size_t said = 0, heard = 0;
    for (unsigned turns = 0; heard < BIG; turns++) {
        assert_true(turns < BIG / 1000);
        while (!bed.socket.full && said < BIG) {
            size_t len = BIG - said < TLS_PIECE ? BIG - said : TLS_PIECE;
            assert_true(inbound_socket_write(&bed.socket, belfry_bytes_of(bed.big + said, len)));
            said += len;
        }
        assert_true(said < BIG || turns > 0); /* it has been full */
        if (bed.socket.full) {
            assert_true(inbound_socket_has_output(&bed.socket));
            assert_true(inbound_socket_bytes(&bed.socket) > before);
            assert_int_equal(bed.traffic.n_full, 1);
        }
        if (feed(bed.peer, peer_tls) > 0)
            assert_int_equal(decrypt(&heard), BELFRY_ERR_AGAIN);
        assert_true(inbound_socket_flush(&bed.socket));
    }
    assert_int_equal(heard, BIG);
    assert_false(bed.socket.full);
    assert_false(inbound_socket_has_output(&bed.socket));
    assert_true(bed.traffic.bytes_out > BIG);
    assert_int_equal(bed.traffic.n_full, 0);
    belfry_tls_conn_destroy(peer_tls);
}

static void the_goodbye_of_tls_reaches_the_peer(void **state)
{
    (void)state;
    size_t got = 0;
    shake_hands();
    inbound_socket_say_goodbye(&bed.socket, INBOUND_ALERT_ONLY); /* there is none */
    assert_int_equal(feed(bed.peer, peer_tls), 0);
    inbound_socket_say_goodbye(&bed.socket, INBOUND_GOODBYE);
    assert_true(feed(bed.peer, peer_tls) > 0);
    assert_int_equal(decrypt(&got), BELFRY_ERR_UNAVAILABLE); /* in good order */
    assert_int_equal(got, 0);
    belfry_tls_conn_destroy(peer_tls);
}

static void a_socket_that_cannot_begin_tls_is_closed(void **state)
{
    (void)state;
    inbound_socket_close(&bed.socket);
    close(bed.peer);
    refuse_begin(0);
    int err = open_with(server_tls);
    assert_true(refuse_end());
    assert_int_equal(err, BELFRY_ERR_NOMEM);
    char byte;
    assert_int_equal(recv(bed.peer, &byte, 1, 0), 0); /* the other end sees it */
    close(bed.peer);
    assert_int_equal(open_with(NULL), BELFRY_OK); /* for teardown */
}

#define test(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define test_tls(name) cmocka_unit_test_setup_teardown(name, setup_tls, teardown_tls)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(what_the_kernel_takes_is_not_kept),
        test(a_full_socket_sends_the_rest_in_order_when_it_can),
        test(a_peer_that_is_gone_is_no_signal_but_a_lost_connection),
        test(a_rest_whose_peer_is_gone_is_a_lost_connection),
        test(a_full_socket_that_is_closed_is_not_counted_any_more),
        test(no_memory_for_the_rest_is_a_lost_connection),
        test(a_plain_socket_says_no_goodbye),
        test_tls(all_bytes_pass_tls_however_slowly_the_peer_reads),
        test_tls(the_goodbye_of_tls_reaches_the_peer),
        test_tls(a_socket_that_cannot_begin_tls_is_closed),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
