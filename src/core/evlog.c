/* src/core/evlog.c: the ring, and why no worker reads a batch that is freed or a slot that is overwritten.
 *
 * The ring has twice as many slots as batches may be held. After the held batches come batches that have left but may
 * still be read; a slot is written again only when its batch was freed.
 *
 *     reclaimed          first                    next               reclaimed + slots
 *     | waits to be freed | held, visible          | free             |
 *
 * Freed means that no worker can still see it. A worker announces its turn, then loads `first`; the writer moves
 * `first`, then looks at the turns. All four are seq_cst, so either the writer sees the turn, or the worker sees the
 * new `first`. A turn seen by the writer keeps all that was unlinked at its epoch or later; what was unlinked before,
 * the worker cannot have seen, because it read the epoch that was stored after `first`. The turn's own reads of slots
 * and batches are over before the store that ends it (release), which the writer has loaded (acquire) when it frees.
 *
 * A past is an object that never changes, with the sequence it starts at. The writer stores it before it moves `first`
 * and before it appends to it; a worker loads first, next, past, in this order. So a past is never older than the slots
 * seen with it: slots below its start are of an older one and are cut off, and there are none of a newer one.
 *
 * The newest batch of a past is never unlinked but by a cut: an empty view stands at its cut's revision.
 */
#include "core/evlog.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/sim.h"

#define CAPACITY_LOG2_MIN 4
#define CAPACITY_LOG2_MAX 24
#define CACHE_LINE        64
#define NO_TURN           0 /* epochs count from 1 */

struct slot {
    struct batch *batch; /* one reference, for sequences in [reclaimed, next) */
    int64_t rev;
    int64_t base;   /* the revision before: of the batch appended before it, or of the cut */
    uint64_t stamp; /* writer only: the epoch at which it was unlinked */
};

struct past {
    struct evlog_cut cut;
    uint64_t start;     /* its first batch's sequence */
    uint64_t stamp;     /* writer only: the epoch at which a newer one took its place */
    struct past *older; /* writer only: the one that was retired before */
};

/* One per worker, each on its own cache line: a worker writes it twice per turn, which must not evict the line of
 * another worker. */
struct worker_turn {
    _Alignas(CACHE_LINE) _Atomic uint64_t epoch; /* NO_TURN: outside */
};

struct evlog {
    /* fixed at creation */
    struct slot *slots;
    uint64_t mask;     /* slots - 1 */
    uint64_t capacity; /* batches held; half of the slots */
    size_t max_bytes;
    unsigned n_workers;
    struct worker_turn *turns;
    void *turns_block; /* their allocation */

    /* Stored by the writer, loaded by workers; the padding keeps the fields around out of their cache lines. */
    char pad_before[CACHE_LINE];
    _Atomic uint64_t next; /* release: the slots below are written */
    _Atomic uint64_t first;
    _Atomic uint64_t epoch;
    _Atomic(struct past *) past; /* release: what it points to; NULL: none yet */
    _Atomic int64_t committed;
    char pad_after[CACHE_LINE];

    /* writer only */
    uint64_t reclaimed; /* below: freed */
    int64_t head;
    size_t held;          /* bytes of [first, next) */
    size_t waiting;       /* bytes of [reclaimed, first) */
    struct past *retired; /* the newest past that waits to be freed */
};

/* The writer reads back its own stores, so relaxed order is enough. */
static uint64_t writer_load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static struct past *writer_past(const struct evlog *log)
{
    return atomic_load_explicit(&log->past, memory_order_relaxed);
}

static struct slot *slot_of(const struct evlog *log, uint64_t seq)
{
    return &log->slots[seq & log->mask];
}

static bool create_turns(struct evlog *log)
{
    log->turns_block =
        calloc((size_t)log->n_workers + 1, sizeof(struct worker_turn)); /* one more, to align the others in */
    if (log->turns_block == NULL)
        return false;
    uintptr_t at = ((uintptr_t)log->turns_block + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1);
    log->turns = (struct worker_turn *)at;
    for (unsigned i = 0; i < log->n_workers; i++)
        atomic_init(&log->turns[i].epoch, NO_TURN);
    return true;
}

enum belfry_err evlog_create(const struct evlog_opts *opts, struct evlog **out)
{
    if (opts->capacity_log2 < CAPACITY_LOG2_MIN || opts->capacity_log2 > CAPACITY_LOG2_MAX ||
        opts->n_workers > EVLOG_WORKERS_MAX)
        return BELFRY_ERR_INVALID;
    struct evlog *log = calloc(1, sizeof(*log));
    if (log == NULL)
        return BELFRY_ERR_NOMEM;
    log->capacity = (uint64_t)1 << opts->capacity_log2;
    log->mask = 2 * log->capacity - 1;
    log->max_bytes = opts->max_bytes;
    log->n_workers = opts->n_workers;
    atomic_init(&log->next, 0);
    atomic_init(&log->first, 0);
    atomic_init(&log->epoch, NO_TURN + 1);
    atomic_init(&log->past, NULL);
    atomic_init(&log->committed, 0);
    log->slots = calloc((size_t)(2 * log->capacity), sizeof(*log->slots));
    if (log->slots == NULL || !create_turns(log)) {
        evlog_destroy(log);
        return BELFRY_ERR_NOMEM;
    }
    *out = log;
    return BELFRY_OK;
}

/* `past` and all that were retired before it. */
static void free_pasts(struct past *past)
{
    while (past != NULL) {
        struct past *older = past->older;
        free(past);
        past = older;
    }
}

void evlog_destroy(struct evlog *log)
{
    if (log == NULL)
        return;
    for (unsigned i = 0; log->turns != NULL && i < log->n_workers; i++)
        assert(atomic_load(&log->turns[i].epoch) == NO_TURN);
    for (uint64_t seq = log->reclaimed; seq != writer_load(&log->next); seq++)
        batch_unref(slot_of(log, seq)->batch);
    free_pasts(log->retired);
    free(writer_past(log));
    free(log->slots);
    free(log->turns_block);
    free(log);
}

/* ---- the writer ---- */

/* Moves `first` to `upto`; what lies below waits to be freed, stamped with the epoch that ends here. */
static void unlink_below(struct evlog *log, uint64_t upto)
{
    uint64_t seq = writer_load(&log->first), epoch = writer_load(&log->epoch);
    BELFRY_POINT("evlog.first.move");
    atomic_store(&log->first, upto);
    for (; seq != upto; seq++) {
        struct slot *slot = slot_of(log, seq);
        slot->stamp = epoch;
        log->held -= slot->batch->bytes;
        log->waiting += slot->batch->bytes;
    }
    BELFRY_POINT("evlog.epoch.move");
    atomic_store(&log->epoch, epoch + 1);
}

static bool may_leave(const struct evlog *log, uint64_t seq)
{
    if (BELFRY_MUTANT(uncommitted_evicted))
        return true;
    return slot_of(log, seq)->rev <= atomic_load_explicit(&log->committed, memory_order_relaxed);
}

static void evict_batches(struct evlog *log)
{
    uint64_t first = writer_load(&log->first), next = writer_load(&log->next);
    size_t bytes = log->held;
    while (first + 1 < next && (next - first > log->capacity || bytes > log->max_bytes) && may_leave(log, first))
        bytes -= slot_of(log, first++)->batch->bytes;
    if (first != writer_load(&log->first))
        unlink_below(log, first);
}

/* The epoch of the oldest turn that has not ended; UINT64_MAX: no worker is in a turn. Batches stamped below it can be
 * freed. */
static uint64_t oldest_turn(const struct evlog *log)
{
    uint64_t oldest = UINT64_MAX;
    if (BELFRY_MUTANT(free_early))
        return oldest;
    for (unsigned i = 0; i < log->n_workers; i++) {
        BELFRY_POINT("evlog.turn.look");
        uint64_t turn = atomic_load(&log->turns[i].epoch);
        if (turn != NO_TURN && turn < oldest)
            oldest = turn;
    }
    return oldest;
}

/* The list begins with the newest past and stamps decrease along it, so the pasts that can be freed are at its end. */
static void reclaim_pasts(struct evlog *log, uint64_t oldest)
{
    struct past **at = &log->retired;
    while (*at != NULL && (*at)->stamp >= oldest)
        at = &(*at)->older;
    free_pasts(*at);
    *at = NULL;
}

size_t evlog_reclaim(struct evlog *log)
{
    uint64_t first = writer_load(&log->first);
    if (log->reclaimed == first && log->retired == NULL)
        return 0;
    uint64_t oldest = oldest_turn(log);
    while (log->reclaimed != first && slot_of(log, log->reclaimed)->stamp < oldest) {
        struct slot *slot = slot_of(log, log->reclaimed++);
        log->waiting -= slot->batch->bytes;
        batch_unref(slot->batch);
    }
    reclaim_pasts(log, oldest);
    return (size_t)(first - log->reclaimed);
}

bool evlog_has_place(struct evlog *log)
{
    uint64_t next = writer_load(&log->next);
    if (next - log->reclaimed > log->mask)
        evlog_reclaim(log);
    return next - log->reclaimed <= log->mask;
}

static bool full_of_uncommitted(const struct evlog *log)
{
    uint64_t first = writer_load(&log->first);
    return writer_load(&log->next) - first >= log->capacity && !may_leave(log, first);
}

enum belfry_err evlog_append(struct evlog *log, struct batch *batch)
{
    assert(writer_past(log) != NULL && batch->rev > log->head);
    if (full_of_uncommitted(log) || !evlog_has_place(log))
        return BELFRY_ERR_AGAIN;
    uint64_t next = writer_load(&log->next);
    *slot_of(log, next) = (struct slot){.batch = batch, .rev = batch->rev, .base = log->head};
    log->held += batch->bytes;
    log->head = batch->rev;
    BELFRY_POINT("evlog.next.move");
    atomic_store_explicit(&log->next, next + 1, memory_order_release);
    evict_batches(log); /* only after the append, so that a view always has the newest batch of its past */
    evlog_reclaim(log);
    return BELFRY_OK;
}

void evlog_committed(struct evlog *log, int64_t rev)
{
    if (rev <= atomic_load_explicit(&log->committed, memory_order_relaxed))
        return;
    BELFRY_POINT("evlog.committed.move");
    atomic_store_explicit(&log->committed, rev, memory_order_release);
    evict_batches(log);
    evlog_reclaim(log);
}

enum belfry_err evlog_cut(struct evlog *log, int64_t rev, enum evlog_cut_why why, int64_t compact_rev)
{
    struct past *old = writer_past(log), *past = calloc(1, sizeof(*past));
    if (past == NULL)
        return BELFRY_ERR_NOMEM;
    past->cut = (struct evlog_cut){
        .past = old == NULL ? 1 : old->cut.past + 1, .rev = rev, .why = why, .compact_rev = compact_rev};
    past->cut.rewritten = why == EVLOG_CUT_REWRITTEN ? past->cut.past : old == NULL ? 0 : old->cut.rewritten;
    past->start = writer_load(&log->next);
    BELFRY_POINT("evlog.past.move");
    atomic_store_explicit(&log->past, past, memory_order_release);
    BELFRY_POINT("evlog.committed.cut");
    atomic_store_explicit(&log->committed, rev, memory_order_release);
    log->head = rev;
    if (old != NULL) {
        old->stamp = writer_load(&log->epoch);
        old->older = log->retired;
        log->retired = old;
    }
    unlink_below(log, past->start);
    evlog_reclaim(log);
    return BELFRY_OK;
}

int64_t evlog_head(const struct evlog *log)
{
    return log->head;
}

int64_t evlog_oldest(const struct evlog *log)
{
    uint64_t first = writer_load(&log->first);
    return (first < writer_load(&log->next) ? slot_of(log, first)->base : log->head) + 1;
}

size_t evlog_max_bytes(const struct evlog *log)
{
    return log->max_bytes;
}

size_t evlog_bytes(const struct evlog *log)
{
    return log->held + log->waiting;
}

/* ---- a worker ---- */

void evlog_enter(struct evlog *log, unsigned worker, struct evlog_view *view)
{
    assert(worker < log->n_workers);
    _Atomic uint64_t *turn = &log->turns[worker].epoch;
    assert(atomic_load_explicit(turn, memory_order_relaxed) == NO_TURN);
    BELFRY_POINT("evlog.epoch.load");
    uint64_t epoch = atomic_load(&log->epoch);
    BELFRY_POINT("evlog.turn.begin");
    atomic_store(turn, epoch);

    /* The comment at the top of the file explains this order. */
    BELFRY_POINT("evlog.first.load");
    uint64_t first = atomic_load(&log->first);
    BELFRY_POINT("evlog.next.load");
    uint64_t next = atomic_load_explicit(&log->next, memory_order_acquire);
    BELFRY_POINT("evlog.past.load");
    const struct past *past = atomic_load_explicit(&log->past, memory_order_acquire);

    *view = (struct evlog_view){.log = log};
    if (past == NULL)
        return;
    view->cut = past->cut;
    view->first = first > past->start ? first : past->start;
    view->next = next > past->start ? next : past->start;
    view->head = view->first == view->next ? past->cut.rev : slot_of(log, view->next - 1)->rev;
}

void evlog_leave(struct evlog *log, unsigned worker)
{
    assert(worker < log->n_workers);
    _Atomic uint64_t *turn = &log->turns[worker].epoch;
    assert(atomic_load_explicit(turn, memory_order_relaxed) != NO_TURN);
    BELFRY_POINT("evlog.turn.end");
    atomic_store_explicit(turn, NO_TURN, memory_order_release);
}

const struct batch *evlog_at(const struct evlog_view *view, uint64_t seq)
{
    assert(seq >= view->first && seq < view->next);
    BELFRY_POINT("evlog.at");
    return slot_of(view->log, seq)->batch;
}

uint64_t evlog_find(const struct evlog_view *view, int64_t rev)
{
    uint64_t low = view->first, high = view->next;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (slot_of(view->log, mid)->rev < rev)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool evlog_covers(const struct evlog_view *view, int64_t rev)
{
    if (view->cut.past == 0)
        return false;
    return rev > (view->first < view->next ? slot_of(view->log, view->first)->base : view->cut.rev);
}

/* ---- any ---- */

int64_t evlog_commit_rev(const struct evlog *log)
{
    BELFRY_POINT("evlog.committed.load");
    return atomic_load_explicit(&log->committed, memory_order_acquire);
}
