/* src/serve/etcd/watch.c
 *
 * A stream handles its requests strictly one after another. Requests that wait for an answer about rights, and those
 * after them, are in `queue`; bytes that cannot be read yet stay in `held`. The stream continues when its obstacle is
 * gone: the answer about rights, the core's answers, or its turn.
 *
 * While auth is on, every watch has a claim (permit_hold()): made before the watch is, or, for watches that ran when
 * auth was turned on, in the round that follows. Until all of those are granted the stream is told that it has no room,
 * and so it is while its rights are in doubt: it is parked at its position.
 *
 * No turn here visits all streams (roster.h): a change of standing or of auth, or a drain, goes round in steps. The
 * core does, in the turn in which staleness ends (worker_set_stale()).
 */
#include "serve/etcd/watch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "base/pack.h"
#include "base/rng.h"
#include "base/treap.h"
#include "core/watcher.h"
#include "serve/etcd/watch_input.h"
#include "serve/rights/lanes.h"
#include "server/grpc_answer.h"
#include "server/pace.h"
#include "server/roster.h"

#define LOOK_MS       1000 /* between two visits of streams inside a message */
#define LOOK_MAX      1024 /* of them per visit */
#define WATCHERS_LOOK 40   /* watchers of a tier's stream that are read for its position: a tier has up to 33 */
#define TIERS_LOOK    8192 /* watchers that are read for all tiers: a turn must not grow with what peers open */
#define ROUND_STEP    512  /* streams that a round visits per turn */
#define REASON_MAX    160
#define CLIENT_MAX    63   /* bytes of a user-agent */
#define CLAIM_STEP    512  /* watches that ran before auth was turned on, claimed per turn */
#define CLAIM_WAIT_MS 20   /* until the next of them, while too many questions wait */
#define ASK_AGAIN_MS  1000 /* after upstream could not be asked; up to as much is added */

#define TEXT_DRAIN     "belfry: draining; connect anew"
#define TEXT_LATE      "belfry: the request was not complete in time"
#define TEXT_NO_LEADER "etcdserver: no leader"
#define TEXT_MEMORY    "belfry: memory limit reached; try again"
#define TEXT_BROKEN    "belfry: the rest of a message is gone; resume"
#define TEXT_TOKEN     "belfry: the token is not valid any more; log in again"
#define TEXT_REVOKED   "belfry: a right was revoked; resume"
#define TEXT_SHARE     "belfry: this client has as many watchers as it may; see --client-share"
#define TEXT_BYTES     "belfry: the watches of this client hold as much memory as they may; see --client-share"
#define TEXT_BAD_ID    "belfry: this watch id cannot be used"
#define TEXT_OUTSIDE   "belfry: the range is outside of what this tier follows (its scope)"

static const char plain_type[] = "application/grpc";

struct watch_service {
    struct watch_service_opts opts;
    struct worker *worker;
    struct belfry_rng rng;

    struct roster roster;      /* every stream; due: the time at which it ends */
    struct lanes hungry;       /* streams with requests to handle */
    struct belfry_list inside; /* streams in the middle of a message, the next to be visited first */
    struct belfry_list tiers;  /* streams of tiers below, n_tiers */
    size_t n_tiers;
    struct belfry_list unclaimed; /* streams with watches that need a claim */
    uint64_t claim_ms;            /* when they are visited next */
    uint64_t look_ms;             /* when `inside` is visited next */
    size_t requests_left;         /* until the next watch_after_turn() */
    struct belfry_hash_key lane_key;

    enum watch_standing standing;
    char reason[REASON_MAX];
    bool draining;
    uint64_t drain_end_ms;

    struct watch_stats stats;
    BELFRY_OWNER;
};

/* Requests of one stream that wait: creates for the answer about their rights, and what came after them. A client that
 * resumes sends all its creates at once. All of them are asked about together, which makes few questions upstream, and
 * handled in the order in which they came.
 *
 *     UNASKED --asked--> ASKED --granted--> HELD, or FREE (auth is off)        PLAIN: it needs no right
 *        ^                 | `--refused-.    `-right is lost-.
 *        `- no answer came-'             `--------------------`--> REFUSED
 */
enum watch_wait {
    WATCH_WAIT_PLAIN,
    WATCH_WAIT_UNASKED,
    WATCH_WAIT_ASKED,
    WATCH_WAIT_HELD,
    WATCH_WAIT_FREE,
    WATCH_WAIT_REFUSED
};

/* A request that waits. */
struct watch_waiting {
    struct belfry_list node;
    enum watch_wait state;     /* moved by watch_waiting_move_to() alone */
    struct watch_claim *claim; /* ASKED, HELD; otherwise NULL */
    char *reason;              /* REFUSED: owned; NULL: there was no memory for it */
    struct belfry_bytes message;
    char text[];
};

struct watch_queue {
    struct belfry_list requests;
    size_t n, bytes;
};

/* The right to one watch, found by the watch's id. It is claimed before its watch is, while the create waits;
 * or for a watch that ran when auth was turned on, and is unproven until the first answer. */
struct watch_claim {
    struct belfry_treap_node by_id; /* of watch_stream.claims, once the watch runs */
    struct watch_stream *ws;
    struct permit_question *question; /* NULL: it has been answered, with anything but HELD */
    struct watch_waiting *waiting;    /* its create, until the watch runs; otherwise NULL */
    int64_t id;                       /* once the watch runs */
    bool unproven;                    /* the watch ran before auth was turned on; no answer yet */
};
static_assert(sizeof(struct watch_claim) <= PERMIT_HOLDER, "a claim is accounted for");

/* The states are drawn in watch.h. */
enum watch_state { WATCH_OPEN, WATCH_ASKING };

struct watch_stream {
    struct watch_service *service;
    struct exchange *x;
    struct shares_conn *share; /* its connection's */
    size_t n_watchers;         /* of these, counted as SHARES_WATCHERS */
    size_t bytes;              /* of this allocation */
    size_t watch_bytes;        /* as counted as SHARES_WATCH_BYTES */
    struct stream *stream;     /* the core's */
    uint64_t opened_ms, sent_bytes;
    enum watch_state state; /* moved by watch_stream_move_to() alone */
    bool hasleader;
    bool responded; /* the head of the response was sent */
    bool half_closed;
    bool asked_once; /* a whole request was received */

    struct roster_entry roster;
    struct belfry_list hungry, inside, tiers, unclaimed; /* each in the service's list of that name, or in none */
    struct pace pace;                                    /* of the request that is being received */
    uint64_t deadline_ms, drain_ms;
    uint64_t ask_ms; /* when to ask about rights again; NEVER: no need */

    struct permit_party party;
    struct belfry_treap_node *claims; /* of watches that run */
    size_t n_unproven;                /* of these */
    bool has_free;                    /* a watch was created with auth off: it may have no claim */
    int64_t claim_id;                 /* watches up to this id have one */

    size_t told; /* bytes that the core may still write */
    struct watch_input input;
    struct watch_queue queue; /* ASKING: requests that wait */
    struct belfry_buf held;   /* received and not read */
    size_t held_bytes;        /* as counted in the service's */

    struct belfry_bytes content_type; /* this and the fields below: in `text`, or constant */
    struct identity who;
    const char *client;
    const char *tier; /* the name of the tier that opened it; "": a client did */
    char text[];
};

static struct watch_stream *stream_of(struct roster_entry *entry)
{
    return entry == NULL ? NULL : belfry_container(entry, struct watch_stream, roster);
}

static void watch_ask_for_turn(const struct watch_service *service)
{
    service->opts.work(service->opts.user);
}

static void watch_stream_move_to(struct watch_stream *ws, enum watch_state to)
{
    assert(ws->state != to);
    ws->state = to;
    if (to == WATCH_ASKING)
        ws->service->stats.asking++;
    else
        ws->service->stats.asking--;
}

/* ---- requests that wait ---- */

static struct watch_waiting *waiting_of(struct belfry_list *node)
{
    return belfry_container(node, struct watch_waiting, node);
}

static size_t waiting_bytes(const struct watch_waiting *waiting)
{
    return sizeof(*waiting) + waiting->message.len;
}

/* Copies `message`, a WatchRequest that can be scanned, to the end; `state` is PLAIN or UNASKED. Errors:
 * BELFRY_ERR_NOMEM. */
static enum belfry_err watch_queue_add(struct watch_queue *queue, struct belfry_bytes message, enum watch_wait state,
                                       struct watch_waiting **out)
{
    assert(state == WATCH_WAIT_PLAIN || state == WATCH_WAIT_UNASKED);
    struct watch_waiting *waiting = malloc(sizeof(*waiting) + message.len);
    if (waiting == NULL)
        return BELFRY_ERR_NOMEM;
    char *to = waiting->text;
    *waiting = (struct watch_waiting){.state = state};
    waiting->message = belfry_pack(&to, message);
    belfry_list_init(&waiting->node);
    belfry_list_append(&queue->requests, &waiting->node);
    queue->n++;
    queue->bytes += waiting_bytes(waiting);
    *out = waiting;
    return BELFRY_OK;
}

/* Frees it. Its claim has been ended. */
static void watch_queue_remove(struct watch_queue *queue, struct watch_waiting *waiting)
{
    assert(waiting->claim == NULL);
    belfry_list_remove(&waiting->node);
    queue->n--;
    queue->bytes -= waiting_bytes(waiting);
    free(waiting->reason);
    free(waiting);
}

static void watch_waiting_move_to(struct watch_waiting *waiting, enum watch_wait to)
{
    assert(waiting->state == (to == WATCH_WAIT_ASKED ? WATCH_WAIT_UNASKED : WATCH_WAIT_ASKED) ||
           (to == WATCH_WAIT_REFUSED && (waiting->state == WATCH_WAIT_HELD || waiting->state == WATCH_WAIT_UNASKED)));
    waiting->state = to;
}

/* Copies the reason. */
static void watch_waiting_refuse(struct watch_waiting *waiting, const char *reason)
{
    waiting->reason = strdup(reason);
    watch_waiting_move_to(waiting, WATCH_WAIT_REFUSED);
}

/* Its bytes are lent. */
static void watch_waiting_read(const struct watch_waiting *waiting, struct belfry_wire_watch_request *out)
{
    enum belfry_err err = belfry_scan_watch_request(waiting->message, out);
    assert(err == BELFRY_OK);
    belfry_ignore(err);
}

/* May one more be added? Not after a request that could not be asked about: the next one could not, either. */
static bool watch_queue_has_room(const struct watch_queue *queue)
{
    if (queue->n == 0)
        return true;
    return queue->n < WATCH_QUEUE_MAX && queue->bytes < WATCH_QUEUE_BYTES &&
           waiting_of(queue->requests.prev)->state != WATCH_WAIT_UNASKED;
}

/* The first request, if it can be handled; otherwise NULL. */
static struct watch_waiting *watch_queue_settled(const struct watch_queue *queue)
{
    if (queue->n == 0)
        return NULL;
    struct watch_waiting *first = waiting_of(queue->requests.next);
    return first->state == WATCH_WAIT_UNASKED || first->state == WATCH_WAIT_ASKED ? NULL : first;
}

/* The first request that is to be asked about; NULL: none. */
static struct watch_waiting *watch_queue_unasked(const struct watch_queue *queue)
{
    belfry_list_each (node, &queue->requests) {
        if (waiting_of(node)->state == WATCH_WAIT_UNASKED)
            return waiting_of(node);
    }
    return NULL;
}

/* ---- claims ---- */

static struct watch_claim *claim_of(struct belfry_treap_node *node)
{
    return node == NULL ? NULL : belfry_container(node, struct watch_claim, by_id);
}

static int watch_claim_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct watch_claim *x = belfry_container_const(a, struct watch_claim, by_id);
    const struct watch_claim *y = belfry_container_const(b, struct watch_claim, by_id);
    return (x->id > y->id) - (x->id < y->id);
}

static int watch_claim_seek(const void *key, const struct belfry_treap_node *node)
{
    int64_t id = *(const int64_t *)key, at = belfry_container_const(node, struct watch_claim, by_id)->id;
    return (id > at) - (id < at);
}

/* The claim of a watch that runs; NULL: none. */
static struct watch_claim *watch_stream_find_claim(const struct watch_stream *ws, int64_t id)
{
    return claim_of(belfry_treap_find(ws->claims, &id, watch_claim_seek));
}

/* The watch runs. */
static void watch_claim_join(struct watch_claim *claim, int64_t id)
{
    if (claim->waiting != NULL)
        claim->waiting->claim = NULL;
    claim->waiting = NULL;
    claim->id = id;
    belfry_treap_insert(&claim->ws->claims, &claim->by_id, watch_claim_order);
}

/* Twice is fine. */
static void watch_claim_prove(struct watch_claim *claim)
{
    claim->ws->n_unproven -= claim->unproven;
    claim->unproven = false;
}

/* The watch is gone, or has no right any more. Frees the claim. */
static void watch_claim_end(struct watch_claim *claim)
{
    if (claim->waiting == NULL)
        belfry_treap_remove(&claim->ws->claims, &claim->by_id, watch_claim_order);
    else
        claim->waiting->claim = NULL;
    watch_claim_prove(claim);
    if (claim->question != NULL)
        permit_cancel(claim->question);
    free(claim);
}

/* ---- ending ---- */

static void watch_stream_leave_inside(struct watch_stream *ws)
{
    if (belfry_list_empty(&ws->inside))
        return;
    belfry_list_remove(&ws->inside);
    ws->service->stats.inside--;
}

static void watch_stream_set_due(struct watch_stream *ws)
{
    uint64_t due_ms = belfry_min_time(ws->pace.due_ms, belfry_min_time(ws->deadline_ms, ws->drain_ms));
    roster_set_due(&ws->service->roster, &ws->roster, belfry_min_time(due_ms, ws->ask_ms));
}

/* The exchange has ended already. */
static void watch_stream_free(struct watch_stream *ws, enum watch_close why)
{
    struct watch_service *service = ws->service;
    belfry_list_each (node, &ws->queue.requests) {
        struct watch_claim *waiting = waiting_of(node)->claim;
        if (waiting != NULL)
            watch_claim_end(waiting);
    }
    for (struct watch_claim *claim; (claim = claim_of(belfry_treap_first(ws->claims))) != NULL;)
        watch_claim_end(claim);
    permit_leave(service->opts.permit, &ws->party);
    if (ws->state == WATCH_ASKING)
        watch_stream_move_to(ws, WATCH_OPEN);
    stream_close(service->worker, ws->stream);
    roster_leave(&service->roster, &ws->roster);
    belfry_list_remove(&ws->hungry);
    belfry_list_remove(&ws->tiers);
    belfry_list_remove(&ws->unclaimed);
    service->n_tiers -= ws->tier[0] != '\0';
    watch_stream_leave_inside(ws);
    service->stats.streams--;
    service->stats.held_bytes -= ws->held_bytes;
    shares_count(ws->share, SHARES_REQUESTS, ws->held_bytes, 0);
    shares_count(ws->share, SHARES_WATCHERS, ws->n_watchers, 0);
    shares_count(ws->share, SHARES_WATCH_BYTES, ws->watch_bytes, 0);
    service->stats.closed[why]++;
    watch_ask_for_turn(service); /* the core has to remove its watchers */
    while (!belfry_list_empty(&ws->queue.requests))
        watch_queue_remove(&ws->queue, waiting_of(ws->queue.requests.next));
    watch_input_fini(&ws->input);
    belfry_buf_fini(&ws->held);
    free(ws);
}

/* Sends the status and frees the stream. */
static void watch_stream_end(struct watch_stream *ws, enum watch_close why, int code, const char *text)
{
    bool of_note = why == WATCH_CLOSE_SLOW || why == WATCH_CLOSE_BROKEN;
    char identity[IDENTITY_SHOWN];
    identity_show(&ws->who, identity);
    belfry_logf(ws->service->opts.log, of_note ? BELFRY_LOG_INFO : BELFRY_LOG_DEBUG, "watch_end",
                "peer=%s identity=%s reason=%s code=%d sent=%llu", exchange_conn(ws->x)->peer, identity,
                watch_close_name(why), code, (unsigned long long)ws->sent_bytes);
    grpc_fail(ws->x, ws->responded ? GRPC_HEADERS_SENT : GRPC_HEADERS_NOT_SENT, code, text);
    watch_stream_free(ws, why);
}

/* ---- writing ---- */

void watch_write(void *stream_user, const uint8_t *data, size_t len)
{
    struct watch_stream *ws = stream_user;
    assert(len <= ws->told);
    ws->told -= len;
    ws->sent_bytes += len;
    if (!ws->responded)
        grpc_begin(ws->x, ws->content_type);
    ws->responded = true;
    exchange_write(ws->x, data, len);
    roster_note_write(&ws->service->roster, &ws->roster);
}

/* May its watches be sent anything? */
static bool watch_stream_may_deliver(const struct watch_stream *ws)
{
    const struct watch_service_opts *opts = &ws->service->opts;
    bool is_proven = !ws->has_free && ws->n_unproven == 0;
    return (is_proven || permit_regime(opts->permit, &ws->party) == PERMIT_OPEN) &&
           permit_may_deliver(opts->permit, &ws->party, opts->now(opts->user));
}

static void watch_stream_tell_room(struct watch_stream *ws)
{
    size_t room = watch_stream_may_deliver(ws) ? exchange_room(ws->x) : 0;
    if (room == ws->told)
        return;
    ws->told = room;
    stream_writable(ws->service->worker, ws->stream, room);
    watch_ask_for_turn(ws->service);
}

/* ---- requests ---- */

/* Counts the bytes kept for requests against the bound for all streams. False: it was exceeded; the stream has
 * ended. */
static bool watch_stream_count_held(struct watch_stream *ws)
{
    struct watch_stats *stats = &ws->service->stats;
    size_t bytes = ws->held.cap + watch_input_bytes(&ws->input) + ws->queue.bytes;
    bool grew = bytes > ws->held_bytes;
    stats->held_bytes = stats->held_bytes - ws->held_bytes + bytes;
    shares_count(ws->share, SHARES_REQUESTS, ws->held_bytes, bytes);
    ws->held_bytes = bytes;
    if (stats->held_bytes > stats->held_peak)
        stats->held_peak = stats->held_bytes;
    exchange_holds(ws->x, bytes + (ws->asked_once ? 0 : EXCHANGE_COST));
    if (!grew || shares_make_room(ws->share, SHARES_REQUESTS, 0))
        return true;
    watch_stream_end(ws, WATCH_CLOSE_MEMORY, 14, TEXT_MEMORY);
    return false;
}

/* Takes the core's result for a request. False: the stream has ended. */
static bool watch_stream_check(struct watch_stream *ws, enum belfry_err err)
{
    if (err == BELFRY_OK)
        return true;
    if (err == BELFRY_ERR_AGAIN) {
        watch_stream_end(ws, WATCH_CLOSE_NOT_READY, 14, "belfry: not ready: nothing is known of upstream yet");
        return false;
    }
    shares_note_refused(ws->share, SHARES_WATCH_BYTES);
    watch_stream_end(ws, WATCH_CLOSE_MEMORY, 14, TEXT_MEMORY);
    return false;
}

static uint8_t flags_of(const struct belfry_wire_watch_request *request)
{
    unsigned flags = 0;
    flags |= request->prev_kv ? WATCHER_PREV_KV : 0u;
    flags |= request->no_put ? WATCHER_NO_PUT : 0u;
    flags |= request->no_delete ? WATCHER_NO_DELETE : 0u;
    flags |= request->progress_notify ? WATCHER_PROGRESS : 0u;
    flags |= request->fragment ? WATCHER_FRAGMENT : 0u;
    return (uint8_t)flags;
}

/* A range that is not within the scope would silently lack events. The core refuses an empty one. */
static bool watch_is_followed(const struct watch_service *service, const struct belfry_wire_watch_request *request)
{
    struct range range;
    return !range_read(request->key, request->range_end, &range) || range_within(&range, service->opts.scope);
}

static void watch_stream_count_watchers(struct watch_stream *ws)
{
    size_t n = stream_watchers(ws->stream), bytes = ws->bytes + stream_bytes(ws->stream);
    shares_count(ws->share, SHARES_WATCHERS, ws->n_watchers, n);
    shares_count(ws->share, SHARES_WATCH_BYTES, ws->watch_bytes, bytes);
    ws->n_watchers = n;
    ws->watch_bytes = bytes;
}

static bool watch_stream_refuse_create(struct watch_stream *ws, uint64_t *count, const char *reason)
{
    (*count)++;
    return watch_stream_check(ws, stream_refuse(ws->service->worker, ws->stream, reason));
}

static bool watch_stream_create_watcher(struct watch_stream *ws, const struct belfry_wire_watch_request *request,
                                        struct stream_created *out)
{
    struct watch_stats *stats = &ws->service->stats;
    struct stream_create create = {.key = request->key,
                                   .range_end = request->range_end,
                                   .start_rev = request->start_revision,
                                   .watch_id = request->watch_id,
                                   .flags = flags_of(request),
                                   .out = out};
    watch_stream_count_watchers(ws);
    if (!shares_make_room(ws->share, SHARES_WATCHERS, 1))
        return watch_stream_refuse_create(ws, &stats->refused_share, TEXT_SHARE);
    if (!shares_make_room(ws->share, SHARES_WATCH_BYTES, stream_create_bytes(&create)))
        return watch_stream_refuse_create(ws, &stats->refused_share, TEXT_BYTES);
    if (!watch_is_followed(ws->service, request))
        return watch_stream_refuse_create(ws, &stats->refused_scope, TEXT_OUTSIDE);
    *exchange_watched_past(ws->x) = worker_past(ws->service->worker);
    enum belfry_err err = stream_create(ws->service->worker, ws->stream, &create);
    watch_stream_count_watchers(ws);
    return watch_stream_check(ws, err);
}

/* Clients retry when upstream has no leader. But with etcd's own text a Go client would end its watches for good: it
 * takes that for the answer to hasleader. */
static void watch_stream_end_unavailable(struct watch_stream *ws, const char *reason)
{
    bool fatal = !ws->hasleader && strcmp(reason, TEXT_NO_LEADER) == 0;
    watch_stream_end(ws, WATCH_CLOSE_UPSTREAM, 14, fatal ? "belfry: upstream has no leader" : reason);
}

/* ---- rights ---- */

static void watch_stream_ask_later(struct watch_stream *ws)
{
    struct watch_service *service = ws->service;
    uint64_t now_ms = service->opts.now(service->opts.user);
    ws->ask_ms = now_ms + ASK_AGAIN_MS + belfry_rng_below(&service->rng, ASK_AGAIN_MS);
    watch_stream_set_due(ws);
}

/* A stream with watches that run does not end because upstream cannot be asked about one more. */
static void watch_stream_wait_for_upstream(struct watch_stream *ws, const struct watch_waiting *waiting,
                                           const char *reason)
{
    struct watcher_view view;
    bool is_first = ws->queue.requests.next == &waiting->node;
    if (!is_first || stream_watcher(ws->service->worker, ws->stream, INT64_MIN, &view))
        watch_stream_ask_later(ws);
    else
        watch_stream_end_unavailable(ws, reason);
}

static void watch_stream_wait_for_turn(struct watch_stream *ws)
{
    struct watch_service *service = ws->service;
    struct lanes_source source = {exchange_conn(ws->x)->id, shares_source(ws->share)};
    if (belfry_list_empty(&ws->hungry))
        lanes_wait(&service->hungry, lanes_of(&service->hungry, service->lane_key, source), &ws->hungry);
    watch_ask_for_turn(service);
}

/* The lane whose turn it is; NULL: no stream waits. No place is held longer than a call, so that all are free. */
static struct lane *watch_next_lane(const struct watch_service *service)
{
    return lanes_next(&service->hungry, SIZE_MAX);
}

/* The verdict on a watch that is asked for, or a later one before it was made. It is made in its turn, because one
 * answer is for many. */
static void watch_claim_take_first_verdict(struct watch_claim *claim, enum permit_verdict verdict, const char *reason)
{
    struct watch_stream *ws = claim->ws;
    struct watch_waiting *waiting = claim->waiting;
    if (verdict != PERMIT_HELD)
        watch_claim_end(claim);
    switch (verdict) {
    case PERMIT_HELD:
        ws->who.accepted = true;
        watch_waiting_move_to(waiting, WATCH_WAIT_HELD);
        break;
    case PERMIT_GRANTED:
        watch_waiting_move_to(waiting, WATCH_WAIT_FREE);
        break;
    case PERMIT_REFUSED:
        watch_waiting_refuse(waiting, reason);
        break;
    case PERMIT_UNAVAILABLE:
        watch_waiting_move_to(waiting, WATCH_WAIT_UNASKED);
        watch_stream_wait_for_upstream(ws, waiting, reason);
        return;
    }
    if (watch_queue_settled(&ws->queue) == waiting)
        watch_stream_wait_for_turn(ws);
}

/* A watch that runs has lost its right. The rest of a message that was begun must not go out: then the stream ends, and
 * its client, who resumes the others, learns it there. */
static void watch_claim_expel(struct watch_claim *claim, const char *reason)
{
    struct watch_stream *ws = claim->ws;
    size_t bytes;
    ws->service->stats.expelled++;
    if (stream_inside_since(ws->stream, &bytes) != 0) {
        watch_stream_end(ws, WATCH_CLOSE_RIGHTS, 14, TEXT_REVOKED);
        return;
    }
    int64_t id = claim->id;
    watch_claim_end(claim);
    if (!watch_stream_check(ws, stream_expel(ws->service->worker, ws->stream, id, reason)))
        return;
    watch_stream_count_watchers(ws);
    watch_stream_tell_room(ws);
    watch_ask_for_turn(ws->service);
}

/* The verdict on a watch that runs: the first, if it ran before auth was turned on, or a later one. */
static void watch_claim_take_verdict(struct watch_claim *claim, enum permit_verdict verdict, const char *reason)
{
    struct watch_stream *ws = claim->ws;
    switch (verdict) {
    case PERMIT_HELD:
        watch_claim_prove(claim);
        ws->who.accepted = true;
        watch_stream_tell_room(ws);
        break;
    case PERMIT_REFUSED:
        if (permit_is_about_token(reason))
            watch_stream_end(ws, WATCH_CLOSE_RIGHTS, 14, TEXT_TOKEN);
        else
            watch_claim_expel(claim, reason);
        break;
    case PERMIT_GRANTED: /* auth is off again */
    case PERMIT_UNAVAILABLE:
        ws->has_free = true;
        watch_claim_end(claim);
        watch_stream_ask_later(ws);
        watch_stream_tell_room(ws);
        break;
    }
}

static void on_watch_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct watch_claim *claim = user;
    if (verdict != PERMIT_HELD)
        claim->question = NULL;
    if (claim->waiting != NULL)
        watch_claim_take_first_verdict(claim, verdict, reason);
    else
        watch_claim_take_verdict(claim, verdict, reason);
}

static void on_watch_party(struct permit_party *party, enum permit_event event, const char *reason)
{
    struct watch_stream *ws = belfry_container(party, struct watch_stream, party);
    (void)reason;
    if (event == PERMIT_ENDED)
        watch_stream_end(ws, WATCH_CLOSE_RIGHTS, 14, TEXT_TOKEN);
    else
        watch_stream_tell_room(ws);
}

/* Claims the range. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT, BELFRY_ERR_REFUSED: those of permit_hold(). */
static enum belfry_err watch_stream_claim(struct watch_stream *ws, struct belfry_bytes key,
                                          struct belfry_bytes range_end, struct watch_claim **out)
{
    const struct watch_service_opts *opts = &ws->service->opts;
    struct watch_claim *claim = calloc(1, sizeof(*claim));
    if (claim == NULL)
        return BELFRY_ERR_NOMEM;
    claim->ws = ws;
    enum belfry_err err = permit_hold(opts->permit, &ws->party, key, range_end, opts->now(opts->user), on_watch_verdict,
                                      claim, &claim->question);
    if (err == BELFRY_OK)
        *out = claim;
    else
        free(claim);
    return err;
}

/* Asks for the right of a create that waits, or refuses it if its client may hold no more. Errors: as above. */
static enum belfry_err watch_stream_ask_right(struct watch_stream *ws, struct watch_waiting *waiting,
                                              const struct belfry_wire_watch_request *request)
{
    enum belfry_err err = watch_stream_claim(ws, request->key, request->range_end, &waiting->claim);
    if (err == BELFRY_ERR_REFUSED) {
        watch_waiting_refuse(waiting, TEXT_BYTES);
        if (watch_queue_settled(&ws->queue) == waiting)
            watch_stream_wait_for_turn(ws);
        return BELFRY_OK;
    }
    if (err != BELFRY_OK)
        return err;
    waiting->claim->waiting = waiting;
    watch_waiting_move_to(waiting, WATCH_WAIT_ASKED);
    return BELFRY_OK;
}

/* Claims what a watch that runs already watches. It must not receive anything before the first answer. Errors: as
 * above. */
static enum belfry_err watch_stream_claim_view(struct watch_stream *ws, const struct watcher_view *view)
{
    struct belfry_bytes open = belfry_bytes_of("", 1); /* "\0": no upper bound */
    struct belfry_bytes range_end = {0};
    struct belfry_buf prefix_end;
    struct watch_claim *claim;
    enum belfry_err err = BELFRY_OK;
    belfry_buf_init(&prefix_end);
    if (view->range.kind == RANGE_PREFIX)
        err = range_prefix_end(view->range.key, &prefix_end);
    if (view->range.kind == RANGE_PREFIX)
        range_end = belfry_buf_len(&prefix_end) > 0 ? belfry_buf_bytes(&prefix_end) : open;
    if (view->range.kind == RANGE_SPAN)
        range_end = view->range.end.len > 0 ? view->range.end : open;
    if (err == BELFRY_OK)
        err = watch_stream_claim(ws, view->range.key, range_end, &claim);
    belfry_buf_fini(&prefix_end);
    if (err != BELFRY_OK)
        return err;
    claim->unproven = true;
    ws->n_unproven++;
    watch_claim_join(claim, view->id);
    return BELFRY_OK;
}

/* Claims the watches that ran when auth was turned on, up to *left of them. */
static void watch_stream_claim_free(struct watch_stream *ws, size_t *left)
{
    struct watch_service *service = ws->service;
    struct watcher_view view;
    for (; stream_watcher(service->worker, ws->stream, ws->claim_id, &view); ws->claim_id = view.id) {
        if (*left == 0)
            return;
        --*left;
        if (view.ended || watch_stream_find_claim(ws, view.id) != NULL)
            continue;
        enum belfry_err err = watch_stream_claim_view(ws, &view);
        if (err == BELFRY_ERR_LIMIT) { /* very many wait: when some are answered, these go on */
            *left = 0;
            service->claim_ms = service->opts.now(service->opts.user) + CLAIM_WAIT_MS;
            return;
        }
        if (err != BELFRY_OK) {
            watch_stream_end(ws, WATCH_CLOSE_MEMORY, 14, TEXT_MEMORY);
            return;
        }
    }
    belfry_list_remove(&ws->unclaimed);
    ws->has_free = false;
    watch_stream_tell_room(ws);
}

/* Does what the regime of upstream's auth asks for. */
static void watch_stream_apply_regime(struct watch_stream *ws)
{
    if (permit_regime(ws->service->opts.permit, &ws->party) == PERMIT_ASKS && ws->has_free) {
        ws->claim_id = INT64_MIN;
        if (belfry_list_empty(&ws->unclaimed))
            belfry_list_append(&ws->service->unclaimed, &ws->unclaimed);
        watch_ask_for_turn(ws->service);
    }
    watch_stream_tell_room(ws);
}

/* Upstream could not be asked before. */
static void watch_stream_ask_again(struct watch_stream *ws)
{
    struct belfry_wire_watch_request request;
    ws->ask_ms = BELFRY_NEVER;
    watch_stream_set_due(ws);
    watch_stream_apply_regime(ws);
    for (struct watch_waiting *waiting; (waiting = watch_queue_unasked(&ws->queue)) != NULL;) {
        watch_waiting_read(waiting, &request);
        if (watch_stream_ask_right(ws, waiting, &request) != BELFRY_OK) {
            watch_stream_ask_later(ws);
            return;
        }
    }
}

/* ---- requests, in order ---- */

/* A negative start is refused before rights are checked; the core's other checks come after them, as in etcd. */
static bool watch_needs_right(const struct belfry_wire_watch_request *request)
{
    return request->kind == BELFRY_WATCH_CREATE && request->watch_id != INT64_MIN && request->start_revision >= 0;
}

/* Handles a request whose right is not in question. False: the stream has ended. */
static bool watch_stream_on_request(struct watch_stream *ws, const struct belfry_wire_watch_request *request)
{
    struct watch_service *service = ws->service;
    switch (request->kind) {
    case BELFRY_WATCH_NOTHING:
        break;
    case BELFRY_WATCH_CREATE: {
        if (request->watch_id == INT64_MIN) /* watch_stream_claim_free() begins above it */
            return watch_stream_refuse_create(ws, &service->stats.refused_id, TEXT_BAD_ID);
        bool is_free = watch_needs_right(request); /* auth is off, or was when this was decided */
        ws->has_free = ws->has_free || is_free;
        if (!watch_stream_create_watcher(ws, request, NULL))
            return false;
        if (is_free && permit_regime(service->opts.permit, &ws->party) == PERMIT_ASKS)
            watch_stream_apply_regime(ws);
        break;
    }
    case BELFRY_WATCH_CANCEL: {
        struct watch_claim *claim = watch_stream_find_claim(ws, request->watch_id);
        if (claim != NULL)
            watch_claim_end(claim);
        enum belfry_err err = stream_cancel(service->worker, ws->stream, request->watch_id);
        watch_stream_count_watchers(ws);
        return watch_stream_check(ws, err);
    }
    case BELFRY_WATCH_PROGRESS:
        stream_progress(service->worker, ws->stream);
        break;
    }
    return true;
}

/* The request waits, for its right or for those before it. False: the stream has ended. */
static bool watch_stream_queue(struct watch_stream *ws, const struct belfry_wire_watch_request *request,
                               struct belfry_bytes raw)
{
    struct watch_waiting *waiting;
    bool is_first = ws->queue.n == 0, asks = watch_needs_right(request);
    if (watch_queue_add(&ws->queue, raw, asks ? WATCH_WAIT_UNASKED : WATCH_WAIT_PLAIN, &waiting) != BELFRY_OK)
        return watch_stream_check(ws, BELFRY_ERR_LIMIT);
    if (ws->state == WATCH_OPEN)
        watch_stream_move_to(ws, WATCH_ASKING);
    enum belfry_err err = asks ? watch_stream_ask_right(ws, waiting, request) : BELFRY_OK;
    if (err == BELFRY_ERR_LIMIT && !is_first)
        watch_stream_ask_later(ws); /* very many wait */
    else if (err != BELFRY_OK)
        return watch_stream_check(ws, BELFRY_ERR_LIMIT);
    return true;
}

/* Takes a request that was received. False: the stream has ended. */
static bool watch_stream_take_request(struct watch_stream *ws, const struct belfry_wire_watch_request *request,
                                      struct belfry_bytes raw)
{
    const struct watch_service_opts *opts = &ws->service->opts;
    struct watch_stats *stats = &ws->service->stats;
    stats->requests++;
    stats->creates += request->kind == BELFRY_WATCH_CREATE;
    stats->cancels += request->kind == BELFRY_WATCH_CANCEL;
    stats->progress += request->kind == BELFRY_WATCH_PROGRESS;
    bool waits = ws->state == WATCH_ASKING ||
                 (watch_needs_right(request) && !permit_is_open_to(opts->permit, &ws->who, opts->now(opts->user)));
    return waits ? watch_stream_queue(ws, request, raw) : watch_stream_on_request(ws, request);
}

/* Handles a request that has waited. False: the stream has ended. */
static bool watch_stream_on_waiting(struct watch_stream *ws, const struct watch_waiting *waiting)
{
    struct belfry_wire_watch_request request;
    struct stream_created created = {0};
    watch_waiting_read(waiting, &request);
    switch (waiting->state) {
    case WATCH_WAIT_UNASKED:
    case WATCH_WAIT_ASKED:
        break; /* not settled */
    case WATCH_WAIT_PLAIN:
    case WATCH_WAIT_FREE:
        return watch_stream_on_request(ws, &request);
    case WATCH_WAIT_HELD:
        if (!watch_stream_create_watcher(ws, &request, &created))
            return false;
        if (created.is_there)
            watch_claim_join(waiting->claim, created.id);
        else
            watch_claim_end(waiting->claim);
        break;
    case WATCH_WAIT_REFUSED:
        return watch_stream_refuse_create(ws, &ws->service->stats.refused,
                                          waiting->reason != NULL ? waiting->reason : PERMIT_DENIED);
    }
    return true;
}

/* Handles requests that have waited, as far as it may. False: the stream has ended. */
static bool watch_stream_catch_up(struct watch_stream *ws)
{
    struct watch_service *service = ws->service;
    for (struct watch_waiting *first; (first = watch_queue_settled(&ws->queue)) != NULL;) {
        if (!stream_wants_requests(ws->stream))
            return true;
        if (service->requests_left == 0) {
            watch_stream_wait_for_turn(ws);
            return true;
        }
        service->requests_left--;
        watch_ask_for_turn(service);
        if (!watch_stream_on_waiting(ws, first))
            return false;
        watch_queue_remove(&ws->queue, first);
    }
    if (ws->state == WATCH_ASKING && ws->queue.n == 0)
        watch_stream_move_to(ws, WATCH_OPEN);
    return true;
}

static bool watch_stream_may_handle(const struct watch_stream *ws)
{
    return stream_wants_requests(ws->stream) && watch_queue_has_room(&ws->queue);
}

/* Has it requests that it may handle now? */
static bool watch_stream_is_hungry(const struct watch_stream *ws)
{
    return (belfry_buf_len(&ws->held) > 0 && watch_stream_may_handle(ws)) ||
           (watch_queue_settled(&ws->queue) != NULL && stream_wants_requests(ws->stream));
}

/* Handles requests at the front of *in, as far as it may. False: the stream has ended. */
static bool watch_stream_handle(struct watch_stream *ws, struct belfry_bytes *in)
{
    struct watch_service *service = ws->service;
    struct belfry_wire_watch_request request;
    struct belfry_bytes raw;
    struct watch_fault fault;
    size_t came = in->len, n = 0;
    while (in->len > 0 && watch_stream_may_handle(ws)) {
        if (n >= WATCH_QUANTUM || service->requests_left == 0) {
            watch_stream_wait_for_turn(ws);
            break;
        }
        enum belfry_err err = watch_input_next(&ws->input, in, &request, &raw, &fault);
        if (err == BELFRY_ERR_AGAIN)
            break;
        if (err != BELFRY_OK) {
            bool memory = err == BELFRY_ERR_NOMEM;
            watch_stream_end(ws, memory ? WATCH_CLOSE_MEMORY : WATCH_CLOSE_BAD_REQUEST, fault.code, fault.text);
            return false;
        }
        size_t cost = 1 + ws->input.unpacked / WATCH_UNPACK_BYTES; /* in requests, of what this turn has left */
        service->requests_left -= cost < service->requests_left ? cost : service->requests_left;
        n += cost;
        ws->asked_once = true;
        if (!watch_stream_take_request(ws, &request, raw))
            return false;
    }
    exchange_taken(ws->x, came - in->len);
    if (n > 0)
        watch_ask_for_turn(ws->service);
    return true;
}

/* `n` more bytes were received. The rest of a request is expected in time, unless its bytes wait for their turn
 * here. */
static void watch_stream_set_pace(struct watch_stream *ws, size_t n)
{
    const struct watch_service_opts *opts = &ws->service->opts;
    uint64_t was_due_ms = ws->pace.due_ms;
    if (belfry_buf_len(&ws->held) == 0 && watch_input_inside(&ws->input))
        pace_wait(&ws->pace, n, opts->now(opts->user), opts->message_ms);
    else
        pace_init(&ws->pace);
    if (ws->pace.due_ms != was_due_ms)
        watch_stream_set_due(ws);
}

/* After requests were handled and `n` more bytes received. The stream may have ended when this returns. */
static void watch_stream_after_requests(struct watch_stream *ws, size_t n)
{
    watch_stream_set_pace(ws, n);
    if (belfry_buf_len(&ws->held) == 0) {
        belfry_buf_fini(&ws->held);
        if (ws->half_closed && watch_input_inside(&ws->input)) {
            watch_stream_end(ws, WATCH_CLOSE_BAD_REQUEST, 13, "unexpected EOF");
            return;
        }
    }
    (void)watch_stream_count_held(ws);
}

/* Handles requests that waited, and more of those in `held`, up to a quantum. */
static void watch_stream_serve(struct watch_stream *ws)
{
    if (!watch_stream_catch_up(ws))
        return;
    struct belfry_bytes in = belfry_buf_bytes(&ws->held);
    size_t came = in.len;
    if (!watch_stream_handle(ws, &in))
        return;
    belfry_buf_take(&ws->held, came - in.len);
    watch_stream_after_requests(ws, 0);
}

/* ---- events ---- */

/* The core wrote to it in this turn. */
static void watch_stream_written(struct watch_stream *ws)
{
    size_t bytes;
    if (stream_broken(ws->stream)) {
        watch_stream_end(ws, WATCH_CLOSE_BROKEN, 14, TEXT_BROKEN);
        return;
    }
    if (stream_inside_since(ws->stream, &bytes) == 0) {
        watch_stream_leave_inside(ws);
    } else if (belfry_list_empty(&ws->inside)) {
        belfry_list_append(&ws->service->inside, &ws->inside);
        ws->service->stats.inside++;
    }
    if (ws->told < EXCHANGE_ROOM_LOW)
        watch_stream_tell_room(ws);
    if (watch_stream_is_hungry(ws))
        watch_stream_wait_for_turn(ws);
}

static void on_watch_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct watch_stream *ws = user;
    size_t came = bytes.len;
    (void)x;
    if (belfry_buf_len(&ws->held) == 0 && !watch_stream_handle(ws, &bytes))
        return;
    if (bytes.len > 0 && belfry_buf_append(&ws->held, bytes.data, bytes.len) != BELFRY_OK)
        watch_stream_end(ws, WATCH_CLOSE_MEMORY, 14, TEXT_MEMORY);
    else
        watch_stream_after_requests(ws, came);
}

/* Half-closing does not end the stream: events go on. */
static void on_watch_body_end(struct exchange *x, void *user)
{
    struct watch_stream *ws = user;
    (void)x;
    ws->half_closed = true;
    watch_stream_after_requests(ws, 0);
}

static void on_watch_writable(struct exchange *x, void *user)
{
    (void)x;
    watch_stream_tell_room(user);
}

static void on_watch_gone(struct exchange *x, void *user)
{
    (void)x;
    watch_stream_free(user, WATCH_CLOSE_PEER);
}

static const struct exchange_events watch_stream_events = {
    .body = on_watch_body, .body_end = on_watch_body_end, .writable = on_watch_writable, .gone = on_watch_gone};

/* ---- opening a stream ---- */

/* Allocates a stream with the fields of the head that it keeps. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_REFUSED (what its
 * client's watches may hold is used up). */
static enum belfry_err watch_stream_make(const struct exchange *x, const struct exchange_head *head,
                                         struct watch_stream **out)
{
    struct identity who = identity_read(x, head, IDENTITY_OF_GRPC);
    struct belfry_bytes type = exchange_field(head, "content-type"), agent = exchange_field(head, "user-agent");
    struct belfry_bytes tier = exchange_field(head, VIA_FIELD); /* one name, because a Watch is never relayed */
    bool plain = belfry_bytes_equal(type, belfry_bytes_str(plain_type));
    tier.len = tier.len < VIA_WORD_BYTES ? tier.len : VIA_WORD_BYTES;
    agent.len = agent.len < CLIENT_MAX ? agent.len : CLIENT_MAX;
    size_t bytes = sizeof(struct watch_stream) + who.text.len + agent.len + tier.len + (plain ? 0 : type.len) + 2;
    if (!shares_make_room(exchange_share(x), SHARES_WATCH_BYTES, bytes + STREAM_BYTES))
        return BELFRY_ERR_REFUSED;
    struct watch_stream *ws = calloc(1, bytes);
    if (ws == NULL)
        return BELFRY_ERR_NOMEM;
    char *to = ws->text;
    ws->bytes = bytes;
    ws->who = identity_pack(&to, &who);
    ws->content_type = plain ? belfry_bytes_str(plain_type) : belfry_pack(&to, type);
    ws->client = agent.data == NULL ? "" : belfry_pack(&to, agent).data;
    to++; /* a zero, as calloc() left it */
    ws->tier = tier.data == NULL ? "" : belfry_pack(&to, tier).data;
    ws->hasleader = belfry_bytes_equal(exchange_field(head, "hasleader"), belfry_bytes_str("true"));
    *out = ws;
    return BELFRY_OK;
}

/* Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT, BELFRY_ERR_REFUSED: the exchange has no handler. */
static enum belfry_err watch_stream_open(struct watch_service *service, struct exchange *x,
                                         const struct exchange_head *head, enum watch_coding coding, uint64_t now_ms,
                                         uint64_t deadline_ms)
{
    struct watch_stream *ws;
    enum belfry_err err = watch_stream_make(x, head, &ws);
    if (err != BELFRY_OK)
        return err;
    err = stream_open(service->worker, ws, now_ms, &ws->stream);
    if (err != BELFRY_OK) {
        shares_note_refused(exchange_share(x), SHARES_WATCH_BYTES);
        free(ws);
        return err;
    }
    ws->service = service;
    ws->x = x;
    ws->share = exchange_share(x);
    watch_stream_count_watchers(ws);
    stream_set_client(ws->stream, shares_source(ws->share));
    ws->opened_ms = now_ms;
    ws->drain_ms = ws->ask_ms = BELFRY_NEVER;
    pace_init(&ws->pace);
    ws->deadline_ms = deadline_ms;
    watch_input_init(&ws->input, coding);
    belfry_list_init(&ws->queue.requests);
    belfry_buf_init(&ws->held);
    belfry_list_init(&ws->hungry);
    belfry_list_init(&ws->inside);
    belfry_list_init(&ws->tiers);
    belfry_list_init(&ws->unclaimed);
    if (ws->tier[0] != '\0') {
        belfry_list_append(&service->tiers, &ws->tiers);
        service->n_tiers++;
    }
    roster_join(&service->roster, &ws->roster);
    watch_stream_set_due(ws);
    service->stats.streams++;
    permit_join(service->opts.permit, &ws->party, &ws->who, on_watch_party);
    exchange_handle(x, &watch_stream_events, ws);
    watch_stream_tell_room(ws);
    return BELFRY_OK;
}

/* ---- a request for a stream ---- */

static void watch_refuse(struct watch_service *service, struct exchange *x, enum watch_close why, int code,
                         const char *text)
{
    service->stats.closed[why]++;
    grpc_fail(x, GRPC_HEADERS_NOT_SENT, code, text);
}

static void watch_refuse_not_ready(struct watch_service *service, struct exchange *x, const char *reason)
{
    char text[REASON_MAX + 32];
    snprintf(text, sizeof(text), "belfry: not ready: %s", reason);
    watch_refuse(service, x, WATCH_CLOSE_NOT_READY, 14, text);
}

/* True: the tier cannot serve it now. */
static bool watch_refuse_by_standing(struct watch_service *service, struct exchange *x,
                                     const struct exchange_head *head)
{
    bool hasleader = belfry_bytes_equal(exchange_field(head, "hasleader"), belfry_bytes_str("true"));
    if (service->draining && exchange_conn(x)->leaving)
        watch_refuse(service, x, WATCH_CLOSE_DRAIN, 14, TEXT_DRAIN);
    else if (service->standing == WATCH_STALE && hasleader)
        watch_refuse(service, x, WATCH_CLOSE_NO_LEADER, 14, TEXT_NO_LEADER);
    else if (service->standing != WATCH_READY)
        watch_refuse_not_ready(service, x, service->reason);
    else if (worker_position(service->worker) == 0)
        watch_refuse_not_ready(service, x, "nothing is known of upstream yet");
    else
        return false;
    return true;
}

/* True: the encoding of its messages is unknown. */
static bool watch_refuse_by_coding(struct watch_service *service, struct exchange *x, const struct exchange_head *head,
                                   enum watch_coding *out)
{
    struct belfry_bytes name = exchange_field(head, "grpc-encoding");
    char text[128];
    *out = belfry_bytes_equal(name, belfry_bytes_str("gzip")) ? WATCH_CODING_GZIP : WATCH_CODING_NONE;
    if (*out == WATCH_CODING_GZIP || name.len == 0 || belfry_bytes_equal(name, belfry_bytes_str("identity")))
        return false;
    snprintf(text, sizeof(text), "grpc: Decompressor is not installed for grpc-encoding \"%.*s\"",
             (int)(name.len < 32 ? name.len : 32), name.data);
    watch_refuse(service, x, WATCH_CLOSE_BAD_REQUEST, 12, text);
    return true;
}

void watch_begin(struct watch_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(service);
    uint64_t timeout_ms;
    enum watch_coding coding;
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    service->stats.opened++;
    if (watch_refuse_by_coding(service, x, head, &coding) || watch_refuse_by_standing(service, x, head))
        return;
    uint64_t deadline_ms = timeout_ms < BELFRY_NEVER - now_ms ? now_ms + timeout_ms : BELFRY_NEVER;
    enum belfry_err err = watch_stream_open(service, x, head, coding, now_ms, deadline_ms);
    if (err != BELFRY_OK)
        watch_refuse(service, x, WATCH_CLOSE_MEMORY, 14, err == BELFRY_ERR_REFUSED ? TEXT_BYTES : TEXT_MEMORY);
}

/* ---- turns ---- */

static void watch_end_due(struct watch_service *service, uint64_t now_ms)
{
    struct watch_stream *ws;
    for (size_t n = 0; n < WATCH_TURN_ENDS && (ws = stream_of(roster_first_due(&service->roster))) != NULL; n++) {
        if (ws->roster.due_ms > now_ms)
            return;
        if (ws->deadline_ms <= now_ms)
            watch_stream_end(ws, WATCH_CLOSE_DEADLINE, 4, "context deadline exceeded");
        else if (ws->drain_ms <= now_ms)
            watch_stream_end(ws, WATCH_CLOSE_DRAIN, 14, TEXT_DRAIN);
        else if (ws->pace.due_ms <= now_ms)
            watch_stream_end(ws, WATCH_CLOSE_LATE, 14, TEXT_LATE);
        else
            watch_stream_ask_again(ws);
    }
}

static bool watch_is_over_memory(const struct watch_service *service)
{
    struct worker_stats stats;
    if (service->opts.memory_max == 0)
        return false;
    worker_stats(service->worker, &stats);
    return stats.bytes > service->opts.memory_max;
}

/* Only a stream inside a message can be broken, or hold memory that no other stream can use. True: it was ended. */
static bool watch_stream_end_if_stuck(struct watch_stream *ws, uint64_t now_ms, bool over)
{
    size_t bytes;
    uint64_t since_ms = stream_inside_since(ws->stream, &bytes);
    if (stream_broken(ws->stream))
        watch_stream_end(ws, WATCH_CLOSE_BROKEN, 14, TEXT_BROKEN);
    else if (over && since_ms != 0 && now_ms >= since_ms + ws->service->opts.unread_ms)
        watch_stream_end(ws, WATCH_CLOSE_SLOW, 14, "belfry: too slow while memory is over the limit; resume");
    else
        return false;
    return true;
}

static void watch_look_inside(struct watch_service *service, uint64_t now_ms)
{
    if (belfry_list_empty(&service->inside) || now_ms < service->look_ms)
        return;
    service->look_ms = now_ms + LOOK_MS;
    bool over = watch_is_over_memory(service);
    size_t n = service->stats.inside < LOOK_MAX ? service->stats.inside : LOOK_MAX;
    for (; n > 0; n--) {
        struct belfry_list *node = belfry_list_pop(&service->inside);
        belfry_list_append(&service->inside, node);
        if (watch_stream_end_if_stuck(belfry_container(node, struct watch_stream, inside), now_ms, over))
            over = watch_is_over_memory(service);
    }
}

static void watch_stream_apply_change(struct watch_service *service, struct watch_stream *ws, uint64_t now_ms)
{
    if (service->standing == WATCH_STALE && ws->hasleader) {
        watch_stream_end(ws, WATCH_CLOSE_NO_LEADER, 14, TEXT_NO_LEADER);
        return;
    }
    if (service->draining && exchange_conn(ws->x)->leaving && ws->drain_ms > service->drain_end_ms) {
        uint64_t left = service->drain_end_ms > now_ms ? service->drain_end_ms - now_ms : 0;
        ws->drain_ms = now_ms + belfry_rng_below(&service->rng, left + 1);
        watch_stream_set_due(ws);
    }
    watch_stream_apply_regime(ws);
}

void watch_after_turn(struct watch_service *service, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(service);
    service->requests_left = WATCH_TURN_REQUESTS;
    for (struct watch_stream *ws; (ws = stream_of(roster_pop_written(&service->roster))) != NULL;)
        watch_stream_written(ws);

    /* requests; a stream with more than a quantum waits again, behind the other streams of its connection */
    for (struct lane *lane; service->requests_left > 0 && (lane = watch_next_lane(service)) != NULL;)
        watch_stream_serve(belfry_container(lanes_take(&service->hungry, lane), struct watch_stream, hungry));

    /* what has changed for all streams, in steps */
    struct watch_stream *next;
    for (size_t n = 0; n < ROUND_STEP && (next = stream_of(roster_next_in_round(&service->roster))) != NULL; n++)
        watch_stream_apply_change(service, next, now_ms);

    /* watches that ran before auth was turned on */
    size_t left = CLAIM_STEP;
    while (left > 0 && now_ms >= service->claim_ms && !belfry_list_empty(&service->unclaimed))
        watch_stream_claim_free(belfry_container(service->unclaimed.next, struct watch_stream, unclaimed), &left);
    watch_end_due(service, now_ms);
    watch_look_inside(service, now_ms);
}

uint64_t watch_due(const struct watch_service *service)
{
    uint64_t due_ms = watch_next_lane(service) == NULL ? roster_due(&service->roster) : 0;
    if (!belfry_list_empty(&service->unclaimed))
        due_ms = belfry_min_time(due_ms, service->claim_ms);
    return belfry_list_empty(&service->inside) ? due_ms : belfry_min_time(due_ms, service->look_ms);
}

bool watch_is_going_round(const struct watch_service *service)
{
    return service->roster.rounding;
}

/* ---- standing and drain ---- */

static void watch_begin_round(struct watch_service *service)
{
    roster_begin_round(&service->roster);
    watch_ask_for_turn(service);
}

void watch_stand(struct watch_service *service, enum watch_standing standing, const char *reason)
{
    BELFRY_OWNER_CHECK(service);
    bool became_stale = standing == WATCH_STALE && service->standing != WATCH_STALE;
    service->standing = standing;
    snprintf(service->reason, sizeof(service->reason), "%s", reason);
    if (became_stale)
        watch_begin_round(service);
}

void watch_drain(struct watch_service *service, uint64_t now_ms, uint64_t drain_ms)
{
    BELFRY_OWNER_CHECK(service);
    service->draining = true;
    service->drain_end_ms = now_ms + drain_ms;
    watch_begin_round(service);
}

static void on_watch_regime(void *user)
{
    watch_begin_round(user);
}

/* ---- create and destroy ---- */

void watch_set_times(struct watch_service *service, uint64_t message_ms, uint64_t unread_ms)
{
    service->opts.message_ms = message_ms != 0 ? message_ms : PACE_MS;
    service->opts.unread_ms = unread_ms != 0 ? unread_ms : WATCH_INSIDE_MS;
}

enum belfry_err watch_create(const struct watch_service_opts *opts, struct watch_service **out)
{
    struct watch_service *service = calloc(1, sizeof(*service));
    if (service == NULL)
        return BELFRY_ERR_NOMEM;
    service->opts = *opts;
    watch_set_times(service, opts->message_ms, opts->unread_ms);
    service->rng.state = opts->seed;
    service->requests_left = WATCH_TURN_REQUESTS;
    roster_init(&service->roster);
    lanes_init(&service->hungry, 1);
    service->lane_key = (struct belfry_hash_key){belfry_rng_next(&service->rng), belfry_rng_next(&service->rng)};
    belfry_list_init(&service->inside);
    belfry_list_init(&service->tiers);
    belfry_list_init(&service->unclaimed);
    watch_stand(service, WATCH_NOT_READY, "starting");
    permit_listen(opts->permit, on_watch_regime, service);
    BELFRY_OWNER_INIT(service);
    *out = service;
    return BELFRY_OK;
}

void watch_destroy(struct watch_service *service)
{
    if (service == NULL)
        return;
    BELFRY_OWNER_CHECK(service);
    for (struct watch_stream *ws; (ws = stream_of(roster_after(&service->roster, 0))) != NULL;)
        watch_stream_end(ws, WATCH_CLOSE_DRAIN, 14, TEXT_DRAIN);
    permit_unlisten(service->opts.permit, service);
    free(service);
}

void watch_set_worker(struct watch_service *service, struct worker *worker)
{
    BELFRY_OWNER_CHECK(service);
    assert(service->worker == NULL);
    service->worker = worker;
}

/* ---- numbers ---- */

const char *watch_close_name(enum watch_close why)
{
    static const char *const names[WATCH_CLOSES] = {
        [WATCH_CLOSE_PEER] = "peer",           [WATCH_CLOSE_DEADLINE] = "deadline",
        [WATCH_CLOSE_NO_LEADER] = "no_leader", [WATCH_CLOSE_NOT_READY] = "not_ready",
        [WATCH_CLOSE_DRAIN] = "drain",         [WATCH_CLOSE_BROKEN] = "broken",
        [WATCH_CLOSE_SLOW] = "slow",           [WATCH_CLOSE_BAD_REQUEST] = "bad_request",
        [WATCH_CLOSE_MEMORY] = "memory",       [WATCH_CLOSE_UPSTREAM] = "upstream",
        [WATCH_CLOSE_LATE] = "late",           [WATCH_CLOSE_RIGHTS] = "rights",
    };
    return names[why];
}

void watch_stats(const struct watch_service *service, struct watch_stats *out)
{
    *out = service->stats;
}

/* The position of the foremost watcher of a tier's stream: its live one, because those of a replay or a backfill are
 * behind it. Reads at most *left watchers. 0: there are none, or *left is 0. */
static int64_t watch_stream_position(const struct watch_service *service, const struct watch_stream *ws, size_t *left)
{
    struct watcher_view watcher;
    int64_t id = -1, position = 0;
    size_t n = 0, most = *left < WATCHERS_LOOK ? *left : WATCHERS_LOOK;
    for (; n < most && stream_watcher(service->worker, ws->stream, id, &watcher); n++) {
        id = watcher.id;
        if (!watcher.ended && watcher.next - 1 > position)
            position = watcher.next - 1;
    }
    *left -= n;
    return position;
}

void watch_tell_tiers(struct watch_service *service)
{
    BELFRY_OWNER_CHECK(service);
    belfry_list_each (node, &service->tiers) {
        const struct watch_stream *ws = belfry_container(node, struct watch_stream, tiers);
        if (ws->stream != NULL)
            stream_tick(service->worker, ws->stream);
    }
}

struct tree_below *watch_tiers(const struct watch_service *service)
{
    struct tree_below *below = NULL;
    size_t left = TIERS_LOOK;
    if (service->n_tiers > 0)
        below = tree_below_create(service->n_tiers < TREE_STREAMS ? service->n_tiers : TREE_STREAMS);
    if (below == NULL)
        return NULL;
    belfry_list_each (node, &service->tiers) {
        const struct watch_stream *ws = belfry_container(node, struct watch_stream, tiers);
        struct tree_tier tier = {.since_ms = ws->opened_ms, .streams = 1};
        if (below->n == below->room)
            break;
        tier.position = watch_stream_position(service, ws, &left);
        snprintf(tier.name, sizeof(tier.name), "%s", ws->tier);
        snprintf(tier.peer, sizeof(tier.peer), "%s", exchange_conn(ws->x)->peer);
        tree_below_add(below, &tier);
    }
    below->more = service->n_tiers - below->n; /* these are only counted */
    return below;
}

bool watch_next(struct watch_service *service, uint64_t after, uint64_t *number, struct watch_view *out)
{
    BELFRY_OWNER_CHECK(service);
    const struct watch_stream *ws = stream_of(roster_after(&service->roster, after));
    if (ws == NULL)
        return false;
    *number = ws->roster.number;
    *out = (struct watch_view){.stream = ws->stream,
                               .conn = exchange_conn(ws->x),
                               .who = &ws->who,
                               .client = ws->client,
                               .opened_ms = ws->opened_ms,
                               .sent_bytes = ws->sent_bytes};
    return true;
}
