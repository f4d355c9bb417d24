/* src/core/segment.h
 *
 * segment: a stretch of history as it was read, immutable and counted: every revision in [from, upto] that has
 * events; or a slice of one revision that is too large for memory (then from == upto, n == 1, and the batch is
 * a BATCH_SLICE). An extent inside a stretch is a BATCH_EXTENT: its slices are read separately.
 *
 * Thread: any, once shared.
 */
#ifndef BELFRY_CORE_SEGMENT_H
#define BELFRY_CORE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/batch.h"

#define SEGMENT_BYTES (1024 * 1024) /* a reader stops at the first revision boundary after this */

struct segment {
    uint64_t past; /* which past it belongs to: see evlog.h */
    int64_t from, upto;
    size_t n;
    size_t bytes;
    struct batch *const *batches; /* ascending revisions */
};

/* History that a worker wants: of `past` from revision `from` on; with `slice`, a slice of that revision from event
 * `sub` on. It is wanted for `client` first (stream_set_client() in worker.h), and may serve others. */
struct worker_fetch {
    uint64_t client;
    uint64_t past;
    int64_t from;
    bool slice;
    uint32_t sub;
};

/* Builds a segment. add() consumes the reference; on failure it is gone too. finish() hands the segment over with one
 * reference and leaves the builder empty, on failure too; abort() drops everything. */
struct segment_builder {
    struct batch **batches;
    size_t n, cap, bytes;
};
void segment_begin(struct segment_builder *builder);
BELFRY_NODISCARD enum belfry_err segment_add(struct segment_builder *builder, struct batch *batch);
BELFRY_NODISCARD enum belfry_err segment_finish(struct segment_builder *builder, uint64_t past, int64_t from,
                                                int64_t upto, struct segment **out);
void segment_abort(struct segment_builder *builder);

struct segment *segment_ref(const struct segment *segment);
void segment_unref(const struct segment *segment); /* NULL is fine */

/* The first batch with a revision of at least `rev`; n when there is none. */
size_t segment_find(const struct segment *segment, int64_t rev);

#endif
