/* src/serve/relay/grpc_walk.h
 *
 * grpc_walk: where messages begin and end in the bytes of a gRPC body that is passed on unread, however they are cut.
 *
 * Thread: owner. Pure.
 * Memory: none.
 */
#ifndef BELFRY_SERVE_RELAY_GRPC_WALK_H
#define BELFRY_SERVE_RELAY_GRPC_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/grpc_frame.h"

struct grpc_walk {    /* all zero: at the beginning */
    uint64_t whole;   /* messages that are complete */
    uint32_t left;    /* bytes of the message to come, once its prefix is complete */
    uint8_t n_prefix; /* bytes of its prefix received */
};

void grpc_walk_pass(struct grpc_walk *walk, struct belfry_bytes bytes);

/* A message has begun and is not whole. */
static inline bool grpc_walk_inside(const struct grpc_walk *walk)
{
    return walk->n_prefix > 0;
}

#endif
