/* src/core/worker.c: the objects of a worker, its turn, and what clients ask of their streams. */
#include "core/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "base/sim.h"
#include "core/cut.h"
#include "core/delivery.h"
#include "core/fanout.h"
#include "core/gather.h"
#include "core/interest.h"
#include "core/output.h"
#include "core/registry.h"
#include "core/source.h"
#include "core/sweep.h"
#include "core/turn.h"

#define PROGRESS_MS (10 * 60 * 1000) /* as in etcd */
#define REASON_MAX  1024             /* bytes of a refusal */

static const char TEXT_COMPACTED[] = "etcdserver: mvcc: required revision has been compacted";
static const char TEXT_EMPTY[] = "mvcc: watcher range is empty";
static const char TEXT_DUPLICATE[] = "mvcc: duplicate watch ID provided on the WatchStream";

/* Each object uses the objects above it. */
struct worker {
    BELFRY_OWNER;
    struct worker_opts opts; /* fixed at creation */
    bool in_turn;
    struct turn turn;
    struct interest *interest;
    struct source source;
    struct gather gather;
    struct output output;
    struct registry registry;
    struct delivery delivery;
    struct fanout fanout;
    struct sweep sweep;
    struct cut cut;
    uint64_t n_cuts;
    size_t granted, spent;       /* units of the turn, and of the last one */
    struct worker_memory shared; /* what opts.memory has of this one */
};

/* On the owner's thread, and not from inside a turn. */
static void worker_enter(const struct worker *worker)
{
    BELFRY_OWNER_CHECK(worker);
    assert(!worker->in_turn);
    (void)worker;
}

/* ---- memory ---- */

static size_t bytes_of(const struct worker *worker)
{
    return sizeof(*worker) + OUTPUT_BYTES + worker->registry.bytes + worker->source.bytes + worker->output.rest_bytes +
           gather_bytes(&worker->gather) + interest_bytes(worker->interest);
}

/* Its own bytes, and those of the workers that it shares its bound with. */
static size_t all_bytes(const struct worker *worker)
{
    size_t others = worker->opts.memory == NULL ? 0 : worker->opts.memory->bytes - worker->shared.bytes;
    return bytes_of(worker) + others;
}

static size_t all_rest_bytes(const struct worker *worker)
{
    size_t others = worker->opts.memory == NULL ? 0 : worker->opts.memory->rest_bytes - worker->shared.rest_bytes;
    return worker->output.rest_bytes + others;
}

static void share_bytes(struct worker *worker, struct worker_memory now)
{
    struct worker_memory *all = worker->opts.memory;
    if (all == NULL)
        return;
    all->bytes += now.bytes - worker->shared.bytes; /* may fall: the sum is right all the same */
    all->rest_bytes += now.rest_bytes - worker->shared.rest_bytes;
    worker->shared = now;
}

/* ---- creating ---- */

enum belfry_err worker_create(const struct worker_opts *opts, struct worker **out)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL)
        return BELFRY_ERR_NOMEM;
    struct output_opts output = {.identity = opts->identity,
                                 .fragment_bytes = opts->fragment_bytes,
                                 .response_bytes = opts->response_bytes,
                                 .response_revs = opts->response_revs,
                                 .write = opts->write};
    worker->opts = *opts;
    BELFRY_OWNER_PASS(worker); /* to the thread of its first call */
    worker->turn.retry_at = BELFRY_NEVER;
    enum belfry_err err = output_init(&worker->output, &output, &worker->turn);
    if (err == BELFRY_OK)
        err = interest_create(opts->seed, &worker->interest);
    source_init(&worker->source, &worker->turn, opts->segment_bytes);
    gather_init(&worker->gather, &worker->turn, worker->interest, opts->attribute, opts->attribute_user);
    registry_init(&worker->registry, &worker->turn, worker->interest, &worker->output);
    worker->registry.rng.state = opts->seed;
    worker->registry.progress_ms = opts->progress_ms != 0 ? opts->progress_ms : PROGRESS_MS;
    worker->delivery = (struct delivery){
        .turn = &worker->turn, .output = &worker->output, .source = &worker->source, .registry = &worker->registry};
    fanout_init(&worker->fanout, &worker->delivery, &worker->gather);
    sweep_init(&worker->sweep, &worker->delivery, &worker->gather);
    cut_init(&worker->cut, &worker->registry);
    if (err != BELFRY_OK) {
        worker_destroy(worker);
        return err;
    }
    *out = worker;
    return BELFRY_OK;
}

static void close_all(struct worker *worker, struct belfry_list *streams)
{
    while (!belfry_list_empty(streams))
        registry_close(&worker->registry, belfry_container(streams->next, struct stream, link));
}

/* All closing streams, whatever it costs. */
static void take_down_all(struct worker *worker)
{
    size_t left = worker->turn.work;
    worker->turn.work = SIZE_MAX;
    registry_take_down(&worker->registry);
    worker->turn.work = left;
}

void worker_destroy(struct worker *worker)
{
    if (worker == NULL)
        return;
    share_bytes(worker, (struct worker_memory){0});
    close_all(worker, &worker->registry.streams);
    close_all(worker, &worker->cut.streams);
    take_down_all(worker);
    source_fini(&worker->source);
    gather_fini(&worker->gather);
    interest_destroy(worker->interest);
    fanout_fini(&worker->fanout);
    output_fini(&worker->output);
    free(worker);
}

/* ---- the turn ---- */

static bool judge_streams(struct worker *worker)
{
    if (cut_is_done(&worker->cut))
        return true;
    if (!cut_judge(&worker->cut))
        return false;
    take_down_all(worker); /* closed streams may still have riders */
    sweep_begin_past(&worker->sweep);
    return true;
}

static void begin_past(struct worker *worker)
{
    size_t left = worker->turn.work;
    worker->turn.work = SIZE_MAX;
    judge_streams(worker); /* by the previous cut: the new one does not replace it */
    worker->turn.work = left;
    worker->n_cuts += worker->registry.p.past != 0;
    cut_begin(&worker->cut, &worker->turn.view.cut);
    source_begin_past(&worker->source, worker->registry.p.past);
    gather_forget(&worker->gather);
    fanout_begin_past(&worker->fanout);
}

/* Serves live watchers first, then those that are behind. The second part has half of the budget in addition, so that
 * neither starves the other. */
static bool serve_past(struct worker *worker, size_t max_work)
{
    if (worker->turn.view.cut.past != worker->registry.p.past)
        begin_past(worker);
    if (!judge_streams(worker))
        return true;
    bool more = fanout_absorb(&worker->fanout);
    fanout_serve(&worker->fanout);
    worker->turn.work += max_work / 2 + 1;
    worker->granted += max_work / 2 + 1;
    return sweep_drive(&worker->sweep) || more;
}

/* Streams and buses that await history try again. */
static void wake_waiting(struct worker *worker)
{
    belfry_list_move_all(&worker->registry.ready, &worker->registry.awaiting);
    sweep_wake(&worker->sweep);
}

/* History that is kept in case another watcher needs it is not worth a refusal. */
static void give_back_history(struct worker *worker)
{
    size_t bytes = all_bytes(worker), max = worker->opts.memory_max;
    if (max != 0 && bytes > max)
        source_give_back(&worker->source, bytes - max);
}

bool worker_turn(struct worker *worker, uint64_t now_ms, size_t max_work)
{
    struct turn *turn = &worker->turn;
    bool more = false;
    worker_enter(worker);
    worker->in_turn = true;
    turn->now = now_ms;
    turn->number++;
    turn->work = worker->granted = max_work;
    evlog_enter(worker->opts.log, worker->opts.number, &turn->view);
    if (turn->view.cut.past != 0) {
        if (turn->now >= turn->retry_at) {
            turn->retry_at = BELFRY_NEVER;
            wake_waiting(worker);
        }
        registry_tick(&worker->registry);
        more = serve_past(worker, max_work);
    }
    if (cut_is_done(&worker->cut)) { /* positions in an older past are void */
        fanout_serve(&worker->fanout);
        more = sweep_start(&worker->sweep) || more; /* a watcher may have begun to wait after the buses drove */
    }
    output_flush(&worker->output);
    evlog_leave(worker->opts.log, worker->opts.number);
    registry_take_down(&worker->registry);
    give_back_history(worker);
    share_bytes(worker, (struct worker_memory){bytes_of(worker), worker->output.rest_bytes});
    worker->spent = worker->granted - turn->work;
    worker->in_turn = false;
    return more || worker_wants_turn(worker);
}

bool worker_wants_turn(const struct worker *worker)
{
    return !belfry_list_empty(&worker->registry.ready) || !belfry_list_empty(&worker->registry.closing);
}

size_t worker_spent(const struct worker *worker)
{
    return worker->spent;
}

uint64_t worker_due(const struct worker *worker)
{
    uint64_t due = belfry_min_time(registry_due(&worker->registry), worker->turn.retry_at);
    return belfry_min_time(due, sweep_due(&worker->sweep));
}

int64_t worker_position(const struct worker *worker)
{
    return worker->registry.p.at;
}

uint64_t worker_past(const struct worker *worker)
{
    return worker->registry.p.past;
}

bool worker_has_parts(const struct worker *worker, int64_t rev)
{
    struct evlog_view view;
    assert(!worker->in_turn);
    evlog_enter(worker->opts.log, worker->opts.number, &view);
    uint64_t seq = evlog_find(&view, rev);
    const struct batch *batch = seq < view.next ? evlog_at(&view, seq) : NULL;
    bool has_parts = batch != NULL && batch->rev == rev && (batch->n_events > 1 || batch->kind == BATCH_EXTENT);
    evlog_leave(worker->opts.log, worker->opts.number);
    return has_parts;
}

uint64_t worker_rewritten(const struct worker *worker)
{
    return worker->registry.rewritten;
}

void worker_set_stale(struct worker *worker, bool stale)
{
    worker_enter(worker);
    worker->registry.stale = stale;
    if (stale)
        return;
    belfry_list_each (node, &worker->registry.streams)
        registry_ready_if_more(&worker->registry, belfry_container(node, struct stream, link));
}

void worker_set_identity(struct worker *worker, const struct response_identity *identity)
{
    output_set_identity(&worker->output, identity);
}

bool worker_wants_fetch(struct worker *worker, struct worker_fetch *out)
{
    worker_enter(worker);
    return source_wants_fetch(&worker->source, out);
}

void worker_fetched(struct worker *worker, const struct worker_fetch *fetch, enum belfry_err err,
                    struct segment *segment, int64_t compact_rev, int64_t oldest)
{
    worker_enter(worker);
    if (source_fetched(&worker->source, fetch, err, segment, compact_rev, oldest))
        wake_waiting(worker);
}

/* ---- requests ---- */

static bool over_limit(const struct worker *worker)
{
    return worker->opts.memory_max != 0 && all_bytes(worker) - all_rest_bytes(worker) > worker->opts.memory_max;
}

static enum belfry_err add_answer(struct worker *worker, struct stream *stream, const struct answer *answer,
                                  const char *reason)
{
    if (stream->n_answers >= STREAM_ANSWERS_MAX)
        return BELFRY_ERR_LIMIT;
    return answer_add(&worker->registry, stream, answer, reason, strnlen(reason, REASON_MAX));
}

static enum belfry_err refuse_create(struct worker *worker, struct stream *stream, const char *reason)
{
    struct answer refusal = {.id = -1, .rev = worker->registry.p.at, .kind = ANSWER_REFUSED};
    return stream->outlet.lines != NULL ? BELFRY_ERR_INVALID : add_answer(worker, stream, &refusal, reason);
}

/* The smallest id that was never used here, unless another is asked for. False: that one is taken. */
static bool choose_id(struct stream *stream, int64_t asked, int64_t *out)
{
    if (asked != 0) {
        *out = asked;
        if (asked <= stream->top_id && stream_find(stream, asked) != NULL)
            return false;
    } else {
        while (stream->next_id <= stream->top_id && stream_find(stream, stream->next_id) != NULL)
            stream->next_id++;
        *out = stream->next_id++;
    }
    if (*out > stream->top_id)
        stream->top_id = *out;
    return true;
}

static struct interest_several several_of(const struct range *hull, const struct stream_create *create)
{
    return (struct interest_several){.hull = *hull, .list = create->ranges, .n = create->n_ranges};
}

size_t stream_create_bytes(const struct stream_create *create)
{
    struct interest_pin pin = {.name = create->pin_name, .value = create->pin_value};
    struct range range;
    if (!range_read(create->key, create->range_end, &range))
        return 0;
    struct interest_several several = several_of(&range, create);
    return watcher_cost(several.n > 0 ? interest_cost_several(&several)
                                      : interest_cost(&range, pin.name.len > 0 ? &pin : NULL));
}

/* The created answer, and the watcher, in no place yet. */
static enum belfry_err create_watcher(struct worker *worker, struct stream *stream, const struct range *range,
                                      int64_t id, const struct stream_create *create, struct watcher **out)
{
    struct answer created = {.id = id, .rev = worker->registry.p.at, .kind = ANSWER_CREATED};
    struct interest_pin pin = {.name = create->pin_name, .value = create->pin_value};
    struct interest_several several = several_of(range, create);
    struct interest_node *node;
    enum belfry_err err = several.n > 0 ? interest_add_several(worker->interest, &several, &node)
                                        : interest_add(worker->interest, range, pin.name.len > 0 ? &pin : NULL, &node);
    if (err != BELFRY_OK)
        return err;
    err = watcher_add(&worker->registry, stream, id, create->flags, node, out);
    if (err != BELFRY_OK) {
        interest_drop(worker->interest, node);
        return err;
    }
    err = add_answer(worker, stream, &created, "");
    if (err != BELFRY_OK)
        watcher_forget(&worker->registry, *out);
    return err;
}

enum belfry_err stream_create(struct worker *worker, struct stream *stream, const struct stream_create *create)
{
    worker_enter(worker);
    assert(stream->outlet.lines == NULL || stream->top_id == INT64_MIN); /* one watcher, ever */
    assert(create->pin_name.len == 0 || (stream->outlet.lines != NULL && worker->opts.attribute != NULL));
    assert(create->n_ranges == 0 || (stream->outlet.lines != NULL && create->pin_name.len == 0));
    assert(!create->resumed || stream->outlet.lines != NULL);
    struct range range;
    struct watcher *watcher;
    int64_t id;
    if (worker->registry.p.past == 0)
        return BELFRY_ERR_AGAIN;
    if (over_limit(worker) || stream->n_answers >= STREAM_ANSWERS_MAX)
        return BELFRY_ERR_LIMIT;
    if (stream->past != worker->registry.p.past)
        cut_stream(&worker->cut, stream); /* the cut judges the watchers that were there before it, not this one */
    if (create->start_rev < 0)
        return refuse_create(worker, stream, TEXT_COMPACTED);
    if (!range_read(create->key, create->range_end, &range))
        return refuse_create(worker, stream, TEXT_EMPTY);
    if (!choose_id(stream, create->watch_id, &id))
        return refuse_create(worker, stream, TEXT_DUPLICATE);
    enum belfry_err err = create_watcher(worker, stream, &range, id, create, &watcher);
    if (err != BELFRY_OK)
        return err;
    stream->line.resumed_rev = create->resumed ? create->start_rev : 0;
    int64_t now =
        BELFRY_MUTANT(created_by_head) ? evlog_head(worker->opts.log) : worker->registry.p.at; /* P, not head */
    watcher_place(&worker->registry, watcher, create->start_rev == 0 ? now + 1 : create->start_rev);
    if (create->out != NULL)
        *create->out = (struct stream_created){.is_there = true, .id = id};
    return BELFRY_OK;
}

enum belfry_err stream_refuse(struct worker *worker, struct stream *stream, const char *reason)
{
    worker_enter(worker);
    return refuse_create(worker, stream, reason);
}

static enum belfry_err cancel_watcher(struct worker *worker, struct stream *stream, int64_t watch_id,
                                      const char *reason)
{
    struct watcher *watcher = stream_find(stream, watch_id);
    if (watcher == NULL)
        return BELFRY_OK;
    struct answer canceled = {.id = watch_id, .rev = worker->registry.p.at, .kind = ANSWER_CANCELED};
    enum belfry_err err = add_answer(worker, stream, &canceled, reason);
    if (err != BELFRY_OK || BELFRY_MUTANT(event_after_cancel))
        return err;
    watcher_detach(&worker->registry, watcher);
    if (stream->solo_now == watcher) {
        stream->solo_now = NULL; /* a response that was begun is sent completely; otherwise it is dropped */
        if (!rest_begun(stream->outlet.rest))
            stream_drop_rest(&worker->registry, stream);
    }
    if (BELFRY_MUTANT(rest_dropped))
        stream_drop_rest(&worker->registry, stream);
    watcher_forget(&worker->registry, watcher);
    if (stream->progress_asked)
        registry_ready(&worker->registry, stream);
    return BELFRY_OK;
}

enum belfry_err stream_cancel(struct worker *worker, struct stream *stream, int64_t watch_id)
{
    worker_enter(worker);
    return cancel_watcher(worker, stream, watch_id, "");
}

enum belfry_err stream_expel(struct worker *worker, struct stream *stream, int64_t watch_id, const char *reason)
{
    worker_enter(worker);
    assert(stream->outlet.lines == NULL);
    return cancel_watcher(worker, stream, watch_id, reason);
}

void stream_progress(struct worker *worker, struct stream *stream)
{
    worker_enter(worker);
    if (stream->n_watchers == 0)
        return;
    stream->progress_asked = true;
    registry_ready(&worker->registry, stream);
}

void stream_tick(struct worker *worker, struct stream *stream)
{
    worker_enter(worker);
    if (stream->n_progress == 0)
        return;
    stream->ticking = stream->tick_all = true;
    stream->tick_id = INT64_MIN;
    registry_ready(&worker->registry, stream);
}

/* ---- streams ---- */

enum belfry_err stream_open_lines(struct worker *worker, void *user, const struct lines *lines, uint64_t now_ms,
                                  struct stream **out)
{
    worker_enter(worker);
    return over_limit(worker) ? BELFRY_ERR_LIMIT : registry_open(&worker->registry, user, lines, now_ms, out);
}

enum belfry_err stream_open(struct worker *worker, void *user, uint64_t now_ms, struct stream **out)
{
    return stream_open_lines(worker, user, NULL, now_ms, out);
}

void stream_set_progress(struct worker *worker, struct stream *stream, uint64_t period_ms)
{
    worker_enter(worker);
    assert(stream->outlet.lines != NULL);
    registry_set_period(&worker->registry, stream, period_ms);
}

void stream_set_client(struct stream *stream, uint64_t client)
{
    assert(stream->n_watchers == 0);
    stream->client = client;
}

void stream_close(struct worker *worker, struct stream *stream)
{
    worker_enter(worker);
    registry_close(&worker->registry, stream);
}

void stream_writable(struct worker *worker, struct stream *stream, size_t room)
{
    struct registry *registry = &worker->registry;
    worker_enter(worker);
    stream->outlet.room = room;
    if (room == 0)
        return;
    registry_unstall(registry, stream);
    if (registry_has_more(registry, stream))
        registry_ready(registry, stream);
    else
        registry_unpark(registry, stream);
}

bool stream_wants_requests(const struct stream *stream)
{
    return stream->n_answers < STREAM_ANSWERS_MAX;
}

bool stream_pending(const struct stream *stream)
{
    return stream_has_messages(stream);
}

bool stream_ended(const struct stream *stream)
{
    const struct watcher *watcher = stream->outlet.lines == NULL ? NULL : stream_only_watcher(stream);
    return watcher != NULL && watcher_is_over(watcher);
}

size_t stream_watchers(const struct stream *stream)
{
    return stream->n_watchers;
}

static_assert(sizeof(struct stream) <= STREAM_BYTES, "worker.h says so");

size_t stream_bytes(const struct stream *stream)
{
    return STREAM_BYTES + stream->cost;
}

bool stream_broken(const struct stream *stream)
{
    return stream->broken;
}

uint64_t stream_inside_since(const struct stream *stream, size_t *bytes)
{
    const struct outlet *outlet = &stream->outlet;
    *bytes = outlet->rest_bytes;
    return outlet->rest != NULL && rest_begun(outlet->rest) ? outlet->rest_since : 0;
}

/* ---- numbers, and views for people ---- */

/* Parked is a state of the stream. A watcher that starts in the future has nothing to catch up with. */
static enum watcher_standing standing_of(const struct worker *worker, const struct watcher *watcher, int64_t next)
{
    if (watcher->stream->parked || watcher->state == WATCHER_STALLED)
        return WATCHER_PARKED;
    return next > worker->registry.p.at ? WATCHER_SYNCED : WATCHER_CATCHING_UP;
}

bool stream_watcher(const struct worker *worker, const struct stream *stream, int64_t after_id,
                    struct watcher_view *out)
{
    worker_enter(worker);
    const struct watcher *found = after_id == INT64_MAX ? NULL : stream_first_from(stream, after_id + 1);
    if (found == NULL)
        return false;
    *out = (struct watcher_view){.id = found->id, .flags = found->flags};
    interest_range(found->node, &out->range);
    out->ended = watcher_is_over(found);
    out->next = watcher_need(&worker->registry, found);
    out->standing = standing_of(worker, found, out->next);
    return true;
}

static struct worker_standings standings_of(const size_t *n_state, size_t riding_parked)
{
    return (struct worker_standings){.synced = n_state[WATCHER_RIDING] - riding_parked,
                                     .catching_up =
                                         n_state[WATCHER_WAITING] + n_state[WATCHER_BOARDED] + n_state[WATCHER_SOLO],
                                     .parked = n_state[WATCHER_STALLED] + riding_parked};
}

void worker_stats(const struct worker *worker, struct worker_stats *out)
{
    const struct registry *registry = &worker->registry;
    const size_t *n_state = registry->n_state;
    *out = (struct worker_stats){
        .streams = registry->n_streams,
        .nodes = interest_n_nodes(worker->interest),
        .riding = n_state[WATCHER_RIDING],
        .waiting = n_state[WATCHER_WAITING],
        .boarded = n_state[WATCHER_BOARDED],
        .stalled = n_state[WATCHER_STALLED],
        .solo = n_state[WATCHER_SOLO],
        .parked = registry->n_parked,
        .riding_parked = registry->n_riding_parked,
        .bytes = bytes_of(worker),
        .shared_bytes = all_bytes(worker),
        .rest_bytes = worker->output.rest_bytes,
        .parked_peak = registry->n_parked_peak,
        .rest_bytes_peak = worker->output.rest_bytes_peak,
        .batches = worker->fanout.n_batches,
        .deliveries = worker->delivery.n_events,
        .written = worker->output.n_written,
        .fetches = worker->source.n_fetches,
        .rows_swept = worker->source.n_rows,
        .handovers = worker->sweep.n_handovers,
        .parks = registry->n_parks,
        .unparks = registry->n_unparks,
        .overslept = worker->fanout.n_overslept,
        .cuts = worker->n_cuts,
        .extents = worker->fanout.n_extents,
        .fragments = worker->output.n_fragments,
        .packed = worker->output.n_packed,
        .compacted = worker->delivery.n_lost,
        .progress = worker->fanout.n_progress,
    };
    for (size_t i = 0; i < LINES_FAMILIES; i++)
        out->lines[i] = standings_of(registry->n_lines[i], registry->n_lines_parked[i]);
    for (size_t i = 0; i < WATCHER_STATES; i++)
        out->watchers += n_state[i];
}
