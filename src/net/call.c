/* src/net/call.c
 *
 * A call is in one list of its connection as long as it is not GONE: `waiting`; `running` (RUNNING, and OVER while
 * something must be told before its end); or `ended` (OVER with nothing left but its last event). All `closed` events
 * are made by http_flush(), so that nothing above it on the stack stands on a call that may disappear.
 */
#include "net/call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "net/h1.h"

#define GATHER_BYTES (64 * 1024) /* given to the owner in one write */
#define IDLE_BYTES   (16 * 1024) /* an output buffer over this is not kept while nothing is sent */

struct belfry_http {
    /* fixed at creation */
    struct belfry_http_origin origin; /* its strings are owned */
    struct belfry_http_common common; /* its strings are lent */
    uint32_t window, ping_ms, ping_timeout_ms;
    bool ping_steadily, discreet;
    const struct belfry_log *log; /* may be NULL */
    /* fixed at start */
    enum belfry_http_version version;
    struct belfry_h1 *h1; /* owned; one of the two */
    struct belfry_h2 *h2;
    /* owner only */
    enum belfry_http_state state;
    enum belfry_err failed; /* found where it could not be returned; the next receive, pull or tick ends it all */
    char failed_why[BELFRY_HTTP_WHY_BYTES];
    struct belfry_list waiting, running, ended; /* of struct belfry_http_call, by node */
    struct belfry_list ready;                   /* likewise, by ready_node: read() has bytes again */
    size_t n_calls, n_waiting;
    uint64_t next_deadline_ms; /* no call's deadline is earlier; it may belong to one that has gone */
    uint64_t ping_from_ms;     /* from when ping_ms counts: the last byte, or the last PING if steadily */
    uint64_t pinged_ms;        /* when the last PING was queued */
    bool ping_unanswered;      /* and not a byte has come since */
    struct belfry_buf out;     /* what pull lends */
    size_t lent;               /* bytes of it that the last pull gave away */
    uint32_t goaway_code;
    char leaving[BELFRY_HTTP_WHY_BYTES]; /* why the peer takes no more calls; "" while it does */
    BELFRY_OWNER;
};

static const struct belfry_h2_events stream_events;

static struct belfry_http_call *call_at(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_http_call, node);
}

static struct belfry_http_call *call_of(struct belfry_h2_stream *stream)
{
    return belfry_container(stream, struct belfry_http_call, stream);
}

/* ---- the life of a call ---- */

/* Moves the call to `state` and into `list`, NULL when it is GONE. */
static void call_move(struct belfry_http_call *call, enum belfry_http_call_state state, struct belfry_list *list)
{
    assert(state >= call->state && call->state != BELFRY_HTTP_CALL_GONE);
    assert((state == BELFRY_HTTP_CALL_GONE) == (list == NULL));
    call->http->n_waiting -= call->state == BELFRY_HTTP_CALL_WAITING && state != BELFRY_HTTP_CALL_WAITING;
    call->http->n_calls -= state == BELFRY_HTTP_CALL_GONE;
    call->state = state;
    belfry_list_remove(&call->node);
    if (state != BELFRY_HTTP_CALL_RUNNING)
        belfry_list_remove(&call->ready_node);
    if (list != NULL)
        belfry_list_append(list, &call->node);
}

void belfry_http_call_enter(struct belfry_http_call *call)
{
    call->on_stack++;
}

void belfry_http_call_leave(struct belfry_http_call *call)
{
    if (--call->on_stack > 0 || call->state != BELFRY_HTTP_CALL_GONE)
        return;
    belfry_http_ask_destroy(call->ask);
    belfry_buf_fini(&call->kept);
    free(call->why);
    call->events->gone(call);
}

/* Makes the last events that are due. */
static void http_flush(struct belfry_http *http)
{
    while (!belfry_list_empty(&http->ended)) {
        struct belfry_http_call *call = call_at(http->ended.next);
        belfry_http_call_enter(call);
        call_move(call, BELFRY_HTTP_CALL_GONE, NULL);
        call->events->closed(call, &call->end);
        belfry_http_call_leave(call);
    }
}

/* A call that is OVER goes where its last event is made from, unless something comes before that. */
static void call_settle(struct belfry_http_call *call)
{
    if (call->state != BELFRY_HTTP_CALL_OVER)
        return;
    bool waits = call->held || call->telling || belfry_buf_len(&call->kept) > 0;
    call_move(call, BELFRY_HTTP_CALL_OVER, waits ? &call->http->running : &call->http->ended);
}

/* How the call ended; end.why is copied, and without memory for it the call ends without a reason. */
static void call_set_end(struct belfry_http_call *call, struct belfry_http_end end)
{
    free(call->why);
    call->why = end.why != NULL && end.why[0] != '\0' ? strdup(end.why) : NULL;
    end.why = call->why != NULL ? call->why : "";
    call->end = end;
    call_move(call, BELFRY_HTTP_CALL_OVER, &call->http->running);
}

/* The peer's part of the call is not waited for any more. Whether the connection can go on without it. */
static bool call_let_go(struct belfry_http_call *call)
{
    struct belfry_http *http = call->http;
    if (http->h2 != NULL)
        belfry_h2_reset(http->h2, &call->stream, NGHTTP2_CANCEL);
    return http->h1 == NULL || !belfry_h1_forget(http->h1, &call->stream);
}

/* Nothing more is told of it but its end. */
static void call_deafen(struct belfry_http_call *call)
{
    call->deaf = true;
    call->held = false;
    belfry_buf_fini(&call->kept);
}

/* Ends a call that the connection or the clock has given up. One that is patient, and is over already, stays so. */
static void call_fail(struct belfry_http_call *call, struct belfry_http_end end)
{
    bool patient = call->events->patient;
    if (patient && call->state == BELFRY_HTTP_CALL_OVER)
        return;
    (void)call_let_go(call); /* over HTTP/1.1, only a connection that dies does this */
    if (!patient)
        call_deafen(call);
    call_set_end(call, end);
    call_settle(call);
}

/* Ends it held or not; what it was not told makes a good end a bad one. */
static void call_force(struct belfry_http_call *call, struct belfry_http_end end)
{
    if (call->state != BELFRY_HTTP_CALL_OVER)
        call_fail(call, end);
    else if (belfry_buf_len(&call->kept) > 0 && call->end.err == BELFRY_OK)
        call_set_end(call, end);
    call_deafen(call);
    call_settle(call);
}

enum belfry_err belfry_http_call_open(struct belfry_http *http, struct belfry_http_call *call,
                                      struct belfry_http_ask *ask, uint64_t deadline_ms,
                                      const struct belfry_http_events *events)
{
    BELFRY_OWNER_CHECK(http);
    size_t room = http->state == BELFRY_HTTP_OPEN && http->h2 != NULL ? belfry_h2_room(http->h2) : 0;
    bool closed = http->state > BELFRY_HTTP_OPEN || http->failed != BELFRY_OK;
    if (closed || http->n_waiting >= BELFRY_HTTP_WAITING_MAX + room) {
        belfry_http_ask_destroy(ask);
        return closed ? BELFRY_ERR_UNAVAILABLE : BELFRY_ERR_LIMIT;
    }
    *call = (struct belfry_http_call){.http = http, .events = events, .deadline_ms = deadline_ms, .ask = ask};
    belfry_list_init(&call->ready_node);
    belfry_list_append(&http->waiting, &call->node);
    http->n_waiting++;
    http->n_calls++;
    http->next_deadline_ms = belfry_min_time(http->next_deadline_ms, deadline_ms);
    return BELFRY_OK;
}

static void http_die(struct belfry_http *http, enum belfry_err err, const char *why);

void belfry_http_call_cancel(struct belfry_http_call *call)
{
    struct belfry_http *http = call->http;
    if (call->state == BELFRY_HTTP_CALL_GONE)
        return;
    bool usable = call_let_go(call);
    belfry_http_call_enter(call);
    call_move(call, BELFRY_HTTP_CALL_GONE, NULL);
    belfry_http_call_leave(call);
    if (!usable)
        http_die(http, BELFRY_ERR_UNAVAILABLE, "the call before was cancelled");
}

void belfry_http_call_break(struct belfry_http_call *call, enum belfry_err err, const char *why)
{
    struct belfry_http *http = call->http;
    if (!call_let_go(call)) {
        http->failed = err;
        snprintf(http->failed_why, sizeof(http->failed_why), "%s", why);
    }
    call_deafen(call);
    call_set_end(call, (struct belfry_http_end){.how = BELFRY_HTTP_BROKEN, .err = err, .why = why});
    call_settle(call);
}

struct belfry_http_ask *belfry_http_call_take_ask(struct belfry_http_call *call)
{
    struct belfry_http_ask *ask = call->ask;
    call->ask = NULL;
    return ask;
}

/* ---- the request ---- */

/* There is something to send where there was nothing: pull resumes the stream, where running out of memory can still be
 * reported. */
void belfry_http_call_resume(struct belfry_http_call *call)
{
    if (call->state != BELFRY_HTTP_CALL_RUNNING || !call->stream.deferred)
        return;
    belfry_list_remove(&call->ready_node);
    belfry_list_append(&call->http->ready, &call->ready_node);
}

static void http_drain(struct belfry_http *http, const char *leaving, int32_t last_id, uint32_t code);

static const nghttp2_nv *call_fields(struct belfry_http_call *call, uint64_t now_ms, size_t *out_n)
{
    struct belfry_http_field late;
    bool has_late = call->events->late != NULL && call->events->late(call, now_ms, &late);
    return belfry_http_ask_fields(call->ask, &call->http->origin, has_late ? &late : NULL, out_n);
}

static enum belfry_err submit_over_h2(struct belfry_http_call *call, uint64_t now_ms)
{
    size_t n;
    const nghttp2_nv *fields = call_fields(call, now_ms, &n);
    enum belfry_err err = call->events->read != NULL
                              ? belfry_h2_submit(call->http->h2, fields, n, &call->stream)
                              : belfry_h2_submit_bodiless(call->http->h2, fields, n, &call->stream);
    if (err == BELFRY_OK)
        call_move(call, BELFRY_HTTP_CALL_RUNNING, &call->http->running);
    if (err != BELFRY_ERR_LIMIT)
        return err;
    /* As if the peer had sent a GOAWAY. */
    http_drain(call->http, "the connection has used up its streams", INT32_MAX, NGHTTP2_NO_ERROR);
    return BELFRY_OK;
}

static enum belfry_err write_over_h1(struct belfry_http_call *call, uint64_t now_ms)
{
    size_t n;
    const nghttp2_nv *fields = call_fields(call, now_ms, &n);
    enum belfry_err err = belfry_http_ask_write(fields, n, &call->http->out);
    if (err != BELFRY_OK)
        return err;
    call_move(call, BELFRY_HTTP_CALL_RUNNING, &call->http->running);
    call->stream.pulled = true;
    belfry_h1_begin(call->http->h1, &call->stream, belfry_http_ask_is_head(call->ask));
    belfry_http_ask_destroy(belfry_http_call_take_ask(call));
    return BELFRY_OK;
}

/* How many more calls may run now. */
static size_t http_capacity(const struct belfry_http *http)
{
    if (http->state != BELFRY_HTTP_OPEN || http->failed != BELFRY_OK)
        return 0;
    return http->h2 != NULL ? belfry_h2_room(http->h2) : belfry_h1_current(http->h1) == NULL;
}

static enum belfry_err submit_waiting(struct belfry_http *http, uint64_t now_ms)
{
    enum belfry_err err = BELFRY_OK;
    while (err == BELFRY_OK && !belfry_list_empty(&http->waiting) && http_capacity(http) > 0) {
        struct belfry_http_call *call = call_at(http->waiting.next);
        err = http->h2 != NULL ? submit_over_h2(call, now_ms) : write_over_h1(call, now_ms);
    }
    return err;
}

static enum belfry_err resume_ready(struct belfry_http *http)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(&http->ready)) != NULL) {
        struct belfry_http_call *call = belfry_container(node, struct belfry_http_call, ready_node);
        enum belfry_err err = belfry_h2_resume(http->h2, &call->stream);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

static size_t on_read(struct belfry_h2_stream *stream, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    (void)user;
    struct belfry_http_call *call = call_of(stream);
    return call->events->read(call, to, cap, out_end);
}

static void on_pulled(struct belfry_h2_stream *stream, void *user)
{
    (void)user;
    belfry_http_ask_destroy(belfry_http_call_take_ask(call_of(stream)));
}

/* ---- the response ---- */

/* Tells from *in as long as the call takes it. Between enter and leave. */
static enum belfry_err call_tell(struct belfry_http_call *call, struct belfry_bytes *in)
{
    enum belfry_err err = BELFRY_OK;
    call->telling = true;
    while (err == BELFRY_OK && in->len > 0 && !call->held && !call->deaf && call->state != BELFRY_HTTP_CALL_GONE) {
        size_t before = in->len;
        err = call->events->data(call, in);
        if (call->http->h2 != NULL && !call->events->owner_window)
            belfry_h2_taken(call->http->h2, &call->stream, before - in->len);
    }
    call->telling = false;
    return err;
}

/* Over HTTP/2 the peer was given no window for more; over HTTP/1.1 belfry_http_wants_read() was not heeded. */
static enum belfry_err call_keep(struct belfry_http_call *call, struct belfry_bytes bytes)
{
    if (bytes.len <= call->http->window - belfry_buf_len(&call->kept))
        return belfry_buf_append(&call->kept, bytes.data, bytes.len);
    if (call->http->h1 != NULL)
        return BELFRY_ERR_LIMIT;
    belfry_http_call_break(call, BELFRY_ERR_PROTOCOL, "the peer sent more than its window");
    return BELFRY_OK;
}

static enum belfry_err on_field(struct belfry_h2_stream *stream, struct belfry_bytes name, struct belfry_bytes value,
                                void *user)
{
    (void)user;
    struct belfry_http_call *call = call_of(stream);
    return call->events->field(call, name, value);
}

/* The response is complete, whatever became of the request. */
static void call_complete(struct belfry_http_call *call)
{
    if (call->state >= BELFRY_HTTP_CALL_OVER)
        return; /* its event broke or cancelled it */
    call_set_end(call, (struct belfry_http_end){.how = BELFRY_HTTP_ENDED});
    call_settle(call);
}

static enum belfry_err on_block(struct belfry_h2_stream *stream, bool last, void *user)
{
    struct belfry_http *http = user;
    struct belfry_http_call *call = call_of(stream);
    belfry_http_call_enter(call);
    if (last)
        belfry_h2_finish(http->h2, stream);
    enum belfry_err err = call->events->block(call, last);
    if (err == BELFRY_OK && last)
        call_complete(call);
    belfry_http_call_leave(call);
    return err;
}

static enum belfry_err on_data(struct belfry_h2_stream *stream, struct belfry_bytes bytes, void *user)
{
    (void)user;
    struct belfry_http_call *call = call_of(stream);
    enum belfry_err err = BELFRY_OK;
    belfry_http_call_enter(call);
    if (belfry_buf_len(&call->kept) == 0)
        err = call_tell(call, &bytes);
    if (err == BELFRY_OK && bytes.len > 0 && call->state == BELFRY_HTTP_CALL_RUNNING)
        err = call_keep(call, bytes);
    call_settle(call);
    belfry_http_call_leave(call);
    return err;
}

static enum belfry_err on_end(struct belfry_h2_stream *stream, void *user)
{
    struct belfry_http *http = user;
    if (http->h2 != NULL)
        belfry_h2_finish(http->h2, stream);
    call_complete(call_of(stream));
    return BELFRY_OK;
}

static void on_closed(struct belfry_h2_stream *stream, uint32_t code, const char *why, void *user)
{
    (void)user;
    enum belfry_err err = stream->flooded                  ? BELFRY_ERR_TOO_LARGE
                          : code == NGHTTP2_PROTOCOL_ERROR ? BELFRY_ERR_PROTOCOL
                                                           : BELFRY_ERR_UNAVAILABLE;
    struct belfry_http_call *call = call_of(stream);
    call_set_end(call, (struct belfry_http_end){.how = BELFRY_HTTP_RESET,
                                                .err = err,
                                                .h2_code = code,
                                                .unprocessed = code == NGHTTP2_REFUSED_STREAM || !stream->pulled,
                                                .why = why});
    call_settle(call);
}

static void on_goaway(int32_t last_id, uint32_t code, struct belfry_bytes debug, void *user)
{
    struct belfry_http *http = user;
    char why[BELFRY_HTTP_WHY_BYTES];
    size_t len = http->discreet ? 0 : debug.len;
    size_t at = (size_t)snprintf(why, sizeof(why), "GOAWAY %s%s", nghttp2_http2_strerror(code), len > 0 ? ": " : "");
    for (size_t i = 0; i < len && at < sizeof(why) - 1; i++) /* printable, so that it can be logged and shown */
        why[at++] = (char)(debug.data[i] >= ' ' && debug.data[i] <= '~' ? debug.data[i] : '?');
    why[at] = '\0';
    http_drain(http, why, last_id, code);
}

static const struct belfry_h2_events stream_events = {
    .field = on_field,
    .block = on_block,
    .data = on_data,
    .end = on_end,
    .closed = on_closed,
    .goaway = on_goaway,
    .read = on_read,
    .pulled = on_pulled,
};

static void on_h1_leaving(void *user)
{
    http_drain(user, "the server closes the connection after this response", INT32_MAX, NGHTTP2_NO_ERROR);
}

/* ---- holding ---- */

static void tell_kept(struct belfry_http_call *call)
{
    struct belfry_buf kept = call->kept; /* it stays while it is told, whatever becomes of the call */
    struct belfry_bytes rest = belfry_buf_bytes(&kept);
    belfry_buf_init(&call->kept);
    enum belfry_err err = call_tell(call, &rest);
    if (err != BELFRY_OK)
        call->http->failed = err;
    belfry_buf_take(&kept, belfry_buf_len(&kept) - rest.len);
    if (rest.len > 0 && !call->deaf && call->state != BELFRY_HTTP_CALL_GONE)
        call->kept = kept;
    else
        belfry_buf_fini(&kept);
}

void belfry_http_call_hold(struct belfry_http_call *call, bool hold)
{
    struct belfry_http *http = call->http;
    assert(call->events->patient);
    call->held = hold;
    if (hold || call->telling || call->state == BELFRY_HTTP_CALL_GONE) { /* the event we are in goes on by itself */
        call_settle(call);
        return;
    }
    belfry_http_call_enter(call);
    if (call->events->released != NULL) {
        call->telling = true;
        call->events->released(call);
        call->telling = false;
    }
    tell_kept(call);
    call_settle(call);
    belfry_http_call_leave(call);
    http_flush(http);
}

void belfry_http_call_taken(struct belfry_http_call *call, size_t n)
{
    if (call->state == BELFRY_HTTP_CALL_RUNNING && call->http->h2 != NULL)
        belfry_h2_taken(call->http->h2, &call->stream, n);
}

/* ---- the life of a connection ---- */

static void http_move(struct belfry_http *http, enum belfry_http_state next)
{
    assert(next > http->state);
    http->state = next;
}

static void http_free(struct belfry_http *http)
{
    belfry_h1_destroy(http->h1);
    belfry_h2_destroy(http->h2);
    free((char *)(uintptr_t)http->origin.scheme);
    free((char *)(uintptr_t)http->origin.authority);
    belfry_buf_fini(&http->out);
    free(http);
}

enum belfry_err belfry_http_create(const struct belfry_http_opts *opts, uint64_t now_ms, struct belfry_http **out)
{
    if (!belfry_http_is_value(belfry_bytes_str(opts->authority)))
        return BELFRY_ERR_INVALID;
    struct belfry_http *http = calloc(1, sizeof(*http));
    if (http == NULL)
        return BELFRY_ERR_NOMEM;
    BELFRY_OWNER_INIT(http);
    http->window = opts->window;
    http->ping_ms = opts->ping_ms;
    http->ping_timeout_ms = opts->ping_timeout_ms;
    http->ping_steadily = opts->ping_steadily;
    http->discreet = opts->discreet;
    http->log = opts->log;
    http->ping_from_ms = now_ms;
    http->next_deadline_ms = BELFRY_NEVER;
    belfry_list_init(&http->waiting);
    belfry_list_init(&http->running);
    belfry_list_init(&http->ended);
    belfry_list_init(&http->ready);
    http->origin = (struct belfry_http_origin){strdup(opts->scheme), strdup(opts->authority)};
    http->common = opts->common;
    if (http->origin.scheme == NULL || http->origin.authority == NULL) {
        http_free(http);
        return BELFRY_ERR_NOMEM;
    }
    *out = http;
    return BELFRY_OK;
}

enum belfry_err belfry_http_start(struct belfry_http *http, enum belfry_http_version version, uint64_t now_ms)
{
    assert(http->state == BELFRY_HTTP_NEW);
    enum belfry_err err = version == BELFRY_HTTP_1 ? belfry_h1_create(&stream_events, on_h1_leaving, http, &http->h1)
                                                   : belfry_h2_create(http->window, &stream_events, http, &http->h2);
    if (err != BELFRY_OK)
        return err;
    http->version = version;
    http->ping_from_ms = now_ms;
    http_move(http, BELFRY_HTTP_OPEN);
    return BELFRY_OK;
}

/* OPEN -> DRAINING. Calls that the peer will not look at end here: those it said so of, and those that can no longer be
 * sent. A call that is over was pulled and has no stream any more (id 0): it stays. */
static void http_drain(struct belfry_http *http, const char *leaving, int32_t last_id, uint32_t code)
{
    snprintf(http->leaving, sizeof(http->leaving), "%s", leaving);
    http->goaway_code = code;
    belfry_logf(http->log, code == NGHTTP2_NO_ERROR ? BELFRY_LOG_INFO : BELFRY_LOG_WARN, "grpc_goaway",
                "authority=%s calls=%zu last_id=%d why=\"%s\"", http->origin.authority, http->n_calls, (int)last_id,
                http->leaving);
    if (http->state == BELFRY_HTTP_OPEN)
        http_move(http, BELFRY_HTTP_DRAINING);
    struct belfry_list *const lists[] = {&http->waiting, &http->running};
    for (size_t i = 0; i < 2; i++) {
        belfry_list_each_safe (node, lists[i]) {
            struct belfry_http_call *call = call_at(node);
            if (!call->stream.pulled || call->stream.id > last_id)
                call_fail(call, (struct belfry_http_end){.how = BELFRY_HTTP_GOAWAY,
                                                         .err = BELFRY_ERR_UNAVAILABLE,
                                                         .h2_code = code,
                                                         .unprocessed = true,
                                                         .why = http->leaving});
        }
    }
}

static void end_list(struct belfry_list *calls, void (*end_call)(struct belfry_http_call *, struct belfry_http_end),
                     enum belfry_err err, const char *why)
{
    belfry_list_each_safe (node, calls) {
        struct belfry_http_call *call = call_at(node);
        bool unsent = !call->stream.pulled;
        end_call(call, (struct belfry_http_end){.how = BELFRY_HTTP_LOST,
                                                .err = unsent ? BELFRY_ERR_UNAVAILABLE : err,
                                                .unprocessed = unsent,
                                                .why = why});
    }
}

/* -> DEAD. No event is made yet: that is last, when nothing can be opened any more. */
static void http_die(struct belfry_http *http, enum belfry_err err, const char *why)
{
    if (http->state == BELFRY_HTTP_DEAD)
        return;
    char text[BELFRY_HTTP_WHY_BYTES * 2];
    snprintf(text, sizeof(text), "%s%s%s", why, http->leaving[0] != '\0' ? ", after " : "", http->leaving);
    belfry_logf(http->log, BELFRY_LOG_DEBUG, "grpc_dead", "authority=%s calls=%zu why=\"%s\"", http->origin.authority,
                http->n_calls, text);
    http_move(http, BELFRY_HTTP_DEAD);
    end_list(&http->waiting, call_fail, err, text);
    end_list(&http->running, call_fail, err, text);
}

/* For receive, pull and tick: what the connection could not survive. Returns `err`. */
static enum belfry_err http_fail(struct belfry_http *http, enum belfry_err err, const char *why)
{
    if (http->h2 != NULL)
        belfry_h2_terminate(http->h2, err == BELFRY_ERR_PROTOCOL ? NGHTTP2_PROTOCOL_ERROR
                                      : err == BELFRY_ERR_NOMEM  ? NGHTTP2_INTERNAL_ERROR
                                                                 : NGHTTP2_NO_ERROR);
    if (why != http->failed_why)
        snprintf(http->failed_why, sizeof(http->failed_why), "%s", why);
    http_die(http, err, why);
    http_flush(http);
    return err;
}

/* The sentence for an error of the machine below, or of one that was noted. */
static const char *failure_of(const struct belfry_http *http, enum belfry_err err)
{
    if (http->failed_why[0] != '\0')
        return http->failed_why;
    return http->h2 != NULL ? belfry_h2_why(http->h2) : belfry_strerror((int)err);
}

void belfry_http_lost(struct belfry_http *http, const char *why)
{
    BELFRY_OWNER_CHECK(http);
    belfry_buf_fini(&http->out);
    http->lent = 0;
    if (http->h2 != NULL)
        belfry_h2_abandon(http->h2);
    if (http->h1 != NULL && http->state != BELFRY_HTTP_DEAD)
        belfry_h1_finish(http->h1);
    http_die(http, BELFRY_ERR_UNAVAILABLE, why);
    http_flush(http);
}

void belfry_http_destroy(struct belfry_http *http)
{
    static const char why[] = "the connection was closed";
    if (http == NULL)
        return;
    BELFRY_OWNER_CHECK(http);
    if (http->h2 != NULL)
        belfry_h2_abandon(http->h2);
    http_die(http, BELFRY_ERR_UNAVAILABLE, why);
    end_list(&http->running, call_force, BELFRY_ERR_UNAVAILABLE, why); /* those that are held */
    http_flush(http);
    http_free(http);
}

/* ---- bytes ---- */

enum belfry_err belfry_http_receive(struct belfry_http *http, struct belfry_bytes bytes, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(http);
    assert(http->state != BELFRY_HTTP_NEW);
    if (http->state == BELFRY_HTTP_DEAD)
        return BELFRY_ERR_UNAVAILABLE;
    if (bytes.len > 0) {
        http->ping_unanswered = false;
        if (!http->ping_steadily)
            http->ping_from_ms = now_ms;
    }
    const char *why = NULL;
    enum belfry_err err = http->failed;
    if (err == BELFRY_OK)
        err = http->h1 != NULL ? belfry_h1_receive(http->h1, bytes, &why) : belfry_h2_receive(http->h2, bytes);
    if (err == BELFRY_OK) {
        err = http->failed; /* an event broke or released a call, and that was its end */
        why = NULL;
    }
    if (err != BELFRY_OK)
        return http_fail(http, err, why != NULL ? why : failure_of(http, err));
    http_flush(http);
    return BELFRY_OK;
}

static enum belfry_err gather(struct belfry_http *http, uint64_t now_ms)
{
    enum belfry_err err = http->failed;
    if (err == BELFRY_OK)
        err = submit_waiting(http, now_ms);
    if (err == BELFRY_OK && http->h2 != NULL)
        err = resume_ready(http);
    if (err == BELFRY_OK && http->h2 != NULL)
        err = belfry_h2_pull(http->h2, GATHER_BYTES, &http->out);
    return err;
}

enum belfry_err belfry_http_pull(struct belfry_http *http, uint64_t now_ms, struct belfry_bytes *out)
{
    BELFRY_OWNER_CHECK(http);
    belfry_buf_take(&http->out, http->lent);
    http->lent = 0;
    if (http->state == BELFRY_HTTP_OPEN || http->state == BELFRY_HTTP_DRAINING) {
        enum belfry_err err = gather(http, now_ms);
        if (err != BELFRY_OK)
            return http_fail(http, err, failure_of(http, err)); /* what was gathered is given next time */
    } else if (http->h2 != NULL) {
        belfry_ignore(belfry_h2_pull(http->h2, GATHER_BYTES, &http->out)); /* a last GOAWAY, if there is one */
    }
    http->lent = belfry_buf_len(&http->out);
    if (http->lent == 0 && http->out.cap > IDLE_BYTES)
        belfry_buf_fini(&http->out);
    *out = belfry_buf_bytes(&http->out);
    return BELFRY_OK;
}

bool belfry_http_wants_write(struct belfry_http *http)
{
    if (belfry_buf_len(&http->out) > http->lent || (http->h2 != NULL && belfry_h2_wants_write(http->h2)))
        return true;
    if (http->state == BELFRY_HTTP_DEAD)
        return false;
    return !belfry_list_empty(&http->ready) || (!belfry_list_empty(&http->waiting) && http_capacity(http) > 0);
}

bool belfry_http_wants_read(const struct belfry_http *http)
{
    struct belfry_h2_stream *current = http->h1 != NULL ? belfry_h1_current(http->h1) : NULL;
    return current == NULL || !call_of(current)->held;
}

/* ---- time ---- */

static uint64_t expire_list(struct belfry_list *calls, uint64_t now_ms, uint64_t next_ms)
{
    belfry_list_each_safe (node, calls) {
        struct belfry_http_call *call = call_at(node);
        if (call->deadline_ms <= now_ms)
            call_fail(call, (struct belfry_http_end){.how = BELFRY_HTTP_EXPIRED,
                                                     .err = BELFRY_ERR_TIMEOUT,
                                                     .unprocessed = !call->stream.pulled,
                                                     .why = "deadline exceeded"});
        else
            next_ms = belfry_min_time(next_ms, call->deadline_ms);
    }
    return next_ms;
}

/* Looks at every call, but only when the earliest deadline has come: of calls that mostly end in time that is about
 * once in the time a call is given, which no ordered structure would beat. */
static void expire_all(struct belfry_http *http, uint64_t now_ms)
{
    if (now_ms < http->next_deadline_ms)
        return;
    http->next_deadline_ms = expire_list(&http->waiting, now_ms, BELFRY_NEVER);
    http->next_deadline_ms = expire_list(&http->running, now_ms, http->next_deadline_ms);
}

static uint64_t ping_due(const struct belfry_http *http)
{
    if (http->h2 == NULL || http->ping_ms == 0)
        return BELFRY_NEVER;
    if (http->ping_unanswered)
        return http->pinged_ms + http->ping_timeout_ms;
    return http->n_calls > 0 ? http->ping_from_ms + http->ping_ms : BELFRY_NEVER;
}

/* Any byte counts as an answer: a peer that is busy sending is alive, whatever it does with PINGs. */
static enum belfry_err keep_alive(struct belfry_http *http, uint64_t now_ms)
{
    if (now_ms < ping_due(http))
        return BELFRY_OK;
    if (http->ping_unanswered)
        return BELFRY_ERR_TIMEOUT;
    http->pinged_ms = now_ms;
    if (http->ping_steadily)
        http->ping_from_ms = now_ms;
    http->ping_unanswered = true;
    return belfry_h2_ping(http->h2);
}

enum belfry_err belfry_http_tick(struct belfry_http *http, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(http);
    http_flush(http);
    if (http->state == BELFRY_HTTP_DEAD)
        return BELFRY_OK;
    if (http->failed != BELFRY_OK)
        return http_fail(http, http->failed, failure_of(http, http->failed));
    expire_all(http, now_ms);
    http_flush(http);
    enum belfry_err err = keep_alive(http, now_ms);
    if (err == BELFRY_ERR_TIMEOUT)
        return http_fail(http, err, "the peer did not answer a PING in time");
    return err == BELFRY_OK ? BELFRY_OK : http_fail(http, err, failure_of(http, err));
}

uint64_t belfry_http_due(const struct belfry_http *http)
{
    if (!belfry_list_empty(&http->ended))
        return 0;
    if (http->state == BELFRY_HTTP_DEAD)
        return BELFRY_NEVER;
    return http->failed != BELFRY_OK ? 0 : belfry_min_time(http->next_deadline_ms, ping_due(http));
}

/* ---- looking ---- */

enum belfry_http_state belfry_http_state(const struct belfry_http *http)
{
    return http->state;
}

enum belfry_http_version belfry_http_version(const struct belfry_http *http)
{
    return http->version;
}

const struct belfry_http_common *belfry_http_common(const struct belfry_http *http)
{
    return &http->common;
}

uint32_t belfry_http_goaway_code(const struct belfry_http *http)
{
    return http->goaway_code;
}

const char *belfry_http_why(const struct belfry_http *http)
{
    return http->failed_why;
}

size_t belfry_http_n_calls(const struct belfry_http *http)
{
    return http->n_calls;
}

size_t belfry_http_room(const struct belfry_http *http)
{
    size_t room = http_capacity(http);
    return room > http->n_waiting ? room - http->n_waiting : 0;
}
