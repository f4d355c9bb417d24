/* src/core/source.h
 *
 * source: where a worker's batches come from: the log, or a segment of history that is kept. What neither has is
 * fetched: the caller waits, and asks again when a segment has come.
 *
 * Thread: the worker's.
 * Memory: segments of about keep_bytes in all, at most SOURCE_SEGMENTS; the least used leave first, and none that came
 * or was used in this turn. As many fetches have a place as segments can be kept, and at most half of SOURCE_FETCHES.
 * A client has fewer places than are free, so that there is one for others; the worker's own position (client 0) has
 * one in any case. A fetch without an answer for SOURCE_LATE_MS gives up its place. It is remembered, so that it is not
 * asked for again, until newer ones need its slot; its answer is good all the same.
 */
#ifndef BELFRY_CORE_SOURCE_H
#define BELFRY_CORE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/segment.h"
#include "core/turn.h"

#define SOURCE_FETCHES  16
#define SOURCE_SEGMENTS 16
#define SOURCE_LATE_MS  1000

struct source_fetch {
    struct worker_fetch fetch;
    enum { FETCH_FREE, FETCH_WANTED, FETCH_SENT } state;
    uint64_t since_ms; /* wanted */
};

struct source_segment {
    struct segment *segment; /* one reference; NULL: free */
    uint64_t used;           /* number of the turn */
};

struct source {
    /* fixed at creation */
    struct turn *turn; /* lent */
    size_t keep_bytes;
    /* read by others */
    int64_t gone_below; /* neither upstream nor our window has anything below this, in this past */
    int64_t gone_told;  /* the compact revision that watchers receive that need what is gone */
    size_t bytes;       /* of segments, for accounts */
    uint64_t n_fetches, n_rows;
    /* its own */
    uint64_t past;
    struct source_fetch fetches[SOURCE_FETCHES];
    struct source_segment segments[SOURCE_SEGMENTS];
};

void source_init(struct source *source, struct turn *turn, size_t keep_bytes);
void source_fini(struct source *source);

/* Another past: segments and fetches of the old one are dropped. */
void source_begin_past(struct source *source, uint64_t past);

/* Drops segments of about `bytes` in all, the least used first, and none that came or was used in this turn. */
void source_give_back(struct source *source, size_t bytes);

enum source_result {
    SOURCE_BATCH,
    SOURCE_NONE, /* no batch in [from, *upto] */
    SOURCE_WAIT, /* history is asked for */
    SOURCE_GONE  /* it exists nowhere: it is below gone_below */
};

/* The first batch in [from, limit]; lent until the turn ends or another segment comes. What must be fetched is fetched
 * for `client`. */
enum source_result source_next(struct source *source, uint64_t client, int64_t from, int64_t limit,
                               const struct batch **out, int64_t *upto);

/* Event `sub` of `rev`, and some that follow. The rows of one revision may be at hand twice, and differ: slices are our
 * replica's; whole comes from a backfill, which lacks the previous values that upstream has compacted. A response that
 * is measured and then written must read the same rows both times. So it begins with whole, which rest.h then holds to
 * the end; a response that began with slices continues with slices. */
enum source_prefer { SOURCE_PREFER_SLICES, SOURCE_PREFER_WHOLE };
enum source_result source_slice(struct source *source, uint64_t client, int64_t rev, uint32_t sub,
                                enum source_prefer prefer, const struct batch **out);

/* worker_wants_fetch() and worker_fetched() (worker.h). source_fetched() is true when waiting streams should try again.
 */
bool source_wants_fetch(struct source *source, struct worker_fetch *out);
bool source_fetched(struct source *source, const struct worker_fetch *fetch, enum belfry_err err,
                    struct segment *segment, int64_t compact_rev, int64_t oldest);

#endif
