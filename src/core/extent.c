/* src/core/extent.c: slices are read twice: once to find the watchers that want a row, once to serve them. */
#include "core/extent.h"

#include "base/sim.h"

/* ---- finding the watchers ---- */

/* When all of live is scanned, only watchers of riding streams count: a walking stream reaches the extent itself. */
static bool scan_concerns(const struct registry *registry, const struct extent_scan *scan,
                          const struct watcher *watcher)
{
    const struct stream *stream = watcher->stream;
    if (watcher->next > scan->rev)
        return false;
    if (scan->stream != NULL)
        return !(stream->walk.mid_any && watcher->id <= stream->walk.mid_id);
    if (scan->population != POPULATION_LIVE)
        return true;
    return stream->state == STREAM_RIDING && stream->serial > registry->p.tell_serial;
}

static void scan_node(struct registry *registry, const struct extent_scan *scan, struct interest_node *node)
{
    struct interest_place from = {.serial = scan->stream == NULL ? 0 : scan->stream->serial, .id = INT64_MIN};
    struct belfry_treap_walk walk;
    struct watcher *watcher;
    interest_walk(node, scan->population, &from, &walk);
    while ((watcher = watcher_at_place(belfry_treap_next(&walk))) != NULL) {
        BELFRY_POINT("extent.watcher");
        if (scan->stream != NULL && watcher->stream != scan->stream)
            return;
        if (!scan_concerns(registry, scan, watcher))
            continue;
        from = (struct interest_place){.serial = watcher->stream->serial, .id = watcher->id};
        watcher_solo(registry, watcher, scan->rev);
        turn_spend(registry->turn, 1);
        interest_walk(node, scan->population, &from, &walk);
    }
}

enum extent_result extent_scan(struct delivery *delivery, struct gather *gather, const struct extent_scan *scan)
{
    struct turn *turn = delivery->turn;
    for (;;) {
        const struct batch *slice;
        switch (source_slice(delivery->source, scan->client, scan->rev, *scan->sub, SOURCE_PREFER_SLICES, &slice)) {
        case SOURCE_WAIT:
            return EXTENT_WAIT;
        case SOURCE_GONE:
            return EXTENT_GONE;
        case SOURCE_NONE:
        case SOURCE_BATCH:
            break;
        }
        for (uint32_t i = *scan->sub - slice->first_sub; i < slice->n_events; i++) {
            struct interest_node **nodes;
            size_t n;
            if (turn->work == 0)
                return EXTENT_MORE;
            turn->work--;
            if (gather_event(gather, slice, i, scan->population, &nodes, &n) != BELFRY_OK) {
                turn_retry_later(turn);
                return EXTENT_NO_MEMORY;
            }
            for (size_t j = 0; j < n; j++)
                scan_node(delivery->registry, scan, nodes[j]);
            *scan->sub = slice->first_sub + i + 1;
        }
        if (!slice->more)
            return EXTENT_DONE;
    }
}

/* ---- serving them ---- */

/* A slice's events from the stream's place on. False: no budget, no room or no memory is left, or the watcher is lost.
 */
static bool solo_slice(struct delivery *delivery, struct watcher *watcher, const struct batch *slice)
{
    struct stream *stream = watcher->stream;
    struct range range;
    interest_range(watcher->node, &range);
    for (uint32_t i = delivery_line_place(stream, slice->rev) - slice->first_sub; i < slice->n_events; i++) {
        bool is_in = range_has(&range, batch_key(slice, &slice->events[i]));
        bool is_last = !slice->more && i + 1 == slice->n_events; /* its line, or one without an event, says so */
        is_last =
            (is_last && !(BELFRY_MUTANT(page_left_open) && !is_in)) || (BELFRY_MUTANT(page_closed_early) && is_in);
        struct lines_part part = {.batch = slice, .events = &i, .n = is_in, .open = !is_last};
        uint32_t used;
        if (delivery->turn->work == 0)
            return false;
        delivery->turn->work--;
        switch (is_in || is_last ? delivery_line(delivery, watcher, &part, &used) : LINE_GIVEN) {
        case LINE_NO_ROOM:
            if (stream->outlet.room > 0 && stream->outlet.rest == NULL)
                turn_retry_later(delivery->turn);
            return false;
        case LINE_LOST:
            watcher_lose(delivery->registry, watcher, slice->rev + 1);
            return false;
        case LINE_GIVEN:
            delivery_line_pass(stream, slice, i);
            break;
        }
    }
    return true;
}

/* The number of events of the slice's revision, as far as this slice shows it. */
static size_t events_at_least(const struct batch *slice)
{
    bool parts = (slice->first_sub > 0 || slice->more) && !BELFRY_MUTANT(resumed_by_slice);
    return parts ? (size_t)slice->n_events + 1 : slice->n_events;
}

static bool solo_lines(struct delivery *delivery, struct stream *stream, struct watcher *watcher)
{
    int64_t rev = watcher->next;
    const struct batch *slice;
    do {
        uint32_t sub = delivery_line_place(stream, rev);
        switch (source_slice(delivery->source, stream->client, rev, sub, SOURCE_PREFER_SLICES, &slice)) {
        case SOURCE_WAIT:
            return false;
        case SOURCE_GONE:
            watcher_lose(delivery->registry, watcher, delivery->source->gone_told);
            return false;
        case SOURCE_NONE:
        case SOURCE_BATCH:
            break;
        }
        if (delivery_line_is_known(stream, rev, events_at_least(slice)))
            break;
        if (!solo_slice(delivery, watcher, slice))
            return false;
    } while (slice->more);
    watcher_detach(delivery->registry, watcher);
    watcher_place(delivery->registry, watcher, rev + 1);
    return true;
}

static bool solo_response(struct delivery *delivery, struct stream *stream, struct watcher *watcher)
{
    if (stream->outlet.rest == NULL && !delivery_begin_extent(delivery, watcher)) {
        turn_retry_later(delivery->turn);
        return false;
    }
    return delivery_pending(delivery, stream);
}

bool extent_solo(struct delivery *delivery, struct stream *stream)
{
    while (!belfry_list_empty(&stream->solo)) {
        struct watcher *watcher = belfry_container(stream->solo.next, struct watcher, link);
        if (delivery->turn->work == 0)
            return false;
        bool served = stream->outlet.lines != NULL ? solo_lines(delivery, stream, watcher)
                                                   : solo_response(delivery, stream, watcher);
        if (!served)
            return belfry_list_empty(&stream->solo); /* it may have been lost meanwhile */
    }
    return true;
}
