/* src/cli/http_get.c */
#include "cli/http_get.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cli/http_reply.h"

#define READ_BYTES (64 * 1024)

struct getting {
    const char *address;
    int64_t deadline_ms;
    char *why;
    int fd; /* -1: none */
    char *data;
    size_t len, cap;
};

__attribute__((format(printf, 3, 4))) static enum belfry_err wrong(const struct getting *g, enum belfry_err err,
                                                                   const char *format, ...)
{
    va_list args;
    int at = snprintf(g->why, HTTP_GET_WHY, "%.128s: ", g->address);
    va_start(args, format);
    vsnprintf(g->why + at, HTTP_GET_WHY - (size_t)at, format, args);
    va_end(args);
    return err;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static enum belfry_err wait_for(const struct getting *g, short events)
{
    struct pollfd poll_fd = {.fd = g->fd, .events = events};
    for (;;) {
        int64_t left = g->deadline_ms - now_ms();
        int n = left > 0 ? poll(&poll_fd, 1, (int)left) : 0;
        if (n > 0)
            return BELFRY_OK;
        if (n == 0)
            return wrong(g, BELFRY_ERR_TIMEOUT, "no answer in time");
        if (errno != EINTR)
            return wrong(g, BELFRY_ERR_UNAVAILABLE, "%s", strerror(errno));
    }
}

/* ---- connecting ---- */

static enum belfry_err connect_to(struct getting *g, int family, const struct sockaddr *to, socklen_t len)
{
    g->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (g->fd < 0)
        return wrong(g, BELFRY_ERR_UNAVAILABLE, "%s", strerror(errno));
    int failed = connect(g->fd, to, len) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
        enum belfry_err err = wait_for(g, POLLOUT);
        if (err != BELFRY_OK)
            return err;
        socklen_t size = sizeof(failed);
        if (getsockopt(g->fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0)
            failed = errno;
    }
    return failed == 0 ? BELFRY_OK : wrong(g, BELFRY_ERR_UNAVAILABLE, "%s", strerror(failed));
}

static enum belfry_err connect_unix(struct getting *g, const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (path[0] != '/' || strlen(path) >= sizeof(to.sun_path))
        return wrong(g, BELFRY_ERR_INVALID, "not a path of a unix socket: write unix:///run/belfry/admin");
    memcpy(to.sun_path, path, strlen(path) + 1);
    return connect_to(g, AF_UNIX, (const struct sockaddr *)&to, sizeof(to));
}

/* Cuts "host:port" or "[::1]:port". */
static bool cut_host(const char *text, char host[256], char port[8])
{
    bool bracket = text[0] == '[';
    const char *end = bracket ? strchr(text, ']') : strrchr(text, ':');
    const char *from = bracket ? text + 1 : text;
    if (end == NULL || (bracket && end[1] != ':') || (!bracket && strchr(text, ':') != end))
        return false;
    const char *digits = end + (bracket ? 2 : 1);
    size_t n = strspn(digits, "0123456789"), len = (size_t)(end - from);
    const char *rest = digits + n;
    if (n == 0 || n > 5 || len == 0 || len > 255 || (strcmp(rest, "") != 0 && strcmp(rest, "/") != 0))
        return false;
    memcpy(host, from, len);
    host[len] = '\0';
    memcpy(port, digits, n);
    port[n] = '\0';
    return true;
}

static enum belfry_err connect_tcp(struct getting *g, const char *text)
{
    char host[256], port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *all = NULL;
    if (!cut_host(text, host, port))
        return wrong(g, BELFRY_ERR_INVALID, "write http://HOST:PORT or unix:///PATH");
    int status = getaddrinfo(host, port, &hints, &all);
    if (status != 0)
        return wrong(g, BELFRY_ERR_RESOLVE, "%s", gai_strerror(status));
    enum belfry_err err = wrong(g, BELFRY_ERR_RESOLVE, "no address");
    for (const struct addrinfo *one = all; one != NULL && err != BELFRY_OK; one = one->ai_next) {
        if (g->fd >= 0)
            close(g->fd);
        err = connect_to(g, one->ai_family, one->ai_addr, one->ai_addrlen);
    }
    freeaddrinfo(all);
    return err;
}

static enum belfry_err connect_any(struct getting *g)
{
    if (strncmp(g->address, "unix://", 7) == 0)
        return connect_unix(g, g->address + 7);
    if (strncmp(g->address, "https://", 8) == 0)
        return wrong(g, BELFRY_ERR_INVALID, "an admin address speaks plain HTTP: write http://HOST:PORT");
    return connect_tcp(g, strncmp(g->address, "http://", 7) == 0 ? g->address + 7 : g->address);
}

/* ---- talking ---- */

static enum belfry_err send_request(struct getting *g, const char *path)
{
    char request[2048];
    const char *host = strstr(g->address, "://") != NULL ? strstr(g->address, "://") + 3 : g->address;
    host = host[0] == '/' ? "localhost" : host; /* a unix socket */
    int len = snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: belfryctl/" BELFRY_VERSION
                       "\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
                       path, (int)strcspn(host, "/"), host);
    if ((size_t)len >= sizeof(request))
        return wrong(g, BELFRY_ERR_INVALID, "the request is too long");
    for (size_t sent = 0; sent < (size_t)len;) {
        enum belfry_err err = wait_for(g, POLLOUT);
        if (err != BELFRY_OK)
            return err;
        ssize_t n = send(g->fd, request + sent, (size_t)len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return wrong(g, BELFRY_ERR_UNAVAILABLE, "%s", strerror(errno));
        sent += n > 0 ? (size_t)n : 0;
    }
    return BELFRY_OK;
}

static enum belfry_err make_room(struct getting *g)
{
    if (g->cap - g->len > READ_BYTES)
        return BELFRY_OK;
    if (g->len > HTTP_GET_MAX)
        return wrong(g, BELFRY_ERR_TOO_LARGE, "the answer is over %d MiB", HTTP_GET_MAX >> 20);
    size_t cap = g->cap == 0 ? 4 * READ_BYTES : 2 * g->cap;
    char *data = realloc(g->data, cap);
    if (data == NULL)
        return BELFRY_ERR_NOMEM;
    g->data = data;
    g->cap = cap;
    return BELFRY_OK;
}

static enum belfry_err read_some(struct getting *g, bool *ended)
{
    enum belfry_err err = make_room(g);
    if (err == BELFRY_OK)
        err = wait_for(g, POLLIN);
    if (err != BELFRY_OK)
        return err;
    ssize_t n = recv(g->fd, g->data + g->len, READ_BYTES, 0);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return wrong(g, BELFRY_ERR_UNAVAILABLE, "%s", strerror(errno));
    *ended = n == 0;
    g->len += n > 0 ? (size_t)n : 0;
    return BELFRY_OK;
}

static enum belfry_err read_reply(struct getting *g, struct http_reply *reply)
{
    enum http_reply_state state = HTTP_REPLY_MORE;
    while (state == HTTP_REPLY_MORE) {
        bool ended = false;
        enum belfry_err err = read_some(g, &ended);
        if (err != BELFRY_OK)
            return err;
        state = http_reply_read(g->data, g->len, ended, reply);
    }
    return state == HTTP_REPLY_DONE ? BELFRY_OK : wrong(g, BELFRY_ERR_PROTOCOL, "what answers there is no HTTP server");
}

static bool is_plain(const char *path)
{
    for (const char *at = path; *at != '\0'; at++) {
        if (*at <= ' ' || *at == 0x7F)
            return false;
    }
    return path[0] == '/';
}

enum belfry_err http_get(const char *address, const char *path, int timeout_ms, struct http_page *out,
                         char why[HTTP_GET_WHY])
{
    struct getting g = {.address = address, .deadline_ms = now_ms() + timeout_ms, .why = why, .fd = -1};
    struct http_reply reply;
    snprintf(why, HTTP_GET_WHY, "out of memory");
    enum belfry_err err = is_plain(path) ? connect_any(&g) : wrong(&g, BELFRY_ERR_INVALID, "no page is called so");
    if (err == BELFRY_OK)
        err = send_request(&g, path);
    if (err == BELFRY_OK)
        err = read_reply(&g, &reply);
    if (g.fd >= 0)
        close(g.fd);
    if (err != BELFRY_OK) {
        free(g.data);
        return err;
    }
    memmove(g.data, g.data + reply.body, reply.len);
    g.data[reply.len] = '\0'; /* there is room: the head was before it */
    *out = (struct http_page){.status = reply.status, .body = g.data, .len = reply.len};
    return BELFRY_OK;
}

void http_page_fini(struct http_page *page)
{
    free(page->body);
    *page = (struct http_page){0};
}
