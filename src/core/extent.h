/* src/core/extent.h
 *
 * extent: a revision too large for memory, or wanted by too many nodes. Its rows are read in slices: first to find the
 * watchers that want one of them, which become SOLO; then, for one solo watcher at a time, to measure its response and
 * to write it. Lines need no measuring.
 *
 * Thread: the worker's.
 */
#ifndef BELFRY_CORE_EXTENT_H
#define BELFRY_CORE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/delivery.h"
#include "core/gather.h"

enum extent_result { EXTENT_DONE, EXTENT_WAIT, EXTENT_NO_MEMORY, EXTENT_MORE, EXTENT_GONE };

/* Makes solo the watchers of `population` whose range has an event of `rev`: those of one stream, or (NULL) all on a
 * bus, or all of live whose stream rides. *sub is how far the scan is. */
struct extent_scan {
    int64_t rev;
    unsigned population;
    const struct stream *stream;
    uint64_t client; /* for whom slices are fetched */
    uint32_t *sub;
};
enum extent_result extent_scan(struct delivery *delivery, struct gather *gather, const struct extent_scan *scan);

/* Continues with the stream's solo watchers. False: it waits or has no room. */
bool extent_solo(struct delivery *delivery, struct stream *stream);

#endif
