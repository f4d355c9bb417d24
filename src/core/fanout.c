/* src/core/fanout.c: live delivery. New batches find the streams that want them; each such stream then walks from its
 * own position up to P, giving every revision to its watchers in the order of their ids. */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sim.h"
#include "core/worker_private.h"

enum step { STEP_DONE, STEP_MORE, STEP_WAIT, STEP_NO_ROOM };

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
    return watcher_at_place(belfry_treap_next(&walk));
}

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
        enum output_result result = output_events(worker, watcher, &pick, false);
        if (result == OUTPUT_NO_ROOM || result == OUTPUT_MORE)
            return result == OUTPUT_MORE ? STEP_MORE : STEP_NO_ROOM;
    }
    stream->mid_id = watcher->id;
    return STEP_DONE;
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

/* Gives the batch to the stream's watchers from `watcher` on, as the walk has them; returns the first one behind. A
 * stream that is given all of it never stops riding; one that is not walks from here. */
static struct watcher *give_riding(struct worker *worker, struct belfry_treap_walk *walk, struct watcher *watcher,
                                   const struct batch *batch, const struct gather_group *group)
{
    struct stream *stream = watcher->stream;
    enum step step = STEP_DONE;
    stream->at = worker->at;
    stream->mid_rev = batch->rev;
    stream->mid_id = INT64_MIN;
    stream->mid_any = false;
    while (watcher != NULL && watcher->stream == stream && step == STEP_DONE) {
        step = give(worker, stream, batch, group, watcher);
        if (step == STEP_DONE) {
            stream->mid_any = true;
            watcher = watcher_at_place(belfry_treap_next(walk));
        }
    }
    if (step == STEP_DONE)
        stream->mid_rev = 0;
    else
        stream_move(worker, stream, STREAM_WALKING);
    if (step != STEP_DONE || stream->rest != NULL || stream->progress_asked || stream->ticking)
        stream_ready(worker, stream);
    return watcher;
}

/* The node's streams behind tell_serial, in the order of their serials: who rides and takes bytes is given the batch
 * right now, while the walk is among its watchers; the others are marked. */
static enum step tell_node(struct worker *worker, const struct batch *batch, const struct gather_group *group)
{
    struct belfry_treap_node *root = interest_population(group->node, POPULATION_LIVE);
    struct watcher_place_key key = {.serial = worker->tell_serial + 1, .id = INT64_MIN};
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, root, &key, watcher_seek_place);
    struct watcher *watcher = watcher_at_place(belfry_treap_next(&walk));
    while (watcher != NULL) {
        struct stream *stream = watcher->stream;
        if (worker->work == 0)
            return STEP_MORE;
        if (stream->state == STREAM_RIDING && stream->room > 0 && !stream_pending(stream)) {
            watcher = give_riding(worker, &walk, watcher, batch, group);
        } else {
            mark_stream(worker, stream);
            worker->work--;
            watcher = watcher_at_place(belfry_treap_next(&walk));
        }
        worker->tell_serial = stream->serial;
        if (watcher != NULL && watcher->stream == stream) { /* skip its others */
            key.serial = stream->serial + 1;
            belfry_treap_walk(&walk, root, &key, watcher_seek_place);
            watcher = watcher_at_place(belfry_treap_next(&walk));
        }
    }
    return STEP_DONE;
}

/* Several ranges want the batch, so a stream's watchers must be merged by id: it walks. */
static void mark_node(struct worker *worker, const struct interest_node *node)
{
    struct belfry_treap_node *root = interest_population(node, POPULATION_LIVE);
    struct watcher *watcher = seek(root, worker->tell_serial + 1, INT64_MIN); /* some may have been told one by one */
    while (watcher != NULL) {
        mark_stream(worker, watcher->stream);
        worker->work -= worker->work > 0;
        watcher = seek(root, watcher->stream->serial + 1, INT64_MIN);
    }
}

/* Of what is gone nobody can know whose it was. */
static void lose_riding(struct worker *worker)
{
    belfry_list_each (node, &worker->streams) {
        struct stream *stream = belfry_container(node, struct stream, link);
        if (stream->state == STREAM_RIDING)
            cut_gone(worker, stream);
    }
}

/* Those who ride and want something of the extent become solo. */
static enum step absorb_extent(struct worker *worker, const struct batch *batch)
{
    switch (extent_scan(worker, batch->rev, &worker->scan_sub, POPULATION_LIVE, NULL)) {
    case EXTENT_WAIT:
        return STEP_WAIT;
    case EXTENT_MORE:
        return STEP_MORE;
    case EXTENT_GONE:
        lose_riding(worker);
        break;
    case EXTENT_DONE:
        break;
    }
    return STEP_DONE;
}

static enum step absorb_events(struct worker *worker, const struct batch *batch)
{
    const struct gather *gather = &worker->gather;
    enum belfry_err err = gather_batch(worker, batch, POPULATION_LIVE);
    if (err == BELFRY_ERR_TOO_LARGE)
        return absorb_extent(worker, batch);
    if (err != BELFRY_OK) {
        worker_retry_later(worker);
        return STEP_WAIT;
    }
    if (gather->n_groups == 1)
        return tell_node(worker, batch, &gather->groups[0]);
    for (size_t i = 0; i < gather->n_groups; i++)
        mark_node(worker, gather->groups[i].node);
    return STEP_DONE;
}

/* The batch behind P is handed out, over as many turns as it takes. Meanwhile nobody joins those who ride: he might be
 * where the hand-out has already been. */
static void hand_out_begin(struct worker *worker, const struct batch *batch)
{
    if (worker->hand_out != 0)
        return;
    if (batch->kind == BATCH_EXTENT)
        worker->stats.extents++;
    else
        sweep_future(worker, batch->rev);
    worker->hand_out = batch->rev;
    worker->tell_serial = 0;
    worker->scan_sub = 0;
}

/* P has passed it: streams that had to wait for that go on, and so do those who wanted to ride from here. */
static void hand_out_end(struct worker *worker, int64_t rev)
{
    worker->hand_out = 0;
    worker->at = rev;
    belfry_list_move_all(&worker->ready, &worker->held);
    sweep_future(worker, rev + 1);
}

static enum step absorb_batch(struct worker *worker, const struct batch *batch)
{
    enum step step = STEP_DONE;
    hand_out_begin(worker, batch);
    if (batch->kind == BATCH_EVENTS)
        step = absorb_events(worker, batch);
    else if (batch->kind == BATCH_EXTENT)
        step = absorb_extent(worker, batch);
    if (step == STEP_DONE) {
        hand_out_end(worker, batch->rev);
        worker->stats.batches++;
    }
    return step;
}

/* There is nothing up to `upto`. What is being handed out may lie behind that. */
static void absorb_gap(struct worker *worker, int64_t upto)
{
    if (worker->hand_out > upto) {
        worker->at = upto;
        return;
    }
    hand_out_end(worker, upto);
}

static enum step absorb_one(struct worker *worker)
{
    const struct batch *batch;
    int64_t upto;
    switch (source_next(worker, worker->at + 1, worker->view.head, &batch, &upto)) {
    case SOURCE_WAIT:
        return STEP_WAIT;
    case SOURCE_GONE: /* this worker overslept more than anybody keeps; who was to start there finds out on a bus */
        lose_riding(worker);
        absorb_gap(worker, worker->gone_below - 1);
        return STEP_DONE;
    case SOURCE_NONE:
        if (worker->hand_out == 0)
            sweep_future(worker, upto);
        absorb_gap(worker, upto);
        return STEP_DONE;
    case SOURCE_BATCH:
        break;
    }
    worker->work -= worker->work > 0;
    return absorb_batch(worker, batch);
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
        serve_fresh(worker);
        if (step == STEP_WAIT)
            return false;
        if (step == STEP_MORE)
            return true;
    }
    return false;
}

/* ---- walking: a stream is given what it has not been given ---- */

static enum step give_group(struct worker *worker, struct stream *stream, const struct batch *batch,
                            const struct gather_group *group)
{
    struct watcher_place_key key = {.serial = stream->serial, .id = stream->mid_id};
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, interest_population(group->node, POPULATION_LIVE), &key, watcher_seek_place);
    struct watcher *watcher;
    while ((watcher = watcher_at_place(belfry_treap_next(&walk))) != NULL && watcher->stream == stream) {
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
    worker_spend(worker, gather->n_groups / 8); /* a seek in each */
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

static enum step give_batch(struct worker *worker, struct stream *stream, const struct batch *batch)
{
    enum belfry_err err = gather_batch(worker, batch, POPULATION_LIVE);
    if (err == BELFRY_ERR_TOO_LARGE)
        return walk_extent(worker, stream, batch);
    if (err != BELFRY_OK)
        return STEP_WAIT;
    stream->scanning = false;
    if (worker->gather.n_groups == 0)
        return STEP_DONE;
    if (worker->gather.n_groups == 1)
        return give_group(worker, stream, batch, &worker->gather.groups[0]);
    return give_merged(worker, stream, batch);
}

static void passed(struct stream *stream, int64_t rev)
{
    stream->at = rev;
    if (rev < stream->mid_rev)
        return; /* only the gap before it */
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
    if (batch->kind == BATCH_EVENTS)
        step = give_batch(worker, stream, batch);
    if (batch->kind == BATCH_EXTENT)
        step = walk_extent(worker, stream, batch);
    if (step == STEP_WAIT && batch->kind == BATCH_EVENTS) /* memory, not history */
        worker_retry_later(worker);
    if (step == STEP_DONE || (BELFRY_MUTANT(mid_revision_lost) && step == STEP_NO_ROOM && stream->mid_any))
        passed(stream, batch->rev);
    return step;
}

static enum step walk(struct worker *worker, struct stream *stream)
{
    while (stream->at < worker->at) {
        const struct batch *batch;
        int64_t upto;
        if (worker->work == 0 || stream->doomed != 0) /* who is lost needs nothing more */
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
    if (worker->hand_out == 0)
        stream_move(worker, stream, STREAM_RIDING);
    return STEP_DONE;
}

/* ---- progress ---- */

static bool tell_progress(struct worker *worker, struct stream *stream, int64_t id)
{
    struct belfry_wire_watch watch = {.header = output_header(worker, worker->at), .watch_id = id};
    return stream->lines != NULL ? lines_progress(worker, stream) : output_control(worker, stream, &watch);
}

/* Periodic: every watcher that asked for it and was given nothing since the last time; of lines: was given or not. */
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
        if ((watcher->flags & WATCHER_PROGRESS) != 0 && watcher->state == WATCHER_RIDING) {
            bool active = (watcher->flags & WATCHER_ACTIVE) != 0;
            if (!active && (stream->rest != NULL || !tell_progress(worker, stream, watcher->id)))
                return STEP_NO_ROOM;
            watcher->flags &= (uint8_t)~WATCHER_ACTIVE;
            worker->stats.progress += !active;
        }
        if (watcher->id == INT64_MAX)
            break;
        stream->tick_id = watcher->id + 1;
    }
    stream->ticking = false;
    return STEP_DONE;
}

/* Its client has seen a revision that P has not come to yet: progress would lead it back. */
static bool is_ahead(const struct worker *worker, const struct stream *stream)
{
    return worker->at < stream->resumed_rev && !BELFRY_MUTANT(resumed_told_below);
}

static bool may_tell(const struct worker *worker, const struct stream *stream)
{
    if ((worker->stale && !BELFRY_MUTANT(stale_progress)) || stream->doomed != 0 || is_ahead(worker, stream))
        return false;
    return (stream->state == STREAM_RIDING && worker->hand_out == 0) || BELFRY_MUTANT(progress_from_p);
}

/* What is still pending, for want of room, of a slice, or of budget. */
static enum step held_up(const struct worker *worker, const struct stream *stream)
{
    if (stream->room == 0 || (stream->rest == NULL && worker->work > 0)) /* no room, or no memory */
        return STEP_NO_ROOM;
    return worker->work > 0 ? STEP_WAIT : STEP_MORE;
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
    if (stream->lines != NULL && stream->n_riding == 0) { /* it has said its last */
        stream->progress_asked = false;
        return STEP_DONE;
    }
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
    if (stream->doomed != 0)
        lines_lose_doomed(worker, stream);
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

/* It did all it can, and has more: at once, unless only the next move of P lets it go on. */
static void resume_later(struct worker *worker, struct stream *stream)
{
    bool until_p_moves = worker->hand_out != 0 || is_ahead(worker, stream);
    bool told_later = until_p_moves && (stream->ticking || stream->progress_asked);
    bool has_more = stream->state == STREAM_WALKING || !belfry_list_empty(&stream->stalled) || told_later;
    if (stream->broken || !has_more)
        return;
    stream_ready(worker, stream);
    if (until_p_moves && stream->room > 0 && !stream_pending(stream)) {
        belfry_list_remove(&stream->ready);
        belfry_list_append(&worker->held, &stream->ready);
    }
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
            worker_retry_later(worker);
            await(worker, stream);
        } else if (stream_has_more(worker, stream)) {
            stream_ready(worker, stream); /* parks it */
        }
        break;
    case STEP_DONE:
        resume_later(worker, stream);
        break;
    }
}
