/* src/serve/rights/rights_call.c */
#include "serve/rights/rights_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/grpc.h"
#include "serve/rights/rights_request.h"
#include "serve/uplink/unary.h"

#define OLD       "etcdserver: revision of auth store is old"
#define BAD_TOKEN "etcdserver: invalid auth token"
#define TOO_MANY  "etcdserver: too many operations in txn request"
#define READ_ONLY "belfry: this listener is read-only" /* relay.h */

static enum belfry_err rights_call_send(struct rights_call *call);

static bool is(const struct unary_answer *with, int code, const char *message)
{
    return with->code == code && strcmp(with->message, message) == 0;
}

/* Upstream did not decide: it is down, too slow or too busy. */
static bool is_unjudged(const struct unary_answer *with)
{
    return !with->judged || with->code == BELFRY_GRPC_UNAVAILABLE || with->code == BELFRY_GRPC_DEADLINE_EXCEEDED ||
           with->code == BELFRY_GRPC_RESOURCE_EXHAUSTED || with->code == BELFRY_GRPC_CANCELLED;
}

static enum rights_answer rights_call_judge(const struct rights_call *call, const struct unary_answer *with)
{
    if (is_unjudged(with))
        return RIGHTS_UNREACHABLE;
    if (with->code == BELFRY_GRPC_OK || is(with, BELFRY_GRPC_OUT_OF_RANGE, RIGHTS_REQUEST_ALLOWED))
        return RIGHTS_ALLOWED;
    if (is(with, BELFRY_GRPC_UNAUTHENTICATED, BAD_TOKEN) || is(with, BELFRY_GRPC_INVALID_ARGUMENT, RIGHTS_CALL_NO_USER))
        return RIGHTS_NO_SUCH_TOKEN;
    if (is(with, BELFRY_GRPC_INVALID_ARGUMENT, OLD))
        return RIGHTS_TOKEN_IS_OLD;
    if (is(with, BELFRY_GRPC_INVALID_ARGUMENT, TOO_MANY) || is(with, BELFRY_GRPC_PERMISSION_DENIED, READ_ONLY))
        return RIGHTS_TOO_MANY;
    return with->code == BELFRY_GRPC_PERMISSION_DENIED || call->question->is_first ? RIGHTS_FORBIDDEN
                                                                                   : RIGHTS_UNREACHABLE;
}

/* etcd's answers have no age. One that cannot be read counts as too old. */
static uint64_t age_of(const struct unary_answer *with)
{
    uint64_t age_ms = 0;
    bool is_read = with->kept.data == NULL || rights_request_read_ms(with->kept, &age_ms);
    return is_read ? age_ms : BELFRY_NEVER;
}

static void on_rights_call(const struct unary_answer *with, void *user)
{
    struct rights_call *call = user;
    struct rights_call_answer answer = {
        .answer = rights_call_judge(call, with), .age_ms = age_of(with), .message = with->message};
    call->unary = NULL;
    answer.timed_out = with->code == BELFRY_GRPC_DEADLINE_EXCEEDED;
    call->n_tried++;
    bool ask_another = answer.answer == RIGHTS_NO_SUCH_TOKEN && call->n_tried < call->n_members;
    if (ask_another && rights_call_send(call) == BELFRY_OK)
        return;
    if (ask_another)
        answer.answer = RIGHTS_UNREACHABLE;
    belfry_list_remove(&call->node);
    call->fn(call, &answer);
    free(call);
}

static enum belfry_err rights_call_send(struct rights_call *call)
{
    const struct rights_question *question = call->question;
    char within[RIGHTS_REQUEST_MS];
    struct belfry_http_field fields[] = {
        {belfry_bytes_str(call->field), question->who.secret},
        {belfry_bytes_str(RIGHTS_REQUEST_FIELD), rights_request_write_ms(question->within_ms, within)}};
    struct belfry_buf message;
    belfry_buf_init(&message);
    enum belfry_err err = rights_request_write(&message, question);
    struct unary_opts opts = {.uplink = call->uplink,
                              .pin = 1 + (unsigned)((question->turn + call->n_tried) % call->n_members),
                              .path = rights_request_path(question->n),
                              .timeout_ms = call->timeout_ms,
                              .fields = fields,
                              .n_fields = sizeof(fields) / sizeof(fields[0]),
                              .message = belfry_buf_bytes(&message),
                              .keeps = RIGHTS_REQUEST_AGE,
                              .fn = on_rights_call,
                              .user = call};
    if (err == BELFRY_OK)
        err = unary_open(&opts, &call->unary);
    belfry_buf_fini(&message);
    return err;
}

enum belfry_err rights_call_open(const struct rights_call_opts *opts, struct rights_question *question,
                                 struct rights_call **out)
{
    struct rights_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return BELFRY_ERR_NOMEM;
    *call = (struct rights_call){.question = question,
                                 .user = opts->user,
                                 .uplink = opts->uplink,
                                 .n_members = opts->n_members,
                                 .field = opts->field,
                                 .timeout_ms = opts->timeout_ms,
                                 .fn = opts->fn};
    belfry_list_init(&call->node);
    BELFRY_OWNER_INIT(call);
    enum belfry_err err = rights_call_send(call);
    if (err != BELFRY_OK) {
        free(call);
        return err;
    }
    *out = call;
    return BELFRY_OK;
}

void rights_call_cancel(struct rights_call *call)
{
    BELFRY_OWNER_CHECK(call);
    unary_cancel(call->unary);
    belfry_list_remove(&call->node);
    free(call);
}

void rights_call_ask_elsewhere(struct rights_call *call)
{
    BELFRY_OWNER_CHECK(call);
    struct unary *before = call->unary;
    if (call->n_tried + 1 >= call->n_members)
        return;
    call->n_tried++;
    if (rights_call_send(call) == BELFRY_OK)
        unary_cancel(before);
    else
        call->n_tried--;
}
