/* src/net/grpc_call.c */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/grpc_conn.h"
#include "net/gzip.h"

#define IDLE_BYTES (16 * 1024) /* a send buffer over this is not kept while nothing is queued */

static struct belfry_grpc_call *call_of(struct belfry_h2_stream *stream)
{
    return belfry_container(stream, struct belfry_grpc_call, stream);
}

static void call_free(struct belfry_grpc_call *call)
{
    free(call->head);
    free(call->text);
    belfry_buf_fini(&call->queued);
    belfry_buf_fini(&call->undelivered);
    belfry_grpc_frame_fini(&call->frame);
    belfry_grpc_reply_fini(&call->reply);
    free(call);
}

/* Moves the call to `state` and into `list`, NULL when it is GONE. */
static void move(struct belfry_grpc_call *call, enum belfry_call_state state, struct belfry_list *list)
{
    struct belfry_grpc *grpc = call->grpc;
    assert(state >= call->state && call->state != BELFRY_CALL_GONE);
    assert((state == BELFRY_CALL_GONE) == (list == NULL));
    if (call->state == BELFRY_CALL_WAITING)
        grpc->n_waiting--;
    if (state == BELFRY_CALL_GONE)
        grpc->n_calls--;
    call->state = state;
    belfry_list_remove(&call->node);
    if (state != BELFRY_CALL_RUNNING)
        belfry_list_remove(&call->ready_node);
    if (list != NULL)
        belfry_list_append(list, &call->node);
}

/* A callback is about to be made: the call stays allocated until the matching leave(). */
static void enter(struct belfry_grpc_call *call)
{
    call->on_stack++;
}

static void leave(struct belfry_grpc_call *call)
{
    call->on_stack--;
    if (call->state == BELFRY_CALL_GONE && call->on_stack == 0)
        call_free(call);
}

/* How the call ended, when the server did not say. Without memory for the sentence it ends without one. */
static void set_status(struct belfry_grpc_call *call, int code, const char *why, bool unprocessed)
{
    free(call->text);
    call->text = strdup(why);
    call->status = (struct belfry_grpc_status){
        .code = code, .message = call->text != NULL ? call->text : "", .unprocessed = unprocessed};
}

void belfry_grpc_call_abort(struct belfry_grpc_call *call, int code, const char *why, bool unprocessed)
{
    belfry_h2_reset(call->grpc->h2, &call->stream, NGHTTP2_CANCEL);
    belfry_buf_fini(&call->undelivered);
    call->held = false;
    set_status(call, code, why, unprocessed);
    move(call, BELFRY_CALL_CLOSING, &call->grpc->ended);
}

void belfry_grpc_flush(struct belfry_grpc *grpc)
{
    while (!belfry_list_empty(&grpc->ended)) {
        struct belfry_grpc_call *call = belfry_container(grpc->ended.next, struct belfry_grpc_call, node);
        move(call, BELFRY_CALL_GONE, NULL);
        enter(call);
        call->events.closed(call, &call->status, call->user);
        leave(call);
    }
}

/* ---- opening and sending ---- */

static bool too_many_wait(const struct belfry_grpc *grpc)
{
    size_t room = belfry_h2_room(grpc->h2);
    return grpc->n_waiting >= BELFRY_GRPC_WAITING_MAX && grpc->n_waiting - BELFRY_GRPC_WAITING_MAX >= room;
}

enum belfry_err belfry_grpc_call_open(struct belfry_grpc *grpc, const struct belfry_grpc_call_opts *opts,
                                      const struct belfry_grpc_events *events, void *user, uint64_t now_ms,
                                      struct belfry_grpc_call **out)
{
    (void)now_ms;
    if (grpc->state != BELFRY_GRPC_OPEN || grpc->failed != BELFRY_OK)
        return BELFRY_ERR_UNAVAILABLE;
    if (too_many_wait(grpc))
        return BELFRY_ERR_LIMIT;
    struct belfry_grpc_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = belfry_grpc_head_create(&grpc->origin, opts, &call->head);
    if (err != BELFRY_OK) {
        free(call);
        return err;
    }
    call->grpc = grpc;
    call->events = *events;
    call->user = user;
    call->deadline_ms = opts->deadline_ms;
    call->max_message_bytes = grpc->max_message_bytes;
    belfry_grpc_reply_init(&call->reply);
    belfry_list_init(&call->ready_node);
    belfry_list_append(&grpc->waiting, &call->node);
    grpc->n_waiting++;
    grpc->n_calls++;
    grpc->next_deadline_ms = belfry_min_time(grpc->next_deadline_ms, call->deadline_ms);
    *out = call;
    return BELFRY_OK;
}

enum belfry_err belfry_grpc_call_submit(struct belfry_grpc_call *call, uint64_t now_ms)
{
    size_t n;
    const nghttp2_nv *fields = belfry_grpc_head_fields(call->head, call->deadline_ms, now_ms, &n);
    enum belfry_err err = belfry_h2_submit(call->grpc->h2, fields, n, &call->stream);
    if (err != BELFRY_OK)
        return err;
    free(call->head);
    call->head = NULL;
    move(call, BELFRY_CALL_RUNNING, &call->grpc->running);
    return BELFRY_OK;
}

/* There is something to send where there was nothing: pull resumes the stream, where running out of memory can still
 * be reported. */
static void mark_ready(struct belfry_grpc_call *call)
{
    if (call->state != BELFRY_CALL_RUNNING || !call->stream.deferred)
        return;
    belfry_list_remove(&call->ready_node);
    belfry_list_append(&call->grpc->ready, &call->ready_node);
}

enum belfry_err belfry_grpc_call_send(struct belfry_grpc_call *call, struct belfry_bytes message)
{
    if (call->state > BELFRY_CALL_RUNNING)
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
    mark_ready(call);
    return BELFRY_OK;
}

void belfry_grpc_call_limit(struct belfry_grpc_call *call, size_t max_message_bytes)
{
    size_t most = call->grpc->max_message_bytes;
    call->max_message_bytes = max_message_bytes != 0 && max_message_bytes < most ? max_message_bytes : most;
}

size_t belfry_grpc_call_queued(const struct belfry_grpc_call *call)
{
    return belfry_buf_len(&call->queued);
}

void belfry_grpc_call_half_close(struct belfry_grpc_call *call)
{
    call->half_closed = true;
    mark_ready(call);
}

void belfry_grpc_call_cancel(struct belfry_grpc_call *call)
{
    if (call->state == BELFRY_CALL_GONE)
        return;
    belfry_h2_reset(call->grpc->h2, &call->stream, NGHTTP2_CANCEL);
    enter(call);
    move(call, BELFRY_CALL_GONE, NULL);
    leave(call);
}

void *belfry_grpc_call_user(const struct belfry_grpc_call *call)
{
    return call->user;
}

static size_t on_read(struct belfry_h2_stream *stream, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    (void)user;
    struct belfry_grpc_call *call = call_of(stream);
    size_t n = belfry_buf_len(&call->queued);
    n = n < cap ? n : cap;
    if (n > 0)
        memcpy(to, belfry_buf_bytes(&call->queued).data, n);
    belfry_buf_take(&call->queued, n);
    bool all = belfry_buf_len(&call->queued) == 0;
    if (all && call->queued.cap > IDLE_BYTES)
        belfry_buf_fini(&call->queued);
    *out_end = all && call->half_closed;
    return n;
}

/* ---- receiving ---- */

/* The peer has said its last. Whole messages that wait because the call is held are still delivered first. */
static void close_in_order(struct belfry_grpc_call *call)
{
    if (call->held && belfry_buf_len(&call->undelivered) > 0) {
        move(call, BELFRY_CALL_CLOSING, &call->grpc->running);
        return;
    }
    if (call->status.code == BELFRY_GRPC_OK && belfry_grpc_frame_inside(&call->frame))
        set_status(call, BELFRY_GRPC_INTERNAL, "the stream ended inside a message", false);
    move(call, BELFRY_CALL_CLOSING, &call->grpc->ended);
}

/* What the peer sent cannot be used: the call ends here, and the peer is told. */
static void break_off(struct belfry_grpc_call *call, int code, const char *why)
{
    belfry_grpc_call_abort(call, code, why, false);
}

/* No grpc-status came: says what came instead. */
static void describe_http(const struct belfry_grpc_reply *reply, char *to, size_t cap)
{
    if (reply->type[0] == '\0')
        snprintf(to, cap, "HTTP %d without content-type and grpc-status", reply->http_status);
    else
        snprintf(to, cap, "HTTP %d with content-type %s, without grpc-status", reply->http_status, reply->type);
}

/* The stream has ended: what do its headers and trailers say? */
static void conclude(struct belfry_grpc_call *call)
{
    struct belfry_grpc_reply *reply = &call->reply;
    belfry_h2_finish(call->grpc->h2, &call->stream);
    if (reply->code < 0) {
        char why[BELFRY_GRPC_WHY_BYTES];
        describe_http(reply, why, sizeof(why));
        set_status(call, belfry_grpc_code_of_http(reply->http_status), why, false);
    } else {
        const char *none = reply->code_malformed ? "malformed grpc-status" : "";
        const char *message = reply->message != NULL && reply->message[0] != '\0' ? reply->message : none;
        call->status = (struct belfry_grpc_status){.code = reply->code, .message = message, .from_server = true};
    }
    close_in_order(call);
}

static enum belfry_err on_field(struct belfry_h2_stream *stream, struct belfry_bytes name, struct belfry_bytes value,
                                void *user)
{
    (void)user;
    return belfry_grpc_reply_field(&call_of(stream)->reply, name, value);
}

static enum belfry_err on_block(struct belfry_h2_stream *stream, bool last, void *user)
{
    (void)user;
    struct belfry_grpc_call *call = call_of(stream);
    struct belfry_grpc_reply *reply = &call->reply;
    if (last) {
        conclude(call);
    } else if (reply->http_status / 100 == 1) {
        belfry_grpc_reply_fini(reply); /* informational: the response is yet to come */
    } else if (!belfry_grpc_reply_is_grpc(reply) && reply->code < 0) {
        char why[BELFRY_GRPC_WHY_BYTES];
        describe_http(reply, why, sizeof(why));
        break_off(call, belfry_grpc_code_of_http(reply->http_status), why);
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

/* Takes bytes from *in until a message is whole or there are no more, and makes its callback. */
static enum belfry_err deliver_one(struct belfry_grpc_call *call, struct belfry_bytes *in, const char **out_why)
{
    struct belfry_blob *message;
    bool compressed;
    size_t before = in->len;
    *out_why = "received a message with an unknown flag";
    enum belfry_err err = belfry_grpc_frame_feed(&call->frame, in, call->max_message_bytes, &message, &compressed);
    belfry_h2_taken(call->grpc->h2, &call->stream, before - in->len);
    if (err != BELFRY_OK || message == NULL)
        return err;
    if (compressed)
        err = unpack(call, &message, out_why);
    if (err == BELFRY_OK)
        call->events.message(call, message, call->user);
    belfry_blob_unref(message);
    return err;
}

static void break_off_with(struct belfry_grpc_call *call, enum belfry_err err, const char *why)
{
    if (err == BELFRY_ERR_TOO_LARGE) {
        char text[BELFRY_GRPC_WHY_BYTES];
        snprintf(text, sizeof(text), "received a message larger than %zu bytes", call->max_message_bytes);
        break_off(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, text);
        call->status.too_large = true;
    } else {
        break_off(call, BELFRY_GRPC_INTERNAL, why);
    }
}

/* True while the call can be given messages; its callbacks may hold it, cancel it or end it. */
static bool takes_messages(const struct belfry_grpc_call *call)
{
    bool live = call->state == BELFRY_CALL_RUNNING || call->state == BELFRY_CALL_CLOSING;
    return live && !call->held;
}

/* Delivers from *in as long as the call takes messages. Between enter() and leave(). Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err deliver(struct belfry_grpc_call *call, struct belfry_bytes *in)
{
    enum belfry_err err = BELFRY_OK;
    const char *why;
    call->delivering = true;
    while (err == BELFRY_OK && in->len > 0 && takes_messages(call))
        err = deliver_one(call, in, &why);
    call->delivering = false;
    if (err == BELFRY_OK || err == BELFRY_ERR_NOMEM)
        return err;
    break_off_with(call, err, why);
    *in = belfry_bytes_of(NULL, 0);
    return BELFRY_OK;
}

static enum belfry_err keep(struct belfry_grpc_call *call, struct belfry_bytes bytes)
{
    if (bytes.len > BELFRY_GRPC_WINDOW - belfry_buf_len(&call->undelivered)) {
        break_off(call, BELFRY_GRPC_INTERNAL, "the peer sent more than its window");
        return BELFRY_OK;
    }
    return belfry_buf_append(&call->undelivered, bytes.data, bytes.len);
}

static enum belfry_err on_data(struct belfry_h2_stream *stream, struct belfry_bytes bytes, void *user)
{
    (void)user;
    struct belfry_grpc_call *call = call_of(stream);
    if (call->reply.http_status != 200) {
        belfry_h2_taken(call->grpc->h2, stream, bytes.len); /* the page of an error: nobody's message */
        return BELFRY_OK;
    }
    enter(call);
    enum belfry_err err = deliver(call, &bytes);
    if (err == BELFRY_OK && bytes.len > 0 && call->state == BELFRY_CALL_RUNNING)
        err = keep(call, bytes);
    leave(call);
    return err;
}

static enum belfry_err on_end(struct belfry_h2_stream *stream, void *user)
{
    (void)user;
    conclude(call_of(stream));
    return BELFRY_OK;
}

static void on_closed(struct belfry_h2_stream *stream, uint32_t code, const char *why, void *user)
{
    (void)user;
    struct belfry_grpc_call *call = call_of(stream);
    char text[BELFRY_GRPC_WHY_BYTES];
    snprintf(text, sizeof(text), "the stream was reset: %s", why);
    set_status(call, belfry_grpc_code_of_h2(code), text, code == NGHTTP2_REFUSED_STREAM || !stream->pulled);
    close_in_order(call);
}

static void on_goaway(int32_t last_id, uint32_t code, struct belfry_bytes debug, void *user)
{
    belfry_grpc_goaway(user, last_id, code, debug);
}

const struct belfry_h2_events belfry_grpc_h2_events = {
    .field = on_field,
    .block = on_block,
    .data = on_data,
    .end = on_end,
    .closed = on_closed,
    .goaway = on_goaway,
    .read = on_read,
};

/* ---- holding ---- */

void belfry_grpc_call_hold(struct belfry_grpc_call *call)
{
    call->held = true;
}

static void deliver_undelivered(struct belfry_grpc_call *call)
{
    struct belfry_bytes rest = belfry_buf_bytes(&call->undelivered);
    size_t before = rest.len;
    enum belfry_err err = deliver(call, &rest);
    if (err != BELFRY_OK)
        call->grpc->failed = err;
    if (belfry_buf_len(&call->undelivered) > 0) /* a call that was broken off has dropped them */
        belfry_buf_take(&call->undelivered, before - rest.len);
    if (belfry_buf_len(&call->undelivered) == 0)
        belfry_buf_fini(&call->undelivered);
}

void belfry_grpc_call_release(struct belfry_grpc_call *call)
{
    struct belfry_grpc *grpc = call->grpc;
    call->held = false;
    if (call->delivering || call->state == BELFRY_CALL_GONE)
        return; /* the loop that made this callback goes on by itself */
    enter(call);
    deliver_undelivered(call);
    if (call->state == BELFRY_CALL_CLOSING)
        close_in_order(call);
    leave(call);
    belfry_grpc_flush(grpc);
}
