/* bench/belfry-bench/h2conn_private.h
 *
 * h2conn in three parts that know its fields: h2conn.c has its life and its socket, h2conn_out.c what is sent,
 * h2conn_in.c what is read.
 *
 * Thread: owner, as h2conn.h says.
 */
#ifndef BENCH_H2CONN_PRIVATE_H
#define BENCH_H2CONN_PRIVATE_H

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "h2conn.h"

#define WINDOW       65535u
#define FRAME_HEAD   9u
#define FRAME_MAX    16384u
#define MESSAGE_HEAD 5u
#define TEXT_MAX     160

enum frame_type {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_RST_STREAM = 3,
    FRAME_SETTINGS = 4,
    FRAME_PUSH_PROMISE = 5,
    FRAME_PING = 6,
    FRAME_GOAWAY = 7,
    FRAME_WINDOW_UPDATE = 8,
    FRAME_CONTINUATION = 9
};

#define FLAG_END_STREAM  0x1
#define FLAG_ACK         0x1
#define FLAG_END_HEADERS 0x4
#define FLAG_PADDED      0x8
#define FLAG_PRIORITY    0x20

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
    struct call *calls; /* owned; a call is at its number % max_calls */

    enum h2conn_state state;
    bool paused, wants_write;
    uint32_t next_number;
    uint32_t unacked;
    bool bdp_sent;
    int64_t send_window, initial_window;
    uint64_t bytes_read;
    nghttp2_hd_inflater *inflater; /* from the first HEADERS on */
    struct belfry_buf stash;       /* the start of a frame */
    struct belfry_buf headers;     /* a header block in CONTINUATIONs */
    uint32_t headers_id;           /* whose it is; 0: none */
    bool headers_end_stream;
    struct belfry_buf out;
};

static inline void h2conn_put_u32(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
}

static inline uint32_t h2conn_get_u32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static inline uint32_t h2conn_id_of(const struct call *call)
{
    return call->number * 2 + 1;
}

/* h2conn.c: nothing is freed, because callers up the stack still use the connection. */
void h2conn_fail(struct h2conn *conn, const char *why);
void h2conn_want_write(struct h2conn *conn, bool want);

/* h2conn_out.c: into conn->out, for the next h2conn_flush(). */
void h2conn_put(struct belfry_buf *buf, const void *data, size_t len);
void h2conn_put_frame_head(struct h2conn *conn, enum frame_type type, uint8_t flags, uint32_t id, size_t len);
void h2conn_put_window_update(struct h2conn *conn, uint32_t id, uint32_t by);

/* As much of the call's messages, or of all, as the windows allow. */
void h2conn_frame_call(struct h2conn *conn, struct call *call);
void h2conn_frame_all(struct h2conn *conn);

/* The open call on stream `id`, or NULL. */
struct call *h2conn_call_of(struct h2conn *conn, uint32_t id);
void h2conn_end_call(struct h2conn *conn, struct call *call);

/* h2conn_in.c: what has come, however it was cut. */
void h2conn_read_bytes(struct h2conn *conn, const uint8_t *data, size_t len);

#endif
