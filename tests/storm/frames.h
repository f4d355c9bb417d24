/* tests/storm/frames.h
 *
 * frames: HTTP/2 as bytes, written without a library, so that they can be wrong. Lengths and flags are what the caller
 * says.
 *
 * Thread: any.
 */
#ifndef BELFRY_STORM_FRAMES_H
#define BELFRY_STORM_FRAMES_H

#include "base/buf.h"

#define FRAMES_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum frame_type {
    FRAME_DATA,
    FRAME_HEADERS,
    FRAME_PRIORITY,
    FRAME_RST_STREAM,
    FRAME_SETTINGS,
    FRAME_PUSH_PROMISE,
    FRAME_PING,
    FRAME_GOAWAY,
    FRAME_WINDOW_UPDATE,
    FRAME_CONTINUATION,
    FRAME_UNKNOWN
};

enum frame_flag {
    FRAME_END_STREAM = 1,
    FRAME_ACK = 1,
    FRAME_END_HEADERS = 4,
    FRAME_PADDED = 8,
    FRAME_PRIORITIZED = 32
};

/* A frame with this payload. */
void frame_write(struct belfry_buf *to, enum frame_type type, unsigned flags, uint32_t stream, const void *payload,
                 size_t len);
void frame_write_u32(struct belfry_buf *to, enum frame_type type, uint32_t stream, uint32_t value);
void frame_write_setting(struct belfry_buf *to, uint16_t id, uint32_t value);

/* A field of a header block. */
enum frame_field { FRAME_FIELD_PLAIN, FRAME_FIELD_INDEXED }; /* INDEXED: the peer's table keeps it */
void frame_field(struct belfry_buf *block, enum frame_field how, const char *name, const char *value);

#endif
