/* src/net/grpc.c */
#include "net/grpc.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/grpc_frame.h"
#include "net/grpc_head.h"
#include "net/grpc_reply.h"
#include "net/gzip.h"

#define KEEPALIVE_MIN_MS 10000       /* grpc-go's servers count faster pings as abuse and hang up */
#define IDLE_BYTES       (16 * 1024) /* a send buffer over this is not kept while nothing is queued */

struct belfry_grpc_call {
    struct belfry_http_call call;
    /* fixed at creation */
    struct belfry_grpc_events events;
    void *user;
    /* to the peer */
    char timeout[BELFRY_GRPC_TIMEOUT_BYTES]; /* what is left when its HEADERS are made */
    struct belfry_buf queued;                /* framed messages that were not pulled */
    bool half_closed;
    /* from the peer */
    size_t max_message_bytes;
    struct belfry_grpc_reply reply;
    struct belfry_grpc_frame frame;
    int broken_code; /* what a call that we broke off ends with */
    bool too_large;
};

static struct belfry_grpc_call *grpc_call_of(struct belfry_http_call *call)
{
    return belfry_container(call, struct belfry_grpc_call, call);
}

/* ---- the connection ---- */

struct belfry_http_opts belfry_grpc_http_opts(const struct belfry_grpc_opts *opts)
{
    return (struct belfry_http_opts){.scheme = opts->scheme,
                                     .authority = opts->authority,
                                     .common = {opts->user_agent, opts->via, opts->max_message_bytes},
                                     .window = BELFRY_GRPC_WINDOW,
                                     .ping_ms = opts->keepalive_ms,
                                     .ping_timeout_ms = opts->keepalive_timeout_ms,
                                     .ping_steadily = true,
                                     .log = opts->log};
}

enum belfry_err belfry_grpc_connect(const struct belfry_grpc_opts *opts, uint64_t now_ms, struct belfry_http **out)
{
    if (opts->keepalive_ms < KEEPALIVE_MIN_MS || opts->keepalive_timeout_ms == 0)
        return BELFRY_ERR_INVALID;
    struct belfry_http_opts http_opts = belfry_grpc_http_opts(opts);
    struct belfry_http *http;
    enum belfry_err err = belfry_http_create(&http_opts, now_ms, &http);
    if (err != BELFRY_OK)
        return err;
    err = belfry_http_start(http, BELFRY_HTTP_2, now_ms);
    if (err != BELFRY_OK) {
        belfry_http_destroy(http);
        return err;
    }
    *out = http;
    return BELFRY_OK;
}

/* ---- the request ---- */

static bool on_late(struct belfry_http_call *call, uint64_t now_ms, struct belfry_http_field *out)
{
    struct belfry_grpc_call *grpc_call = grpc_call_of(call);
    if (call->deadline_ms == BELFRY_NEVER)
        return false;
    belfry_grpc_timeout(call->deadline_ms > now_ms ? call->deadline_ms - now_ms : 1, grpc_call->timeout);
    *out = (struct belfry_http_field){belfry_bytes_str("grpc-timeout"), belfry_bytes_str(grpc_call->timeout)};
    return true;
}

static size_t on_read(struct belfry_http_call *call, uint8_t *to, size_t cap, bool *out_end)
{
    struct belfry_grpc_call *grpc_call = grpc_call_of(call);
    struct belfry_buf *queued = &grpc_call->queued;
    size_t n = belfry_buf_len(queued);
    n = n < cap ? n : cap;
    if (n > 0)
        memcpy(to, belfry_buf_bytes(queued).data, n);
    belfry_buf_take(queued, n);
    bool all = belfry_buf_len(queued) == 0;
    if (all && queued->cap > IDLE_BYTES)
        belfry_buf_fini(queued);
    *out_end = all && grpc_call->half_closed;
    return n;
}

enum belfry_err belfry_grpc_call_send(struct belfry_grpc_call *call, struct belfry_bytes message)
{
    if (call->call.state > BELFRY_HTTP_CALL_RUNNING)
        return BELFRY_OK; /* the peer has ended the call and `closed` will say so */
    if (call->half_closed || message.len > UINT32_MAX)
        return BELFRY_ERR_INVALID;
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(&call->queued, BELFRY_GRPC_PREFIX_BYTES + message.len, &to);
    if (err != BELFRY_OK)
        return err;
    belfry_grpc_frame_prefix(to, message.len);
    if (message.len > 0)
        memcpy(to + BELFRY_GRPC_PREFIX_BYTES, message.data, message.len);
    belfry_buf_grown(&call->queued, BELFRY_GRPC_PREFIX_BYTES + message.len);
    belfry_http_call_resume(&call->call);
    return BELFRY_OK;
}

void belfry_grpc_call_half_close(struct belfry_grpc_call *call)
{
    call->half_closed = true;
    belfry_http_call_resume(&call->call);
}

size_t belfry_grpc_call_queued(const struct belfry_grpc_call *call)
{
    return belfry_buf_len(&call->queued);
}

/* ---- the response ---- */

/* What the peer sent cannot be used: the call ends here, and the peer is told. */
static void break_off(struct belfry_grpc_call *call, int code, const char *why)
{
    call->broken_code = code;
    belfry_http_call_break(&call->call, BELFRY_ERR_PROTOCOL, why);
}

/* No grpc-status came: says what came instead. */
static void describe_http(const struct belfry_grpc_reply *reply, char *to, size_t cap)
{
    if (reply->type[0] == '\0')
        snprintf(to, cap, "HTTP %d without content-type and grpc-status", reply->http_status);
    else
        snprintf(to, cap, "HTTP %d with content-type %s, without grpc-status", reply->http_status, reply->type);
}

static enum belfry_err on_field(struct belfry_http_call *call, struct belfry_bytes name, struct belfry_bytes value)
{
    return belfry_grpc_reply_field(&grpc_call_of(call)->reply, name, value);
}

static enum belfry_err on_block(struct belfry_http_call *call, bool last)
{
    struct belfry_grpc_call *grpc_call = grpc_call_of(call);
    struct belfry_grpc_reply *reply = &grpc_call->reply;
    if (last)
        return BELFRY_OK;
    if (reply->http_status / 100 == 1) {
        belfry_grpc_reply_fini(reply); /* informational: the response is yet to come */
    } else if (!belfry_grpc_reply_is_grpc(reply) && reply->code < 0) {
        char why[BELFRY_HTTP_WHY_BYTES];
        describe_http(reply, why, sizeof(why));
        break_off(grpc_call, belfry_grpc_code_of_http(reply->http_status), why);
    }
    return BELFRY_OK;
}

static enum belfry_err unpack(struct belfry_grpc_call *call, struct belfry_blob **message, const char **out_why)
{
    struct belfry_blob *packed = *message;
    *out_why = "received a compressed message in an encoding that was not announced or is not known";
    if (call->reply.encoding != BELFRY_GRPC_GZIP)
        return BELFRY_ERR_PROTOCOL;
    *out_why = "received a message that does not unpack";
    enum belfry_err err = belfry_gzip_unpack(belfry_blob_bytes(packed), call->max_message_bytes, message);
    if (err == BELFRY_OK)
        belfry_blob_unref(packed);
    return err;
}

static void break_off_with(struct belfry_grpc_call *call, enum belfry_err err, const char *why)
{
    char text[BELFRY_HTTP_WHY_BYTES];
    call->too_large = err == BELFRY_ERR_TOO_LARGE;
    snprintf(text, sizeof(text), "received a message larger than %zu bytes", call->max_message_bytes);
    break_off(call, call->too_large ? BELFRY_GRPC_RESOURCE_EXHAUSTED : BELFRY_GRPC_INTERNAL,
              call->too_large ? text : why);
}

/* Takes bytes from *in until a message is whole or there are no more, and makes its callback. */
static enum belfry_err on_data(struct belfry_http_call *call, struct belfry_bytes *in)
{
    struct belfry_grpc_call *grpc_call = grpc_call_of(call);
    struct belfry_blob *message;
    bool compressed;
    const char *why = "received a message with an unknown flag";
    if (grpc_call->reply.http_status != 200) { /* the page of an error: no message */
        *in = (struct belfry_bytes){0};
        return BELFRY_OK;
    }
    enum belfry_err err =
        belfry_grpc_frame_feed(&grpc_call->frame, in, grpc_call->max_message_bytes, &message, &compressed);
    if (err == BELFRY_OK && message != NULL) {
        if (compressed)
            err = unpack(grpc_call, &message, &why);
        if (err == BELFRY_OK)
            grpc_call->events.message(grpc_call, message, grpc_call->user);
        belfry_blob_unref(message);
    }
    if (err == BELFRY_OK || err == BELFRY_ERR_NOMEM)
        return err;
    break_off_with(grpc_call, err, why);
    return BELFRY_OK;
}

/* The stream has ended: what its headers and trailers say. */
static struct belfry_grpc_status conclude(const struct belfry_grpc_call *call, char *text, size_t cap)
{
    const struct belfry_grpc_reply *reply = &call->reply;
    struct belfry_grpc_status status = {.code = reply->code, .message = "", .from_server = true};
    if (reply->code < 0) {
        describe_http(reply, text, cap);
        status = (struct belfry_grpc_status){.code = belfry_grpc_code_of_http(reply->http_status), .message = text};
    } else if (reply->message != NULL && reply->message[0] != '\0') {
        status.message = reply->message;
    } else if (reply->code_malformed) {
        status.message = "malformed grpc-status";
    }
    if (status.code == BELFRY_GRPC_OK && belfry_grpc_frame_inside(&call->frame))
        status =
            (struct belfry_grpc_status){.code = BELFRY_GRPC_INTERNAL, .message = "the stream ended inside a message"};
    return status;
}

static void on_closed(struct belfry_http_call *call, const struct belfry_http_end *end)
{
    struct belfry_grpc_call *grpc_call = grpc_call_of(call);
    char text[BELFRY_HTTP_WHY_BYTES * 2];
    struct belfry_grpc_status status = {
        .code = BELFRY_GRPC_UNAVAILABLE, .message = end->why, .unprocessed = end->unprocessed};
    switch (end->how) {
    case BELFRY_HTTP_ENDED:
        status = conclude(grpc_call, text, sizeof(text));
        break;
    case BELFRY_HTTP_RESET:
        status.code = belfry_grpc_code_of_h2(end->h2_code);
        snprintf(text, sizeof(text), "the stream was reset: %s", end->why);
        status.message = text;
        break;
    case BELFRY_HTTP_EXPIRED:
        status.code = BELFRY_GRPC_DEADLINE_EXCEEDED;
        break;
    case BELFRY_HTTP_BROKEN:
        status.code = grpc_call->broken_code;
        status.too_large = grpc_call->too_large;
        break;
    case BELFRY_HTTP_GOAWAY:
    case BELFRY_HTTP_LOST:
        break;
    }
    grpc_call->events.closed(grpc_call, &status, grpc_call->user);
}

static void on_gone(struct belfry_http_call *call)
{
    struct belfry_grpc_call *grpc_call = grpc_call_of(call);
    belfry_buf_fini(&grpc_call->queued);
    belfry_grpc_frame_fini(&grpc_call->frame);
    belfry_grpc_reply_fini(&grpc_call->reply);
    free(grpc_call);
}

static const struct belfry_http_events call_events = {
    .late = on_late,
    .read = on_read,
    .field = on_field,
    .block = on_block,
    .data = on_data,
    .closed = on_closed,
    .gone = on_gone,
};

/* ---- the owner's side ---- */

enum belfry_err belfry_grpc_call_open(struct belfry_http *http, const struct belfry_grpc_call_opts *opts,
                                      const struct belfry_grpc_events *events, void *user,
                                      struct belfry_grpc_call **out)
{
    struct belfry_http_ask *ask;
    struct belfry_grpc_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return BELFRY_ERR_NOMEM;
    call->events = *events;
    call->user = user;
    call->max_message_bytes = belfry_http_common(http)->max_message_bytes;
    call->broken_code = BELFRY_GRPC_INTERNAL;
    belfry_grpc_reply_init(&call->reply);
    enum belfry_err err = belfry_grpc_head_create(belfry_http_common(http), opts, &ask);
    if (err == BELFRY_OK)
        err = belfry_http_call_open(http, &call->call, ask, opts->deadline_ms, &call_events);
    if (err != BELFRY_OK) {
        free(call);
        return err;
    }
    *out = call;
    return BELFRY_OK;
}

void belfry_grpc_call_limit(struct belfry_grpc_call *call, size_t max_message_bytes)
{
    size_t most = belfry_http_common(call->call.http)->max_message_bytes;
    call->max_message_bytes = max_message_bytes != 0 && max_message_bytes < most ? max_message_bytes : most;
}

void belfry_grpc_call_cancel(struct belfry_grpc_call *call)
{
    belfry_http_call_cancel(&call->call);
}
