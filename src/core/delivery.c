/* src/core/delivery.c: one loop sends the rest of a message, for all kinds of rests. */
#include "core/delivery.h"

#include "base/sim.h"
#include "core/mutants.h"

/* ---- the rest of a message ---- */

/* The rows are gone. If nothing was sent, the watcher is lost; otherwise the stream can only end. */
static void give_up_rest(struct delivery *delivery, struct stream *stream)
{
    struct watcher *watcher = stream->solo_now;
    if (rest_begun(stream->outlet.rest))
        stream->broken = true;
    else if (watcher != NULL)
        watcher_lose(delivery->registry, watcher, delivery->source->gone_told); /* drops the rest */
    else
        stream_drop_rest(delivery->registry, stream);
}

/* Passes slices to the rest of an extent as it needs them. False: a slice is being read, or is gone. */
static bool feed_rest(struct delivery *delivery, struct stream *stream)
{
    struct outlet *outlet = &stream->outlet;
    int64_t rev;
    uint32_t sub;
    while (outlet->rest != NULL && rest_wants_slice(outlet->rest, &rev, &sub)) {
        const struct batch *slice;
        if (delivery->turn->work == 0)
            return false;
        delivery->turn->work--;
        enum source_prefer prefer = rest_in_slices(outlet->rest) ? SOURCE_PREFER_SLICES : SOURCE_PREFER_WHOLE;
        switch (source_slice(delivery->source, stream->client, rev, sub, prefer, &slice)) {
        case SOURCE_WAIT:
            return false;
        case SOURCE_GONE:
            give_up_rest(delivery, stream);
            return false;
        case SOURCE_NONE:
        case SOURCE_BATCH:
            break;
        }
        rest_slice(outlet->rest, slice);
        output_account_rest(delivery->output, outlet);
    }
    return true;
}

static void end_rest(struct delivery *delivery, struct stream *stream)
{
    struct watcher *solo = stream->solo_now;
    stream_drop_rest(delivery->registry, stream);
    if (solo != NULL) { /* the extent was sent completely */
        int64_t rev = solo->next;
        watcher_detach(delivery->registry, solo);
        watcher_place(delivery->registry, solo, rev + 1);
    }
}

/* Sends what there is room for. True: all of it is sent. */
static bool send_rest(struct delivery *delivery, struct stream *stream)
{
    struct outlet *outlet = &stream->outlet;
    while (outlet->rest != NULL && !rest_done(outlet->rest)) {
        BELFRY_POINT("output.rest");
        if (delivery->turn->work == 0 || stream->broken)
            return false;
        delivery->turn->work--;
        if (stream->solo_rest && !feed_rest(delivery, stream))
            return false;
        if (outlet->rest == NULL || rest_done(outlet->rest))
            break;
        if (outlet->room == 0)
            return false;
        output_fill(delivery->output, outlet);
        if (rest_broken(outlet->rest)) {
            stream->broken = true;
            return false;
        }
        if (BELFRY_MUTANT(progress_in_fragment))
            mutant_progress_in_fragment(delivery, stream);
    }
    if (outlet->rest != NULL)
        end_rest(delivery, stream);
    return true;
}

/* Begins a message in the turn that decides on it, even if the budget has just ended. If a progress message were
 * delayed, the tier could become stale before it is sent, and a stale tier must not send it. */
static void send_begun(struct delivery *delivery, struct stream *stream)
{
    if (stream->outlet.rest == NULL || stream->outlet.room == 0)
        return; /* nothing was begun, or the room is used up */
    delivery->turn->work += delivery->turn->work == 0;
    if (!send_rest(delivery, stream))
        registry_ready(delivery->registry, stream);
}

bool delivery_begin_extent(struct delivery *delivery, struct watcher *watcher)
{
    struct stream *stream = watcher->stream;
    if (output_begin_extent(delivery->output, &stream->outlet, watcher, watcher->next) != BELFRY_OK)
        return false;
    stream->solo_now = watcher;
    stream->solo_rest = true;
    if ((watcher->flags & WATCHER_PROGRESS) != 0)
        watcher->flags |= WATCHER_ACTIVE;
    delivery->n_events++;
    return true;
}

/* ---- lines ---- */

uint32_t delivery_line_place(const struct stream *stream, int64_t rev)
{
    return stream->line.rev == rev ? stream->line.sub : 0;
}

void delivery_line_pass(struct stream *stream, const struct batch *batch, uint32_t event)
{
    stream->line.rev = batch->rev;
    stream->line.sub = batch->first_sub + event + 1;
}

bool delivery_line_is_known(const struct stream *stream, int64_t rev, size_t n_events)
{
    if (stream->line.resumed_rev != rev)
        return false;
    return (n_events == 1 && !BELFRY_MUTANT(resumed_given_one)) || BELFRY_MUTANT(resumed_behind);
}

/* Consumes the reference; NULL: there is none. False: no memory. */
static bool send_line(struct delivery *delivery, struct stream *stream, struct belfry_blob *line)
{
    if (line == NULL)
        return true;
    bool sent = BELFRY_MUTANT(line_restarts) ? mutant_line_restarts(delivery, stream, line)
                                             : output_line(delivery->output, &stream->outlet, line);
    if (!sent)
        return false;
    send_begun(delivery, stream);
    return true;
}

/* Asks the dialect. *used of the part's events are in the line, or have none. */
static enum belfry_err make_line(const struct watcher *watcher, const struct lines_part *part, uint32_t *used,
                                 struct belfry_blob **out)
{
    const struct outlet *outlet = &watcher->stream->outlet;
    *used = 0;
    *out = NULL;
    if (outlet->lines->revision != NULL)
        return outlet->lines->revision(outlet->user, part, used, out);
    if (part->n == 0)
        return BELFRY_OK;
    *used = 1;
    if (!response_passes(watcher->flags, &part->batch->events[part->events[0]]))
        return BELFRY_OK;
    return outlet->lines->event(outlet->user, part->batch, part->events[0], out);
}

enum line_result delivery_line(struct delivery *delivery, struct watcher *watcher, const struct lines_part *part,
                               uint32_t *used)
{
    struct stream *stream = watcher->stream;
    struct outlet *outlet = &stream->outlet;
    struct belfry_blob *line;
    if ((outlet->rest != NULL || outlet->room == 0) && !delivery_pending(delivery, stream))
        return LINE_NO_ROOM;
    enum belfry_err err = make_line(watcher, part, used, &line);
    if (err == BELFRY_ERR_COMPACTED && !BELFRY_MUTANT(line_without_prev))
        return LINE_LOST;
    if (err == BELFRY_ERR_NOMEM)
        return LINE_NO_ROOM;
    bool any = line != NULL;
    if (!send_line(delivery, stream, line))
        return LINE_NO_ROOM;
    delivery->n_events += any;
    if (BELFRY_MUTANT(page_all_used))
        *used = part->n;
    if (*used > 0)
        delivery_line_pass(stream, part->batch, part->events[BELFRY_MUTANT(page_place_lost) ? 0 : *used - 1]);
    return LINE_GIVEN;
}

/* The first of the picked events that is not below `from`. */
static uint32_t first_pick_from(const struct response_pick *pick, uint32_t from)
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

static enum output_result line_events(struct delivery *delivery, struct watcher *watcher,
                                      const struct response_pick *pick)
{
    struct stream *stream = watcher->stream;
    int64_t rev = pick->batch->rev;
    if (delivery_line_is_known(stream, rev, pick->n))
        return OUTPUT_NOTHING;
    uint32_t used, first = BELFRY_MUTANT(line_again) ? 0 : first_pick_from(pick, delivery_line_place(stream, rev));
    uint32_t i = first;
    if (stream->line.doomed != 0)
        return OUTPUT_GIVEN;
    do { /* at least once: if slices gave all of them, the dialect still has to hear that the revision ends */
        struct lines_part part = {.batch = pick->batch, .events = pick->events + i, .n = pick->n - i};
        if (i > first && delivery->turn->work == 0)
            return OUTPUT_MORE;
        turn_spend(delivery->turn, i > first);
        used = 0;
        switch (delivery_line(delivery, watcher, &part, &used)) {
        case LINE_NO_ROOM:
            return OUTPUT_NO_ROOM;
        case LINE_LOST: /* not now: the caller is walking the population that the watcher is in */
            stream->line.doomed = rev + 1;
            registry_ready(delivery->registry, stream);
            return OUTPUT_GIVEN;
        case LINE_GIVEN:
            i += used;
            break;
        }
    } while (i < pick->n);
    return OUTPUT_GIVEN;
}

void delivery_lose_doomed(struct delivery *delivery, struct stream *stream)
{
    int64_t rev = stream->line.doomed;
    struct watcher *watcher = stream_only_watcher(stream);
    stream->line.doomed = 0;
    if (watcher != NULL && !watcher_is_over(watcher))
        watcher_lose(delivery->registry, watcher, rev);
}

/* ---- messages without events ---- */

bool delivery_progress(struct delivery *delivery, struct stream *stream, int64_t id)
{
    struct outlet *outlet = &stream->outlet;
    int64_t at = delivery->registry->p.at;
    if (outlet->lines == NULL) {
        struct belfry_wire_watch watch = {.header = output_header(delivery->output, at), .watch_id = id};
        return output_control(delivery->output, outlet, &watch);
    }
    struct belfry_blob *line = NULL;
    if (outlet->rest != NULL || outlet->room == 0 || outlet->lines->progress(outlet->user, at, &line) != BELFRY_OK)
        return false;
    return send_line(delivery, stream, line);
}

static bool send_answers(struct delivery *delivery, struct stream *stream)
{
    while (!belfry_list_empty(&stream->answers)) {
        struct answer *answer = belfry_container(stream->answers.next, struct answer, link);
        struct belfry_wire_watch watch = {
            .header = output_header(delivery->output, answer->rev),
            .watch_id = answer->id,
            .created = answer->kind != ANSWER_CANCELED,
            .canceled = answer->kind != ANSWER_CREATED,
            .cancel_reason = belfry_bytes_str(answer->reason),
        };
        if (delivery->turn->work == 0 || stream->outlet.rest != NULL ||
            !output_control(delivery->output, &stream->outlet, &watch))
            return false;
        delivery->turn->work--;
        answer_remove(delivery->registry, stream, answer);
    }
    return true;
}

/* etcd's cancel for a compaction has no reason, and a header of revision 0. */
static bool send_loss(struct delivery *delivery, struct stream *stream, const struct watcher *watcher)
{
    struct outlet *outlet = &stream->outlet;
    if (outlet->lines == NULL) {
        struct belfry_wire_watch watch = {
            .header = output_header(delivery->output, 0),
            .watch_id = watcher->id,
            .canceled = true,
            .compact_revision = watcher->next,
        };
        return output_control(delivery->output, outlet, &watch);
    }
    struct belfry_blob *line = NULL;
    if (outlet->room == 0 || outlet->lines->lost(outlet->user, watcher->next, &line) != BELFRY_OK)
        return false;
    return send_line(delivery, stream, line);
}

static bool send_losses(struct delivery *delivery, struct stream *stream)
{
    while (!belfry_list_empty(&stream->lost)) {
        struct watcher *watcher = belfry_container(stream->lost.next, struct watcher, link);
        if (delivery->turn->work == 0 || stream->outlet.rest != NULL || !send_loss(delivery, stream, watcher))
            return false;
        delivery->turn->work--;
        delivery->n_lost++;
        watcher_end(delivery->registry, watcher);
    }
    return true;
}

bool delivery_pending(struct delivery *delivery, struct stream *stream)
{
    if (stream->outlet.rest != NULL && !send_rest(delivery, stream))
        return false;
    if (!send_answers(delivery, stream) || !send_losses(delivery, stream))
        return false;
    return stream->outlet.rest == NULL && stream->outlet.room > 0;
}

/* ---- events ---- */

/* Pending messages go out first. A response that is still open for the watcher grows. */
static enum output_result send_or_grow(struct delivery *delivery, struct watcher *watcher,
                                       const struct response_pick *pick, int64_t replay_at, bool waits)
{
    struct stream *stream = watcher->stream;
    size_t more;
    if (!waits && replay_at != 0 && output_grow(delivery->output, &stream->outlet, watcher, pick, &more))
        return more == 0 ? OUTPUT_NOTHING : OUTPUT_GIVEN;
    if (waits && !delivery_pending(delivery, stream) && output_has_any(delivery->output, watcher, pick))
        return OUTPUT_NO_ROOM;
    return output_response(delivery->output, &stream->outlet, watcher, pick, replay_at);
}

enum output_result delivery_events(struct delivery *delivery, struct watcher *watcher, const struct response_pick *pick,
                                   enum delivery_kind kind)
{
    struct stream *stream = watcher->stream;
    struct outlet *outlet = &stream->outlet;
    if (outlet->lines != NULL)
        return line_events(delivery, watcher, pick);
    bool waits = outlet->rest != NULL || !belfry_list_empty(&stream->answers) || !belfry_list_empty(&stream->lost);
    if (BELFRY_MUTANT(event_before_created))
        waits = outlet->rest != NULL;
    enum output_result result;
    if (BELFRY_MUTANT(revision_split) && !waits && kind == DELIVERY_LIVE && mutant_can_split(pick))
        result = mutant_revision_split(delivery, watcher, pick);
    else if (!waits && kind == DELIVERY_LIVE)
        result = output_response(delivery->output, outlet, watcher, pick, 0);
    else
        result = send_or_grow(delivery, watcher, pick, kind == DELIVERY_REPLAY ? delivery->registry->p.at : 0, waits);
    if (result != OUTPUT_GIVEN)
        return result;
    if (outlet->rest != NULL)
        send_begun(delivery, stream);
    if ((watcher->flags & WATCHER_PROGRESS) != 0)
        watcher->flags |= WATCHER_ACTIVE;
    delivery->n_events++;
    return OUTPUT_GIVEN;
}
