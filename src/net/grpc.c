/* src/net/grpc.c */
#include "net/grpc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/grpc_conn.h"

#define KEEPALIVE_MIN_MS 10000       /* grpc-go's servers count faster pings as abuse and hang up */
#define GATHER_BYTES     (64 * 1024) /* given to the owner in one write */
#define IDLE_BYTES       (16 * 1024) /* an output buffer over this is not kept while nothing is sent */

static void origin_fini(struct belfry_grpc_origin *origin)
{
    free(origin->scheme);
    free(origin->authority);
    free(origin->user_agent);
    free(origin->via);
}

static enum belfry_err origin_init(struct belfry_grpc_origin *origin, const struct belfry_grpc_opts *opts)
{
    origin->scheme = strdup(opts->scheme);
    origin->authority = strdup(opts->authority);
    origin->user_agent = strdup(opts->user_agent);
    origin->via = opts->via != NULL ? strdup(opts->via) : NULL;
    bool whole = origin->scheme != NULL && origin->authority != NULL && origin->user_agent != NULL &&
                 (origin->via != NULL) == (opts->via != NULL);
    return whole ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

enum belfry_err belfry_grpc_create(const struct belfry_grpc_opts *opts, uint64_t now_ms, struct belfry_grpc **out)
{
    if (opts->keepalive_ms < KEEPALIVE_MIN_MS || opts->keepalive_timeout_ms == 0)
        return BELFRY_ERR_INVALID;
    struct belfry_grpc *grpc = calloc(1, sizeof(*grpc));
    if (grpc == NULL)
        return BELFRY_ERR_NOMEM;
    grpc->keepalive_ms = opts->keepalive_ms;
    grpc->keepalive_timeout_ms = opts->keepalive_timeout_ms;
    grpc->max_message_bytes = opts->max_message_bytes;
    grpc->log = opts->log;
    grpc->ping_ms = now_ms;
    grpc->next_deadline_ms = BELFRY_NEVER;
    belfry_list_init(&grpc->waiting);
    belfry_list_init(&grpc->running);
    belfry_list_init(&grpc->ended);
    belfry_list_init(&grpc->ready);

    enum belfry_err err = origin_init(&grpc->origin, opts);
    if (err == BELFRY_OK)
        err = belfry_h2_create(BELFRY_GRPC_WINDOW, &belfry_grpc_h2_events, grpc, &grpc->h2);
    if (err != BELFRY_OK) {
        belfry_grpc_destroy(grpc);
        return err;
    }
    *out = grpc;
    return BELFRY_OK;
}

void belfry_grpc_destroy(struct belfry_grpc *grpc)
{
    if (grpc == NULL)
        return;
    belfry_grpc_lost(grpc, "the connection was closed");
    belfry_h2_destroy(grpc->h2);
    origin_fini(&grpc->origin);
    belfry_buf_fini(&grpc->out);
    free(grpc);
}

static void abort_all(struct belfry_list *calls, const char *why)
{
    belfry_list_each_safe (node, calls) {
        struct belfry_grpc_call *call = belfry_container(node, struct belfry_grpc_call, node);
        belfry_grpc_call_abort(call, BELFRY_GRPC_UNAVAILABLE, why, !call->stream.pulled);
    }
}

/* OPEN or DRAINING -> DEAD. Callbacks are made last, when nothing can be opened any more. */
static void die(struct belfry_grpc *grpc, const char *why)
{
    if (grpc->state == BELFRY_GRPC_DEAD)
        return;
    char text[BELFRY_GRPC_WHY_BYTES * 2];
    snprintf(text, sizeof(text), "%s%s%s", why, grpc->goaway[0] != '\0' ? ", after " : "", grpc->goaway);
    belfry_logf(grpc->log, BELFRY_LOG_DEBUG, "grpc_dead", "authority=%s calls=%zu why=\"%s\"", grpc->origin.authority,
                grpc->n_calls, text);
    grpc->state = BELFRY_GRPC_DEAD;
    abort_all(&grpc->waiting, text);
    abort_all(&grpc->running, text);
    belfry_grpc_flush(grpc);
}

/* For receive, pull and tick: what the connection could not survive. Returns `err`. */
static enum belfry_err fail_with(struct belfry_grpc *grpc, enum belfry_err err, const char *why)
{
    uint32_t code = err == BELFRY_ERR_PROTOCOL ? NGHTTP2_PROTOCOL_ERROR
                    : err == BELFRY_ERR_NOMEM  ? NGHTTP2_INTERNAL_ERROR
                                               : NGHTTP2_NO_ERROR;
    belfry_h2_terminate(grpc->h2, code);
    die(grpc, why);
    return err;
}

enum belfry_err belfry_grpc_receive(struct belfry_grpc *grpc, struct belfry_bytes bytes, uint64_t now_ms)
{
    (void)now_ms;
    if (grpc->state == BELFRY_GRPC_DEAD)
        return BELFRY_ERR_UNAVAILABLE;
    if (bytes.len > 0)
        grpc->ping_unanswered = false;
    enum belfry_err err = grpc->failed;
    if (err == BELFRY_OK)
        err = belfry_h2_receive(grpc->h2, bytes);
    if (err == BELFRY_OK)
        err = grpc->failed; /* a callback released a call and there was no memory */
    if (err != BELFRY_OK)
        return fail_with(grpc, err, belfry_h2_why(grpc->h2));
    belfry_grpc_flush(grpc);
    return BELFRY_OK;
}

static enum belfry_err submit_waiting(struct belfry_grpc *grpc, uint64_t now_ms)
{
    while (!belfry_list_empty(&grpc->waiting) && belfry_h2_room(grpc->h2) > 0) {
        enum belfry_err err =
            belfry_grpc_call_submit(belfry_container(grpc->waiting.next, struct belfry_grpc_call, node), now_ms);
        if (err == BELFRY_ERR_LIMIT) { /* stream ids are used up: as if the peer had said GOAWAY */
            belfry_grpc_goaway(grpc, INT32_MAX, NGHTTP2_NO_ERROR, belfry_bytes_str("out of stream ids"));
            return BELFRY_OK;
        }
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

static enum belfry_err resume_ready(struct belfry_grpc *grpc)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(&grpc->ready)) != NULL) {
        struct belfry_grpc_call *call = belfry_container(node, struct belfry_grpc_call, ready_node);
        enum belfry_err err = belfry_h2_resume(grpc->h2, &call->stream);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

static enum belfry_err gather(struct belfry_grpc *grpc, uint64_t now_ms)
{
    enum belfry_err err = grpc->failed;
    if (err == BELFRY_OK)
        err = submit_waiting(grpc, now_ms);
    if (err == BELFRY_OK)
        err = resume_ready(grpc);
    if (err == BELFRY_OK)
        err = belfry_h2_pull(grpc->h2, GATHER_BYTES, &grpc->out);
    return err;
}

enum belfry_err belfry_grpc_pull(struct belfry_grpc *grpc, uint64_t now_ms, struct belfry_bytes *out)
{
    belfry_buf_take(&grpc->out, grpc->lent);
    grpc->lent = 0;
    if (grpc->state != BELFRY_GRPC_DEAD) {
        enum belfry_err err = gather(grpc, now_ms);
        if (err != BELFRY_OK)
            return fail_with(grpc, err, belfry_h2_why(grpc->h2)); /* what was gathered is given next time */
    } else {
        belfry_ignore(belfry_h2_pull(grpc->h2, GATHER_BYTES, &grpc->out)); /* a last GOAWAY, if there is one */
    }
    grpc->lent = belfry_buf_len(&grpc->out);
    if (grpc->lent == 0 && grpc->out.cap > IDLE_BYTES)
        belfry_buf_fini(&grpc->out);
    *out = belfry_buf_bytes(&grpc->out);
    return BELFRY_OK;
}

bool belfry_grpc_wants_write(struct belfry_grpc *grpc)
{
    if (belfry_buf_len(&grpc->out) > grpc->lent || belfry_h2_wants_write(grpc->h2))
        return true;
    if (grpc->state == BELFRY_GRPC_DEAD)
        return false;
    return !belfry_list_empty(&grpc->ready) || (!belfry_list_empty(&grpc->waiting) && belfry_h2_room(grpc->h2) > 0);
}

void belfry_grpc_lost(struct belfry_grpc *grpc, const char *why)
{
    belfry_buf_fini(&grpc->out);
    grpc->lent = 0;
    if (grpc->h2 != NULL)
        belfry_h2_abandon(grpc->h2);
    die(grpc, why);
}

/* Printable, so that it can be logged and shown. */
static void describe_goaway(struct belfry_grpc *grpc, uint32_t code, struct belfry_bytes debug)
{
    int n = snprintf(grpc->goaway, sizeof(grpc->goaway), "GOAWAY %s", nghttp2_http2_strerror(code));
    size_t at = (size_t)n;
    if (debug.len > 0)
        at += (size_t)snprintf(grpc->goaway + at, sizeof(grpc->goaway) - at, ": ");
    for (size_t i = 0; i < debug.len && at < sizeof(grpc->goaway) - 1; i++)
        grpc->goaway[at++] = debug.data[i] >= ' ' && debug.data[i] <= '~' ? debug.data[i] : '?';
    grpc->goaway[at] = '\0';
}

/* Calls that the peer will not look at: what it said so of, and what can no longer be sent. One that is answered and
 * only waits to be taken has been pulled and has no stream any more (id 0): it stays. */
static void abort_unseen(struct belfry_grpc *grpc, struct belfry_list *calls, int32_t last_id)
{
    belfry_list_each_safe (node, calls) {
        struct belfry_grpc_call *call = belfry_container(node, struct belfry_grpc_call, node);
        if (!call->stream.pulled || call->stream.id > last_id)
            belfry_grpc_call_abort(call, BELFRY_GRPC_UNAVAILABLE, grpc->goaway, true);
    }
}

void belfry_grpc_goaway(struct belfry_grpc *grpc, int32_t last_id, uint32_t code, struct belfry_bytes debug)
{
    describe_goaway(grpc, code, debug);
    belfry_logf(grpc->log, code == NGHTTP2_NO_ERROR ? BELFRY_LOG_INFO : BELFRY_LOG_WARN, "grpc_goaway",
                "authority=%s calls=%zu last_id=%d why=\"%s\"", grpc->origin.authority, grpc->n_calls, (int)last_id,
                grpc->goaway);
    if (grpc->state == BELFRY_GRPC_OPEN)
        grpc->state = BELFRY_GRPC_DRAINING;
    abort_unseen(grpc, &grpc->waiting, last_id);
    abort_unseen(grpc, &grpc->running, last_id);
}

static uint64_t expire(struct belfry_list *calls, uint64_t now_ms, uint64_t next_ms)
{
    belfry_list_each_safe (node, calls) {
        struct belfry_grpc_call *call = belfry_container(node, struct belfry_grpc_call, node);
        if (call->deadline_ms <= now_ms)
            belfry_grpc_call_abort(call, BELFRY_GRPC_DEADLINE_EXCEEDED, "deadline exceeded", !call->stream.pulled);
        else
            next_ms = belfry_min_time(next_ms, call->deadline_ms);
    }
    return next_ms;
}

/* Looks at every call, but only when the earliest deadline has come: of calls that mostly end in time that is about
 * once in the time a call is given, which no ordered structure would beat. */
static void expire_all(struct belfry_grpc *grpc, uint64_t now_ms)
{
    if (now_ms < grpc->next_deadline_ms)
        return;
    grpc->next_deadline_ms = expire(&grpc->waiting, now_ms, BELFRY_NEVER);
    grpc->next_deadline_ms = expire(&grpc->running, now_ms, grpc->next_deadline_ms);
}

static uint64_t ping_due(const struct belfry_grpc *grpc)
{
    if (grpc->ping_unanswered)
        return grpc->ping_ms + grpc->keepalive_timeout_ms;
    return grpc->n_calls > 0 ? grpc->ping_ms + grpc->keepalive_ms : BELFRY_NEVER;
}

/* Any byte counts as an answer: a peer that is busy sending is alive, whatever it does with PINGs. */
static enum belfry_err keep_alive(struct belfry_grpc *grpc, uint64_t now_ms)
{
    if (now_ms < ping_due(grpc))
        return BELFRY_OK;
    if (grpc->ping_unanswered)
        return BELFRY_ERR_TIMEOUT;
    grpc->ping_ms = now_ms;
    grpc->ping_unanswered = true;
    return belfry_h2_ping(grpc->h2);
}

enum belfry_err belfry_grpc_tick(struct belfry_grpc *grpc, uint64_t now_ms)
{
    if (grpc->state == BELFRY_GRPC_DEAD)
        return BELFRY_OK;
    if (grpc->failed != BELFRY_OK)
        return fail_with(grpc, grpc->failed, belfry_h2_why(grpc->h2));
    expire_all(grpc, now_ms);
    belfry_grpc_flush(grpc);
    enum belfry_err err = keep_alive(grpc, now_ms);
    if (err == BELFRY_ERR_TIMEOUT)
        return fail_with(grpc, err, "the peer did not answer a PING in time");
    return err == BELFRY_OK ? BELFRY_OK : fail_with(grpc, err, belfry_h2_why(grpc->h2));
}

uint64_t belfry_grpc_due(const struct belfry_grpc *grpc)
{
    if (grpc->state == BELFRY_GRPC_DEAD)
        return BELFRY_NEVER;
    if (grpc->failed != BELFRY_OK || !belfry_list_empty(&grpc->ended))
        return 0;
    return belfry_min_time(grpc->next_deadline_ms, ping_due(grpc));
}

enum belfry_grpc_state belfry_grpc_state(const struct belfry_grpc *grpc)
{
    return grpc->state;
}

size_t belfry_grpc_n_calls(const struct belfry_grpc *grpc)
{
    return grpc->n_calls;
}
