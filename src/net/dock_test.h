/* src/net/dock_test.h
 *
 * A peer for suites with real sockets: it listens on a unix socket and is driven by the same thread as the loop, so
 * that a test says what comes after what. Plain, or TLS with our own server's side. Everything is static: each suite
 * has its own copy.
 */
#ifndef BELFRY_NET_DOCK_TEST_H
#define BELFRY_NET_DOCK_TEST_H

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/dns.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "net/tls_conn.h"

#define DOCK_LIMIT_MS                                                                                                  \
    30000 /* for what should take milliseconds, and under a sanitizer on a busy machine takes seconds */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

struct dock {
    struct belfry_loop *loop;
    struct belfry_dns *dns;
    char folder[64], path[96];
    int listener, fd;             /* -1: none */
    struct belfry_tls *tls;       /* NULL: plain */
    struct belfry_tls_conn *conn; /* of fd */
    bool shaken;                  /* the handshake is done */
    const char *say;              /* what is still to be said; lent */
    size_t n_say, n_said;         /* n_said: given to the socket, TLS: to the record layer */
    char heard[65536];            /* what the client said, as far as it fits */
    size_t n_heard;
    size_t n_turns; /* of the loop */
};

static enum belfry_err dock_init(struct dock *d)
{
    *d = (struct dock){.listener = -1, .fd = -1, .folder = "/tmp/belfry-dock-XXXXXX"};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(d->folder));
    snprintf(d->path, sizeof(d->path), "%s/sock", d->folder);
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", d->path);
    d->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(d->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(d->listener, 8), 0);
    enum belfry_err err = belfry_loop_create(&d->loop);
    return err == BELFRY_OK ? belfry_dns_create(belfry_loop_uv(d->loop), &d->dns) : err;
}

static void dock_hang_up(struct dock *d)
{
    belfry_tls_conn_destroy(d->conn);
    d->conn = NULL;
    d->shaken = false;
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

/* Whatever uses the loop has been closed. */
static void dock_fini(struct dock *d)
{
    dock_hang_up(d);
    close(d->listener);
    belfry_dns_destroy(d->dns);
    belfry_loop_destroy(d->loop);
    unlink(d->path);
    rmdir(d->folder);
}

static struct belfry_endpoint dock_endpoint(const struct dock *d)
{
    struct belfry_endpoint endpoint;
    char text[160], why[200];
    snprintf(text, sizeof(text), "%s://%s", d->tls != NULL ? "unixs" : "unix", d->path);
    assert_int_equal(belfry_endpoint_parse(text, strlen(text), &endpoint, why, sizeof(why)), BELFRY_OK);
    return endpoint;
}

static void dock_say(struct dock *d, const char *bytes, size_t len)
{
    assert_int_equal(d->n_say, 0);
    d->say = bytes;
    d->n_say = len;
}

static void dock_say_text(struct dock *d, const char *text)
{
    dock_say(d, text, strlen(text));
}

static void dock_keep(struct dock *d, const char *bytes, size_t len)
{
    size_t room = sizeof(d->heard) - 1 - d->n_heard, n = len < room ? len : room;
    memcpy(d->heard + d->n_heard, bytes, n);
    d->n_heard += n;
    d->heard[d->n_heard] = '\0';
}

static void dock_took(struct dock *d, size_t n)
{
    d->say += n;
    d->n_say -= n;
    d->n_said += n;
}

static void dock_flush_tls(struct dock *d)
{
    for (;;) {
        struct belfry_bytes output = belfry_tls_conn_output(d->conn);
        ssize_t sent = output.len > 0 ? send(d->fd, output.data, output.len, MSG_NOSIGNAL) : 0;
        if (sent > 0)
            belfry_tls_conn_sent(d->conn, (size_t)sent);
        if (sent < (ssize_t)output.len || !d->shaken || d->n_say == 0)
            return;
        size_t n;
        assert_int_equal(belfry_tls_conn_write(d->conn, belfry_bytes_of(d->say, d->n_say), &n), BELFRY_OK);
        dock_took(d, n);
    }
}

static void dock_hear_tls(struct dock *d, const char *bytes, size_t len)
{
    char plain[16384];
    size_t n;
    belfry_tls_conn_feed(d->conn, belfry_bytes_of(bytes, len));
    if (!d->shaken)
        d->shaken = belfry_tls_conn_handshake(d->conn) == BELFRY_OK;
    while (d->shaken && belfry_tls_conn_read(d->conn, plain, sizeof(plain), &n) == BELFRY_OK)
        dock_keep(d, plain, n);
}

/* What the peer can do without waiting. */
static void dock_act(struct dock *d)
{
    char buf[65536];
    if (d->fd < 0 && (d->fd = accept4(d->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0 && d->tls != NULL)
        assert_int_equal(belfry_tls_conn_accept(d->tls, &d->conn), BELFRY_OK);
    if (d->fd < 0)
        return;
    ssize_t n = recv(d->fd, buf, sizeof(buf), 0);
    if (n > 0 && d->conn != NULL)
        dock_hear_tls(d, buf, (size_t)n);
    else if (n > 0)
        dock_keep(d, buf, (size_t)n);
    if (d->conn != NULL) {
        dock_flush_tls(d);
    } else if (d->n_say > 0) {
        n = send(d->fd, d->say, d->n_say, MSG_NOSIGNAL);
        dock_took(d, n > 0 ? (size_t)n : 0);
    }
}

/* Both in turn until `done`, or for `limit_ms`. Whether it came to that. */
static bool dock_run_for(struct dock *d, bool (*done)(void *user), void *user, int limit_ms)
{
    uint64_t end = belfry_clock_ms() + (uint64_t)limit_ms;
    while (!done(user)) {
        dock_act(d);
        belfry_loop_rearm(d->loop);
        struct pollfd fd = {belfry_loop_fd(d->loop), POLLIN, 0};
        if (poll(&fd, 1, 1) > 0) {
            assert_int_equal(belfry_loop_dispatch(d->loop), BELFRY_OK);
            d->n_turns++;
        }
        if (belfry_clock_ms() >= end)
            return done(user);
    }
    return true;
}

#define dock_run(d, done, user) assert_true(dock_run_for(d, done, user, DOCK_LIMIT_MS))

static bool dock_never(void *user)
{
    (void)user;
    return false;
}

/* A moment in which whatever can happen does. */
static void dock_rest(struct dock *d)
{
    dock_run_for(d, dock_never, NULL, 60);
}

#pragma GCC diagnostic pop

#endif
