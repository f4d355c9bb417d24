/* src/core/cut.c: each watcher is lost, or waits at the revision that it needs next. */
#include "core/cut.h"

#include "base/sim.h"

void cut_init(struct cut *cut, struct registry *registry)
{
    *cut = (struct cut){.registry = registry};
    belfry_list_init(&cut->streams);
}

void cut_begin(struct cut *cut, const struct evlog_cut *by)
{
    struct registry *registry = cut->registry;
    cut->cut = *by;
    if (registry->p.past < by->rewritten) { /* a past in between was rewritten, if not this one */
        cut->cut.why = EVLOG_CUT_REWRITTEN;
        cut->cut.compact_rev = by->rev;
    }
    registry->rewritten = by->rewritten;
    registry->before = registry->p;
    registry->p = (struct position){.past = by->past, .at = by->rev, .tell_serial = registry->p.tell_serial};
    belfry_list_move_all(&cut->streams, &registry->streams);
}

static void judge_watcher(struct cut *cut, struct watcher *watcher)
{
    struct registry *registry = cut->registry;
    if (watcher_is_over(watcher))
        return;
    if (BELFRY_MUTANT(cut_spares_riders) && watcher->state == WATCHER_RIDING) {
        watcher->next = 0;
        return;
    }
    int64_t need = watcher_need(registry, watcher);
    if (cut->cut.why == EVLOG_CUT_REWRITTEN || need < cut->cut.compact_rev) {
        watcher_lose(registry, watcher, cut->cut.compact_rev);
        return;
    }
    watcher_detach(registry, watcher);
    if (watcher->stream->solo_now == watcher)
        watcher->stream->solo_now = NULL;
    if (need > registry->p.at)
        watcher_place(registry, watcher, need);
    else /* its stream's position belongs to the old past: it cannot ride along */
        watcher_wait(registry, watcher, need);
}

/* All watchers of the stream are judged, so the stream starts at P in the new past. A response to an extent that was
 * begun cannot be finished. */
static void begin_stream(struct cut *cut, struct stream *stream)
{
    struct registry *registry = cut->registry;
    if (stream->solo_rest && stream->outlet.rest != NULL) {
        if (rest_begun(stream->outlet.rest))
            stream->broken = true;
        else
            stream_drop_rest(registry, stream);
    }
    stream->past = registry->p.past;
    stream->cut_id = INT64_MIN;
    stream->walk.mid_rev = 0;
    stream->walk.scanning = false;
    registry_move_stream(stream, STREAM_RIDING);
    belfry_list_remove(&stream->link);
    belfry_list_append(&registry->streams, &stream->link);
    registry_ready_if_more(registry, stream);
}

void cut_stream(struct cut *cut, struct stream *stream)
{
    for (struct watcher *watcher = stream_first_from(stream, INT64_MIN); watcher != NULL;) {
        int64_t id = watcher->id;
        judge_watcher(cut, watcher);
        watcher = id == INT64_MAX ? NULL : stream_first_from(stream, id + 1);
    }
    begin_stream(cut, stream);
}

bool cut_is_done(const struct cut *cut)
{
    return cut->judged == cut->registry->p.past;
}

bool cut_judge(struct cut *cut)
{
    struct turn *turn = cut->registry->turn;
    while (!belfry_list_empty(&cut->streams)) {
        struct stream *stream = belfry_container(cut->streams.next, struct stream, link);
        struct watcher *watcher;
        while ((watcher = stream_first_from(stream, stream->cut_id)) != NULL) {
            if (turn->work == 0)
                return false;
            turn->work--;
            judge_watcher(cut, watcher);
            if (watcher->id == INT64_MAX)
                break;
            stream->cut_id = watcher->id + 1;
        }
        begin_stream(cut, stream);
    }
    cut->judged = cut->registry->p.past;
    return true;
}
