/* bench/belfry-bench/h2conn_out.c: frames and calls, as far as the server's windows go. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "die.h"
#include "h2conn_private.h"

void h2conn_put(struct belfry_buf *buf, const void *data, size_t len)
{
    must(belfry_buf_append(buf, data, len), "buffer");
}

void h2conn_put_frame_head(struct h2conn *conn, enum frame_type type, uint8_t flags, uint32_t id, size_t len)
{
    uint8_t head[FRAME_HEAD] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, (uint8_t)type, flags};
    h2conn_put_u32(head + 5, id);
    h2conn_put(&conn->out, head, sizeof(head));
}

void h2conn_put_window_update(struct h2conn *conn, uint32_t id, uint32_t by)
{
    uint8_t payload[4];
    h2conn_put_u32(payload, by);
    h2conn_put_frame_head(conn, FRAME_WINDOW_UPDATE, 0, id, sizeof(payload));
    h2conn_put(&conn->out, payload, sizeof(payload));
}

void h2conn_frame_call(struct h2conn *conn, struct call *call)
{
    size_t left;
    while ((left = belfry_buf_len(&call->out)) > 0) {
        int64_t room = conn->send_window < call->send_window ? conn->send_window : call->send_window;
        if (room <= 0)
            return;
        size_t len = left < FRAME_MAX ? left : FRAME_MAX;
        if ((int64_t)len > room)
            len = (size_t)room;
        uint8_t flags = call->last_queued && len == left ? FLAG_END_STREAM : 0;
        h2conn_put_frame_head(conn, FRAME_DATA, flags, h2conn_id_of(call), len);
        h2conn_put(&conn->out, belfry_buf_bytes(&call->out).data, len);
        belfry_buf_take(&call->out, len);
        conn->send_window -= (int64_t)len;
        call->send_window -= (int64_t)len;
    }
}

void h2conn_frame_all(struct h2conn *conn)
{
    for (uint32_t i = 0; i < conn->max_calls; i++)
        if (conn->calls[i].open)
            h2conn_frame_call(conn, &conn->calls[i]);
}

void h2conn_flush(struct h2conn *conn)
{
    if (conn->state != H2CONN_OPEN)
        return; /* it is written once connected */
    while (belfry_buf_len(&conn->out) > 0) {
        struct belfry_bytes bytes = belfry_buf_bytes(&conn->out);
        ssize_t n = send(conn->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n > 0) {
            belfry_buf_take(&conn->out, (size_t)n);
        } else if (errno == EAGAIN) {
            h2conn_want_write(conn, true);
            return;
        } else if (errno != EINTR) {
            h2conn_fail(conn, strerror(errno));
            return;
        }
    }
    h2conn_want_write(conn, false);
}

struct call *h2conn_call_of(struct h2conn *conn, uint32_t id)
{
    if (id % 2 == 0)
        return NULL;
    struct call *call = &conn->calls[id / 2 % conn->max_calls];
    return call->open && call->number == id / 2 ? call : NULL;
}

void h2conn_end_call(struct h2conn *conn, struct call *call)
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

uint32_t h2conn_call(struct h2conn *conn, const char *path)
{
    struct call *call = &conn->calls[conn->next_number % conn->max_calls];
    if (call->open)
        return UINT32_MAX;
    *call =
        (struct call){.open = true, .number = conn->next_number++, .send_window = conn->initial_window, .status = -1};
    struct belfry_buf block = {0};
    h2conn_put(&block, "\x83\x86", 2); /* :method POST, :scheme http, by HPACK's static table; so are the names below */
    put_text(&block, 4, path);
    put_text(&block, 1, "127.0.0.1");
    put_text(&block, 31, "application/grpc");
    put_text(&block, 58, "belfry-bench/" BELFRY_VERSION);
    h2conn_put(&block, "\x00\x02te\x08trailers", 13);
    h2conn_put_frame_head(conn, FRAME_HEADERS, FLAG_END_HEADERS, h2conn_id_of(call), belfry_buf_len(&block));
    h2conn_put(&conn->out, belfry_buf_bytes(&block).data, belfry_buf_len(&block));
    belfry_buf_fini(&block);
    return call->number;
}

void h2conn_send(struct h2conn *conn, uint32_t number, struct belfry_bytes message, enum h2conn_more more)
{
    struct call *call = h2conn_call_of(conn, number * 2 + 1);
    assert(call != NULL && !call->last_queued);
    uint8_t head[MESSAGE_HEAD] = {0};
    h2conn_put_u32(head + 1, (uint32_t)message.len);
    h2conn_put(&call->out, head, sizeof(head));
    h2conn_put(&call->out, message.data, message.len);
    call->last_queued = more == H2CONN_LAST;
    h2conn_frame_call(conn, call);
}
