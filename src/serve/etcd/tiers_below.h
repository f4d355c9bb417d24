/* src/serve/etcd/tiers_below.h
 *
 * tiers_below: the tiers that have a Watch stream open here, as one worker lists them.
 *
 * Thread: plain data.
 * Memory: the room that it was created with; a worker lists at most TREE_STREAMS streams and counts the others.
 */
#ifndef BELFRY_SERVE_ETCD_TIERS_BELOW_H
#define BELFRY_SERVE_ETCD_TIERS_BELOW_H

#include <stddef.h>
#include <stdint.h>

#include "serve/uplink/via.h"

#define TREE_STREAMS 2000

/* A tier below, or one of its streams. */
struct tree_tier {
    char name[VIA_WORD_BYTES + 1];
    char peer[64];
    uint64_t since_ms; /* when the oldest of its streams was opened */
    size_t streams;
    int64_t position; /* the last revision that its foremost watch received; 0: it has none */
};

struct tree_below {
    size_t n, room; /* of tiers */
    size_t more;    /* streams of tiers that are not listed */
    struct tree_tier tiers[];
};

/* With room for `room` tiers, for the caller to free(); NULL: no memory. */
struct tree_below *tree_below_create(size_t room);
void tree_below_add(struct tree_below *below, const struct tree_tier *tier);

#endif
