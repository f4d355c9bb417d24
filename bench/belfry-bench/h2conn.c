/* bench/belfry-bench/h2conn.c */
#include "h2conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"
#include "h2conn_private.h"

#define READ_BYTES   ((size_t)256 << 10)
#define READS_A_TURN 4 /* so that one connection with a lot does not keep the others waiting */

static void move(struct h2conn *conn, enum h2conn_state to)
{
    assert(to > conn->state);
    conn->state = to;
}

void h2conn_fail(struct h2conn *conn, const char *why)
{
    if (conn->state == H2CONN_CLOSED)
        return;
    move(conn, H2CONN_CLOSED);
    poller_forget(conn->poll, conn->fd);
    conn->events->failed(conn->user, why);
}

static void watch_fd(struct h2conn *conn, int op)
{
    uint32_t want = (conn->paused ? 0u : EPOLLIN) | (conn->wants_write ? EPOLLOUT : 0u);
    poller_watch(conn->poll, op, conn->fd, want, &conn->entry);
}

void h2conn_want_write(struct h2conn *conn, bool want)
{
    if (conn->wants_write == want)
        return;
    conn->wants_write = want;
    watch_fd(conn, EPOLL_CTL_MOD);
}

static void on_readable(struct h2conn *conn)
{
    static _Thread_local uint8_t data[READ_BYTES];
    for (int i = 0; i < READS_A_TURN && conn->state == H2CONN_OPEN && !conn->paused; i++) {
        ssize_t n = recv(conn->fd, data, sizeof(data), 0);
        if (n > 0) {
            conn->bytes_read += (uint64_t)n;
            h2conn_read_bytes(conn, data, (size_t)n);
        } else if (n == 0) {
            h2conn_fail(conn, "the server closed the connection");
        } else if (errno != EAGAIN && errno != EINTR) {
            h2conn_fail(conn, strerror(errno));
        }
        if (n < (ssize_t)sizeof(data))
            break;
    }
    if (conn->state == H2CONN_OPEN)
        h2conn_flush(conn);
}

static void on_connected(struct h2conn *conn)
{
    int err = 0;
    socklen_t len = sizeof(err);
    getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len);
    if (err != 0) {
        h2conn_fail(conn, strerror(err));
        return;
    }
    move(conn, H2CONN_OPEN);
    h2conn_flush(conn);
}

static void on_ready(struct poller_entry *entry, uint32_t events)
{
    struct h2conn *conn = (struct h2conn *)entry; /* its first member */
    if (conn->state == H2CONN_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        on_connected(conn);
    else if (conn->state == H2CONN_OPEN && events & EPOLLOUT)
        h2conn_flush(conn);
    if (conn->state == H2CONN_OPEN && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        on_readable(conn);
}

struct h2conn *h2conn_create_on(int poll, int fd, uint32_t max_calls, const struct h2conn_events *events, void *user)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct h2conn *conn = must_have(calloc(1, sizeof(*conn)));
    conn->entry.ready = on_ready;
    conn->poll = poll;
    conn->fd = fd;
    conn->events = events;
    conn->user = user;
    conn->max_calls = max_calls;
    conn->calls = must_have(calloc(max_calls, sizeof(*conn->calls)));
    conn->send_window = conn->initial_window = WINDOW;
    h2conn_put(&conn->out, preface, sizeof(preface) - 1);
    h2conn_put_frame_head(conn, FRAME_SETTINGS, 0, 0, 0);
    conn->wants_write = true;
    watch_fd(conn, EPOLL_CTL_ADD);
    return conn;
}

struct h2conn *h2conn_create(int poll, const struct target *target, uint32_t max_calls,
                             const struct h2conn_events *events, void *user)
{
    return h2conn_create_on(poll, target_connect(target), max_calls, events, user);
}

void h2conn_destroy(struct h2conn *conn)
{
    if (conn == NULL)
        return;
    close(conn->fd);
    for (uint32_t i = 0; i < conn->max_calls; i++) {
        belfry_buf_fini(&conn->calls[i].out);
        belfry_buf_fini(&conn->calls[i].partial);
    }
    free(conn->calls);
    if (conn->inflater != NULL)
        nghttp2_hd_inflate_del(conn->inflater);
    belfry_buf_fini(&conn->stash);
    belfry_buf_fini(&conn->headers);
    belfry_buf_fini(&conn->out);
    free(conn);
}

enum h2conn_state h2conn_state(const struct h2conn *conn)
{
    return conn->state;
}

uint64_t h2conn_bytes_read(const struct h2conn *conn)
{
    return conn->bytes_read;
}

void h2conn_pause(struct h2conn *conn)
{
    conn->paused = true;
    if (conn->state != H2CONN_CLOSED)
        watch_fd(conn, EPOLL_CTL_MOD);
}

void h2conn_resume(struct h2conn *conn)
{
    conn->paused = false;
    if (conn->state != H2CONN_CLOSED)
        watch_fd(conn, EPOLL_CTL_MOD);
}
