/* bench/belfry-bench/h2conn.c */
#include "h2conn.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "die.h"
#include "h2frame.h"

#define READ_BYTES   ((size_t)256 << 10)
#define READS_A_TURN 4 /* so that one connection with a lot does not keep the others waiting */
#define WINDOW       65535u
#define GIVE_BACK    (WINDOW / 4)
#define MESSAGE_HEAD 5u
#define MESSAGE_MAX  ((size_t)256 << 20)
#define HEADERS_MAX  ((size_t)64 << 10)
#define TEXT_MAX     160
#define RECORD_MAX   16384 /* plain bytes of a record of TLS */

static const uint8_t bdp_ping[8] = {2, 4, 16, 16, 9, 14, 7, 7}; /* what grpc-go sends */

struct call {
    bool open;
    bool last_queued; /* END_STREAM goes with the last byte of `out` */
    uint32_t number;
    int64_t send_window;
    uint32_t unacked;
    int status;
    char text[TEXT_MAX];
    struct belfry_buf out;     /* messages with their heads, not framed yet */
    struct belfry_buf partial; /* the start of a message */
};

struct h2conn {
    struct poller_entry entry; /* first */
    /* fixed at creation */
    int poll, fd;
    const struct h2conn_events *events;
    void *user;
    uint32_t max_calls;
    struct call *calls;          /* owned; a call is at its number % max_calls */
    struct belfry_tls_conn *tls; /* owned; NULL: plain */

    enum h2conn_state state;
    bool paused, wants_write;
    uint32_t next_number;
    uint32_t unacked;
    bool bdp_sent;
    int64_t send_window, initial_window;
    uint64_t bytes_read;
    struct h2frame_cutter cutter;
    nghttp2_hd_inflater *inflater; /* from the first HEADERS on */
    struct belfry_buf headers;     /* a header block in CONTINUATIONs */
    uint32_t headers_id;           /* whose it is; 0: none */
    bool headers_end_stream;
    struct belfry_buf token; /* empty: none */
    struct belfry_buf out;
};

static uint32_t h2conn_id_of(const struct call *call)
{
    return call->number * 2 + 1;
}

static void h2conn_move(struct h2conn *conn, enum h2conn_state to)
{
    assert(to > conn->state);
    conn->state = to;
}

/* Frees nothing, because callers up the stack still use the connection. */
static void h2conn_fail(struct h2conn *conn, const char *why)
{
    if (conn->state == H2CONN_CLOSED)
        return;
    h2conn_move(conn, H2CONN_CLOSED);
    poller_forget(conn->poll, conn->fd);
    conn->events->failed(conn->user, why);
}

static void watch_fd(struct h2conn *conn, int op)
{
    uint32_t want = (conn->paused ? 0u : EPOLLIN) | (conn->wants_write ? EPOLLOUT : 0u);
    poller_watch(conn->poll, op, conn->fd, want, &conn->entry);
}

static void h2conn_want_write(struct h2conn *conn, bool want)
{
    if (conn->wants_write == want)
        return;
    conn->wants_write = want;
    watch_fd(conn, EPOLL_CTL_MOD);
}

/* ---- sending ---- */

static void h2conn_put(struct belfry_buf *buf, const void *data, size_t len)
{
    must(belfry_buf_append(buf, data, len), "buffer");
}

static void h2conn_put_window_update(struct h2conn *conn, uint32_t id, uint32_t by)
{
    uint8_t payload[4];
    h2frame_write_u32(payload, by);
    h2frame_put_head(&conn->out, H2FRAME_WINDOW_UPDATE, 0, id, sizeof(payload));
    h2conn_put(&conn->out, payload, sizeof(payload));
}

/* Queues as much of the call's messages as the windows allow. */
static void h2conn_frame_call(struct h2conn *conn, struct call *call)
{
    size_t left;
    while ((left = belfry_buf_len(&call->out)) > 0) {
        int64_t room = conn->send_window < call->send_window ? conn->send_window : call->send_window;
        if (room <= 0)
            return;
        size_t len = left < H2FRAME_MAX ? left : H2FRAME_MAX;
        if ((int64_t)len > room)
            len = (size_t)room;
        uint8_t flags = call->last_queued && len == left ? H2FRAME_END_STREAM : 0;
        h2frame_put_head(&conn->out, H2FRAME_DATA, flags, h2conn_id_of(call), len);
        h2conn_put(&conn->out, belfry_buf_bytes(&call->out).data, len);
        belfry_buf_take(&call->out, len);
        conn->send_window -= (int64_t)len;
        call->send_window -= (int64_t)len;
    }
}

static void h2conn_frame_all(struct h2conn *conn)
{
    for (uint32_t i = 0; i < conn->max_calls; i++)
        if (conn->calls[i].open)
            h2conn_frame_call(conn, &conn->calls[i]);
}

/* With TLS: encrypts what was queued, up to 64 KiB of it that wait for the socket. */
static void h2conn_encrypt(struct h2conn *conn)
{
    size_t n;
    while (conn->state == H2CONN_OPEN && belfry_buf_len(&conn->out) > 0 &&
           belfry_tls_conn_output(conn->tls).len < 2 * RECORD_MAX) {
        if (belfry_tls_conn_write(conn->tls, belfry_buf_bytes(&conn->out), &n) != BELFRY_OK) {
            h2conn_fail(conn, belfry_tls_conn_why(conn->tls));
            return;
        }
        belfry_buf_take(&conn->out, n);
    }
}

static struct belfry_bytes h2conn_to_send(struct h2conn *conn)
{
    if (conn->tls == NULL)
        return belfry_buf_bytes(&conn->out);
    h2conn_encrypt(conn);
    return belfry_tls_conn_output(conn->tls);
}

void h2conn_flush(struct h2conn *conn)
{
    struct belfry_bytes bytes;
    if (conn->state != H2CONN_OPEN && conn->state != H2CONN_SHAKING)
        return; /* it is written once connected */
    while ((bytes = h2conn_to_send(conn)).len > 0) {
        ssize_t n = send(conn->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n > 0 && conn->tls != NULL) {
            belfry_tls_conn_sent(conn->tls, (size_t)n);
        } else if (n > 0) {
            belfry_buf_take(&conn->out, (size_t)n);
        } else if (errno == EAGAIN) {
            h2conn_want_write(conn, true);
            return;
        } else if (errno != EINTR) {
            h2conn_fail(conn, strerror(errno));
            return;
        }
    }
    if (conn->state != H2CONN_CLOSED)
        h2conn_want_write(conn, false);
}

/* The open call on stream `id`, or NULL. */
static struct call *h2conn_call_of(struct h2conn *conn, uint32_t id)
{
    if (id % 2 == 0)
        return NULL;
    struct call *call = &conn->calls[id / 2 % conn->max_calls];
    return call->open && call->number == id / 2 ? call : NULL;
}

static void h2conn_end_call(struct h2conn *conn, struct call *call)
{
    uint32_t number = call->number;
    int status = call->status;
    char text[TEXT_MAX];
    memcpy(text, call->text, sizeof(text));
    belfry_buf_fini(&call->out);
    belfry_buf_fini(&call->partial);
    call->open = false;
    conn->events->ended(conn->user, number, status, text);
}

static void put_text(struct belfry_buf *buf, uint8_t name, const char *value)
{
    size_t len = strlen(value);
    assert(len < 127); /* the length is one byte */
    uint8_t head[3];
    size_t n = 0;
    if (name >= 15) { /* a literal's name has a prefix of four bits */
        head[n++] = 15;
        name = (uint8_t)(name - 15);
    }
    head[n++] = name;
    head[n++] = (uint8_t)len;
    h2conn_put(buf, head, n);
    h2conn_put(buf, value, len);
}

void h2conn_set_token(struct h2conn *conn, struct belfry_bytes token)
{
    belfry_buf_clear(&conn->token);
    h2conn_put(&conn->token, token.data, token.len);
}

/* A literal without indexing, of a new name; RFC 7541, 5.1 says how a length is written. */
static void put_token(struct belfry_buf *buf, struct belfry_bytes token)
{
    uint8_t head[4 + 8] = {0};
    size_t n = 0, left = token.len;
    h2conn_put(buf, "\x00\x05token", 7);
    head[n++] = (uint8_t)(left < 127 ? left : 127);
    if (left >= 127) {
        for (left -= 127; left >= 128; left >>= 7)
            head[n++] = (uint8_t)(left | 128);
        head[n++] = (uint8_t)left;
    }
    h2conn_put(buf, head, n);
    h2conn_put(buf, token.data, token.len);
}

uint32_t h2conn_call(struct h2conn *conn, const char *path)
{
    struct call *call = &conn->calls[conn->next_number % conn->max_calls];
    if (call->open)
        return UINT32_MAX;
    *call =
        (struct call){.open = true, .number = conn->next_number++, .send_window = conn->initial_window, .status = -1};
    struct belfry_buf block = {0};
    /* :method POST, :scheme http or https, by HPACK's static table; so are the names below */
    h2conn_put(&block, conn->tls == NULL ? "\x83\x86" : "\x83\x87", 2);
    put_text(&block, 4, path);
    put_text(&block, 1, "127.0.0.1");
    put_text(&block, 31, "application/grpc");
    put_text(&block, 58, "belfry-bench/" BELFRY_VERSION);
    h2conn_put(&block, "\x00\x02te\x08trailers", 13);
    if (belfry_buf_len(&conn->token) > 0)
        put_token(&block, belfry_buf_bytes(&conn->token));
    h2frame_put_head(&conn->out, H2FRAME_HEADERS, H2FRAME_END_HEADERS, h2conn_id_of(call), belfry_buf_len(&block));
    h2conn_put(&conn->out, belfry_buf_bytes(&block).data, belfry_buf_len(&block));
    belfry_buf_fini(&block);
    return call->number;
}

void h2conn_send(struct h2conn *conn, uint32_t number, struct belfry_bytes message, enum h2conn_more more)
{
    struct call *call = h2conn_call_of(conn, number * 2 + 1);
    assert(call != NULL && !call->last_queued);
    uint8_t head[MESSAGE_HEAD] = {0};
    h2frame_write_u32(head + 1, (uint32_t)message.len);
    h2conn_put(&call->out, head, sizeof(head));
    h2conn_put(&call->out, message.data, message.len);
    call->last_queued = more == H2CONN_LAST;
    h2conn_frame_call(conn, call);
}

/* ---- DATA ---- */

static bool take_message(struct h2conn *conn, struct call *call, struct belfry_bytes message)
{
    if (message.data[0] != 0) {
        h2conn_fail(conn, "a compressed message came, which was not asked for");
        return false;
    }
    uint32_t number = call->number;
    conn->events->message(conn->user, number, belfry_bytes_of(message.data + MESSAGE_HEAD, message.len - MESSAGE_HEAD));
    return conn->state == H2CONN_OPEN;
}

/* How long the message at the start of these bytes is, with its head; 0: not known yet. */
static size_t message_size(const uint8_t *data, size_t len)
{
    return len < MESSAGE_HEAD ? 0 : MESSAGE_HEAD + (size_t)h2frame_read_u32(data + 1);
}

/* Adds to the message that has begun. Returns how many of the bytes belong to it. */
static size_t go_on(struct call *call, const uint8_t *data, size_t len)
{
    size_t have = belfry_buf_len(&call->partial);
    size_t take = 0;
    if (have < MESSAGE_HEAD) {
        take = MESSAGE_HEAD - have < len ? MESSAGE_HEAD - have : len;
        h2conn_put(&call->partial, data, take);
        have += take;
    }
    if (have < MESSAGE_HEAD)
        return take;
    size_t size = message_size((const uint8_t *)belfry_buf_bytes(&call->partial).data, have);
    size_t more = size - have < len - take ? size - have : len - take;
    h2conn_put(&call->partial, data + take, more);
    return take + more;
}

static bool partial_is_whole(const struct call *call)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&call->partial);
    return bytes.len >= MESSAGE_HEAD && bytes.len == message_size((const uint8_t *)bytes.data, bytes.len);
}

static void read_messages(struct h2conn *conn, struct call *call, const uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t size = message_size(data, len);
        size_t used;
        if (belfry_buf_len(&call->partial) == 0 && size != 0 && size <= len) {
            used = size;
            if (!take_message(conn, call, belfry_bytes_of(data, size)))
                return;
        } else {
            used = go_on(call, data, len);
            if (partial_is_whole(call)) {
                if (!take_message(conn, call, belfry_buf_bytes(&call->partial)))
                    return;
                belfry_buf_clear(&call->partial);
            } else if (belfry_buf_len(&call->partial) > MESSAGE_MAX) {
                h2conn_fail(conn, "a message is longer than 256 MiB");
                return;
            }
        }
        data += used;
        len -= used;
    }
}

/* As grpc-go does: a ping when none is under way, after what the connection has used was given back. */
static void account(struct h2conn *conn, struct call *call, uint32_t len)
{
    conn->unacked += len;
    if (conn->unacked >= GIVE_BACK || !conn->bdp_sent) {
        h2conn_put_window_update(conn, 0, conn->unacked);
        conn->unacked = 0;
    }
    if (!conn->bdp_sent) {
        h2frame_put_head(&conn->out, H2FRAME_PING, 0, 0, sizeof(bdp_ping));
        h2conn_put(&conn->out, bdp_ping, sizeof(bdp_ping));
        conn->bdp_sent = true;
    }
    if (call == NULL)
        return;
    call->unacked += len;
    if (call->unacked >= GIVE_BACK) {
        h2conn_put_window_update(conn, h2conn_id_of(call), call->unacked);
        call->unacked = 0;
    }
}

static void on_data(struct h2conn *conn, const struct h2frame *frame)
{
    struct call *call = h2conn_call_of(conn, frame->id);
    const uint8_t *data = frame->payload;
    size_t len = frame->len;
    if (frame->len > 0)
        account(conn, call, (uint32_t)frame->len);
    if (frame->flags & H2FRAME_PADDED) {
        if (len == 0 || data[0] >= len) {
            h2conn_fail(conn, "padding is longer than its frame");
            return;
        }
        len -= 1 + (size_t)data[0];
        data++;
    }
    if (call == NULL)
        return;
    read_messages(conn, call, data, len);
    if (conn->state == H2CONN_OPEN && frame->flags & H2FRAME_END_STREAM)
        h2conn_end_call(conn, call);
}

/* ---- the rest ---- */

static void on_header(struct call *call, const nghttp2_nv *nv)
{
    size_t len = nv->valuelen < TEXT_MAX - 1 ? nv->valuelen : TEXT_MAX - 1;
    bool is_status = nv->namelen == 11 && memcmp(nv->name, "grpc-status", 11) == 0;
    bool is_text = nv->namelen == 12 && memcmp(nv->name, "grpc-message", 12) == 0;
    bool is_http = nv->namelen == 7 && memcmp(nv->name, ":status", 7) == 0;
    char value[TEXT_MAX];
    memcpy(value, nv->value, len);
    value[len] = '\0';
    if (is_status)
        call->status = atoi(value);
    else if (is_text)
        snprintf(call->text, sizeof(call->text), "%s", value);
    else if (is_http && strcmp(value, "200") != 0)
        snprintf(call->text, sizeof(call->text), "HTTP status %.3s", value);
}

static void on_header_block(struct h2conn *conn, uint32_t id, struct belfry_bytes block, bool end_stream)
{
    if (conn->inflater == NULL && nghttp2_hd_inflate_new(&conn->inflater) != 0)
        die("out of memory");
    struct call *call = h2conn_call_of(conn, id);
    const uint8_t *at = (const uint8_t *)block.data;
    size_t left = block.len;
    int flags = 0;
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv nv;
        flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(conn->inflater, &nv, &flags, at, left, 1);
        if (n < 0) {
            h2conn_fail(conn, "a header block cannot be read");
            return;
        }
        at += n;
        left -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT && call != NULL)
            on_header(call, &nv);
    }
    nghttp2_hd_inflate_end_headers(conn->inflater);
    if (end_stream && call != NULL)
        h2conn_end_call(conn, call);
}

static void on_headers(struct h2conn *conn, const struct h2frame *frame)
{
    size_t skip = (frame->flags & H2FRAME_PADDED ? 1u : 0u) + (frame->flags & H2FRAME_PRIORITY ? 5u : 0u);
    size_t pad = frame->flags & H2FRAME_PADDED && frame->len > 0 ? frame->payload[0] : 0;
    if (skip + pad > frame->len) {
        h2conn_fail(conn, "padding is longer than its frame");
        return;
    }
    struct belfry_bytes block = belfry_bytes_of(frame->payload + skip, frame->len - skip - pad);
    if (frame->flags & H2FRAME_END_HEADERS) {
        on_header_block(conn, frame->id, block, frame->flags & H2FRAME_END_STREAM);
        return;
    }
    conn->headers_id = frame->id;
    conn->headers_end_stream = frame->flags & H2FRAME_END_STREAM;
    h2conn_put(&conn->headers, block.data, block.len);
}

static void on_continuation(struct h2conn *conn, const struct h2frame *frame)
{
    h2conn_put(&conn->headers, frame->payload, frame->len);
    if (belfry_buf_len(&conn->headers) > HEADERS_MAX) {
        h2conn_fail(conn, "a header block is longer than 64 KiB");
        return;
    }
    if (!(frame->flags & H2FRAME_END_HEADERS))
        return;
    uint32_t id = conn->headers_id;
    conn->headers_id = 0;
    on_header_block(conn, id, belfry_buf_bytes(&conn->headers), conn->headers_end_stream);
    belfry_buf_clear(&conn->headers);
}

static void on_settings(struct h2conn *conn, const struct h2frame *frame)
{
    if (frame->flags & H2FRAME_ACK)
        return;
    for (size_t at = 0; at + 6 <= frame->len; at += 6) {
        unsigned name = (unsigned)frame->payload[at] << 8 | frame->payload[at + 1];
        uint32_t value = h2frame_read_u32(frame->payload + at + 2);
        if (name != NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
            continue;
        for (uint32_t i = 0; i < conn->max_calls; i++)
            conn->calls[i].send_window += (int64_t)value - conn->initial_window;
        conn->initial_window = value;
    }
    h2frame_put_head(&conn->out, H2FRAME_SETTINGS, H2FRAME_ACK, 0, 0);
    h2conn_frame_all(conn);
}

static void on_ping(struct h2conn *conn, const struct h2frame *frame)
{
    if (frame->len != sizeof(bdp_ping)) {
        h2conn_fail(conn, "a PING has a wrong length");
    } else if (!(frame->flags & H2FRAME_ACK)) {
        h2frame_put_head(&conn->out, H2FRAME_PING, H2FRAME_ACK, 0, frame->len);
        h2conn_put(&conn->out, frame->payload, frame->len);
    } else if (memcmp(frame->payload, bdp_ping, sizeof(bdp_ping)) == 0) {
        conn->bdp_sent = false;
    }
}

static void on_window_update(struct h2conn *conn, const struct h2frame *frame)
{
    if (frame->len != 4)
        return;
    uint32_t by = h2frame_read_u32(frame->payload) & 0x7fffffffu;
    struct call *call = h2conn_call_of(conn, frame->id);
    if (frame->id == 0) {
        conn->send_window += by;
        h2conn_frame_all(conn);
    } else if (call != NULL) {
        call->send_window += by;
        h2conn_frame_call(conn, call);
    }
}

static void on_rst_stream(struct h2conn *conn, const struct h2frame *frame)
{
    struct call *call = h2conn_call_of(conn, frame->id);
    if (call == NULL || frame->len != 4)
        return;
    snprintf(call->text, sizeof(call->text), "RST_STREAM with code %u", h2frame_read_u32(frame->payload));
    h2conn_end_call(conn, call);
}

static void on_frame(struct h2conn *conn, const struct h2frame *frame)
{
    if (conn->headers_id != 0 && (frame->type != H2FRAME_CONTINUATION || frame->id != conn->headers_id)) {
        h2conn_fail(conn, "a header block was broken off");
        return;
    }
    switch (frame->type) {
    case H2FRAME_DATA:
        on_data(conn, frame);
        break;
    case H2FRAME_HEADERS:
        on_headers(conn, frame);
        break;
    case H2FRAME_CONTINUATION:
        if (conn->headers_id != 0)
            on_continuation(conn, frame);
        break;
    case H2FRAME_SETTINGS:
        on_settings(conn, frame);
        break;
    case H2FRAME_PING:
        on_ping(conn, frame);
        break;
    case H2FRAME_WINDOW_UPDATE:
        on_window_update(conn, frame);
        break;
    case H2FRAME_RST_STREAM:
        on_rst_stream(conn, frame);
        break;
    case H2FRAME_GOAWAY:
        h2conn_fail(conn, "the server said GOAWAY");
        break;
    case H2FRAME_PUSH_PROMISE:
        h2conn_fail(conn, "the server pushes");
        break;
    default: /* RFC 9113, 4.1: others are ignored */
        break;
    }
}

static void h2conn_read_bytes(struct h2conn *conn, struct belfry_bytes bytes)
{
    struct h2frame frame;
    while (conn->state == H2CONN_OPEN) {
        switch (h2frame_cut(&conn->cutter, &bytes, &frame)) {
        case H2FRAME_CUT:
            on_frame(conn, &frame);
            break;
        case H2FRAME_INCOMPLETE:
            return;
        case H2FRAME_TOO_LONG:
            h2conn_fail(conn, "a frame is longer than 16 KiB");
            return;
        }
    }
}

/* ---- the socket ---- */

static bool h2conn_is_up(const struct h2conn *conn)
{
    return conn->state == H2CONN_OPEN || conn->state == H2CONN_SHAKING;
}

static void h2conn_shake(struct h2conn *conn)
{
    enum belfry_err err = belfry_tls_conn_handshake(conn->tls);
    if (err == BELFRY_OK)
        h2conn_move(conn, H2CONN_OPEN);
    else if (err != BELFRY_ERR_AGAIN)
        h2conn_fail(conn, belfry_tls_conn_why(conn->tls));
}

/* Uses all bytes, because they are lent. */
static void h2conn_decrypt(struct h2conn *conn, struct belfry_bytes bytes)
{
    static _Thread_local uint8_t plain[RECORD_MAX];
    size_t n;
    enum belfry_err err = BELFRY_OK;
    belfry_tls_conn_feed(conn->tls, bytes);
    if (conn->state == H2CONN_SHAKING)
        h2conn_shake(conn);
    while (conn->state == H2CONN_OPEN && err == BELFRY_OK) {
        err = belfry_tls_conn_read(conn->tls, plain, sizeof(plain), &n);
        if (err == BELFRY_OK)
            h2conn_read_bytes(conn, belfry_bytes_of(plain, n));
        else if (err == BELFRY_ERR_UNAVAILABLE)
            h2conn_fail(conn, "the server closed the connection");
        else if (err != BELFRY_ERR_AGAIN)
            h2conn_fail(conn, belfry_tls_conn_why(conn->tls));
    }
}

static void on_readable(struct h2conn *conn)
{
    static _Thread_local uint8_t data[READ_BYTES];
    for (int i = 0; i < READS_A_TURN && h2conn_is_up(conn) && !conn->paused; i++) {
        ssize_t n = recv(conn->fd, data, sizeof(data), 0);
        if (n > 0) {
            conn->bytes_read += (uint64_t)n;
            if (conn->tls != NULL)
                h2conn_decrypt(conn, belfry_bytes_of(data, (size_t)n));
            else
                h2conn_read_bytes(conn, belfry_bytes_of(data, (size_t)n));
        } else if (n == 0) {
            h2conn_fail(conn, "the server closed the connection");
        } else if (errno != EAGAIN && errno != EINTR) {
            h2conn_fail(conn, strerror(errno));
        }
        if (n < (ssize_t)sizeof(data))
            break;
    }
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
    h2conn_move(conn, conn->tls == NULL ? H2CONN_OPEN : H2CONN_SHAKING);
    if (conn->tls != NULL)
        h2conn_shake(conn);
    h2conn_flush(conn);
}

static void on_ready(struct poller_entry *entry, uint32_t events)
{
    struct h2conn *conn = (struct h2conn *)entry; /* its first member */
    if (conn->state == H2CONN_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        on_connected(conn);
    else if (events & EPOLLOUT)
        h2conn_flush(conn);
    if (h2conn_is_up(conn) && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        on_readable(conn);
}

struct h2conn *h2conn_create_on(int poll, int fd, struct belfry_tls_conn *tls, uint32_t max_calls,
                                const struct h2conn_events *events, void *user)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct h2conn *conn = must_have(calloc(1, sizeof(*conn)));
    conn->entry.ready = on_ready;
    conn->poll = poll;
    conn->fd = fd;
    conn->tls = tls;
    conn->events = events;
    conn->user = user;
    conn->max_calls = max_calls;
    conn->calls = must_have(calloc(max_calls, sizeof(*conn->calls)));
    conn->send_window = conn->initial_window = WINDOW;
    h2conn_put(&conn->out, preface, sizeof(preface) - 1);
    h2frame_put_head(&conn->out, H2FRAME_SETTINGS, 0, 0, 0);
    conn->wants_write = true;
    watch_fd(conn, EPOLL_CTL_ADD);
    return conn;
}

struct h2conn *h2conn_create(int poll, const struct target *target, uint32_t max_calls,
                             const struct h2conn_events *events, void *user)
{
    struct belfry_tls_conn *tls = NULL;
    if (target->tls != NULL)
        must(belfry_tls_conn_create(target->tls, target->host, &tls), "TLS");
    struct h2conn *conn = h2conn_create_on(poll, target_connect(target), tls, max_calls, events, user);
    if (target->bearer.len > 0)
        h2conn_set_token(conn, target->bearer);
    return conn;
}

void h2conn_destroy(struct h2conn *conn)
{
    if (conn == NULL)
        return;
    close(conn->fd);
    belfry_tls_conn_destroy(conn->tls);
    for (uint32_t i = 0; i < conn->max_calls; i++) {
        belfry_buf_fini(&conn->calls[i].out);
        belfry_buf_fini(&conn->calls[i].partial);
    }
    free(conn->calls);
    if (conn->inflater != NULL)
        nghttp2_hd_inflate_del(conn->inflater);
    h2frame_cutter_fini(&conn->cutter);
    belfry_buf_fini(&conn->headers);
    belfry_buf_fini(&conn->token);
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
