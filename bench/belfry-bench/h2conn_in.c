/* bench/belfry-bench/h2conn_in.c: frames as they come, and the messages in them. A frame that lies whole in what was
 * read is used in place; the start of one waits in the stash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "h2conn_private.h"

#define GIVE_BACK   (WINDOW / 4)
#define MESSAGE_MAX ((size_t)256 << 20)
#define HEADERS_MAX ((size_t)64 << 10)

static const uint8_t bdp_ping[8] = {2, 4, 16, 16, 9, 14, 7, 7}; /* what grpc-go sends */

struct frame {
    uint8_t type, flags;
    uint32_t id;
    const uint8_t *payload;
    size_t len;
};

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
    return len < MESSAGE_HEAD ? 0 : MESSAGE_HEAD + (size_t)h2conn_get_u32(data + 1);
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
        h2conn_put_frame_head(conn, FRAME_PING, 0, 0, sizeof(bdp_ping));
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

static void on_data(struct h2conn *conn, const struct frame *frame)
{
    struct call *call = h2conn_call_of(conn, frame->id);
    const uint8_t *data = frame->payload;
    size_t len = frame->len;
    if (frame->len > 0)
        account(conn, call, (uint32_t)frame->len);
    if (frame->flags & FLAG_PADDED) {
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
    if (conn->state == H2CONN_OPEN && frame->flags & FLAG_END_STREAM)
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

static void on_headers(struct h2conn *conn, const struct frame *frame)
{
    size_t skip = (frame->flags & FLAG_PADDED ? 1u : 0u) + (frame->flags & FLAG_PRIORITY ? 5u : 0u);
    size_t pad = frame->flags & FLAG_PADDED && frame->len > 0 ? frame->payload[0] : 0;
    if (skip + pad > frame->len) {
        h2conn_fail(conn, "padding is longer than its frame");
        return;
    }
    struct belfry_bytes block = belfry_bytes_of(frame->payload + skip, frame->len - skip - pad);
    if (frame->flags & FLAG_END_HEADERS) {
        on_header_block(conn, frame->id, block, frame->flags & FLAG_END_STREAM);
        return;
    }
    conn->headers_id = frame->id;
    conn->headers_end_stream = frame->flags & FLAG_END_STREAM;
    h2conn_put(&conn->headers, block.data, block.len);
}

static void on_continuation(struct h2conn *conn, const struct frame *frame)
{
    h2conn_put(&conn->headers, frame->payload, frame->len);
    if (belfry_buf_len(&conn->headers) > HEADERS_MAX) {
        h2conn_fail(conn, "a header block is longer than 64 KiB");
        return;
    }
    if (!(frame->flags & FLAG_END_HEADERS))
        return;
    uint32_t id = conn->headers_id;
    conn->headers_id = 0;
    on_header_block(conn, id, belfry_buf_bytes(&conn->headers), conn->headers_end_stream);
    belfry_buf_clear(&conn->headers);
}

static void on_settings(struct h2conn *conn, const struct frame *frame)
{
    if (frame->flags & FLAG_ACK)
        return;
    for (size_t at = 0; at + 6 <= frame->len; at += 6) {
        unsigned name = (unsigned)frame->payload[at] << 8 | frame->payload[at + 1];
        uint32_t value = h2conn_get_u32(frame->payload + at + 2);
        if (name != NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
            continue;
        for (uint32_t i = 0; i < conn->max_calls; i++)
            conn->calls[i].send_window += (int64_t)value - conn->initial_window;
        conn->initial_window = value;
    }
    h2conn_put_frame_head(conn, FRAME_SETTINGS, FLAG_ACK, 0, 0);
    h2conn_frame_all(conn);
}

static void on_ping(struct h2conn *conn, const struct frame *frame)
{
    if (frame->len != sizeof(bdp_ping)) {
        h2conn_fail(conn, "a PING has a wrong length");
    } else if (!(frame->flags & FLAG_ACK)) {
        h2conn_put_frame_head(conn, FRAME_PING, FLAG_ACK, 0, frame->len);
        h2conn_put(&conn->out, frame->payload, frame->len);
    } else if (memcmp(frame->payload, bdp_ping, sizeof(bdp_ping)) == 0) {
        conn->bdp_sent = false;
    }
}

static void on_window_update(struct h2conn *conn, const struct frame *frame)
{
    if (frame->len != 4)
        return;
    uint32_t by = h2conn_get_u32(frame->payload) & 0x7fffffffu;
    struct call *call = h2conn_call_of(conn, frame->id);
    if (frame->id == 0) {
        conn->send_window += by;
        h2conn_frame_all(conn);
    } else if (call != NULL) {
        call->send_window += by;
        h2conn_frame_call(conn, call);
    }
}

static void on_rst_stream(struct h2conn *conn, const struct frame *frame)
{
    struct call *call = h2conn_call_of(conn, frame->id);
    if (call == NULL || frame->len != 4)
        return;
    snprintf(call->text, sizeof(call->text), "RST_STREAM with code %u", h2conn_get_u32(frame->payload));
    h2conn_end_call(conn, call);
}

static void on_frame(struct h2conn *conn, const struct frame *frame)
{
    if (conn->headers_id != 0 && (frame->type != FRAME_CONTINUATION || frame->id != conn->headers_id)) {
        h2conn_fail(conn, "a header block was broken off");
        return;
    }
    switch (frame->type) {
    case FRAME_DATA:
        on_data(conn, frame);
        break;
    case FRAME_HEADERS:
        on_headers(conn, frame);
        break;
    case FRAME_CONTINUATION:
        if (conn->headers_id != 0)
            on_continuation(conn, frame);
        break;
    case FRAME_SETTINGS:
        on_settings(conn, frame);
        break;
    case FRAME_PING:
        on_ping(conn, frame);
        break;
    case FRAME_WINDOW_UPDATE:
        on_window_update(conn, frame);
        break;
    case FRAME_RST_STREAM:
        on_rst_stream(conn, frame);
        break;
    case FRAME_GOAWAY:
        h2conn_fail(conn, "the server said GOAWAY");
        break;
    case FRAME_PUSH_PROMISE:
        h2conn_fail(conn, "the server pushes");
        break;
    default: /* RFC 9113, 4.1: others are ignored */
        break;
    }
}

/* ---- frames ---- */

/* The size of the frame that starts here, with its head; 0: not known yet. */
static size_t frame_size(const uint8_t *data, size_t len)
{
    return len < FRAME_HEAD ? 0 : FRAME_HEAD + ((size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2]);
}

static void read_frame(struct h2conn *conn, const uint8_t *data, size_t size)
{
    struct frame frame = {.type = data[3],
                          .flags = data[4],
                          .id = h2conn_get_u32(data + 5) & 0x7fffffffu,
                          .payload = data + FRAME_HEAD,
                          .len = size - FRAME_HEAD};
    on_frame(conn, &frame);
}

/* Completes the frame in the stash. Returns how many bytes belonged to it. */
static size_t fill_stash(struct h2conn *conn, const uint8_t *data, size_t len)
{
    size_t used = 0;
    for (;;) {
        struct belfry_bytes have = belfry_buf_bytes(&conn->stash);
        size_t size = frame_size((const uint8_t *)have.data, have.len);
        size_t want = (size == 0 ? FRAME_HEAD : size) - have.len;
        if (size != 0 && want == 0)
            break;
        if (size > FRAME_HEAD + FRAME_MAX || used == len)
            return used;
        size_t take = want < len - used ? want : len - used;
        h2conn_put(&conn->stash, data + used, take);
        used += take;
    }
    struct belfry_bytes whole = belfry_buf_bytes(&conn->stash);
    read_frame(conn, (const uint8_t *)whole.data, whole.len);
    belfry_buf_take(&conn->stash, whole.len);
    return used;
}

void h2conn_read_bytes(struct h2conn *conn, const uint8_t *data, size_t len)
{
    while (len > 0 && conn->state == H2CONN_OPEN) {
        size_t used;
        size_t size = frame_size(data, len);
        if (belfry_buf_len(&conn->stash) > 0 || size == 0 || size > len) {
            used = fill_stash(conn, data, len);
            struct belfry_bytes have = belfry_buf_bytes(&conn->stash);
            if (frame_size((const uint8_t *)have.data, have.len) > FRAME_HEAD + FRAME_MAX) {
                h2conn_fail(conn, "a frame is longer than 16 KiB");
                return;
            }
        } else if (size > FRAME_HEAD + FRAME_MAX) {
            h2conn_fail(conn, "a frame is longer than 16 KiB");
            return;
        } else {
            read_frame(conn, data, size);
            used = size;
        }
        data += used;
        len -= used;
    }
}
