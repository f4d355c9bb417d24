/* src/client/calls.c */
#include "client/calls.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "client/etcd_status.h"

#define TRY_FIRST_MS 25 /* the first wait before a read is retried on a working connection */
#define TRY_MAX_MS   1000
#define TRY_AGAIN_MS 100  /* after a connection rejected it, or without memory */
#define TRY_MIN_MS   1000 /* the least time for one try of a read, within its deadline */
#define AUTH_TRIES   3    /* tokens that may be rejected in a row */
#define LOGIN_MS     5000
#define WHY_MAX      1152 /* room for a URL and a chain of tiers */
#define AUTHENTICATE "/etcdserverpb.Auth/Authenticate"

enum call_state { QUEUED, SENT, DONE };

struct belfry_call {
    struct belfry_list node; /* in queued or sent, by state */
    struct belfry_calls *calls;
    enum call_state state;
    enum belfry_call_kind kind;
    const char *path; /* a literal */
    struct belfry_blob *request, *response;
    uint64_t deadline_ms, retry_ms;
    struct belfry_backoff backoff;
    unsigned refused_tokens;
    bool tried;          /* the next two describe the last try */
    size_t at;           /* index of the endpoint */
    uint64_t connection; /* its number: belfry_pool_counts().connects */
    struct belfry_grpc_call *grpc;
    char *first_why; /* owned: why the first try failed; NULL: it did not, or no memory */
    belfry_answer_fn fn;
    void *user;
};

struct belfry_calls {
    struct belfry_calls_opts opts;
    struct belfry_pool *link;
    struct belfry_list queued, sent;
    size_t count;
    struct belfry_rng rng;
    struct belfry_call *login; /* in progress; also in the lists */
    unsigned tokens_wanted;    /* number of requesters */
    uint64_t login_ms;         /* no log-in before: the last one failed temporarily */
    uint64_t hold_ms;          /* no call before: the connection rejected one */
    BELFRY_OWNER;
};

/* ---- ending ---- */

static void free_call(struct belfry_call *call)
{
    belfry_list_remove(&call->node);
    call->calls->count--;
    belfry_blob_unref(call->request);
    belfry_blob_unref(call->response);
    free(call->first_why);
    free(call);
}

/* The URL of the endpoint of the last try. */
static const char *url_of(const struct belfry_call *call)
{
    size_t at = call->tried ? call->at : belfry_pool_at(call->calls->link);
    return call->calls->opts.link.endpoints[at].url;
}

/* Whether the link still has the connection on which the call was sent. */
static bool call_is_current(const struct belfry_call *call)
{
    return call->tried && call->connection == belfry_pool_counts(call->calls->link).connects;
}

static void call_finish(struct belfry_call *call, enum belfry_err err, const char *why)
{
    struct belfry_answer answer = {.err = err, .why = why, .endpoint = call->tried ? url_of(call) : ""};
    char both[2 * WHY_MAX];
    if (err == BELFRY_OK) {
        answer.message = belfry_blob_bytes(call->response);
    } else if (call->first_why != NULL && strstr(why, call->first_why) == NULL) {
        snprintf(both, sizeof(both), "%s; the first try failed with: %s", why, call->first_why);
        answer.why = both;
    }
    call->state = DONE;
    call->fn(&answer, call->user);
    free_call(call);
}

static void call_fail(struct belfry_call *call, enum belfry_err err, const char *text)
{
    char why[WHY_MAX];
    snprintf(why, sizeof(why), "%s: %s", url_of(call), text);
    call_finish(call, err, why);
}

/* False: no endpoint has failed yet. */
static bool describe_link(const struct belfry_calls *calls, char why[WHY_MAX])
{
    char text[WHY_MAX - 32];
    belfry_pool_describe(calls->link, text, sizeof(text));
    snprintf(why, WHY_MAX, "no endpoint answers: %s", text);
    return text[0] != '\0';
}

/* The deadline of a call that waits for a connection or a token: no server has seen it, so a write fails safely. */
static void call_expire(struct belfry_call *call)
{
    char why[WHY_MAX];
    if (describe_link(call->calls, why))
        call_finish(call, BELFRY_ERR_UNAVAILABLE, why);
    else
        call_fail(call, BELFRY_ERR_TIMEOUT, "no connection in time");
}

/* ---- trying ---- */

static void call_queue(struct belfry_call *call, uint64_t retry_ms)
{
    belfry_list_remove(&call->node);
    belfry_blob_unref(call->response);
    call->response = NULL;
    call->state = QUEUED;
    call->grpc = NULL;
    call->retry_ms = retry_ms;
    belfry_list_append(&call->calls->queued, &call->node);
    call->calls->opts.changed(call->calls->opts.user);
}

/* `text`: why this try failed. The first reason is kept, because later ones are often only consequences. */
static void call_try_again(struct belfry_call *call, const char *text)
{
    char why[WHY_MAX];
    snprintf(why, sizeof(why), "%s: %s", url_of(call), text);
    if (call->first_why == NULL)
        call->first_why = strdup(why); /* without memory, only the last reason is reported */
    call_queue(call, belfry_clock_ms() + belfry_backoff_next(&call->backoff, &call->calls->rng));
}

/* Handles a failed call. */
static void on_failure(struct belfry_call *call, const struct belfry_grpc_status *status)
{
    struct belfry_calls *calls = call->calls;
    enum belfry_err err = belfry_status_err(status);
    bool no_leader = belfry_status_is_no_leader(status);
    bool nobody_saw_it = status->unprocessed || no_leader;
    bool timed_out = err == BELFRY_ERR_TIMEOUT && belfry_clock_ms() >= call->deadline_ms;
    bool hung = err == BELFRY_ERR_TIMEOUT && !status->from_server;
    bool passing = err == BELFRY_ERR_UNAVAILABLE || err == BELFRY_ERR_PROTOCOL || err == BELFRY_ERR_TIMEOUT;
    bool leave = call_is_current(call) && (hung || (err == BELFRY_ERR_UNAVAILABLE && status->from_server));

    const char *said = status->message[0] != '\0' ? status->message : hung ? "no answer in time" : belfry_strerror(err);

    struct belfry_auth *auth = calls->opts.auth;
    if (belfry_status_is_auth(status)) {
        if (auth->state == BELFRY_AUTH_NONE || call->refused_tokens++ >= AUTH_TRIES) {
            call_fail(call, BELFRY_ERR_AUTH, status->message);
        } else {
            belfry_auth_drop(auth);
            call_try_again(call, status->message);
        }
    } else if (passing && !timed_out && (nobody_saw_it || call->kind != BELFRY_CALL_WRITE)) {
        call_try_again(call, said);
    } else if (call->kind == BELFRY_CALL_WRITE && !nobody_saw_it && (passing || !status->from_server)) {
        call_fail(call, BELFRY_ERR_UNCERTAIN, status->message[0] != '\0' ? status->message : "no answer in time");
    } else {
        call_fail(call, err, status->message[0] != '\0' ? status->message : belfry_strerror(err));
    }
    /* Leave a member that hangs or says that it cannot serve. */
    if (leave)
        belfry_pool_leave(calls->link, err,
                          hung        ? "no answer in time"
                          : no_leader ? "it has no leader"
                                      : "it cannot serve");
}

/* Every answer of etcd has a header as field 1. False: it is from another cluster, and the call has been handled. */
static bool check_header(struct belfry_call *call)
{
    struct belfry_calls *calls = call->calls;
    struct belfry_wire_header header;
    if (belfry_scan_response_header(belfry_blob_bytes(call->response), &header) != BELFRY_OK)
        return true;
    if (belfry_cluster_identity_check(calls->opts.identity, call->at, &header)) {
        if (call_is_current(call))
            belfry_pool_good(calls->link, belfry_pool_conn(calls->link));
        calls->opts.header(&header, calls->opts.user);
        return true;
    }
    bool lost = belfry_cluster_identity_lost(calls->opts.identity), leave = call_is_current(call);
    if (lost || call->kind == BELFRY_CALL_WRITE)
        call_fail(call, BELFRY_ERR_CLUSTER, "it belongs to another cluster than before");
    else
        call_try_again(call, "it belongs to another cluster than before");
    if (leave)
        belfry_pool_leave(calls->link, BELFRY_ERR_CLUSTER, "it belongs to another cluster than before");
    return false;
}

static void call_succeed(struct belfry_call *call)
{
    if (check_header(call))
        call_finish(call, BELFRY_OK, "");
}

static void on_message(struct belfry_grpc_call *grpc, struct belfry_blob *message, void *user)
{
    struct belfry_call *call = user;
    if (call->response == NULL)
        call->response = belfry_blob_ref(message);
    if (call->kind == BELFRY_CALL_STREAM) {
        struct belfry_calls *calls = call->calls;
        belfry_grpc_call_cancel(grpc);
        call->grpc = NULL;
        call_succeed(call);
        calls->opts.changed(calls->opts.user);
    }
}

static void on_closed(struct belfry_grpc_call *grpc, const struct belfry_grpc_status *status, void *user)
{
    struct belfry_call *call = user;
    struct belfry_calls *calls = call->calls;
    struct belfry_grpc_status empty = {.code = BELFRY_GRPC_INTERNAL, .message = "the answer is empty"};
    (void)grpc;
    call->grpc = NULL;
    if (status->code == BELFRY_GRPC_OK && call->response != NULL)
        call_succeed(call);
    else
        on_failure(call, status->code == BELFRY_GRPC_OK ? &empty : status);
    calls->opts.changed(calls->opts.user); /* this may have been the last call of a draining connection */
}

static const struct belfry_grpc_events grpc_events = {.message = on_message, .closed = on_closed};

/* Errors: BELFRY_ERR_UNAVAILABLE (the connection takes no calls), BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT: stays queued. */
static enum belfry_err call_submit(struct belfry_call *call, struct belfry_carrier *conn, uint64_t now_ms)
{
    struct belfry_calls *calls = call->calls;
    struct belfry_http_field metadata[2];
    size_t n = 0;
    const char *token = call == calls->login ? NULL : belfry_auth_token(calls->opts.auth);
    if (token != NULL)
        metadata[n++] = (struct belfry_http_field){belfry_bytes_str("token"), belfry_bytes_str(token)};
    if (calls->opts.hasleader && call->kind != BELFRY_CALL_LOCAL) /* a member without a leader would refuse it */
        metadata[n++] = (struct belfry_http_field){belfry_bytes_str("hasleader"), belfry_bytes_str("true")};

    /* One try of what can be repeated leaves time for another. */
    uint64_t until_ms = call->deadline_ms;
    if (call->kind != BELFRY_CALL_WRITE && until_ms != BELFRY_NEVER) {
        uint64_t half = (until_ms - now_ms) / 2;
        until_ms = belfry_min_time(until_ms, now_ms + (half > TRY_MIN_MS ? half : TRY_MIN_MS));
    }
    struct belfry_grpc_call_opts opts = {
        .path = call->path, .metadata = metadata, .n_metadata = n, .deadline_ms = until_ms};
    enum belfry_err err = belfry_grpc_call_open(belfry_carrier_http(conn), &opts, &grpc_events, call, &call->grpc);
    if (err != BELFRY_OK)
        return err;
    err = belfry_grpc_call_send(call->grpc, belfry_blob_bytes(call->request));
    if (err != BELFRY_OK) {
        belfry_grpc_call_cancel(call->grpc);
        call->grpc = NULL;
        return err;
    }
    if (call->kind != BELFRY_CALL_STREAM)
        belfry_grpc_call_half_close(call->grpc);
    belfry_list_remove(&call->node);
    call->state = SENT;
    belfry_list_append(&calls->sent, &call->node);
    call->tried = true;
    call->at = belfry_pool_at(calls->link);
    call->connection = belfry_pool_counts(calls->link).connects;
    return BELFRY_OK;
}

/* ---- logging in ---- */

static void on_login(const struct belfry_answer *answer, void *user)
{
    struct belfry_calls *calls = user;
    struct belfry_auth *auth = calls->opts.auth;
    calls->login = NULL;
    enum belfry_err err = answer->err;
    if (err == BELFRY_OK)
        err = belfry_auth_done(auth, answer->message, belfry_clock_ms());
    else if (err == BELFRY_ERR_REFUSED && strstr(answer->why, "authentication is not enabled") != NULL)
        err = belfry_auth_not_enabled(auth, belfry_clock_ms());
    else
        belfry_auth_failed(auth);
    if (err == BELFRY_ERR_CANCELED)
        return;
    calls->login_ms = err == BELFRY_OK ? 0 : belfry_clock_ms() + TRY_MAX_MS;
    /* Later log-ins will fail, too. An overloaded etcd rejects for other reasons. */
    bool is_final = err == BELFRY_ERR_AUTH || err == BELFRY_ERR_DENIED || err == BELFRY_ERR_UNSUPPORTED ||
                    err == BELFRY_ERR_CLUSTER;
    if (is_final)
        calls->opts.auth_failed(err, answer->why, calls->opts.user);
    calls->opts.changed(calls->opts.user);
}

static enum belfry_err calls_add(struct belfry_calls *calls, enum belfry_call_kind kind, const char *path,
                                 struct belfry_bytes request, uint64_t deadline_ms, belfry_answer_fn fn, void *user,
                                 struct belfry_call **out);

static void log_in(struct belfry_calls *calls, uint64_t now_ms)
{
    struct belfry_buf request;
    belfry_buf_init(&request);
    enum belfry_err err = belfry_auth_begin(calls->opts.auth, &request);
    if (err == BELFRY_OK)
        err = calls_add(calls, BELFRY_CALL_READ, AUTHENTICATE, belfry_buf_bytes(&request), now_ms + LOGIN_MS, on_login,
                        calls, &calls->login); /* even if calls are at their limit */
    if (belfry_buf_len(&request) > 0)
        explicit_bzero(request.data, request.end);
    belfry_buf_fini(&request);
    if (err == BELFRY_OK) {
        belfry_list_remove(&calls->login->node);
        belfry_list_prepend(&calls->queued, &calls->login->node);
        return;
    }
    belfry_auth_failed(calls->opts.auth);
    calls->login_ms = now_ms + TRY_MAX_MS;
    if (err == BELFRY_ERR_AUTH)
        calls->opts.auth_failed(err, "the password file cannot be read", calls->opts.user);
}

/* ---- public functions ---- */

static void on_link_up(struct belfry_pool *link, struct belfry_carrier *conn, void *user)
{
    struct belfry_calls *calls = user;
    (void)link, (void)conn;
    calls->opts.changed(calls->opts.user);
}

static void on_link_down(struct belfry_pool *link, enum belfry_err err, void *user)
{
    struct belfry_calls *calls = user;
    char why[WHY_MAX];
    (void)err;
    if (calls->opts.exhausted != NULL && belfry_pool_exhausted(link) && describe_link(calls, why))
        calls->opts.exhausted(why, calls->opts.user);
    calls->opts.changed(calls->opts.user);
}

static const struct belfry_pool_events link_events = {.up = on_link_up, .down = on_link_down};

enum belfry_err belfry_calls_create(const struct belfry_calls_opts *opts, struct belfry_calls **out)
{
    struct belfry_calls *calls = calloc(1, sizeof(*calls));
    if (calls == NULL)
        return BELFRY_ERR_NOMEM;
    calls->opts = *opts;
    calls->rng.state = opts->link.seed;
    belfry_list_init(&calls->queued);
    belfry_list_init(&calls->sent);
    enum belfry_err err = belfry_link_create(&opts->link, &link_events, calls, &calls->link);
    if (err != BELFRY_OK) {
        free(calls);
        return err;
    }
    BELFRY_OWNER_INIT(calls);
    *out = calls;
    return BELFRY_OK;
}

static void abort_list(struct belfry_list *list, enum belfry_err err, const char *why)
{
    while (!belfry_list_empty(list)) { /* an answer may start calls only on the other list */
        struct belfry_call *call = belfry_container(list->next, struct belfry_call, node);
        if (call->grpc != NULL)
            belfry_grpc_call_cancel(call->grpc);
        call->grpc = NULL;
        call_finish(call, err, why);
    }
}

void belfry_calls_abort(struct belfry_calls *calls)
{
    if (calls == NULL)
        return;
    BELFRY_OWNER_CHECK(calls);
    while (calls->count > 0) { /* no call starts while a session closes */
        abort_list(&calls->queued, BELFRY_ERR_CANCELED, belfry_strerror(BELFRY_ERR_CANCELED));
        abort_list(&calls->sent, BELFRY_ERR_CANCELED, belfry_strerror(BELFRY_ERR_CANCELED));
    }
}

void belfry_calls_destroy(struct belfry_calls *calls)
{
    if (calls == NULL)
        return;
    BELFRY_OWNER_CHECK(calls);
    belfry_calls_abort(calls);
    belfry_pool_destroy(calls->link, "the connection was closed");
    free(calls);
}

void belfry_calls_fail_all(struct belfry_calls *calls, enum belfry_err err, const char *why)
{
    BELFRY_OWNER_CHECK(calls);
    /* Only calls that wait for the token: a call sent with the old one may still be answered. */
    struct belfry_list waiting;
    belfry_list_init(&waiting);
    belfry_list_move_all(&waiting, &calls->queued);
    abort_list(&waiting, err, why);
}

static enum belfry_err calls_add(struct belfry_calls *calls, enum belfry_call_kind kind, const char *path,
                                 struct belfry_bytes request, uint64_t deadline_ms, belfry_answer_fn fn, void *user,
                                 struct belfry_call **out)
{
    struct belfry_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return BELFRY_ERR_NOMEM;
    if (belfry_blob_copy(request, &call->request) != BELFRY_OK) {
        free(call);
        return BELFRY_ERR_NOMEM;
    }
    call->calls = calls;
    call->kind = kind;
    call->path = path;
    call->deadline_ms = deadline_ms;
    call->fn = fn;
    call->user = user;
    belfry_backoff_init(&call->backoff, TRY_FIRST_MS, TRY_MAX_MS);
    belfry_list_init(&call->node);
    calls->count++;
    call_queue(call, 0);
    if (out != NULL)
        *out = call;
    return BELFRY_OK;
}

enum belfry_err belfry_calls_start(struct belfry_calls *calls, enum belfry_call_kind kind, const char *path,
                                   struct belfry_bytes request, uint64_t deadline_ms, belfry_answer_fn fn, void *user,
                                   struct belfry_call **out)
{
    BELFRY_OWNER_CHECK(calls);
    if (calls->count >= BELFRY_CALLS_MAX)
        return BELFRY_ERR_LIMIT;
    return calls_add(calls, kind, path, request, deadline_ms, fn, user, out);
}

bool belfry_calls_cancel(struct belfry_call *call)
{
    if (call->state == DONE)
        return false;
    if (call->grpc != NULL)
        belfry_grpc_call_cancel(call->grpc);
    free_call(call);
    return true;
}

void *belfry_calls_user(const struct belfry_call *call)
{
    return call->user;
}

void belfry_calls_want_token(struct belfry_calls *calls, bool wanted)
{
    BELFRY_OWNER_CHECK(calls);
    assert(wanted || calls->tokens_wanted > 0);
    if (wanted)
        calls->tokens_wanted++;
    else
        calls->tokens_wanted--;
}

static void expire_queued(struct belfry_calls *calls, uint64_t now_ms)
{
    bool again = true;
    while (again) { /* an answer may change the list: start again after each */
        again = false;
        belfry_list_each (node, &calls->queued) {
            struct belfry_call *call = belfry_container(node, struct belfry_call, node);
            if (now_ms >= call->deadline_ms) {
                call_expire(call);
                again = true;
                break;
            }
        }
    }
}

/* Whether any call waits for a connection. */
static bool is_wanted(const struct belfry_calls *calls)
{
    return !belfry_list_empty(&calls->queued) || (!belfry_auth_ready(calls->opts.auth) && calls->tokens_wanted > 0);
}

static void submit_queued(struct belfry_calls *calls, struct belfry_carrier *conn, uint64_t now_ms)
{
    bool ready = belfry_auth_ready(calls->opts.auth);
    belfry_list_each_safe (node, &calls->queued) {
        struct belfry_call *call = belfry_container(node, struct belfry_call, node);
        if ((!ready && call != calls->login) || now_ms < call->retry_ms)
            continue;
        if (call_submit(call, conn, now_ms) != BELFRY_OK) {
            calls->hold_ms = now_ms + TRY_AGAIN_MS;
            return;
        }
    }
}

void belfry_calls_pump(struct belfry_calls *calls, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(calls);
    expire_queued(calls, now_ms);
    bool wanted = is_wanted(calls);
    belfry_pool_want(calls->link, wanted || !belfry_list_empty(&calls->sent));
    if (wanted && calls->opts.auth->state == BELFRY_AUTH_STALE && calls->login == NULL && now_ms >= calls->login_ms)
        log_in(calls, now_ms);
    struct belfry_carrier *conn = belfry_pool_conn(calls->link);
    if (conn == NULL)
        return;
    if (now_ms >= calls->hold_ms)
        submit_queued(calls, conn, now_ms);
    belfry_carrier_flush(conn);
}

uint64_t belfry_calls_due(const struct belfry_calls *calls)
{
    uint64_t due = BELFRY_NEVER;
    bool up = belfry_pool_conn(calls->link) != NULL, ready = belfry_auth_ready(calls->opts.auth);
    if (calls->opts.auth->state == BELFRY_AUTH_STALE && calls->login == NULL && is_wanted(calls))
        due = calls->login_ms;
    belfry_list_each (node, &calls->queued) {
        const struct belfry_call *call = belfry_container(node, struct belfry_call, node);
        due = belfry_min_time(due, call->deadline_ms);
        if (up && (ready || call == calls->login))
            due = belfry_min_time(due, call->retry_ms > calls->hold_ms ? call->retry_ms : calls->hold_ms);
    }
    return due;
}

struct belfry_pool *belfry_calls_link(struct belfry_calls *calls)
{
    BELFRY_OWNER_CHECK(calls);
    return calls->link;
}

size_t belfry_calls_count(const struct belfry_calls *calls)
{
    return calls->count;
}
