/* bench/belfry-bench/h1conn.c */
#include "h1conn.h"

#include <assert.h>
#include <errno.h>
#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"

#define READ_BYTES ((size_t)256 << 10)

enum h1conn_state { H1CONN_CONNECTING, H1CONN_OPEN, H1CONN_CLOSED };

struct h1conn {
    struct poller_entry entry; /* first */
    /* fixed at creation */
    int poll, fd;
    const struct h1conn_events *events;
    void *user;

    enum h1conn_state state;
    bool paused, complete;
    uint64_t bytes_read;
    llhttp_t parser; /* its data: the connection */
    char *request;   /* owned; NULL once it was sent */
};

static void move(struct h1conn *conn, enum h1conn_state to)
{
    assert(to > conn->state);
    conn->state = to;
}

/* The last that is done with it, because it may be destroyed from inside. */
static void end(struct h1conn *conn, const char *why)
{
    move(conn, H1CONN_CLOSED);
    poller_forget(conn->poll, conn->fd);
    conn->events->ended(conn->user, why);
}

/* ---- what the parser finds ---- */

static int on_head(llhttp_t *parser)
{
    struct h1conn *conn = parser->data;
    conn->events->head(conn->user, llhttp_get_status_code(parser));
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct h1conn *conn = parser->data;
    conn->events->body(conn->user, belfry_bytes_of(at, len));
    return 0;
}

/* Not ended from in here, where the parser is at work. */
static int on_complete(llhttp_t *parser)
{
    ((struct h1conn *)parser->data)->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t *settings(void)
{
    static llhttp_settings_t found;
    if (found.on_body == NULL) {
        llhttp_settings_init(&found);
        found.on_headers_complete = on_head;
        found.on_body = on_body;
        found.on_message_complete = on_complete;
    }
    return &found;
}

/* ---- the socket ---- */

static void on_bytes(struct h1conn *conn, const char *data, size_t len)
{
    conn->bytes_read += len;
    bool sound = llhttp_execute(&conn->parser, data, len) == HPE_OK;
    if (conn->complete)
        end(conn, NULL);
    else if (!sound)
        end(conn, "what the server sent is no HTTP/1.1");
}

/* A body may end so, and then is complete. */
static void on_closed(struct h1conn *conn)
{
    (void)llhttp_finish(&conn->parser);
    end(conn, conn->complete ? NULL : "the server closed the connection");
}

/* What is ended may be gone. */
static void on_readable(struct h1conn *conn)
{
    static _Thread_local char data[READ_BYTES];
    ssize_t n = recv(conn->fd, data, sizeof(data), 0);
    if (n > 0)
        on_bytes(conn, data, (size_t)n);
    else if (n == 0)
        on_closed(conn);
    else if (errno != EAGAIN && errno != EINTR)
        end(conn, strerror(errno));
}

/* A request is smaller than any socket's buffer. */
static void on_connected(struct h1conn *conn)
{
    int err = 0;
    socklen_t len = sizeof(err);
    getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len);
    size_t size = strlen(conn->request);
    if (err == 0 && send(conn->fd, conn->request, size, MSG_NOSIGNAL) != (ssize_t)size)
        err = errno;
    free(conn->request);
    conn->request = NULL;
    if (err != 0) {
        end(conn, strerror(err));
        return;
    }
    move(conn, H1CONN_OPEN);
    poller_watch(conn->poll, EPOLL_CTL_MOD, conn->fd, conn->paused ? 0u : EPOLLIN, &conn->entry);
}

static void on_ready(struct poller_entry *entry, uint32_t events)
{
    struct h1conn *conn = (struct h1conn *)entry; /* its first member */
    if (conn->state == H1CONN_CONNECTING)
        on_connected(conn);
    else if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        on_readable(conn);
}

struct h1conn *h1conn_create_on(int poll, int fd, const char *path, struct belfry_bytes bearer,
                                const struct h1conn_events *events, void *user)
{
    static const char form[] = "GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: belfry-bench\r\n"
                               "Accept: application/json%s%.*s\r\n\r\n";
    static const char credential[] = "\r\nAuthorization: Bearer ";
    size_t size = sizeof(form) + H1CONN_PATH_MAX + sizeof(credential) + bearer.len;
    struct h1conn *conn = must_have(calloc(1, sizeof(*conn)));
    *conn = (struct h1conn){.entry = {on_ready}, .poll = poll, .fd = fd, .events = events, .user = user};
    conn->request = must_have(malloc(size));
    assert(strlen(path) < H1CONN_PATH_MAX);
    if (bearer.len > 0)
        snprintf(conn->request, size, form, path, credential, (int)bearer.len, bearer.data);
    else
        snprintf(conn->request, size, form, path, "", 0, "");
    llhttp_init(&conn->parser, HTTP_RESPONSE, settings());
    conn->parser.data = conn;
    poller_watch(poll, EPOLL_CTL_ADD, fd, EPOLLOUT, &conn->entry);
    return conn;
}

struct h1conn *h1conn_create(int poll, const struct target *target, const char *path,
                             const struct h1conn_events *events, void *user)
{
    return h1conn_create_on(poll, target_connect(target), path, target->bearer, events, user);
}

void h1conn_destroy(struct h1conn *conn)
{
    if (conn == NULL)
        return;
    close(conn->fd);
    free(conn->request);
    free(conn);
}

uint64_t h1conn_bytes_read(const struct h1conn *conn)
{
    return conn->bytes_read;
}

static void set_paused(struct h1conn *conn, bool paused)
{
    conn->paused = paused;
    if (conn->state == H1CONN_OPEN)
        poller_watch(conn->poll, EPOLL_CTL_MOD, conn->fd, paused ? 0u : EPOLLIN, &conn->entry);
}

void h1conn_pause(struct h1conn *conn)
{
    set_paused(conn, true);
}

void h1conn_resume(struct h1conn *conn)
{
    set_paused(conn, false);
}
