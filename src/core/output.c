/* src/core/output.c: what a stream is given, as bytes, and never more than it can take.
 *
 * Bytes for one stream are gathered in the worker's buffer and written when it is full, when another stream comes, and
 * at the end of the turn. A message that does not fit into the stream's room is begun all the same; what remains of it
 * is the stream's rest and goes out first when there is room again.
 */
#include <assert.h>
#include <string.h>

#include "base/sim.h"
#include "core/worker_private.h"

void output_flush(struct worker *worker)
{
    if (worker->out_len > 0) {
        worker->stats.written += worker->out_len;
        const struct lines *lines = worker->out_stream->lines;
        void (*write)(void *, const uint8_t *, size_t) = lines != NULL ? lines->write : worker->opts.write;
        write(worker->out_stream->user, worker->out, worker->out_len);
    }
    worker->out_len = 0;
    worker->open_at = SIZE_MAX;
}

void output_drop(struct worker *worker, struct stream *stream)
{
    if (worker->out_stream != stream)
        return;
    worker->out_len = 0;
    worker->open_at = SIZE_MAX;
    worker->out_stream = NULL;
}

/* Where `size` bytes for the stream go; size is at most WORKER_OUT_BYTES. */
static uint8_t *reserve(struct worker *worker, struct stream *stream, size_t size)
{
    if (worker->out_stream != stream || worker->out_len + size > WORKER_OUT_BYTES)
        output_flush(worker);
    worker->out_stream = stream;
    return worker->out + worker->out_len;
}

static void commit(struct worker *worker, struct stream *stream, size_t size)
{
    assert(size <= stream->room);
    worker->out_len += size;
    stream->room -= size;
}

static void rest_begin(struct worker *worker, struct stream *stream, struct rest *rest)
{
    assert(stream->rest == NULL);
    stream->rest = rest;
    stream->rest_since = worker->now;
    output_account_rest(worker, stream);
}

void output_account_rest(struct worker *worker, struct stream *stream)
{
    size_t before = stream->rest_bytes;
    stream->rest_bytes = stream->rest != NULL ? rest_bytes(stream->rest) : 0;
    worker->bytes += stream->rest_bytes - before;
    worker->rest_bytes += stream->rest_bytes - before;
    if (worker->rest_bytes > worker->stats.rest_bytes_peak)
        worker->stats.rest_bytes_peak = worker->rest_bytes;
}

void output_rest_end(struct worker *worker, struct stream *stream)
{
    rest_destroy(stream->rest);
    stream->rest = NULL;
    output_account_rest(worker, stream);
    stream->solo_rest = false;
    struct watcher *solo = stream->solo_now;
    stream->solo_now = NULL;
    if (solo != NULL) { /* its huge revision is out */
        int64_t rev = solo->next;
        watcher_detach(worker, solo);
        watcher_place(worker, solo, rev + 1);
    }
}

/* Writes what there is room for. True: nothing is left of it. */
static bool go_on_with_rest(struct worker *worker, struct stream *stream)
{
    while (stream->rest != NULL && !rest_done(stream->rest)) {
        BELFRY_POINT("output.rest");
        if (worker->work == 0 || stream->broken)
            return false;
        worker->work--;
        if (stream->solo_rest && !extent_feed(worker, stream))
            return false;
        if (stream->rest == NULL || rest_done(stream->rest))
            break;
        if (stream->room == 0)
            return false;
        uint8_t *to = reserve(worker, stream, 1);
        size_t space = WORKER_OUT_BYTES - worker->out_len;
        commit(worker, stream, rest_fill(stream->rest, to, stream->room < space ? stream->room : space));
        worker->open_at = SIZE_MAX;
        if (rest_broken(stream->rest)) {
            stream->broken = true;
            return false;
        }
        if (BELFRY_MUTANT(progress_in_fragment) && stream->progress_asked && stream->room > 100 &&
            rest_between(stream->rest)) {
            struct belfry_wire_watch watch = {.header = output_header(worker, worker->at), .watch_id = -1};
            stream->progress_asked = !output_control(worker, stream, &watch);
        }
    }
    if (stream->rest != NULL)
        output_rest_end(worker, stream);
    return true;
}

/* A message is begun in the turn that decided on it, on credit if the budget has just ended: a progress that was put off
 * could come out when it may no longer be said, because the tier has become stale since. */
static void begin_rest(struct worker *worker, struct stream *stream, struct rest *rest)
{
    rest_begin(worker, stream, rest);
    worker->work += worker->work == 0;
    if (!go_on_with_rest(worker, stream))
        stream_ready(worker, stream); /* the budget ended, or its room: it has a rest now */
}

/* A message of `size` bytes has been written at `at` (where reserve() said). False: out of memory, not given. */
static bool give(struct worker *worker, struct stream *stream, const uint8_t *at, size_t size)
{
    if (size > stream->room) {
        struct rest *rest;
        if (rest_of_bytes(belfry_bytes_of(at + stream->room, size - stream->room), &rest) != BELFRY_OK)
            return false;
        rest_begin(worker, stream, rest);
        size = stream->room;
    }
    commit(worker, stream, size);
    return true;
}

bool output_line(struct worker *worker, struct stream *stream, struct belfry_blob *line)
{
    struct belfry_bytes bytes = belfry_blob_bytes(line);
    struct rest *rest;
    worker->open_at = SIZE_MAX;
    if (bytes.len <= stream->room && bytes.len <= WORKER_OUT_BYTES) {
        uint8_t *at = reserve(worker, stream, bytes.len);
        if (bytes.len > 0)
            memcpy(at, bytes.data, bytes.len);
        commit(worker, stream, bytes.len);
        belfry_blob_unref(line);
        return true;
    }
    if (rest_of_line(line, &rest) != BELFRY_OK)
        return false;
    begin_rest(worker, stream, rest);
    return true;
}

bool output_control(struct worker *worker, struct stream *stream, const struct belfry_wire_watch *watch)
{
    size_t size = response_control_size(watch);
    assert(size <= WORKER_REST_COPY);
    if (stream->room == 0)
        return false;
    uint8_t *at = reserve(worker, stream, size);
    response_control(watch, at);
    worker->open_at = SIZE_MAX;
    return give(worker, stream, at, size);
}

struct belfry_wire_header output_header(const struct worker *worker, int64_t rev)
{
    const struct response_identity *identity = &worker->opts.identity;
    return (struct belfry_wire_header){.cluster_id = identity->cluster_id,
                                       .member_id = identity->member_id,
                                       .raft_term = identity->raft_term,
                                       .revision = rev};
}

static bool give_answers(struct worker *worker, struct stream *stream)
{
    while (!belfry_list_empty(&stream->answers)) {
        struct answer *answer = belfry_container(stream->answers.next, struct answer, link);
        struct belfry_wire_watch watch = {
            .header = output_header(worker, answer->rev),
            .watch_id = answer->id,
            .created = answer->created,
            .canceled = answer->canceled,
            .cancel_reason = belfry_bytes_str(answer->reason),
        };
        if (worker->work == 0 || stream->rest != NULL || !output_control(worker, stream, &watch))
            return false;
        worker->work--;
        streams_answer_given(worker, stream, answer);
    }
    return true;
}

/* A compaction cancel has no reason, and a header of revision 0. */
static bool tell_lost(struct worker *worker, struct stream *stream, const struct watcher *watcher)
{
    struct belfry_wire_watch watch = {
        .header = output_header(worker, 0),
        .watch_id = watcher->id,
        .canceled = true,
        .compact_revision = watcher->next,
    };
    if (stream->lines != NULL)
        return lines_lost(worker, stream, watcher->next);
    return output_control(worker, stream, &watch);
}

static bool give_lost(struct worker *worker, struct stream *stream)
{
    while (!belfry_list_empty(&stream->lost)) {
        struct watcher *watcher = belfry_container(stream->lost.next, struct watcher, link);
        if (worker->work == 0 || stream->rest != NULL || !tell_lost(worker, stream, watcher))
            return false;
        worker->work--;
        worker->stats.compacted++;
        belfry_list_remove(&watcher->link);
        watcher_move(watcher, worker, WATCHER_ENDED);
    }
    return true;
}

bool output_pending(struct worker *worker, struct stream *stream)
{
    if (stream->rest != NULL && !go_on_with_rest(worker, stream))
        return false;
    if (!give_answers(worker, stream) || !give_lost(worker, stream))
        return false;
    return stream->rest == NULL && stream->room > 0;
}

/* Adds to the catch-up response that is still in our hands, if it is this watcher's and may grow. */
static bool grow(struct worker *worker, struct watcher *watcher, const struct response_opts *opts,
                 const struct response_pick *pick, size_t *more)
{
    if (worker->open_at == SIZE_MAX || worker->out_stream != watcher->stream || worker->open_id != watcher->id ||
        worker->open_revs >= worker->opts.response_revs)
        return false;
    *more = response_more_size(opts, pick);
    size_t size = worker->out_len - worker->open_at + *more, most = worker->opts.response_bytes;
    if ((opts->flags & WATCHER_FRAGMENT) != 0 && opts->fragment_bytes != 0 && most >= opts->fragment_bytes)
        most = opts->fragment_bytes - 1;
    if (size > most || *more > watcher->stream->room || worker->out_len + *more > WORKER_OUT_BYTES)
        return false;
    if (*more > 0) {
        uint8_t *message = worker->out + worker->open_at;
        response_more(opts, pick, message, worker->out + worker->out_len);
        commit(worker, watcher->stream, *more);
        worker->open_revs++;
        worker->stats.packed++;
    }
    return true;
}

static bool begin_large(struct worker *worker, struct watcher *watcher, const struct response_opts *opts,
                        const struct batch *batch)
{
    struct range range;
    struct rest *rest;
    interest_range(watcher->node, &range);
    if (rest_of_batch(&worker->opts.identity, opts, &range, batch, &rest) != BELFRY_OK)
        return false;
    begin_rest(worker, watcher->stream, rest);
    return true;
}

static bool begin_small(struct worker *worker, struct stream *stream, const struct response_opts *opts,
                        const struct response_pick *pick, size_t size)
{
    uint8_t *at = reserve(worker, stream, size);
    worker->open_at = SIZE_MAX;
    response_write(&worker->opts.identity, opts, pick, size, at);
    return give(worker, stream, at, size);
}

static enum output_result whole_response(struct worker *worker, struct watcher *watcher,
                                         const struct response_opts *opts, const struct response_pick *pick,
                                         bool catching_up)
{
    struct stream *stream = watcher->stream;
    bool cut;
    size_t size = response_size(&worker->opts.identity, opts, pick, &cut);
    if (size == 0)
        return OUTPUT_NOTHING;
    if (stream->rest != NULL || stream->room == 0)
        return OUTPUT_NO_ROOM;
    if (cut || size > WORKER_OUT_BYTES || (size > stream->room && size > WORKER_REST_COPY)) {
        worker->stats.fragments += cut;
        return begin_large(worker, watcher, opts, pick->batch) ? OUTPUT_GIVEN : OUTPUT_NO_ROOM;
    }
    bool whole = size <= stream->room;
    if (!begin_small(worker, stream, opts, pick, size))
        return OUTPUT_NO_ROOM;
    if (catching_up && whole) {
        worker->open_at = worker->out_len - size;
        worker->open_id = watcher->id;
        worker->open_revs = 1;
    }
    return OUTPUT_GIVEN;
}

/* A mutant's: the events of a revision in two responses. */
static enum output_result split(struct worker *worker, struct watcher *watcher, const struct response_opts *opts,
                                const struct response_pick *pick)
{
    struct response_pick half = *pick, other = *pick;
    uint32_t all[2] = {0, 1};
    if (pick->events == NULL)
        half.events = other.events = all;
    half.n = 1;
    other.events++;
    other.n = (pick->events == NULL ? 2 : pick->n) - 1;
    enum output_result result = whole_response(worker, watcher, opts, &half, false);
    if (result == OUTPUT_NO_ROOM || watcher->stream->rest != NULL)
        return result;
    return whole_response(worker, watcher, opts, &other, false);
}

enum output_result output_events(struct worker *worker, struct watcher *watcher, const struct response_pick *pick,
                                 bool catching_up)
{
    struct stream *stream = watcher->stream;
    int64_t header_rev = catching_up ? worker->at : pick->batch->rev;
    if (stream->lines != NULL)
        return lines_events(worker, watcher, pick);
    if (worker->header_rev != header_rev) {
        response_header_make(&worker->opts.identity, header_rev, &worker->header);
        worker->header_rev = header_rev;
    }
    struct response_opts opts = {
        .watch_id = watcher->id,
        .header_rev = header_rev,
        .flags = watcher->flags,
        .fragment_bytes = worker->opts.fragment_bytes,
        .header = &worker->header,
    };
    size_t more;
    bool waits = stream->rest != NULL || !belfry_list_empty(&stream->answers) || !belfry_list_empty(&stream->lost);
    if (BELFRY_MUTANT(event_before_created))
        waits = stream->rest != NULL;
    if (!waits && catching_up && grow(worker, watcher, &opts, pick, &more)) {
        if (more == 0)
            return OUTPUT_NOTHING;
    } else {
        if (waits && !output_pending(worker, stream) &&
            response_size(&worker->opts.identity, &opts, pick, &(bool){false}) > 0)
            return OUTPUT_NO_ROOM;
        enum output_result result;
        if (BELFRY_MUTANT(revision_split) && pick->batch->n_events == 2 && pick->n == 2 && !catching_up)
            result = split(worker, watcher, &opts, pick);
        else
            result = whole_response(worker, watcher, &opts, pick, catching_up);
        if (result != OUTPUT_GIVEN)
            return result;
    }
    if ((watcher->flags & WATCHER_PROGRESS) != 0)
        watcher->flags |= WATCHER_ACTIVE;
    worker->stats.deliveries++;
    return OUTPUT_GIVEN;
}
