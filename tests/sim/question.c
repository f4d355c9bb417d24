/* tests/sim/question.c */
#include "sim/question.h"

#include <assert.h>
#include <stdlib.h>

#include "client/etcd_request.h"
#include "follow/readpoint.h"
#include "net/grpc.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"

struct belfry_grpc_call {
    struct belfry_stream *stream;
    const struct belfry_grpc_events *events;
    void *user;
    struct belfry_buf request;
    enum link_call kind;
    uint64_t number, deadline_ms; /* number 0: not sent yet */
};

void question_init(struct belfry_stream *stream, struct sched *sched)
{
    *stream = (struct belfry_stream){.sched = sched};
}

static void call_free(struct belfry_grpc_call *call)
{
    call->stream->call = NULL;
    belfry_buf_fini(&call->request);
    free(call);
}

void question_fini(struct belfry_stream *stream)
{
    if (stream->call != NULL)
        call_free(stream->call);
}

static void call_close(struct belfry_grpc_call *call, int code, const char *message)
{
    struct belfry_grpc_status status = {.code = code, .message = message, .from_server = true};
    call->stream->call = NULL; /* another one may be opened from inside */
    call->events->closed(call, &status, call->user);
    belfry_buf_fini(&call->request);
    free(call);
}

void question_link(struct belfry_stream *stream, struct link *link)
{
    stream->link = link;
    stream->served = false;
    stream->connects += link != NULL;
    if (stream->call != NULL)
        call_close(stream->call, BELFRY_GRPC_UNAVAILABLE, "the connection is lost");
}

void question_served(struct belfry_stream *stream)
{
    stream->served = true;
}

static void call_answer(struct belfry_grpc_call *call, const struct link_answer *answer, struct belfry_bytes text)
{
    struct belfry_blob *message;
    if (answer->code != BELFRY_GRPC_OK) {
        call_close(call, answer->code, "upstream does not answer");
        return;
    }
    if (belfry_blob_copy(text, &message) != BELFRY_OK)
        abort();
    call->events->message(call, message, call->user);
    belfry_blob_unref(message);
    call_close(call, BELFRY_GRPC_OK, "");
}

void question_run(struct belfry_stream *stream, uint64_t now_ms)
{
    struct link_answer answer;
    struct belfry_buf message;
    belfry_buf_init(&message);
    while (stream->link != NULL && link_answered(stream->link, &answer, &message))
        if (stream->call != NULL && stream->call->number == answer.call) /* else it was cancelled, or came too late */
            call_answer(stream->call, &answer, belfry_buf_bytes(&message));
    belfry_buf_fini(&message);
    if (stream->call != NULL && stream->call->deadline_ms <= now_ms)
        call_close(stream->call, BELFRY_GRPC_DEADLINE_EXCEEDED, "too late");
}

uint64_t question_due(const struct belfry_stream *stream)
{
    uint64_t due = stream->link != NULL ? link_answers_due(stream->link) : BELFRY_NEVER;
    return stream->call != NULL ? belfry_min_time(due, stream->call->deadline_ms) : due;
}

/* ---- the call ---- */

enum belfry_err belfry_grpc_call_open(struct belfry_http *http, const struct belfry_grpc_call_opts *opts,
                                      const struct belfry_grpc_events *events, void *user,
                                      struct belfry_grpc_call **out)
{
    struct belfry_stream *stream = (struct belfry_stream *)(void *)http;
    struct belfry_grpc_call *call = calloc(1, sizeof(*call));
    assert(stream->call == NULL); /* one at a time */
    if (call == NULL)
        abort();
    *call =
        (struct belfry_grpc_call){.stream = stream, .events = events, .user = user, .deadline_ms = opts->deadline_ms};
    for (size_t i = 0; i < opts->n_metadata; i++)
        if (belfry_bytes_equal(opts->metadata[i].name, belfry_bytes_str(READPOINT_FIELD)))
            call->kind = LINK_CALL_POINT;
    stream->call = *out = call;
    return BELFRY_OK;
}

enum belfry_err belfry_grpc_call_send(struct belfry_grpc_call *call, struct belfry_bytes message)
{
    return sched_one_in(call->stream->sched, 100) ? BELFRY_ERR_NOMEM
                                                  : belfry_buf_append(&call->request, message.data, message.len);
}

void belfry_grpc_call_half_close(struct belfry_grpc_call *call)
{
    call->number = link_call(call->stream->link, call->kind, belfry_buf_bytes(&call->request));
}

void belfry_grpc_call_cancel(struct belfry_grpc_call *call)
{
    call_free(call);
}

/* As client/etcd_request.c, which needs the library's options. */
enum belfry_err belfry_request_count(struct belfry_buf *out, struct belfry_bytes key)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    uint8_t *to;
    request.key = belfry_binary(key);
    request.count_only = true;
    enum belfry_err err = belfry_buf_reserve(out, etcdserverpb__range_request__get_packed_size(&request), &to);
    if (err == BELFRY_OK)
        belfry_buf_grown(out, etcdserverpb__range_request__pack(&request, to));
    return err;
}

/* ---- the stream and its connection ---- */

const char *belfry_stream_endpoint(const struct belfry_stream *stream)
{
    return stream->served ? "upstream" : NULL;
}

struct belfry_carrier *belfry_stream_conn(const struct belfry_stream *stream)
{
    return stream->served ? (struct belfry_carrier *)(void *)(uintptr_t)stream : NULL;
}

struct belfry_pool *belfry_stream_link(struct belfry_stream *stream)
{
    return (struct belfry_pool *)(void *)stream;
}

struct belfry_pool_counts belfry_pool_counts(const struct belfry_pool *pool)
{
    const struct belfry_stream *stream = (const struct belfry_stream *)(const void *)pool;
    return (struct belfry_pool_counts){.connects = stream->connects};
}

struct belfry_http *belfry_carrier_http(const struct belfry_carrier *carrier)
{
    return (struct belfry_http *)(void *)(uintptr_t)carrier;
}

void belfry_carrier_flush(struct belfry_carrier *carrier)
{
    (void)carrier;
}

/* ---- no auth ---- */

bool belfry_auth_ready(const struct belfry_auth *auth)
{
    (void)auth;
    return true;
}

const char *belfry_auth_token(const struct belfry_auth *auth)
{
    (void)auth;
    return NULL;
}

void belfry_auth_drop(struct belfry_auth *auth)
{
    (void)auth;
}

void belfry_calls_want_token(struct belfry_calls *calls, bool wanted)
{
    (void)calls, (void)wanted;
}
