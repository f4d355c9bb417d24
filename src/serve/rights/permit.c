/* src/serve/rights/permit.c */
#include "serve/rights/permit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/owner.h"
#include "base/pack.h"
#include "net/grpc.h"
#include "serve/rights/rights_call.h"
#include "serve/uplink/unary.h"

#define ELSEWHERE_MS 1500 /* without an answer for so long another member is asked */
#define SUSPECT_MS   2500 /* without an answer for so long: is it the token, or upstream? */
#define AUTH_PATH    "/etcdserverpb.Auth/Authenticate"
#define IS_OFF       "etcdserver: authentication is not enabled"
#define WHY_MAX      512
#define MARGIN       50 /* of a period: answers end so much earlier, because a turn takes time to write */

/*     PENDING (auth is not known) --> CLAIMED --> answered, or HELD
 *         `-----> READY --> answered  ^ (refused or granted without upstream)
 */
enum question_state { PENDING, CLAIMED, READY, HELD };

/* What a pending question will claim. */
struct permit_subject {
    struct shares_conn *share; /* the question counts to it; outlives it. NULL: it is not counted */
    struct rights_who who;
    enum listen_rights rights;
    struct rights_range range;
    size_t text_bytes;
    char text[];
};

struct permit_question {
    struct permit *permit;
    permit_fn fn;
    void *user;
    struct permit_party *party; /* NULL: asked once */
    enum rights_use use;
    uint64_t within_ms; /* of a tier below */
    uint64_t asked_ms;
    uint64_t since_ms;        /* of a tier below, granted because auth is off: as claim.since_ms */
    struct belfry_list order; /* of all that wait, as they were asked */
    struct belfry_list node;  /* of those that are pending, or ready */
    enum question_state state;
    bool saw_doubt;  /* PENDING: an answer was discarded, so the next one was requested after this question */
    bool is_vouched; /* CLAIMED: of a certificate's user */
    enum permit_verdict verdict;    /* READY */
    const char *reason;             /* READY; static */
    struct permit_subject *subject; /* PENDING; owned */
    struct rights_claim claim;      /* CLAIMED, HELD */
};

struct permit {
    /* fixed at creation */
    struct permit_opts opts;
    struct rights_calls calls_of_etcd;
    struct asker *asker; /* of etcd, or the caller's */
    struct rights *rights;
    struct {
        void (*fn)(void *user);
        void *user;
    } listeners[PERMIT_LISTENERS];
    size_t n_listeners;
    /* owner */
    uv_timer_t timer;
    bool destroyed;
    struct regime regime;
    enum permit_auth logged;
    struct unary *status; /* the question about auth under way; NULL: none */
    /* questions */
    struct belfry_list order, pending, ready;
    struct belfry_list calls;  /* struct asking, of renewals, as they were sent */
    struct belfry_list firsts; /* the others, by tried_ms */
    size_t n_parties;
    char why[WHY_MAX]; /* why the last answer did not come */
    struct permit_stats stats;
    BELFRY_OWNER;
};

static void permit_arm_timer(struct permit *permit, uint64_t now);
static void permit_ask_status(struct permit *permit, uint64_t now);
static void permit_ask_rights(struct permit *permit, uint64_t now);

/* ---- questions ---- */

/* Of a pending question, with its asker. */
static size_t permit_pending_bytes(size_t text_bytes)
{
    return sizeof(struct permit_question) + PERMIT_HOLDER + sizeof(struct permit_subject) + text_bytes;
}

static void permit_subject_uncount(struct permit_subject *subject)
{
    if (subject->share != NULL)
        shares_count(subject->share, SHARES_WATCH_BYTES, permit_pending_bytes(subject->text_bytes), 0);
    subject->share = NULL;
}

/* It is not pending any more. */
static void permit_question_drop_subject(struct permit_question *question)
{
    struct permit_subject *subject = question->subject;
    if (subject == NULL)
        return;
    permit_subject_uncount(subject);
    explicit_bzero(subject->text, subject->text_bytes);
    free(subject);
    question->subject = NULL;
}

static void permit_question_free(struct permit_question *question)
{
    permit_question_drop_subject(question);
    free(question);
}

/* It waits no more: it has an answer, or is dropped. */
static void permit_question_leave(struct permit_question *question)
{
    belfry_list_remove(&question->order);
    belfry_list_remove(&question->node);
}

static void permit_question_answer(struct permit_question *question, enum permit_verdict verdict, const char *reason)
{
    struct permit_stats *stats = &question->permit->stats;
    permit_question_leave(question);
    rights_release(question->permit->rights, &question->claim);
    stats->granted += verdict == PERMIT_GRANTED;
    stats->refused += verdict == PERMIT_REFUSED;
    stats->unavailable += verdict == PERMIT_UNAVAILABLE;
    question->fn(verdict, reason, question->user);
    permit_question_free(question);
}

static void permit_question_hold(struct permit_question *question)
{
    permit_question_leave(question);
    question->state = HELD;
    rights_join(question->permit->rights, &question->claim, &question->party->rights);
    question->permit->stats.granted++;
    question->fn(PERMIT_HELD, "", question->user);
}

/* Answers from the loop's next turn. */
static void permit_question_make_ready(struct permit_question *question, enum permit_verdict verdict,
                                       const char *reason)
{
    belfry_list_remove(&question->node);
    belfry_list_append(&question->permit->ready, &question->node);
    question->state = READY;
    question->verdict = verdict;
    question->reason = reason;
}

static bool is_below(const struct permit_question *question)
{
    return question->use == RIGHTS_BELOW || question->use == RIGHTS_BELOW_PART;
}

/* Why the user of a certificate is refused whatever upstream says; NULL: it is not. */
static const char *permit_refuses_user(const struct permit *permit, struct belfry_bytes user)
{
    return permit->opts.asker != NULL ? PERMIT_NO_CERTIFICATES : vouch_refuses(permit->opts.vouch, user);
}

/* Auth is on: the range is claimed. */
static enum belfry_err permit_question_claim(struct permit_question *question, struct rights_who who,
                                             struct rights_range range, uint64_t now)
{
    struct permit *permit = question->permit;
    bool granted;
    if (who.kind == CREDENTIAL_NONE) {
        permit_question_make_ready(question, PERMIT_REFUSED, PERMIT_NO_USER);
        return BELFRY_OK;
    }
    question->is_vouched = who.kind == CREDENTIAL_USER;
    const char *refusal = question->is_vouched ? permit_refuses_user(permit, who.secret) : NULL;
    if (refusal != NULL) {
        permit_question_make_ready(question, PERMIT_REFUSED, refusal);
        return BELFRY_OK;
    }
    enum belfry_err err =
        is_below(question) ? rights_claim_below(permit->rights, who, range, question->use, question->within_ms, now,
                                                &question->claim, &granted)
                           : rights_claim(permit->rights, who, range, question->use, now, &question->claim, &granted);
    if (err != BELFRY_OK)
        return err;
    belfry_list_remove(&question->node);
    question->state = CLAIMED;
    if (granted)
        permit_question_make_ready(question, PERMIT_GRANTED, "");
    return BELFRY_OK;
}

/* ---- rights ---- */

static const char *reason_of(const struct permit *permit, enum rights_verdict verdict)
{
    switch (verdict) {
    case RIGHTS_GRANTED:
        return "";
    case RIGHTS_DENIED:
        return permit_sentence(permit->why) != NULL ? permit->why : PERMIT_DENIED;
    case RIGHTS_BAD_TOKEN:
        if (permit_explains(permit->why))
            return permit->why;
        return strcmp(permit->why, RIGHTS_CALL_NO_USER) == 0 ? PERMIT_NO_USER : PERMIT_BAD_TOKEN;
    case RIGHTS_SILENT:
        return PERMIT_BAD_TOKEN;
    case RIGHTS_OLD_TOKEN:
        return PERMIT_OLD_REVISION;
    case RIGHTS_UNAVAILABLE:
        break;
    }
    return permit->why;
}

/* Upstream does not answer for its token. A tier below finds that out by its own time and its own probe. */
static void permit_question_refuse_silent(struct permit_question *question)
{
    if (is_below(question))
        permit_question_answer(question, PERMIT_UNAVAILABLE, PERMIT_SILENT);
    else
        permit_question_answer(question, PERMIT_REFUSED, PERMIT_BAD_TOKEN);
}

static void permit_tell_settled(struct permit *permit)
{
    for (struct rights_claim *claim; (claim = rights_settled(permit->rights)) != NULL;) {
        struct permit_question *question = belfry_container(claim, struct permit_question, claim);
        if (claim->verdict == RIGHTS_GRANTED && question->party != NULL)
            permit_question_hold(question);
        else if (claim->verdict == RIGHTS_GRANTED)
            permit_question_answer(question, PERMIT_GRANTED, "");
        else if (claim->verdict == RIGHTS_SILENT)
            permit_question_refuse_silent(question);
        else
            permit_question_answer(question, claim->verdict == RIGHTS_UNAVAILABLE ? PERMIT_UNAVAILABLE : PERMIT_REFUSED,
                                   reason_of(permit, claim->verdict));
    }
}

static void permit_tell_parties(struct permit *permit)
{
    static const enum permit_event events[] = {
        [RIGHTS_PAUSED] = PERMIT_PAUSED, [RIGHTS_RESUMED] = PERMIT_RESUMED, [RIGHTS_ENDED] = PERMIT_ENDED};
    enum rights_event event;
    for (struct rights_party *rights; (rights = rights_news(permit->rights, &event)) != NULL;) {
        struct permit_party *party = belfry_container(rights, struct permit_party, rights);
        party->fn(party, events[event], event == RIGHTS_ENDED ? reason_of(permit, rights->why) : "");
    }
}

static void permit_drop_abandoned(struct permit *permit, uint64_t now)
{
    for (struct rights_question *question; (question = rights_abandoned(permit->rights)) != NULL;) {
        if (question->user != NULL)
            permit->asker->api->cancel(question->user);
        rights_answer(permit->rights, question, RIGHTS_UNREACHABLE, 0, now);
    }
}

/* Tells what has changed, and asks what is to be asked. */
static void permit_go_on(struct permit *permit, uint64_t now)
{
    permit_tell_parties(permit); /* a party that ends takes its questions with it */
    permit_tell_settled(permit);
    permit_drop_abandoned(permit, now);
    permit_ask_rights(permit, now);
}

/* Other workers need not ask the same. */
static void permit_share(struct permit *permit, const struct rights_question *question,
                         const struct asking_answer *with, uint64_t now)
{
    bool is_worth_it = with->answer == RIGHTS_ALLOWED && with->age_ms < permit->opts.period_ms;
    if (permit->opts.answers != NULL && is_worth_it)
        answers_keep(permit->opts.answers, question, question->sent_ms - with->age_ms, now);
}

static void on_permit_answer(struct asking *call, const struct asking_answer *with)
{
    struct permit *permit = call->user;
    uint64_t now = belfry_clock_ms();
    enum rights_answer answer = with->answer;
    bool is_vouched = call->question->who.kind == CREDENTIAL_USER;
    bool is_hanging = with->timed_out && permit->regime.answered_ms > call->question->sent_ms;
    if (is_hanging && call->question->is_first && !is_vouched) /* a renewal has too little time for that */
        answer = RIGHTS_SILENCE;
    if (answer == RIGHTS_ALLOWED) /* etcd's own words are an error, and count only if the answer comes too late */
        snprintf(permit->why, sizeof(permit->why), "%s", PERMIT_TOO_LATE);
    else if (with->message != permit->why)
        snprintf(permit->why, sizeof(permit->why), "%s", with->message);
    permit_share(permit, call->question, with, now);
    rights_answer(permit->rights, call->question, answer, with->age_ms, now);
    permit_go_on(permit, now);
    permit_arm_timer(permit, now);
}

static uint32_t permit_renewal_ms(const struct permit *permit)
{
    uint64_t fifth = permit->opts.period_ms / 5; /* so that another member can be asked in time */
    return (uint32_t)belfry_min_time(fifth, PERMIT_TIMEOUT_MS);
}

static void permit_send(struct permit *permit, struct rights_question *question, uint64_t now)
{
    struct asking *call;
    uint64_t since_ms;
    if (permit->opts.answers != NULL && answers_find(permit->opts.answers, question, now, &since_ms)) {
        permit->stats.shared++;
        rights_answer(permit->rights, question, RIGHTS_ALLOWED, now - since_ms, now);
        return;
    }
    struct asking_opts opts = {.timeout_ms = question->is_first ? PERMIT_TIMEOUT_MS : permit_renewal_ms(permit),
                               .fn = on_permit_answer,
                               .user = permit,
                               .why = permit->why,
                               .why_len = sizeof(permit->why)};
    enum belfry_err err = permit->asker->api->open(permit->asker, question, &opts, &call);
    if (err == BELFRY_OK) {
        question->user = call;
        call->tried_ms = now;
        belfry_list_append(question->is_first ? &permit->firsts : &permit->calls, &call->node);
        permit->stats.asked++;
        return;
    }
    bool is_refused = err == BELFRY_ERR_INVALID || err == BELFRY_ERR_AUTH;
    rights_answer(permit->rights, question, is_refused ? RIGHTS_NO_SUCH_TOKEN : RIGHTS_UNREACHABLE, 0, now);
}

static void permit_ask_rights(struct permit *permit, uint64_t now)
{
    for (struct rights_question *question; (question = rights_ask(permit->rights, now)) != NULL;)
        permit_send(permit, question, now);
}

/* Renewals that are not answered in time are asked again, elsewhere. */
static void permit_end_late_calls(struct permit *permit, uint64_t now)
{
    while (!belfry_list_empty(&permit->calls)) {
        struct asking *call = belfry_container(permit->calls.next, struct asking, node);
        struct rights_question *question = call->question;
        if (now < question->sent_ms + permit_renewal_ms(permit))
            return;
        permit->asker->api->cancel(call);
        rights_answer(permit->rights, question, RIGHTS_UNREACHABLE, 0, now);
    }
}

/* Its deadline has passed, though upstream was to keep it. */
static bool asking_is_late(const struct asking *call, uint64_t now)
{
    return now >= call->question->sent_ms + PERMIT_TIMEOUT_MS + ELSEWHERE_MS;
}

/* A member that does not answer may be cut off from the others, which know the token. */
static void permit_ask_elsewhere(struct permit *permit, uint64_t now)
{
    while (!belfry_list_empty(&permit->firsts)) {
        struct asking *call = belfry_container(permit->firsts.next, struct asking, node);
        if (now < call->tried_ms + ELSEWHERE_MS)
            return;
        if (asking_is_late(call, now)) {
            struct rights_question *question = call->question;
            permit->asker->api->cancel(call);
            rights_answer(permit->rights, question, RIGHTS_UNREACHABLE, 0, now);
            continue;
        }
        belfry_list_remove(&call->node);
        belfry_list_append(&permit->firsts, &call->node);
        call->tried_ms = now;
        permit->asker->api->ask_elsewhere(call);
    }
}

/* ---- is auth on? ---- */

static struct regime_needs permit_needs(const struct permit *permit)
{
    return (struct regime_needs){.waiting = !belfry_list_empty(&permit->pending), .running = permit->n_parties > 0};
}

static void permit_tell_regime(struct permit *permit, enum permit_regime before)
{
    if (permit->regime.state == before)
        return;
    for (size_t i = 0; i < permit->n_listeners; i++)
        permit->listeners[i].fn(permit->listeners[i].user);
}

static enum permit_auth permit_judge_status(const struct unary_answer *with)
{
    bool unjudged = !with->judged || with->code == BELFRY_GRPC_UNAVAILABLE ||
                    with->code == BELFRY_GRPC_DEADLINE_EXCEEDED || with->code == BELFRY_GRPC_RESOURCE_EXHAUSTED ||
                    with->code == BELFRY_GRPC_CANCELLED;
    if (unjudged)
        return PERMIT_AUTH_UNKNOWN;
    bool off = with->code == BELFRY_GRPC_FAILED_PRECONDITION && strcmp(with->message, IS_OFF) == 0;
    return off ? PERMIT_AUTH_OFF : PERMIT_AUTH_ON;
}

static void permit_question_settle_off(struct permit_question *question, enum listen_rights rights, uint64_t since_ms)
{
    question->since_ms = since_ms;
    if (rights == LISTEN_RIGHTS_UPSTREAM)
        permit_question_make_ready(question, PERMIT_UNAVAILABLE, PERMIT_AUTH_IS_OFF);
    else
        permit_question_make_ready(question, PERMIT_GRANTED, "");
}

static void permit_question_settle(struct permit_question *question, enum permit_auth auth, uint64_t now)
{
    if (auth == PERMIT_AUTH_OFF) {
        permit_question_settle_off(question, question->subject->rights, question->asked_ms); /* it was asked later */
    } else if (auth == PERMIT_AUTH_ON) {
        struct permit_subject *subject = question->subject;
        permit_subject_uncount(subject); /* the claim counts itself, and needs the room */
        enum belfry_err err = permit_question_claim(question, subject->who, subject->range, now);
        if (err != BELFRY_OK)
            permit_question_make_ready(question, PERMIT_UNAVAILABLE, belfry_strerror((int)err));
    }
    if (question->state != PENDING)
        permit_question_drop_subject(question);
}

static void permit_settle_pending(struct permit *permit, uint64_t now)
{
    belfry_list_each_safe (node, &permit->pending) {
        struct permit_question *question = belfry_container(node, struct permit_question, node);
        if (regime_settles(&permit->regime, question->asked_ms, now))
            permit_question_settle(question, permit->regime.auth, now);
    }
}

/* An answer may be older than the doubt: it is discarded, and settles only questions that have seen another answer
 * discarded. Otherwise a client that causes doubts without end could delay every question. */
static void permit_settle_in_doubt(struct permit *permit, enum permit_auth auth, uint64_t now)
{
    belfry_list_each_safe (node, &permit->pending) {
        struct permit_question *question = belfry_container(node, struct permit_question, node);
        if (question->saw_doubt)
            permit_question_settle(question, auth, now);
        question->saw_doubt = true;
    }
}

static void permit_log_auth(struct permit *permit)
{
    enum permit_auth auth = permit->regime.auth;
    if (auth == permit->logged)
        return;
    belfry_logf(permit->opts.log, BELFRY_LOG_INFO, "upstream_auth", "is=%s", auth == PERMIT_AUTH_ON ? "on" : "off");
    permit->logged = auth;
}

/* What was known may have ended by now. Listeners learn that, too. */
static void permit_pass_time(struct permit *permit, uint64_t now)
{
    enum permit_regime before = permit->regime.state;
    if (regime_turn(&permit->regime, now)) {
        unary_cancel(permit->status);
        permit->status = NULL;
    }
    permit_tell_regime(permit, before);
}

/* While no stream ran, nothing looked at the time. Without a look at it here, an answer that is the same as before
 * would seem to change nothing, and a stream that found the old one too old would wait for ever. */
static void on_permit_status(const struct unary_answer *with, void *user)
{
    struct permit *permit = user;
    uint64_t now = belfry_clock_ms();
    enum permit_auth auth = permit_judge_status(with);
    permit->status = NULL;
    permit_pass_time(permit, now);
    enum permit_regime before = permit->regime.state;
    switch (regime_answer(&permit->regime, auth, permit_needs(permit), now)) {
    case REGIME_NOTHING:
        break;
    case REGIME_IN_DOUBT:
        permit_settle_in_doubt(permit, auth, now);
        break;
    case REGIME_KNOWN:
        permit_log_auth(permit);
        permit_settle_pending(permit, now);
        break;
    }
    permit_tell_regime(permit, before);
    if (!belfry_list_empty(&permit->pending))
        permit_ask_status(permit, now);
    permit_go_on(permit, now);
    permit_arm_timer(permit, now);
}

static void permit_ask_status(struct permit *permit, uint64_t now)
{
    if (!regime_may_ask(&permit->regime, now))
        return;
    struct unary_opts opts = {.uplink = permit->opts.uplink,
                              .path = AUTH_PATH,
                              .timeout_ms = REGIME_TIMEOUT_MS,
                              .caller = UPLINK_CALLER_ANYONE, /* clients only learn whether they need a token */
                              .fn = on_permit_status,
                              .user = permit};
    if (unary_open(&opts, &permit->status) != BELFRY_OK) {
        regime_ask_failed(&permit->regime, now);
        return;
    }
    regime_asked(&permit->regime, now);
    permit->stats.status_calls++;
}

/* The first that waits for upstream, and when it is suspect. */
static uint64_t permit_suspect_due(const struct permit *permit)
{
    if (belfry_list_empty(&permit->order) || permit->regime.is_fixed)
        return BELFRY_NEVER;
    const struct permit_question *first = belfry_container(permit->order.next, struct permit_question, order);
    uint64_t due = first->asked_ms + SUSPECT_MS;
    if (permit->status != NULL || first->state != CLAIMED || permit->regime.answered_ms > first->asked_ms)
        return BELFRY_NEVER;
    return due > permit->regime.retry_ms ? due : permit->regime.retry_ms;
}

/* ---- time ---- */

static uint64_t permit_next_due(const struct permit *permit, uint64_t now)
{
    bool has_work =
        !belfry_list_empty(&permit->ready) || rights_has_news(permit->rights) || rights_has_question(permit->rights);
    if (has_work)
        return now;
    uint64_t due = rights_due(permit->rights);
    if (!belfry_list_empty(&permit->order))
        due = belfry_min_time(due, belfry_container(permit->order.next, struct permit_question, order)->asked_ms +
                                       PERMIT_TIMEOUT_MS);
    if (!belfry_list_empty(&permit->calls)) {
        const struct asking *call = belfry_container(permit->calls.next, struct asking, node);
        due = belfry_min_time(due, call->question->sent_ms + permit_renewal_ms(permit));
    }
    if (!belfry_list_empty(&permit->firsts)) {
        const struct asking *call = belfry_container(permit->firsts.next, struct asking, node);
        due = belfry_min_time(due, call->tried_ms + ELSEWHERE_MS);
    }
    due = belfry_min_time(due, regime_due(&permit->regime, permit_needs(permit)));
    return belfry_min_time(due, permit_suspect_due(permit));
}

/* Is it the token? Its question was sent long ago, and upstream has answered one that was sent after it. While upstream
 * could not be asked, or the question has just been sent again, it may be a good token. */
static bool permit_question_is_hanging(const struct permit_question *question, uint64_t now)
{
    uint64_t sent_ms = question->state == CLAIMED ? rights_claim_sent(&question->claim) : BELFRY_NEVER;
    return sent_ms != BELFRY_NEVER && now >= sent_ms + SUSPECT_MS && question->permit->regime.answered_ms > sent_ms;
}

static void permit_expire(struct permit *permit, uint64_t now)
{
    char why[WHY_MAX];
    uplink_describe(permit->opts.uplink, why, sizeof(why));
    while (!belfry_list_empty(&permit->order)) {
        struct permit_question *question = belfry_container(permit->order.next, struct permit_question, order);
        if (now < question->asked_ms + PERMIT_TIMEOUT_MS)
            return;
        if (permit_question_is_hanging(question, now) && !question->is_vouched)
            permit_question_refuse_silent(question);
        else
            permit_question_answer(question, PERMIT_UNAVAILABLE,
                                   why[0] != '\0' ? why : "upstream does not answer whether this is allowed");
    }
}

static void permit_tell_ready(struct permit *permit)
{
    struct belfry_list ready;
    belfry_list_init(&ready);
    belfry_list_move_all(&ready, &permit->ready); /* questions that become ready meanwhile wait for the next turn */
    while (!belfry_list_empty(&ready)) {
        struct permit_question *question = belfry_container(ready.next, struct permit_question, node);
        if (question->verdict == PERMIT_GRANTED && question->claim.warrant != NULL)
            permit_question_hold(question);
        else
            permit_question_answer(question, question->verdict, question->reason);
    }
}

static void permit_look_at_auth(struct permit *permit, uint64_t now)
{
    permit_pass_time(permit, now);
    if (regime_ask_due(&permit->regime, permit_needs(permit)) <= now || permit_suspect_due(permit) <= now)
        permit_ask_status(permit, now);
}

static void on_permit_timer(uv_timer_t *timer)
{
    struct permit *permit = timer->data;
    uint64_t now = belfry_clock_ms();
    permit_turn(permit, now);
    permit_arm_timer(permit, now); /* what it was armed for may be gone, and there may have been no turn */
}

void permit_turn(struct permit *permit, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(permit);
    if (permit_next_due(permit, now_ms) > now_ms)
        return;
    permit_tell_ready(permit);
    permit_expire(permit, now_ms);
    if (permit->destroyed)
        return;
    permit_end_late_calls(permit, now_ms);
    permit_ask_elsewhere(permit, now_ms);
    rights_turn(permit->rights, now_ms);
    permit_look_at_auth(permit, now_ms);
    permit_go_on(permit, now_ms);
    permit_arm_timer(permit, now_ms);
}

static void permit_arm_timer(struct permit *permit, uint64_t now)
{
    uint64_t due = permit_next_due(permit, now);
    if (permit->destroyed)
        return;
    if (due == BELFRY_NEVER) {
        uv_timer_stop(&permit->timer);
        return;
    }
    uv_update_time(permit->timer.loop);
    uv_timer_start(&permit->timer, on_permit_timer, due > now ? due - now : 0, 0);
}

/* ---- asking ---- */

/* What the listener says. With an asker of the caller's no listener is open. A permit of NULL has none: what is open to
 * all needs no permit. */
static enum listen_rights permit_rights(const struct permit *permit, const struct identity *who)
{
    return permit != NULL && permit->opts.asker != NULL ? LISTEN_RIGHTS_UPSTREAM : who->rights;
}

/* On an open listener only a token counts. */
static struct rights_who who_of(const struct identity *who, enum listen_rights rights)
{
    if (who->kind == IDENTITY_CERT && rights != LISTEN_RIGHTS_OPEN)
        return (struct rights_who){CREDENTIAL_USER, who->text, who->source, who->share};
    if (who->kind != IDENTITY_TOKEN)
        return (struct rights_who){.kind = CREDENTIAL_NONE};
    bool is_token = who->field == IDENTITY_FIELD_TOKEN;
    return (struct rights_who){is_token ? CREDENTIAL_TOKEN : CREDENTIAL_AUTHORIZATION, who->text, who->source,
                               who->share};
}

/* Questions may wait for long, if upstream hangs: each counts to its client, so that those of one leave room to others.
 * A question without a client belongs to a relayed call, which is counted. */
static enum belfry_err permit_question_wait_for_auth(struct permit_question *question, struct shares_conn *share,
                                                     struct rights_who who, enum listen_rights rights,
                                                     struct rights_range range)
{
    struct permit *permit = question->permit;
    size_t text_bytes = who.secret.len + range.key.len + range.end.len, bytes = permit_pending_bytes(text_bytes);
    if (share != NULL && !shares_make_room(share, SHARES_WATCH_BYTES, bytes))
        return BELFRY_ERR_REFUSED;
    struct permit_subject *subject = malloc(sizeof(*subject) + text_bytes);
    if (subject == NULL)
        return BELFRY_ERR_NOMEM;
    char *to = subject->text;
    *subject = (struct permit_subject){.share = share, .rights = rights, .text_bytes = text_bytes};
    subject->who = (struct rights_who){who.kind, belfry_pack(&to, who.secret), who.source, who.share};
    subject->range = (struct rights_range){belfry_pack(&to, range.key), belfry_pack(&to, range.end)};
    question->subject = subject;
    if (share != NULL)
        shares_count(share, SHARES_WATCH_BYTES, 0, bytes);
    belfry_list_append(&permit->pending, &question->node);
    return BELFRY_OK;
}

/* "On" need not be fresh for a client with a token: upstream answers it, whether auth is on or off. */
static enum belfry_err permit_question_begin(struct permit_question *question, const struct identity *identity,
                                             struct rights_range range, uint64_t now)
{
    struct permit *permit = question->permit;
    enum listen_rights rights = permit_rights(permit, identity);
    struct rights_who who = who_of(identity, rights);
    bool is_fresh = regime_is_fresh(&permit->regime, now), has_token = identity->kind == IDENTITY_TOKEN;
    if (rights == LISTEN_RIGHTS_OPEN && who.kind == CREDENTIAL_NONE) {
        permit_question_make_ready(question, PERMIT_GRANTED, "");
        return BELFRY_OK;
    }
    if (permit->regime.auth == PERMIT_AUTH_ON && (is_fresh || has_token))
        return permit_question_claim(question, who, range, now);
    if (is_fresh) {
        permit_question_settle_off(question, rights, permit->regime.auth_ms);
        return BELFRY_OK;
    }
    enum belfry_err err = permit_question_wait_for_auth(question, identity->share, who, rights, range);
    if (err == BELFRY_OK)
        permit_ask_status(permit, now);
    return err;
}

static enum belfry_err permit_question_open(struct permit *permit, const struct permit_question *from,
                                            const struct identity *who, struct rights_range range,
                                            struct permit_question **out)
{
    struct permit_question *question = malloc(sizeof(*question));
    if (question == NULL)
        return BELFRY_ERR_NOMEM;
    *question = *from;
    question->permit = permit;
    belfry_list_init(&question->order);
    belfry_list_init(&question->node);
    belfry_list_init(&question->claim.node);
    belfry_list_init(&question->claim.news);
    enum belfry_err err = permit_question_begin(question, who, range, question->asked_ms);
    if (err != BELFRY_OK) {
        permit_question_free(question);
        return err;
    }
    belfry_list_append(&permit->order, &question->order);
    permit_arm_timer(permit, question->asked_ms);
    *out = question;
    return BELFRY_OK;
}

enum belfry_err permit_ask(struct permit *permit, const struct identity *who, struct belfry_bytes key,
                           struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                           struct permit_question **out)
{
    BELFRY_OWNER_CHECK(permit);
    struct permit_question question = {.fn = fn, .user = user, .use = RIGHTS_ONCE, .asked_ms = now_ms};
    return permit_question_open(permit, &question, who, rights_range_of(key, range_end), out);
}

enum belfry_err permit_ask_below(struct permit *permit, const struct identity *who, const struct permit_below *below,
                                 permit_fn fn, void *user, struct permit_question **out)
{
    BELFRY_OWNER_CHECK(permit);
    struct permit_question question = {.fn = fn,
                                       .user = user,
                                       .use = below->is_part ? RIGHTS_BELOW_PART : RIGHTS_BELOW,
                                       .within_ms = below->within_ms,
                                       .asked_ms = below->now_ms};
    struct rights_range range = rights_range_of(below->range.key, below->range.end);
    return permit_question_open(permit, &question, who, range, out);
}

uint64_t permit_since(const struct permit_question *question)
{
    return question->claim.since_ms != 0 ? question->claim.since_ms : question->since_ms;
}

enum belfry_err permit_hold(struct permit *permit, struct permit_party *party, struct belfry_bytes key,
                            struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                            struct permit_question **out)
{
    BELFRY_OWNER_CHECK(permit);
    struct permit_question question = {.fn = fn, .user = user, .party = party, .use = RIGHTS_KEPT, .asked_ms = now_ms};
    return permit_question_open(permit, &question, party->who, rights_range_of(key, range_end), out);
}

void permit_cancel(struct permit_question *question)
{
    struct permit *permit = question->permit;
    permit_question_leave(question);
    rights_release(permit->rights, &question->claim);
    permit_question_free(question);
    if (!permit->destroyed)
        permit_drop_abandoned(permit, belfry_clock_ms());
}

/* ---- streams that run ---- */

void permit_join(struct permit *permit, struct permit_party *party, const struct identity *who, permit_party_fn fn)
{
    BELFRY_OWNER_CHECK(permit);
    *party = (struct permit_party){.who = who, .fn = fn};
    permit->n_parties++;
    permit_arm_timer(permit, belfry_clock_ms());
}

void permit_leave(struct permit *permit, struct permit_party *party)
{
    BELFRY_OWNER_CHECK(permit);
    if (party->fn == NULL)
        return;
    rights_leave(permit->rights, &party->rights);
    party->fn = NULL;
    permit->n_parties--;
}

static bool permit_is_free_to(const struct permit *permit, const struct permit_party *party)
{
    return permit_rights(permit, party->who) == LISTEN_RIGHTS_OPEN && party->who->kind != IDENTITY_TOKEN;
}

enum permit_regime permit_regime(const struct permit *permit, const struct permit_party *party)
{
    if (permit_is_free_to(permit, party))
        return PERMIT_OPEN;
    bool is_shut = permit->regime.state == PERMIT_OPEN && permit_rights(permit, party->who) == LISTEN_RIGHTS_UPSTREAM;
    return is_shut ? PERMIT_UNSURE : permit->regime.state;
}

bool permit_may_deliver(const struct permit *permit, const struct permit_party *party, uint64_t now_ms)
{
    switch (permit_regime(permit, party)) {
    case PERMIT_UNSURE:
        return false;
    case PERMIT_OPEN:
        return permit_is_free_to(permit, party) || regime_is_open(&permit->regime, now_ms);
    case PERMIT_ASKS:
        break;
    }
    return party->rights.bearer == NULL || rights_party_may(&party->rights, now_ms);
}

void permit_listen(struct permit *permit, void (*fn)(void *user), void *user)
{
    BELFRY_OWNER_CHECK(permit);
    assert(permit->n_listeners < PERMIT_LISTENERS);
    permit->listeners[permit->n_listeners].fn = fn;
    permit->listeners[permit->n_listeners++].user = user;
}

void permit_unlisten(struct permit *permit, const void *user)
{
    BELFRY_OWNER_CHECK(permit);
    size_t n = 0;
    for (size_t i = 0; i < permit->n_listeners; i++) {
        if (permit->listeners[i].user != user)
            permit->listeners[n++] = permit->listeners[i];
    }
    permit->n_listeners = n;
}

/* ---- create and destroy ---- */

static bool is_off_now(void *user)
{
    return permit_is_open(user, belfry_clock_ms());
}

enum belfry_err permit_create(const struct permit_opts *opts, struct permit **out)
{
    struct permit *permit = calloc(1, sizeof(*permit));
    if (permit == NULL)
        return BELFRY_ERR_NOMEM;
    permit->opts = *opts;
    permit->opts.n_members = opts->n_members > 0 ? opts->n_members : 1;
    permit->opts.period_ms = opts->period_ms > 0 ? opts->period_ms : PERMIT_PERIOD_MS;
    if (opts->asker != NULL)
        permit->opts.period_ms = belfry_min_time(permit->opts.period_ms, PERMIT_PERIOD_MS);
    regime_init(&permit->regime, permit->opts.period_ms, opts->seed);
    rights_calls_init(&permit->calls_of_etcd, opts->uplink, permit->opts.n_members, opts->vouch);
    permit->asker = opts->asker != NULL ? opts->asker : &permit->calls_of_etcd.asker;
    if (opts->asker != NULL)
        regime_fix(&permit->regime); /* auth is always on */
    struct rights_opts rights = {.period_ms = permit->opts.period_ms - permit->opts.period_ms / MARGIN,
                                 .seed = opts->seed,
                                 .hash_key = belfry_hash_key_draw(),
                                 .idle_max = opts->idle_max > 0 ? opts->idle_max : PERMIT_IDLE_BYTES,
                                 .claim_bytes = sizeof(struct permit_question) + PERMIT_HOLDER,
                                 .renews_late = opts->asker != NULL};
    enum belfry_err err = rights_create(&rights, &permit->rights);
    if (err != BELFRY_OK) {
        free(permit);
        return err;
    }
    belfry_list_init(&permit->order);
    belfry_list_init(&permit->pending);
    belfry_list_init(&permit->ready);
    belfry_list_init(&permit->calls);
    belfry_list_init(&permit->firsts);
    uv_timer_init(opts->loop, &permit->timer);
    permit->timer.data = permit;
    uplink_ask_auth(opts->uplink, is_off_now, permit);
    BELFRY_OWNER_INIT(permit);
    *out = permit;
    return BELFRY_OK;
}

static void on_permit_timer_closed(uv_handle_t *timer)
{
    struct permit *permit = timer->data;
    rights_destroy(permit->rights);
    free(permit);
}

static void permit_cancel_calls(struct permit *permit, struct belfry_list *calls)
{
    while (!belfry_list_empty(calls))
        permit->asker->api->cancel(belfry_container(calls->next, struct asking, node));
}

void permit_destroy(struct permit *permit)
{
    if (permit == NULL)
        return;
    BELFRY_OWNER_CHECK(permit);
    permit->destroyed = true;
    uplink_ask_auth(permit->opts.uplink, NULL, NULL);
    permit_cancel_calls(permit, &permit->calls);
    permit_cancel_calls(permit, &permit->firsts);
    while (!belfry_list_empty(&permit->order))
        permit_cancel(belfry_container(permit->order.next, struct permit_question, order));
    unary_cancel(permit->status);
    permit->status = NULL;
    uv_close((uv_handle_t *)&permit->timer, on_permit_timer_closed);
}

/* ---- auth, numbers ---- */

bool permit_is_open(struct permit *permit, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(permit);
    return permit->regime.auth == PERMIT_AUTH_OFF && regime_is_fresh(&permit->regime, now_ms);
}

bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms)
{
    switch (permit_rights(permit, who)) {
    case LISTEN_RIGHTS_OPEN:
        return who->kind != IDENTITY_TOKEN || permit_is_open(permit, now_ms);
    case LISTEN_RIGHTS_UPSTREAM:
        return false;
    case LISTEN_RIGHTS_ASKED:
        break;
    }
    return permit_is_open(permit, now_ms);
}

bool permit_was_open(struct permit *permit, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(permit);
    bool was_off = regime_was_off(&permit->regime, now_ms);
    if (was_off && !regime_is_fresh(&permit->regime, now_ms)) {
        permit_ask_status(permit, now_ms);
        permit_arm_timer(permit, now_ms);
    }
    return was_off;
}

bool permit_serves_off(const struct permit *permit, const struct identity *who)
{
    return permit_rights(permit, who) != LISTEN_RIGHTS_UPSTREAM;
}

void permit_cut_off(struct permit *permit, uint64_t heard_ms)
{
    BELFRY_OWNER_CHECK(permit);
    regime_cut_off(&permit->regime, heard_ms);
}

void permit_reach(struct permit *permit)
{
    BELFRY_OWNER_CHECK(permit);
    regime_reach(&permit->regime);
}

void permit_doubt(struct permit *permit)
{
    BELFRY_OWNER_CHECK(permit);
    regime_doubt(&permit->regime);
    if (permit->n_parties > 0)
        permit_arm_timer(permit, belfry_clock_ms());
}

enum permit_auth permit_auth(struct permit *permit, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(permit);
    if (regime_is_fresh(&permit->regime, now_ms))
        return permit->regime.auth;
    permit_ask_status(permit, now_ms);
    permit_arm_timer(permit, now_ms);
    return PERMIT_AUTH_UNKNOWN;
}

void permit_stats(const struct permit *permit, struct permit_stats *out)
{
    *out = permit->stats;
    rights_stats(permit->rights, &out->rights);
}
