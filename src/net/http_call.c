/* src/net/http_call.c */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "net/http_private.h"

static void call_free(struct belfry_http_call *call)
{
    belfry_http_ask_destroy(call->ask);
    belfry_http_answer_clear(&call->answer);
    belfry_buf_fini(&call->undelivered);
    free(call->why);
    free(call);
}

/* Moves the call to `state` and into `list`, NULL when it is GONE. */
static void move(struct belfry_http_call *call, enum belfry_http_call_state state, struct belfry_list *list)
{
    assert(state >= call->state && call->state != BELFRY_HTTP_CALL_GONE);
    assert((state == BELFRY_HTTP_CALL_GONE) == (list == NULL));
    if (call->state == BELFRY_HTTP_CALL_WAITING)
        call->http->n_waiting--;
    if (state == BELFRY_HTTP_CALL_GONE)
        call->http->n_calls--;
    call->state = state;
    belfry_list_remove(&call->node);
    if (list != NULL)
        belfry_list_append(list, &call->node);
}

void belfry_http_call_enter(struct belfry_http_call *call)
{
    call->on_stack++;
}

void belfry_http_call_leave(struct belfry_http_call *call)
{
    call->on_stack--;
    if (call->state == BELFRY_HTTP_CALL_GONE && call->on_stack == 0)
        call_free(call);
}

void belfry_http_flush(struct belfry_http *http)
{
    while (!belfry_list_empty(&http->ended)) {
        struct belfry_http_call *call = belfry_container(http->ended.next, struct belfry_http_call, node);
        move(call, BELFRY_HTTP_CALL_GONE, NULL);
        belfry_http_call_enter(call);
        if (call->err == BELFRY_OK)
            call->events.end(call, call->user);
        else
            call->events.failed(call, call->err, call->why != NULL ? call->why : "", call->unprocessed, call->user);
        belfry_http_call_leave(call);
    }
}

/* ---- opening ---- */

enum belfry_err belfry_http_call_open(struct belfry_http *http, const struct belfry_http_request *request,
                                      const struct belfry_http_events *events, void *user,
                                      struct belfry_http_call **out)
{
    if (http->state != BELFRY_HTTP_NEW && http->state != BELFRY_HTTP_OPEN)
        return BELFRY_ERR_UNAVAILABLE;
    struct belfry_http_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = belfry_http_ask_create(&http->origin, request, &call->ask);
    if (err != BELFRY_OK) {
        free(call);
        return err;
    }
    call->http = http;
    call->events = *events;
    call->user = user;
    call->is_head = belfry_http_ask_is_head(call->ask);
    belfry_list_append(&http->waiting, &call->node);
    http->n_waiting++;
    http->n_calls++;
    *out = call;
    return BELFRY_OK;
}

void belfry_http_call_sent(struct belfry_http_call *call)
{
    belfry_http_ask_destroy(call->ask);
    call->ask = NULL;
    move(call, BELFRY_HTTP_CALL_SENT, &call->http->running);
}

/* The peer's part of the call is not waited for any more. Whether the connection can go on without it. */
static bool let_go(struct belfry_http_call *call)
{
    struct belfry_http *http = call->http;
    if (http->h2 != NULL)
        belfry_h2_reset(http->h2, &call->stream, NGHTTP2_CANCEL);
    return http->h1 == NULL || belfry_http1_forget(http->h1, call);
}

void belfry_http_call_cancel(struct belfry_http_call *call)
{
    struct belfry_http *http = call->http;
    if (call->state == BELFRY_HTTP_CALL_GONE)
        return;
    bool usable = let_go(call);
    belfry_http_call_enter(call);
    move(call, BELFRY_HTTP_CALL_GONE, NULL);
    belfry_http_call_leave(call);
    if (!usable)
        belfry_http_die(http, BELFRY_ERR_UNAVAILABLE, "the call before was cancelled");
}

/* ---- telling ---- */

static bool has_undelivered(const struct belfry_http_call *call)
{
    return call->head_due || belfry_buf_len(&call->undelivered) > 0;
}

/* True while the call can be told something; its callbacks may hold or cancel it. */
static bool listens(const struct belfry_http_call *call)
{
    return !call->held && call->state != BELFRY_HTTP_CALL_GONE;
}

static void tell_head(struct belfry_http_call *call)
{
    struct belfry_http_answer answer = call->answer; /* it stays while it is told, whatever becomes of the call */
    call->answer = (struct belfry_http_answer){0};
    call->head_due = false;
    call->events.head(call, &call->head, call->user);
    belfry_http_answer_clear(&answer);
}

static void tell_body(struct belfry_http_call *call, struct belfry_bytes bytes)
{
    call->events.body(call, bytes, call->user);
    if (call->http->h2 != NULL)
        belfry_h2_taken(call->http->h2, &call->stream, bytes.len);
}

static void tell_undelivered_body(struct belfry_http_call *call)
{
    struct belfry_buf buf = call->undelivered;
    belfry_buf_init(&call->undelivered);
    tell_body(call, belfry_buf_bytes(&buf));
    belfry_buf_fini(&buf);
}

/* Tells what waits, in order, as far as the call lets it. Between enter() and leave(). */
static void tell(struct belfry_http_call *call)
{
    call->delivering = true;
    while (listens(call) && has_undelivered(call)) {
        if (call->head_due)
            tell_head(call);
        else
            tell_undelivered_body(call);
    }
    call->delivering = false;
}

/* Puts a call that is over where its last callback is made from, unless something comes before that. */
static void put_over(struct belfry_http_call *call)
{
    bool due = !call->held && !call->delivering && !has_undelivered(call);
    move(call, BELFRY_HTTP_CALL_OVER, due ? &call->http->ended : &call->http->running);
}

/* After whatever may have changed that. */
static void settle(struct belfry_http_call *call)
{
    if (call->state == BELFRY_HTTP_CALL_OVER)
        put_over(call);
}

void belfry_http_call_head(struct belfry_http_call *call)
{
    call->head_due = true;
    move(call, BELFRY_HTTP_CALL_BODY, &call->http->running);
    belfry_http_call_enter(call);
    tell(call);
    settle(call);
    belfry_http_call_leave(call);
}

enum belfry_err belfry_http_call_body(struct belfry_http_call *call, struct belfry_bytes bytes)
{
    if (bytes.len == 0)
        return BELFRY_OK;
    if (!listens(call) || has_undelivered(call)) {
        if (bytes.len > BELFRY_HTTP_WINDOW - belfry_buf_len(&call->undelivered))
            return BELFRY_ERR_LIMIT;
        return belfry_buf_append(&call->undelivered, bytes.data, bytes.len);
    }
    belfry_http_call_enter(call);
    call->delivering = true;
    tell_body(call, bytes);
    call->delivering = false;
    settle(call);
    belfry_http_call_leave(call);
    return BELFRY_OK;
}

/* ---- the end ---- */

static void conclude(struct belfry_http_call *call, enum belfry_err err, const char *why, bool unprocessed)
{
    assert(call->state < BELFRY_HTTP_CALL_OVER);
    call->err = err;
    call->why = why != NULL ? strdup(why) : NULL; /* without memory for it, it ends without a sentence */
    /* Who answers has seen it, whatever it says. */
    call->unprocessed = unprocessed && call->state < BELFRY_HTTP_CALL_BODY;
    put_over(call);
}

void belfry_http_call_end(struct belfry_http_call *call)
{
    conclude(call, BELFRY_OK, NULL, false);
}

void belfry_http_call_fail(struct belfry_http_call *call, enum belfry_err err, const char *why, bool unprocessed)
{
    if (call->state == BELFRY_HTTP_CALL_OVER)
        return; /* answered, and only waits to be taken */
    /* Of HTTP/1.1, only a connection that dies fails what was sent: whether it can go on is no question. */
    (void)let_go(call);
    conclude(call, err, why, unprocessed);
}

bool belfry_http_call_is_unsent(const struct belfry_http_call *call)
{
    bool queued = call->state == BELFRY_HTTP_CALL_SENT && call->http->h2 != NULL && !call->stream.pulled;
    return call->state == BELFRY_HTTP_CALL_WAITING || queued;
}

void belfry_http_call_force(struct belfry_http_call *call, const char *why)
{
    belfry_http_call_fail(call, BELFRY_ERR_UNAVAILABLE, why, belfry_http_call_is_unsent(call));
    if (has_undelivered(call) && call->err == BELFRY_OK) { /* the end of what nobody was told is none */
        call->err = BELFRY_ERR_UNAVAILABLE;
        call->why = strdup(why);
    }
    call->head_due = false;
    belfry_buf_fini(&call->undelivered);
    call->held = false;
    settle(call);
}

/* ---- holding ---- */

void belfry_http_call_hold(struct belfry_http_call *call, bool hold)
{
    struct belfry_http *http = call->http;
    call->held = hold;
    if (hold || call->delivering) { /* whoever makes the callback we are in goes on by itself */
        settle(call);
        return;
    }
    belfry_http_call_enter(call);
    tell(call);
    settle(call);
    belfry_http_call_leave(call);
    belfry_http_flush(http);
}
