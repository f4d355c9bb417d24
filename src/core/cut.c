/* src/core/cut.c: a past that ended, for all of it or for what upstream has compacted: who is lost and who goes on. */
#include "base/sim.h"
#include "core/worker_private.h"

static struct watcher *first_above(const struct stream *stream, int64_t id)
{
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, stream->watchers, &id, watcher_seek_id);
    struct belfry_treap_node *node = belfry_treap_next(&walk);
    return node == NULL ? NULL : belfry_container(node, struct watcher, by_id);
}

void cut_begin(struct worker *worker)
{
    bool first = worker->past == 0;
    size_t left = worker->work;
    worker->work = SIZE_MAX;
    cut_judge(worker); /* by the cut before: this one does not replace it */
    worker->work = left;
    worker->cut = worker->view.cut;
    if (worker->past < worker->cut.rewritten) { /* somewhere in between, if not now */
        worker->cut.why = EVLOG_CUT_REWRITTEN;
        worker->cut.compact_rev = worker->cut.rev;
    }
    worker->past = worker->cut.past;
    worker->cut_at = worker->at;
    worker->cut_hand_out = worker->hand_out;
    worker->cut_tell_serial = worker->tell_serial;
    worker->at = worker->cut.rev;
    worker->hand_out = 0;
    belfry_list_move_all(&worker->ready, &worker->held);
    worker->overslept = false;
    worker->stats.cuts += !first;
    source_forget(worker);
    worker->gather.rev = 0;
    belfry_list_move_all(&worker->cutting, &worker->streams);
}

static bool is_over(const struct watcher *watcher)
{
    return watcher->state == WATCHER_LOST || watcher->state == WATCHER_ENDED;
}

static void judge(struct worker *worker, struct watcher *watcher)
{
    const struct evlog_cut *cut = &worker->cut;
    if (is_over(watcher))
        return;
    if (BELFRY_MUTANT(cut_spares_riders) && watcher->state == WATCHER_RIDING) {
        watcher->next = 0;
        return;
    }
    int64_t need = watcher_need(worker, watcher);
    if (cut->why == EVLOG_CUT_REWRITTEN || need < cut->compact_rev) {
        watcher_lose(worker, watcher, cut->compact_rev);
        return;
    }
    watcher_detach(worker, watcher);
    if (watcher->stream->solo_now == watcher)
        watcher->stream->solo_now = NULL;
    if (need > worker->at)
        watcher_place(worker, watcher, need);
    else /* what its stream's position says is of the old past: it cannot ride along */
        watcher_wait(worker, watcher, need);
}

/* The stream's watchers are judged; it begins the new past at P. What was begun of an extent cannot be finished. */
static void settle(struct worker *worker, struct stream *stream)
{
    if (stream->solo_rest && stream->rest != NULL) {
        if (rest_begun(stream->rest))
            stream->broken = true;
        else
            output_rest_end(worker, stream);
    }
    stream->past = worker->past;
    stream->cut_id = INT64_MIN;
    stream->mid_rev = 0;
    stream->scanning = false;
    stream_move(worker, stream, STREAM_RIDING);
    belfry_list_remove(&stream->link);
    belfry_list_append(&worker->streams, &stream->link);
    if (stream_has_more(worker, stream))
        stream_ready(worker, stream);
}

void cut_stream(struct worker *worker, struct stream *stream)
{
    for (struct watcher *watcher = first_above(stream, INT64_MIN); watcher != NULL;) {
        int64_t id = watcher->id;
        judge(worker, watcher);
        watcher = id == INT64_MAX ? NULL : first_above(stream, id + 1);
    }
    settle(worker, stream);
}

bool cut_judge(struct worker *worker)
{
    if (worker->sweep_past == worker->past)
        return true;
    while (!belfry_list_empty(&worker->cutting)) {
        struct stream *stream = belfry_container(worker->cutting.next, struct stream, link);
        struct watcher *watcher;
        while ((watcher = first_above(stream, stream->cut_id)) != NULL) {
            if (worker->work == 0)
                return false;
            worker->work--;
            judge(worker, watcher);
            if (watcher->id == INT64_MAX)
                break;
            stream->cut_id = watcher->id + 1;
        }
        settle(worker, stream);
    }
    size_t left = worker->work;
    worker->work = SIZE_MAX; /* streams that are gone may still have riders */
    stream_take_down(worker);
    worker->work = left;
    for (unsigned i = 1; i <= SWEEP_BUSES; i++) /* nobody is on them any more */
        worker->sweep.buses[i] = (struct sweep_bus){0};
    worker->sweep_past = worker->past;
    return true;
}

void cut_gone(struct worker *worker, struct stream *stream)
{
    for (struct watcher *watcher = first_above(stream, INT64_MIN); watcher != NULL;) {
        int64_t id = watcher->id;
        if (watcher->state == WATCHER_RIDING && watcher_need(worker, watcher) < worker->gone_below)
            watcher_lose(worker, watcher, worker->gone_told);
        watcher = id == INT64_MAX ? NULL : first_above(stream, id + 1);
    }
}
