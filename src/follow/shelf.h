/* src/follow/shelf.h
 *
 * shelf: segments that were read from upstream, kept for a while. Many watchers behind the window need the same
 * stretch, each from a slightly different revision, as fast as its own socket allows; upstream should be asked for the
 * stretch once.
 *
 * The shelf has history of one past: a segment of a newer past discards the rest.
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
