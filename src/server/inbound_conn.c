/* src/server/inbound_conn.c */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/inbound_private.h"

#define READ_BYTES     (64 * 1024)
#define PLAIN_BYTES    (16 * 1024) /* of one TLS record */
#define READ_LEAST     (2 * 1024)
#define READS_PER_TURN 4
#define READ_NS        500000 /* what a read should take, with all that it sets off; and what a turn's may take */
#define ENOUGH         (64 * 1024)
#define ENOUGH_TLS     (32 * 1024)  /* and a frame: tls_conn takes no more than 64 KiB unsent */
#define TLS_COST       (16 * 1024)  /* about what OpenSSL keeps of an idle connection */
#define OUTPUT_KEPT    (256 * 1024) /* the group's buffer is not kept larger */

#define HEAD_LATE "belfry: a request's head was begun and not completed in time"

static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- states ---- */

static void move(struct inbound_conn *c, enum inbound_state next)
{
    struct inbound_group *group = c->group;
    assert(next > c->state && !(c->state == INBOUND_HTTP1 && next == INBOUND_HTTP2));
    assert(next != INBOUND_HANDSHAKE);
    group->n_http1 += (next == INBOUND_HTTP1) - (c->state == INBOUND_HTTP1);
    group->n_http2 += (next == INBOUND_HTTP2) - (c->state == INBOUND_HTTP2);
    c->state = next;
}

static bool speaks(const struct inbound_conn *c)
{
    return c->state == INBOUND_HTTP1 || c->state == INBOUND_HTTP2;
}

static void set_blocked(struct inbound_conn *c, bool blocked)
{
    c->group->n_blocked += blocked - c->blocked;
    c->blocked = blocked;
}

static void make_dirty(struct inbound_conn *c)
{
    if (belfry_list_empty(&c->in_dirty))
        belfry_list_append(&c->group->dirty, &c->in_dirty);
}

/* ---- whichever protocol it is ---- */

static void on_wants_flush(void *user)
{
    make_dirty(user);
}

/* A request's head is complete: whoever waits for one waits no longer. */
static void on_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    struct inbound_conn *c = user;
    inbound_wait(c, INBOUND_WAIT_NONE, 0);
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
    move(c, INBOUND_HTTP1);
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
                                  .memory = &c->group->memory,
                                  .wants_flush = on_wants_flush,
                                  .flush_user = c};
    enum belfry_err err = h2_server_create(&opts, &c->h2);
    if (err != BELFRY_OK)
        return err;
    move(c, INBOUND_HTTP2);
    make_dirty(c); /* our SETTINGS */
    if (c->info.leaving)
        h2_server_shut(c->h2);
    return BELFRY_OK;
}

static enum belfry_err server_receive(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    return c->h1 != NULL ? h1_server_receive(c->h1, bytes) : h2_server_receive(c->h2, bytes, now_ms);
}

static enum belfry_err server_pull(struct inbound_conn *c, size_t enough, struct belfry_buf *out)
{
    return c->h1 != NULL ? h1_server_pull(c->h1, enough, out) : h2_server_pull(c->h2, enough, out);
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
        make_dirty(c); /* the next flush goes on */
}

static void server_destroy(struct inbound_conn *c)
{
    struct h1_server *h1 = c->h1;
    struct h2_server *h2 = c->h2;
    c->h1 = NULL;
    c->h2 = NULL;
    intake_leave(&c->info.intake);
    h1_server_destroy(h1);
    if (h2 != NULL)
        inbound_leave(c, h2);
}

/* What it costs, but for what HTTP/2 counts itself. */
static size_t cost(const struct inbound_conn *c)
{
    if (c->state == INBOUND_CLOSING)
        return 0;
    size_t n = sizeof(*c) + c->rest.cap;
    if (c->tls != NULL)
        n += TLS_COST + belfry_tls_conn_output(c->tls).len;
    return c->h1 != NULL ? n + h1_server_bytes(c->h1) : n;
}

static void count(struct inbound_conn *c)
{
    size_t now = cost(c);
    exchange_memory_count(&c->group->memory, c->counted, now);
    c->counted = now;
}

void inbound_conn_shut(struct inbound_conn *c)
{
    c->info.leaving = true;
    if (c->h1 != NULL)
        h1_server_shut(c->h1);
    if (c->h2 != NULL)
        h2_server_shut(c->h2);
    make_dirty(c);
}

/* ---- the end ---- */

void inbound_conn_release(struct inbound_conn *c)
{
    if (--c->holds > 0)
        return;
    inbound_release(c->group);
    free(c);
}

static void on_closed(uv_handle_t *handle)
{
    inbound_conn_release(handle->data);
}

/* One try for what TLS still has to say: an alert, a goodbye. */
static void send_last_words(struct inbound_conn *c)
{
    struct belfry_bytes output = belfry_tls_conn_output(c->tls);
    if (speaks(c) && output.len == 0)
        belfry_tls_conn_end(c->tls);
    output = belfry_tls_conn_output(c->tls);
    if (output.len > 0)
        (void)send(c->fd, output.data, output.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void inbound_conn_close(struct inbound_conn *c)
{
    struct inbound_group *group = c->group;
    if (c->state == INBOUND_CLOSING)
        return;
    if (c->tls != NULL)
        send_last_words(c);
    move(c, INBOUND_CLOSING);
    count(c);
    server_destroy(c);
    belfry_tls_conn_destroy(c->tls);
    belfry_buf_fini(&c->rest);
    inbound_wait(c, INBOUND_WAIT_NONE, 0);
    belfry_list_remove(&c->in_dirty);
    belfry_list_remove(&c->in_probed);
    belfry_list_remove(&c->in_group);
    belfry_list_remove(&c->in_expelled);
    set_blocked(c, false);
    group->n_tls -= c->info.tls;
    group->stats.connections--;
    group->stats.closed++;
    uv_close((uv_handle_t *)&c->poll, on_closed);
    close(c->fd);
    c->fd = -1;
}

/* All was said and is sent. */
static void linger(struct inbound_conn *c, uint64_t now_ms)
{
    if (c->input_ended) {
        inbound_conn_close(c);
        return;
    }
    if (c->tls != NULL)
        send_last_words(c);
    shutdown(c->fd, SHUT_WR);
    move(c, INBOUND_LINGERING);
    server_destroy(c);
    belfry_list_remove(&c->in_dirty);
    inbound_wait(c, INBOUND_WAIT_LINGER, now_ms);
}

void inbound_conn_time_is_up(struct inbound_conn *c, uint64_t now_ms)
{
    if (c->state == INBOUND_HTTP2 && c->wait == INBOUND_WAIT_HEAD) {
        h2_server_expel(c->h2, HEAD_LATE);
        inbound_conn_finish_expelled(c, now_ms);
    } else if (c->state == INBOUND_HTTP2 && c->wait == INBOUND_WAIT_LINGER) { /* it was shut, and had time to answer */
        linger(c, now_ms);
    } else {
        inbound_conn_close(c);
    }
}

/* ---- what is next ---- */

static bool wants_read(const struct inbound_conn *c)
{
    if (c->state == INBOUND_LINGERING)
        return true;
    if (c->input_ended || c->last)
        return false;
    if (c->state == INBOUND_HTTP2)
        return h2_server_wants_read(c->h2);
    return c->state != INBOUND_HTTP1 || h1_server_wants_read(c->h1);
}

/* The call costs two of the kernel's, so it is made only when something changed. A socket that is not watched cannot
 * tell that its peer is gone: it is asked from time to time. */
static void watch(struct inbound_conn *c, uint64_t now_ms)
{
    int events = (wants_read(c) ? UV_READABLE : 0) | (c->blocked ? UV_WRITABLE : 0);
    if (events == c->watched)
        return;
    c->watched = events;
    if (events == 0) {
        uv_poll_stop(&c->poll);
        inbound_wait_probe(c, now_ms);
        return;
    }
    int code = uv_poll_start(&c->poll, events, on_poll);
    assert(code == 0); /* it only fails for a descriptor that is not open */
    (void)code;
}

static bool is_over(const struct inbound_conn *c)
{
    if (!speaks(c) || c->blocked)
        return false;
    return c->last ? !server_wants_write(c) : c->h1 != NULL && h1_server_over(c->h1);
}

static void wait_for_request(struct inbound_conn *c, uint64_t now_ms)
{
    bool idle = c->wait == INBOUND_WAIT_IDLE;
    if (c->state == INBOUND_HTTP1 && (idle || c->wait == INBOUND_WAIT_NONE) && h1_server_in_head(c->h1))
        inbound_wait(c, INBOUND_WAIT_HEAD, now_ms);
    if (c->wait != INBOUND_WAIT_NONE || c->blocked)
        return;
    if (c->state == INBOUND_HTTP1 && h1_server_open(c->h1) == 0)
        inbound_wait(c, INBOUND_WAIT_IDLE, now_ms);
    else if (c->state == INBOUND_HTTP2 && c->info.leaving && h2_server_open(c->h2) == 0)
        inbound_wait(c, INBOUND_WAIT_LINGER, now_ms);
}

/* After whatever happened. */
static void settle(struct inbound_conn *c, uint64_t now_ms)
{
    if (is_over(c))
        linger(c, now_ms);
    if (c->state == INBOUND_CLOSING)
        return;
    count(c);
    wait_for_request(c, now_ms);
    watch(c, now_ms);
}

/* ---- writing ---- */

/* Returns how many of the bytes went, or -1 when the connection is lost. */
static ssize_t send_some(struct inbound_conn *c, struct belfry_bytes bytes)
{
    ssize_t n;
    do
        n = send(c->fd, bytes.data, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return -1;
    n = n < 0 ? 0 : n;
    c->group->stats.writes++;
    c->group->stats.bytes_out += (uint64_t)n;
    set_blocked(c, (size_t)n < bytes.len);
    return n;
}

static bool send_tls(struct inbound_conn *c)
{
    struct belfry_bytes output = belfry_tls_conn_output(c->tls);
    if (output.len == 0)
        return true;
    ssize_t n = send_some(c, output);
    if (n >= 0)
        belfry_tls_conn_sent(c->tls, (size_t)n);
    return n >= 0;
}

static bool encrypt(struct inbound_conn *c, struct belfry_bytes bytes)
{
    for (size_t n; bytes.len > 0; bytes = belfry_bytes_of(bytes.data + n, bytes.len - n)) {
        if (belfry_tls_conn_write(c->tls, bytes, &n) != BELFRY_OK)
            return false;
    }
    return true;
}

static bool send_plain(struct inbound_conn *c, struct belfry_bytes bytes)
{
    ssize_t n = send_some(c, bytes);
    if (n < 0)
        return false;
    return belfry_buf_append(&c->rest, bytes.data + n, bytes.len - (size_t)n) == BELFRY_OK;
}

/* What was left over when the socket was full. False: the connection is lost. */
static bool send_rest(struct inbound_conn *c)
{
    if (c->tls != NULL)
        return send_tls(c);
    size_t len = belfry_buf_len(&c->rest);
    if (len == 0)
        return true;
    ssize_t n = send_some(c, belfry_buf_bytes(&c->rest));
    if (n < 0)
        return false;
    belfry_buf_take(&c->rest, (size_t)n);
    if ((size_t)n == len)
        belfry_buf_fini(&c->rest);
    return true;
}

static void log_end(const struct inbound_conn *c, enum belfry_log_level level, const char *event, const char *why)
{
    belfry_logf(c->group->opts.log, level, event, "peer=%s id=%llu why=\"%s\"", c->info.peer,
                (unsigned long long)c->info.id, why);
}

/* The protocol was broken: what the server has to say about it is the last that is sent, and nothing more is read. */
static void break_off(struct inbound_conn *c, enum belfry_err err)
{
    if (c->last)
        return;
    enum h2_server_fault fault = c->h2 != NULL ? h2_server_fault(c->h2) : H2_SERVER_BREACH;
    if (fault == H2_SERVER_BREACH)
        log_end(c, BELFRY_LOG_DEBUG, "connection_refused", belfry_strerror((int)err));
    c->group->stats.refused_floods += c->h2 != NULL && fault == H2_SERVER_BREACH;
    c->last = true;
    make_dirty(c);
}

/* Pulls through the group's buffer and writes once. */
static bool pull_and_send(struct inbound_conn *c)
{
    struct belfry_buf *out = &c->group->output;
    bool fine = true;
    enum belfry_err err = server_pull(c, c->tls != NULL ? ENOUGH_TLS : ENOUGH, out);
    if (err == BELFRY_ERR_NOMEM)
        fine = false;
    else if (err != BELFRY_OK)
        break_off(c, err); /* a GOAWAY may have been pulled */
    if (fine && belfry_buf_len(out) > 0)
        fine = c->tls != NULL ? encrypt(c, belfry_buf_bytes(out)) && send_tls(c) : send_plain(c, belfry_buf_bytes(out));
    belfry_buf_clear(out);
    if (out->cap > OUTPUT_KEPT)
        belfry_buf_fini(out);
    return fine;
}

static void flush_server(struct inbound_conn *c)
{
    if (!pull_and_send(c)) {
        inbound_conn_close(c);
        return;
    }
    if (c->blocked) {
        server_hold(c);
        return;
    }
    if (!c->last)
        server_unhold(c);
    if (server_wants_write(c))
        make_dirty(c);
}

void inbound_conn_flush(struct inbound_conn *c, uint64_t now_ms)
{
    if (c->blocked) /* it comes back by the poll */
        return;
    if (!send_rest(c)) {
        inbound_conn_close(c);
        return;
    }
    if (c->blocked)
        server_hold(c);
    else if (speaks(c))
        flush_server(c);
    if (c->state == INBOUND_CLOSING)
        return;
    inbound_wait_probe(c, now_ms);
    settle(c, now_ms);
}

void inbound_conn_expel(struct inbound_conn *c)
{
    char why[160];
    if (c->h2 == NULL) /* HTTP/1.1 has no share */
        return;
    snprintf(why, sizeof(why),
             "belfry: a limit was reached, and no connection held more of unfinished requests: %zu bytes",
             c->info.intake.bytes);
    log_end(c, BELFRY_LOG_WARN, "connection_expelled", why);
    h2_server_expel(c->h2, why);
    belfry_list_append(&c->group->expelled, &c->in_expelled);
}

/* One try to tell the peer. */
void inbound_conn_finish_expelled(struct inbound_conn *c, uint64_t now_ms)
{
    belfry_list_remove(&c->in_dirty);
    inbound_conn_flush(c, now_ms);
    if (speaks(c))
        inbound_conn_close(c); /* its socket is full */
}

/* The owner flushes before its loop blocks, so that what was said goes out with what others said meanwhile. */
static void on_writable(struct inbound_conn *c)
{
    if (!send_rest(c)) {
        inbound_conn_close(c);
        return;
    }
    if (c->blocked || !speaks(c))
        return;
    if (!c->last)
        server_unhold(c);
    make_dirty(c);
}

/* ---- reading ---- */

/* Whoever asked does not wait behind ten thousand who are told of a change. */
static void answer_promptly(struct inbound_conn *c)
{
    if (belfry_list_empty(&c->in_dirty))
        return;
    belfry_list_remove(&c->in_dirty);
    belfry_list_append(&c->group->prompt, &c->in_dirty);
}

/* Each head has its own time, from its first byte on: bytes that trickle in give it no more. */
static void wait_for_head(struct inbound_conn *c, uint64_t now_ms)
{
    uint64_t since_ms = h2_server_head_since(c->h2);
    if (since_ms == 0 && c->wait == INBOUND_WAIT_HEAD)
        inbound_wait(c, INBOUND_WAIT_NONE, 0);
    bool is_new = c->wait == INBOUND_WAIT_NONE || (c->wait == INBOUND_WAIT_HEAD && c->head_since_ms != since_ms);
    if (since_ms == 0 || !is_new)
        return;
    c->head_since_ms = since_ms;
    inbound_wait(c, INBOUND_WAIT_HEAD, now_ms);
}

static void speak(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    enum belfry_err err = server_receive(c, bytes, now_ms);
    answer_promptly(c);
    if (err == BELFRY_ERR_NOMEM) {
        inbound_conn_close(c);
        return;
    }
    if (err != BELFRY_OK) {
        break_off(c, err);
        return;
    }
    /* Whoever has greeted may be idle for as long as it likes. */
    if (c->h2 != NULL && c->wait == INBOUND_WAIT_GREET && h2_server_greeted(c->h2))
        inbound_wait(c, INBOUND_WAIT_NONE, 0);
    if (c->h2 != NULL)
        wait_for_head(c, now_ms);
    if (!c->blocked)
        server_unhold(c);
    if (is_over(c))
        make_dirty(c);
}

/* Decides as soon as a byte differs or all are there, and hands on what was kept meanwhile. */
static void sniff(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    static const char wanted[] = INBOUND_SNIFF;
    bool same = true;
    while (same && bytes.len > 0 && c->n_sniffed < sizeof(c->sniffed)) {
        same = bytes.data[0] == wanted[c->n_sniffed];
        c->sniffed[c->n_sniffed++] = bytes.data[0];
        bytes = belfry_bytes_of(bytes.data + 1, bytes.len - 1);
    }
    if (same && c->n_sniffed < sizeof(c->sniffed))
        return;
    if ((same ? start_http2(c) : start_http1(c)) != BELFRY_OK) {
        inbound_conn_close(c);
        return;
    }
    speak(c, belfry_bytes_of(c->sniffed, c->n_sniffed), now_ms);
    if (speaks(c) && !c->last && bytes.len > 0)
        speak(c, bytes, now_ms);
}

static void shake_hands(struct inbound_conn *c)
{
    enum belfry_err err = belfry_tls_conn_handshake(c->tls);
    if (belfry_tls_conn_output(c->tls).len > 0)
        make_dirty(c);
    if (err == BELFRY_ERR_AGAIN)
        return;
    if (err == BELFRY_OK) {
        snprintf(c->info.user, sizeof(c->info.user), "%s", belfry_tls_conn_user(c->tls));
        err = strcmp(belfry_tls_conn_alpn(c->tls), "h2") == 0 ? start_http2(c) : start_http1(c);
    }
    if (err == BELFRY_OK)
        return;
    log_end(c, BELFRY_LOG_DEBUG, "handshake_failed",
            err == BELFRY_ERR_TLS ? belfry_tls_conn_why(c->tls) : belfry_strerror((int)err));
    inbound_conn_close(c);
}

static void end_input(struct inbound_conn *c)
{
    c->input_ended = true;
    if (c->state != INBOUND_HTTP1) {
        inbound_conn_close(c);
        return;
    }
    h1_server_input_ended(c->h1);
    make_dirty(c);
}

/* All that was fed is used, for it is lent. The peer's goodbye is the end of its input. */
static void decrypt(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    belfry_tls_conn_feed(c->tls, bytes);
    if (c->state == INBOUND_HANDSHAKE)
        shake_hands(c);
    while (speaks(c) && !c->last) {
        size_t n;
        enum belfry_err err = belfry_tls_conn_read(c->tls, c->group->plain, PLAIN_BYTES, &n);
        if (err == BELFRY_OK) {
            speak(c, belfry_bytes_of(c->group->plain, n), now_ms);
            continue;
        }
        if (err == BELFRY_ERR_UNAVAILABLE)
            end_input(c);
        else if (err != BELFRY_ERR_AGAIN)
            inbound_conn_close(c);
        break;
    }
    if (speaks(c) && belfry_tls_conn_output(c->tls).len > 0)
        make_dirty(c);
}

static void receive(struct inbound_conn *c, struct belfry_bytes bytes, uint64_t now_ms)
{
    if (c->state == INBOUND_LINGERING)
        return;
    if (c->tls != NULL)
        decrypt(c, bytes, now_ms);
    else if (c->state == INBOUND_SNIFFING)
        sniff(c, bytes, now_ms);
    else
        speak(c, bytes, now_ms);
}

/* A few bytes may be a request, and sixty thousand a part of one: how much is read follows how long it takes. */
static void adapt(struct inbound_conn *c, uint64_t took_ns)
{
    if (took_ns > READ_NS)
        c->read_bytes = c->read_bytes / 2 > READ_LEAST ? c->read_bytes / 2 : READ_LEAST;
    else if (took_ns < READ_NS / 4 && c->read_bytes < READ_BYTES)
        c->read_bytes *= 2;
}

static void on_readable(struct inbound_conn *c, uint64_t now_ms)
{
    uint64_t began = uv_hrtime(), last = began;
    for (int i = 0; i < READS_PER_TURN && c->state != INBOUND_CLOSING && wants_read(c); i++) {
        ssize_t most = c->read_bytes, n = recv(c->fd, c->group->input, (size_t)most, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        if (n < 0) {
            inbound_conn_close(c);
            return;
        }
        if (n == 0) {
            end_input(c);
            return;
        }
        c->group->stats.bytes_in += (uint64_t)n;
        receive(c, belfry_bytes_of(c->group->input, (size_t)n), now_ms);
        uint64_t now = uv_hrtime();
        adapt(c, now - last);
        last = now;
        if (n < most || now - began > READ_NS)
            return; /* most likely all there was; if not, the poll says so */
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct inbound_conn *c = poll->data;
    uint64_t now_ms = belfry_clock_ms();
    if (status < 0) {
        inbound_conn_close(c);
        return;
    }
    if ((events & UV_WRITABLE) != 0 && c->blocked)
        on_writable(c);
    if ((events & UV_READABLE) != 0 && c->state != INBOUND_CLOSING)
        on_readable(c, now_ms);
    if (c->state != INBOUND_CLOSING)
        settle(c, now_ms);
}

/* ---- the beginning ---- */

/* Unix sockets know none of it but the buffer, and are fine without: whatever fails is no reason to refuse. */
static void set_options(int fd, int sndbuf)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},    {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 30},
        {IPPROTO_TCP, TCP_KEEPINTVL, 10}, {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

static struct inbound_conn *make(struct inbound_group *group, int fd, const char *peer, const void *policy)
{
    static atomic_uint_fast64_t next_id = 1;
    struct inbound_conn *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->group = group;
    c->fd = fd;
    c->read_bytes = READ_BYTES / 4;
    c->wait = INBOUND_WAIT_NONE;
    c->info.id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
    c->info.policy = policy;
    snprintf(c->info.peer, sizeof(c->info.peer), "%s", peer);
    belfry_list_init(&c->in_group);
    belfry_list_init(&c->in_dirty);
    belfry_list_init(&c->in_wait);
    belfry_list_init(&c->in_probed);
    belfry_list_init(&c->in_leaving);
    belfry_list_init(&c->in_expelled);
    intake_join(&group->intake, &c->info.intake);
    c->holds = 1;
    return c;
}

static void join(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_group *group = c->group;
    group->n_handles++;
    group->n_tls += c->info.tls;
    group->stats.connections++;
    c->number = ++group->stats.accepted;
    c->info.leaving = group->shut;
    belfry_list_append(group->shut ? &group->shutting : &group->conns, &c->in_group);
    inbound_wait(c, INBOUND_WAIT_GREET, now_ms);
    count(c);
    watch(c, now_ms);
}

enum belfry_err inbound_conn_open(struct inbound_group *group, int fd, const char *peer, struct belfry_tls *tls,
                                  const void *policy, uint64_t now_ms)
{
    enum belfry_err err = BELFRY_ERR_NOMEM;
    struct inbound_conn *c = make(group, fd, peer, policy);
    if (c == NULL)
        goto fail;
    if (tls != NULL) {
        if ((err = belfry_tls_conn_accept(tls, &c->tls)) != BELFRY_OK)
            goto fail;
        c->info.tls = true;
        c->state = INBOUND_HANDSHAKE;
    }
    set_options(fd, group->opts.sndbuf);
    if (uv_poll_init(group->opts.loop, &c->poll, fd) != 0) { /* makes it non-blocking */
        err = BELFRY_ERR_IO;
        goto fail;
    }
    c->poll.data = c;
    join(c, now_ms);
    return BELFRY_OK;

fail:
    if (c != NULL)
        belfry_tls_conn_destroy(c->tls);
    free(c);
    close(fd);
    return err;
}
