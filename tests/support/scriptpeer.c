/* tests/support/scriptpeer.c */
#include "support/scriptpeer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static bool listen_at(struct scriptpeer *peer, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof(address);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, SCRIPTPEER_CONNS) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        close(fd);
        return false;
    }
    peer->listener = fd;
    peer->port = ntohs(address.sin_port);
    return true;
}

bool scriptpeer_open(struct scriptpeer *peer)
{
    peer->n_accepted = peer->n_requests = 0;
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++)
        peer->conns[i].state = SCRIPTPEER_GONE;
    return listen_at(peer, 0);
}

void scriptpeer_close(struct scriptpeer *peer)
{
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++)
        scriptpeer_hang_up(&peer->conns[i]);
    scriptpeer_refuse(peer);
}

void scriptpeer_refuse(struct scriptpeer *peer)
{
    if (peer->listener >= 0)
        close(peer->listener);
    peer->listener = -1;
}

bool scriptpeer_accept(struct scriptpeer *peer)
{
    return listen_at(peer, peer->port);
}

size_t scriptpeer_fds(const struct scriptpeer *peer, struct pollfd *fds)
{
    size_t n = 0;
    if (peer->listener >= 0)
        fds[n++] = (struct pollfd){.fd = peer->listener, .events = POLLIN};
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++) {
        if (peer->conns[i].state != SCRIPTPEER_GONE)
            fds[n++] = (struct pollfd){.fd = peer->conns[i].fd, .events = POLLIN};
    }
    return n;
}

static struct scriptpeer_conn *unused_conn(struct scriptpeer *peer)
{
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++) { /* the longest unused first: a test may still look at the last */
        struct scriptpeer_conn *conn = &peer->conns[(peer->n_accepted + i) % SCRIPTPEER_CONNS];
        if (conn->state == SCRIPTPEER_GONE)
            return conn;
    }
    return NULL;
}

static void accept_all(struct scriptpeer *peer)
{
    struct scriptpeer_conn *conn;
    while (peer->listener >= 0 && (conn = unused_conn(peer)) != NULL) {
        int fd = accept4(peer->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        int on = 1; /* each step is sent when the test takes it */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        conn->fd = fd;
        conn->state = SCRIPTPEER_IDLE;
        conn->used = 0;
        conn->head[0] = '\0';
        peer->n_accepted++;
    }
}

/* A client that has asked sends nothing more before its answer; if it does, the rest waits in the socket. */
static void read_some(struct scriptpeer *peer, struct scriptpeer_conn *conn)
{
    char ignored;
    bool reading = conn->state == SCRIPTPEER_IDLE;
    ssize_t got = reading ? recv(conn->fd, conn->head + conn->used, SCRIPTPEER_HEAD - conn->used, 0)
                          : recv(conn->fd, &ignored, 1, MSG_PEEK);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        close(conn->fd);
        conn->state = SCRIPTPEER_GONE;
        return;
    }
    if (got < 0 || !reading)
        return;
    conn->used += (size_t)got;
    conn->head[conn->used] = '\0';
    if (strstr(conn->head, "\r\n\r\n") == NULL)
        return;
    conn->state = SCRIPTPEER_ASKED;
    conn->order = peer->n_requests++;
}

void scriptpeer_turn(struct scriptpeer *peer)
{
    accept_all(peer);
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++) {
        if (peer->conns[i].state != SCRIPTPEER_GONE)
            read_some(peer, &peer->conns[i]);
    }
}

struct scriptpeer_conn *scriptpeer_asked(struct scriptpeer *peer)
{
    struct scriptpeer_conn *first = NULL;
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++) {
        struct scriptpeer_conn *conn = &peer->conns[i];
        if (conn->state == SCRIPTPEER_ASKED && (first == NULL || conn->order < first->order))
            first = conn;
    }
    if (first != NULL)
        first->state = SCRIPTPEER_TAKEN;
    return first;
}

/* ---- the request ---- */

static void copy_text(const char *from, size_t len, char *out, size_t cap)
{
    size_t n = len < cap - 1 ? len : cap - 1;
    memcpy(out, from, n);
    out[n] = '\0';
}

/* The target: from behind "GET " to the next blank. */
static const char *target(const struct scriptpeer_conn *conn, size_t *out_len)
{
    const char *blank = strchr(conn->head, ' ');
    const char *begin = blank != NULL ? blank + 1 : "";
    *out_len = strcspn(begin, " \r\n");
    return begin;
}

void scriptpeer_path(const struct scriptpeer_conn *conn, char *out, size_t cap)
{
    size_t len;
    const char *begin = target(conn, &len);
    const char *query = memchr(begin, '?', len);
    copy_text(begin, query != NULL ? (size_t)(query - begin) : len, out, cap);
}

static void copy_decoded(const char *from, size_t len, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n < cap - 1; i++) {
        char hex[3] = {0};
        if (from[i] == '%' && i + 2 < len) {
            memcpy(hex, from + i + 1, 2);
            out[n++] = (char)strtoul(hex, NULL, 16);
            i += 2;
        } else {
            out[n++] = from[i] == '+' ? ' ' : from[i];
        }
    }
    out[n] = '\0';
}

bool scriptpeer_query(const struct scriptpeer_conn *conn, const char *name, char *out, size_t cap)
{
    size_t len, name_len = strlen(name);
    const char *at = target(conn, &len), *end = at + len;
    at = memchr(at, '?', len);
    out[0] = '\0';
    while (at != NULL && at < end) {
        at++; /* behind '?' or '&' */
        const char *next = memchr(at, '&', (size_t)(end - at));
        size_t pair = (size_t)((next != NULL ? next : end) - at);
        if (pair >= name_len && strncmp(at, name, name_len) == 0 && (pair == name_len || at[name_len] == '=')) {
            size_t skip = pair == name_len ? name_len : name_len + 1;
            copy_decoded(at + skip, pair - skip, out, cap);
            return true;
        }
        at = next;
    }
    return false;
}

bool scriptpeer_field(const struct scriptpeer_conn *conn, const char *name, char *out, size_t cap)
{
    size_t name_len = strlen(name);
    out[0] = '\0';
    for (const char *line = strstr(conn->head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
            continue;
        const char *value = line + name_len + 1;
        value += strspn(value, " \t");
        copy_text(value, strcspn(value, "\r\n"), out, cap);
        return true;
    }
    return false;
}

/* ---- the answer ---- */

size_t scriptpeer_send(struct scriptpeer_conn *conn, const char *bytes, size_t len)
{
    if (conn->state == SCRIPTPEER_GONE)
        return len; /* nobody is there to take it */
    ssize_t sent = send(conn->fd, bytes, len, MSG_NOSIGNAL);
    if (sent >= 0)
        return (size_t)sent;
    return errno == EAGAIN || errno == EINTR ? 0 : len;
}

static void send_text(struct scriptpeer_conn *conn, const char *text)
{
    size_t len = strlen(text);
    if (scriptpeer_send(conn, text, len) != len)
        abort(); /* more than a socket takes: the test should have used scriptpeer_send() */
}

/* What it is asked next comes into an empty head. */
static void answered(struct scriptpeer_conn *conn)
{
    if (conn->state == SCRIPTPEER_GONE)
        return;
    conn->state = SCRIPTPEER_IDLE;
    conn->used = 0;
    conn->head[0] = '\0';
}

void scriptpeer_answer(struct scriptpeer_conn *conn, const char *status, const char *fields, const char *body)
{
    char head[1024];
    snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status, fields, strlen(body));
    send_text(conn, head);
    send_text(conn, body);
    answered(conn);
}

void scriptpeer_begin(struct scriptpeer_conn *conn, const char *status, const char *fields)
{
    char head[1024];
    snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n%sTransfer-Encoding: chunked\r\n\r\n", status, fields);
    send_text(conn, head);
}

void scriptpeer_chunk(struct scriptpeer_conn *conn, const char *text)
{
    char size[32];
    snprintf(size, sizeof(size), "%zx\r\n", strlen(text));
    send_text(conn, size);
    send_text(conn, text);
    send_text(conn, "\r\n");
}

void scriptpeer_end(struct scriptpeer_conn *conn)
{
    send_text(conn, "0\r\n\r\n");
    answered(conn);
}

void scriptpeer_hang_up(struct scriptpeer_conn *conn)
{
    if (conn->state != SCRIPTPEER_GONE)
        close(conn->fd);
    conn->state = SCRIPTPEER_GONE;
}

void scriptpeer_cut(struct scriptpeer_conn *conn)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (conn->state != SCRIPTPEER_GONE)
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    scriptpeer_hang_up(conn);
}
