/* tests/sim/asking.c */
#include "sim/asking.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/grpc.h"
#include "serve/rights/rights_call.h"
#include "serve/uplink/unary.h"
#include "sim/cover.h"
#include "sim/trace.h"
#include "sim/verdict.h"

#define TALLIES_MAX 64
#define ROUND_MAX   1000
#define LOOK_MS     50 /* between two looks whether a silent member is back */
#define IS_OFF      "etcdserver: authentication is not enabled"
#define NO_NAME     "etcdserver: user name is empty"

/* What was asked about one bearer. */
struct tally {
    unsigned kind;
    char secret[16];
    uint64_t since_ms;
    uint64_t unanswered_ms;     /* when a question, or a member, last was left without an answer; 0: never */
    uint64_t renewals, excused; /* excused: answers after which it may be asked again at once */
};

struct uplink {
    const struct tier_opts *opts;
    struct belfry_list calls; /* struct errand */
    struct unary *status;     /* under way; NULL: none */
    struct tally tallies[TALLIES_MAX];
    size_t n_tallies;
};

/* A question on its way. What upstream says is what was true at reach_ms. */
struct errand {
    struct asking asking; /* permit's view */
    const struct rights_calls *calls;
    asking_fn fn;
    size_t n_tried;
    struct belfry_list node;
    uint64_t reach_ms, back_ms, deadline_ms;
    bool hangs; /* nothing ever comes back */
};

struct unary {
    struct uplink *uplink;
    uint64_t reach_ms, back_ms;
    unary_fn fn;
    void *user;
};

static struct sched *sched_of(const struct uplink *uplink)
{
    return uplink->opts->sched;
}

static struct errand *errand_of(struct belfry_list *node)
{
    return belfry_container(node, struct errand, node);
}

/* ---- how often a bearer is asked about ---- */

/* NULL: there is none. */
static struct tally *tally_find(struct uplink *uplink, const struct rights_who *who)
{
    struct tally *tally = uplink->tallies;
    for (size_t i = 0; i < uplink->n_tallies; i++, tally++) {
        if (tally->kind == who->kind && belfry_bytes_equal(belfry_bytes_str(tally->secret), who->secret))
            return tally;
    }
    return NULL;
}

static struct tally *tally_of(struct uplink *uplink, const struct rights_who *who, uint64_t now)
{
    struct tally *tally = tally_find(uplink, who);
    if (tally != NULL)
        return tally;
    if (uplink->n_tallies == TALLIES_MAX)
        tally = &uplink->tallies[sched_below(sched_of(uplink), TALLIES_MAX)];
    else
        tally = &uplink->tallies[uplink->n_tallies++];
    *tally = (struct tally){.kind = who->kind, .since_ms = now};
    snprintf(tally->secret, sizeof(tally->secret), "%.*s", (int)who->secret.len, who->secret.data);
    return tally;
}

static struct rights_who bearer_of(const struct auth_who *who)
{
    return (struct rights_who){.kind = (unsigned)who->kind, .secret = belfry_bytes_str(who->secret)};
}

void asking_claimed(struct uplink *uplink, const struct auth_who *who, uint64_t now_ms)
{
    struct rights_who bearer = bearer_of(who);
    tally_of(uplink, &bearer, now_ms)->excused++;
}

bool asking_lacked_answer(struct uplink *uplink, const struct auth_who *who, uint64_t from_ms)
{
    struct rights_who bearer = bearer_of(who);
    const struct tally *tally = tally_find(uplink, &bearer);
    return tally != NULL && tally->unanswered_ms != 0 && tally->unanswered_ms >= from_ms;
}

static void tally_question(struct uplink *uplink, const struct rights_question *question, uint64_t now)
{
    struct tally *tally = tally_of(uplink, &question->who, now);
    uint64_t shortest = auth_period(uplink->opts->auth) * 38 / 100; /* rounds are 40 to 70 % of 98 % apart */
    uint64_t most = 2 + tally->excused + (now - tally->since_ms) / shortest;
    tally->renewals += !question->is_first;
    tally->excused += question->is_first; /* its answer has a time of its own, and may be renewed alone */
    if (tally->renewals > most)
        verdict_fail("%s: %s was asked about %llu times in %llu ms, to renew it; the bound is %llu", uplink->opts->name,
                     tally->secret, (unsigned long long)tally->renewals, (unsigned long long)(now - tally->since_ms),
                     (unsigned long long)most);
}

static void tally_answer(struct uplink *uplink, const struct rights_question *question, enum rights_answer answer,
                         uint64_t age_ms, uint64_t now)
{
    struct tally *tally = tally_of(uplink, &question->who, now);
    if (answer == RIGHTS_FORBIDDEN)
        tally->excused += question->n > 1 ? question->n + 3 : 0; /* halves, and small questions for a while */
    else if (answer != RIGHTS_ALLOWED || age_ms > question->within_ms)
        tally->excused++;
    if (answer == RIGHTS_UNREACHABLE)
        tally->unanswered_ms = now;
}

/* ---- the way ---- */

/* Short enough that all members can be asked within a fifth of a period, as permit.c supposes. */
static uint64_t some_delay(const struct uplink *uplink)
{
    uint64_t most = belfry_min_time(uplink->opts->delay_ms * 2, auth_period(uplink->opts->auth) / 40);
    return sched_below(sched_of(uplink), most + 1);
}

/* It answers when it is back. */
static bool member_is_silent(const struct uplink *uplink, unsigned member)
{
    const struct etcd *etcd = uplink->opts->peer.etcd;
    return etcd_member_is_up(etcd, member) && (etcd_member_is_cut_off(etcd, member) || !etcd_has_quorum(etcd));
}

static unsigned errand_member(const struct errand *errand)
{
    return (unsigned)((errand->asking.question->turn + errand->n_tried) % errand->calls->n_members);
}

static void errand_set_out(struct errand *errand)
{
    struct uplink *uplink = errand->calls->uplink;
    struct belfry_bytes secret = errand->asking.question->who.secret;
    struct auth_who who = {.kind = (enum auth_kind)errand->asking.question->who.kind};
    uint64_t now = sched_now(sched_of(uplink));
    snprintf(who.secret, sizeof(who.secret), "%.*s", (int)secret.len, secret.data);
    errand->reach_ms = now + some_delay(uplink) + auth_delay(uplink->opts->auth) / 2;
    errand->back_ms =
        errand->reach_ms + some_delay(uplink) +
        auth_delay_answer(uplink->opts->auth, errand->asking.question, errand_member(errand), errand->reach_ms);
    errand->hangs = auth_hangs(&who) && auth_was_on(uplink->opts->auth, now);
}

static enum belfry_err errand_open(struct asker *asker, struct rights_question *question,
                                   const struct asking_opts *opts, struct asking **out)
{
    const struct rights_calls *calls = belfry_container(asker, struct rights_calls, asker);
    struct errand *errand = calloc(1, sizeof(*errand));
    uint64_t now = sched_now(sched_of(calls->uplink));
    if (errand == NULL)
        abort();
    *errand = (struct errand){.asking = {.question = question, .user = opts->user},
                              .calls = calls,
                              .fn = opts->fn,
                              .deadline_ms = now + opts->timeout_ms};
    belfry_list_init(&errand->asking.node);
    belfry_list_append(&calls->uplink->calls, &errand->node);
    tally_question(calls->uplink, question, now);
    errand_set_out(errand);
    *out = &errand->asking;
    return BELFRY_OK;
}

static void errand_free(struct errand *errand)
{
    belfry_list_remove(&errand->asking.node);
    belfry_list_remove(&errand->node);
    free(errand);
}

static void errand_cancel(struct asking *asking)
{
    struct errand *errand = belfry_container(asking, struct errand, asking);
    struct uplink *uplink = errand->calls->uplink;
    tally_answer(uplink, asking->question, RIGHTS_UNREACHABLE, 0, sched_now(sched_of(uplink)));
    errand_free(errand);
}

static void errand_ask_elsewhere(struct asking *asking)
{
    struct errand *errand = belfry_container(asking, struct errand, asking);
    if (errand->n_tried + 1 >= errand->calls->n_members)
        return;
    struct uplink *uplink = errand->calls->uplink;
    uint64_t now = sched_now(sched_of(uplink));
    tally_of(uplink, &asking->question->who, now)->unanswered_ms = now;
    errand->n_tried++;
    COVER(rights_elsewhere);
    errand_set_out(errand);
}

void rights_calls_init(struct rights_calls *calls, struct uplink *uplink, size_t n_members, struct vouch *vouch)
{
    static const struct asker_api api = {
        .open = errand_open, .cancel = errand_cancel, .ask_elsewhere = errand_ask_elsewhere};
    *calls = (struct rights_calls){.asker.api = &api, .uplink = uplink, .n_members = n_members, .vouch = vouch};
}

/* ---- the answer ---- */

/* A tier above may have known it for some time: it was true once. */
static bool was_allowed(const struct errand *errand, uint64_t *age_ms)
{
    const struct uplink *uplink = errand->calls->uplink;
    const struct auth *auth = uplink->opts->auth;
    uint64_t oldest_ms = errand->asking.question->within_ms; /* what is older a tier should ask about itself */
    if (!sched_one_in(sched_of(uplink), 3))
        oldest_ms = auth_period(auth) * 9 / 10;
    uint64_t from_ms = errand->reach_ms > oldest_ms ? errand->reach_ms - oldest_ms : 0;
    uint64_t at_ms = auth_last_allowed(auth, errand->asking.question, errand_member(errand), from_ms, errand->reach_ms);
    if (uplink->opts->level == 0 || at_ms == 0 || sched_one_in(sched_of(uplink), 6))
        return false;
    *age_ms = errand->reach_ms - at_ms;
    *age_ms += sched_one_in(sched_of(uplink), 4) ? sched_below(sched_of(uplink), at_ms - from_ms + 1) : 0;
    return true;
}

static enum rights_answer judge_with_age(const struct errand *errand, uint64_t *age_ms)
{
    if (was_allowed(errand, age_ms)) {
        COVER_BY(rights_aged, *age_ms > 0);
        return RIGHTS_ALLOWED;
    }
    *age_ms = 0;
    return auth_judge(errand->calls->uplink->opts->auth, errand->asking.question, errand_member(errand),
                      errand->reach_ms);
}

static void errand_deliver(struct errand *errand, uint64_t now)
{
    struct asking *call = &errand->asking;
    struct uplink *uplink = errand->calls->uplink;
    struct asking_answer answer = {.answer = RIGHTS_UNREACHABLE, .message = "upstream cannot be asked"};
    bool is_up = etcd_member_is_up(uplink->opts->peer.etcd, errand_member(errand));
    if (now < errand->deadline_ms && member_is_silent(uplink, errand_member(errand))) {
        errand->reach_ms = errand->back_ms = now + LOOK_MS;
        return;
    }
    if (now >= errand->deadline_ms)
        answer.timed_out = true;
    else if (is_up && !auth_was_away(uplink->opts->auth, errand->reach_ms))
        answer.answer = judge_with_age(errand, &answer.age_ms);
    if (answer.answer == RIGHTS_NO_SUCH_TOKEN && errand->n_tried + 1 < errand->calls->n_members) {
        errand->n_tried++;
        COVER(rights_elsewhere);
        errand_set_out(errand);
        return;
    }
    TRACE(uplink->opts->name, "%.*s: %zu ranges%s: answer %d, age %llu", (int)call->question->who.secret.len,
          call->question->who.secret.data, call->question->n, call->question->is_first ? ", first" : "",
          (int)answer.answer, (unsigned long long)answer.age_ms);
    COVER_BY(rights_halved, answer.answer == RIGHTS_FORBIDDEN && call->question->n > 1);
    tally_answer(uplink, call->question, answer.answer, answer.age_ms, now);
    belfry_list_remove(&call->node);
    errand->fn(call, &answer);
    errand_free(errand);
}

static uint64_t errand_due(const struct errand *errand)
{
    return errand->hangs ? errand->deadline_ms : belfry_min_time(errand->back_ms, errand->deadline_ms);
}

/* ---- is auth on? ---- */

enum belfry_err unary_open(const struct unary_opts *opts, struct unary **out)
{
    struct uplink *uplink = opts->uplink;
    struct unary *unary = calloc(1, sizeof(*unary));
    uint64_t now = sched_now(sched_of(uplink));
    assert(uplink->status == NULL);
    if (unary == NULL)
        abort();
    unary->uplink = uplink;
    unary->reach_ms = now + some_delay(uplink);
    unary->back_ms = unary->reach_ms + some_delay(uplink) + auth_delay(uplink->opts->auth);
    unary->fn = opts->fn;
    unary->user = opts->user;
    uplink->status = *out = unary;
    return BELFRY_OK;
}

void unary_cancel(struct unary *unary)
{
    if (unary == NULL)
        return;
    unary->uplink->status = NULL;
    free(unary);
}

static void status_deliver(struct uplink *uplink, uint64_t now)
{
    struct unary *unary = uplink->status;
    struct unary_answer answer = {.code = BELFRY_GRPC_UNAVAILABLE, .message = "upstream cannot be asked"};
    bool on = auth_was_on(uplink->opts->auth, unary->reach_ms);
    if (!etcd_has_quorum(uplink->opts->peer.etcd)) {
        unary->reach_ms = unary->back_ms = now + LOOK_MS;
        return;
    }
    if (!auth_was_away(uplink->opts->auth, unary->reach_ms)) {
        answer = (struct unary_answer){.code = on ? BELFRY_GRPC_INVALID_ARGUMENT : BELFRY_GRPC_FAILED_PRECONDITION,
                                       .judged = true,
                                       .message = on ? NO_NAME : IS_OFF};
    }
    uplink->status = NULL;
    TRACE(uplink->opts->name, "is auth on? %s", answer.message);
    unary->fn(&answer, unary->user);
    free(unary);
}

static uint64_t status_due(const struct uplink *uplink)
{
    return uplink->status == NULL ? BELFRY_NEVER : uplink->status->back_ms;
}

/* ---- the rest of what permit uses ---- */

void uplink_describe(const struct uplink *uplink, char *text, size_t len)
{
    (void)uplink;
    snprintf(text, len, "%s", "");
}

void uplink_ask_auth(struct uplink *uplink, bool (*is_off)(void *user), void *user)
{
    (void)uplink, (void)is_off, (void)user; /* for relayed calls, of which there are none here */
}

const char *vouch_refuses(const struct vouch *vouch, struct belfry_bytes user)
{
    (void)vouch, (void)user; /* for users of certificates, of whom there are none here */
    return NULL;
}

/* ---- */

struct uplink *asking_create(const struct tier_opts *opts)
{
    struct uplink *uplink = calloc(1, sizeof(*uplink));
    if (uplink == NULL)
        abort();
    uplink->opts = opts;
    belfry_list_init(&uplink->calls);
    return uplink;
}

void asking_destroy(struct uplink *uplink)
{
    if (uplink == NULL)
        return;
    assert(belfry_list_empty(&uplink->calls) && uplink->status == NULL);
    free(uplink);
}

/* An answer may end another call, so each is looked for anew. */
static struct errand *first_due(const struct uplink *uplink, uint64_t now)
{
    belfry_list_each (node, &uplink->calls) {
        if (errand_due(errand_of(node)) <= now)
            return errand_of(node);
    }
    return NULL;
}

void asking_run(struct uplink *uplink, uint64_t now_ms)
{
    unsigned n = 0;
    for (struct errand *errand; n < ROUND_MAX && (errand = first_due(uplink, now_ms)) != NULL; n++)
        errand_deliver(errand, now_ms);
    if (n == ROUND_MAX)
        verdict_fail("%s: each answer leads to a question, without end", uplink->opts->name);
    if (status_due(uplink) <= now_ms)
        status_deliver(uplink, now_ms);
}

uint64_t asking_due(const struct uplink *uplink)
{
    uint64_t due = status_due(uplink);
    belfry_list_each (node, &uplink->calls)
        due = belfry_min_time(due, errand_due(errand_of(node)));
    return due;
}
