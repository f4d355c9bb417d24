/* src/core/registry.c: lists, trees and counters of streams and watchers. */
#include "core/registry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sim.h"

#define UNSTALL_MAX 64 /* stalled watchers that wait again when their stream is writable */

void registry_init(struct registry *registry, struct turn *turn, struct interest *interest, struct output *output)
{
    *registry = (struct registry){.turn = turn, .interest = interest, .output = output};
    belfry_list_init(&registry->streams);
    belfry_list_init(&registry->closing);
    belfry_list_init(&registry->ready);
    belfry_list_init(&registry->awaiting);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- counters ---- */

static bool is_behind(unsigned state)
{
    return state == WATCHER_WAITING || state == WATCHER_BOARDED || state == WATCHER_STALLED || state == WATCHER_SOLO;
}

static void count_state(struct registry *registry, const struct stream *stream, unsigned state, int more)
{
    registry->n_state[state] += (size_t)more;
    if (stream->outlet.lines != NULL)
        registry->n_lines[lines_family(stream->outlet.lines)][state] += (size_t)more;
}

static void count_riding_parked(struct registry *registry, const struct stream *stream, size_t more)
{
    registry->n_riding_parked += more;
    if (stream->outlet.lines != NULL)
        registry->n_lines_parked[lines_family(stream->outlet.lines)] += more;
}

static void count_riders(struct registry *registry, struct stream *stream, size_t came, size_t left)
{
    stream->n_riding += came - left;
    if (stream->parked)
        count_riding_parked(registry, stream, came - left);
}

/* ---- timers of periodic progress ---- */

static int streams_by_tick(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct stream *x = belfry_container_const(a, struct stream, tick);
    const struct stream *y = belfry_container_const(b, struct stream, tick);
    if (x->tick_ms != y->tick_ms)
        return x->tick_ms < y->tick_ms ? -1 : 1;
    return (x->serial > y->serial) - (x->serial < y->serial);
}

static void ticks_join(struct registry *registry, struct stream *stream)
{
    belfry_treap_insert(&registry->ticks, &stream->tick, streams_by_tick);
}

static void ticks_leave(struct registry *registry, struct stream *stream)
{
    belfry_treap_remove(&registry->ticks, &stream->tick, streams_by_tick);
}

/* The stream's period and up to a tenth more. */
static uint64_t next_tick_ms(struct registry *registry, const struct stream *stream, uint64_t now_ms)
{
    uint64_t period = stream->progress_ms != 0 ? stream->progress_ms : registry->progress_ms;
    return now_ms + period + belfry_rng_below(&registry->rng, period / 10 + 1);
}

void registry_set_period(struct registry *registry, struct stream *stream, uint64_t period_ms)
{
    if (stream->n_progress > 0)
        ticks_leave(registry, stream);
    stream->progress_ms = period_ms;
    stream->tick_ms = next_tick_ms(registry, stream, registry->turn->now);
    if (stream->n_progress > 0)
        ticks_join(registry, stream);
}

void registry_tick(struct registry *registry)
{
    while (registry_due(registry) <= registry->turn->now) {
        struct stream *stream = belfry_container(belfry_treap_first(registry->ticks), struct stream, tick);
        ticks_leave(registry, stream);
        stream->tick_ms = next_tick_ms(registry, stream, registry->turn->now);
        ticks_join(registry, stream);
        stream->ticking = true;
        stream->tick_id = INT64_MIN;
        registry_ready(registry, stream);
    }
}

uint64_t registry_due(const struct registry *registry)
{
    struct belfry_treap_node *first = belfry_treap_first(registry->ticks);
    return first == NULL ? BELFRY_NEVER : belfry_container(first, struct stream, tick)->tick_ms;
}

/* ---- watchers ---- */

static void watcher_move(struct registry *registry, struct watcher *watcher, enum watcher_state to)
{
    struct stream *stream = watcher->stream;
    count_state(registry, stream, watcher->state, -1);
    count_state(registry, stream, to, 1);
    count_riders(registry, stream, to == WATCHER_RIDING, watcher->state == WATCHER_RIDING);
    stream->n_behind += is_behind(to);
    stream->n_behind -= is_behind(watcher->state);
    watcher->state = (uint8_t)to;
    if (stream->n_behind == 0 && stream->progress_asked)
        registry_ready(registry, stream);
}

void watcher_detach(struct registry *registry, struct watcher *watcher)
{
    switch ((enum watcher_state)watcher->state) {
    case WATCHER_RIDING:
        interest_leave(registry->interest, watcher, POPULATION_LIVE);
        break;
    case WATCHER_WAITING:
        waiting_remove(&registry->waiting, watcher);
        break;
    case WATCHER_BOARDED:
        interest_leave(registry->interest, watcher, watcher->bus);
        registry->buses[watcher->bus].riders--;
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

void watcher_wait(struct registry *registry, struct watcher *watcher, int64_t cursor)
{
    watcher->next = cursor;
    waiting_add(&registry->waiting, watcher);
    watcher_move(registry, watcher, WATCHER_WAITING);
}

void watcher_ride(struct registry *registry, struct watcher *watcher, int64_t next)
{
    watcher->next = next;
    belfry_ignore(interest_join(registry->interest, watcher, POPULATION_LIVE)); /* live never fails */
    watcher_move(registry, watcher, WATCHER_RIDING);
}

/* May it ride from `next` on? If its stream walks, the stream must still have `next` before it for this id. */
static bool can_ride(const struct registry *registry, const struct watcher *watcher, int64_t next)
{
    const struct stream *stream = watcher->stream;
    const struct stream_walk *walk = &stream->walk;
    if (next > registry->p.at)
        return next == registry->p.at + 1 && registry->p.hand_out == 0;
    bool passed = walk->scanning || (walk->mid_any && watcher->id <= walk->mid_id);
    return stream->state == STREAM_WALKING && next > walk->at &&
           !(walk->mid_rev != 0 && next <= walk->mid_rev && passed);
}

void watcher_place(struct registry *registry, struct watcher *watcher, int64_t next)
{
    if (BELFRY_MUTANT(future_ignored) && next > registry->p.at + 1)
        next = registry->p.at + 1;
    if (can_ride(registry, watcher, next))
        watcher_ride(registry, watcher, next);
    else
        watcher_wait(registry, watcher, next);
}

enum belfry_err watcher_board(struct registry *registry, struct watcher *watcher, unsigned bus)
{
    watcher_detach(registry, watcher);
    enum belfry_err err = interest_join(registry->interest, watcher, bus);
    if (err != BELFRY_OK) {
        watcher_wait(registry, watcher, watcher->next);
        return err;
    }
    watcher->bus = (uint8_t)bus;
    registry->buses[bus].riders++;
    watcher_move(registry, watcher, WATCHER_BOARDED);
    return BELFRY_OK;
}

void watcher_stall(struct registry *registry, struct watcher *watcher, int64_t next)
{
    struct stream *stream = watcher->stream;
    watcher_detach(registry, watcher);
    watcher->next = next;
    belfry_list_append(&stream->stalled, &watcher->link);
    watcher_move(registry, watcher, WATCHER_STALLED);
    if (stream->outlet.room == 0 ||
        stream_has_messages(stream)) { /* parked, or it has messages of its own to send first */
        registry_ready(registry, stream);
    } else { /* out of memory */
        registry_await(registry, stream);
        turn_retry_later(registry->turn);
    }
}

void watcher_solo(struct registry *registry, struct watcher *watcher, int64_t rev)
{
    watcher_detach(registry, watcher);
    watcher->next = rev;
    belfry_list_append(&watcher->stream->solo, &watcher->link);
    watcher_move(registry, watcher, WATCHER_SOLO);
    registry_ready(registry, watcher->stream);
}

void watcher_lose(struct registry *registry, struct watcher *watcher, int64_t compact_rev)
{
    struct stream *stream = watcher->stream;
    watcher_detach(registry, watcher);
    if (stream->solo_now == watcher) {
        stream->solo_now = NULL;
        if (!rest_begun(stream->outlet.rest))
            stream_drop_rest(registry, stream);
    }
    watcher->next = compact_rev;
    belfry_list_append(&stream->lost, &watcher->link);
    watcher_move(registry, watcher, WATCHER_LOST);
    registry_ready(registry, stream);
}

void watcher_end(struct registry *registry, struct watcher *watcher)
{
    watcher_detach(registry, watcher);
    watcher_move(registry, watcher, WATCHER_ENDED);
}

/* The last revision that a riding stream with this serial has been given. */
static int64_t position_of(const struct position *p, uint64_t serial)
{
    return p->hand_out != 0 && serial <= p->tell_serial ? p->hand_out : p->at;
}

int64_t watcher_need(const struct registry *registry, const struct watcher *watcher)
{
    const struct stream *stream = watcher->stream;
    const struct stream_walk *walk = &stream->walk;
    switch ((enum watcher_state)watcher->state) {
    case WATCHER_BOARDED:
        return larger(watcher->next, registry->buses[watcher->bus].at);
    case WATCHER_RIDING:
        if (stream->state == STREAM_WALKING) {
            bool given = walk->mid_rev != 0 && walk->mid_any && watcher->id <= walk->mid_id;
            return larger(watcher->next, (given ? walk->mid_rev : walk->at) + 1);
        }
        return larger(
            watcher->next,
            1 + position_of(stream->past == registry->p.past ? &registry->p : &registry->before, stream->serial));
    case WATCHER_WAITING:
    case WATCHER_STALLED:
    case WATCHER_SOLO:
    case WATCHER_LOST:
    case WATCHER_ENDED:
        break;
    }
    return watcher->next;
}

bool watcher_is_over(const struct watcher *watcher)
{
    return watcher->state == WATCHER_LOST || watcher->state == WATCHER_ENDED;
}

static int watchers_by_id(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    int64_t x = belfry_container_const(a, struct watcher, by_id)->id;
    int64_t y = belfry_container_const(b, struct watcher, by_id)->id;
    return (x > y) - (x < y);
}

enum belfry_err watcher_add(struct registry *registry, struct stream *stream, int64_t id, uint8_t flags,
                            struct interest_node *node, struct watcher **out)
{
    struct watcher *watcher = calloc(1, sizeof(*watcher));
    if (watcher == NULL)
        return BELFRY_ERR_NOMEM;
    watcher->node = node;
    watcher->stream = stream;
    watcher->id = id;
    watcher->flags = flags & (uint8_t)~WATCHER_ACTIVE;
    watcher->state = WATCHER_ENDED; /* in no place yet */
    count_state(registry, stream, WATCHER_ENDED, 1);
    registry->bytes += sizeof(*watcher);
    stream->cost += watcher_cost(interest_node_cost(node));
    belfry_treap_insert(&stream->watchers, &watcher->by_id, watchers_by_id);
    stream->n_watchers++;
    if ((watcher->flags & WATCHER_PROGRESS) != 0 && stream->n_progress++ == 0)
        ticks_join(registry, stream);
    *out = watcher;
    return BELFRY_OK;
}

void watcher_forget(struct registry *registry, struct watcher *watcher)
{
    struct stream *stream = watcher->stream;
    belfry_treap_remove(&stream->watchers, &watcher->by_id, watchers_by_id);
    stream->n_watchers--;
    stream->n_behind -= is_behind(watcher->state);
    count_state(registry, stream, watcher->state, -1);
    count_riders(registry, stream, 0, watcher->state == WATCHER_RIDING);
    if ((watcher->flags & WATCHER_PROGRESS) != 0 && --stream->n_progress == 0)
        ticks_leave(registry, stream);
    stream->cost -= watcher_cost(interest_node_cost(watcher->node));
    interest_drop(registry->interest, watcher->node);
    registry->bytes -= sizeof(*watcher);
    free(watcher);
}

void registry_ride_future(struct registry *registry, int64_t upto)
{
    struct watcher *watcher;
    while ((watcher = waiting_from(&registry->waiting, registry->p.at + 1)) != NULL && watcher->next <= upto) {
        watcher_detach(registry, watcher);
        watcher_ride(registry, watcher, watcher->next);
    }
}

/* ---- the watchers of a stream ---- */

static int seek_id(const void *key, const struct belfry_treap_node *node)
{
    int64_t x = *(const int64_t *)key, y = belfry_container_const(node, struct watcher, by_id)->id;
    return (x > y) - (x < y);
}

struct watcher *stream_find(const struct stream *stream, int64_t id)
{
    struct belfry_treap_node *node = belfry_treap_find(stream->watchers, &id, seek_id);
    return node == NULL ? NULL : belfry_container(node, struct watcher, by_id);
}

void stream_seek(const struct stream *stream, int64_t id, struct belfry_treap_walk *walk)
{
    belfry_treap_walk(walk, stream->watchers, &id, seek_id);
}

struct watcher *stream_first_from(const struct stream *stream, int64_t id)
{
    struct belfry_treap_walk walk;
    stream_seek(stream, id, &walk);
    struct belfry_treap_node *node = belfry_treap_next(&walk);
    return node == NULL ? NULL : belfry_container(node, struct watcher, by_id);
}

struct watcher *stream_only_watcher(const struct stream *stream)
{
    return stream->watchers == NULL ? NULL : belfry_container(stream->watchers, struct watcher, by_id);
}

void stream_lose_gone(struct registry *registry, struct stream *stream, int64_t below, int64_t compact_rev)
{
    for (struct watcher *watcher = stream_first_from(stream, INT64_MIN); watcher != NULL;) {
        int64_t id = watcher->id;
        if (watcher->state == WATCHER_RIDING && watcher_need(registry, watcher) < below)
            watcher_lose(registry, watcher, compact_rev);
        watcher = id == INT64_MAX ? NULL : stream_first_from(stream, id + 1);
    }
}

void stream_drop_rest(struct registry *registry, struct stream *stream)
{
    output_end_rest(registry->output, &stream->outlet);
    stream->solo_rest = false;
    stream->solo_now = NULL;
}

/* ---- answers ---- */

enum belfry_err answer_add(struct registry *registry, struct stream *stream, const struct answer *like,
                           const char *reason, size_t reason_len)
{
    if (stream->outlet.lines != NULL)
        return BELFRY_OK; /* silent */
    struct answer *answer = malloc(sizeof(*answer) + reason_len + 1);
    if (answer == NULL)
        return BELFRY_ERR_NOMEM;
    *answer = *like;
    memcpy(answer->reason, reason, reason_len);
    answer->reason[reason_len] = '\0';
    belfry_list_append(&stream->answers, &answer->link);
    stream->n_answers++;
    registry->bytes += sizeof(*answer) + reason_len + 1;
    registry_ready(registry, stream);
    return BELFRY_OK;
}

void answer_remove(struct registry *registry, struct stream *stream, struct answer *answer)
{
    belfry_list_remove(&answer->link);
    stream->n_answers--;
    registry->bytes -= sizeof(*answer) + strlen(answer->reason) + 1;
    free(answer);
}

/* ---- streams ---- */

enum belfry_err registry_open(struct registry *registry, void *user, const struct lines *lines, uint64_t now_ms,
                              struct stream **out)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return BELFRY_ERR_NOMEM;
    stream->serial = ++registry->serials;
    stream->outlet.user = user;
    stream->outlet.lines = lines;
    stream->past = registry->p.past;
    stream->cut_id = INT64_MIN;
    stream->top_id = INT64_MIN;
    stream->tick_ms = next_tick_ms(registry, stream, now_ms);
    belfry_list_init(&stream->ready);
    belfry_list_init(&stream->answers);
    belfry_list_init(&stream->stalled);
    belfry_list_init(&stream->solo);
    belfry_list_init(&stream->lost);
    belfry_list_append(&registry->streams, &stream->link);
    registry->n_streams++;
    registry->bytes += sizeof(*stream);
    *out = stream;
    return BELFRY_OK;
}

void registry_move_stream(struct stream *stream, enum stream_state to)
{
    assert(stream->state != STREAM_CLOSED);
    stream->state = to;
}

void registry_close(struct registry *registry, struct stream *stream)
{
    output_drop(registry->output, &stream->outlet);
    stream_drop_rest(registry, stream);
    while (!belfry_list_empty(&stream->answers))
        answer_remove(registry, stream, belfry_container(stream->answers.next, struct answer, link));
    registry_unpark(registry, stream);
    belfry_list_remove(&stream->ready);
    belfry_list_remove(&stream->link);
    belfry_list_append(&registry->closing, &stream->link);
    registry->n_streams--;
    stream->outlet.room = 0;
    registry_move_stream(stream, STREAM_CLOSED);
}

void registry_take_down(struct registry *registry)
{
    while (!belfry_list_empty(&registry->closing)) {
        struct stream *stream = belfry_container(registry->closing.next, struct stream, link);
        while (stream->watchers != NULL) {
            if (registry->turn->work == 0)
                return;
            registry->turn->work--;
            struct watcher *watcher = stream_first_from(stream, INT64_MIN);
            watcher_detach(registry, watcher);
            watcher_forget(registry, watcher);
        }
        belfry_list_remove(&stream->link);
        registry->bytes -= sizeof(*stream);
        free(stream);
    }
}

void registry_unpark(struct registry *registry, struct stream *stream)
{
    if (!stream->parked)
        return;
    stream->parked = false;
    registry->n_parked--;
    count_riding_parked(registry, stream, -stream->n_riding);
    registry->n_unparks++;
}

void registry_ready(struct registry *registry, struct stream *stream)
{
    if (stream->state == STREAM_CLOSED)
        return;
    belfry_list_remove(&stream->ready);
    if (stream->outlet.room > 0) {
        registry_unpark(registry, stream);
        belfry_list_append(&registry->ready, &stream->ready);
    } else if (!stream->parked) {
        stream->parked = true;
        registry->n_parked++;
        if (registry->n_parked > registry->n_parked_peak)
            registry->n_parked_peak = registry->n_parked;
        count_riding_parked(registry, stream, stream->n_riding);
        registry->n_parks++;
    }
}

bool registry_has_more(const struct registry *registry, const struct stream *stream)
{
    bool progress = stream->progress_asked && stream->n_behind == 0 && !registry->stale;
    return stream_has_messages(stream) || stream->state == STREAM_WALKING || !belfry_list_empty(&stream->stalled) ||
           stream->ticking || progress || stream->line.doomed != 0;
}

void registry_ready_if_more(struct registry *registry, struct stream *stream)
{
    if (registry_has_more(registry, stream))
        registry_ready(registry, stream);
}

void registry_await(struct registry *registry, struct stream *stream)
{
    belfry_list_remove(&stream->ready);
    belfry_list_append(&registry->awaiting, &stream->ready);
}

void registry_unstall(struct registry *registry, struct stream *stream)
{
    for (size_t n = 0; n < UNSTALL_MAX && !belfry_list_empty(&stream->stalled); n++) {
        struct watcher *watcher = belfry_container(stream->stalled.next, struct watcher, link);
        watcher_detach(registry, watcher);
        watcher_place(registry, watcher, watcher->next);
    }
}
