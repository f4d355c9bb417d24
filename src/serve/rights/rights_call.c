/* src/serve/rights/rights_call.c */
#include "serve/rights/rights_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/owner.h"
#include "net/grpc.h"
#include "serve/rights/rights_request.h"
#include "serve/uplink/unary.h"

#define BAD_TOKEN "etcdserver: invalid auth token"
#define TOO_MANY  "etcdserver: too many operations in txn request"
#define READ_ONLY "belfry: this listener is read-only" /* relay.h */

struct rights_call {
    struct asking asking;
    const struct rights_calls *calls;
    size_t n_tried;
    const char *field; /* that carries the secret; static. NULL: the secret is the name of a certificate's user */
    struct asking_opts opts;
    struct unary *unary;    /* NULL: it waits to be vouched for */
    struct vouch_wait wait; /* this and the next: for a certificate's user */
    uint64_t revision;
    BELFRY_OWNER;
};

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

/* Is it about the user of a certificate? */
static bool rights_call_is_vouched(const struct rights_call *call)
{
    return call->field == NULL;
}

static enum rights_answer rights_call_judge(const struct rights_call *call, const struct unary_answer *with)
{
    if (is_unjudged(with))
        return RIGHTS_UNREACHABLE;
    if (with->code == BELFRY_GRPC_OK || is(with, BELFRY_GRPC_OUT_OF_RANGE, RIGHTS_REQUEST_ALLOWED))
        return RIGHTS_ALLOWED;
    if (rights_call_is_vouched(call) && with->code == BELFRY_GRPC_UNAUTHENTICATED)
        return RIGHTS_NO_SUCH_TOKEN;
    if (is(with, BELFRY_GRPC_UNAUTHENTICATED, BAD_TOKEN) || is(with, BELFRY_GRPC_INVALID_ARGUMENT, RIGHTS_CALL_NO_USER))
        return RIGHTS_NO_SUCH_TOKEN;
    if (is(with, BELFRY_GRPC_INVALID_ARGUMENT, VOUCH_OLD))
        return RIGHTS_TOKEN_IS_OLD;
    if (is(with, BELFRY_GRPC_INVALID_ARGUMENT, TOO_MANY) || is(with, BELFRY_GRPC_PERMISSION_DENIED, READ_ONLY))
        return RIGHTS_TOO_MANY;
    return with->code == BELFRY_GRPC_PERMISSION_DENIED || call->asking.question->is_first ? RIGHTS_FORBIDDEN
                                                                                          : RIGHTS_UNREACHABLE;
}

/* etcd's answers have no age. One that cannot be read counts as too old. */
static uint64_t age_of(const struct unary_answer *with)
{
    uint64_t age_ms = 0;
    bool is_read = with->kept.data == NULL || rights_request_read_ms(with->kept, &age_ms);
    return is_read ? age_ms : BELFRY_NEVER;
}

static void rights_call_end(struct rights_call *call, const struct asking_answer *answer)
{
    vouch_wait_end(&call->wait);
    belfry_list_remove(&call->asking.node);
    call->opts.fn(&call->asking, answer);
    free(call);
}

/* It cannot be sent; the reason is in `why`. */
static void rights_call_fail(struct rights_call *call, enum belfry_err err)
{
    bool is_refused = err == BELFRY_ERR_AUTH || err == BELFRY_ERR_INVALID;
    struct asking_answer answer = {.answer = is_refused ? RIGHTS_NO_SUCH_TOKEN : RIGHTS_UNREACHABLE,
                                   .message = call->opts.why};
    rights_call_end(call, &answer);
}

/* Upstream does not take the tier's word for the user. */
static void rights_call_explain(struct rights_call *call, struct asking_answer *answer)
{
    if (answer->answer != RIGHTS_NO_SUCH_TOKEN || strcmp(answer->message, RIGHTS_CALL_NO_USER) == 0)
        return;
    if (strcmp(answer->message, BAD_TOKEN) == 0)
        snprintf(call->opts.why, call->opts.why_len, "%s", VOUCH_NOT_ACCEPTED);
    else
        snprintf(call->opts.why, call->opts.why_len, VOUCH_PREFIX "%s", answer->message);
    answer->message = call->opts.why;
}

static void on_rights_call(const struct unary_answer *with, void *user)
{
    struct rights_call *call = user;
    struct asking_answer answer = {
        .answer = rights_call_judge(call, with), .age_ms = age_of(with), .message = with->message};
    call->unary = NULL;
    answer.timed_out = with->code == BELFRY_GRPC_DEADLINE_EXCEEDED;
    bool is_outdated = answer.answer == RIGHTS_TOKEN_IS_OLD && rights_call_is_vouched(call);
    if (is_outdated)
        vouch_outdate(call->calls->vouch, call->revision);
    else
        call->n_tried++;
    bool ask_another = answer.answer == RIGHTS_NO_SUCH_TOKEN && call->n_tried < call->calls->n_members;
    if (ask_another || is_outdated) {
        enum belfry_err err = rights_call_send(call);
        if (err != BELFRY_OK)
            rights_call_fail(call, err == BELFRY_ERR_AUTH ? err : BELFRY_ERR_UNAVAILABLE);
        return;
    }
    if (rights_call_is_vouched(call))
        rights_call_explain(call, &answer);
    rights_call_end(call, &answer);
}

static void on_rights_call_vouched(struct vouch_wait *wait)
{
    struct rights_call *call = belfry_container(wait, struct rights_call, wait);
    enum belfry_err err = rights_call_send(call);
    if (err != BELFRY_OK)
        rights_call_fail(call, err);
}

static enum belfry_err rights_call_send_with(struct rights_call *call, struct belfry_http_field field)
{
    const struct rights_question *question = call->asking.question;
    char within[RIGHTS_REQUEST_MS];
    struct belfry_http_field fields[] = {
        field, {belfry_bytes_str(RIGHTS_REQUEST_FIELD), rights_request_write_ms(question->within_ms, within)}};
    struct belfry_buf message;
    belfry_buf_init(&message);
    enum belfry_err err = rights_request_write(&message, question);
    struct unary_opts opts = {.uplink = call->calls->uplink,
                              .pin = 1 + (unsigned)((question->turn + call->n_tried) % call->calls->n_members),
                              .path = rights_request_path(question->n),
                              .timeout_ms = call->opts.timeout_ms,
                              .fields = fields,
                              .n_fields = sizeof(fields) / sizeof(fields[0]),
                              .message = belfry_buf_bytes(&message),
                              .keeps = RIGHTS_REQUEST_AGE,
                              .fn = on_rights_call,
                              .user = call};
    if (err == BELFRY_OK)
        err = unary_open(&opts, &call->unary);
    belfry_buf_fini(&message);
    if (err != BELFRY_OK)
        snprintf(call->opts.why, call->opts.why_len, "%s", belfry_strerror((int)err));
    return err;
}

/* The call may wait after this. */
static enum belfry_err rights_call_send(struct rights_call *call)
{
    struct belfry_bytes secret = call->asking.question->who.secret;
    struct voucher voucher;
    if (!rights_call_is_vouched(call))
        return rights_call_send_with(call, (struct belfry_http_field){belfry_bytes_str(call->field), secret});
    enum vouch_verdict verdict = vouch_ask(call->calls->vouch, secret, &call->wait, &voucher);
    switch (verdict) {
    case VOUCH_GIVEN:
        call->revision = voucher.revision;
        return rights_call_send_with(call, voucher.field);
    case VOUCH_LATER:
        return BELFRY_OK;
    case VOUCH_REFUSED:
    case VOUCH_UNAVAILABLE:
        break;
    }
    snprintf(call->opts.why, call->opts.why_len, "%s", voucher.reason);
    return verdict == VOUCH_REFUSED ? BELFRY_ERR_AUTH : BELFRY_ERR_UNAVAILABLE;
}

static const char *field_of(enum credential credential)
{
    static const char *const fields[] = {[CREDENTIAL_TOKEN] = "token", [CREDENTIAL_AUTHORIZATION] = "authorization"};
    return credential == CREDENTIAL_USER ? NULL : fields[credential];
}

static enum belfry_err rights_call_open(struct asker *asker, struct rights_question *question,
                                        const struct asking_opts *opts, struct asking **out)
{
    struct rights_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        snprintf(opts->why, opts->why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
        return BELFRY_ERR_NOMEM;
    }
    *call = (struct rights_call){.asking = {.question = question, .user = opts->user},
                                 .calls = belfry_container(asker, struct rights_calls, asker),
                                 .field = field_of(question->who.kind),
                                 .opts = *opts};
    belfry_list_init(&call->asking.node);
    vouch_wait_init(&call->wait, on_rights_call_vouched);
    BELFRY_OWNER_INIT(call);
    enum belfry_err err = rights_call_send(call);
    if (err != BELFRY_OK) {
        free(call);
        return err;
    }
    *out = &call->asking;
    return BELFRY_OK;
}

static void rights_call_cancel(struct asking *asking)
{
    struct rights_call *call = belfry_container(asking, struct rights_call, asking);
    BELFRY_OWNER_CHECK(call);
    unary_cancel(call->unary);
    vouch_wait_end(&call->wait);
    belfry_list_remove(&call->asking.node);
    free(call);
}

static void rights_call_ask_elsewhere(struct asking *asking)
{
    struct rights_call *call = belfry_container(asking, struct rights_call, asking);
    BELFRY_OWNER_CHECK(call);
    struct unary *before = call->unary;
    if (before == NULL || call->n_tried + 1 >= call->calls->n_members)
        return;
    call->n_tried++;
    call->unary = NULL;
    if (rights_call_send(call) == BELFRY_OK) {
        unary_cancel(before);
    } else {
        call->unary = before;
        call->n_tried--;
    }
}

void rights_calls_init(struct rights_calls *calls, struct uplink *uplink, size_t n_members, struct vouch *vouch)
{
    static const struct asker_api api = {
        .open = rights_call_open, .cancel = rights_call_cancel, .ask_elsewhere = rights_call_ask_elsewhere};
    *calls = (struct rights_calls){.asker.api = &api, .uplink = uplink, .n_members = n_members, .vouch = vouch};
}
