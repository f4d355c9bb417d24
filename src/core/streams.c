/* src/core/streams.c: streams and what clients ask of them: create, cancel, progress; ids and their rules. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sim.h"
#include "core/worker_private.h"

#define REASON_MAX 1024 /* bytes of a refusal */

static const char TEXT_COMPACTED[] = "etcdserver: mvcc: required revision has been compacted";
static const char TEXT_EMPTY[] = "mvcc: watcher range is empty";
static const char TEXT_DUPLICATE[] = "mvcc: duplicate watch ID provided on the WatchStream";

/* ---- watchers ---- */

static bool is_behind(enum watcher_state state)
{
    return state == WATCHER_WAITING || state == WATCHER_BOARDED || state == WATCHER_STALLED || state == WATCHER_SOLO;
}

static void count_state(struct worker *worker, const struct stream *stream, unsigned state, int more)
{
    worker->n_state[state] += (size_t)more;
    if (stream->lines != NULL)
        worker->n_lines[stream->lines->inward][state] += (size_t)more;
}

static void count_riding_parked(struct worker *worker, const struct stream *stream, size_t more)
{
    worker->n_riding_parked += more;
    if (stream->lines != NULL)
        worker->n_lines_parked[stream->lines->inward] += more;
}

static void count_riders(struct worker *worker, struct stream *stream, size_t came, size_t left)
{
    stream->n_riding += came - left;
    if (stream->parked)
        count_riding_parked(worker, stream, came - left);
}

void watcher_move(struct watcher *watcher, struct worker *worker, enum watcher_state to)
{
    struct stream *stream = watcher->stream;
    count_state(worker, stream, watcher->state, -1);
    count_state(worker, stream, to, 1);
    count_riders(worker, stream, to == WATCHER_RIDING, watcher->state == WATCHER_RIDING);
    stream->n_behind += is_behind(to);
    stream->n_behind -= is_behind((enum watcher_state)watcher->state);
    watcher->state = (uint8_t)to;
    if (stream->n_behind == 0 && stream->progress_asked)
        stream_ready(worker, stream);
}

void watcher_detach(struct worker *worker, struct watcher *watcher)
{
    switch ((enum watcher_state)watcher->state) {
    case WATCHER_RIDING:
        interest_leave(worker->interest, watcher, POPULATION_LIVE);
        worker->generation++;
        break;
    case WATCHER_WAITING:
        belfry_treap_remove(&worker->sweep.waiting, &watcher->place, sweep_order);
        worker->sweep.n_waiting--;
        break;
    case WATCHER_BOARDED:
        interest_leave(worker->interest, watcher, watcher->bus);
        worker->generation++;
        worker->sweep.buses[watcher->bus].riders--;
        break;
    case WATCHER_STALLED:
    case WATCHER_SOLO:
    case WATCHER_LOST:
        belfry_list_remove(&watcher->link);
        break;
    case WATCHER_ENDED:
        break;
    }
}

void watcher_wait(struct worker *worker, struct watcher *watcher, int64_t cursor)
{
    watcher->next = cursor;
    belfry_treap_insert(&worker->sweep.waiting, &watcher->place, sweep_order);
    worker->sweep.n_waiting++;
    watcher_move(watcher, worker, WATCHER_WAITING);
}

void watcher_ride(struct worker *worker, struct watcher *watcher, int64_t next)
{
    watcher->next = next;
    belfry_ignore(interest_join(worker->interest, watcher, POPULATION_LIVE)); /* live never fails */
    worker->generation++;
    watcher_move(watcher, worker, WATCHER_RIDING);
}

void watcher_lose(struct worker *worker, struct watcher *watcher, int64_t compact_rev)
{
    struct stream *stream = watcher->stream;
    watcher_detach(worker, watcher);
    if (stream->solo_now == watcher) {
        stream->solo_now = NULL;
        if (!rest_begun(stream->rest))
            output_rest_end(worker, stream);
    }
    watcher->next = compact_rev;
    belfry_list_append(&stream->lost, &watcher->link);
    watcher_move(watcher, worker, WATCHER_LOST);
    stream_ready(worker, stream);
}

/* May it ride along from `next` on? Its stream, if it walks, must still have `next` before it for this id. */
static bool can_ride(const struct worker *worker, const struct watcher *watcher, int64_t next)
{
    const struct stream *stream = watcher->stream;
    if (next > worker->at)
        return next == worker->at + 1 && worker->hand_out == 0;
    bool passed = stream->scanning || (stream->mid_any && watcher->id <= stream->mid_id);
    return stream->state == STREAM_WALKING && next > stream->at &&
           !(stream->mid_rev != 0 && next <= stream->mid_rev && passed);
}

void watcher_place(struct worker *worker, struct watcher *watcher, int64_t next)
{
    if (BELFRY_MUTANT(future_ignored) && next > worker->at + 1)
        next = worker->at + 1;
    if (can_ride(worker, watcher, next))
        watcher_ride(worker, watcher, next);
    else
        watcher_wait(worker, watcher, next);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t watcher_need(const struct worker *worker, const struct watcher *watcher)
{
    const struct stream *stream = watcher->stream;
    int64_t at = worker->at;
    switch ((enum watcher_state)watcher->state) {
    case WATCHER_BOARDED:
        return larger(watcher->next, worker->sweep.buses[watcher->bus].at);
    case WATCHER_RIDING:
        if (worker->hand_out != 0 && stream->serial <= worker->tell_serial)
            at = worker->hand_out;        /* it has been told */
        if (stream->past != worker->past) /* the cut has not judged it yet: P is the new past's already */
            at = stream->serial <= worker->cut_tell_serial && worker->cut_hand_out != 0 ? worker->cut_hand_out
                                                                                        : worker->cut_at;
        if (stream->state == STREAM_WALKING) {
            bool given = stream->mid_rev != 0 && stream->mid_any && watcher->id <= stream->mid_id;
            at = given ? stream->mid_rev : stream->at;
        }
        return larger(watcher->next, at + 1);
    case WATCHER_WAITING:
    case WATCHER_STALLED:
    case WATCHER_SOLO:
    case WATCHER_LOST:
    case WATCHER_ENDED:
        break;
    }
    return watcher->next;
}

static int order_by_id(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    int64_t x = belfry_container_const(a, struct watcher, by_id)->id;
    int64_t y = belfry_container_const(b, struct watcher, by_id)->id;
    return (x > y) - (x < y);
}

int watcher_seek_id(const void *key, const struct belfry_treap_node *node)
{
    int64_t x = *(const int64_t *)key, y = belfry_container_const(node, struct watcher, by_id)->id;
    return (x > y) - (x < y);
}

static struct watcher *find(const struct stream *stream, int64_t id)
{
    struct belfry_treap_node *node = belfry_treap_find(stream->watchers, &id, watcher_seek_id);
    return node == NULL ? NULL : belfry_container(node, struct watcher, by_id);
}

/* Detached from everything but its stream and its node. */
static void forget(struct worker *worker, struct watcher *watcher)
{
    struct stream *stream = watcher->stream;
    belfry_treap_remove(&stream->watchers, &watcher->by_id, order_by_id);
    stream->n_watchers--;
    stream->n_behind -= is_behind((enum watcher_state)watcher->state);
    count_state(worker, stream, watcher->state, -1);
    count_riders(worker, stream, 0, watcher->state == WATCHER_RIDING);
    if ((watcher->flags & WATCHER_PROGRESS) != 0 && --stream->n_progress == 0)
        ticks_leave(worker, stream);
    interest_drop(worker->interest, watcher->node);
    worker->generation++;
    worker->bytes -= sizeof(*watcher);
    free(watcher);
}

struct watcher *stream_only_watcher(const struct stream *stream)
{
    return stream->watchers == NULL ? NULL : belfry_container(stream->watchers, struct watcher, by_id);
}

/* ---- answers ---- */

static enum belfry_err answer_add(struct worker *worker, struct stream *stream, const struct answer *like,
                                  const char *reason, size_t reason_len)
{
    if (stream->lines != NULL)
        return BELFRY_OK; /* silent */
    if (stream->n_answers >= STREAM_ANSWERS_MAX)
        return BELFRY_ERR_LIMIT;
    struct answer *answer = malloc(sizeof(*answer) + reason_len + 1);
    if (answer == NULL)
        return BELFRY_ERR_NOMEM;
    *answer = *like;
    memcpy(answer->reason, reason, reason_len);
    answer->reason[reason_len] = '\0';
    belfry_list_append(&stream->answers, &answer->link);
    stream->n_answers++;
    worker->bytes += sizeof(*answer) + reason_len + 1;
    stream_ready(worker, stream);
    return BELFRY_OK;
}

void streams_answer_given(struct worker *worker, struct stream *stream, struct answer *answer)
{
    belfry_list_remove(&answer->link);
    stream->n_answers--;
    worker->bytes -= sizeof(*answer) + strlen(answer->reason) + 1;
    free(answer);
}

static enum belfry_err refuse(struct worker *worker, struct stream *stream, const char *reason)
{
    struct answer refusal = {.id = -1, .rev = worker->at, .created = true, .canceled = true};
    if (stream->lines != NULL)
        return BELFRY_ERR_INVALID;
    return answer_add(worker, stream, &refusal, reason, strnlen(reason, REASON_MAX));
}

/* ---- requests ---- */

static bool over_limit(const struct worker *worker)
{
    return worker->opts.memory_max != 0 && worker->bytes + interest_bytes(worker->interest) > worker->opts.memory_max;
}

/* The smallest id that was never used here, unless another is asked for. False: that one is taken. */
static bool choose_id(struct stream *stream, int64_t asked, int64_t *out)
{
    if (asked != 0) {
        *out = asked;
        if (asked <= stream->top_id && find(stream, asked) != NULL)
            return false;
    } else {
        while (stream->next_id <= stream->top_id && find(stream, stream->next_id) != NULL)
            stream->next_id++;
        *out = stream->next_id++;
    }
    stream->top_id = larger(stream->top_id, *out);
    return true;
}

static enum belfry_err watcher_add(struct worker *worker, struct stream *stream, const struct range *range, int64_t id,
                                   const struct stream_create *create)
{
    struct answer created = {.id = id, .rev = worker->at, .created = true};
    struct interest_pin pin = {.name = create->pin_name, .value = create->pin_value};
    struct watcher *watcher = calloc(1, sizeof(*watcher));
    if (watcher == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = interest_add(worker->interest, range, pin.name.len > 0 ? &pin : NULL, &watcher->node);
    if (err == BELFRY_OK)
        err = answer_add(worker, stream, &created, "", 0);
    if (err != BELFRY_OK) {
        if (watcher->node != NULL)
            interest_drop(worker->interest, watcher->node);
        free(watcher);
        return err;
    }
    watcher->stream = stream;
    watcher->id = id;
    watcher->flags = create->flags & (uint8_t)~WATCHER_ACTIVE;
    watcher->state = WATCHER_ENDED; /* nowhere yet */
    count_state(worker, stream, WATCHER_ENDED, 1);
    worker->bytes += sizeof(*watcher);
    worker->generation++;
    belfry_treap_insert(&stream->watchers, &watcher->by_id, order_by_id);
    stream->n_watchers++;
    if ((watcher->flags & WATCHER_PROGRESS) != 0 && stream->n_progress++ == 0)
        ticks_join(worker, stream);
    stream->resumed_rev = create->resumed ? create->start_rev : 0;
    int64_t now = BELFRY_MUTANT(created_by_head) ? evlog_head(worker->opts.log) : worker->at; /* P, never the head */
    watcher_place(worker, watcher, create->start_rev == 0 ? now + 1 : create->start_rev);
    return BELFRY_OK;
}

enum belfry_err stream_create(struct worker *worker, struct stream *stream, const struct stream_create *create)
{
    assert(!worker->in_turn);
    assert(stream->lines == NULL || stream->top_id == INT64_MIN); /* one watcher, ever */
    assert(create->pin_name.len == 0 || (stream->lines != NULL && worker->opts.attribute != NULL));
    assert(!create->resumed || stream->lines != NULL);
    struct range range;
    int64_t id;
    if (worker->past == 0)
        return BELFRY_ERR_AGAIN;
    if (over_limit(worker) || stream->n_answers >= STREAM_ANSWERS_MAX)
        return BELFRY_ERR_LIMIT;
    if (stream->past != worker->past)
        cut_stream(worker, stream); /* the cut is for those who were there before it */
    if (create->start_rev < 0)
        return refuse(worker, stream, TEXT_COMPACTED);
    if (!range_read(create->key, create->range_end, &range))
        return refuse(worker, stream, TEXT_EMPTY);
    if (!choose_id(stream, create->watch_id, &id))
        return refuse(worker, stream, TEXT_DUPLICATE);
    return watcher_add(worker, stream, &range, id, create);
}

enum belfry_err stream_refuse(struct worker *worker, struct stream *stream, const char *reason)
{
    assert(!worker->in_turn);
    return refuse(worker, stream, reason);
}

enum belfry_err stream_cancel(struct worker *worker, struct stream *stream, int64_t watch_id)
{
    assert(!worker->in_turn);
    struct watcher *watcher = find(stream, watch_id);
    if (watcher == NULL)
        return BELFRY_OK;
    struct answer canceled = {.id = watch_id, .rev = worker->at, .canceled = true};
    enum belfry_err err = answer_add(worker, stream, &canceled, "", 0);
    if (err != BELFRY_OK || BELFRY_MUTANT(event_after_cancel))
        return err;
    bool was_solo = stream->solo_now == watcher;
    watcher_detach(worker, watcher);
    if (was_solo) {
        stream->solo_now = NULL; /* what is begun goes out whole; what is not begun is dropped */
        if (!rest_begun(stream->rest))
            output_rest_end(worker, stream);
    }
    if (BELFRY_MUTANT(rest_dropped) && stream->rest != NULL)
        output_rest_end(worker, stream);
    forget(worker, watcher);
    if (stream->progress_asked)
        stream_ready(worker, stream);
    return BELFRY_OK;
}

void stream_progress(struct worker *worker, struct stream *stream)
{
    assert(!worker->in_turn);
    if (stream->n_watchers == 0)
        return;
    stream->progress_asked = true;
    stream_ready(worker, stream);
}

/* ---- streams ---- */

static int order_by_tick(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct stream *x = belfry_container_const(a, struct stream, tick);
    const struct stream *y = belfry_container_const(b, struct stream, tick);
    if (x->tick_ms != y->tick_ms)
        return x->tick_ms < y->tick_ms ? -1 : 1;
    return (x->serial > y->serial) - (x->serial < y->serial);
}

void ticks_join(struct worker *worker, struct stream *stream)
{
    belfry_treap_insert(&worker->ticks, &stream->tick, order_by_tick);
}

void ticks_leave(struct worker *worker, struct stream *stream)
{
    belfry_treap_remove(&worker->ticks, &stream->tick, order_by_tick);
}

static uint64_t interval(struct worker *worker, const struct stream *stream)
{
    uint64_t period = stream->progress_ms != 0 ? stream->progress_ms : worker->opts.progress_ms;
    return period + belfry_rng_below(&worker->rng, period / 10 + 1);
}

void stream_set_progress(struct worker *worker, struct stream *stream, uint64_t period_ms)
{
    assert(!worker->in_turn && stream->lines != NULL);
    if (stream->n_progress > 0)
        ticks_leave(worker, stream);
    stream->progress_ms = period_ms;
    stream->tick_ms = worker->now + interval(worker, stream);
    if (stream->n_progress > 0)
        ticks_join(worker, stream);
}

/* Streams whose progress timer is due. */
void ticks_run(struct worker *worker)
{
    struct belfry_treap_node *node;
    while ((node = belfry_treap_first(worker->ticks)) != NULL) {
        struct stream *stream = belfry_container(node, struct stream, tick);
        if (stream->tick_ms > worker->now)
            return;
        ticks_leave(worker, stream);
        stream->tick_ms = worker->now + interval(worker, stream);
        ticks_join(worker, stream);
        stream->ticking = true;
        stream->tick_id = INT64_MIN;
        stream_ready(worker, stream);
    }
}

void stream_move(struct worker *worker, struct stream *stream, enum stream_state to)
{
    assert(stream->state != STREAM_CLOSED);
    (void)worker;
    stream->state = to;
}

static enum belfry_err open_stream(struct worker *worker, void *user, const struct lines *lines, uint64_t now_ms,
                                   struct stream **out)
{
    assert(!worker->in_turn);
    if (over_limit(worker))
        return BELFRY_ERR_LIMIT;
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return BELFRY_ERR_NOMEM;
    stream->serial = ++worker->serials;
    stream->user = user;
    stream->lines = lines;
    stream->past = worker->past;
    stream->cut_id = INT64_MIN;
    stream->top_id = INT64_MIN;
    stream->tick_ms = now_ms + interval(worker, stream);
    belfry_list_init(&stream->ready);
    belfry_list_init(&stream->answers);
    belfry_list_init(&stream->stalled);
    belfry_list_init(&stream->solo);
    belfry_list_init(&stream->lost);
    belfry_list_append(&worker->streams, &stream->link);
    worker->n_streams++;
    worker->bytes += sizeof(*stream);
    *out = stream;
    return BELFRY_OK;
}

enum belfry_err stream_open(struct worker *worker, void *user, uint64_t now_ms, struct stream **out)
{
    return open_stream(worker, user, NULL, now_ms, out);
}

enum belfry_err stream_open_lines(struct worker *worker, void *user, const struct lines *lines, uint64_t now_ms,
                                  struct stream **out)
{
    return open_stream(worker, user, lines, now_ms, out);
}

static void unpark(struct worker *worker, struct stream *stream)
{
    if (!stream->parked)
        return;
    stream->parked = false;
    worker->n_parked--;
    count_riding_parked(worker, stream, -stream->n_riding);
    worker->stats.unparks++;
}

void stream_close(struct worker *worker, struct stream *stream)
{
    assert(!worker->in_turn);
    output_drop(worker, stream);
    stream->solo_now = NULL; /* its watcher goes with the stream */
    if (stream->rest != NULL)
        output_rest_end(worker, stream);
    while (!belfry_list_empty(&stream->answers))
        streams_answer_given(worker, stream, belfry_container(stream->answers.next, struct answer, link));
    unpark(worker, stream);
    belfry_list_remove(&stream->ready);
    belfry_list_remove(&stream->link);
    belfry_list_append(&worker->closing, &stream->link);
    worker->n_streams--;
    stream->room = 0;
    stream_move(worker, stream, STREAM_CLOSED);
}

void stream_take_down(struct worker *worker)
{
    while (!belfry_list_empty(&worker->closing)) {
        struct stream *stream = belfry_container(worker->closing.next, struct stream, link);
        while (stream->watchers != NULL) {
            if (worker->work == 0)
                return;
            worker->work--;
            struct belfry_treap_node *first = belfry_treap_first(stream->watchers);
            struct watcher *watcher = belfry_container(first, struct watcher, by_id);
            watcher_detach(worker, watcher);
            forget(worker, watcher);
        }
        belfry_list_remove(&stream->link);
        worker->bytes -= sizeof(*stream);
        free(stream);
    }
}

bool stream_has_more(const struct worker *worker, const struct stream *stream)
{
    bool progress = stream->progress_asked && stream->n_behind == 0 && !worker->stale;
    return stream_pending(stream) || stream->state == STREAM_WALKING || !belfry_list_empty(&stream->stalled) ||
           stream->ticking || progress || stream->doomed != 0;
}

void stream_ready(struct worker *worker, struct stream *stream)
{
    if (stream->state == STREAM_CLOSED)
        return;
    belfry_list_remove(&stream->ready);
    if (stream->room > 0) {
        unpark(worker, stream);
        belfry_list_append(&worker->ready, &stream->ready);
    } else if (!stream->parked) {
        stream->parked = true;
        worker->n_parked++;
        if (worker->n_parked > worker->stats.parked_peak)
            worker->stats.parked_peak = worker->n_parked;
        count_riding_parked(worker, stream, stream->n_riding);
        worker->stats.parks++;
    }
}

/* Those who got off for want of room wait again; a few at a time, because a little room serves only a few. */
void streams_unstall(struct worker *worker, struct stream *stream)
{
    for (size_t n = 0; n < WORKER_UNSTALL && !belfry_list_empty(&stream->stalled); n++) {
        struct watcher *watcher = belfry_container(stream->stalled.next, struct watcher, link);
        watcher_detach(worker, watcher);
        watcher_place(worker, watcher, watcher->next);
    }
}

void stream_writable(struct worker *worker, struct stream *stream, size_t room)
{
    assert(!worker->in_turn);
    stream->room = room;
    if (room == 0)
        return;
    streams_unstall(worker, stream);
    if (stream_has_more(worker, stream))
        stream_ready(worker, stream);
    else
        unpark(worker, stream);
}

bool stream_wants_requests(const struct stream *stream)
{
    return stream->n_answers < STREAM_ANSWERS_MAX;
}

bool stream_pending(const struct stream *stream)
{
    return stream->rest != NULL || !belfry_list_empty(&stream->answers) || !belfry_list_empty(&stream->lost) ||
           !belfry_list_empty(&stream->solo);
}

bool stream_ended(const struct stream *stream)
{
    const struct watcher *watcher = stream->lines == NULL ? NULL : stream_only_watcher(stream);
    return watcher != NULL && (watcher->state == WATCHER_LOST || watcher->state == WATCHER_ENDED);
}

bool stream_broken(const struct stream *stream)
{
    return stream->broken;
}

uint64_t stream_inside_since(const struct stream *stream, size_t *bytes)
{
    *bytes = stream->rest_bytes;
    return stream->rest != NULL && rest_begun(stream->rest) ? stream->rest_since : 0;
}

/* Parked is a state of the stream. A start in the future has nothing to catch up with. */
static enum watcher_standing standing_of(const struct worker *worker, const struct watcher *watcher, int64_t next)
{
    if (watcher->stream->parked || watcher->state == WATCHER_STALLED)
        return WATCHER_PARKED;
    return next > worker->at ? WATCHER_SYNCED : WATCHER_CATCHING_UP;
}

bool stream_watcher(const struct worker *worker, const struct stream *stream, int64_t after_id,
                    struct watcher_view *out)
{
    assert(!worker->in_turn);
    const struct watcher *found = NULL;
    for (const struct belfry_treap_node *node = stream->watchers; node != NULL;) {
        const struct watcher *watcher = belfry_container_const(node, struct watcher, by_id);
        if (watcher->id > after_id)
            found = watcher;
        node = watcher->id > after_id ? node->left : node->right;
    }
    if (found == NULL)
        return false;
    *out = (struct watcher_view){.id = found->id, .flags = found->flags};
    interest_range(found->node, &out->range);
    out->ended = found->state == WATCHER_LOST || found->state == WATCHER_ENDED;
    out->next = watcher_need(worker, found);
    out->standing = standing_of(worker, found, out->next);
    return true;
}
