/* src/net/http2.c */
#include <stdio.h>

#include "net/http_private.h"

static struct belfry_http_call *call_of(struct belfry_h2_stream *stream)
{
    return belfry_container(stream, struct belfry_http_call, stream);
}

enum belfry_err belfry_http2_submit(struct belfry_http *http)
{
    while (!belfry_list_empty(&http->waiting) && belfry_h2_room(http->h2) > 0) {
        struct belfry_http_call *call = belfry_container(http->waiting.next, struct belfry_http_call, node);
        size_t n;
        const nghttp2_nv *fields = belfry_http_ask_fields(call->ask, &n);
        enum belfry_err err = belfry_h2_submit_bodiless(http->h2, fields, n, &call->stream);
        if (err == BELFRY_ERR_LIMIT) /* stream ids are used up: as if the peer had said GOAWAY */
            belfry_http_drain(http, "the connection has used up its streams");
        else if (err != BELFRY_OK)
            return err;
        else
            belfry_http_call_sent(call);
    }
    return BELFRY_OK;
}

/* What the peer sent cannot be used: the call ends here, and the peer is told. */
static void break_off(struct belfry_http_call *call, enum belfry_err err, const char *why)
{
    belfry_http_call_fail(call, err, why, false);
}

/* Of three digits: nghttp2 sees to that, and 0 is refused. */
static int status_of(struct belfry_bytes value)
{
    int status = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.len != 3 || value.data[i] < '0' || value.data[i] > '9')
            return 0;
        status = status * 10 + (value.data[i] - '0');
    }
    return status;
}

static enum belfry_err on_field(struct belfry_h2_stream *stream, struct belfry_bytes name, struct belfry_bytes value,
                                void *user)
{
    (void)user;
    struct belfry_http_call *call = call_of(stream);
    struct belfry_http_answer *answer = &call->answer;
    if (call->state != BELFRY_HTTP_CALL_SENT)
        return BELFRY_OK;                      /* trailers are nobody's */
    if (name.len > 0 && name.data[0] == ':') { /* no other than :status is allowed here */
        answer->status = status_of(value);
        return BELFRY_OK;
    }
    enum belfry_err err = belfry_http_answer_add(answer, name.data, name.len);
    if (err == BELFRY_OK)
        err = belfry_http_answer_end_name(answer);
    if (err == BELFRY_OK)
        err = belfry_http_answer_add(answer, value.data, value.len);
    if (err == BELFRY_OK)
        belfry_http_answer_end_value(answer);
    if (err != BELFRY_ERR_TOO_LARGE)
        return err;
    break_off(call, err, "response headers over 64 KiB or 128 fields");
    return BELFRY_OK;
}

static void conclude(struct belfry_http *http, struct belfry_http_call *call)
{
    if (call->state >= BELFRY_HTTP_CALL_OVER)
        return; /* its callback cancelled it */
    belfry_h2_finish(http->h2, &call->stream);
    belfry_http_call_end(call);
}

static enum belfry_err on_informational(struct belfry_http_call *call)
{
    belfry_http_answer_clear(&call->answer);
    if (++call->n_informational > BELFRY_HTTP_INFORMATIONAL)
        break_off(call, BELFRY_ERR_PROTOCOL, "informational responses without end");
    return BELFRY_OK;
}

static enum belfry_err on_block(struct belfry_h2_stream *stream, bool last, void *user)
{
    struct belfry_http_call *call = call_of(stream);
    enum belfry_err err = BELFRY_OK;
    belfry_http_call_enter(call);
    if (call->state == BELFRY_HTTP_CALL_SENT) {
        if (call->answer.status / 100 == 1 && !last) {
            err = on_informational(call);
        } else if (call->answer.status < 200 || call->answer.status > 599) {
            break_off(call, BELFRY_ERR_PROTOCOL, "the response has a status that HTTP does not know");
        } else {
            err = belfry_http_answer_present(&call->answer, &call->head);
            if (err == BELFRY_OK)
                belfry_http_call_head(call);
        }
    }
    if (err == BELFRY_OK && last)
        conclude(user, call);
    belfry_http_call_leave(call);
    return err;
}

static enum belfry_err on_data(struct belfry_h2_stream *stream, struct belfry_bytes bytes, void *user)
{
    (void)user;
    struct belfry_http_call *call = call_of(stream);
    enum belfry_err err = belfry_http_call_body(call, bytes);
    if (err != BELFRY_ERR_LIMIT)
        return err;
    break_off(call, BELFRY_ERR_PROTOCOL, "the peer sent more than its window");
    return BELFRY_OK;
}

static enum belfry_err on_end(struct belfry_h2_stream *stream, void *user)
{
    conclude(user, call_of(stream));
    return BELFRY_OK;
}

static void on_closed(struct belfry_h2_stream *stream, uint32_t code, const char *why, void *user)
{
    (void)user;
    char text[BELFRY_HTTP_WHY_BYTES];
    enum belfry_err err = stream->flooded                  ? BELFRY_ERR_TOO_LARGE
                          : code == NGHTTP2_PROTOCOL_ERROR ? BELFRY_ERR_PROTOCOL
                                                           : BELFRY_ERR_UNAVAILABLE;
    snprintf(text, sizeof(text), "%s%s", stream->flooded ? "" : "the stream was reset: ", why);
    belfry_http_call_fail(call_of(stream), err, text, code == NGHTTP2_REFUSED_STREAM || !stream->pulled);
}

/* Printable, so that it can be logged and shown. */
static void describe_goaway(char *to, size_t cap, uint32_t code, struct belfry_bytes debug)
{
    size_t at = (size_t)snprintf(to, cap, "GOAWAY %s%s", nghttp2_http2_strerror(code), debug.len > 0 ? ": " : "");
    for (size_t i = 0; i < debug.len && at < cap - 1; i++)
        to[at++] = (char)(debug.data[i] >= ' ' && debug.data[i] <= '~' ? debug.data[i] : '?');
    to[at] = '\0';
}

/* Those that wait have failed with the draining. Of the others, the peer looks at none above `last_id`, and those that
 * were not pulled can no longer be sent; one that is over has no stream any more (id 0) and stays as it is. */
static void on_goaway(int32_t last_id, uint32_t code, struct belfry_bytes debug, void *user)
{
    struct belfry_http *http = user;
    char why[BELFRY_HTTP_WHY_BYTES];
    describe_goaway(why, sizeof(why), code, debug);
    belfry_http_drain(http, why);
    belfry_list_each_safe (node, &http->running) {
        struct belfry_http_call *call = belfry_container(node, struct belfry_http_call, node);
        if (!call->stream.pulled || call->stream.id > last_id)
            belfry_http_call_fail(call, BELFRY_ERR_UNAVAILABLE, why, true);
    }
}

const struct belfry_h2_events belfry_http2_events = {
    .field = on_field,
    .block = on_block,
    .data = on_data,
    .end = on_end,
    .closed = on_closed,
    .goaway = on_goaway,
    .read = NULL, /* requests have no body */
};
