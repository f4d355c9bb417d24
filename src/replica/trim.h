/* src/replica/trim.h
 *
 * trim: removes the oldest history, in the writer's transaction, a bounded number of rows at a time.
 *
 * Over the budget is: what exceeds history's bytes; what is older than its age; and, once the map is 70 % full,
 * anything, because deleting needs free pages, too, and finds none in a full map. While the disk is full, everything
 * is over the budget: the pages that history gives up are written again.
 *
 * A revision that is begun is gone for readers immediately and whole (`oldest` moves in the same transaction); the
 * rest of a huge one goes with later calls. The newest revision that has events always stays: after a restart it shows
 * whether upstream's past is still ours.
 *
 * Marks give the age: once per second, which revision was the newest.
 *
 * Thread: owner (the writer).
 */
#ifndef BELFRY_REPLICA_TRIM_H
#define BELFRY_REPLICA_TRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replica/writer.h"

struct trim_budget {
    size_t history_bytes;
    uint64_t history_age_s;
    bool squeeze; /* the disk is full: give history up even under the budget */
};

/* As in core/store.h. The writer is OPEN; a failure ends its transaction. */
BELFRY_NODISCARD enum belfry_err trim_rows(struct writer *writer, const struct trim_budget *budget, uint64_t now_s,
                                           size_t max_rows, size_t *n);

#endif
