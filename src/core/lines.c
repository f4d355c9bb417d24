/* src/core/lines.c: what a stream of lines is given. Its place inside a revision is the number of the next event: a line
 * is an atom, so that a revision with very many of them is never held as a whole, whoever is slow. */
#include "core/lines.h"

#include "base/sim.h"
#include "core/worker_private.h"

uint32_t lines_place(const struct stream *stream, int64_t rev)
{
    return stream->line_rev == rev ? stream->line_sub : 0;
}

void lines_pass(struct stream *stream, const struct batch *batch, uint32_t event)
{
    stream->line_rev = batch->rev;
    stream->line_sub = batch->first_sub + event + 1;
}

bool lines_has_it(const struct stream *stream, int64_t rev, size_t n_events)
{
    if (stream->resumed_rev != rev)
        return false;
    return (n_events == 1 && !BELFRY_MUTANT(resumed_given_one)) || BELFRY_MUTANT(resumed_behind);
}

enum lines_result lines_event(struct worker *worker, struct watcher *watcher, const struct batch *batch, uint32_t event)
{
    struct stream *stream = watcher->stream;
    struct belfry_blob *line = NULL;
    if ((stream->rest != NULL || stream->room == 0) && !output_pending(worker, stream))
        return LINES_NO_ROOM;
    if (response_passes(watcher->flags, &batch->events[event])) {
        enum belfry_err err = stream->lines->event(stream->user, batch, event, &line);
        if (err == BELFRY_ERR_COMPACTED && !BELFRY_MUTANT(line_without_prev))
            return LINES_LOST;
        if (err == BELFRY_ERR_NOMEM)
            return LINES_NO_ROOM;
    }
    if (line != NULL && !output_line(worker, stream, line))
        return LINES_NO_ROOM;
    worker->stats.deliveries += line != NULL;
    lines_pass(stream, batch, event);
    return LINES_GIVEN;
}

/* The first of the picked events that is not below `from`. */
static uint32_t seek(const struct response_pick *pick, uint32_t from)
{
    uint32_t low = 0, high = pick->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (pick->events[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum output_result lines_events(struct worker *worker, struct watcher *watcher, const struct response_pick *pick)
{
    struct stream *stream = watcher->stream;
    if (lines_has_it(stream, pick->batch->rev, pick->n))
        return OUTPUT_NOTHING;
    uint32_t first = BELFRY_MUTANT(line_again) ? 0 : seek(pick, lines_place(stream, pick->batch->rev));
    for (uint32_t i = first; i < pick->n && stream->doomed == 0; i++) {
        if (i > first && worker->work == 0)
            return OUTPUT_MORE;
        worker_spend(worker, i > first);
        switch (lines_event(worker, watcher, pick->batch, pick->events[i])) {
        case LINES_NO_ROOM:
            return OUTPUT_NO_ROOM;
        case LINES_LOST: /* not here: whoever gives is among the watchers of a population */
            stream->doomed = pick->batch->rev + 1;
            stream_ready(worker, stream);
            break;
        case LINES_GIVEN:
            break;
        }
    }
    return OUTPUT_GIVEN;
}

void lines_lose_doomed(struct worker *worker, struct stream *stream)
{
    int64_t rev = stream->doomed;
    struct watcher *watcher = stream_only_watcher(stream);
    stream->doomed = 0;
    if (watcher != NULL && watcher->state != WATCHER_LOST && watcher->state != WATCHER_ENDED)
        watcher_lose(worker, watcher, rev);
}

/* ---- lines without an event ---- */

bool lines_progress(struct worker *worker, struct stream *stream)
{
    struct belfry_blob *line = NULL;
    if (stream->rest != NULL || stream->room == 0 ||
        stream->lines->progress(stream->user, worker->at, &line) != BELFRY_OK)
        return false;
    return line == NULL || output_line(worker, stream, line);
}

bool lines_lost(struct worker *worker, struct stream *stream, int64_t compact_rev)
{
    struct belfry_blob *line = NULL;
    if (stream->rest != NULL || stream->room == 0 || stream->lines->lost(stream->user, compact_rev, &line) != BELFRY_OK)
        return false;
    return line == NULL || output_line(worker, stream, line);
}
