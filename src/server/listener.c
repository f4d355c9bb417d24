/* src/server/listener.c */
#include "server/listener.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/owner.h"
#include "server/listener_taken.h"
#include "server/refusal.h"

#define ACCEPTS_PER_TURN 64
#define PAUSE_MS         100
#define LOG_EVERY_MS     60000

struct listener {
    /* fixed at creation */
    const struct belfry_log *log;
    listener_fn fn;
    void *user;
    int fd;
    uint16_t port;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": there is no file to remove */
    dev_t path_dev;                                         /* identify the file that we made there */
    ino_t path_ino;

    uv_poll_t poll;
    uv_timer_t pause;
    int n_handles;   /* not closed yet; the last one frees */
    int reserve;     /* a descriptor to give up when there are no others; -1: none */
    uint64_t log_at; /* the next line about descriptors is written at this time at the earliest */
    struct listener_stats stats;
    BELFRY_OWNER;
};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
    struct sockaddr_storage storage;
};

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void on_handle_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    if (--l->n_handles == 0)
        free(l);
}

static int open_reserve(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* ---- accepting ---- */

static void on_pause_over(uv_timer_t *timer)
{
    struct listener *l = timer->data;
    uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
}

/* No descriptor is left. The reserve makes room to accept one connection and refuse it, so that its peer notices. Then
 * accepting pauses, because the socket stays readable. */
static void refuse_connection(struct listener *l, int code)
{
    if (l->reserve >= 0) {
        close(l->reserve);
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            refusal_close(fd);
            l->stats.refused++;
        }
    }
    l->reserve = open_reserve();
    uint64_t now_ms = belfry_clock_ms();
    if (now_ms >= l->log_at) {
        l->log_at = now_ms + LOG_EVERY_MS;
        belfry_logf(l->log, BELFRY_LOG_ERROR, "accept_refused",
                    "refused=%llu reason=\"%s\" remedy=\"raise the limit of open files\"",
                    (unsigned long long)l->stats.refused, strerror(code));
    }
    uv_poll_stop(&l->poll);
    uv_timer_start(&l->pause, on_pause_over, PAUSE_MS, 0);
}

/* True: there may be more. */
static bool accept_one(struct listener *l)
{
    union address from = {0};
    socklen_t len = sizeof(from);
    int fd = accept4(l->fd, &from.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        l->stats.accepted++;
        l->fn(fd, client_address_accepted(fd, &from.any), l->user);
        return true;
    }
    switch (errno) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        refuse_connection(l, errno);
        return false;
    default: /* this connection is gone, others may be there: accept(2), "Error handling" */
        return true;
    }
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct listener *l = poll->data;
    (void)events;
    if (status < 0)
        return;
    for (int i = 0; i < ACCEPTS_PER_TURN && !uv_is_closing((uv_handle_t *)poll) && accept_one(l); i++)
        ;
}

/* ---- opening ---- */

static enum belfry_err fail_errno(const char *what, const struct belfry_endpoint *endpoint, char *why, size_t why_len)
{
    char remedy[256] = "";
    int code = errno;
    if (code == EADDRINUSE)
        listener_taken(endpoint, remedy, sizeof(remedy));
    else if (code == EADDRNOTAVAIL)
        strcpy(remedy, ": this machine has no such address");
    else if (code == EACCES || code == EPERM)
        strcpy(remedy, ": choose a port above 1023 or a folder that may be written to");
    snprintf(why, why_len, "cannot %s %s (%s)%s", what, endpoint->url, strerror(code), remedy);
    return code == ENOMEM ? BELFRY_ERR_NOMEM : BELFRY_ERR_IO;
}

/* Without getaddrinfo(): a static program that calls it loads modules of the C library at run time. */
static enum belfry_err read_address(const struct belfry_endpoint *endpoint, union address *out, socklen_t *out_len,
                                    char *why, size_t why_len)
{
    const char *host = strcmp(endpoint->host, "localhost") == 0 ? "127.0.0.1" : endpoint->host;
    if (uv_ip4_addr(host, endpoint->port, &out->v4) == 0) {
        *out_len = sizeof(out->v4);
        return BELFRY_OK;
    }
    if (uv_ip6_addr(host, endpoint->port, &out->v6) == 0) { /* fe80::1%eth0 as well */
        *out_len = sizeof(out->v6);
        return BELFRY_OK;
    }
    snprintf(why, why_len, "cannot listen on %s: give an address such as 127.0.0.1 or [::], not a name", endpoint->url);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err unix_address(const struct belfry_endpoint *endpoint, union address *out, socklen_t *out_len,
                                    char *why, size_t why_len)
{
    size_t len = strlen(endpoint->host);
    if (len >= sizeof(out->un.sun_path)) {
        snprintf(why, why_len, "cannot listen on %s: the path is over %zu bytes", endpoint->url,
                 sizeof(out->un.sun_path) - 1);
        return BELFRY_ERR_INVALID;
    }
    out->un.sun_family = AF_UNIX;
    memcpy(out->un.sun_path, endpoint->host, len + 1);
    *out_len = sizeof(out->un);
    return BELFRY_OK;
}

/* A socket without a listener is left over from a process that was killed. */
static void remove_leftover(const union address *address)
{
    struct stat st;
    if (lstat(address->un.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, &address->any, sizeof(address->un)) != 0 && errno == ECONNREFUSED)
        unlink(address->un.sun_path);
    close(fd);
}

/* bind() makes the file with the descriptor's mode, so it is never more accessible, not even for a moment. */
static int bind_unix(struct listener *l, const union address *address)
{
    struct stat st;
    remove_leftover(address);
    if (fchmod(l->fd, 0660) != 0 || bind(l->fd, &address->any, sizeof(address->un)) != 0)
        return -1;
    snprintf(l->path, sizeof(l->path), "%s", address->un.sun_path);
    if (chmod(l->path, 0660) != 0 || lstat(l->path, &st) != 0) /* the umask may have removed bits */
        return -1;
    l->path_dev = st.st_dev;
    l->path_ino = st.st_ino;
    return 0;
}

static int bind_inet(int fd, const union address *address, socklen_t len)
{
    int on = 1, off = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
        return -1;
    if (address->any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)); /* without IPv4 mapping: IPv6 alone */
    return bind(fd, &address->any, len);
}

static enum belfry_err open_socket(struct listener *l, const struct belfry_endpoint *endpoint, int backlog, char *why,
                                   size_t why_len)
{
    union address address = {0};
    socklen_t len = 0;
    enum belfry_err err = endpoint->is_unix ? unix_address(endpoint, &address, &len, why, why_len)
                                            : read_address(endpoint, &address, &len, why, why_len);
    if (err != BELFRY_OK)
        return err;
    l->fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return fail_errno("make a socket for", endpoint, why, why_len);
    if ((endpoint->is_unix ? bind_unix(l, &address) : bind_inet(l->fd, &address, len)) != 0)
        return fail_errno("listen on", endpoint, why, why_len);
    if (listen(l->fd, backlog) != 0)
        return fail_errno("listen on", endpoint, why, why_len);
    return BELFRY_OK;
}

/* Binds for a moment and does not listen, so no client and no belfryd that starts now is disturbed. */
static enum belfry_err try_inet(const struct belfry_endpoint *endpoint, char *why, size_t why_len)
{
    union address address = {0};
    socklen_t len = 0;
    enum belfry_err err = read_address(endpoint, &address, &len, why, why_len);
    if (err != BELFRY_OK)
        return err;
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail_errno("make a socket for", endpoint, why, why_len);
    if (bind_inet(fd, &address, len) != 0) {
        bool is_taken = errno == EADDRINUSE;
        err = fail_errno("listen on", endpoint, why, why_len);
        err = is_taken ? BELFRY_ERR_LIMIT : err;
    }
    close(fd);
    return err;
}

/* bind() would leave its file, so only the folder is checked. */
static enum belfry_err try_unix(const struct belfry_endpoint *endpoint, char *why, size_t why_len)
{
    union address address = {0};
    socklen_t len = 0;
    struct stat st;
    enum belfry_err err = unix_address(endpoint, &address, &len, why, why_len);
    if (err != BELFRY_OK)
        return err;
    if (lstat(endpoint->host, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        errno = EADDRINUSE;
        return fail_errno("listen on", endpoint, why, why_len);
    }
    char *slash = strrchr(address.un.sun_path, '/');
    if (slash != NULL)
        slash[slash == address.un.sun_path ? 1 : 0] = '\0';
    if (faccessat(AT_FDCWD, slash != NULL ? address.un.sun_path : ".", W_OK | X_OK, AT_EACCESS) != 0)
        return fail_errno("listen on", endpoint, why, why_len);
    return BELFRY_OK;
}

enum belfry_err listener_try(const struct belfry_endpoint *endpoint, char *why, size_t why_len)
{
    return endpoint->is_unix ? try_unix(endpoint, why, why_len) : try_inet(endpoint, why, why_len);
}

bool listener_fd_address(int fd, char out[LISTENER_ADDRESS])
{
    union address address = {0};
    socklen_t len = sizeof(address);
    struct in6_addr v6 = IN6ADDR_ANY_INIT;
    if (getsockname(fd, &address.any, &len) != 0) {
        snprintf(out, LISTENER_ADDRESS, "an unknown address");
        return false;
    }
    struct client_address own = client_address_accepted(fd, &address.any);
    client_address_text(&own, out);
    if (address.any.sa_family == AF_INET)
        return ntohl(address.v4.sin_addr.s_addr) >> 24 == 127;
    if (address.any.sa_family == AF_INET6)
        v6 = address.v6.sin6_addr;
    return address.any.sa_family == AF_UNIX || IN6_IS_ADDR_LOOPBACK(&v6) ||
           (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

static uint16_t bound_port(int fd)
{
    union address address = {0};
    socklen_t len = sizeof(address);
    if (getsockname(fd, &address.any, &len) != 0)
        return 0;
    if (address.any.sa_family == AF_INET)
        return ntohs(address.v4.sin_port);
    return address.any.sa_family == AF_INET6 ? ntohs(address.v6.sin6_port) : 0;
}

static void remove_path(const struct listener *l)
{
    struct stat st;
    if (l->path[0] != '\0' && lstat(l->path, &st) == 0 && st.st_dev == l->path_dev && st.st_ino == l->path_ino)
        unlink(l->path);
}

/* Only while it has no handles. */
static void listener_free(struct listener *l)
{
    if (l == NULL)
        return;
    remove_path(l);
    if (l->fd >= 0)
        close(l->fd);
    if (l->reserve >= 0)
        close(l->reserve);
    free(l);
}

static struct listener *listener_make(const struct belfry_log *log, listener_fn fn, void *user)
{
    struct listener *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->log = log;
    l->fn = fn;
    l->user = user;
    l->fd = -1;
    l->reserve = open_reserve();
    return l;
}

static enum belfry_err listener_start(struct listener *l, uv_loop_t *loop)
{
    l->port = bound_port(l->fd);
    if (uv_poll_init(loop, &l->poll, l->fd) != 0)
        return BELFRY_ERR_IO;
    uv_timer_init(loop, &l->pause);
    l->poll.data = l->pause.data = l;
    l->n_handles = 2;
    uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
    return BELFRY_OK;
}

enum belfry_err listener_open(uv_loop_t *loop, const struct belfry_endpoint *endpoint, int backlog,
                              const struct belfry_log *log, listener_fn fn, void *user, struct listener **out,
                              char *why, size_t why_len)
{
    enum belfry_err err = BELFRY_ERR_NOMEM;
    snprintf(why, why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
    struct listener *l = listener_make(log, fn, user);
    if (l == NULL)
        goto fail;
    if ((err = open_socket(l, endpoint, backlog, why, why_len)) != BELFRY_OK)
        goto fail;
    if ((err = listener_start(l, loop)) != BELFRY_OK) {
        snprintf(why, why_len, "cannot listen on %s: the event loop refused its socket", endpoint->url);
        goto fail;
    }
    *out = l;
    return BELFRY_OK;

fail:
    listener_free(l);
    return err;
}

enum belfry_err listener_adopt(uv_loop_t *loop, int fd, const struct belfry_log *log, listener_fn fn, void *user,
                               struct listener **out)
{
    struct listener *l = listener_make(log, fn, user);
    if (l == NULL)
        return BELFRY_ERR_NOMEM;
    l->fd = fd;
    enum belfry_err err = fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? listener_start(l, loop) : BELFRY_ERR_IO;
    if (err == BELFRY_OK) {
        BELFRY_OWNER_INIT(l);
        *out = l;
        return BELFRY_OK;
    }
    l->fd = -1; /* the caller keeps it */
    listener_free(l);
    return err;
}

void listener_close(struct listener *l)
{
    if (l == NULL)
        return;
    BELFRY_OWNER_CHECK(l);
    assert(l->fd >= 0);
    uv_close((uv_handle_t *)&l->poll, on_handle_closed);
    uv_close((uv_handle_t *)&l->pause, on_handle_closed);
    remove_path(l);
    close(l->fd);
    l->fd = -1;
    if (l->reserve >= 0)
        close(l->reserve);
    l->reserve = -1;
}

uint16_t listener_port(const struct listener *l)
{
    return l->port;
}

void listener_stats(const struct listener *l, struct listener_stats *out)
{
    *out = l->stats;
}
