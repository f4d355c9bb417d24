/* src/core/source.c: where a batch comes from: the log, a segment that is kept, or history, which is asked for. */
#include <assert.h>

#include "base/clock.h"
#include "core/worker_private.h"

/* The segment that says what there is at `rev` and behind; NULL: none is kept. */
static const struct segment *find_segment(struct worker *worker, int64_t rev)
{
    for (size_t i = 0; i < WORKER_SEGMENTS; i++) {
        struct kept_segment *kept = &worker->segments[i];
        const struct segment *segment = kept->segment;
        if (segment == NULL || rev < segment->from || rev > segment->upto)
            continue;
        size_t at = segment_find(segment, rev);
        if (at < segment->n && segment->batches[at]->kind == BATCH_SLICE)
            continue;
        kept->used = worker->turn;
        return segment;
    }
    return NULL;
}

/* The batch of this kind that has event `sub` of `rev`; NULL: none is kept. */
static const struct batch *find_events(struct worker *worker, enum batch_kind kind, int64_t rev, uint32_t sub)
{
    for (size_t i = 0; i < WORKER_SEGMENTS; i++) {
        struct kept_segment *kept = &worker->segments[i];
        const struct segment *segment = kept->segment;
        if (segment == NULL || rev < segment->from || rev > segment->upto)
            continue;
        size_t at = segment_find(segment, rev);
        const struct batch *batch = at < segment->n ? segment->batches[at] : NULL;
        if (batch == NULL || batch->rev != rev || batch->kind != kind || sub < batch->first_sub ||
            sub - batch->first_sub >= batch->n_events)
            continue;
        kept->used = worker->turn;
        return batch;
    }
    return NULL;
}

static void drop(struct worker *worker, struct kept_segment *kept)
{
    worker->segment_bytes -= kept->segment->bytes;
    worker->bytes -= kept->segment->bytes;
    segment_unref(kept->segment);
    kept->segment = NULL;
}

/* The one that was not looked at for longest; what came or was used since the last turn's start stays. */
static struct kept_segment *least_used(struct worker *worker)
{
    struct kept_segment *least = NULL;
    for (size_t i = 0; i < WORKER_SEGMENTS; i++) {
        struct kept_segment *kept = &worker->segments[i];
        if (kept->segment != NULL && kept->used < worker->turn && (least == NULL || kept->used < least->used))
            least = kept;
    }
    return least;
}

static struct kept_segment *free_segment(struct worker *worker)
{
    for (size_t i = 0; i < WORKER_SEGMENTS; i++) {
        if (worker->segments[i].segment == NULL)
            return &worker->segments[i];
    }
    return NULL;
}

static void keep(struct worker *worker, struct segment *segment)
{
    struct kept_segment *free_slot, *least;
    while (worker->segment_bytes + segment->bytes > worker->opts.segment_bytes && (least = least_used(worker)) != NULL)
        drop(worker, least);
    if ((free_slot = free_segment(worker)) == NULL && (least = least_used(worker)) != NULL) {
        drop(worker, least);
        free_slot = least;
    }
    if (free_slot == NULL) { /* all are new: who needs this one asks again */
        segment_unref(segment);
        return;
    }
    *free_slot = (struct kept_segment){.segment = segment, .used = worker->turn};
    worker->segment_bytes += segment->bytes;
    worker->bytes += segment->bytes;
}

static bool same_fetch(const struct worker_fetch *a, const struct worker_fetch *b)
{
    return a->past == b->past && a->from == b->from && a->slice == b->slice && a->sub == b->sub;
}

/* Asks for history, unless that has been done, or too much is under way: then later. */
static void want(struct worker *worker, int64_t from, bool slice, uint32_t sub)
{
    struct worker_fetch fetch = {.past = worker->past, .from = from, .slice = slice, .sub = sub};
    size_t most = worker->opts.segment_bytes / SEGMENT_BYTES; /* no more than can be kept until they are used */
    struct fetch_slot *free_slot = NULL;
    for (size_t i = 0; i < WORKER_FETCHES; i++) {
        struct fetch_slot *slot = &worker->fetches[i];
        if (slot->state == FETCH_FREE)
            free_slot = free_slot == NULL && (i == 0 || i < most) ? slot : free_slot;
        else if (same_fetch(&slot->fetch, &fetch))
            return;
    }
    if (free_slot == NULL) {
        worker_retry_later(worker);
        return;
    }
    *free_slot = (struct fetch_slot){.fetch = fetch, .state = FETCH_WANTED};
}

static enum source_result in_log(struct worker *worker, int64_t from, int64_t limit, const struct batch **out,
                                 int64_t *upto)
{
    uint64_t seq = evlog_find(&worker->view, from);
    const struct batch *batch = seq < worker->view.next ? evlog_at(&worker->view, seq) : NULL;
    if (batch == NULL || batch->rev > limit) {
        *upto = batch == NULL && worker->view.head < limit ? worker->view.head : limit;
        return SOURCE_NONE;
    }
    *out = batch;
    return SOURCE_BATCH;
}

static enum source_result in_segment(const struct segment *segment, int64_t from, int64_t limit,
                                     const struct batch **out, int64_t *upto)
{
    size_t at = segment_find(segment, from);
    if (at == segment->n || segment->batches[at]->rev > limit) {
        *upto = segment->upto < limit ? segment->upto : limit;
        return SOURCE_NONE;
    }
    *out = segment->batches[at];
    return SOURCE_BATCH;
}

enum source_result source_next(struct worker *worker, int64_t from, int64_t limit, const struct batch **out,
                               int64_t *upto)
{
    assert(from <= limit && limit <= worker->view.head);
    if (evlog_covers(&worker->view, from))
        return in_log(worker, from, limit, out, upto);
    const struct segment *segment = find_segment(worker, from);
    if (segment != NULL)
        return in_segment(segment, from, limit, out, upto);
    if (from < worker->gone_below)
        return SOURCE_GONE;
    want(worker, from, false, 0);
    return SOURCE_WAIT;
}

enum source_result source_slice(struct worker *worker, int64_t rev, uint32_t sub, enum source_prefer prefer,
                                const struct batch **out)
{
    static const enum batch_kind kinds[][2] = {
        [SOURCE_PREFER_SLICES] = {BATCH_SLICE, BATCH_EVENTS}, [SOURCE_PREFER_WHOLE] = {BATCH_EVENTS, BATCH_SLICE}};
    if (evlog_covers(&worker->view, rev)) { /* a batch that too many want is gone through in slices: it is one */
        uint64_t seq = evlog_find(&worker->view, rev);
        const struct batch *batch = seq < worker->view.next ? evlog_at(&worker->view, seq) : NULL;
        if (batch != NULL && batch->rev == rev && batch->kind == BATCH_EVENTS) {
            *out = batch;
            return SOURCE_BATCH;
        }
    }
    const struct batch *batch = find_events(worker, kinds[prefer][0], rev, sub);
    if (batch == NULL)
        batch = find_events(worker, kinds[prefer][1], rev, sub);
    if (batch != NULL) {
        *out = batch;
        return SOURCE_BATCH;
    }
    if (rev < worker->gone_below)
        return SOURCE_GONE;
    want(worker, rev, true, sub);
    return SOURCE_WAIT;
}

bool worker_wants_fetch(struct worker *worker, struct worker_fetch *out)
{
    for (size_t i = 0; i < WORKER_FETCHES; i++) {
        struct fetch_slot *slot = &worker->fetches[i];
        if (slot->state != FETCH_WANTED)
            continue;
        slot->state = FETCH_SENT;
        *out = slot->fetch;
        worker->stats.fetches++;
        return true;
    }
    return false;
}

/* Those who await history look again. */
static void wake(struct worker *worker)
{
    belfry_list_move_all(&worker->ready, &worker->awaiting);
    sweep_woken(worker);
}

void worker_fetched(struct worker *worker, const struct worker_fetch *fetch, enum belfry_err err,
                    struct segment *segment, int64_t compact_rev, int64_t oldest)
{
    bool known = false;
    assert(!worker->in_turn);
    for (size_t i = 0; i < WORKER_FETCHES && !known; i++) {
        struct fetch_slot *slot = &worker->fetches[i];
        known = slot->state == FETCH_SENT && same_fetch(&slot->fetch, fetch);
        if (known)
            slot->state = FETCH_FREE;
    }
    if (!known || fetch->past != worker->past || (segment != NULL && segment->past != worker->past)) {
        segment_unref(segment); /* another past's */
    } else if (err == BELFRY_OK) {
        for (size_t i = 0; i < segment->n; i++)
            worker->stats.rows_swept += segment->batches[i]->n_events;
        keep(worker, segment);
        wake(worker);
    } else if (err == BELFRY_ERR_COMPACTED) {
        int64_t below = compact_rev < oldest ? compact_rev : oldest;
        if (below > worker->gone_below)
            worker->gone_below = below;
        if (compact_rev > worker->gone_told)
            worker->gone_told = compact_rev;
        wake(worker);
    } else {
        worker_retry_later(worker);
    }
}

void source_forget(struct worker *worker)
{
    for (size_t i = 0; i < WORKER_SEGMENTS; i++) {
        if (worker->segments[i].segment != NULL)
            drop(worker, &worker->segments[i]);
    }
    for (size_t i = 0; i < WORKER_FETCHES; i++)
        worker->fetches[i].state = FETCH_FREE;
    worker->gone_below = worker->gone_told = 0;
}

void source_retry(struct worker *worker)
{
    if (worker->now < worker->retry_at)
        return;
    worker->retry_at = BELFRY_NEVER;
    wake(worker);
}
