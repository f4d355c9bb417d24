/* bench/belfry-bench/h2frame.h
 *
 * h2frame: HTTP/2 frames (RFC 9113, 4.1): cut out of the bytes that were read, and heads for those that are sent.
 *
 *     length, 3 bytes | type | flags | stream, 4 bytes | payload
 *
 * Thread: owner. Pure.
 * Memory: a frame that lies whole in the bytes is used in place; the start of one is kept until its end comes.
 */
#ifndef BENCH_H2FRAME_H
#define BENCH_H2FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define H2FRAME_HEAD 9u
#define H2FRAME_MAX  16384u /* bytes of a payload: SETTINGS_MAX_FRAME_SIZE as it is by default */

enum h2frame_type {
    H2FRAME_DATA = 0,
    H2FRAME_HEADERS = 1,
    H2FRAME_RST_STREAM = 3,
    H2FRAME_SETTINGS = 4,
    H2FRAME_PUSH_PROMISE = 5,
    H2FRAME_PING = 6,
    H2FRAME_GOAWAY = 7,
    H2FRAME_WINDOW_UPDATE = 8,
    H2FRAME_CONTINUATION = 9
};

#define H2FRAME_END_STREAM  0x1
#define H2FRAME_ACK         0x1
#define H2FRAME_END_HEADERS 0x4
#define H2FRAME_PADDED      0x8
#define H2FRAME_PRIORITY    0x20

struct h2frame {
    uint8_t type, flags; /* type: others than enum h2frame_type occur */
    uint32_t id;         /* of the stream; 0: the connection */
    const uint8_t *payload;
    size_t len;
};

static inline void h2frame_write_u32(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
}

static inline uint32_t h2frame_read_u32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

/* Appends the head of a frame with `len` bytes of payload. Dies when memory is out. */
void h2frame_put_head(struct belfry_buf *out, enum h2frame_type type, uint8_t flags, uint32_t id, size_t len);

/* The start of a frame that is not complete. All zeros: none. */
struct h2frame_cutter {
    struct belfry_buf start;
    bool lent; /* the frame in `start` is complete and was handed out */
};

enum h2frame_next { H2FRAME_CUT, H2FRAME_INCOMPLETE, H2FRAME_TOO_LONG };

/* Takes the next frame from *bytes, which advances. H2FRAME_CUT: it is in *out, lent until the next call and as long
 * as the bytes are. H2FRAME_INCOMPLETE: all bytes are used up. H2FRAME_TOO_LONG: a payload is over H2FRAME_MAX. */
enum h2frame_next h2frame_cut(struct h2frame_cutter *cutter, struct belfry_bytes *bytes, struct h2frame *out);
void h2frame_cutter_fini(struct h2frame_cutter *cutter);

#endif
