/* src/serve/kube/kube_call.c */
#include "serve/kube/kube_call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "serve/kube/kube_answer.h"
#include "serve/kube/kube_ask.h"
#include "serve/rights/review_subject.h"

#define TURN_RESUMED 128 /* calls that were held and continue in one turn */
#define TURN_ENDED   256 /* calls that were held too long and end in one turn */

enum kube_call_state {
    KUBE_CALL_READ,  /* what it asks for is known */
    KUBE_CALL_HELD,  /* the tier is not ready */
    KUBE_CALL_ASKING /* upstream is asked about its rights */
};

struct kube_call {
    struct belfry_list link; /* HELD, ASKING: in the list of that name */
    struct kube_calls *calls;
    struct exchange *x;
    struct shares_conn *share;  /* its connection's */
    enum kube_call_state state; /* moved by kube_call_move_to() alone */
    uint64_t until_ms;          /* HELD */
    struct permit_question *question;
    struct kube_ask *ask; /* owned */
};

static struct kube_call *first_held(const struct kube_calls *calls)
{
    return belfry_list_empty(&calls->held) ? NULL : belfry_container(calls->held.next, struct kube_call, link);
}

static void kube_call_move_to(struct kube_call *call, enum kube_call_state to)
{
    struct kube_calls *calls = call->calls;
    assert(call->state != to);
    belfry_list_remove(&call->link);
    if (call->state == KUBE_CALL_HELD)
        calls->stats.held--;
    call->state = to;
    switch (to) {
    case KUBE_CALL_READ:
        break;
    case KUBE_CALL_HELD:
        calls->stats.held++;
        belfry_list_append(&calls->held, &call->link);
        break;
    case KUBE_CALL_ASKING:
        belfry_list_append(&calls->asking, &call->link);
        break;
    }
}

/* The exchange has ended, or has another handler. */
static void kube_call_free(struct kube_call *call)
{
    if (call->question != NULL)
        permit_cancel(call->question);
    if (call->state != KUBE_CALL_READ)
        kube_call_move_to(call, KUBE_CALL_READ);
    shares_count(call->share, SHARES_REQUESTS, sizeof(*call) + call->ask->bytes, 0);
    kube_ask_free(call->ask);
    free(call);
}

static void count_status(struct kube_calls *calls, const struct kube_status *status)
{
    calls->stats.too_many += status->reason == KUBE_TOO_MANY_REQUESTS;
}

static void kube_call_fail(struct kube_call *call, const struct kube_status *status)
{
    count_status(call->calls, status);
    kube_answer_status(call->x, status);
    kube_call_free(call);
}

static void kube_call_fail_busy(struct kube_call *call, const char *why)
{
    struct kube_status status;
    kube_status_busy(&status, why);
    kube_call_fail(call, &status);
}

/* True: its connection was told to leave, and it was answered. */
static bool kube_call_fail_if_leaving(struct kube_call *call)
{
    struct kube_status status;
    if (!kube_state_must_leave(call->calls->opts.state, call->x))
        return false;
    kube_status_drain(&status);
    kube_call_fail(call, &status);
    return true;
}

static void on_call_gone(struct exchange *x, void *user)
{
    (void)x;
    kube_call_free(user);
}

static const struct exchange_events waiting_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = exchange_ignore, .gone = on_call_gone};

/* ---- taken over ---- */

static void kube_call_become_list(struct kube_call *call)
{
    const struct kube_ask *ask = call->ask;
    struct kube_list_ask list_ask = {.x = call->x,
                                     .resource = ask->resource,
                                     .version = ask->version,
                                     .selector = ask->selector,
                                     .namespace = ask->namespace,
                                     .name = ask->name,
                                     .view = ask->view,
                                     .include = ask->options.include,
                                     .as = ask->verb == KUBE_VERB_GET ? KUBE_PAGE_OBJECT : KUBE_PAGE_ITEMS,
                                     .plan = ask->list,
                                     .continue_token = ask->options.continue_token,
                                     .who = ask->who,
                                     .gzip = ask->gzip,
                                     .head_only = ask->head_only};
    struct kube_list *list;
    struct kube_status status;
    enum belfry_err err = kube_list_begin(call->calls->opts.lists, &list_ask, &list, &status);
    if (err == BELFRY_OK)
        kube_call_free(call);
    else if (err == BELFRY_ERR_INVALID)
        kube_call_fail(call, &status);
    else
        kube_call_fail_busy(call, "belfry: too many lists at once");
}

static void kube_call_take_over(struct kube_call *call, uint64_t now_ms)
{
    if (call->ask->verb != KUBE_VERB_WATCH) {
        kube_call_become_list(call);
        return;
    }
    kube_watch_open(call->calls->opts.watches, call->x, call->ask, now_ms);
    kube_call_free(call);
}

/* ---- rights ---- */

static void kube_call_refuse(struct kube_call *call, const char *reason)
{
    const struct kube_resource *resource = call->ask->resource;
    const char *sentence = permit_sentence(reason);
    struct review_subject subject;
    struct kube_status status;
    if (permit_is_about_token(reason))
        kube_status_set(&status, KUBE_UNAUTHORIZED, "%s", permit_unauthorized(reason));
    else if (sentence != NULL)
        kube_status_set(&status, KUBE_FORBIDDEN, "%s", sentence);
    else
        kube_status_set(&status, KUBE_FORBIDDEN,
                        "%s is forbidden: upstream does not allow the keys of API group \"%s\" to this user",
                        resource->plural, resource->group);
    if (status.reason == KUBE_FORBIDDEN) {
        status.kind = belfry_bytes_str(resource->plural);
        status.group = belfry_bytes_str(resource->group);
    }
    if (sentence != NULL && review_subject_read(kube_ask_right_key(call->ask), &subject) == BELFRY_OK)
        status.name = subject.name;
    call->calls->stats.refused++;
    kube_call_fail(call, &status);
}

static void on_call_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct kube_call *call = user;
    const struct kube_calls_opts *opts = &call->calls->opts;
    struct kube_status status;
    call->question = NULL;
    kube_call_move_to(call, KUBE_CALL_READ);
    switch (verdict) {
    case PERMIT_GRANTED:
    case PERMIT_HELD: /* never: it is asked once */
        call->ask->who.accepted = !permit_is_open(opts->permit, opts->now(opts->user));
        if (!kube_call_fail_if_leaving(call))
            kube_call_take_over(call, opts->now(opts->user));
        break;
    case PERMIT_REFUSED:
        kube_call_refuse(call, reason);
        break;
    case PERMIT_UNAVAILABLE:
        kube_status_set(&status, KUBE_SERVICE_UNAVAILABLE, "upstream cannot be asked about rights: %s", reason);
        status.retry_after_s = 1;
        kube_call_fail(call, &status);
        break;
    }
}

/* The tier is ready. */
static void kube_call_go_on(struct kube_call *call, uint64_t now_ms)
{
    struct permit *permit = call->calls->opts.permit;
    const struct kube_ask *ask = call->ask;
    if (permit_is_open_to(permit, &ask->who, now_ms)) {
        kube_call_take_over(call, now_ms);
        return;
    }
    enum belfry_err err = permit_ask(permit, &ask->who, kube_ask_right_key(ask), kube_ask_right_end(ask), now_ms,
                                     on_call_verdict, call, &call->question);
    if (err != BELFRY_OK) {
        kube_call_fail_busy(call, "belfry: too many requests wait for their rights");
        return;
    }
    exchange_handle(call->x, &waiting_events, call);
    kube_call_move_to(call, KUBE_CALL_ASKING);
}

/* ---- beginning ---- */

static struct kube_call *kube_call_create(struct kube_calls *calls, struct exchange *x,
                                          const struct exchange_head *head, struct kube_status *status)
{
    struct kube_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        kube_status_busy(status, "belfry: memory limit reached");
        return NULL;
    }
    if (kube_ask_read(calls->opts.state, calls->opts.scope, x, head, &call->ask, status) != BELFRY_OK) {
        free(call);
        return NULL;
    }
    call->calls = calls;
    call->x = x;
    belfry_list_init(&call->link);
    call->share = exchange_share(x);
    shares_count(call->share, SHARES_REQUESTS, 0, sizeof(*call) + call->ask->bytes);
    return call;
}

void kube_call_begin(struct kube_calls *calls, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    struct kube_status status;
    struct kube_call *call = kube_call_create(calls, x, head, &status);
    if (call == NULL) {
        count_status(calls, &status);
        kube_answer_status(x, &status);
        return;
    }
    if (kube_call_fail_if_leaving(call))
        return;
    if (!shares_make_room(call->share, SHARES_REQUESTS, 0)) {
        kube_call_fail_busy(call, "belfry: too many requests wait");
    } else if (kube_state_can_serve(calls->opts.state)) {
        kube_call_go_on(call, now_ms);
    } else {
        call->until_ms = now_ms + KUBE_HOLD_MS;
        exchange_handle(x, &waiting_events, call);
        kube_call_move_to(call, KUBE_CALL_HELD);
    }
}

/* ---- all of them ---- */

void kube_calls_init(struct kube_calls *calls, const struct kube_calls_opts *opts)
{
    *calls = (struct kube_calls){.opts = *opts};
    belfry_list_init(&calls->held);
    belfry_list_init(&calls->asking);
}

void kube_calls_fail_all(struct kube_calls *calls, const struct kube_status *status)
{
    while (!belfry_list_empty(&calls->held))
        kube_call_fail(first_held(calls), status);
    while (!belfry_list_empty(&calls->asking))
        kube_call_fail(belfry_container(calls->asking.next, struct kube_call, link), status);
}

static void resume_held(struct kube_calls *calls, uint64_t now_ms)
{
    struct kube_call *call;
    for (size_t n = 0; n < TURN_RESUMED && kube_state_can_serve(calls->opts.state); n++) {
        if ((call = first_held(calls)) == NULL)
            return;
        kube_call_move_to(call, KUBE_CALL_READ);
        kube_call_go_on(call, now_ms);
    }
}

static void end_held(struct kube_calls *calls, uint64_t now_ms)
{
    struct kube_call *call;
    char why[KUBE_REASON_MAX + 32];
    for (size_t n = 0; n < TURN_ENDED && (call = first_held(calls)) != NULL; n++) {
        if (kube_call_fail_if_leaving(call))
            continue;
        if (call->until_ms > now_ms)
            return;
        snprintf(why, sizeof(why), "belfry: not ready: %s", calls->opts.state->reason);
        kube_call_fail_busy(call, why);
    }
}

void kube_calls_after_turn(struct kube_calls *calls, uint64_t now_ms)
{
    resume_held(calls, now_ms);
    end_held(calls, now_ms);
}

uint64_t kube_calls_due(const struct kube_calls *calls)
{
    const struct kube_call *call = first_held(calls);
    const struct kube_state *state = calls->opts.state;
    if (call == NULL)
        return BELFRY_NEVER;
    return kube_state_can_serve(state) || kube_state_must_leave(state, call->x) ? 0 : call->until_ms;
}
