/* src/net/grpc_frame.h
 *
 * grpc_frame: puts messages together from the bytes of a stream, however they are cut.
 *
 *     +------------+-------------------------+----------------+
 *     | flag: 0, 1 | length: 4, big-endian   | message: length |
 *     +------------+-------------------------+----------------+
 *
 * Thread: owner. Pure.
 * Memory: one message, at most the caller's limit, grown by doubling as its bytes arrive: the length that the peer
 * announces is checked against the limit and otherwise believed in nothing.
 */
#ifndef BELFRY_NET_GRPC_FRAME_H
#define BELFRY_NET_GRPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_GRPC_PREFIX_BYTES 5

struct belfry_grpc_frame {
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    uint8_t n_prefix;         /* bytes of the prefix that have come */
    struct belfry_blob *blob; /* owned; the message so far; its length is what has been reserved */
    size_t have;              /* bytes of the message that have come */
};

static inline void belfry_grpc_frame_init(struct belfry_grpc_frame *frame)
{
    *frame = (struct belfry_grpc_frame){0};
}

void belfry_grpc_frame_fini(struct belfry_grpc_frame *frame);

/* Takes bytes from the front of *in, up to the end of one message. When that is reached, *out is the message, owned by
 * the caller, and *out_compressed its flag; otherwise *out is NULL and all of *in was taken.
 * Errors: BELFRY_ERR_TOO_LARGE (a length over max_bytes), BELFRY_ERR_PROTOCOL (an unknown flag), BELFRY_ERR_NOMEM; the
 * stream cannot go on after any of them. */
BELFRY_NODISCARD enum belfry_err belfry_grpc_frame_feed(struct belfry_grpc_frame *frame, struct belfry_bytes *in,
                                                        size_t max_bytes, struct belfry_blob **out,
                                                        bool *out_compressed);

/* The length that the prefix announces; 0 when it is not complete. */
size_t belfry_grpc_frame_need(const struct belfry_grpc_frame *frame);

/* True inside a message or its prefix: a stream that ends here was cut short. */
static inline bool belfry_grpc_frame_inside(const struct belfry_grpc_frame *frame)
{
    return frame->n_prefix > 0;
}

/* Writes the prefix of an uncompressed message; len fits 32 bits. */
void belfry_grpc_frame_prefix(uint8_t to[BELFRY_GRPC_PREFIX_BYTES], size_t len);

/* The message of a body that is just one, uncompressed; lent. {NULL, 0}: it is something else. */
struct belfry_bytes belfry_grpc_frame_only(struct belfry_bytes body);

#endif
