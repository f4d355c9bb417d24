/* src/core/evlog.h
 *
 * evlog: the log. The newest batches in memory, one writer, any number of workers that follow at their own pace.
 *
 * A ring of batches in ascending revision, numbered by a sequence [first, next) that never goes back. It keeps no list
 * of cursors: a worker remembers revisions and finds them here, or asks history when they have left the log.
 *
 * Publishing: the slot is written, then `next` is stored with release; a worker that loads `next` with acquire may read
 * every slot below. Eviction is by bytes and count alone, but a batch that is not yet committed to the replica never
 * leaves. Freeing: inside a turn a worker may touch what the log held at its start. The writer unlinks a batch (moves
 * `first`), stamps it with the epoch, moves the epoch on, and frees it when every worker is either outside of a turn or
 * in one that began later.
 *
 *     worker                                     writer
 *     turn = epoch      (seq_cst)                first++               (seq_cst)
 *     first             (seq_cst)                stamp, epoch++        (seq_cst)
 *     next, then past   (acquire)                every turn is 0 or > stamp ? free
 *     ... slots[first, next) ...
 *     turn = 0          (release)
 *
 * A past is one continuous history. When upstream's past was rewritten, or compacted over our head, the writer cuts:
 * the ring empties, `past` counts up, and the cut says at which revision the new past begins and which watchers of the
 * old one are lost. A worker compares its past at every turn, so it cannot miss a cut however long it slept.
 *
 * Thread: functions say whose they are: the writer's (one thread), a worker's (each its own number), any.
 * Memory: the ring is reserved at creation; append never allocates.
 */
#ifndef BELFRY_CORE_EVLOG_H
#define BELFRY_CORE_EVLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/batch.h"

#define EVLOG_WORKERS_MAX 257 /* readers of the log: workers, and the tail of the admin address */

struct evlog;

struct evlog_opts {
    unsigned capacity_log2; /* batches; 4 to 24 */
    size_t max_bytes;       /* of batches together */
    unsigned n_workers;
};

enum evlog_cut_why {
    EVLOG_CUT_START,     /* the process begins: there is no older past */
    EVLOG_CUT_DAMAGED,   /* the store lost its history: the past goes on upstream, no cursor is lost */
    EVLOG_CUT_COMPACTED, /* upstream compacted over our head at compact_rev: cursors below that are lost */
    EVLOG_CUT_REWRITTEN  /* the old past is no longer true: every cursor is lost, compact_rev is `rev` */
};

struct evlog_cut {
    uint64_t past; /* counts from 1; given by evlog_cut() */
    int64_t rev;   /* the state is whole at this revision; the next batch is above */
    enum evlog_cut_why why;
    int64_t compact_rev;
    uint64_t rewritten; /* the latest past that began as a rewritten one: watchers of an older one are lost, whatever
                           `why` says; given by evlog_cut() */
};

/* Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err evlog_create(const struct evlog_opts *opts, struct evlog **out);

/* No worker is in a turn. NULL is fine. */
void evlog_destroy(struct evlog *log);

/* ---- the writer ---- */

/* Appends, consuming the reference in any case but BELFRY_ERR_AGAIN. Revisions ascend.
 * Errors: BELFRY_ERR_AGAIN (the ring is full of batches that are not committed: commit, then try again; or a worker is
 * inside a turn that began a whole ring ago and may still look at the place this one would take: try again later). */
BELFRY_NODISCARD enum belfry_err evlog_append(struct evlog *log, struct batch *batch);

/* Is there a place for a next batch? False: a worker is inside a turn that began a whole ring ago. Once true it stays
 * so until the next append, so a writer that must not begin what cannot be published asks first; then append can still
 * fail only for lack of a commit. */
bool evlog_has_place(struct evlog *log);

/* The replica has committed everything up to `rev`: what was kept above max_bytes for that alone leaves. */
void evlog_committed(struct evlog *log, int64_t rev);

/* Starts a new past. The ring empties. Errors: BELFRY_ERR_NOMEM, nothing changed. */
BELFRY_NODISCARD enum belfry_err evlog_cut(struct evlog *log, int64_t rev, enum evlog_cut_why why, int64_t compact_rev);

/* Frees what no worker can see any more; append does so too. Returns how many batches still wait. */
size_t evlog_reclaim(struct evlog *log);

int64_t evlog_head(const struct evlog *log);     /* the newest revision; the cut's when empty; 0 before the first cut */
int64_t evlog_oldest(const struct evlog *log);   /* the oldest revision that a cursor can go on from */
size_t evlog_bytes(const struct evlog *log);     /* held, those that wait to be freed included */
size_t evlog_max_bytes(const struct evlog *log); /* evlog_opts.max_bytes */

/* ---- a worker ---- */

/* What a worker may touch until evlog_leave(). */
struct evlog_view {
    const struct evlog *log;
    uint64_t first, next; /* sequence; first == next: nothing */
    struct evlog_cut cut; /* past 0: there is none yet, and nothing can be served */
    int64_t head;         /* revision of the newest batch in the view, or the cut's */
};

/* Begins a turn. All batches of the view belong to the view's past. */
void evlog_enter(struct evlog *log, unsigned worker, struct evlog_view *view);
void evlog_leave(struct evlog *log, unsigned worker);

const struct batch *evlog_at(const struct evlog_view *view, uint64_t seq); /* seq in [first, next) */

/* The sequence of the first batch with a revision of at least `rev`; view->next when there is none. */
uint64_t evlog_find(const struct evlog_view *view, int64_t rev);

/* Can a cursor at `rev` go on from this view, with nothing missing in between? True when rev is above the revision
 * before the view's first batch: rev > base, where base is the last revision evicted (or the cut's). */
bool evlog_covers(const struct evlog_view *view, int64_t rev);

/* ---- any ---- */

int64_t evlog_commit_rev(const struct evlog *log); /* committed to the replica in the current past */

#endif
