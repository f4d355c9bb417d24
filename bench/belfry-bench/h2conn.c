/* bench/belfry-bench/h2conn.c */
#include "h2conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"
#include "h2conn_private.h"

#define READ_BYTES   ((size_t)256 << 10)
#define READS_A_TURN 4 /* so that one connection with a lot does not keep the others waiting */
#define POLL_EVENTS  1024

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
    epoll_ctl(conn->poll, EPOLL_CTL_DEL, conn->fd, NULL);
    conn->events->failed(conn->user, why);
}

static void watch_fd(struct h2conn *conn, int op)
{
    uint32_t want = (conn->paused ? 0u : EPOLLIN) | (conn->wants_write ? EPOLLOUT : 0u);
    struct epoll_event event = {.events = want, .data.ptr = conn};
    if (epoll_ctl(conn->poll, op, conn->fd, &event) != 0)
        die("epoll_ctl: %s", strerror(errno));
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

static void on_event(struct h2conn *conn, uint32_t events)
{
    if (conn->state == H2CONN_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        on_connected(conn);
    else if (conn->state == H2CONN_OPEN && events & EPOLLOUT)
        h2conn_flush(conn);
    if (conn->state == H2CONN_OPEN && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        on_readable(conn);
}

int h2conn_poll_create(void)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    if (poll < 0)
        die("epoll_create1: %s", strerror(errno));
    return poll;
}

void h2conn_poll(int poll, int timeout_ms)
{
    struct epoll_event events[POLL_EVENTS];
    int n = epoll_wait(poll, events, POLL_EVENTS, timeout_ms);
    if (n < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++)
        on_event(events[i].data.ptr, events[i].events);
}

struct h2conn *h2conn_create_on(int poll, int fd, uint32_t max_calls, const struct h2conn_events *events, void *user)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct h2conn *conn = must_have(calloc(1, sizeof(*conn)));
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
    int fd = socket(target->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket: %s", strerror(errno));
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (const struct sockaddr *)&target->addr, target->addr_len) != 0 && errno != EINPROGRESS)
        die("connect: %s", strerror(errno));
    return h2conn_create_on(poll, fd, max_calls, events, user);
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
