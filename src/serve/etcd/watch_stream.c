/* src/serve/etcd/watch_stream.c: one stream, from its head to its status.
 *
 * Requests are handled strictly one after another. What cannot be handled yet stays in `held`, and the stream is found
 * again by whatever held it up: the answer about rights, the core writing some of its answers, or its turn.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/watcher.h"
#include "serve/etcd/watch_private.h"
#include "server/grpc_answer.h"

#define OUTSIDE    "belfry: the range is outside of what this tier follows (its scope)"
#define CLIENT_MAX 63 /* bytes of a user-agent */

static const char plain_type[] = "application/grpc";

static void work(const struct watch_stream *ws)
{
    ws->service->opts.work(ws->service->opts.user);
}

static void move(struct watch_stream *ws, enum watch_state to)
{
    assert(ws->state != to);
    ws->state = to;
    if (to == WATCH_ASKING)
        ws->service->stats.asking++;
    else
        ws->service->stats.asking--;
}

/* ---- ending ---- */

static void leave_inside(struct watch_stream *ws)
{
    if (belfry_list_empty(&ws->inside))
        return;
    belfry_list_remove(&ws->inside);
    ws->service->stats.inside--;
}

static void set_due(struct watch_stream *ws)
{
    struct watch_service *service = ws->service;
    if (ws->due_ms != BELFRY_NEVER)
        belfry_treap_remove(&service->by_due, &ws->by_due, watch_order_due);
    ws->due_ms = belfry_min_time(ws->pace.due_ms, belfry_min_time(ws->deadline_ms, ws->drain_ms));
    if (ws->due_ms != BELFRY_NEVER)
        belfry_treap_insert(&service->by_due, &ws->by_due, watch_order_due);
}

void watch_stream_set_drain(struct watch_stream *ws, uint64_t drain_ms)
{
    ws->drain_ms = drain_ms;
    set_due(ws);
}

/* Everything but the exchange, which has had its last word, or its loss. */
static void let_go(struct watch_stream *ws, enum watch_close why)
{
    struct watch_service *service = ws->service;
    if (ws->question != NULL)
        permit_cancel(ws->question);
    if (ws->state == WATCH_ASKING)
        move(ws, WATCH_OPEN);
    stream_close(service->worker, ws->stream);
    ws->deadline_ms = ws->drain_ms = ws->pace.due_ms = BELFRY_NEVER;
    set_due(ws);
    belfry_treap_remove(&service->by_number, &ws->by_number, watch_order_number);
    belfry_list_remove(&ws->wrote);
    belfry_list_remove(&ws->hungry);
    belfry_list_remove(&ws->tiers);
    service->n_tiers -= ws->tier[0] != '\0';
    leave_inside(ws);
    service->stats.streams--;
    service->stats.held_bytes -= ws->held_bytes;
    watch_count_close(service, why);
    work(ws); /* the core has its watchers to take down */
    belfry_blob_unref(ws->asked);
    watch_input_fini(&ws->input);
    belfry_buf_fini(&ws->held);
    free(ws);
}

void watch_stream_end(struct watch_stream *ws, enum watch_close why, int code, const char *text)
{
    bool of_note = why == WATCH_CLOSE_SLOW || why == WATCH_CLOSE_BROKEN;
    belfry_logf(ws->service->opts.log, of_note ? BELFRY_LOG_INFO : BELFRY_LOG_DEBUG, "watch_end",
                "peer=%s reason=%s code=%d sent=%llu", exchange_conn(ws->x)->peer, watch_close_name(why), code,
                (unsigned long long)ws->sent_bytes);
    grpc_fail(ws->x, ws->responded ? GRPC_HEADERS_SENT : GRPC_HEADERS_NOT_SENT, code, text);
    let_go(ws, why);
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
    if (belfry_list_empty(&ws->wrote))
        belfry_list_append(&ws->service->wrote, &ws->wrote);
}

static void tell_room(struct watch_stream *ws)
{
    size_t room = exchange_room(ws->x);
    if (room == ws->told)
        return;
    ws->told = room;
    stream_writable(ws->service->worker, ws->stream, room);
    work(ws);
}

/* ---- requests ---- */

/* What is kept of requests counts against a bound for all. False: over it, and the stream has ended. */
static bool count_held(struct watch_stream *ws)
{
    struct watch_stats *stats = &ws->service->stats;
    size_t bytes = ws->held.cap + watch_input_bytes(&ws->input);
    bytes += ws->asked == NULL ? 0 : belfry_blob_len(ws->asked);
    bool grew = bytes > ws->held_bytes;
    stats->held_bytes = stats->held_bytes - ws->held_bytes + bytes;
    ws->held_bytes = bytes;
    if (stats->held_bytes > stats->held_peak)
        stats->held_peak = stats->held_bytes;
    exchange_holds(ws->x, bytes + (ws->asked_once ? 0 : EXCHANGE_COST));
    if (!grew || exchange_has_room(ws->x, stats->held_bytes, ws->service->opts.held_max))
        return true;
    watch_stream_end(ws, WATCH_CLOSE_MEMORY, 14, WATCH_TEXT_MEMORY);
    return false;
}

/* What the core said of a request. False: the stream has ended. */
static bool settle(struct watch_stream *ws, enum belfry_err err)
{
    if (err == BELFRY_OK)
        return true;
    if (err == BELFRY_ERR_AGAIN)
        watch_stream_end(ws, WATCH_CLOSE_NOT_READY, 14, "belfry: not ready: nothing is known of upstream yet");
    else
        watch_stream_end(ws, WATCH_CLOSE_MEMORY, 14, WATCH_TEXT_MEMORY);
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

/* A range that is not within would silently lack events. An empty one is the core's to refuse. */
static bool is_followed(const struct watch_service *service, const struct belfry_wire_watch_request *request)
{
    struct range range;
    return !range_read(request->key, request->range_end, &range) || range_within(&range, service->opts.scope);
}

static bool create(struct watch_stream *ws, const struct belfry_wire_watch_request *request)
{
    if (!is_followed(ws->service, request)) {
        ws->service->stats.refused++;
        return settle(ws, stream_refuse(ws->service->worker, ws->stream, OUTSIDE));
    }
    struct stream_create create = {.key = request->key,
                                   .range_end = request->range_end,
                                   .start_rev = request->start_revision,
                                   .watch_id = request->watch_id,
                                   .flags = flags_of(request)};
    return settle(ws, stream_create(ws->service->worker, ws->stream, &create));
}

static bool granted(struct watch_stream *ws, struct belfry_blob *asked)
{
    struct belfry_wire_watch_request request;
    enum belfry_err err = belfry_scan_watch_request(belfry_blob_bytes(asked), &request);
    assert(err == BELFRY_OK); /* it was read before it was asked about */
    belfry_ignore(err);
    return create(ws, &request);
}

/* An upstream without a leader is a reason to come again, but the text alone would end a Go client's watches for good
 * (they take it for the answer to hasleader). */
static void end_unavailable(struct watch_stream *ws, const char *reason)
{
    bool fatal = !ws->hasleader && strcmp(reason, WATCH_TEXT_NO_LEADER) == 0;
    watch_stream_end(ws, WATCH_CLOSE_UPSTREAM, 14, fatal ? "belfry: upstream has no leader" : reason);
}

static void on_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct watch_stream *ws = user;
    struct belfry_blob *asked = ws->asked;
    bool on = false;
    ws->question = NULL;
    ws->asked = NULL;
    move(ws, WATCH_OPEN);
    switch (verdict) {
    case PERMIT_GRANTED:
        on = granted(ws, asked);
        break;
    case PERMIT_REFUSED:
        ws->service->stats.refused++;
        on = settle(ws, stream_refuse(ws->service->worker, ws->stream, reason));
        break;
    case PERMIT_UNAVAILABLE:
        end_unavailable(ws, reason);
        break;
    }
    belfry_blob_unref(asked);
    if (!on)
        return;
    work(ws);
    watch_stream_serve(ws);
}

static bool ask(struct watch_stream *ws, const struct belfry_wire_watch_request *request, struct belfry_bytes raw,
                uint64_t now_ms)
{
    enum belfry_err err = belfry_blob_copy(raw, &ws->asked);
    if (err == BELFRY_OK)
        err = permit_ask(ws->service->opts.permit, &ws->who, exchange_pin(ws->x), request->key, request->range_end,
                         now_ms, on_verdict, ws, &ws->question);
    if (err != BELFRY_OK)
        return settle(ws, BELFRY_ERR_LIMIT);
    move(ws, WATCH_ASKING);
    return true;
}

/* A negative start is refused whatever the rights; everything else the core checks comes after them, as in etcd. */
static bool on_create(struct watch_stream *ws, const struct belfry_wire_watch_request *request, struct belfry_bytes raw)
{
    struct watch_service *service = ws->service;
    uint64_t now_ms = service->opts.now(service->opts.user);
    service->stats.creates++;
    if (request->start_revision < 0 || permit_is_open(service->opts.permit, now_ms))
        return create(ws, request);
    return ask(ws, request, raw, now_ms);
}

static bool on_request(struct watch_stream *ws, const struct belfry_wire_watch_request *request,
                       struct belfry_bytes raw)
{
    struct watch_service *service = ws->service;
    service->stats.requests++;
    switch (request->kind) {
    case BELFRY_WATCH_NOTHING:
        break;
    case BELFRY_WATCH_CREATE:
        return on_create(ws, request, raw);
    case BELFRY_WATCH_CANCEL:
        service->stats.cancels++;
        return settle(ws, stream_cancel(service->worker, ws->stream, request->watch_id));
    case BELFRY_WATCH_PROGRESS:
        service->stats.progress++;
        stream_progress(service->worker, ws->stream);
        break;
    }
    return true;
}

static bool may_handle(const struct watch_stream *ws)
{
    return ws->state == WATCH_OPEN && stream_wants_requests(ws->stream);
}

static void wait_for_turn(struct watch_stream *ws)
{
    if (belfry_list_empty(&ws->hungry))
        belfry_list_append(&ws->service->hungry, &ws->hungry);
    work(ws);
}

/* Handles what is at the front of *in, as far as it may. False: the stream has ended. */
static bool handle(struct watch_stream *ws, struct belfry_bytes *in)
{
    struct watch_service *service = ws->service;
    struct belfry_wire_watch_request request;
    struct belfry_bytes raw;
    struct watch_fault fault;
    size_t came = in->len, n = 0;
    for (; in->len > 0 && may_handle(ws); n++) {
        if (n == WATCH_QUANTUM || service->requests_left == 0) {
            wait_for_turn(ws);
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
        service->requests_left--;
        ws->asked_once = true;
        if (!on_request(ws, &request, raw))
            return false;
    }
    exchange_taken(ws->x, came - in->len);
    if (n > 0)
        work(ws);
    return true;
}

/* A request that has begun must go on, unless what there is of it waits for its turn. `n` bytes more have come. */
static void set_pace(struct watch_stream *ws, size_t n)
{
    const struct watch_service_opts *opts = &ws->service->opts;
    uint64_t was_due_ms = ws->pace.due_ms;
    if (belfry_buf_len(&ws->held) == 0 && watch_input_inside(&ws->input))
        pace_wait(&ws->pace, n, opts->now(opts->user), PACE_MS);
    else
        pace_init(&ws->pace);
    if (ws->pace.due_ms != was_due_ms)
        set_due(ws);
}

/* After some were handled, and `n` bytes more have come. */
static void sum_up(struct watch_stream *ws, size_t n)
{
    set_pace(ws, n);
    if (belfry_buf_len(&ws->held) == 0) {
        belfry_buf_fini(&ws->held);
        if (ws->half_closed && watch_input_inside(&ws->input)) {
            watch_stream_end(ws, WATCH_CLOSE_BAD_REQUEST, 13, "unexpected EOF");
            return;
        }
    }
    (void)count_held(ws); /* the last thing done here: whether it ended makes no difference */
}

void watch_stream_serve(struct watch_stream *ws)
{
    struct belfry_bytes in = belfry_buf_bytes(&ws->held);
    size_t came = in.len;
    if (!handle(ws, &in))
        return;
    belfry_buf_take(&ws->held, came - in.len);
    sum_up(ws, 0);
}

/* ---- events ---- */

void watch_stream_wrote(struct watch_stream *ws)
{
    size_t bytes;
    if (stream_broken(ws->stream)) {
        watch_stream_end(ws, WATCH_CLOSE_BROKEN, 14, WATCH_TEXT_BROKEN);
        return;
    }
    if (stream_inside_since(ws->stream, &bytes) == 0) {
        leave_inside(ws);
    } else if (belfry_list_empty(&ws->inside)) {
        belfry_list_append(&ws->service->inside, &ws->inside);
        ws->service->stats.inside++;
    }
    if (ws->told < EXCHANGE_ROOM_LOW)
        tell_room(ws);
    if (belfry_buf_len(&ws->held) > 0 && may_handle(ws))
        wait_for_turn(ws);
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct watch_stream *ws = user;
    size_t came = bytes.len;
    (void)x;
    if (belfry_buf_len(&ws->held) == 0 && !handle(ws, &bytes))
        return;
    if (bytes.len > 0 && belfry_buf_append(&ws->held, bytes.data, bytes.len) != BELFRY_OK)
        watch_stream_end(ws, WATCH_CLOSE_MEMORY, 14, WATCH_TEXT_MEMORY);
    else
        sum_up(ws, came);
}

/* Half-closing ends nothing: events go on. */
static void on_body_end(struct exchange *x, void *user)
{
    struct watch_stream *ws = user;
    (void)x;
    ws->half_closed = true;
    sum_up(ws, 0);
}

static void on_writable(struct exchange *x, void *user)
{
    (void)x;
    tell_room(user);
}

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    let_go(user, WATCH_CLOSE_PEER);
}

static const struct exchange_events stream_events = {
    .body = on_body, .body_end = on_body_end, .writable = on_writable, .gone = on_gone};

/* ---- opening ---- */

/* Copies `bytes` to *to, with a zero behind, and moves *to on. */
static struct belfry_bytes keep(char **to, struct belfry_bytes bytes)
{
    if (bytes.data == NULL)
        return bytes;
    struct belfry_bytes kept = {*to, bytes.len};
    memcpy(*to, bytes.data, bytes.len);
    (*to)[bytes.len] = '\0';
    *to += bytes.len + 1;
    return kept;
}

/* What is kept of the head, and the stream with room for it. */
static struct watch_stream *make(const struct exchange_head *head)
{
    struct permit_who who = {exchange_field(head, "token"), exchange_field(head, "authorization")};
    struct belfry_bytes type = exchange_field(head, "content-type"), agent = exchange_field(head, "user-agent");
    struct belfry_bytes tier = exchange_field(head, VIA_FIELD); /* one name: a Watch is never relayed */
    bool plain = belfry_bytes_equal(type, belfry_bytes_str(plain_type));
    tier.len = tier.len < VIA_WORD_BYTES ? tier.len : VIA_WORD_BYTES;
    agent.len = agent.len < CLIENT_MAX ? agent.len : CLIENT_MAX;
    struct watch_stream *ws = calloc(1, sizeof(*ws) + who.token.len + who.authorization.len + agent.len + tier.len +
                                            (plain ? 0 : type.len) + 5);
    if (ws == NULL)
        return NULL;
    char *to = ws->text;
    ws->who = (struct permit_who){keep(&to, who.token), keep(&to, who.authorization)};
    ws->content_type = plain ? belfry_bytes_str(plain_type) : keep(&to, type);
    ws->client = agent.data == NULL ? "" : keep(&to, agent).data;
    ws->tier = tier.data == NULL ? "" : keep(&to, tier).data;
    ws->hasleader = belfry_bytes_equal(exchange_field(head, "hasleader"), belfry_bytes_str("true"));
    return ws;
}

enum belfry_err watch_stream_open(struct watch_service *service, struct exchange *x, const struct exchange_head *head,
                                  enum watch_coding coding, uint64_t now_ms, uint64_t deadline_ms)
{
    struct watch_stream *ws = make(head);
    if (ws == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = stream_open(service->worker, ws, now_ms, &ws->stream);
    if (err != BELFRY_OK) {
        free(ws);
        return err;
    }
    ws->service = service;
    ws->x = x;
    ws->number = ++service->numbers;
    ws->opened_ms = now_ms;
    ws->due_ms = ws->drain_ms = BELFRY_NEVER;
    pace_init(&ws->pace);
    ws->deadline_ms = deadline_ms;
    watch_input_init(&ws->input, coding);
    belfry_buf_init(&ws->held);
    belfry_list_init(&ws->wrote);
    belfry_list_init(&ws->hungry);
    belfry_list_init(&ws->inside);
    belfry_list_init(&ws->tiers);
    if (ws->tier[0] != '\0') {
        belfry_list_append(&service->tiers, &ws->tiers);
        service->n_tiers++;
    }
    belfry_treap_insert(&service->by_number, &ws->by_number, watch_order_number);
    set_due(ws);
    service->stats.streams++;
    exchange_handle(x, &stream_events, ws);
    tell_room(ws);
    return BELFRY_OK;
}
