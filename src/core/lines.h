/* src/core/lines.h
 *
 * lines: a dialect whose messages are texts, made once and shared by all streams that receive them: one for each event
 * (Kubernetes' list/watch), or one for each revision (Server-Sent Events). A stream of lines has one watcher. The core
 * decides which stream receives which event, and when; the dialect makes the bytes.
 *
 * `created` is silent, progress is a line (a bookmark), and a lost watcher (compacted, or a rewritten past) receives a
 * last line, after which the owner ends the stream.
 *
 * Resuming, of lines by event: a revision of several events goes out line by line, and a connection may break between
 * two of them. All of them carry that revision, and a client has nothing but a revision to resume from: a client that
 * resumes from R may have only a part of R. A watcher that is created as `resumed` from R therefore receives R's lines
 * again, from the first. If R has at most one event for it, a client that has seen R has that event, and it is not sent
 * again. Its range and its pin decide which events are for it; for a revision in slices, every event counts.
 *
 * Pins: a watcher may name an attribute and a value that every event it wants has, before or after (a field or label of
 * the object). Then it is looked up by that value, and not visited for events of other values: five thousand watchers
 * of one range, each with a value of its own, cost an event one lookup. If the previous value is unknown
 * (batch_prev_lost()), all watchers that pinned the attribute are visited. A pin only saves visits: the dialect decides
 * whether a stream receives a line.
 *
 * Several ranges: a watcher may want the keys of several ranges, which then have one position. That too only saves
 * visits: of a revision in slices the dialect is shown every event of the smallest range that has them all.
 *
 * Thread: the worker's. None of the functions may call back into the worker.
 */
#ifndef BELFRY_CORE_LINES_H
#define BELFRY_CORE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/bytes.h"
#include "base/err.h"
#include "core/batch.h"

/* Events of a revision, in their order, for a line by revision. */
struct lines_part {
    const struct batch *batch;
    const uint32_t *events; /* numbers of events in the batch */
    uint32_t n;             /* 0: the revision has no more for the stream than it was given before */
    bool open;              /* more of the revision may follow */
};

struct lines {
    /* A dialect has event() or revision(), not both.
     *
     * The line of event number `event` of the batch, one reference handed over; *out NULL: the stream receives nothing
     * for it. The batch may be a slice: its event is number batch->first_sub + event of the revision. Called again for
     * the same event when there was no room. Errors: BELFRY_ERR_NOMEM: asked again later. BELFRY_ERR_COMPACTED: the
     * line needs a previous value that exists nowhere any more: the watcher is lost. */
    enum belfry_err (*event)(void *stream_user, const struct batch *batch, uint32_t event, struct belfry_blob **out);

    /* The line of the first *used events of the part, at least one if there is one; the others are asked for again.
     * *out NULL: no line for these. The last call for a revision has all of the part's events used, and is not open: a
     * client that has this line has the revision. WATCHER_NO_PUT and _NO_DELETE do not count. Errors: as event()'s. */
    enum belfry_err (*revision)(void *stream_user, const struct lines_part *part, uint32_t *used,
                                struct belfry_blob **out);

    /* "You have everything up to `rev`". *out NULL: no line. Errors: BELFRY_ERR_NOMEM. */
    enum belfry_err (*progress)(void *stream_user, int64_t rev, struct belfry_blob **out);

    /* The watcher is lost: what it needs next is below compact_rev. The last line of its stream; *out NULL: it ends
     * without one. Errors: BELFRY_ERR_NOMEM. */
    enum belfry_err (*lost)(void *stream_user, int64_t compact_rev, struct belfry_blob **out);

    /* As worker_opts.write, for streams of this dialect. */
    void (*write)(void *stream_user, const uint8_t *data, size_t len);

    bool inward; /* the receiver is the tier itself: counted separately (worker_stats) */
};

/* Streams of lines that are counted apart (worker_stats). */
enum lines_family { LINES_BY_EVENT, LINES_BY_REVISION, LINES_INWARD, LINES_FAMILIES };

static inline enum lines_family lines_family(const struct lines *lines)
{
    return lines->inward ? LINES_INWARD : lines->revision != NULL ? LINES_BY_REVISION : LINES_BY_EVENT;
}

/* The values of an attribute before and after an event, lent until the next call; data NULL: there is none. `name` is
 * the dialect's own, as given to stream_create(). Not asked when the previous value is unknown. False: no memory; the
 * event is looked up again later. */
typedef bool (*lines_attribute_fn)(void *user, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                                   struct belfry_bytes *before, struct belfry_bytes *after);

#endif
