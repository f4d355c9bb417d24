/* src/server/inbound.c */
#include "server/inbound.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "server/h1_server.h"
#include "server/h2_server.h"
#include "server/h2_teardown.h"
#include "server/inbound_probe.h"
#include "server/inbound_socket.h"
#include "server/inbound_wait.h"
#include "server/pace.h"
#include "server/proxy_head.h"

#define INPUT_BYTES    (64 * 1024)
#define PLAIN_BYTES    (16 * 1024) /* of one TLS record */
#define READ_LEAST     (2 * 1024)
#define READS_PER_TURN 4
#define READ_NS        500000 /* for one read with all that follows from it, and for a connection's reads of one turn */
#define TURN_NS        4000000 /* for the reads of one turn: of all connections, ... */
#define QUEUE_NS       2000000 /* ... and then of those that were put off */
#define ENOUGH         (64 * 1024)
#define ENOUGH_TLS     (32 * 1024)  /* and a frame: tls_conn takes at most 64 KiB unsent */
#define OUTPUT_KEPT    (256 * 1024) /* the group's buffer is not kept larger */
#define TICK_MS        500
#define PER_TICK       1024 /* connections that a tick visits, of each kind: about a millisecond */
#define LINGER_MS      2000
#define FLUSH_NS       1000000
#define PROBE_MS       15000
#define CHECK_NS       1000000 /* for the checks of one flush */

#define HTTP2_PREFACE "PRI * HTTP/2.0" /* RFC 9113, 3.4; no method of HTTP/1.1 begins like that */
#define HEAD_LATE     "belfry: a request's head was begun and not completed in time"
#define UNREAD        "belfry: memory is short, and what was sent here was not read in time"

struct inbound_group {
    /* fixed at creation */
    struct inbound_opts opts; /* with the defaults in it */
    uv_timer_t timer;
    uv_check_t check;    /* after the loop has polled: reads from those put off */
    uv_idle_t idle;      /* active while there are any, so that the loop does not block */
    uint64_t reading_ns; /* spent on reads since the last flush */
    uint64_t tick_at_ms; /* when the timer last fired */
    size_t n_handles;    /* of connections and the three, not closed yet; the last one frees the group */
    bool shut, destroyed;
    struct belfry_list conns;     /* in the order of their numbers */
    struct belfry_list shutting;  /* connections that were told to leave are here instead */
    struct belfry_list prompt;    /* of in_dirty: connections that sent a request; written to first */
    struct belfry_list dirty;     /* of in_dirty: other connections with something to write */
    struct belfry_list put_off;   /* of in_put_off: connections with input, which are read after the others */
    struct belfry_list expelled;  /* of in_expelled: to be flushed once more, or closed */
    struct belfry_list probed;    /* of in_probed: the next to be probed first */
    struct belfry_list checked;   /* of in_checked: connections with TLS, the next to be checked first */
    size_t n_checked, n_to_check; /* of these; how many of them are due now */
    size_t n_shutting;            /* connections that were told to leave */
    struct inbound_waits waits;
    struct h2_teardown teardown;
    struct shares shares;
    struct shares_alarm alarm;
    struct inbound_traffic traffic;
    size_t n_http1, n_http2, n_tls;
    struct inbound_stats stats; /* its counters */
    struct belfry_buf output;   /* all output passes through it */
    uint8_t *input, *plain;     /* bytes read, and decrypted; owned */
    BELFRY_OWNER;
};

/* PROXY_HEAD, from a balancer, comes before the first two:
 *     SNIFFING  \                                 LINGERING: everything was sent. Input is dropped for a while:
 *                 > HTTP1 | HTTP2 --> LINGERING              closing immediately could reset the connection before
 *     HANDSHAKE /         |              |                   the peer has read the end
 *         \_______________|______________|______> CLOSING: the handle's last callback frees
 */
enum inbound_state {
    INBOUND_PROXY_HEAD,
    INBOUND_SNIFFING,
    INBOUND_HANDSHAKE,
    INBOUND_HTTP1,
    INBOUND_HTTP2,
    INBOUND_LINGERING,
    INBOUND_CLOSING
};

struct inbound_conn {
    struct inbound_group *group;
    struct exchange_conn info;
    char *user; /* info's; owned */
    struct inbound_socket socket;
    struct belfry_tls *tls; /* lent; NULL: plain */
    uv_poll_t poll;
    uint64_t number;               /* its group counts the connections that it accepted */
    int read_bytes;                /* per read */
    enum inbound_state state;      /* moved by conn_move_to() alone */
    struct inbound_wait wait;      /* for the peer's next bytes: of any kind but UNREAD */
    struct inbound_wait unread;    /* UNREAD */
    uint64_t unread_from;          /* UNREAD: how many bytes had been sent when it began */
    int watched;                   /* events that `poll` waits for */
    bool input_ended;              /* the peer sends no more */
    bool last;                     /* the protocol was broken: what is unsent is the last */
    struct proxy_head *proxy_head; /* PROXY_HEAD only; owned */
    uint8_t n_sniffed;
    char sniffed[sizeof(HTTP2_PREFACE) - 1];
    struct h1_server *h1;             /* HTTP1 only */
    struct h2_server *h2;             /* HTTP2 only */
    struct h2_teardown_item teardown; /* of `h2`, when it has ended */
    unsigned holds;                   /* of `poll`, and of `teardown`: the last one frees */
    size_t counted;                   /* of SHARES_MEMORY; HTTP/2 counts its own */
    struct belfry_list in_group, in_dirty, in_probed, in_checked, in_expelled, in_put_off;
    uint64_t head_since_ms; /* of the head that is waited for (INBOUND_WAIT_HEAD) */
    uint64_t probe_at_ms;   /* while in the list of those probed */
    struct inbound_probe probe;
};

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_check(uv_check_t *check);
static void on_idle(uv_idle_t *idle);

/* ---- a connection's state, and what it waits for ---- */

static void conn_move_to(struct inbound_conn *c, enum inbound_state next)
{
    struct inbound_group *group = c->group;
    assert(next > c->state && !(c->state == INBOUND_HTTP1 && next == INBOUND_HTTP2));
    assert(next != INBOUND_HANDSHAKE || c->state == INBOUND_PROXY_HEAD);
    group->n_http1 += (next == INBOUND_HTTP1) - (c->state == INBOUND_HTTP1);
    group->n_http2 += (next == INBOUND_HTTP2) - (c->state == INBOUND_HTTP2);
    c->state = next;
}

static bool conn_speaks(const struct inbound_conn *c)
{
    return c->state == INBOUND_HTTP1 || c->state == INBOUND_HTTP2;
}

static void conn_make_dirty(struct inbound_conn *c)
{
    if (belfry_list_empty(&c->in_dirty))
        belfry_list_append(&c->group->dirty, &c->in_dirty);
}

static void conn_wait_for(struct inbound_conn *c, enum inbound_wait_kind what, uint64_t now_ms)
{
    inbound_wait_for(&c->group->waits, &c->wait, what, now_ms);
}

static bool conn_waits_for(const struct inbound_conn *c, enum inbound_wait_kind what)
{
    return c->wait.kind == what;
}

static void conn_probe_later(struct inbound_conn *c, uint64_t now_ms)
{
    if (!belfry_list_empty(&c->in_probed))
        return;
    c->probe_at_ms = now_ms + c->group->opts.probe_ms;
    belfry_list_append(&c->group->probed, &c->in_probed);
}

/* Its certificate is checked again from now on. */
static void conn_join_checked(struct inbound_conn *c)
{
    belfry_list_append(&c->group->checked, &c->in_checked);
    c->group->n_checked++;
}

static void conn_leave_checked(struct inbound_conn *c)
{
    if (belfry_list_empty(&c->in_checked))
        return;
    belfry_list_remove(&c->in_checked);
    c->group->n_checked--;
}

static void conn_set_address(struct inbound_conn *c, const struct client_address *address)
{
    c->info.address = *address;
    client_address_text(address, c->info.peer);
}

static void conn_log(const struct inbound_conn *c, enum belfry_log_level level, const char *event, const char *why)
{
    belfry_logf(c->group->opts.log, level, event, "peer=%s id=%llu why=\"%s\"", c->info.peer,
                (unsigned long long)c->info.id, why);
}

/* ---- HTTP/1.1 or HTTP/2 ---- */

static void on_wants_flush(void *user)
{
    conn_make_dirty(user);
}

/* A request's head is complete. */
static void on_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    struct inbound_conn *c = user;
    conn_wait_for(c, INBOUND_WAIT_NONE, 0);
    shares_work(&c->info.share, WORK_REQUESTS, 1);
    c->group->opts.begin(x, head, c->group->opts.user);
}

static enum belfry_err start_http1(struct inbound_conn *c)
{
    struct h1_server_opts opts = {
        .conn = &c->info, .begin = on_begin, .user = c, .wants_flush = on_wants_flush, .flush_user = c};
    enum belfry_err err = h1_server_create(&opts, &c->h1);
    if (err != BELFRY_OK)
        return err;
    c->info.http1 = true;
    conn_move_to(c, INBOUND_HTTP1);
    if (c->info.leaving)
        h1_server_shut(c->h1);
    return BELFRY_OK;
}

static enum belfry_err start_http2(struct inbound_conn *c)
{
    struct h2_server_opts opts = {.conn = &c->info,
                                  .begin = on_begin,
                                  .user = c,
                                  .max_streams = c->group->opts.max_streams,
                                  .wants_flush = on_wants_flush,
                                  .flush_user = c};
    enum belfry_err err = h2_server_create(&opts, &c->h2);
    if (err != BELFRY_OK)
        return err;
    conn_move_to(c, INBOUND_HTTP2);
    conn_make_dirty(c); /* our SETTINGS */
    if (c->info.leaving)
        h2_server_shut(c->h2);
    return BELFRY_OK;
}

static bool server_wants_write(const struct inbound_conn *c)
{
    return c->h1 != NULL ? h1_server_wants_write(c->h1) : h2_server_wants_write(c->h2);
}

static void server_hold(struct inbound_conn *c)
{
    if (c->h1 != NULL)
        h1_server_hold(c->h1);
    else if (c->h2 != NULL)
        h2_server_hold(c->h2);
}

static void server_unhold(struct inbound_conn *c)
{
    if (c->h1 != NULL)
        h1_server_unhold(c->h1);
    else if (h2_server_unhold(c->h2))
        conn_make_dirty(c); /* the next flush continues */
}

/* What the connection costs, but for what HTTP/2 counts itself. */
static void conn_count(struct inbound_conn *c)
{
    size_t cost = 0;
    if (c->state != INBOUND_CLOSING)
        cost = sizeof(*c) + inbound_socket_bytes(&c->socket) + (c->h1 != NULL ? h1_server_bytes(c->h1) : 0);
    shares_count(&c->info.share, SHARES_MEMORY, c->counted, cost);
    c->counted = cost;
}

/* ---- the end of a connection ---- */

static void group_release(struct inbound_group *group)
{
    if (--group->n_handles > 0)
        return;
    assert(group->destroyed);
    shares_fini(&group->shares);
    belfry_buf_fini(&group->output);
    free(group->input);
    free(group->plain);
    free(group);
}

static void conn_release(struct inbound_conn *c)
{
    if (--c->holds > 0)
        return;
    shares_leave(&c->info.share);
    group_release(c->group);
    free(c->proxy_head);
    free(c->user);
    free(c);
}

static void on_poll_closed(uv_handle_t *handle)
{
    conn_release(handle->data);
}

static void on_torn_down(struct h2_teardown_item *item)
{
    conn_release(belfry_container(item, struct inbound_conn, teardown));
}

static void server_destroy(struct inbound_conn *c)
{
    struct h1_server *h1 = c->h1;
    struct h2_server *h2 = c->h2;
    c->h1 = NULL;
    c->h2 = NULL;
    shares_end(&c->info.share);
    h1_server_destroy(h1);
    if (h2 != NULL && !h2_teardown_begin(&c->group->teardown, h2, &c->teardown, on_torn_down))
        c->holds++;
}

/* Immediate; exchanges receive `gone`. Not from inside an event. */
static void conn_close(struct inbound_conn *c)
{
    struct inbound_group *group = c->group;
    if (c->state == INBOUND_CLOSING)
        return;
    inbound_socket_say_goodbye(&c->socket, conn_speaks(c) ? INBOUND_GOODBYE : INBOUND_ALERT_ONLY);
    conn_move_to(c, INBOUND_CLOSING);
    conn_count(c);
    shares_count(&c->info.share, SHARES_CONNECTIONS, 1, 0);
    server_destroy(c);
    conn_wait_for(c, INBOUND_WAIT_NONE, 0);
    inbound_wait_for(&group->waits, &c->unread, INBOUND_WAIT_NONE, 0);
    belfry_list_remove(&c->in_dirty);
    belfry_list_remove(&c->in_probed);
    conn_leave_checked(c);
    belfry_list_remove(&c->in_group);
    belfry_list_remove(&c->in_expelled);
    belfry_list_remove(&c->in_put_off);
    group->n_tls -= c->info.tls;
    group->n_shutting -= c->info.leaving;
    group->stats.connections--;
    group->stats.closed++;
    uv_close((uv_handle_t *)&c->poll, on_poll_closed);
    inbound_socket_close(&c->socket);
}

/* Everything was sent. */
static void conn_linger(struct inbound_conn *c, uint64_t now_ms)
{
    if (c->input_ended) {
        conn_close(c);
        return;
    }
    inbound_socket_say_goodbye(&c->socket, INBOUND_GOODBYE);
    shutdown(c->socket.fd, SHUT_WR);
    conn_move_to(c, INBOUND_LINGERING);
    conn_leave_checked(c);
    server_destroy(c);
    belfry_list_remove(&c->in_dirty);
    conn_wait_for(c, INBOUND_WAIT_LINGER, now_ms);
}

/* ---- after every event ---- */

static bool conn_wants_read(const struct inbound_conn *c)
{
    if (c->state == INBOUND_LINGERING)
        return true;
    if (c->input_ended || c->last)
        return false;
    if (c->state == INBOUND_HTTP2)
        return h2_server_wants_read(c->h2);
    return c->state != INBOUND_HTTP1 || h1_server_wants_read(c->h1);
}

/* uv_poll_start() costs two system calls, so it is called only when the events change. A socket that is not polled
 * cannot report that its peer is gone: it is probed from time to time. */
static void conn_poll(struct inbound_conn *c, uint64_t now_ms)
{
    bool reads = conn_wants_read(c) && belfry_list_empty(&c->in_put_off);
    int events = (reads ? UV_READABLE : 0) | (c->socket.full ? UV_WRITABLE : 0);
    if (events == c->watched)
        return;
    c->watched = events;
    if (events == 0) {
        uv_poll_stop(&c->poll);
        conn_probe_later(c, now_ms);
        return;
    }
    int code = uv_poll_start(&c->poll, events, on_poll);
    assert(code == 0); /* it only fails for a descriptor that is not open */
    (void)code;
}

static bool conn_is_over(const struct inbound_conn *c)
{
    if (!conn_speaks(c) || c->socket.full)
        return false;
    return c->last ? !server_wants_write(c) : c->h1 != NULL && h1_server_over(c->h1);
}

static void wait_for_http1_request(struct inbound_conn *c, uint64_t now_ms)
{
    bool none = conn_waits_for(c, INBOUND_WAIT_NONE);
    if ((none || conn_waits_for(c, INBOUND_WAIT_IDLE)) && h1_server_in_head(c->h1))
        conn_wait_for(c, INBOUND_WAIT_HEAD, now_ms);
    else if (none && !c->socket.full && h1_server_open(c->h1) == 0)
        conn_wait_for(c, INBOUND_WAIT_IDLE, now_ms);
}

static void wait_for_http2_request(struct inbound_conn *c, uint64_t now_ms)
{
    bool none = conn_waits_for(c, INBOUND_WAIT_NONE);
    if (c->socket.full || h2_server_open(c->h2) > 0)
        return;
    if (c->info.leaving && (none || conn_waits_for(c, INBOUND_WAIT_IDLE_HTTP2)))
        conn_wait_for(c, INBOUND_WAIT_LINGER, now_ms);
    else if (none)
        conn_wait_for(c, INBOUND_WAIT_IDLE_HTTP2, now_ms);
}

/* The peer has time again with each PACE_BYTES that it takes. One stream that is not read is no sign: its watch is
 * parked, and costs no more than its room. */
static void conn_wait_for_reader(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_waits *waits = &c->group->waits;
    bool waits_now = c->socket.full || (c->h2 != NULL && h2_server_bytes(c->h2) > EXCHANGE_ROOM);
    if (!waits_now) {
        inbound_wait_for(waits, &c->unread, INBOUND_WAIT_NONE, 0);
    } else if (c->unread.kind == INBOUND_WAIT_NONE || c->socket.sent - c->unread_from >= PACE_BYTES) {
        c->unread_from = c->socket.sent;
        inbound_wait_for(waits, &c->unread, INBOUND_WAIT_UNREAD, now_ms);
    }
}

static void conn_settle(struct inbound_conn *c, uint64_t now_ms)
{
    if (conn_is_over(c))
        conn_linger(c, now_ms);
    if (c->state == INBOUND_CLOSING)
        return;
    conn_count(c);
    if (c->h1 != NULL)
        wait_for_http1_request(c, now_ms);
    else if (c->h2 != NULL)
        wait_for_http2_request(c, now_ms);
    conn_wait_for_reader(c, now_ms);
    conn_poll(c, now_ms);
}

/* ---- writing ---- */

/* The protocol was broken: the server's last output is still sent, and nothing more is read. */
static void conn_break_off(struct inbound_conn *c, enum belfry_err err)
{
    if (c->last)
        return;
    enum h2_server_fault fault = c->h2 != NULL ? h2_server_fault(c->h2) : H2_SERVER_BREACH;
    if (fault == H2_SERVER_BREACH)
        conn_log(c, BELFRY_LOG_DEBUG, "connection_refused", belfry_strerror((int)err));
    c->group->stats.refused_floods += c->h2 != NULL && fault == H2_SERVER_BREACH;
    c->last = true;
    conn_make_dirty(c);
}

/* Writes that have been made since, which are this connection's. */
static void conn_count_writes(struct inbound_conn *c, const struct inbound_traffic *since)
{
    shares_work(&c->info.share, WORK_IO, c->group->traffic.writes - since->writes);
    shares_work(&c->info.share, WORK_BYTES_OUT, c->group->traffic.bytes_out - since->bytes_out);
}

static bool conn_write(struct inbound_conn *c, struct belfry_bytes bytes)
{
    struct inbound_traffic before = c->group->traffic;
    bool fine = inbound_socket_write(&c->socket, bytes);
    conn_count_writes(c, &before);
    return fine;
}

static bool conn_send_rest(struct inbound_conn *c)
{
    struct inbound_traffic before = c->group->traffic;
    bool fine = inbound_socket_flush(&c->socket);
    conn_count_writes(c, &before);
    return fine;
}

/* Pulls through the group's buffer and writes once. False: the connection is lost, or there is no memory. */
static bool pull_and_write(struct inbound_conn *c)
{
    struct belfry_buf *out = &c->group->output;
    size_t enough = c->socket.tls != NULL ? ENOUGH_TLS : ENOUGH;
    enum belfry_err err = c->h1 != NULL ? h1_server_pull(c->h1, enough, out) : h2_server_pull(c->h2, enough, out);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOMEM)
        conn_break_off(c, err); /* a GOAWAY may have been pulled */
    bool fine = err != BELFRY_ERR_NOMEM;
    if (fine && belfry_buf_len(out) > 0)
        fine = conn_write(c, belfry_buf_bytes(out));
    belfry_buf_clear(out);
    if (out->cap > OUTPUT_KEPT)
        belfry_buf_fini(out);
    return fine;
}

static void flush_server(struct inbound_conn *c)
{
    if (!pull_and_write(c)) {
        conn_close(c);
        return;
    }
    if (c->socket.full) {
        server_hold(c);
        return;
    }
    if (!c->last)
        server_unhold(c);
    if (server_wants_write(c))
        conn_make_dirty(c);
}

/* One pull and one write. */
static void conn_flush(struct inbound_conn *c, uint64_t now_ms)
{
    if (c->socket.full) /* the poll reports when it is not */
        return;
    if (!conn_send_rest(c)) {
        conn_close(c);
        return;
    }
    if (c->socket.full)
        server_hold(c);
    else if (conn_speaks(c))
        flush_server(c);
    if (c->state == INBOUND_CLOSING)
        return;
    conn_probe_later(c, now_ms);
    conn_settle(c, now_ms);
}

/* The owner flushes before its loop blocks, so the output of a turn goes out together. */
static void conn_on_writable(struct inbound_conn *c)
{
    if (!conn_send_rest(c)) {
        conn_close(c);
        return;
    }
    if (c->socket.full || !conn_speaks(c))
        return;
    if (!c->last)
        server_unhold(c);
    conn_make_dirty(c);
}

/* ---- reading ---- */

/* An answer does not wait behind ten thousand connections that receive an event. */
static void answer_promptly(struct inbound_conn *c)
{
    if (belfry_list_empty(&c->in_dirty))
        return;
    belfry_list_remove(&c->in_dirty);
    belfry_list_append(&c->group->prompt, &c->in_dirty);
}

/* The time of each head runs from its first byte: bytes that trickle in do not extend it. */
static void wait_for_http2_head(struct inbound_conn *c, uint64_t now_ms)
{
    uint64_t since_ms = h2_server_head_since(c->h2);
    if (since_ms == 0 && conn_waits_for(c, INBOUND_WAIT_HEAD))
        conn_wait_for(c, INBOUND_WAIT_NONE, 0);
    bool is_new = conn_waits_for(c, INBOUND_WAIT_NONE) || conn_waits_for(c, INBOUND_WAIT_IDLE_HTTP2) ||
                  (conn_waits_for(c, INBOUND_WAIT_HEAD) && c->head_since_ms != since_ms);
    if (since_ms == 0 || !is_new)
        return;
    c->head_since_ms = since_ms;
    conn_wait_for(c, INBOUND_WAIT_HEAD, now_ms);
}

static void server_receive(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    enum belfry_err err = c->h1 != NULL ? h1_server_receive(c->h1, bytes) : h2_server_receive(c->h2, bytes, now_ms);
    answer_promptly(c);
    if (err == BELFRY_ERR_NOMEM) {
        conn_close(c);
        return;
    }
    if (err != BELFRY_OK) {
        conn_break_off(c, err);
        return;
    }
    if (c->h2 != NULL) {
        if (conn_waits_for(c, INBOUND_WAIT_GREETING) && h2_server_greeted(c->h2)) /* from now on it may be idle */
            conn_wait_for(c, INBOUND_WAIT_NONE, 0);
        wait_for_http2_head(c, now_ms);
    }
    if (!c->socket.full)
        server_unhold(c);
    if (conn_is_over(c))
        conn_make_dirty(c);
}

/* Decides as soon as a byte differs or the preface is complete, and passes on the bytes that were kept meanwhile. */
static void sniff_protocol(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    static const char wanted[] = HTTP2_PREFACE;
    bool same = true;
    while (same && bytes.len > 0 && c->n_sniffed < sizeof(c->sniffed)) {
        same = bytes.data[0] == wanted[c->n_sniffed];
        c->sniffed[c->n_sniffed++] = bytes.data[0];
        bytes = belfry_bytes_of(bytes.data + 1, bytes.len - 1);
    }
    if (same && c->n_sniffed < sizeof(c->sniffed))
        return;
    if ((same ? start_http2(c) : start_http1(c)) != BELFRY_OK) {
        conn_close(c);
        return;
    }
    server_receive(c, belfry_bytes_of(c->sniffed, c->n_sniffed), now_ms);
    if (conn_speaks(c) && !c->last && bytes.len > 0)
        server_receive(c, bytes, now_ms);
}

/* Exchanges outlive the TLS connection for a moment, so the name is copied. What the connection holds counts to that
 * user from now on. */
static enum belfry_err conn_take_user(struct inbound_conn *c, const char *user)
{
    const struct inbound_opts *opts = &c->group->opts;
    if (user[0] == '\0')
        return BELFRY_OK;
    c->info.user = c->user = strdup(user);
    if (c->user == NULL)
        return BELFRY_ERR_NOMEM;
    bool is_tier = opts->is_tier != NULL && opts->is_tier(c->info.policy, user);
    char name[SHARES_NAME_BYTES];
    snprintf(name, sizeof(name), "%s \"%s\"", is_tier ? "tier" : "user", user);
    return shares_move(&c->info.share, is_tier ? SHARES_BELOW : SHARES_CLIENT, name);
}

static void continue_handshake(struct inbound_conn *c, uint64_t now_ms)
{
    struct belfry_tls_conn *tls = c->socket.tls;
    enum belfry_err err = belfry_tls_conn_handshake(tls);
    if (inbound_socket_has_output(&c->socket))
        conn_make_dirty(c);
    if (err == BELFRY_ERR_AGAIN)
        return;
    if (err == BELFRY_OK) {
        conn_wait_for(c, INBOUND_WAIT_GREETING, now_ms);
        err = conn_take_user(c, belfry_tls_conn_user(tls));
        if (err == BELFRY_OK)
            err = strcmp(belfry_tls_conn_alpn(tls), "h2") == 0 ? start_http2(c) : start_http1(c);
    }
    shares_work(&c->info.share, WORK_HANDSHAKES, 1);
    if (err == BELFRY_OK) {
        c->group->stats.resumed_handshakes += belfry_tls_conn_is_resumed(tls);
        c->group->stats.full_handshakes += !belfry_tls_conn_is_resumed(tls);
        conn_join_checked(c);
        return;
    }
    enum belfry_log_level level =
        belfry_log_is_due(++c->group->stats.refused_handshakes) ? BELFRY_LOG_WARN : BELFRY_LOG_DEBUG;
    conn_log(c, level, "handshake_failed",
             err == BELFRY_ERR_TLS ? belfry_tls_conn_why(tls) : belfry_strerror((int)err));
    conn_close(c);
}

static void conn_on_input_end(struct inbound_conn *c)
{
    c->input_ended = true;
    if (c->state != INBOUND_HTTP1) {
        conn_close(c);
        return;
    }
    h1_server_input_ended(c->h1);
    conn_make_dirty(c);
}

/* Uses all bytes, because they are lent. The peer's goodbye ends its input. */
static void conn_decrypt(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    belfry_tls_conn_feed(c->socket.tls, bytes);
    if (c->state == INBOUND_HANDSHAKE)
        continue_handshake(c, now_ms);
    while (conn_speaks(c) && !c->last) {
        size_t n;
        enum belfry_err err = belfry_tls_conn_read(c->socket.tls, c->group->plain, PLAIN_BYTES, &n);
        if (err == BELFRY_OK) {
            server_receive(c, belfry_bytes_of(c->group->plain, n), now_ms);
            continue;
        }
        if (err == BELFRY_ERR_UNAVAILABLE)
            conn_on_input_end(c);
        else if (err != BELFRY_ERR_AGAIN)
            conn_close(c);
        break;
    }
    if (conn_speaks(c) && inbound_socket_has_output(&c->socket))
        conn_make_dirty(c);
}

/* The balancer names its client, who is the one that holds this connection. False: it may hold no more. */
static bool conn_take_address(struct inbound_conn *c, const struct client_address *address)
{
    char name[CLIENT_ADDRESS_TEXT];
    conn_set_address(c, address);
    client_address_name(address, name);
    if (shares_move(&c->info.share, SHARES_CLIENT, name) == BELFRY_OK)
        return true;
    c->group->stats.refused_connections++;
    return false;
}

/* Passes over the head. False: it is not whole, or it was refused. */
static bool pass_proxy_head(struct inbound_conn *c, struct belfry_bytes *bytes, uint64_t now_ms)
{
    enum belfry_err err = proxy_head_read(c->proxy_head, bytes);
    if (err == BELFRY_ERR_AGAIN)
        return false;
    if (err != BELFRY_OK) {
        bool due = belfry_log_is_due(++c->group->stats.refused_heads);
        conn_log(c, due ? BELFRY_LOG_WARN : BELFRY_LOG_DEBUG, "proxy_head_refused", c->proxy_head->why);
        conn_close(c);
        return false;
    }
    if (c->proxy_head->client.family != CLIENT_UNKNOWN && !conn_take_address(c, &c->proxy_head->client)) {
        conn_close(c);
        return false;
    }
    free(c->proxy_head);
    c->proxy_head = NULL;
    conn_move_to(c, c->tls != NULL ? INBOUND_HANDSHAKE : INBOUND_SNIFFING);
    conn_wait_for(c, c->tls != NULL ? INBOUND_WAIT_HANDSHAKE : INBOUND_WAIT_GREETING, now_ms);
    return bytes->len > 0;
}

static void conn_receive(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    if (c->state == INBOUND_LINGERING || (c->state == INBOUND_PROXY_HEAD && !pass_proxy_head(c, &bytes, now_ms)))
        return;
    if (c->socket.tls != NULL)
        conn_decrypt(c, bytes, now_ms);
    else if (c->state == INBOUND_SNIFFING)
        sniff_protocol(c, bytes, now_ms);
    else
        server_receive(c, bytes, now_ms);
}

/* A few bytes may be a request, and sixty thousand a part of one: the size of a read follows how long the last took. */
static void adapt_read_bytes(struct inbound_conn *c, uint64_t took_ns)
{
    if (took_ns > READ_NS)
        c->read_bytes = c->read_bytes / 2 > READ_LEAST ? c->read_bytes / 2 : READ_LEAST;
    else if (took_ns < READ_NS / 4 && c->read_bytes < INPUT_BYTES)
        c->read_bytes *= 2;
}

/* It is read again after others, and not polled before that. */
static void conn_put_off(struct inbound_conn *c)
{
    struct inbound_group *group = c->group;
    if (!belfry_list_empty(&c->in_put_off))
        return;
    belfry_list_append(&group->put_off, &c->in_put_off);
    uv_check_start(&group->check, on_check);
    uv_idle_start(&group->idle, on_idle);
}

static void conn_read(struct inbound_conn *c, uint64_t began, uint64_t now_ms)
{
    uint64_t last = began;
    for (int i = 0; i < READS_PER_TURN && c->state != INBOUND_CLOSING && conn_wants_read(c); i++) {
        ssize_t most = c->read_bytes, n = recv(c->socket.fd, c->group->input, (size_t)most, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        if (n < 0) {
            conn_close(c);
            return;
        }
        if (n == 0) {
            conn_on_input_end(c);
            return;
        }
        c->group->traffic.bytes_in += (uint64_t)n;
        shares_work(&c->info.share, WORK_IO, 1);
        shares_work(&c->info.share, WORK_BYTES_IN, (uint64_t)n);
        conn_receive(c, belfry_bytes_of(c->group->input, (size_t)n), now_ms);
        uint64_t now = uv_hrtime();
        adapt_read_bytes(c, now - last);
        last = now;
        if (n < most || now - began > READ_NS)
            return; /* most likely there is no more; if there is, the poll reports it */
    }
}

/* A connection that has used its time, or keeps input that would take more, is put off. */
static void conn_on_readable(struct inbound_conn *c, uint64_t now_ms)
{
    uint64_t began = uv_hrtime();
    if (c->h2 != NULL && h2_server_is_behind(c->h2))
        server_receive(c, (struct belfry_bytes){0}, now_ms);
    else
        conn_read(c, began, now_ms);
    uint64_t took = uv_hrtime() - began;
    c->group->reading_ns += took;
    if (c->state != INBOUND_CLOSING && (took > READ_NS || (c->h2 != NULL && h2_server_is_behind(c->h2))))
        conn_put_off(c);
}

static void on_check(uv_check_t *check)
{
    struct inbound_group *group = check->data;
    struct belfry_list turn, *node;
    uint64_t now_ms = belfry_clock_ms(), until = uv_hrtime() + QUEUE_NS;
    belfry_list_init(&turn);
    belfry_list_move_all(&turn, &group->put_off);
    while (uv_hrtime() < until && (node = belfry_list_pop(&turn)) != NULL) {
        struct inbound_conn *c = belfry_container(node, struct inbound_conn, in_put_off);
        conn_on_readable(c, now_ms);
        if (c->state != INBOUND_CLOSING)
            conn_settle(c, now_ms);
    }
    belfry_list_move_all(&turn, &group->put_off); /* those without a turn yet come first */
    belfry_list_move_all(&group->put_off, &turn);
    if (!belfry_list_empty(&group->put_off))
        return;
    uv_check_stop(&group->check);
    uv_idle_stop(&group->idle);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* its being there is all */
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct inbound_conn *c = poll->data;
    uint64_t now_ms = belfry_clock_ms();
    if (status < 0) {
        conn_close(c);
        return;
    }
    if ((events & UV_WRITABLE) != 0 && c->socket.full)
        conn_on_writable(c);
    if ((events & UV_READABLE) != 0 && c->state != INBOUND_CLOSING) {
        if (c->group->reading_ns < TURN_NS && belfry_list_empty(&c->in_put_off))
            conn_on_readable(c, now_ms);
        else
            conn_put_off(c);
    }
    if (c->state != INBOUND_CLOSING)
        conn_settle(c, now_ms);
}

/* ---- accepting ---- */

/* What is expected first. False: there is no memory. */
static bool conn_begin(struct inbound_conn *c, const struct client_networks *proxies)
{
    c->state = c->tls != NULL ? INBOUND_HANDSHAKE : INBOUND_SNIFFING;
    if (proxies == NULL || !client_address_in_any(&c->info.address, proxies))
        return true;
    c->state = INBOUND_PROXY_HEAD;
    c->proxy_head = calloc(1, sizeof(*c->proxy_head));
    return c->proxy_head != NULL;
}

/* It has not joined the group. */
static void conn_discard(struct inbound_conn *c)
{
    shares_leave(&c->info.share);
    free(c->proxy_head);
    free(c);
}

static struct inbound_conn *conn_create(struct inbound_group *group, const struct inbound_arrival *arrival)
{
    static atomic_uint_fast64_t next_id = 1;
    struct inbound_conn *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->group = group;
    c->read_bytes = INPUT_BYTES / 4;
    inbound_wait_init(&c->wait);
    inbound_wait_init(&c->unread);
    c->info.id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
    c->info.policy = arrival->policy;
    c->tls = arrival->tls;
    c->info.tls = arrival->tls != NULL;
    conn_set_address(c, &arrival->peer);
    belfry_list_init(&c->in_group);
    belfry_list_init(&c->in_dirty);
    belfry_list_init(&c->in_probed);
    belfry_list_init(&c->in_checked);
    belfry_list_init(&c->in_expelled);
    belfry_list_init(&c->in_put_off);
    c->holds = 1;
    char name[CLIENT_ADDRESS_TEXT];
    client_address_name(&c->info.address, name);
    if (shares_join(&group->shares, &c->info.share, SHARES_CLIENT, name) == BELFRY_OK &&
        conn_begin(c, arrival->proxies))
        return c;
    conn_discard(c);
    return NULL;
}

static void conn_join_group(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_group *group = c->group;
    group->n_handles++;
    group->n_tls += c->info.tls;
    group->stats.connections++;
    shares_count(&c->info.share, SHARES_CONNECTIONS, 0, 1);
    c->number = ++group->stats.accepted;
    c->info.leaving = group->shut;
    group->n_shutting += group->shut;
    belfry_list_append(group->shut ? &group->shutting : &group->conns, &c->in_group);
    conn_wait_for(c, c->state == INBOUND_HANDSHAKE ? INBOUND_WAIT_HANDSHAKE : INBOUND_WAIT_GREETING, now_ms);
    conn_count(c);
    conn_poll(c, now_ms);
}

static bool conn_has_room(struct inbound_conn *c)
{
    return shares_make_room(&c->info.share, SHARES_CONNECTIONS, 1) &&
           shares_make_room(&c->info.share, SHARES_MEMORY, sizeof(*c) + H2_SERVER_CONN);
}

enum belfry_err inbound_accept(struct inbound_group *group, const struct inbound_arrival *arrival, uint64_t now_ms)
{
    int fd = arrival->fd;
    BELFRY_OWNER_CHECK(group);
    struct inbound_conn *c = conn_create(group, arrival);
    if (c == NULL) {
        close(fd);
        return BELFRY_ERR_NOMEM;
    }
    if (!conn_has_room(c)) {
        group->stats.refused_connections++;
        conn_discard(c);
        close(fd);
        return BELFRY_ERR_LIMIT;
    }
    enum belfry_err err = inbound_socket_open(&c->socket, fd, c->tls, group->opts.sndbuf, &group->traffic);
    if (err == BELFRY_OK && uv_poll_init(group->opts.loop, &c->poll, fd) != 0) { /* makes it non-blocking */
        inbound_socket_close(&c->socket);
        err = BELFRY_ERR_IO;
    }
    if (err != BELFRY_OK) {
        conn_discard(c);
        return err;
    }
    c->poll.data = c;
    conn_join_group(c, now_ms);
    return BELFRY_OK;
}

/* ---- ending who holds most ---- */

/* From inside anything. */
static void on_yield(struct shares_conn *share, enum shares_pool pool, void *user)
{
    struct inbound_group *group = user;
    struct exchange_conn *info = belfry_container(share, struct exchange_conn, share);
    struct inbound_conn *c = belfry_container(info, struct inbound_conn, info);
    char why[400];
    int n = snprintf(why, sizeof(why), "belfry: room was needed for %s, of which %s holds %zu on this connection",
                     shares_pool_name(pool), shares_name(share), share->held[pool]);
    if (share->unfinished >= SHARES_UNFINISHED && n > 0 && (size_t)n < sizeof(why))
        snprintf(why + n, sizeof(why) - (size_t)n, ", %zu bytes of unfinished requests", share->unfinished);
    if (belfry_log_is_due(++group->stats.ended_largest))
        conn_log(c, BELFRY_LOG_WARN, "connection_expelled", why);
    if (c->state == INBOUND_HTTP2)
        h2_server_expel(c->h2, why);
    belfry_list_append(&group->expelled, &c->in_expelled);
}

/* One try to send the reason to the peer. */
static void conn_finish_expelled(struct inbound_conn *c, uint64_t now_ms)
{
    belfry_list_remove(&c->in_dirty);
    if (c->state == INBOUND_HTTP2)
        conn_flush(c, now_ms);
    if (c->state < INBOUND_LINGERING)
        conn_close(c); /* it does not speak HTTP/2, or its socket is full */
}

/* ---- client certificates ---- */

static void conn_end_uncertified(struct inbound_conn *c, const char *why, uint64_t now_ms)
{
    struct inbound_group *group = c->group;
    char text[400];
    snprintf(text, sizeof(text), "belfry: %s", why);
    if (belfry_log_is_due(++group->stats.ended_certificates))
        belfry_logf(group->opts.log, BELFRY_LOG_WARN, "certificate_ended",
                    "peer=%s id=%llu user=\"%s\" n=%llu why=\"%s\"", c->info.peer, (unsigned long long)c->info.id,
                    c->user != NULL ? c->user : "", (unsigned long long)group->stats.ended_certificates, why);
    if (c->state != INBOUND_HTTP2) {
        conn_close(c);
        return;
    }
    h2_server_expel(c->h2, text);
    conn_finish_expelled(c, now_ms);
}

/* Without memory a certificate cannot be checked, so its connection ends. */
static void conn_check_certificate(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_group *group = c->group;
    belfry_list_remove(&c->in_checked);
    belfry_list_append(&group->checked, &c->in_checked);
    int64_t now_s = group->opts.unix_s != NULL ? group->opts.unix_s() : (int64_t)time(NULL);
    enum belfry_err err = belfry_tls_conn_recheck(c->socket.tls, c->tls, now_s);
    if (err != BELFRY_OK)
        conn_end_uncertified(c, err == BELFRY_ERR_TLS ? belfry_tls_conn_why(c->socket.tls) : belfry_strerror((int)err),
                             now_ms);
}

/* Each connection is due once in half of check_ms. A certificate that has to be verified again takes about 300 us,
 * so the checks of a tick are spread over several flushes. True: there are more. */
static bool check_some(struct inbound_group *group, uint64_t now_ms)
{
    uint64_t until = group->n_to_check > 0 ? uv_hrtime() + CHECK_NS : 0;
    for (; group->n_to_check > 0 && !belfry_list_empty(&group->checked); group->n_to_check--) {
        if (uv_hrtime() >= until)
            return true;
        conn_check_certificate(belfry_container(group->checked.next, struct inbound_conn, in_checked), now_ms);
    }
    group->n_to_check = 0;
    return false;
}

/* Those that were due before and have had no turn are still first. */
static void plan_checks(struct inbound_group *group, uint64_t passed_ms)
{
    uint64_t half_ms = group->opts.check_ms / 2 + 1;
    size_t more = (group->n_checked * passed_ms + half_ms - 1) / half_ms;
    group->n_to_check += more;
    if (group->n_to_check > group->n_checked)
        group->n_to_check = group->n_checked;
}

/* ---- time ---- */

/* HTTP/2 peers read the reason in a GOAWAY. */
static void conn_end_late(struct inbound_conn *c, const char *why, uint64_t now_ms)
{
    conn_log(c, BELFRY_LOG_DEBUG, "connection_late", why);
    if (c->state != INBOUND_HTTP2) {
        conn_close(c);
        return;
    }
    h2_server_expel(c->h2, why);
    conn_finish_expelled(c, now_ms);
}

/* Peers reconnect if they need to. */
static void conn_tell_to_leave(struct inbound_conn *c)
{
    belfry_list_remove(&c->in_group);
    belfry_list_append(&c->group->shutting, &c->in_group);
    c->info.leaving = true;
    c->group->n_shutting++;
    if (c->h1 != NULL)
        h1_server_shut(c->h1);
    if (c->h2 != NULL)
        h2_server_shut(c->h2);
    conn_make_dirty(c);
}

static void conn_time_is_up(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_stats *stats = &c->group->stats;
    switch (c->wait.kind) {
    case INBOUND_WAIT_GREETING:
        stats->ended_greetings++;
        conn_close(c);
        return;
    case INBOUND_WAIT_HANDSHAKE:
        stats->ended_handshakes++;
        conn_close(c);
        return;
    case INBOUND_WAIT_HEAD:
        stats->ended_heads++;
        conn_end_late(c, HEAD_LATE, now_ms);
        return;
    case INBOUND_WAIT_IDLE_HTTP2:
        stats->ended_idle++;
        conn_wait_for(c, INBOUND_WAIT_NONE, now_ms);
        conn_tell_to_leave(c);
        return;
    case INBOUND_WAIT_LINGER:
        if (c->state == INBOUND_HTTP2) /* it was shut, and had time to answer */
            conn_linger(c, now_ms);
        else
            conn_close(c);
        return;
    case INBOUND_WAIT_IDLE:
        stats->ended_idle++;
        conn_close(c);
        return;
    case INBOUND_WAIT_UNREAD:
    case INBOUND_N_WAITS:
    case INBOUND_WAIT_NONE:
        assert(false);
    }
}

static void end_late(struct inbound_group *group, enum inbound_wait_kind kind, size_t most, uint64_t now_ms)
{
    struct inbound_wait *wait;
    for (; most > 0 && (wait = inbound_waits_due(&group->waits, kind, now_ms)) != NULL; most--)
        conn_time_is_up(belfry_container(wait, struct inbound_conn, wait), now_ms);
}

/* How many connections there are over half of their bound, those that were told to leave not counted. */
static size_t excess_connections(const struct inbound_group *group)
{
    size_t half = group->shares.limits.total[SHARES_CONNECTIONS] / 2;
    size_t stay = group->stats.connections - group->n_shutting;
    return half > 0 && stay > half ? stay - half : 0;
}

static bool memory_is_short(const struct inbound_group *group)
{
    size_t most = group->shares.limits.total[SHARES_MEMORY];
    return most != 0 && group->shares.pools[SHARES_MEMORY].used > most / 4 * 3;
}

static void end_unread(struct inbound_group *group, uint64_t now_ms)
{
    struct inbound_wait *wait;
    for (int i = 0; i < PER_TICK && memory_is_short(group); i++) {
        if ((wait = inbound_waits_due(&group->waits, INBOUND_WAIT_UNREAD, now_ms)) == NULL)
            return;
        group->stats.ended_unread++;
        conn_end_late(belfry_container(wait, struct inbound_conn, unread), UNREAD, now_ms);
    }
}

static void end_all_late(struct inbound_group *group, uint64_t now_ms)
{
    static const enum inbound_wait_kind always[] = {INBOUND_WAIT_GREETING, INBOUND_WAIT_HANDSHAKE, INBOUND_WAIT_HEAD,
                                                    INBOUND_WAIT_IDLE, INBOUND_WAIT_LINGER};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        end_late(group, always[i], PER_TICK, now_ms);
    size_t excess = excess_connections(group);
    end_late(group, INBOUND_WAIT_IDLE_HTTP2, excess < PER_TICK ? excess : PER_TICK, now_ms);
    end_unread(group, now_ms);
}

static void conn_probe(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_group *group = c->group;
    struct inbound_probe_info info;
    belfry_list_remove(&c->in_probed);
    inbound_probe_ask(c->socket.fd, &info);
    switch (inbound_probe_judge(&c->probe, &info, now_ms, group->opts.dead_ms)) {
    case INBOUND_CLEAR:
        if (c->socket.full || c->watched == 0)
            conn_probe_later(c, now_ms);
        break;
    case INBOUND_WAITING:
        conn_probe_later(c, now_ms);
        break;
    case INBOUND_DEAD:
        belfry_logf(group->opts.log, BELFRY_LOG_DEBUG, "connection_dead", "peer=%s id=%llu", c->info.peer,
                    (unsigned long long)c->info.id);
        group->stats.dead++;
        conn_close(c);
        break;
    }
}

static void probe_some(struct inbound_group *group, uint64_t now_ms)
{
    for (int i = 0; i < PER_TICK && !belfry_list_empty(&group->probed); i++) {
        struct inbound_conn *c = belfry_container(group->probed.next, struct inbound_conn, in_probed);
        if (c->probe_at_ms > now_ms)
            return;
        conn_probe(c, now_ms);
    }
}

/* After a gap (the process was stopped, the machine asleep) timers come before sockets: no connection is judged before
 * its input has been read. */
static void on_tick(uv_timer_t *timer)
{
    struct inbound_group *group = timer->data;
    uint64_t now_ms = belfry_clock_ms(), last_ms = group->tick_at_ms;
    group->tick_at_ms = now_ms;
    plan_checks(group, now_ms - last_ms);
    shares_tick(&group->shares, now_ms);
    shares_alarm_look(&group->alarm, &group->shares, now_ms, group->opts.log);
    if (now_ms - last_ms > 4 * TICK_MS)
        return;
    end_all_late(group, now_ms);
    probe_some(group, now_ms);
}

/* ---- the group ---- */

static void on_group_handle_closed(uv_handle_t *handle)
{
    group_release(handle->data);
}

static void group_set_defaults(struct inbound_group *group)
{
    struct inbound_opts *opts = &group->opts;
    opts->sndbuf = opts->sndbuf != 0 ? opts->sndbuf : INBOUND_SNDBUF;
    opts->dead_ms = opts->dead_ms != 0 ? opts->dead_ms : INBOUND_DEAD_MS;
    opts->probe_ms = opts->probe_ms != 0 ? opts->probe_ms : PROBE_MS;
    opts->check_ms = opts->check_ms != 0 ? opts->check_ms : INBOUND_CHECK_MS;
    opts->greet_ms = opts->greet_ms != 0 ? opts->greet_ms : INBOUND_GREET_MS;
    opts->idle_ms = opts->idle_ms != 0 ? opts->idle_ms : INBOUND_IDLE_MS;
    opts->unread_ms = opts->unread_ms != 0 ? opts->unread_ms : INBOUND_UNREAD_MS;
    opts->linger_ms = opts->linger_ms != 0 ? opts->linger_ms : LINGER_MS;
    const uint64_t span_ms[INBOUND_N_WAITS] = {
        [INBOUND_WAIT_GREETING] = opts->greet_ms,  [INBOUND_WAIT_HANDSHAKE] = opts->greet_ms,
        [INBOUND_WAIT_HEAD] = opts->greet_ms,      [INBOUND_WAIT_IDLE] = opts->idle_ms,
        [INBOUND_WAIT_IDLE_HTTP2] = opts->idle_ms, [INBOUND_WAIT_LINGER] = opts->linger_ms,
        [INBOUND_WAIT_UNREAD] = opts->unread_ms};
    inbound_waits_init(&group->waits, span_ms);
}

/* The timer does not keep the loop alive: without connections there is nothing to judge. */
static void group_start_handles(struct inbound_group *group)
{
    uint64_t tick_ms = TICK_MS;
    for (size_t i = 0; i < INBOUND_N_WAITS; i++)
        tick_ms = belfry_min_time(tick_ms, group->waits.span_ms[i] / 4 + 1);
    tick_ms = belfry_min_time(tick_ms, group->opts.probe_ms / 4 + 1);
    tick_ms = belfry_min_time(tick_ms, group->opts.check_ms / 8 + 1);
    uv_timer_init(group->opts.loop, &group->timer);
    uv_check_init(group->opts.loop, &group->check);
    uv_idle_init(group->opts.loop, &group->idle);
    group->timer.data = group->check.data = group->idle.data = group;
    group->n_handles = 3;
    group->tick_at_ms = belfry_clock_ms();
    uv_timer_start(&group->timer, on_tick, tick_ms, tick_ms);
    uv_unref((uv_handle_t *)&group->timer);
}

enum belfry_err inbound_create(const struct inbound_opts *opts, struct inbound_group **out)
{
    struct inbound_group *group = calloc(1, sizeof(*group));
    uint8_t *ignored;
    if (group == NULL)
        return BELFRY_ERR_NOMEM;
    group->opts = *opts;
    group_set_defaults(group);
    belfry_list_init(&group->conns);
    belfry_list_init(&group->shutting);
    belfry_list_init(&group->prompt);
    belfry_list_init(&group->dirty);
    belfry_list_init(&group->put_off);
    belfry_list_init(&group->expelled);
    belfry_list_init(&group->probed);
    belfry_list_init(&group->checked);
    h2_teardown_init(&group->teardown, opts->loop);
    shares_init(&group->shares, &opts->limits, opts->seed, on_yield, group);
    shares_tick(&group->shares, belfry_clock_ms());
    group->input = malloc(INPUT_BYTES);
    group->plain = malloc(PLAIN_BYTES);
    if (group->input == NULL || group->plain == NULL ||
        belfry_buf_reserve(&group->output, INPUT_BYTES, &ignored) != BELFRY_OK) {
        group->n_handles = 1;
        group->destroyed = true;
        group_release(group);
        return BELFRY_ERR_NOMEM;
    }
    group_start_handles(group);
    BELFRY_OWNER_INIT(group);
    *out = group;
    return BELFRY_OK;
}

void inbound_destroy(struct inbound_group *group)
{
    if (group == NULL)
        return;
    BELFRY_OWNER_CHECK(group);
    group->destroyed = true;
    h2_teardown_all(&group->teardown);
    belfry_list_move_all(&group->conns, &group->shutting);
    while (!belfry_list_empty(&group->conns))
        conn_close(belfry_container(group->conns.next, struct inbound_conn, in_group));
    uv_close((uv_handle_t *)&group->timer, on_group_handle_closed);
    uv_close((uv_handle_t *)&group->check, on_group_handle_closed);
    uv_close((uv_handle_t *)&group->idle, on_group_handle_closed);
}

/* Each connection once: one that has more, or writes more after `writable`, is in the list again for the next call. */
static void flush_list(struct belfry_list *list, uint64_t now_ms)
{
    struct belfry_list turn, *node;
    belfry_list_init(&turn);
    belfry_list_move_all(&turn, list);
    uint64_t until = uv_hrtime() + FLUSH_NS / 2;
    for (int n = 0; n < INBOUND_FLUSH / 2 && (n % 8 != 7 || uv_hrtime() < until); n++) {
        if ((node = belfry_list_pop(&turn)) == NULL)
            break;
        conn_flush(belfry_container(node, struct inbound_conn, in_dirty), now_ms);
    }
    belfry_list_move_all(&turn, list); /* those without a turn yet come first */
    belfry_list_move_all(list, &turn);
}

bool inbound_flush(struct inbound_group *group, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(group);
    group->reading_ns = 0;
    /* others need the memory of expelled connections: they do not wait for their turn */
    for (struct belfry_list *node; (node = belfry_list_pop(&group->expelled)) != NULL;)
        conn_finish_expelled(belfry_container(node, struct inbound_conn, in_expelled), now_ms);
    flush_list(&group->prompt, now_ms);
    flush_list(&group->dirty, now_ms);
    bool more = check_some(group, now_ms);
    more = h2_teardown_step(&group->teardown) || more;
    return more || !belfry_list_empty(&group->prompt) || !belfry_list_empty(&group->dirty);
}

bool inbound_shut(struct inbound_group *group, uint64_t newest, size_t most)
{
    BELFRY_OWNER_CHECK(group);
    if (newest == INBOUND_ALL)
        group->shut = true;
    for (; !belfry_list_empty(&group->conns); most--) {
        struct inbound_conn *c = belfry_container(group->conns.next, struct inbound_conn, in_group);
        if (c->number > newest)
            return false;
        if (most == 0)
            return true;
        conn_tell_to_leave(c);
    }
    return false;
}

uint64_t inbound_newest(const struct inbound_group *group)
{
    return group->stats.accepted;
}

size_t inbound_connections(const struct inbound_group *group)
{
    return group->stats.connections;
}

struct shares *inbound_shares(struct inbound_group *group)
{
    return &group->shares;
}

const struct shares_alarm *inbound_alarm(const struct inbound_group *group)
{
    return &group->alarm;
}

void inbound_set_limits(struct inbound_group *group, const struct shares_limits *limits)
{
    BELFRY_OWNER_CHECK(group);
    shares_set_limits(&group->shares, limits);
}

void inbound_stats(const struct inbound_group *group, struct inbound_stats *out)
{
    *out = group->stats;
    out->http1 = group->n_http1;
    out->http2 = group->n_http2;
    out->tls = group->n_tls;
    out->kernel_bytes = group->traffic.n_full * 2 * (size_t)group->opts.sndbuf;
    out->bytes = group->shares.pools[SHARES_MEMORY].used;
    out->bytes_in = group->traffic.bytes_in;
    out->bytes_out = group->traffic.bytes_out;
    out->writes = group->traffic.writes;
    out->refused_streams = group->shares.pools[SHARES_MEMORY].refused;
}
