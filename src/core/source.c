/* src/core/source.c: a few slots for segments and for fetches, searched one by one. */
#include "core/source.h"

#include <assert.h>

#include "base/clock.h"

void source_init(struct source *source, struct turn *turn, size_t keep_bytes)
{
    *source = (struct source){.turn = turn, .keep_bytes = keep_bytes};
}

void source_fini(struct source *source)
{
    source_begin_past(source, 0);
}

/* ---- segments that are kept ---- */

static bool segment_has(const struct segment *segment, int64_t rev)
{
    return segment != NULL && segment->from <= rev && rev <= segment->upto;
}

/* The segment that knows what comes at `rev` and after it; NULL: none is kept. */
static const struct segment *find_segment(struct source *source, int64_t rev)
{
    for (size_t i = 0; i < SOURCE_SEGMENTS; i++) {
        struct source_segment *kept = &source->segments[i];
        const struct segment *segment = kept->segment;
        if (!segment_has(segment, rev))
            continue;
        size_t at = segment_find(segment, rev);
        if (at < segment->n && segment->batches[at]->kind == BATCH_SLICE)
            continue;
        kept->used = source->turn->number;
        return segment;
    }
    return NULL;
}

/* The batch of this kind that has event `sub` of `rev`; NULL: none is kept. */
static const struct batch *find_events(struct source *source, enum batch_kind kind, int64_t rev, uint32_t sub)
{
    for (size_t i = 0; i < SOURCE_SEGMENTS; i++) {
        struct source_segment *kept = &source->segments[i];
        const struct segment *segment = kept->segment;
        if (!segment_has(segment, rev))
            continue;
        size_t at = segment_find(segment, rev);
        const struct batch *batch = at < segment->n ? segment->batches[at] : NULL;
        if (batch == NULL || batch->rev != rev || batch->kind != kind || sub < batch->first_sub ||
            sub - batch->first_sub >= batch->n_events)
            continue;
        kept->used = source->turn->number;
        return batch;
    }
    return NULL;
}

static void drop_segment(struct source *source, struct source_segment *kept)
{
    source->bytes -= kept->segment->bytes;
    segment_unref(kept->segment);
    kept->segment = NULL;
}

/* Segments that arrived or were used in this turn are not evicted. */
static struct source_segment *least_used(struct source *source)
{
    struct source_segment *least = NULL;
    for (size_t i = 0; i < SOURCE_SEGMENTS; i++) {
        struct source_segment *kept = &source->segments[i];
        if (kept->segment != NULL && kept->used < source->turn->number && (least == NULL || kept->used < least->used))
            least = kept;
    }
    return least;
}

void source_give_back(struct source *source, size_t bytes)
{
    size_t before = source->bytes;
    struct source_segment *least;
    while (before - source->bytes < bytes && (least = least_used(source)) != NULL)
        drop_segment(source, least);
}

static void keep_segment(struct source *source, struct segment *segment)
{
    struct source_segment *slot = NULL, *least;
    while (source->bytes + segment->bytes > source->keep_bytes && (least = least_used(source)) != NULL)
        drop_segment(source, least);
    for (size_t i = 0; i < SOURCE_SEGMENTS && slot == NULL; i++) {
        if (source->segments[i].segment == NULL)
            slot = &source->segments[i];
    }
    if (slot == NULL && (slot = least_used(source)) != NULL)
        drop_segment(source, slot);
    if (slot == NULL) { /* all kept segments are new: drop this one; a stream that needs it asks again */
        segment_unref(segment);
        return;
    }
    *slot = (struct source_segment){.segment = segment, .used = source->turn->number};
    source->bytes += segment->bytes;
}

/* Some slices of a revision that is gone are of no use without the others: what begins with them cannot end. */
static bool is_gone_slice(const struct source *source, const struct segment *segment)
{
    return segment->n > 0 && segment->batches[0]->kind == BATCH_SLICE && segment->batches[0]->rev < source->gone_below;
}

static void drop_gone_slices(struct source *source)
{
    for (size_t i = 0; i < SOURCE_SEGMENTS; i++) {
        struct source_segment *kept = &source->segments[i];
        if (kept->segment != NULL && is_gone_slice(source, kept->segment))
            drop_segment(source, kept);
    }
}

void source_begin_past(struct source *source, uint64_t past)
{
    for (size_t i = 0; i < SOURCE_SEGMENTS; i++) {
        if (source->segments[i].segment != NULL)
            drop_segment(source, &source->segments[i]);
    }
    for (size_t i = 0; i < SOURCE_FETCHES; i++)
        source->fetches[i].state = FETCH_FREE;
    source->gone_below = source->gone_told = 0;
    source->past = past;
}

/* ---- fetches ---- */

static bool same_fetch(const struct worker_fetch *a, const struct worker_fetch *b)
{
    return a->past == b->past && a->from == b->from && a->slice == b->slice && a->sub == b->sub;
}

/* Its answer takes long: from a backfill, while upstream is away, it may take hours. */
static bool is_late(const struct source *source, const struct source_fetch *slot)
{
    return slot->state != FETCH_FREE && source->turn->now - slot->since_ms >= SOURCE_LATE_MS;
}

/* Requests history. Does nothing if it was requested already. Without a place for it, the caller's next try is after
 * the next answer, or when the next fetch is late. */
static void want(struct source *source, const struct worker_fetch *fetch)
{
    size_t most = source->keep_bytes / SEGMENT_BYTES; /* at most as many as can be kept until they are used */
    most = most < 1 ? 1 : most > SOURCE_FETCHES / 2 ? SOURCE_FETCHES / 2 : most;

    /* Late fetches count for their client only. The oldest of them is forgotten if no slot is free. */
    size_t n_used = 0, n_own = 0;
    uint64_t next_late_ms = BELFRY_NEVER;
    struct source_fetch *place = NULL;
    for (size_t i = 0; i < SOURCE_FETCHES; i++) {
        struct source_fetch *slot = &source->fetches[i];
        bool is_free = slot->state == FETCH_FREE, has_place = !is_free && !is_late(source, slot);
        if (!is_free && same_fetch(&slot->fetch, fetch))
            return;
        n_own += !is_free && slot->fetch.client == fetch->client && (fetch->client != 0 || has_place);
        if (has_place) {
            n_used++;
            next_late_ms = belfry_min_time(next_late_ms, slot->since_ms + SOURCE_LATE_MS);
        } else if (place == NULL || (place->state != FETCH_FREE && (is_free || slot->since_ms < place->since_ms))) {
            place = slot;
        }
    }

    size_t n_free = n_used < most ? most - n_used : 0;
    bool has_part =
        n_own >= n_free && n_free < most; /* where all are free, also a client with many late ones has one */
    if (fetch->client == 0)
        has_part = n_free == 0 && n_own > 0;
    if (has_part) {
        turn_retry_at(source->turn, next_late_ms);
        return;
    }
    assert(place != NULL); /* n_used <= most + 1 */
    *place = (struct source_fetch){.fetch = *fetch, .state = FETCH_WANTED, .since_ms = source->turn->now};
}

bool source_wants_fetch(struct source *source, struct worker_fetch *out)
{
    for (size_t i = 0; i < SOURCE_FETCHES; i++) {
        struct source_fetch *slot = &source->fetches[i];
        if (slot->state != FETCH_WANTED)
            continue;
        slot->state = FETCH_SENT;
        *out = slot->fetch;
        source->n_fetches++;
        return true;
    }
    return false;
}

bool source_fetched(struct source *source, const struct worker_fetch *fetch, enum belfry_err err,
                    struct segment *segment, int64_t compact_rev, int64_t oldest)
{
    for (size_t i = 0; i < SOURCE_FETCHES; i++) {
        struct source_fetch *slot = &source->fetches[i];
        if (slot->state == FETCH_SENT && same_fetch(&slot->fetch, fetch))
            slot->state = FETCH_FREE;
    }
    if (fetch->past != source->past || (segment != NULL && segment->past != source->past)) {
        segment_unref(segment); /* another past's */
        return false;
    }
    if (err == BELFRY_OK) {
        for (size_t i = 0; i < segment->n; i++)
            source->n_rows += segment->batches[i]->n_events;
        if (is_gone_slice(source, segment))
            segment_unref(segment);
        else
            keep_segment(source, segment);
        return true;
    }
    if (err == BELFRY_ERR_COMPACTED) {
        int64_t below = compact_rev < oldest ? compact_rev : oldest;
        if (below > source->gone_below)
            source->gone_below = below;
        if (compact_rev > source->gone_told)
            source->gone_told = compact_rev;
        drop_gone_slices(source);
        return true;
    }
    if (err == BELFRY_ERR_LIMIT)
        turn_retry_at(source->turn, source->turn->now + SOURCE_LATE_MS); /* too many wait: there is no sooner place */
    else
        turn_retry_later(source->turn);
    return false;
}

/* ---- batches ---- */

static enum source_result in_log(const struct evlog_view *view, int64_t from, int64_t limit, const struct batch **out,
                                 int64_t *upto)
{
    uint64_t seq = evlog_find(view, from);
    const struct batch *batch = seq < view->next ? evlog_at(view, seq) : NULL;
    if (batch == NULL || batch->rev > limit) {
        *upto = batch == NULL && view->head < limit ? view->head : limit;
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

enum source_result source_next(struct source *source, uint64_t client, int64_t from, int64_t limit,
                               const struct batch **out, int64_t *upto)
{
    const struct evlog_view *view = &source->turn->view;
    assert(from <= limit && limit <= view->head);
    if (evlog_covers(view, from))
        return in_log(view, from, limit, out, upto);
    const struct segment *segment = find_segment(source, from);
    if (segment != NULL)
        return in_segment(segment, from, limit, out, upto);
    if (from < source->gone_below)
        return SOURCE_GONE;
    want(source, &(struct worker_fetch){.client = client, .past = source->past, .from = from});
    return SOURCE_WAIT;
}

enum source_result source_slice(struct source *source, uint64_t client, int64_t rev, uint32_t sub,
                                enum source_prefer prefer, const struct batch **out)
{
    static const enum batch_kind kinds[][2] = {
        [SOURCE_PREFER_SLICES] = {BATCH_SLICE, BATCH_EVENTS}, [SOURCE_PREFER_WHOLE] = {BATCH_EVENTS, BATCH_SLICE}};
    const struct evlog_view *view = &source->turn->view;
    if (evlog_covers(view, rev)) { /* a batch that too many nodes want counts as one slice */
        uint64_t seq = evlog_find(view, rev);
        const struct batch *batch = seq < view->next ? evlog_at(view, seq) : NULL;
        if (batch != NULL && batch->rev == rev && batch->kind == BATCH_EVENTS) {
            *out = batch;
            return SOURCE_BATCH;
        }
    }
    const struct batch *batch = find_events(source, kinds[prefer][0], rev, sub);
    if (batch == NULL)
        batch = find_events(source, kinds[prefer][1], rev, sub);
    if (batch != NULL) {
        *out = batch;
        return SOURCE_BATCH;
    }
    if (rev < source->gone_below)
        return SOURCE_GONE;
    struct worker_fetch fetch = {.client = client, .past = source->past, .from = rev, .slice = true, .sub = sub};
    want(source, &fetch);
    return SOURCE_WAIT;
}
