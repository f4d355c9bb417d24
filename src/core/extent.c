/* src/core/extent.c: a revision too large for memory. Its rows are read in slices, first to find out whose they are, then,
 * for one watcher at a time (solo), to measure his response and to write it. */
#include "base/clock.h"
#include "base/sim.h"
#include "core/worker_private.h"

static void make_solo(struct worker *worker, struct watcher *watcher, int64_t rev)
{
    watcher_detach(worker, watcher);
    watcher->next = rev;
    belfry_list_append(&watcher->stream->solo, &watcher->link);
    watcher_move(watcher, worker, WATCHER_SOLO);
    stream_ready(worker, watcher->stream);
}

/* Of riding streams only, when all of live is scanned: one that walks comes to the extent itself. */
static bool concerns(const struct worker *worker, const struct watcher *watcher, int64_t rev, unsigned population,
                     const struct stream *stream)
{
    if (watcher->next > rev)
        return false;
    if (stream != NULL)
        return watcher->stream == stream && !(stream->mid_any && watcher->id <= stream->mid_id);
    if (population != POPULATION_LIVE)
        return true;
    return watcher->stream->state == STREAM_RIDING && watcher->stream->serial > worker->tell_serial;
}

static void scan_node(struct worker *worker, struct interest_node *node, int64_t rev, unsigned population,
                      const struct stream *stream)
{
    struct watcher_place_key from = {.serial = stream == NULL ? 0 : stream->serial, .id = INT64_MIN};
    struct belfry_treap_walk walk;
    struct watcher *watcher;
    belfry_treap_walk(&walk, interest_population(node, population), &from, watcher_seek_place);
    while ((watcher = watcher_at_place(belfry_treap_next(&walk))) != NULL) {
        BELFRY_POINT("extent.watcher");
        if (stream != NULL && watcher->stream != stream)
            return;
        if (!concerns(worker, watcher, rev, population, stream))
            continue;
        from = (struct watcher_place_key){.serial = watcher->stream->serial, .id = watcher->id};
        make_solo(worker, watcher, rev);
        worker->work -= worker->work > 0;
        belfry_treap_walk(&walk, interest_population(node, population), &from, watcher_seek_place);
    }
}

enum extent_result extent_scan(struct worker *worker, int64_t rev, uint32_t *sub, unsigned population,
                               struct stream *stream)
{
    for (;;) {
        const struct batch *slice;
        switch (source_slice(worker, rev, *sub, SOURCE_PREFER_SLICES, &slice)) {
        case SOURCE_WAIT:
            return EXTENT_WAIT;
        case SOURCE_GONE:
            return EXTENT_GONE;
        case SOURCE_NONE:
        case SOURCE_BATCH:
            break;
        }
        for (uint32_t i = *sub - slice->first_sub; i < slice->n_events; i++) {
            struct interest_node **nodes;
            size_t n;
            if (worker->work == 0)
                return EXTENT_MORE;
            worker->work--;
            if (gather_event(worker, slice, i, population, &nodes, &n) != BELFRY_OK) {
                worker_retry_later(worker);
                return EXTENT_WAIT;
            }
            for (size_t j = 0; j < n; j++)
                scan_node(worker, nodes[j], rev, population, stream);
            *sub = slice->first_sub + i + 1;
        }
        if (!slice->more)
            return EXTENT_DONE;
    }
}

static bool begin(struct worker *worker, struct stream *stream, struct watcher *watcher)
{
    struct response_opts opts = {
        .watch_id = watcher->id,
        .header_rev = watcher->next,
        .flags = watcher->flags,
        .fragment_bytes = worker->opts.fragment_bytes,
    };
    struct range range;
    interest_range(watcher->node, &range);
    if (rest_of_extent(&worker->opts.identity, &opts, &range, watcher->next, &stream->rest) != BELFRY_OK)
        return false;
    stream->rest_since = worker->now;
    output_account_rest(worker, stream);
    stream->solo_now = watcher;
    stream->solo_rest = true;
    if ((watcher->flags & WATCHER_PROGRESS) != 0)
        watcher->flags |= WATCHER_ACTIVE;
    worker->stats.deliveries++;
    return true;
}

/* A slice's events from the stream's place on. False: the budget, the room or the memory ended, or the watcher is lost. */
static bool solo_slice(struct worker *worker, struct watcher *watcher, const struct batch *slice)
{
    struct stream *stream = watcher->stream;
    struct range range;
    interest_range(watcher->node, &range);
    for (uint32_t i = lines_place(stream, slice->rev) - slice->first_sub; i < slice->n_events; i++) {
        if (worker->work == 0)
            return false;
        worker->work--;
        if (!range_has(&range, batch_key(slice, &slice->events[i]))) {
            lines_pass(stream, slice, i);
            continue;
        }
        switch (lines_event(worker, watcher, slice, i)) {
        case LINES_NO_ROOM:
            if (stream->room > 0 && stream->rest == NULL)
                worker_retry_later(worker);
            return false;
        case LINES_LOST:
            watcher_lose(worker, watcher, slice->rev + 1);
            return false;
        case LINES_GIVEN:
            break;
        }
    }
    return true;
}

/* How many events the slice's revision has, as far as it can be known from it. */
static size_t events_at_least(const struct batch *slice)
{
    bool parts = (slice->first_sub > 0 || slice->more) && !BELFRY_MUTANT(resumed_by_slice);
    return parts ? (size_t)slice->n_events + 1 : slice->n_events;
}

/* Lines need no measuring: each goes out when it is come to. */
static bool solo_lines(struct worker *worker, struct stream *stream, struct watcher *watcher)
{
    int64_t rev = watcher->next;
    const struct batch *slice;
    do {
        switch (source_slice(worker, rev, lines_place(stream, rev), SOURCE_PREFER_SLICES, &slice)) {
        case SOURCE_WAIT:
            return false;
        case SOURCE_GONE:
            watcher_lose(worker, watcher, worker->gone_told);
            return false;
        case SOURCE_NONE:
        case SOURCE_BATCH:
            break;
        }
        if (lines_has_it(stream, rev, events_at_least(slice)))
            break;
        if (!solo_slice(worker, watcher, slice))
            return false;
    } while (slice->more);
    watcher_detach(worker, watcher);
    watcher_place(worker, watcher, rev + 1);
    return true;
}

static bool solo_response(struct worker *worker, struct stream *stream, struct watcher *watcher)
{
    if (stream->rest == NULL && !begin(worker, stream, watcher)) {
        worker_retry_later(worker);
        return false;
    }
    return output_pending(worker, stream);
}

bool extent_solo(struct worker *worker, struct stream *stream)
{
    while (!belfry_list_empty(&stream->solo)) {
        struct watcher *watcher = belfry_container(stream->solo.next, struct watcher, link);
        if (worker->work == 0)
            return false;
        if (stream->lines != NULL ? !solo_lines(worker, stream, watcher) : !solo_response(worker, stream, watcher))
            return belfry_list_empty(&stream->solo); /* it may have been lost meanwhile */
    }
    return true;
}

/* The rows are gone. Nothing sent: the watcher is told; otherwise only the end of the stream is honest. */
static void give_up(struct worker *worker, struct stream *stream)
{
    struct watcher *watcher = stream->solo_now;
    if (rest_begun(stream->rest))
        stream->broken = true;
    else if (watcher != NULL)
        watcher_lose(worker, watcher, worker->gone_told); /* ends the rest */
    else
        output_rest_end(worker, stream);
}

bool extent_feed(struct worker *worker, struct stream *stream)
{
    int64_t rev;
    uint32_t sub;
    while (stream->rest != NULL && rest_wants_slice(stream->rest, &rev, &sub)) {
        const struct batch *slice;
        if (worker->work == 0)
            return false;
        worker->work--;
        enum source_prefer prefer = rest_in_slices(stream->rest) ? SOURCE_PREFER_SLICES : SOURCE_PREFER_WHOLE;
        switch (source_slice(worker, rev, sub, prefer, &slice)) {
        case SOURCE_WAIT:
            return false;
        case SOURCE_GONE:
            give_up(worker, stream);
            return false;
        case SOURCE_NONE:
        case SOURCE_BATCH:
            break;
        }
        rest_slice(stream->rest, slice);
        output_account_rest(worker, stream);
    }
    return true;
}
