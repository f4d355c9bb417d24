/* src/serve/relay/relay_peek.h
 *
 * relay_peek: looks at the headers of etcd's responses while they are passed on, for the raft term (follow/term.h).
 *
 *     | flag, length | 0a len header | all the rest, which is not looked at | flag, length | 0a len header | ...
 *
 * The header is the first field of every response of etcd, at most 46 bytes, and it nearly always lies in the first
 * bytes that come. A message that has none there says nothing. The end of a header is seen here before the client
 * receives it, however the bytes are cut. A response is compressed if its request was; then the first KiB of a message
 * is kept until enough of it can be unpacked.
 *
 * Thread: owner.
 * Memory: nothing, unless a header is cut: then at most 1 KiB until its end comes.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_PEEK_H
#define BELFRY_SERVE_RELAY_RELAY_PEEK_H

#include "base/buf.h"
#include "follow/term.h"

struct relay_peek {
    struct belfry_buf front; /* of a message whose header is not whole, with gRPC's prefix */
    uint64_t skip;           /* bytes until the next message */
};

static inline void relay_peek_init(struct relay_peek *peek)
{
    *peek = (struct relay_peek){.skip = 0};
    belfry_buf_init(&peek->front);
}

static inline void relay_peek_fini(struct relay_peek *peek)
{
    belfry_buf_fini(&peek->front);
}

/* The next bytes of a response's body, before they are passed on. Errors: BELFRY_ERR_NOMEM (they must not be). */
BELFRY_NODISCARD enum belfry_err relay_peek_pass(struct relay_peek *peek, struct belfry_bytes bytes, struct term *term);

#endif
