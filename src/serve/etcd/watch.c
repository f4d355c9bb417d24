/* src/serve/etcd/watch.c: the streams of a worker together: who may begin, whose turn it is, and whose time has come.
 *
 * Nothing here goes over all streams at once. Those to look at are in lists (they wrote, they have requests, they are
 * inside a message) or in order of their time; only a change of standing, or a drain, goes round everybody, in steps.
 */
#include "serve/etcd/watch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "serve/etcd/watch_private.h"
#include "server/grpc_answer.h"

#define LOOK_MS       1000 /* between two looks at those inside a message */
#define LOOK_MAX      1024 /* of them at one look */
#define WATCHERS_LOOK 40   /* watchers of a tier's stream that are looked at for its position: a tier has up to 33 */
#define TIERS_LOOK    8192 /* watchers that are looked at for all of them: a turn must not grow with what peers open */
#define ROUND_STEP    512  /* streams that are told of a change in one turn */

#define TEXT_DRAIN "belfry: draining; connect anew"
#define TEXT_LATE  "belfry: the request was not complete in time"

/* ---- orders ---- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int watch_order_number(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    return compare(belfry_container_const(a, struct watch_stream, by_number)->number,
                   belfry_container_const(b, struct watch_stream, by_number)->number);
}

int watch_order_due(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct watch_stream *x = belfry_container_const(a, struct watch_stream, by_due);
    const struct watch_stream *y = belfry_container_const(b, struct watch_stream, by_due);
    int order = compare(x->due_ms, y->due_ms);
    return order != 0 ? order : compare(x->number, y->number);
}

static int seek_number(const void *key, const struct belfry_treap_node *node)
{
    return compare(*(const uint64_t *)key, belfry_container_const(node, struct watch_stream, by_number)->number);
}

struct watch_stream *watch_stream_after(const struct watch_service *service, uint64_t after)
{
    struct belfry_treap_walk walk;
    uint64_t from = after + 1;
    belfry_treap_walk(&walk, service->by_number, &from, seek_number);
    return watch_stream_by_number(belfry_treap_next(&walk));
}

/* ---- life ---- */

enum belfry_err watch_create(const struct watch_service_opts *opts, struct watch_service **out)
{
    struct watch_service *service = calloc(1, sizeof(*service));
    if (service == NULL)
        return BELFRY_ERR_NOMEM;
    service->opts = *opts;
    if (service->opts.held_max == 0)
        service->opts.held_max = WATCH_HELD_BYTES;
    service->rng.state = opts->seed;
    service->requests_left = WATCH_TURN_REQUESTS;
    belfry_list_init(&service->wrote);
    belfry_list_init(&service->hungry);
    belfry_list_init(&service->inside);
    belfry_list_init(&service->tiers);
    watch_stand(service, WATCH_NOT_READY, "starting");
    *out = service;
    return BELFRY_OK;
}

void watch_destroy(struct watch_service *service)
{
    if (service == NULL)
        return;
    for (struct belfry_treap_node *node; (node = belfry_treap_first(service->by_number)) != NULL;)
        watch_stream_end(watch_stream_by_number(node), WATCH_CLOSE_DRAIN, 14, TEXT_DRAIN);
    free(service);
}

void watch_set_worker(struct watch_service *service, struct worker *worker)
{
    assert(service->worker == NULL);
    service->worker = worker;
}

/* ---- beginning ---- */

static void refuse(struct watch_service *service, struct exchange *x, enum watch_close why, int code, const char *text)
{
    watch_count_close(service, why);
    grpc_fail(x, GRPC_HEADERS_NOT_SENT, code, text);
}

static void refuse_not_ready(struct watch_service *service, struct exchange *x, const char *reason)
{
    char text[WATCH_REASON_MAX + 32];
    snprintf(text, sizeof(text), "belfry: not ready: %s", reason);
    refuse(service, x, WATCH_CLOSE_NOT_READY, 14, text);
}

/* True: the tier cannot serve it now. */
static bool refuse_by_standing(struct watch_service *service, struct exchange *x, const struct exchange_head *head)
{
    bool hasleader = belfry_bytes_equal(exchange_field(head, "hasleader"), belfry_bytes_str("true"));
    if (service->draining && exchange_conn(x)->leaving)
        refuse(service, x, WATCH_CLOSE_DRAIN, 14, TEXT_DRAIN);
    else if (service->standing == WATCH_STALE && hasleader)
        refuse(service, x, WATCH_CLOSE_NO_LEADER, 14, WATCH_TEXT_NO_LEADER);
    else if (service->standing != WATCH_READY)
        refuse_not_ready(service, x, service->reason);
    else if (worker_position(service->worker) == 0)
        refuse_not_ready(service, x, "nothing is known of upstream yet");
    else
        return false;
    return true;
}

/* True: messages come in an encoding that is not known. */
static bool refuse_by_coding(struct watch_service *service, struct exchange *x, const struct exchange_head *head,
                             enum watch_coding *out)
{
    struct belfry_bytes name = exchange_field(head, "grpc-encoding");
    char text[128];
    *out = belfry_bytes_equal(name, belfry_bytes_str("gzip")) ? WATCH_CODING_GZIP : WATCH_CODING_NONE;
    if (*out == WATCH_CODING_GZIP || name.len == 0 || belfry_bytes_equal(name, belfry_bytes_str("identity")))
        return false;
    snprintf(text, sizeof(text), "grpc: Decompressor is not installed for grpc-encoding \"%.*s\"",
             (int)(name.len < 32 ? name.len : 32), name.data);
    refuse(service, x, WATCH_CLOSE_BAD_REQUEST, 12, text);
    return true;
}

void watch_begin(struct watch_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    uint64_t timeout_ms;
    enum watch_coding coding;
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    service->stats.opened++;
    if (refuse_by_coding(service, x, head, &coding) || refuse_by_standing(service, x, head))
        return;
    uint64_t deadline_ms = timeout_ms < BELFRY_NEVER - now_ms ? now_ms + timeout_ms : BELFRY_NEVER;
    if (watch_stream_open(service, x, head, coding, now_ms, deadline_ms) != BELFRY_OK)
        refuse(service, x, WATCH_CLOSE_MEMORY, 14, WATCH_TEXT_MEMORY);
}

/* ---- turns ---- */

static void see_who_wrote(struct watch_service *service)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&service->wrote)) != NULL;)
        watch_stream_wrote(belfry_container(node, struct watch_stream, wrote));
}

/* Who is not done with its quantum comes again at the end of the list. */
static void serve_hungry(struct watch_service *service)
{
    struct belfry_list *node;
    while (service->requests_left > 0 && (node = belfry_list_pop(&service->hungry)) != NULL)
        watch_stream_serve(belfry_container(node, struct watch_stream, hungry));
}

static struct watch_stream *first_due(const struct watch_service *service)
{
    struct belfry_treap_node *node = belfry_treap_first(service->by_due);
    return node == NULL ? NULL : belfry_container(node, struct watch_stream, by_due);
}

static void end_due(struct watch_service *service, uint64_t now_ms)
{
    struct watch_stream *ws;
    for (size_t n = 0; n < WATCH_TURN_ENDS && (ws = first_due(service)) != NULL && ws->due_ms <= now_ms; n++) {
        if (ws->deadline_ms <= now_ms)
            watch_stream_end(ws, WATCH_CLOSE_DEADLINE, 4, "context deadline exceeded");
        else if (ws->drain_ms <= now_ms)
            watch_stream_end(ws, WATCH_CLOSE_DRAIN, 14, TEXT_DRAIN);
        else
            watch_stream_end(ws, WATCH_CLOSE_LATE, 14, TEXT_LATE);
    }
}

static bool over_memory(const struct watch_service *service)
{
    struct worker_stats stats;
    if (service->opts.memory_max == 0)
        return false;
    worker_stats(service->worker, &stats);
    return stats.bytes > service->opts.memory_max;
}

/* Only who is inside a message can be broken, or hold memory that nobody else can have. True: it has been ended. */
static bool end_if_stuck(struct watch_stream *ws, uint64_t now_ms, bool over)
{
    size_t bytes;
    uint64_t since_ms = stream_inside_since(ws->stream, &bytes);
    if (stream_broken(ws->stream))
        watch_stream_end(ws, WATCH_CLOSE_BROKEN, 14, WATCH_TEXT_BROKEN);
    else if (over && since_ms != 0 && now_ms >= since_ms + WATCH_INSIDE_MS)
        watch_stream_end(ws, WATCH_CLOSE_SLOW, 14, "belfry: too slow while memory is over the limit; resume");
    else
        return false;
    return true;
}

static void look_inside(struct watch_service *service, uint64_t now_ms)
{
    if (belfry_list_empty(&service->inside) || now_ms < service->look_ms)
        return;
    service->look_ms = now_ms + LOOK_MS;
    bool over = over_memory(service);
    size_t n = service->stats.inside < LOOK_MAX ? service->stats.inside : LOOK_MAX;
    for (; n > 0; n--) {
        struct belfry_list *node = belfry_list_pop(&service->inside);
        belfry_list_append(&service->inside, node);
        if (end_if_stuck(belfry_container(node, struct watch_stream, inside), now_ms, over))
            over = over_memory(service);
    }
}

static void tell_change(struct watch_service *service, struct watch_stream *ws, uint64_t now_ms)
{
    if (service->standing == WATCH_STALE && ws->hasleader) {
        watch_stream_end(ws, WATCH_CLOSE_NO_LEADER, 14, WATCH_TEXT_NO_LEADER);
    } else if (service->draining && exchange_conn(ws->x)->leaving && ws->drain_ms > service->drain_end_ms) {
        uint64_t left = service->drain_end_ms > now_ms ? service->drain_end_ms - now_ms : 0;
        watch_stream_set_drain(ws, now_ms + belfry_rng_below(&service->rng, left + 1));
    }
}

static void go_round(struct watch_service *service, uint64_t now_ms)
{
    for (size_t n = 0; service->rounding && n < ROUND_STEP; n++) {
        struct watch_stream *ws = watch_stream_after(service, service->round_at);
        service->rounding = ws != NULL;
        if (ws == NULL)
            return;
        service->round_at = ws->number;
        tell_change(service, ws, now_ms);
    }
}

void watch_after_turn(struct watch_service *service, uint64_t now_ms)
{
    service->requests_left = WATCH_TURN_REQUESTS;
    see_who_wrote(service);
    serve_hungry(service);
    go_round(service, now_ms);
    end_due(service, now_ms);
    look_inside(service, now_ms);
}

uint64_t watch_due(const struct watch_service *service)
{
    if (service->rounding || !belfry_list_empty(&service->hungry) || !belfry_list_empty(&service->wrote))
        return 0;
    const struct watch_stream *first = first_due(service);
    uint64_t due_ms = first == NULL ? BELFRY_NEVER : first->due_ms;
    return belfry_list_empty(&service->inside) ? due_ms : belfry_min_time(due_ms, service->look_ms);
}

/* ---- how the tier stands ---- */

static void begin_round(struct watch_service *service)
{
    service->rounding = true;
    service->round_at = 0;
    service->opts.work(service->opts.user);
}

void watch_stand(struct watch_service *service, enum watch_standing standing, const char *reason)
{
    bool became_stale = standing == WATCH_STALE && service->standing != WATCH_STALE;
    service->standing = standing;
    snprintf(service->reason, sizeof(service->reason), "%s", reason);
    if (became_stale)
        begin_round(service);
}

void watch_drain(struct watch_service *service, uint64_t now_ms, uint64_t drain_ms)
{
    service->draining = true;
    service->drain_end_ms = now_ms + drain_ms;
    begin_round(service);
}

/* ---- numbers ---- */

void watch_count_close(struct watch_service *service, enum watch_close why)
{
    service->stats.closed[why]++;
}

const char *watch_close_name(enum watch_close why)
{
    static const char *const names[WATCH_CLOSES] = {
        [WATCH_CLOSE_PEER] = "peer",           [WATCH_CLOSE_DEADLINE] = "deadline",
        [WATCH_CLOSE_NO_LEADER] = "no_leader", [WATCH_CLOSE_NOT_READY] = "not_ready",
        [WATCH_CLOSE_DRAIN] = "drain",         [WATCH_CLOSE_BROKEN] = "broken",
        [WATCH_CLOSE_SLOW] = "slow",           [WATCH_CLOSE_BAD_REQUEST] = "bad_request",
        [WATCH_CLOSE_MEMORY] = "memory",       [WATCH_CLOSE_UPSTREAM] = "upstream",
        [WATCH_CLOSE_LATE] = "late",
    };
    return names[why];
}

void watch_stats(const struct watch_service *service, struct watch_stats *out)
{
    *out = service->stats;
}

/* What the foremost watch of a stream was given: a tier's live one. Those of a replay or a backfill are behind it. It
 * looks at no more than *left watchers; 0: it has none, or nothing was left. */
static int64_t position_of(const struct watch_service *service, const struct watch_stream *ws, size_t *left)
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
        tier.position = position_of(service, ws, &left);
        snprintf(tier.name, sizeof(tier.name), "%s", ws->tier);
        snprintf(tier.peer, sizeof(tier.peer), "%s", exchange_conn(ws->x)->peer);
        tree_below_add(below, &tier);
    }
    below->more = service->n_tiers - below->n; /* the rest is counted only */
    return below;
}

bool watch_next(struct watch_service *service, uint64_t after, uint64_t *number, struct watch_view *out)
{
    const struct watch_stream *ws = watch_stream_after(service, after);
    if (ws == NULL)
        return false;
    *number = ws->number;
    *out = (struct watch_view){.stream = ws->stream,
                               .conn = exchange_conn(ws->x),
                               .client = ws->client,
                               .opened_ms = ws->opened_ms,
                               .sent_bytes = ws->sent_bytes};
    return true;
}
