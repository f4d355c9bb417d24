/* src/follow/shelf.h
 *
 * shelf: segments that were read from upstream, kept a while for others who come by. Watchers that are behind the window
 * get off and on again where their own sockets let them, so that the same stretch is wanted a hundred times at slightly
 * different places; upstream should be asked for it once.
 *
 * Only history of one past is on it: a segment of a newer one throws the rest out.
 *
 * Thread: any.
 * Memory: segments of at most `bytes_max` together, the longest unused going first; SHELF_SEGMENTS of them.
 */
#ifndef BELFRY_FOLLOW_SHELF_H
#define BELFRY_FOLLOW_SHELF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/segment.h"

#define SHELF_SEGMENTS 256

struct shelf;

BELFRY_NODISCARD enum belfry_err shelf_create(size_t bytes_max, struct shelf **out);
void shelf_destroy(struct shelf *shelf); /* NULL is fine */

/* Takes a reference of its own, unless there is one already that has the same stretch. */
void shelf_put(struct shelf *shelf, const struct segment *segment);

/* A segment of `past` that has `rev`, one reference handed over; NULL: none. */
struct segment *shelf_find(struct shelf *shelf, uint64_t past, int64_t rev);

size_t shelf_bytes(struct shelf *shelf);

#endif
