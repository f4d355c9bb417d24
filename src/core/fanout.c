/* src/core/fanout.c: live delivery. New batches find the streams that want them; each such stream then walks from its
 * own position up to P, giving every revision to its watchers in the order of their ids. */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sim.h"
#include "core/worker_private.h"

enum step { STEP_DONE, STEP_MORE, STEP_WAIT, STEP_NO_ROOM };

static struct watcher *at_place(struct belfry_treap_node *node)
{
    return node == NULL ? NULL : belfry_container(node, struct watcher, place);
}

int watcher_seek_place(const void *key, const struct belfry_treap_node *node)
{
    const struct watcher_place_key *want = key;
    const struct watcher *watcher = belfry_container_const(node, struct watcher, place);
    uint64_t serial = watcher->stream->serial;
    if (want->serial != serial)
        return want->serial < serial ? -1 : 1;
    return (want->id > watcher->id) - (want->id < watcher->id);
}

/* The first of the population at or behind (serial, id). */
static struct watcher *seek(struct belfry_treap_node *root, uint64_t serial, int64_t id)
{
    struct watcher_place_key key = {.serial = serial, .id = id};
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, root, &key, watcher_seek_place);
    return at_place(belfry_treap_next(&walk));
}

/* ---- absorbing: who is to be given the next batch ---- */

static void mark_stream(struct worker *worker, struct stream *stream)
{
    if (stream->state != STREAM_RIDING)
        return; /* it will find the batch on its way */
    stream_move(worker, stream, STREAM_WALKING);
    stream->at = worker->at;
    stream->mid_rev = 0;
    stream_ready(worker, stream);
    if (stream->room > 0) {
        belfry_list_remove(&stream->ready);
        belfry_list_append(&worker->fresh, &stream->ready);
    }
}

/* Batch by batch, while what was found about it is at hand: later each stream would look through the batches of all its
 * neighbours. Those who cannot be served now go on as anybody who is behind. */
static void serve_fresh(struct worker *worker)
{
    while (worker->work > 0 && !belfry_list_empty(&worker->fresh)) {
        BELFRY_POINT("fanout.fresh");
        fanout_stream(worker, belfry_container(worker->fresh.next, struct stream, ready));
    }
    belfry_list_move_all(&worker->ready, &worker->fresh);
}

/* Every stream that has a watcher here, once each. */
static void mark_node(struct worker *worker, const struct interest_node *node)
{
    struct belfry_treap_node *root = interest_population(node, POPULATION_LIVE);
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, root, NULL, watcher_seek_place);
    struct watcher *watcher = at_place(belfry_treap_next(&walk));
    while (watcher != NULL) {
        struct stream *stream = watcher->stream;
        mark_stream(worker, stream);
        worker->work -= worker->work > 0;
        watcher = at_place(belfry_treap_next(&walk));
        if (watcher != NULL && watcher->stream == stream) { /* skip its others */
            struct watcher_place_key key = {.serial = stream->serial + 1, .id = INT64_MIN};
            belfry_treap_walk(&walk, root, &key, watcher_seek_place);
            watcher = at_place(belfry_treap_next(&walk));
        }
    }
}

static enum step absorb_events(struct worker *worker, const struct batch *batch)
{
    if (gather_batch(worker, batch, POPULATION_LIVE) != BELFRY_OK) {
        worker->retry_at = belfry_min_time(worker->retry_at, worker->now + WORKER_RETRY_MS);
        return STEP_WAIT;
    }
    for (size_t i = 0; i < worker->gather.n_groups; i++)
        mark_node(worker, worker->gather.groups[i].node);
    worker->at = batch->rev;
    return STEP_DONE;
}

/* P has passed the extent (or it turned out to be had in one piece): streams that were held walk on. */
static void end_scan(struct worker *worker)
{
    worker->scan_rev = 0;
    belfry_list_each (node, &worker->streams) {
        struct stream *stream = belfry_container(node, struct stream, link);
        if (stream->state == STREAM_WALKING)
            stream_ready(worker, stream);
    }
}

/* The batch behind P is an extent: those who ride and want it become solo. Streams that walk will come to it
 * themselves, so they are held until all of it has been looked through. */
static enum step absorb_extent(struct worker *worker, const struct batch *batch)
{
    if (worker->scan_rev == 0) {
        worker->scan_rev = batch->rev;
        worker->scan_sub = 0;
        worker->stats.extents++;
    }
    switch (extent_scan(worker, batch->rev, &worker->scan_sub, POPULATION_LIVE, NULL)) {
    case EXTENT_WAIT:
        return STEP_WAIT;
    case EXTENT_MORE:
        return STEP_MORE;
    case EXTENT_GONE: /* which of them want it cannot be known any more */
        belfry_list_each (node, &worker->streams) {
            struct stream *stream = belfry_container(node, struct stream, link);
            if (stream->state == STREAM_RIDING)
                cut_gone(worker, stream);
        }
        break;
    case EXTENT_DONE:
        break;
    }
    worker->at = batch->rev;
    end_scan(worker);
    return STEP_DONE;
}

/* P itself is in what upstream has compacted: this worker overslept more than anybody keeps. */
static void absorb_gone(struct worker *worker)
{
    belfry_list_each (node, &worker->streams) {
        struct stream *stream = belfry_container(node, struct stream, link);
        if (stream->state == STREAM_RIDING)
            cut_gone(worker, stream);
    }
    worker->at = worker->gone_below - 1;
    if (worker->scan_rev != 0)
        end_scan(worker);
}

static enum step absorb_one(struct worker *worker)
{
    const struct batch *batch;
    int64_t upto;
    switch (source_next(worker, worker->at + 1, worker->view.head, &batch, &upto)) {
    case SOURCE_WAIT:
        return STEP_WAIT;
    case SOURCE_GONE:
        absorb_gone(worker);
        return STEP_DONE;
    case SOURCE_NONE:
        sweep_future(worker, upto);
        worker->at = upto;
        return STEP_DONE;
    case SOURCE_BATCH:
        break;
    }
    worker->work -= worker->work > 0;
    worker->stats.batches++;
    if (batch->kind == BATCH_EXTENT)
        return absorb_extent(worker, batch);
    if (worker->scan_rev != 0) /* it came back whole, from elsewhere */
        end_scan(worker);
    sweep_future(worker, batch->rev);
    if (batch->kind == BATCH_EVENTS)
        return absorb_events(worker, batch);
    worker->at = batch->rev;
    return STEP_DONE;
}

bool fanout_absorb(struct worker *worker)
{
    if (worker->at < worker->view.head && !evlog_covers(&worker->view, worker->at + 1)) {
        worker->stats.overslept += !worker->overslept;
        worker->overslept = true;
        if (BELFRY_MUTANT(overslept_jumps) && worker->view.first < worker->view.next)
            worker->at = evlog_at(&worker->view, worker->view.first)->rev - 1;
    } else {
        worker->overslept = false;
    }
    while (worker->at < worker->view.head) {
        BELFRY_POINT("fanout.absorb");
        if (worker->work == 0)
            return true;
        enum step step = absorb_one(worker);
        if (step == STEP_DONE)
            sweep_future(worker, worker->at + 1);
        serve_fresh(worker);
        if (step == STEP_WAIT)
            return false;
        if (step == STEP_MORE)
            return true;
    }
    return false;
}

/* ---- walking: a stream is given what it has not been given ---- */

/* One watcher's response. The stream's place inside the revision moves with it. */
static enum step give(struct worker *worker, struct stream *stream, const struct batch *batch,
                      const struct gather_group *group, struct watcher *watcher)
{
    BELFRY_POINT("fanout.watcher");
    if (worker->work == 0)
        return STEP_MORE;
    worker->work--;
    if (batch->rev >= watcher->next) {
        struct response_pick pick = {.batch = batch, .events = worker->gather.picks + group->first, .n = group->n};
        if (output_events(worker, watcher, &pick, false) == OUTPUT_NO_ROOM)
            return STEP_NO_ROOM;
    }
    stream->mid_id = watcher->id;
    return STEP_DONE;
}

static enum step give_group(struct worker *worker, struct stream *stream, const struct batch *batch,
                            const struct gather_group *group)
{
    struct watcher_place_key key = {.serial = stream->serial, .id = stream->mid_id};
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, interest_population(group->node, POPULATION_LIVE), &key, watcher_seek_place);
    struct watcher *watcher;
    while ((watcher = at_place(belfry_treap_next(&walk))) != NULL && watcher->stream == stream) {
        if (watcher->id == key.id && stream->mid_any)
            continue; /* the last that was given */
        enum step step = give(worker, stream, batch, group, watcher);
        if (step != STEP_DONE)
            return step;
        stream->mid_any = true;
    }
    return STEP_DONE;
}

static void sift(struct fanout_head *heads, size_t n, size_t i)
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

/* The stream's next watcher of a group, behind those that were given. */
static struct watcher *next_of(const struct stream *stream, const struct gather_group *group)
{
    if (stream->mid_any && stream->mid_id == INT64_MAX)
        return NULL;
    struct watcher *watcher = seek(interest_population(group->node, POPULATION_LIVE), stream->serial,
                                   stream->mid_any ? stream->mid_id + 1 : stream->mid_id);
    return watcher != NULL && watcher->stream == stream ? watcher : NULL;
}

static enum belfry_err reserve_heads(struct worker *worker, size_t n)
{
    if (n <= worker->cap_heads)
        return BELFRY_OK;
    struct fanout_head *heads = realloc(worker->heads, 2 * n * sizeof(*heads));
    if (heads == NULL)
        return BELFRY_ERR_NOMEM;
    worker->heads = heads;
    worker->cap_heads = 2 * n;
    return BELFRY_OK;
}

/* Several ranges want the batch: their watchers are merged by id. */
static enum step give_merged(struct worker *worker, struct stream *stream, const struct batch *batch)
{
    const struct gather *gather = &worker->gather;
    size_t n = 0;
    if (reserve_heads(worker, gather->n_groups) != BELFRY_OK)
        return STEP_WAIT;
    for (uint32_t i = 0; i < gather->n_groups; i++) {
        struct watcher *watcher = next_of(stream, &gather->groups[i]);
        if (watcher != NULL)
            worker->heads[n++] = (struct fanout_head){.watcher = watcher, .group = i};
    }
    for (size_t i = n / 2; i-- > 0;)
        sift(worker->heads, n, i);
    while (n > 0) {
        struct fanout_head *top = &worker->heads[0];
        const struct gather_group *group = &gather->groups[top->group];
        enum step step = give(worker, stream, batch, group, top->watcher);
        if (step != STEP_DONE)
            return step;
        stream->mid_any = true;
        top->watcher = next_of(stream, group);
        if (top->watcher == NULL)
            *top = worker->heads[--n];
        sift(worker->heads, n, 0);
    }
    return STEP_DONE;
}

static enum step give_batch(struct worker *worker, struct stream *stream, const struct batch *batch)
{
    if (gather_batch(worker, batch, POPULATION_LIVE) != BELFRY_OK)
        return STEP_WAIT;
    if (worker->gather.n_groups == 0)
        return STEP_DONE;
    if (worker->gather.n_groups == 1)
        return give_group(worker, stream, batch, &worker->gather.groups[0]);
    return give_merged(worker, stream, batch);
}

static enum step walk_extent(struct worker *worker, struct stream *stream, const struct batch *batch)
{
    if (!stream->scanning) {
        stream->scanning = true;
        stream->scan_sub = 0;
    }
    switch (extent_scan(worker, batch->rev, &stream->scan_sub, POPULATION_LIVE, stream)) {
    case EXTENT_WAIT:
        return STEP_WAIT;
    case EXTENT_MORE:
        return STEP_MORE;
    case EXTENT_GONE:
        cut_gone(worker, stream);
        break;
    case EXTENT_DONE:
        break;
    }
    return STEP_DONE;
}

static void passed(struct stream *stream, int64_t rev)
{
    stream->at = rev;
    stream->mid_rev = 0;
    stream->scanning = false;
}

static enum step walk_batch(struct worker *worker, struct stream *stream, const struct batch *batch)
{
    enum step step = STEP_DONE;
    if (stream->mid_rev != batch->rev) {
        stream->mid_rev = batch->rev;
        stream->mid_id = INT64_MIN;
        stream->mid_any = false;
        stream->scanning = false;
    }
    if (batch->kind == BATCH_EVENTS) {
        stream->scanning = false;
        step = give_batch(worker, stream, batch);
    }
    if (batch->kind == BATCH_EXTENT)
        step = walk_extent(worker, stream, batch);
    if (step == STEP_WAIT)
        worker->retry_at = belfry_min_time(worker->retry_at, worker->now + WORKER_RETRY_MS);
    if (step == STEP_DONE || (BELFRY_MUTANT(mid_revision_lost) && step == STEP_NO_ROOM && stream->mid_any))
        passed(stream, batch->rev);
    return step;
}

static enum step walk(struct worker *worker, struct stream *stream)
{
    while (stream->at < worker->at) {
        const struct batch *batch;
        int64_t upto;
        if (worker->work == 0)
            return STEP_MORE;
        worker->work--;
        switch (source_next(worker, stream->at + 1, worker->at, &batch, &upto)) {
        case SOURCE_WAIT:
            return STEP_WAIT;
        case SOURCE_GONE:
            cut_gone(worker, stream);
            passed(stream, worker->gone_below - 1);
            continue;
        case SOURCE_NONE:
            passed(stream, upto);
            continue;
        case SOURCE_BATCH:
            break;
        }
        enum step step = walk_batch(worker, stream, batch);
        if (step != STEP_DONE)
            return step;
    }
    if (worker->scan_rev == 0 && stream->at >= worker->at)
        stream_move(worker, stream, STREAM_RIDING);
    return STEP_DONE;
}

/* ---- progress ---- */

static bool tell_progress(struct worker *worker, struct stream *stream, int64_t id)
{
    struct belfry_wire_watch watch = {.header = output_header(worker, worker->at), .watch_id = id};
    return output_control(worker, stream, &watch);
}

/* Periodic: every watcher that asked for it and was given nothing since the last time. */
static enum step tick(struct worker *worker, struct stream *stream)
{
    struct belfry_treap_walk walk;
    struct belfry_treap_node *node;
    belfry_treap_walk(&walk, stream->watchers, &stream->tick_id, watcher_seek_id);
    while ((node = belfry_treap_next(&walk)) != NULL) {
        struct watcher *watcher = belfry_container(node, struct watcher, by_id);
        if (worker->work == 0)
            return STEP_MORE;
        worker->work--;
        stream->tick_id = watcher->id;
        if ((watcher->flags & WATCHER_PROGRESS) == 0 || watcher->state != WATCHER_RIDING)
            continue;
        bool active = (watcher->flags & WATCHER_ACTIVE) != 0;
        if (!active && (stream->rest != NULL || !tell_progress(worker, stream, watcher->id)))
            return STEP_NO_ROOM;
        watcher->flags &= (uint8_t)~WATCHER_ACTIVE;
        worker->stats.progress += !active;
    }
    stream->ticking = false;
    return STEP_DONE;
}

static bool may_tell(const struct worker *worker, const struct stream *stream)
{
    if (worker->stale && !BELFRY_MUTANT(stale_progress))
        return false;
    return stream->state == STREAM_RIDING || BELFRY_MUTANT(progress_from_p);
}

/* What is still pending, for want of room, of a slice, or of budget. */
static enum step held_up(const struct worker *worker, const struct stream *stream)
{
    if (stream->room == 0)
        return STEP_NO_ROOM;
    return stream->rest != NULL && worker->work > 0 ? STEP_WAIT : STEP_MORE;
}

static enum step progress(struct worker *worker, struct stream *stream)
{
    if (!may_tell(worker, stream))
        return STEP_DONE;
    if (stream_pending(stream) && !output_pending(worker, stream)) /* the walk may have found that somebody is lost */
        return held_up(worker, stream);
    if (stream->ticking) {
        enum step step = tick(worker, stream);
        if (step != STEP_DONE)
            return step;
    }
    if (!stream->progress_asked || stream->n_behind > 0)
        return STEP_DONE;
    if (stream->rest != NULL || stream->room == 0)
        return STEP_NO_ROOM;
    if (!tell_progress(worker, stream, -1))
        return STEP_NO_ROOM;
    stream->progress_asked = false;
    worker->stats.progress++;
    return STEP_DONE;
}

/* ---- a stream's turn ---- */

static enum step steps(struct worker *worker, struct stream *stream)
{
    if (BELFRY_MUTANT(event_before_created) && stream->state == STREAM_WALKING && stream->rest == NULL &&
        walk(worker, stream) != STEP_DONE)
        return STEP_MORE;
    if (!output_pending(worker, stream))
        return held_up(worker, stream);
    if (BELFRY_MUTANT(progress_from_p) && progress(worker, stream) != STEP_DONE)
        return STEP_MORE;
    if (!belfry_list_empty(&stream->stalled))
        streams_unstall(worker, stream);
    if (!belfry_list_empty(&stream->solo) && !extent_solo(worker, stream))
        return stream->room == 0 ? STEP_NO_ROOM : worker->work > 0 ? STEP_WAIT : STEP_MORE;
    if (stream->state == STREAM_WALKING) {
        enum step step = walk(worker, stream);
        if (step != STEP_DONE)
            return step;
    }
    return progress(worker, stream);
}

/* Until a segment comes, or the next retry. */
static void await(struct worker *worker, struct stream *stream)
{
    belfry_list_remove(&stream->ready); /* a step of its own may have called it ready */
    belfry_list_append(&worker->awaiting, &stream->ready);
}

/* Lets the stream do what it can, within a quantum, and puts it where it then belongs. */
void fanout_stream(struct worker *worker, struct stream *stream)
{
    size_t before = worker->work, quantum = before < WORKER_QUANTUM ? before : WORKER_QUANTUM;
    belfry_list_remove(&stream->ready);
    worker->work = quantum;
    enum step step = stream->broken ? STEP_DONE : steps(worker, stream);
    worker->work = before - (quantum - worker->work);
    switch (step) {
    case STEP_WAIT:
        await(worker, stream);
        break;
    case STEP_MORE:
        stream_ready(worker, stream);
        break;
    case STEP_NO_ROOM:
        if (stream->room > 0) { /* out of memory, then: later */
            worker->retry_at = belfry_min_time(worker->retry_at, worker->now + WORKER_RETRY_MS);
            await(worker, stream);
        } else {
            stream_ready(worker, stream); /* parks it */
        }
        break;
    case STEP_DONE:
        if (stream->broken)
            break;
        if ((stream->state == STREAM_WALKING && worker->scan_rev == 0) || !belfry_list_empty(&stream->stalled))
            stream_ready(worker, stream);
        break;
    }
}
