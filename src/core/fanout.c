/* src/core/fanout.c: absorbing batches, walking streams, progress, and the turn of one stream. */
#include "core/fanout.h"

#include <stdlib.h>

#include "base/sim.h"
#include "core/extent.h"

#define QUANTUM 256 /* messages for one stream before the next has its turn */

enum step { STEP_DONE, STEP_MORE, STEP_WAIT, STEP_NO_ROOM };

/* The next watcher of each group, smallest id first: a heap. */
struct fanout_head {
    struct watcher *watcher;
    uint32_t group;
};

void fanout_init(struct fanout *fanout, struct delivery *delivery, struct gather *gather)
{
    *fanout = (struct fanout){.turn = delivery->turn,
                              .source = delivery->source,
                              .registry = delivery->registry,
                              .p = &delivery->registry->p,
                              .gather = gather,
                              .delivery = delivery};
    belfry_list_init(&fanout->fresh);
    belfry_list_init(&fanout->held);
}

void fanout_fini(struct fanout *fanout)
{
    free(fanout->heads);
}

/* The first live watcher of the node at or after (serial, id). */
static struct watcher *first_live_from(const struct interest_node *node, uint64_t serial, int64_t id)
{
    struct interest_place from = {.serial = serial, .id = id};
    struct belfry_treap_walk walk;
    interest_walk(node, POPULATION_LIVE, &from, &walk);
    return watcher_at_place(belfry_treap_next(&walk));
}

/* One watcher's response. The stream's place inside the revision moves with it. */
static enum step give_watcher(struct fanout *fanout, struct stream *stream, const struct batch *batch,
                              const struct gather_group *group, struct watcher *watcher)
{
    BELFRY_POINT("fanout.watcher");
    if (fanout->turn->work == 0)
        return STEP_MORE;
    fanout->turn->work--;
    if (batch->rev >= watcher->next) {
        struct response_pick pick = gather_pick(fanout->gather, batch, group);
        enum output_result result = delivery_events(fanout->delivery, watcher, &pick, DELIVERY_LIVE);
        if (result == OUTPUT_NO_ROOM || result == OUTPUT_MORE)
            return result == OUTPUT_MORE ? STEP_MORE : STEP_NO_ROOM;
    }
    stream->walk.mid_id = watcher->id;
    return STEP_DONE;
}

/* Riders of the stream that need what is gone are lost. */
static void lose_gone(struct fanout *fanout, struct stream *stream)
{
    stream_lose_gone(fanout->registry, stream, fanout->source->gone_below, fanout->source->gone_told);
}

/* The revision is gone, so the streams that wanted it are unknown: every watcher that needed it is lost. */
static void lose_riding(struct fanout *fanout)
{
    belfry_list_each (node, &fanout->registry->streams) {
        struct stream *stream = belfry_container(node, struct stream, link);
        if (stream->state == STREAM_RIDING)
            lose_gone(fanout, stream);
    }
}

/* Scans an extent for the stream, or (NULL) for all riding streams: watchers that want one of its rows become solo. */
static enum step scan_extent(struct fanout *fanout, int64_t rev, struct stream *stream, uint32_t *sub)
{
    struct extent_scan scan = {.rev = rev,
                               .population = POPULATION_LIVE,
                               .stream = stream,
                               .client = stream == NULL ? 0 : stream->client,
                               .sub = sub};
    switch (extent_scan(fanout->delivery, fanout->gather, &scan)) {
    case EXTENT_WAIT:
    case EXTENT_NO_MEMORY:
        return STEP_WAIT;
    case EXTENT_MORE:
        return STEP_MORE;
    case EXTENT_GONE:
        if (stream != NULL)
            lose_gone(fanout, stream);
        else
            lose_riding(fanout);
        break;
    case EXTENT_DONE:
        break;
    }
    return STEP_DONE;
}

/* ---- walking: from the stream's position up to P ---- */

static enum step give_group(struct fanout *fanout, struct stream *stream, const struct batch *batch,
                            const struct gather_group *group)
{
    struct interest_place key = {.serial = stream->serial, .id = stream->walk.mid_id};
    struct belfry_treap_walk walk;
    interest_walk(group->node, POPULATION_LIVE, &key, &walk);
    struct watcher *watcher;
    while ((watcher = watcher_at_place(belfry_treap_next(&walk))) != NULL && watcher->stream == stream) {
        if (watcher->id == key.id && stream->walk.mid_any)
            continue; /* the last that was given */
        enum step step = give_watcher(fanout, stream, batch, group, watcher);
        if (step != STEP_DONE)
            return step;
        stream->walk.mid_any = true;
    }
    return STEP_DONE;
}

static void heads_sift(struct fanout_head *heads, size_t n, size_t i)
{
    for (;;) {
        size_t least = i, left = 2 * i + 1, right = left + 1;
        if (left < n && heads[left].watcher->id < heads[least].watcher->id)
            least = left;
        if (right < n && heads[right].watcher->id < heads[least].watcher->id)
            least = right;
        if (least == i)
            return;
        struct fanout_head head = heads[i];
        heads[i] = heads[least];
        heads[least] = head;
        i = least;
    }
}

/* The stream's next watcher of a group, after those that received the batch. */
static struct watcher *next_of_group(const struct stream *stream, const struct gather_group *group)
{
    if (stream->walk.mid_any && stream->walk.mid_id == INT64_MAX)
        return NULL;
    struct watcher *watcher = first_live_from(group->node, stream->serial,
                                              stream->walk.mid_any ? stream->walk.mid_id + 1 : stream->walk.mid_id);
    return watcher != NULL && watcher->stream == stream ? watcher : NULL;
}

static enum belfry_err heads_reserve(struct fanout *fanout, size_t n)
{
    if (n <= fanout->cap_heads)
        return BELFRY_OK;
    struct fanout_head *heads = realloc(fanout->heads, 2 * n * sizeof(*heads));
    if (heads == NULL)
        return BELFRY_ERR_NOMEM;
    fanout->heads = heads;
    fanout->cap_heads = 2 * n;
    return BELFRY_OK;
}

/* Several ranges want the batch: their watchers are merged by id. */
static enum step give_merged(struct fanout *fanout, struct stream *stream, const struct batch *batch)
{
    const struct gather *gather = fanout->gather;
    size_t n = 0;
    if (heads_reserve(fanout, gather->n_groups) != BELFRY_OK)
        return STEP_WAIT;
    turn_spend(fanout->turn, gather->n_groups / 8); /* a seek in each */
    for (uint32_t i = 0; i < gather->n_groups; i++) {
        struct watcher *watcher = next_of_group(stream, &gather->groups[i]);
        if (watcher != NULL)
            fanout->heads[n++] = (struct fanout_head){.watcher = watcher, .group = i};
    }
    for (size_t i = n / 2; i-- > 0;)
        heads_sift(fanout->heads, n, i);
    while (n > 0) {
        struct fanout_head *top = &fanout->heads[0];
        const struct gather_group *group = &gather->groups[top->group];
        enum step step = give_watcher(fanout, stream, batch, group, top->watcher);
        if (step != STEP_DONE)
            return step;
        stream->walk.mid_any = true;
        top->watcher = next_of_group(stream, group);
        if (top->watcher == NULL)
            *top = fanout->heads[--n];
        heads_sift(fanout->heads, n, 0);
    }
    return STEP_DONE;
}

static enum step walk_extent(struct fanout *fanout, struct stream *stream, const struct batch *batch)
{
    if (!stream->walk.scanning) {
        stream->walk.scanning = true;
        stream->walk.scan_sub = 0;
    }
    return scan_extent(fanout, batch->rev, stream, &stream->walk.scan_sub);
}

static enum step give_batch(struct fanout *fanout, struct stream *stream, const struct batch *batch)
{
    enum belfry_err err = gather_batch(fanout->gather, batch, POPULATION_LIVE);
    if (err == BELFRY_ERR_TOO_LARGE)
        return walk_extent(fanout, stream, batch);
    if (err != BELFRY_OK)
        return STEP_WAIT;
    stream->walk.scanning = false;
    if (fanout->gather->n_groups == 0)
        return STEP_DONE;
    if (fanout->gather->n_groups == 1)
        return give_group(fanout, stream, batch, &fanout->gather->groups[0]);
    return give_merged(fanout, stream, batch);
}

static void walk_passed(struct stream *stream, int64_t rev)
{
    stream->walk.at = rev;
    if (rev < stream->walk.mid_rev)
        return; /* only the gap before mid_rev was passed */
    stream->walk.mid_rev = 0;
    stream->walk.scanning = false;
}

static enum step walk_batch(struct fanout *fanout, struct stream *stream, const struct batch *batch)
{
    enum step step = STEP_DONE;
    if (stream->walk.mid_rev != batch->rev) {
        stream->walk.mid_rev = batch->rev;
        stream->walk.mid_id = INT64_MIN;
        stream->walk.mid_any = false;
        stream->walk.scanning = false;
    }
    if (batch->kind == BATCH_EVENTS)
        step = give_batch(fanout, stream, batch);
    if (batch->kind == BATCH_EXTENT)
        step = walk_extent(fanout, stream, batch);
    if (step == STEP_WAIT && batch->kind == BATCH_EVENTS) /* memory is short, no history is missing */
        turn_retry_later(fanout->turn);
    if (step == STEP_DONE || (BELFRY_MUTANT(mid_revision_lost) && step == STEP_NO_ROOM && stream->walk.mid_any))
        walk_passed(stream, batch->rev);
    return step;
}

static enum step walk_stream(struct fanout *fanout, struct stream *stream)
{
    while (stream->walk.at < fanout->p->at) {
        const struct batch *batch;
        int64_t upto;
        if (fanout->turn->work == 0 || stream->line.doomed != 0) /* a lost watcher needs nothing more */
            return STEP_MORE;
        fanout->turn->work--;
        switch (source_next(fanout->source, stream->client, stream->walk.at + 1, fanout->p->at, &batch, &upto)) {
        case SOURCE_WAIT:
            return STEP_WAIT;
        case SOURCE_GONE:
            lose_gone(fanout, stream);
            walk_passed(stream, fanout->source->gone_below - 1);
            continue;
        case SOURCE_NONE:
            walk_passed(stream, upto);
            continue;
        case SOURCE_BATCH:
            break;
        }
        enum step step = walk_batch(fanout, stream, batch);
        if (step != STEP_DONE)
            return step;
    }
    if (fanout->p->hand_out == 0)
        registry_move_stream(stream, STREAM_RIDING);
    return STEP_DONE;
}

/* ---- progress ---- */

/* Periodic: to every watcher that asked for it and received nothing since the last time, or to all that asked
 * (stream_tick()); to lines in any case. */
static enum step tick_stream(struct fanout *fanout, struct stream *stream)
{
    struct belfry_treap_walk walk;
    struct belfry_treap_node *node;
    stream_seek(stream, stream->tick_id, &walk);
    while ((node = belfry_treap_next(&walk)) != NULL) {
        struct watcher *watcher = belfry_container(node, struct watcher, by_id);
        if (fanout->turn->work == 0)
            return STEP_MORE;
        fanout->turn->work--;
        if ((watcher->flags & WATCHER_PROGRESS) != 0 && watcher->state == WATCHER_RIDING) {
            bool active = (watcher->flags & WATCHER_ACTIVE) != 0 && !stream->tick_all;
            if (!active && (stream->outlet.rest != NULL || !delivery_progress(fanout->delivery, stream, watcher->id)))
                return STEP_NO_ROOM;
            watcher->flags &= (uint8_t)~WATCHER_ACTIVE;
            fanout->n_progress += !active;
        }
        if (watcher->id == INT64_MAX)
            break;
        stream->tick_id = watcher->id + 1;
    }
    stream->ticking = stream->tick_all = false;
    return STEP_DONE;
}

/* The client has already seen a revision above P: progress at P would move it backwards. */
static bool stream_is_ahead(const struct fanout *fanout, const struct stream *stream)
{
    return fanout->p->at < stream->line.resumed_rev && !BELFRY_MUTANT(resumed_told_below);
}

static bool may_send_progress(const struct fanout *fanout, const struct stream *stream)
{
    if ((fanout->registry->stale && !BELFRY_MUTANT(stale_progress)) || stream->line.doomed != 0 ||
        stream_is_ahead(fanout, stream))
        return false;
    return (stream->state == STREAM_RIDING && fanout->p->hand_out == 0) || BELFRY_MUTANT(progress_from_p);
}

/* Why messages are still pending: no room, no slice, or no budget. */
static enum step held_up(const struct fanout *fanout, const struct stream *stream)
{
    if (stream->outlet.room == 0 || (stream->outlet.rest == NULL && fanout->turn->work > 0)) /* no room, or no memory */
        return STEP_NO_ROOM;
    return fanout->turn->work > 0 ? STEP_WAIT : STEP_MORE;
}

static enum step send_progress(struct fanout *fanout, struct stream *stream)
{
    if (!may_send_progress(fanout, stream))
        return STEP_DONE;
    if (stream_has_messages(stream) &&
        !delivery_pending(fanout->delivery, stream)) /* the walk may have lost a watcher */
        return held_up(fanout, stream);
    if (stream->ticking) {
        enum step step = tick_stream(fanout, stream);
        if (step != STEP_DONE)
            return step;
    }
    if (!stream->progress_asked || stream->n_behind > 0)
        return STEP_DONE;
    if (stream->outlet.lines != NULL && stream->n_riding == 0) { /* its last line is out */
        stream->progress_asked = false;
        return STEP_DONE;
    }
    if (stream->outlet.rest != NULL || stream->outlet.room == 0)
        return STEP_NO_ROOM;
    if (!delivery_progress(fanout->delivery, stream, -1))
        return STEP_NO_ROOM;
    stream->progress_asked = false;
    fanout->n_progress++;
    return STEP_DONE;
}

/* ---- a stream's turn ---- */

static enum step stream_steps(struct fanout *fanout, struct stream *stream)
{
    if (BELFRY_MUTANT(event_before_created) && stream->state == STREAM_WALKING && stream->outlet.rest == NULL &&
        walk_stream(fanout, stream) != STEP_DONE)
        return STEP_MORE;
    if (stream->line.doomed != 0)
        delivery_lose_doomed(fanout->delivery, stream);
    if (!delivery_pending(fanout->delivery, stream))
        return held_up(fanout, stream);
    if (BELFRY_MUTANT(progress_from_p) && send_progress(fanout, stream) != STEP_DONE)
        return STEP_MORE;
    if (!belfry_list_empty(&stream->stalled))
        registry_unstall(fanout->registry, stream);
    if (!belfry_list_empty(&stream->solo) && !extent_solo(fanout->delivery, stream))
        return stream->outlet.room == 0 ? STEP_NO_ROOM : fanout->turn->work > 0 ? STEP_WAIT : STEP_MORE;
    if (stream->state == STREAM_WALKING) {
        enum step step = walk_stream(fanout, stream);
        if (step != STEP_DONE)
            return step;
    }
    return send_progress(fanout, stream);
}

/* Files the stream after its turn. A stream with more to do becomes ready, or held if it can continue only when P
 * moves. */
static void resume_later(struct fanout *fanout, struct stream *stream)
{
    bool until_p_moves = fanout->p->hand_out != 0 || stream_is_ahead(fanout, stream);
    bool progress_later = until_p_moves && (stream->ticking || stream->progress_asked);
    bool has_more = stream->state == STREAM_WALKING || !belfry_list_empty(&stream->stalled) || progress_later;
    if (stream->broken || !has_more)
        return;
    registry_ready(fanout->registry, stream);
    if (until_p_moves && stream->outlet.room > 0 && !stream_has_messages(stream)) {
        belfry_list_remove(&stream->ready);
        belfry_list_append(&fanout->held, &stream->ready);
    }
}

/* Serves the stream up to a quantum of messages, then puts it into the list where it belongs. */
static void serve_stream(struct fanout *fanout, struct stream *stream)
{
    size_t before = fanout->turn->work, quantum = before < QUANTUM ? before : QUANTUM;
    belfry_list_remove(&stream->ready);
    fanout->turn->work = quantum;
    enum step step = stream->broken ? STEP_DONE : stream_steps(fanout, stream);
    fanout->turn->work = before - (quantum - fanout->turn->work);
    switch (step) {
    case STEP_WAIT:
        registry_await(fanout->registry, stream);
        break;
    case STEP_MORE:
        registry_ready(fanout->registry, stream);
        break;
    case STEP_NO_ROOM:
        if (stream->outlet.room > 0) { /* memory must be short: retry later */
            turn_retry_later(fanout->turn);
            registry_await(fanout->registry, stream);
        } else {
            registry_ready_if_more(fanout->registry, stream); /* parks it */
        }
        break;
    case STEP_DONE:
        resume_later(fanout, stream);
        break;
    }
}

void fanout_serve(struct fanout *fanout)
{
    while (fanout->turn->work > 0 && !belfry_list_empty(&fanout->registry->ready)) {
        BELFRY_POINT("worker.stream");
        serve_stream(fanout, belfry_container(fanout->registry->ready.next, struct stream, ready));
    }
}

/* ---- absorbing: the streams that want the next batch ---- */

static void mark_stream(struct fanout *fanout, struct stream *stream)
{
    if (stream->state != STREAM_RIDING)
        return; /* its walk will reach the batch */
    registry_move_stream(stream, STREAM_WALKING);
    stream->walk.at = fanout->p->at;
    stream->walk.mid_rev = 0;
    registry_ready(fanout->registry, stream);
    if (stream->outlet.room > 0) {
        belfry_list_remove(&stream->ready);
        belfry_list_append(&fanout->fresh, &stream->ready);
    }
}

/* Serves streams batch by batch, while the gather still has the groups of this batch. Served later, each stream would
 * have to look through the batches of all others. Streams that cannot be served now continue like any stream that is
 * behind. */
static void serve_fresh(struct fanout *fanout)
{
    while (fanout->turn->work > 0 && !belfry_list_empty(&fanout->fresh)) {
        BELFRY_POINT("fanout.fresh");
        serve_stream(fanout, belfry_container(fanout->fresh.next, struct stream, ready));
    }
    belfry_list_move_all(&fanout->registry->ready, &fanout->fresh);
}

/* Gives the batch to the stream's watchers from `watcher` on, as the walk has them; returns the first watcher of
 * another stream. A stream that takes all of it never stops riding; a stream that does not walks from here. */
static struct watcher *give_riding(struct fanout *fanout, struct belfry_treap_walk *walk, struct watcher *watcher,
                                   const struct batch *batch, const struct gather_group *group)
{
    struct stream *stream = watcher->stream;
    enum step step = STEP_DONE;
    stream->walk.at = fanout->p->at;
    stream->walk.mid_rev = batch->rev;
    stream->walk.mid_id = INT64_MIN;
    stream->walk.mid_any = false;
    while (watcher != NULL && watcher->stream == stream && step == STEP_DONE) {
        step = give_watcher(fanout, stream, batch, group, watcher);
        if (step == STEP_DONE) {
            stream->walk.mid_any = true;
            watcher = watcher_at_place(belfry_treap_next(walk));
        }
    }
    if (step == STEP_DONE)
        stream->walk.mid_rev = 0;
    else
        registry_move_stream(stream, STREAM_WALKING);
    if (step != STEP_DONE || stream->outlet.rest != NULL || stream->progress_asked || stream->ticking)
        registry_ready(fanout->registry, stream);
    return watcher;
}

/* The node's streams above tell_serial, in the order of their serials. A stream that rides and has room receives the
 * batch now, while the walk is among its watchers; the others are marked. */
static enum step tell_node(struct fanout *fanout, const struct batch *batch, const struct gather_group *group)
{
    struct interest_place key = {.serial = fanout->p->tell_serial + 1, .id = INT64_MIN};
    struct belfry_treap_walk walk;
    interest_walk(group->node, POPULATION_LIVE, &key, &walk);
    struct watcher *watcher = watcher_at_place(belfry_treap_next(&walk));
    while (watcher != NULL) {
        struct stream *stream = watcher->stream;
        if (fanout->turn->work == 0)
            return STEP_MORE;
        if (stream->state == STREAM_RIDING && stream->outlet.room > 0 && !stream_has_messages(stream)) {
            watcher = give_riding(fanout, &walk, watcher, batch, group);
        } else {
            mark_stream(fanout, stream);
            fanout->turn->work--;
            watcher = watcher_at_place(belfry_treap_next(&walk));
        }
        fanout->p->tell_serial = stream->serial;
        if (watcher != NULL && watcher->stream == stream) { /* skip its others */
            key.serial = stream->serial + 1;
            interest_walk(group->node, POPULATION_LIVE, &key, &walk);
            watcher = watcher_at_place(belfry_treap_next(&walk));
        }
    }
    return STEP_DONE;
}

/* Several ranges want the batch, so a stream's watchers must be merged by id: it walks. */
static void mark_node(struct fanout *fanout, const struct interest_node *node)
{
    /* not from the first: some streams may have received it one by one, when only one range wanted it */
    struct watcher *watcher = first_live_from(node, fanout->p->tell_serial + 1, INT64_MIN);
    while (watcher != NULL) {
        mark_stream(fanout, watcher->stream);
        turn_spend(fanout->turn, 1);
        watcher = first_live_from(node, watcher->stream->serial + 1, INT64_MIN);
    }
}

static enum step absorb_events(struct fanout *fanout, const struct batch *batch)
{
    const struct gather *gather = fanout->gather;
    enum belfry_err err = gather_batch(fanout->gather, batch, POPULATION_LIVE);
    if (err == BELFRY_ERR_TOO_LARGE)
        return scan_extent(fanout, batch->rev, NULL, &fanout->scan_sub);
    if (err != BELFRY_OK) {
        turn_retry_later(fanout->turn);
        return STEP_WAIT;
    }
    if (gather->n_groups == 1)
        return tell_node(fanout, batch, &gather->groups[0]);
    for (size_t i = 0; i < gather->n_groups; i++)
        mark_node(fanout, gather->groups[i].node);
    return STEP_DONE;
}

/* The batch after P is handed out, over as many turns as it takes. Until then no watcher may start riding: the hand-out
 * may already have passed its place. */
static void hand_out_begin(struct fanout *fanout, const struct batch *batch)
{
    if (fanout->p->hand_out != 0)
        return;
    if (batch->kind == BATCH_EXTENT)
        fanout->n_extents++;
    else
        registry_ride_future(fanout->registry, batch->rev);
    fanout->p->hand_out = batch->rev;
    fanout->p->tell_serial = 0;
    fanout->scan_sub = 0;
}

/* P has passed it: streams that were held continue, and watchers that start here ride. */
static void hand_out_end(struct fanout *fanout, int64_t rev)
{
    fanout->p->hand_out = 0;
    fanout->p->at = rev;
    belfry_list_move_all(&fanout->registry->ready, &fanout->held);
    registry_ride_future(fanout->registry, rev + 1);
}

static enum step absorb_batch(struct fanout *fanout, const struct batch *batch)
{
    enum step step = STEP_DONE;
    hand_out_begin(fanout, batch);
    if (batch->kind == BATCH_EVENTS)
        step = absorb_events(fanout, batch);
    else if (batch->kind == BATCH_EXTENT)
        step = scan_extent(fanout, batch->rev, NULL, &fanout->scan_sub);
    if (step == STEP_DONE) {
        hand_out_end(fanout, batch->rev);
        fanout->n_batches++;
    }
    return step;
}

/* No revision up to `upto` has events. The batch being handed out may be above it. */
static void absorb_gap(struct fanout *fanout, int64_t upto)
{
    if (fanout->p->hand_out > upto) {
        fanout->p->at = upto;
        return;
    }
    hand_out_end(fanout, upto);
}

static enum step absorb_one(struct fanout *fanout)
{
    const struct batch *batch;
    int64_t upto;
    switch (source_next(fanout->source, 0, fanout->p->at + 1, fanout->turn->view.head, &batch, &upto)) {
    case SOURCE_WAIT:
        return STEP_WAIT;
    case SOURCE_GONE: /* this worker slept for longer than history is kept; the sweep tells watchers that start there */
        lose_riding(fanout);
        absorb_gap(fanout, fanout->source->gone_below - 1);
        return STEP_DONE;
    case SOURCE_NONE:
        if (fanout->p->hand_out == 0)
            registry_ride_future(fanout->registry, upto);
        absorb_gap(fanout, upto);
        return STEP_DONE;
    case SOURCE_BATCH:
        break;
    }
    turn_spend(fanout->turn, 1);
    return absorb_batch(fanout, batch);
}

bool fanout_absorb(struct fanout *fanout)
{
    const struct evlog_view *view = &fanout->turn->view;
    if (fanout->p->at < view->head && !evlog_covers(view, fanout->p->at + 1)) {
        fanout->n_overslept += !fanout->overslept;
        fanout->overslept = true;
        if (BELFRY_MUTANT(overslept_jumps) && view->first < view->next)
            fanout->p->at = evlog_at(view, view->first)->rev - 1;
    } else {
        fanout->overslept = false;
    }
    while (fanout->p->at < view->head) {
        BELFRY_POINT("fanout.absorb");
        if (fanout->turn->work == 0)
            return true;
        enum step step = absorb_one(fanout);
        serve_fresh(fanout);
        if (step == STEP_WAIT)
            return false;
        if (step == STEP_MORE)
            return true;
    }
    return false;
}

void fanout_begin_past(struct fanout *fanout)
{
    fanout->overslept = false;
    belfry_list_move_all(&fanout->registry->ready, &fanout->held);
}
