/* src/net/transport.c
 *
 * Callbacks to the owner are made from the loop's callbacks only (on_poll, on_idle, on_timer, on_resolved,
 * on_poll_closed). Each may close the transport, so after each the state is looked at again; the memory stays until the
 * handles are closed, on a later turn.
 */
#include "net/transport.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/owner.h"
#include "net/tls_conn.h"

#define READ_BYTES       (64 * 1024)
#define PLAIN_BYTES      (16 * 1024) /* of one TLS record */
#define READS_PER_TURN   16
#define WRITE_PER_TURN   (1024 * 1024) /* bytes after which the loop gets its turn back */
#define ENCRYPTED_ENOUGH (64 * 1024)   /* bytes worth a send() */

enum transport_state {
    TRANSPORT_RESOLVING,
    TRANSPORT_CONNECTING,
    TRANSPORT_HANDSHAKE,
    TRANSPORT_UP,
    TRANSPORT_LOST,
    TRANSPORT_CLOSED
};

struct belfry_transport {
    /* fixed at creation */
    uv_loop_t *loop;
    struct belfry_endpoint endpoint;
    struct belfry_tls *tls; /* used until up, lent */
    const struct belfry_transport_events *events;
    void *user;
    uint32_t dial_timeout_ms;

    enum transport_state state;
    uv_timer_t timer; /* runs until up: how long the name, or the address that is tried, may take */
    uv_idle_t idle;   /* what must not happen inside the owner's call happens on the next turn */
    uv_poll_t poll;   /* of `fd`; made anew for each address */
    int n_handles;    /* not closed yet; the last one frees the transport */
    bool poll_open;   /* poll is initialized and not closing */
    int fd;           /* -1: none */
    int watched;      /* what poll watches for */
    bool in_turn;     /* a callback of the loop is on the stack and will look at `kicked` */
    bool kicked;
    bool blocked; /* the socket takes no more now */
    bool held;    /* nothing is read */
    int broken;   /* errno of a write that failed while held; told when what can be read has been */

    struct belfry_dns_query *query; /* while resolving */
    enum belfry_err open_err;       /* found in open, told from the loop */
    uint64_t deadline_ms;
    struct sockaddr_storage addresses[BELFRY_DNS_MAX];
    size_t n_addresses, next_address;

    struct belfry_tls_conn *conn; /* TLS only */
    struct belfry_bytes pulled;   /* what is left of the last pull; lent by the owner until the next */
    char why[400];
    BELFRY_OWNER;
};

static void transport_dial(struct belfry_transport *t);
static void on_poll(uv_poll_t *poll, int status, int events);
static void on_idle(uv_idle_t *idle);

static void transport_enter(struct belfry_transport *t, enum transport_state next)
{
    /* Forward only, but for the next address after a handshake that failed. */
    assert(next > t->state || (t->state == TRANSPORT_HANDSHAKE && next == TRANSPORT_CONNECTING));
    t->state = next;
}

/* A system call's errno in plain words; unknown ones in the system's. */
static const char *errno_words(int code, char *buf, size_t len)
{
    switch (code) {
    case ECONNREFUSED:
        return "connection refused";
    case ECONNRESET:
        return "the peer reset the connection";
    case EPIPE:
        return "the peer closed the connection";
    case ETIMEDOUT:
        return "the peer no longer answers";
    case EHOSTUNREACH:
        return "no route to the host";
    case ENETUNREACH:
    case EADDRNOTAVAIL:
        return "the network is unreachable";
    case ENOENT:
        return "there is no such socket";
    case EAGAIN:
        return "the peer accepts no more connections now";
    case EMFILE:
    case ENFILE:
        return "no descriptors are left; raise the limit of open files";
    default:
        return strerror_r(code, buf, len);
    }
}

static enum belfry_err errno_class(int code)
{
    switch (code) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case ENOENT:
    case EAGAIN:
        return BELFRY_ERR_UNAVAILABLE;
    case EMFILE:
    case ENFILE:
        return BELFRY_ERR_LIMIT;
    case ENOMEM:
    case ENOBUFS:
        return BELFRY_ERR_NOMEM;
    default:
        return BELFRY_ERR_IO;
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct belfry_transport *t = handle->data;
    if (--t->n_handles == 0)
        free(t);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct belfry_transport *t = handle->data;
    enum transport_state state = t->state;
    on_handle_closed(handle);
    if (state == TRANSPORT_CONNECTING) /* the timer and the idle handle are still open, so t is there */
        transport_dial(t);
}

static void drop_socket(struct belfry_transport *t)
{
    if (t->conn != NULL && t->fd >= 0) { /* what TLS still has for the peer (an alert, a goodbye) is sent once */
        if (t->state == TRANSPORT_UP && belfry_tls_conn_output(t->conn).len == 0 && t->pulled.len == 0)
            belfry_tls_conn_end(t->conn);
        struct belfry_bytes output = belfry_tls_conn_output(t->conn);
        if (output.len > 0)
            (void)send(t->fd, output.data, output.len, MSG_NOSIGNAL);
    }
    belfry_tls_conn_destroy(t->conn);
    t->conn = NULL;
    if (t->poll_open)
        uv_close((uv_handle_t *)&t->poll, on_poll_closed);
    t->poll_open = false;
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    t->watched = 0;
    t->blocked = false;
    t->broken = 0;
}

static void drop_everything(struct belfry_transport *t)
{
    if (t->query != NULL)
        belfry_dns_cancel(t->query);
    t->query = NULL;
    drop_socket(t);
    uv_timer_stop(&t->timer);
    uv_idle_stop(&t->idle);
    t->pulled = (struct belfry_bytes){0};
}

/* `why` may point into what is dropped, so it is copied first. */
static void transport_lose(struct belfry_transport *t, enum belfry_err err, const char *why)
{
    snprintf(t->why, sizeof(t->why), "%s", why);
    drop_everything(t);
    transport_enter(t, TRANSPORT_LOST);
    t->events->lost(t, err, t->why, t->user);
}

static void lose_errno(struct belfry_transport *t, int code)
{
    char words[128];
    transport_lose(t, errno_class(code), errno_words(code, words, sizeof(words)));
}

/* A failure before UP: the next address, once the handle of this one is closed, or the end. */
static void fail_address(struct belfry_transport *t, enum belfry_err err, const char *why)
{
    if (t->next_address == t->n_addresses) {
        transport_lose(t, err, why);
        return;
    }
    assert(t->poll_open);
    uv_timer_stop(&t->timer); /* it is this address's; transport_dial() sets it for the next */
    drop_socket(t);
    if (t->state != TRANSPORT_CONNECTING)
        transport_enter(t, TRANSPORT_CONNECTING);
}

static void fail_errno(struct belfry_transport *t, int code)
{
    char words[128];
    fail_address(t, errno_class(code), errno_words(code, words, sizeof(words)));
}

/* TLS said no. Other addresses of the name would show the same certificate: no use in trying them. */
static void lose_tls(struct belfry_transport *t, enum belfry_err err)
{
    switch (err) {
    case BELFRY_ERR_UNAVAILABLE:
        transport_lose(t, err, "the peer closed the connection");
        break;
    case BELFRY_ERR_TLS:
        transport_lose(t, err, belfry_tls_conn_why(t->conn));
        break;
    default:
        transport_lose(t, err, belfry_strerror((int)err));
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct belfry_transport *t = timer->data;
    char why[128];
    const char *what = t->state == TRANSPORT_RESOLVING   ? "the name was not resolved"
                       : t->state == TRANSPORT_HANDSHAKE ? "the TLS handshake did not end"
                                                         : "no answer";
    snprintf(why, sizeof(why), "%s within %u ms", what, (unsigned)t->dial_timeout_ms);
    if (t->state == TRANSPORT_RESOLVING)
        transport_lose(t, BELFRY_ERR_TIMEOUT, why);
    else
        fail_address(t, BELFRY_ERR_TIMEOUT, why);
}

static void transport_watch(struct belfry_transport *t, int events)
{
    if (t->watched == events)
        return;
    int code = uv_poll_start(&t->poll, events, on_poll);
    assert(code == 0); /* it only fails for a descriptor that is not open */
    (void)code;
    t->watched = events;
}

static bool is_held(const struct belfry_transport *t)
{
    return t->held && t->state == TRANSPORT_UP; /* a handshake must go on */
}

/* After whatever happened in a turn: watch for what is of interest now. */
static void transport_rewatch(struct belfry_transport *t)
{
    if (t->state == TRANSPORT_HANDSHAKE || t->state == TRANSPORT_UP)
        transport_watch(t, (is_held(t) ? 0 : UV_READABLE) | (t->blocked ? UV_WRITABLE : 0));
}

/* Sends from the front of `bytes`; returns how many went, less than all when the socket is full. -1: errno tells. */
static ssize_t send_some(struct belfry_transport *t, struct belfry_bytes bytes)
{
    ssize_t n;
    do
        n = send(t->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        n = 0;
    t->blocked = n >= 0 && (size_t)n < bytes.len;
    return n;
}

/* Returns false when the transport was lost. */
static bool send_encrypted(struct belfry_transport *t, size_t *sent)
{
    struct belfry_bytes output = belfry_tls_conn_output(t->conn);
    if (output.len == 0)
        return true;
    ssize_t n = send_some(t, output);
    if (n < 0)
        return false;
    belfry_tls_conn_sent(t->conn, (size_t)n);
    *sent += (size_t)n;
    return true;
}

/* What is pulled: false when the owner has nothing, or closed us when it was asked. */
static bool transport_pull(struct belfry_transport *t)
{
    if (t->pulled.len > 0)
        return true;
    struct belfry_bytes bytes = t->events->pull(t, t->user);
    if (t->state != TRANSPORT_UP)
        return false;
    t->pulled = bytes;
    return bytes.len > 0;
}

static void transport_took(struct belfry_transport *t, size_t n)
{
    t->pulled.data += n;
    t->pulled.len -= n;
}

/* Encrypts until there is enough for one send(). */
static enum belfry_err encrypt_some(struct belfry_transport *t)
{
    while (belfry_tls_conn_output(t->conn).len < ENCRYPTED_ENOUGH && transport_pull(t)) {
        size_t n;
        enum belfry_err err = belfry_tls_conn_write(t->conn, t->pulled, &n);
        if (err != BELFRY_OK)
            return err;
        transport_took(t, n);
    }
    return BELFRY_OK;
}

enum flushed { FLUSHED, FLUSH_ERRNO, FLUSH_OVER };

static enum flushed flush_tls(struct belfry_transport *t)
{
    for (size_t sent = 0; !t->blocked;) {
        enum belfry_err err = encrypt_some(t);
        if (t->state != TRANSPORT_UP)
            return FLUSH_OVER;
        if (err != BELFRY_OK) {
            lose_tls(t, err);
            return FLUSH_OVER;
        }
        if (belfry_tls_conn_output(t->conn).len == 0)
            return FLUSHED;
        if (!send_encrypted(t, &sent))
            return FLUSH_ERRNO;
        if (sent >= WRITE_PER_TURN)
            t->blocked = true;
    }
    return FLUSHED;
}

static enum flushed flush_plain(struct belfry_transport *t)
{
    for (size_t sent = 0; !t->blocked && transport_pull(t);) {
        ssize_t n = send_some(t, t->pulled);
        if (n < 0)
            return FLUSH_ERRNO;
        transport_took(t, (size_t)n);
        sent += (size_t)n;
        if (sent >= WRITE_PER_TURN)
            t->blocked = true; /* not really, but the poll will bring us back */
    }
    return t->state == TRANSPORT_UP ? FLUSHED : FLUSH_OVER;
}

static void transport_receive(struct belfry_transport *t);

/* When the peer is gone, what it said before it went is worth more than our errno: read that first. */
static void lose_broken(struct belfry_transport *t)
{
    transport_receive(t);
    if (t->state == TRANSPORT_UP && !t->held)
        lose_errno(t, t->broken);
}

static void transport_flush(struct belfry_transport *t)
{
    t->kicked = false;
    if (t->state != TRANSPORT_UP || t->broken != 0)
        return;
    enum flushed result = t->conn != NULL ? flush_tls(t) : flush_plain(t);
    if (result != FLUSH_ERRNO)
        return;
    t->broken = errno;
    lose_broken(t);
}

static void become_up(struct belfry_transport *t)
{
    uv_timer_stop(&t->timer);
    transport_enter(t, TRANSPORT_UP);
    t->kicked = true; /* the owner is asked once without a kick */
    t->events->up(t, t->user);
}

static void step_handshake(struct belfry_transport *t)
{
    size_t sent = 0;
    enum belfry_err err = belfry_tls_conn_handshake(t->conn);
    if (err != BELFRY_OK && err != BELFRY_ERR_AGAIN) {
        lose_tls(t, err);
        return;
    }
    if (!send_encrypted(t, &sent))
        fail_errno(t, errno);
    else if (err == BELFRY_OK)
        become_up(t);
}

static void transport_deliver(struct belfry_transport *t, const void *data, size_t len)
{
    t->events->bytes(t, belfry_bytes_of(data, len), t->user);
}

static void deliver_encrypted(struct belfry_transport *t, const void *data, size_t len)
{
    char plain[PLAIN_BYTES];
    belfry_tls_conn_feed(t->conn, belfry_bytes_of(data, len));
    if (t->state == TRANSPORT_HANDSHAKE)
        step_handshake(t);
    while (t->state == TRANSPORT_UP) {
        size_t n;
        enum belfry_err err = belfry_tls_conn_read(t->conn, plain, sizeof(plain), &n);
        if (err == BELFRY_ERR_AGAIN)
            return;
        if (err == BELFRY_OK)
            transport_deliver(t, plain, n);
        else
            lose_tls(t, err);
    }
}

static bool is_open(const struct belfry_transport *t)
{
    return t->state == TRANSPORT_HANDSHAKE || t->state == TRANSPORT_UP;
}

static void transport_receive(struct belfry_transport *t)
{
    char buf[READ_BYTES];
    for (int reads = 0; reads < READS_PER_TURN && is_open(t) && !is_held(t); reads++) {
        ssize_t n = recv(t->fd, buf, sizeof(buf), 0);
        if (n == 0) { /* the peer sends no more */
            if (t->state == TRANSPORT_UP)
                transport_lose(t, BELFRY_ERR_UNAVAILABLE, "the peer closed the connection");
            else
                fail_address(t, BELFRY_ERR_UNAVAILABLE, "the peer closed the connection during the TLS handshake");
            return;
        }
        if (n < 0) {
            int code = errno;
            if (code == EAGAIN || code == EWOULDBLOCK || code == EINTR)
                return;
            if (t->state == TRANSPORT_UP)
                lose_errno(t, code);
            else
                fail_errno(t, code);
            return;
        }
        if (t->conn != NULL)
            deliver_encrypted(t, buf, (size_t)n);
        else
            transport_deliver(t, buf, (size_t)n);
        if ((size_t)n < sizeof(buf))
            return; /* most likely all there was; if not, the poll says so */
    }
}

static void start_handshake(struct belfry_transport *t)
{
    const char *host = t->endpoint.is_unix ? "localhost" : t->endpoint.host;
    enum belfry_err err = belfry_tls_conn_create(t->tls, host, &t->conn);
    if (err != BELFRY_OK) {
        transport_lose(t, err,
                       err == BELFRY_ERR_TLS ? "the server name cannot be verified" : belfry_strerror((int)err));
        return;
    }
    transport_enter(t, TRANSPORT_HANDSHAKE);
    step_handshake(t);
}

static void transport_connected(struct belfry_transport *t)
{
    int code = 0;
    socklen_t len = sizeof(code);
    if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &code, &len) != 0)
        code = errno;
    if (code != 0)
        fail_errno(t, code);
    else if (t->endpoint.tls)
        start_handshake(t);
    else
        become_up(t);
}

/* A write failed while nothing was read, and now there is reading again: on the next turn it is looked at. */
static void resume_broken(struct belfry_transport *t)
{
    if (t->state == TRANSPORT_UP && t->broken != 0 && !t->held)
        uv_idle_start(&t->idle, on_idle);
}

/* The end of each turn that may have called the owner. */
static void leave_turn(struct belfry_transport *t)
{
    bool answers = t->state == TRANSPORT_UP && t->conn != NULL && belfry_tls_conn_output(t->conn).len > 0;
    if ((t->kicked || answers) && !t->blocked) /* reading may have made TLS answer */
        transport_flush(t);
    transport_rewatch(t);
    t->in_turn = false;
    if (t->kicked && t->state == TRANSPORT_UP && !t->blocked)
        belfry_transport_kick(t); /* kicked by the last pull, which gave nothing: ask again on the next turn */
    resume_broken(t);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct belfry_transport *t = poll->data;
    t->in_turn = true;
    if (status < 0)
        t->watched = 0; /* libuv saw EPOLLERR and stopped watching; the calls below find out what it is */
    if (t->state == TRANSPORT_CONNECTING) {
        transport_connected(t);
    } else {
        if (status < 0 || (events & UV_READABLE) != 0)
            transport_receive(t);
        if (is_open(t) && (status < 0 || (events & UV_WRITABLE) != 0)) {
            size_t sent = 0;
            t->blocked = false;
            if (t->state == TRANSPORT_UP)
                transport_flush(t);
            else if (!send_encrypted(t, &sent))
                fail_errno(t, errno);
        }
    }
    leave_turn(t);
}

static void on_idle(uv_idle_t *idle)
{
    struct belfry_transport *t = idle->data;
    uv_idle_stop(idle);
    t->in_turn = true;
    if (t->open_err != BELFRY_OK)
        transport_lose(t, t->open_err, belfry_strerror((int)t->open_err));
    else if (t->state == TRANSPORT_RESOLVING) {
        transport_enter(t, TRANSPORT_CONNECTING);
        transport_dial(t);
    } else if (t->state == TRANSPORT_UP && t->broken != 0) {
        lose_broken(t);
    }
    leave_turn(t);
}

static socklen_t address_len(const struct sockaddr_storage *address)
{
    switch (address->ss_family) {
    case AF_UNIX:
        return sizeof(struct sockaddr_un);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    default:
        return sizeof(struct sockaddr_in);
    }
}

/* Without them slower, or late to notice a dead peer; still right: whatever fails is no reason to give up. */
static void set_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},    {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 30},
        {IPPROTO_TCP, TCP_KEEPINTVL, 10}, {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

/* A socket that connects; -1: errno tells. */
static int start_connect(const struct sockaddr_storage *address)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (address->ss_family != AF_UNIX)
        set_options(fd);
    if (connect(fd, (const struct sockaddr *)address, address_len(address)) == 0 || errno == EINPROGRESS ||
        errno == EINTR)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* Tries the addresses that are left until a connection is under way. */
static void transport_dial(struct belfry_transport *t)
{
    assert(t->state == TRANSPORT_CONNECTING && !t->poll_open && t->fd < 0);
    int code = 0;
    while (t->next_address < t->n_addresses && t->fd < 0) {
        /* The address has its part of the time left. */
        uv_update_time(t->loop);
        uint64_t now_ms = uv_now(t->loop), left_ms = t->deadline_ms > now_ms ? t->deadline_ms - now_ms : 0;
        uv_timer_start(&t->timer, on_timer, left_ms / (t->n_addresses - t->next_address), 0);
        t->fd = start_connect(&t->addresses[t->next_address++]);
        code = errno;
    }
    if (t->fd < 0) {
        lose_errno(t, code);
        return;
    }
    code = uv_poll_init(t->loop, &t->poll, t->fd);
    if (code != 0) {
        lose_errno(t, -code);
        return;
    }
    t->poll.data = t;
    t->poll_open = true;
    t->n_handles++;
    transport_watch(t, UV_WRITABLE);
}

static void on_resolved(const struct belfry_dns_answer *answer, void *user)
{
    struct belfry_transport *t = user;
    t->query = NULL;
    if (answer->err != BELFRY_OK) {
        char why[400];
        snprintf(why, sizeof(why), "%s: %s", t->endpoint.host, answer->why);
        transport_lose(t, answer->err, why);
        return;
    }
    memcpy(t->addresses, answer->addresses, answer->n * sizeof(answer->addresses[0]));
    t->n_addresses = answer->n;
    transport_enter(t, TRANSPORT_CONNECTING);
    transport_dial(t);
}

enum belfry_err belfry_transport_open(const struct belfry_transport_opts *opts,
                                      const struct belfry_transport_events *events, void *user,
                                      struct belfry_transport **out)
{
    if ((opts->endpoint->tls && opts->tls == NULL) || opts->dial_timeout_ms == 0)
        return BELFRY_ERR_INVALID;
    struct belfry_transport *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return BELFRY_ERR_NOMEM;
    t->loop = opts->loop;
    t->endpoint = *opts->endpoint;
    t->tls = opts->tls;
    t->events = events;
    t->user = user;
    t->dial_timeout_ms = opts->dial_timeout_ms;
    t->fd = -1;
    uv_timer_init(t->loop, &t->timer);
    uv_idle_init(t->loop, &t->idle);
    t->timer.data = t->idle.data = t;
    t->n_handles = 2;

    /* Certificates may have been rotated. If they cannot be used, those that were read last serve on, and whoever owns
     * the context can ask it why. */
    char ignored[1];
    if (t->endpoint.tls)
        belfry_ignore(belfry_tls_refresh(t->tls, ignored, sizeof(ignored)));

    uv_update_time(t->loop); /* we are called outside a turn, too, when libuv's clock stands still */
    t->deadline_ms = uv_now(t->loop) + t->dial_timeout_ms;
    uv_timer_start(&t->timer, on_timer, t->dial_timeout_ms, 0);
    if (t->endpoint.is_unix) {
        struct sockaddr_un path = {.sun_family = AF_UNIX};
        snprintf(path.sun_path, sizeof(path.sun_path), "%.*s", (int)sizeof(path.sun_path) - 1, t->endpoint.host);
        memcpy(&t->addresses[0], &path, sizeof(path));
        t->n_addresses = 1;
    } else {
        t->open_err = belfry_dns_resolve(opts->dns, t->endpoint.host, t->endpoint.port, on_resolved, t, &t->query);
    }
    if (t->query == NULL)
        uv_idle_start(&t->idle, on_idle);
    BELFRY_OWNER_INIT(t);
    *out = t;
    return BELFRY_OK;
}

void belfry_transport_kick(struct belfry_transport *t)
{
    BELFRY_OWNER_CHECK(t);
    t->kicked = true;
    if (t->state == TRANSPORT_UP && !t->in_turn && !t->blocked)
        uv_idle_start(&t->idle, on_idle);
}

const char *belfry_transport_alpn(const struct belfry_transport *t)
{
    return t->conn != NULL ? belfry_tls_conn_alpn(t->conn) : "";
}

bool belfry_transport_has_name(const struct belfry_transport *t)
{
    return t->conn != NULL && belfry_tls_conn_has_name(t->conn);
}

bool belfry_transport_peer(const struct belfry_transport *t, struct belfry_tls_peer *out)
{
    return t->conn != NULL && belfry_tls_conn_peer(t->conn, out);
}

void belfry_transport_hold(struct belfry_transport *t, bool hold)
{
    BELFRY_OWNER_CHECK(t);
    if (t->held == hold)
        return;
    t->held = hold;
    if (t->in_turn)
        return; /* the end of the turn looks at it */
    transport_rewatch(t);
    resume_broken(t);
}

void belfry_transport_close(struct belfry_transport *t)
{
    if (t == NULL)
        return;
    BELFRY_OWNER_CHECK(t);
    drop_everything(t);
    transport_enter(t, TRANSPORT_CLOSED);
    uv_close((uv_handle_t *)&t->timer, on_handle_closed);
    uv_close((uv_handle_t *)&t->idle, on_handle_closed);
}
