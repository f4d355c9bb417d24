/* src/server/inbound_conn.c */
#include "server/inbound_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "server/refusal.h"

#define TURN_NS        4000000 /* for the reads of one turn, of all connections that are not put off */
#define PUT_OFF_NS     2000000 /* for those of connections that are put off */
#define READ_NS        500000  /* for one read with all that follows from it, and for the reads of one connection */
#define READ_LEAST     (2 * 1024)
#define READS_PER_TURN 4
#define PONGS_MS       50 /* that an answer to a PING waits for company, at most */
#define ENOUGH         INBOUND_CONN_OUTPUT
#define ENOUGH_TLS     (32 * 1024)  /* and a frame: tls_conn takes at most 64 KiB unsent */
#define OUTPUT_KEPT    (256 * 1024) /* the shared buffer is not kept larger */

#define LOOKS_MAX 16 /* connections that are read, and may stay, for one newcomer */

#define MAKES_WAY "belfry: this address serves few connections, and a new one needed the place"

static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- a connection's state ---- */

static void conn_move_to(struct inbound_conn *c, enum inbound_state next)
{
    struct inbound_conns *all = c->all;
    assert(next > c->state && !(c->state == INBOUND_HTTP1 && next == INBOUND_HTTP2));
    assert(next != INBOUND_HANDSHAKE || c->state == INBOUND_PROXY_HEAD);
    all->n_http1 += (next == INBOUND_HTTP1) - (c->state == INBOUND_HTTP1);
    all->n_http2 += (next == INBOUND_HTTP2) - (c->state == INBOUND_HTTP2);
    c->state = next;
}

static bool conn_speaks(const struct inbound_conn *c)
{
    return c->state == INBOUND_HTTP1 || c->state == INBOUND_HTTP2;
}

static void conn_make_dirty(struct inbound_conn *c)
{
    if (belfry_list_empty(&c->in_dirty))
        belfry_list_append(&c->all->dirty, &c->in_dirty);
}

void inbound_conn_log(const struct inbound_conn *c, enum belfry_log_level level, const char *event, const char *why)
{
    belfry_logf(c->all->opts->log, level, event, "peer=%s id=%llu why=\"%s\"", c->info.peer,
                (unsigned long long)c->info.id, why);
}

/* ---- whose connection it is ----
 *
 * It begins with the address that the connection came from; a balancer may name another, and a certificate a user. What
 * the connection holds counts to the last that was named (shares.h).
 */

/* Stores in `name` the one that shares know this address by. */
static void conn_set_address(struct inbound_conn *c, const struct client_address *address,
                             char name[CLIENT_ADDRESS_TEXT])
{
    c->info.address = *address;
    client_address_text(address, c->info.peer);
    client_address_name(address, name);
}

/* After a failure only conn_free() may follow. */
static enum belfry_err conn_init_client(struct inbound_conn *c, const struct inbound_arrival *arrival)
{
    static atomic_uint_fast64_t next_id = 1;
    char name[CLIENT_ADDRESS_TEXT];
    c->info.id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
    c->info.policy = arrival->policy;
    c->info.tls = arrival->tls != NULL;
    conn_set_address(c, &arrival->peer, name);
    return shares_join(&c->all->shares, &c->info.share, SHARES_CLIENT, name);
}

/* The certificate names a user, which may be a tier below. Exchanges outlive the TLS connection for a moment, so the
 * name is copied. Errors: BELFRY_ERR_NOMEM, and as shares_move(). */
static enum belfry_err conn_take_user(struct inbound_conn *c, const char *user)
{
    const struct inbound_opts *opts = c->all->opts;
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

/* All that it held was given back. */
static void conn_free(struct inbound_conn *c)
{
    shares_leave(&c->info.share);
    free(c->user);
    free(c->proxy_head);
    free(c);
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
    conn_waits_expect(&c->waits, CONN_WAIT_NONE, 0);
    c->asked_ms = belfry_clock_ms();
    c->all->n_begun++;
    shares_work(&c->info.share, WORK_REQUESTS, 1);
    c->all->opts->begin(x, head, c->all->opts->user);
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
                                  .max_streams = c->all->opts->max_streams,
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

/* The socket is full. */
static void conn_hold(struct inbound_conn *c)
{
    if (c->h1 != NULL)
        h1_server_hold(c->h1);
    else if (c->h2 != NULL)
        h2_server_hold(c->h2);
}

/* The socket takes bytes. */
static void conn_unhold(struct inbound_conn *c)
{
    if (c->h1 != NULL)
        h1_server_unhold(c->h1);
    else if (h2_server_unhold(c->h2))
        conn_make_dirty(c); /* more exchanges wait to hear of it: the next flush continues */
}

static bool conn_wants_write(const struct inbound_conn *c)
{
    return c->h1 != NULL ? h1_server_wants_write(c->h1) : h2_server_wants_write(c->h2);
}

/* Input is kept that took too long for one turn. */
static bool conn_is_behind(const struct inbound_conn *c)
{
    return c->h2 != NULL && h2_server_is_behind(c->h2);
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

static void conn_release(struct inbound_conn *c)
{
    if (--c->holds > 0)
        return;
    struct inbound_conns *all = c->all;
    conn_free(c);
    all->handle_closed(all);
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
    belfry_list_remove(&c->in_pongs);
    shares_end(&c->info.share);
    h1_server_destroy(h1);
    if (h2 != NULL && !h2_teardown_begin(&c->all->teardown, h2, &c->teardown, on_torn_down))
        c->holds++;
}

static void conn_leave_refused(struct inbound_conn *c)
{
    belfry_list_remove(&c->in_refused);
    c->all->n_refused -= c->refused;
    c->refused = false;
}

void inbound_conn_close(struct inbound_conn *c)
{
    struct inbound_conns *all = c->all;
    if (c->state == INBOUND_CLOSING)
        return;
    inbound_socket_say_goodbye(&c->socket, conn_speaks(c) ? INBOUND_GOODBYE : INBOUND_ALERT_ONLY);
    conn_move_to(c, INBOUND_CLOSING);
    conn_count(c);
    shares_count(&c->info.share, SHARES_CONNECTIONS, 1, 0);
    server_destroy(c);
    conn_waits_end(&c->waits);
    belfry_list_remove(&c->in_dirty);
    inbound_round_leave(&all->certified, &c->in_certified);
    belfry_list_remove(&c->in_all);
    belfry_list_remove(&c->in_expelled);
    belfry_list_remove(&c->in_put_off);
    all->n_tls -= c->info.tls;
    all->n_leaving -= c->info.leaving;
    conn_leave_refused(c);
    all->stats.connections--;
    all->stats.closed++;
    uv_close((uv_handle_t *)&c->poll, on_poll_closed);
    inbound_socket_close(&c->socket);
}

void inbound_conn_linger(struct inbound_conn *c, uint64_t now_ms)
{
    if (c->input_ended) {
        inbound_conn_close(c);
        return;
    }
    inbound_socket_say_goodbye(&c->socket, conn_speaks(c) ? INBOUND_GOODBYE : INBOUND_ALERT_ONLY);
    shutdown(c->socket.fd, SHUT_WR);
    conn_move_to(c, INBOUND_LINGERING);
    inbound_round_leave(&c->all->certified, &c->in_certified);
    server_destroy(c);
    belfry_list_remove(&c->in_dirty);
    conn_waits_expect(&c->waits, CONN_WAIT_LINGER, now_ms);
}

/* The time that its peer has for what comes first. */
static void conn_expect_first(struct inbound_conn *c, uint64_t now_ms)
{
    enum conn_wait_kind kind = c->state == INBOUND_HANDSHAKE ? CONN_WAIT_HANDSHAKE : CONN_WAIT_GREETING;
    conn_waits_expect(&c->waits, c->refused ? CONN_WAIT_LINGER : kind, now_ms);
}

/* It counts for nothing from now on, and waits for its peer's request. If too many do, the first of them has had the
 * most time: it is answered if its peer has said anything, and closed. */
static void conn_refuse(struct inbound_conn *c)
{
    struct inbound_conns *all = c->all;
    c->refused = true;
    belfry_list_append(&all->refused, &c->in_refused);
    shares_end(&c->info.share);
    if (++all->n_refused <= all->opts->refused_most)
        return;
    struct inbound_conn *first = belfry_container(all->refused.next, struct inbound_conn, in_refused);
    if (first->state == INBOUND_SNIFFING)
        refusal_answer(first->socket.fd, &first->sniff);
    inbound_conn_close(first);
}

/* The answer fits into the empty buffer of the socket. */
static void conn_answer_refused(struct inbound_conn *c, struct belfry_bytes answer, uint64_t now_ms)
{
    bool fine = answer.len == 0 || inbound_socket_write(&c->socket, answer);
    if (fine)
        inbound_conn_linger(c, now_ms);
    else
        inbound_conn_close(c);
}

/* ---- after every event ---- */

static bool conn_wants_read(const struct inbound_conn *c)
{
    if (c->state == INBOUND_LINGERING)
        return true;
    if (c->input_ended || c->last)
        return false;
    if (!conn_speaks(c))
        return true;
    return c->h1 != NULL ? h1_server_wants_read(c->h1) : h2_server_wants_read(c->h2);
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
        conn_waits_probe_later(&c->waits, now_ms);
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
    return c->last ? !conn_wants_write(c) : c->h1 != NULL && h1_server_over(c->h1);
}

static void conn_settle(struct inbound_conn *c, uint64_t now_ms)
{
    if (conn_is_over(c))
        inbound_conn_linger(c, now_ms);
    if (c->state == INBOUND_CLOSING)
        return;
    conn_count(c);
    if (c->h1 != NULL)
        conn_waits_http1(&c->waits, h1_server_in_head(c->h1), !c->socket.full && h1_server_open(c->h1) == 0, now_ms);
    else if (c->h2 != NULL && !c->socket.full && h2_server_open(c->h2) == 0)
        conn_waits_http2_idle(&c->waits, c->info.leaving, now_ms);

    /* One stream that is not read is no sign: its watch is parked, and costs no more than its room. */
    if (c->socket.full || (c->h2 != NULL && h2_server_bytes(c->h2) > EXCHANGE_ROOM))
        conn_waits_unread(&c->waits, c->socket.sent, now_ms);
    else
        conn_waits_all_read(&c->waits);
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
        inbound_conn_log(c, BELFRY_LOG_DEBUG, "connection_refused", belfry_strerror((int)err));
    c->all->stats.refused_floods += c->h2 != NULL && fault == H2_SERVER_BREACH;
    c->last = true;
    conn_make_dirty(c);
}

/* Writes that have been made since, which are this connection's. */
static void conn_count_writes(struct inbound_conn *c, const struct inbound_traffic *since)
{
    shares_work(&c->info.share, WORK_IO, c->all->traffic.writes - since->writes);
    shares_work(&c->info.share, WORK_BYTES_OUT, c->all->traffic.bytes_out - since->bytes_out);
}

static bool conn_send_rest(struct inbound_conn *c)
{
    struct inbound_traffic before = c->all->traffic;
    bool fine = inbound_socket_flush(&c->socket);
    conn_count_writes(c, &before);
    return fine;
}

/* Pulls through the shared buffer and writes once. */
static void conn_pull_and_write(struct inbound_conn *c)
{
    struct belfry_buf *out = &c->all->output;
    size_t enough = c->socket.tls != NULL ? ENOUGH_TLS : ENOUGH;
    enum belfry_err err = c->h1 != NULL ? h1_server_pull(c->h1, enough, out) : h2_server_pull(c->h2, enough, out);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOMEM)
        conn_break_off(c, err); /* a GOAWAY may have been pulled */

    bool fine = err != BELFRY_ERR_NOMEM;
    if (fine && belfry_buf_len(out) > 0) {
        struct inbound_traffic before = c->all->traffic;
        fine = inbound_socket_write(&c->socket, belfry_buf_bytes(out));
        conn_count_writes(c, &before);
    }
    belfry_buf_clear(out);
    if (out->cap > OUTPUT_KEPT)
        belfry_buf_fini(out);

    if (!fine) {
        inbound_conn_close(c); /* it is lost, or there is no memory */
        return;
    }
    if (c->socket.full) {
        conn_hold(c);
        return;
    }
    if (!c->last)
        conn_unhold(c);
    if (conn_wants_write(c))
        conn_make_dirty(c);
}

void inbound_conn_flush(struct inbound_conn *c, uint64_t now_ms)
{
    if (c->socket.full) /* the poll reports when it is not */
        return;
    if (!conn_send_rest(c)) {
        inbound_conn_close(c);
        return;
    }
    if (c->socket.full)
        conn_hold(c);
    else if (conn_speaks(c))
        conn_pull_and_write(c);
    if (c->state == INBOUND_CLOSING)
        return;
    conn_waits_probe_later(&c->waits, now_ms);
    conn_settle(c, now_ms);
}

/* The owner flushes before its loop blocks, so the output of a turn goes out together. */
static void conn_on_writable(struct inbound_conn *c)
{
    if (!conn_send_rest(c)) {
        inbound_conn_close(c);
        return;
    }
    if (c->socket.full || !conn_speaks(c))
        return;
    if (!c->last)
        conn_unhold(c);
    conn_make_dirty(c);
}

/* ---- answers to PINGs ----
 *
 * They wait for company. Clients of gRPC send a PING after nearly every delivery. An answer that is sent with the next
 * delivery costs neither side a system call of its own, nor TLS a record. It waits for PONGS_MS at most: clients
 * measure bandwidth with such PINGs, which is of interest while bytes flow, and then the next delivery is soon.
 */

static void on_pongs_timer(uv_timer_t *timer)
{
    struct inbound_conns *all = timer->data;
    uint64_t now_ms = belfry_clock_ms();
    while (!belfry_list_empty(&all->pongs)) {
        struct inbound_conn *c = belfry_container(all->pongs.next, struct inbound_conn, in_pongs);
        if (c->pong_due_ms > now_ms) {
            uv_timer_start(timer, on_pongs_timer, c->pong_due_ms - now_ms, 0);
            return;
        }
        belfry_list_remove(&c->in_pongs);
        h2_server_pay_pong(c->h2);
    }
}

/* A connection that owes one already keeps its time. */
static void conn_owe_pong(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_conns *all = c->all;
    if (!belfry_list_empty(&c->in_pongs))
        return;
    c->pong_due_ms = now_ms + PONGS_MS;
    belfry_list_append(&all->pongs, &c->in_pongs);
    if (!uv_is_active((uv_handle_t *)&all->pongs_timer))
        uv_timer_start(&all->pongs_timer, on_pongs_timer, PONGS_MS, 0);
}

/* ---- reading ---- */

static void server_receive(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    enum belfry_err err = c->h1 != NULL ? h1_server_receive(c->h1, bytes) : h2_server_receive(c->h2, bytes, now_ms);
    if (!belfry_list_empty(&c->in_dirty)) { /* an answer does not wait behind ten thousand connections with an event */
        belfry_list_remove(&c->in_dirty);
        belfry_list_append(&c->all->prompt, &c->in_dirty);
    }
    if (err == BELFRY_ERR_NOMEM) {
        inbound_conn_close(c);
        return;
    }
    if (err != BELFRY_OK) {
        conn_break_off(c, err);
        return;
    }
    if (c->h2 != NULL) {
        if (conn_waits_expects(&c->waits, CONN_WAIT_GREETING) &&
            h2_server_greeted(c->h2)) /* from now on it may be idle */
            conn_waits_expect(&c->waits, CONN_WAIT_NONE, 0);
        conn_waits_http2_head(&c->waits, h2_server_head_since(c->h2), now_ms);
        if (h2_server_owes_pong(c->h2))
            conn_owe_pong(c, now_ms);
    }
    if (!c->socket.full)
        conn_unhold(c);
    if (conn_is_over(c))
        conn_make_dirty(c);
}

/* Passes on the bytes that were kept meanwhile. */
static void sniff_protocol(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    enum inbound_sniffed sniffed = inbound_sniff_read(&c->sniff, &bytes);
    if (sniffed == INBOUND_SNIFFED_LITTLE)
        return;
    if (c->refused) {
        conn_answer_refused(c, refusal_after(&c->sniff, sniffed), now_ms);
        return;
    }
    if ((sniffed == INBOUND_SNIFFED_HTTP2 ? start_http2(c) : start_http1(c)) != BELFRY_OK) {
        inbound_conn_close(c);
        return;
    }
    server_receive(c, belfry_bytes_of(c->sniff.bytes, c->sniff.n), now_ms);
    if (conn_speaks(c) && !c->last && bytes.len > 0)
        server_receive(c, bytes, now_ms);
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
        conn_waits_expect(&c->waits, CONN_WAIT_GREETING, now_ms);
        err = conn_take_user(c, belfry_tls_conn_user(tls));
        bool is_h2 = strcmp(belfry_tls_conn_alpn(tls), "h2") == 0;
        if (err == BELFRY_ERR_LIMIT) {
            shares_work(&c->info.share, WORK_HANDSHAKES, 1);
            c->all->stats.refused_connections++;
            conn_refuse(c);
            conn_answer_refused(c, refusal_text(is_h2 ? INBOUND_SNIFFED_HTTP2 : INBOUND_SNIFFED_HTTP1), now_ms);
            return;
        }
        if (err == BELFRY_OK)
            err = is_h2 ? start_http2(c) : start_http1(c);
    }
    shares_work(&c->info.share, WORK_HANDSHAKES, 1);
    if (err == BELFRY_OK) {
        c->all->stats.resumed_handshakes += belfry_tls_conn_is_resumed(tls);
        c->all->stats.full_handshakes += !belfry_tls_conn_is_resumed(tls);
        inbound_round_join(&c->all->certified, &c->in_certified);
        return;
    }
    enum belfry_log_level level =
        belfry_log_is_due(++c->all->stats.refused_handshakes) ? BELFRY_LOG_WARN : BELFRY_LOG_DEBUG;
    inbound_conn_log(c, level, "handshake_failed",
                     err == BELFRY_ERR_TLS ? belfry_tls_conn_why(tls) : belfry_strerror((int)err));
    inbound_conn_close(c);
}

static void conn_on_input_end(struct inbound_conn *c)
{
    c->input_ended = true;
    if (c->state != INBOUND_HTTP1) {
        inbound_conn_close(c);
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
        enum belfry_err err = belfry_tls_conn_read(c->socket.tls, c->all->plain, INBOUND_CONN_PLAIN, &n);
        if (err == BELFRY_OK) {
            server_receive(c, belfry_bytes_of(c->all->plain, n), now_ms);
            continue;
        }
        if (err == BELFRY_ERR_UNAVAILABLE)
            conn_on_input_end(c);
        else if (err != BELFRY_ERR_AGAIN)
            inbound_conn_close(c);
        break;
    }
    if (conn_speaks(c) && inbound_socket_has_output(&c->socket))
        conn_make_dirty(c);
}

/* The balancer names its client, who is the one that holds this connection. Without room for it the connection is
 * refused; a TLS handshake is not worth its work then. False: there is no memory. */
static bool conn_take_address(struct inbound_conn *c, const struct client_address *address)
{
    char name[CLIENT_ADDRESS_TEXT];
    conn_set_address(c, address, name);
    enum belfry_err err = shares_move(&c->info.share, SHARES_CLIENT, name);
    if (err == BELFRY_ERR_LIMIT) {
        c->all->stats.refused_connections++;
        conn_refuse(c);
        belfry_tls_conn_destroy(c->socket.tls);
        c->socket.tls = NULL;
        c->tls = NULL;
    }
    return err == BELFRY_OK || err == BELFRY_ERR_LIMIT;
}

/* Passes over the head. False: it is not whole, or it is wrong. */
static bool pass_proxy_head(struct inbound_conn *c, struct belfry_bytes *bytes, uint64_t now_ms)
{
    enum belfry_err err = proxy_head_read(c->proxy_head, bytes);
    if (err == BELFRY_ERR_AGAIN)
        return false;
    if (err != BELFRY_OK) {
        bool due = belfry_log_is_due(++c->all->stats.refused_heads);
        inbound_conn_log(c, due ? BELFRY_LOG_WARN : BELFRY_LOG_DEBUG, "proxy_head_refused", c->proxy_head->why);
        inbound_conn_close(c);
        return false;
    }
    if (c->proxy_head->client.family != CLIENT_UNKNOWN && !conn_take_address(c, &c->proxy_head->client)) {
        inbound_conn_close(c);
        return false;
    }
    free(c->proxy_head);
    c->proxy_head = NULL;
    conn_move_to(c, c->tls != NULL ? INBOUND_HANDSHAKE : INBOUND_SNIFFING);
    conn_expect_first(c, now_ms);
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

/* Reads in portions that follow how long it took to handle the last: a few bytes may be a request, and sixty thousand a
 * part of one. `began_ns`: when its turn began. */
static void conn_read(struct inbound_conn *c, uint64_t began_ns, uint64_t now_ms)
{
    uint64_t last_ns = began_ns;
    for (int i = 0; i < READS_PER_TURN && c->state != INBOUND_CLOSING && conn_wants_read(c); i++) {
        size_t most = c->read_bytes;
        ssize_t n = recv(c->socket.fd, c->all->input, most, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return; /* the poll reports more */
        if (n < 0) {
            inbound_conn_close(c);
            return;
        }
        if (n == 0) {
            conn_on_input_end(c);
            return;
        }

        /* all that follows from these bytes */
        c->all->traffic.bytes_in += (size_t)n;
        shares_work(&c->info.share, WORK_IO, 1);
        shares_work(&c->info.share, WORK_BYTES_IN, (size_t)n);
        conn_receive(c, belfry_bytes_of(c->all->input, (size_t)n), now_ms);

        /* the next portion, unless nothing is there, most likely, or it is the turn of others */
        uint64_t now_ns = uv_hrtime(), took_ns = now_ns - last_ns;
        last_ns = now_ns;
        if (took_ns > READ_NS)
            c->read_bytes = c->read_bytes / 2 > READ_LEAST ? c->read_bytes / 2 : READ_LEAST;
        else if (took_ns < READ_NS / 4 && c->read_bytes < INBOUND_CONN_INPUT)
            c->read_bytes *= 2;
        if ((size_t)n < most || now_ns - began_ns > READ_NS)
            return;
    }
}

/* ---- putting off: these connections are read after the others ---- */

static void on_put_off_idle(uv_idle_t *idle)
{
    (void)idle; /* its being there is all */
}

static void on_put_off_check(uv_check_t *check);

/* One that is put off already keeps its place. */
static void conn_put_off(struct inbound_conn *c)
{
    struct inbound_conns *all = c->all;
    if (!belfry_list_empty(&c->in_put_off))
        return;
    belfry_list_append(&all->put_off, &c->in_put_off);
    uv_check_start(&all->put_off_check, on_put_off_check);
    uv_idle_start(&all->put_off_idle, on_put_off_idle);
}

/* A connection that has used its time, or keeps input that would take more, is put off. */
static void conn_on_readable(struct inbound_conn *c, uint64_t now_ms)
{
    uint64_t began_ns = uv_hrtime();
    if (conn_is_behind(c))
        server_receive(c, (struct belfry_bytes){0}, now_ms);
    else
        conn_read(c, began_ns, now_ms);
    uint64_t took_ns = uv_hrtime() - began_ns;
    c->all->reading_ns += took_ns;
    if (c->state != INBOUND_CLOSING && (took_ns > READ_NS || conn_is_behind(c)))
        conn_put_off(c);
}

/* Once per turn of the loop, after it has polled, they have their turn, in order, for PUT_OFF_NS in all. */
static void on_put_off_check(uv_check_t *check)
{
    struct inbound_conns *all = check->data;
    struct belfry_list turn, *node;
    uint64_t now_ms = belfry_clock_ms(), until_ns = uv_hrtime() + PUT_OFF_NS;
    belfry_list_init(&turn);
    belfry_list_move_all(&turn, &all->put_off);
    while (uv_hrtime() < until_ns && (node = belfry_list_pop(&turn)) != NULL) {
        struct inbound_conn *c = belfry_container(node, struct inbound_conn, in_put_off);
        conn_on_readable(c, now_ms);
        if (c->state != INBOUND_CLOSING)
            conn_settle(c, now_ms);
    }

    belfry_list_move_all(&turn, &all->put_off); /* those without a turn yet come first in the next */
    belfry_list_move_all(&all->put_off, &turn);
    if (!belfry_list_empty(&all->put_off))
        return;
    uv_check_stop(&all->put_off_check);
    uv_idle_stop(&all->put_off_idle);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct inbound_conn *c = poll->data;
    uint64_t now_ms = belfry_clock_ms();
    if (status < 0) {
        inbound_conn_close(c);
        return;
    }
    if ((events & UV_WRITABLE) != 0 && c->socket.full)
        conn_on_writable(c);
    if ((events & UV_READABLE) != 0 && c->state != INBOUND_CLOSING) {
        if (c->all->reading_ns < TURN_NS && belfry_list_empty(&c->in_put_off))
            conn_on_readable(c, now_ms);
        else
            conn_put_off(c);
    }
    if (c->state != INBOUND_CLOSING)
        conn_settle(c, now_ms);
}

/* ---- making way ---- */

void inbound_conn_finish_expelled(struct inbound_conn *c, uint64_t now_ms)
{
    belfry_list_remove(&c->in_dirty);
    if (c->state == INBOUND_HTTP2)
        inbound_conn_flush(c, now_ms);
    if (c->state == INBOUND_HTTP1 && !c->socket.full)
        inbound_conn_linger(c, now_ms);
    if (c->state < INBOUND_LINGERING)
        inbound_conn_close(c); /* it has no protocol yet, or its socket is full */
}

void inbound_conn_expel(struct inbound_conn *c, const char *why, uint64_t now_ms)
{
    if (c->state == INBOUND_HTTP2)
        h2_server_expel(c->h2, why);
    inbound_conn_finish_expelled(c, now_ms);
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

/* It has not joined the others. */
static void conn_discard(struct inbound_conn *c)
{
    conn_leave_refused(c);
    conn_free(c);
}

#define CONN_BYTES (sizeof(struct inbound_conn) + H2_SERVER_CONN)

static bool conn_has_room(struct inbound_conn *c)
{
    return shares_make_room(&c->info.share, SHARES_CONNECTIONS, 1) &&
           shares_make_room(&c->info.share, SHARES_MEMORY, CONN_BYTES);
}

static bool conn_has_request(const struct inbound_conn *c)
{
    return c->h1 != NULL ? h1_server_open(c->h1) > 0 : c->h2 != NULL && h2_server_open(c->h2) > 0;
}

/* 0: it has no request; 1: it has one; 2: it has one that asks whether the process lives or is ready. */
static int conn_worth(const struct inbound_conn *c)
{
    return conn_has_request(c) ? 1 + c->info.probes : 0;
}

/* Of its client's connections, or of all if its client has none, the one without a request that waits longest; if all
 * have one, the one whose request came first, but for probes. NULL: there is none. */
static struct inbound_conn *conn_that_makes_way(const struct inbound_conn *newcomer)
{
    struct inbound_conn *own = NULL, *any = NULL;
    belfry_list_each (node, &newcomer->all->staying) {
        struct inbound_conn *c = belfry_container(node, struct inbound_conn, in_all);
        struct inbound_conn **best = shares_same_client(&c->info.share, &newcomer->info.share) ? &own : &any;
        if (c->info.share.ending)
            continue;
        if (*best == NULL || conn_worth(c) < conn_worth(*best) ||
            (conn_worth(c) == conn_worth(*best) && c->asked_ms < (*best)->asked_ms))
            *best = c;
    }
    return own != NULL ? own : any;
}

/* Its request may have arrived since it was accepted, in this turn. True: so it is, and what can be answered was; or
 * the connection is gone. */
static bool conn_has_asked_meanwhile(struct inbound_conn *c, uint64_t now_ms)
{
    uint64_t before = c->all->n_begun;
    conn_on_readable(c, now_ms);
    if (c->state != INBOUND_CLOSING)
        conn_settle(c, now_ms);
    if (conn_speaks(c)) {
        belfry_list_remove(&c->in_dirty);
        inbound_conn_flush(c, now_ms);
    }
    return c->state == INBOUND_CLOSING || c->all->n_begun > before;
}

static bool conn_finds_room(struct inbound_conn *newcomer, uint64_t now_ms)
{
    for (int looks = LOOKS_MAX; !conn_has_room(newcomer);) {
        bool makes_way = newcomer->all->opts->newcomers_first &&
                         !shares_is_emptying(&newcomer->all->shares, SHARES_MEMORY, CONN_BYTES);
        struct inbound_conn *c = makes_way ? conn_that_makes_way(newcomer) : NULL;
        if (c == NULL)
            return false;
        if (looks-- > 0 && !conn_has_request(c) && conn_has_asked_meanwhile(c, now_ms))
            continue;
        newcomer->all->stats.ended_for_newcomers++;
        inbound_conn_expel(c, MAKES_WAY, now_ms);
        inbound_conn_close(c);
    }
    return true;
}

static struct inbound_conn *conn_create(struct inbound_conns *all, const struct inbound_arrival *arrival,
                                        uint64_t now_ms)
{
    struct inbound_conn *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->all = all;
    c->read_bytes = INBOUND_CONN_INPUT / 4;
    conn_waits_init(&c->waits, &all->waits);
    belfry_list_init(&c->in_all);
    belfry_list_init(&c->in_dirty);
    belfry_list_init(&c->in_certified);
    belfry_list_init(&c->in_expelled);
    belfry_list_init(&c->in_put_off);
    belfry_list_init(&c->in_refused);
    belfry_list_init(&c->in_pongs);
    c->holds = 1;
    enum belfry_err err = conn_init_client(c, arrival);
    bool has_no_room = err == BELFRY_OK && !arrival->refused && !conn_finds_room(c, now_ms);
    all->stats.refused_connections += has_no_room; /* the owner counts those that the process has no place for */
    if (err == BELFRY_OK && (has_no_room || arrival->refused))
        conn_refuse(c);
    c->tls = c->refused ? NULL : arrival->tls; /* it is not worth a handshake */
    if (err == BELFRY_OK && conn_begin(c, arrival->proxies))
        return c;
    conn_discard(c);
    return NULL;
}

static void conn_join(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_conns *all = c->all;
    all->n_handles++;
    all->n_tls += c->info.tls;
    all->stats.connections++;
    shares_count(&c->info.share, SHARES_CONNECTIONS, 0, 1);
    c->number = ++all->stats.accepted;
    c->info.leaving = all->shut;
    all->n_leaving += all->shut;
    belfry_list_append(all->shut ? &all->leaving : &all->staying, &c->in_all);
    c->asked_ms = now_ms;
    conn_expect_first(c, now_ms);
    conn_count(c);
    conn_poll(c, now_ms);
}

enum belfry_err inbound_conn_accept(struct inbound_conns *all, const struct inbound_arrival *arrival, uint64_t now_ms)
{
    int fd = arrival->fd;
    struct inbound_conn *c = conn_create(all, arrival, now_ms);
    if (c == NULL) {
        close(fd);
        return BELFRY_ERR_NOMEM;
    }
    enum belfry_err err = inbound_socket_open(&c->socket, fd, c->tls, all->opts->sndbuf, &all->traffic);
    if (err == BELFRY_OK && uv_poll_init(all->opts->loop, &c->poll, fd) != 0) { /* makes it non-blocking */
        inbound_socket_close(&c->socket);
        err = BELFRY_ERR_IO;
    }
    if (err != BELFRY_OK) {
        conn_discard(c);
        return err;
    }
    c->poll.data = c;
    conn_join(c, now_ms);
    return c->refused ? BELFRY_ERR_LIMIT : BELFRY_OK;
}

void inbound_conn_tell_to_leave(struct inbound_conn *c)
{
    belfry_list_remove(&c->in_all);
    belfry_list_append(&c->all->leaving, &c->in_all);
    c->info.leaving = true;
    c->all->n_leaving++;
    if (c->h1 != NULL)
        h1_server_shut(c->h1);
    else if (c->h2 != NULL)
        h2_server_shut(c->h2);
    conn_make_dirty(c);
}

/* ---- what connections share ---- */

/* The timer does not keep the loop alive. */
void inbound_conns_open_handles(struct inbound_conns *all)
{
    uv_loop_t *loop = all->opts->loop;
    uv_check_init(loop, &all->put_off_check);
    uv_idle_init(loop, &all->put_off_idle);
    uv_timer_init(loop, &all->pongs_timer);
    uv_unref((uv_handle_t *)&all->pongs_timer);
    all->put_off_check.data = all->put_off_idle.data = all->pongs_timer.data = all;
    all->n_handles += 3;
}

static void on_conns_handle_closed(uv_handle_t *handle)
{
    struct inbound_conns *all = handle->data;
    all->handle_closed(all);
}

void inbound_conns_close_handles(struct inbound_conns *all)
{
    uv_close((uv_handle_t *)&all->put_off_check, on_conns_handle_closed);
    uv_close((uv_handle_t *)&all->put_off_idle, on_conns_handle_closed);
    uv_close((uv_handle_t *)&all->pongs_timer, on_conns_handle_closed);
}
