/* src/serve/rights/reviews.c */
#include "serve/rights/reviews.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "serve/rights/identity.h"
#include "serve/rights/permit.h"
#include "serve/rights/review_post.h"
#include "serve/rights/review_text.h"
#include "serve/rights/review_users.h"

#define SLOW_MS  1000 /* a server that has not answered for so long */
#define AVOID_MS 5000 /* is asked last for so long */

/*     FREE --a review is wanted--> WANTED --a place is free--> POSTED --answered--> FREE
 *                                     ^-------- elsewhere --------'
 */
enum slot_state { SLOT_FREE, SLOT_WANTED, SLOT_POSTED };
enum slot_stage { SLOT_TOKEN, SLOT_BARE, SLOT_WHOLE }; /* BARE: without selectors */

/* One review of a call. */
struct review_slot {
    struct review_call *call;
    enum slot_state state;
    enum slot_stage stage;
    struct review_post *post;         /* POSTED */
    const struct rights_range *range; /* BARE, WHOLE: the subject's; lent by the question */
    size_t n_tried;                   /* servers that did not answer */
    size_t member;                    /* the server that was asked last */
    uint64_t posted_ms;
};

/* One question of rights.h. */
struct review_call {
    struct asking asking;
    struct reviews *reviews;
    struct asking_opts opts;
    struct belfry_list ready; /* of reviews.renewals or reviews.firsts: it has something to send */
    bool has_user;
    struct review_user user;
    const struct rights_range *last;    /* the last subject that was begun; NULL: none */
    bool is_begun;                      /* all subjects were begun */
    bool is_blocked;                    /* the next subject waits for the answer to a review that is under way */
    const struct rights_range *refused; /* a subject that was refused without its selectors; NULL: none */
    uint64_t since_ms;                  /* of the oldest review that the answer depends on */
    struct review_slot slots[REVIEWS_OF_CALL];
    BELFRY_OWNER;
};

/* A server. */
struct review_member {
    size_t under_way;
    uint64_t avoid_ms; /* until then others are asked first */
};

struct reviews {
    struct asker asker;
    /* fixed at creation */
    struct reviews_opts opts;
    /* owner */
    struct review_users *users;
    uv_timer_t timer;                    /* runs as soon as possible, when something may be sent */
    struct belfry_list renewals, firsts; /* review_call.ready */
    size_t under_way;
    struct review_member *members; /* opts.n_members; owned */
    struct reviews_stats stats;
    BELFRY_OWNER;
};

static void reviews_send(struct reviews *reviews);

/* ---- slots ---- */

static struct review_member *review_slot_at(const struct review_slot *slot)
{
    return &slot->call->reviews->members[slot->member];
}

/* It has an answer, or none will come: it is WANTED until the caller says otherwise. */
static void review_slot_leave(struct review_slot *slot)
{
    assert(slot->state == SLOT_POSTED);
    slot->post = NULL;
    slot->state = SLOT_WANTED;
    slot->call->reviews->under_way--;
    review_slot_at(slot)->under_way--;
}

static void review_slot_cancel(struct review_slot *slot)
{
    uint64_t now = belfry_clock_ms();
    if (now >= slot->posted_ms + SLOW_MS)
        review_slot_at(slot)->avoid_ms = now + AVOID_MS;
    review_post_cancel(slot->post);
    review_slot_leave(slot);
}

static void review_slot_want(struct review_slot *slot, enum slot_stage stage)
{
    assert(slot->state != SLOT_POSTED);
    slot->state = SLOT_WANTED;
    slot->stage = stage;
    slot->n_tried = 0;
}

/* Which of two servers is asked first? One that was slow comes last. Otherwise it is the one with fewer reviews under
 * way, so that one which does not answer gets no more. */
static bool review_member_is_better(const struct review_member *a, const struct review_member *b, uint64_t now)
{
    bool a_is_slow = now < a->avoid_ms, b_is_slow = now < b->avoid_ms;
    return a_is_slow != b_is_slow ? b_is_slow : a->under_way < b->under_way;
}

/* The best server, but not the one that has just failed. Equal ones take turns. */
static size_t review_slot_member(const struct review_slot *slot, uint64_t now)
{
    const struct reviews *reviews = slot->call->reviews;
    size_t n = reviews->opts.n_members, best = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t member = (size_t)(slot->call->asking.question->turn + i) % n;
        bool has_failed = n > 1 && slot->n_tried > 0 && member == slot->member;
        if (!has_failed &&
            (best == SIZE_MAX || review_member_is_better(&reviews->members[member], &reviews->members[best], now)))
            best = member;
    }
    return best;
}

/* ---- calls ---- */

static void review_call_free(struct review_call *call)
{
    for (size_t i = 0; i < REVIEWS_OF_CALL; i++) {
        if (call->slots[i].state == SLOT_POSTED)
            review_slot_cancel(&call->slots[i]);
    }
    belfry_list_remove(&call->ready);
    belfry_list_remove(&call->asking.node);
    belfry_buf_fini(&call->user.spec);
    belfry_buf_fini(&call->user.name);
    free(call);
}

static void review_call_answer(struct review_call *call, enum rights_answer answer, const char *message)
{
    uint64_t sent_ms = call->asking.question->sent_ms;
    struct asking_answer with = {.answer = answer, .message = message};
    if (call->since_ms < sent_ms)
        with.age_ms = sent_ms - call->since_ms;
    belfry_list_remove(&call->asking.node);
    call->opts.fn(&call->asking, &with);
    review_call_free(call);
}

static void review_call_fail(struct review_call *call, const char *why)
{
    call->reviews->stats.failed++;
    review_call_answer(call, RIGHTS_UNREACHABLE, why);
}

static void review_call_forbid(struct review_call *call, const struct review_subject *subject,
                               struct belfry_bytes reason)
{
    char message[sizeof(PERMIT_DENIED_PREFIX) + REVIEW_SENTENCE_MAX] = PERMIT_DENIED_PREFIX;
    review_sentence(belfry_buf_bytes(&call->user.name), subject, reason, message + sizeof(PERMIT_DENIED_PREFIX) - 1);
    call->reviews->stats.forbidden++;
    review_call_answer(call, RIGHTS_FORBIDDEN, message);
}

/* It has something to send, and waits for its turn. */
static void review_call_queue(struct review_call *call)
{
    struct reviews *reviews = call->reviews;
    if (!belfry_list_empty(&call->ready))
        return;
    belfry_list_append(call->asking.question->is_first ? &reviews->firsts : &reviews->renewals, &call->ready);
}

/* ---- subjects ---- */

static struct review_subject without_selectors(const struct review_subject *subject)
{
    struct review_subject bare = *subject;
    bare.label_selector = bare.field_selector = (struct belfry_bytes){0};
    return bare;
}

static bool has_selectors(const struct review_subject *subject)
{
    return subject->label_selector.len > 0 || subject->field_selector.len > 0;
}

/* Is it known that the user may, without the selectors? Then *since_ms is at most the time of that answer. */
static bool review_call_knows(const struct review_call *call, const struct review_subject *subject, uint64_t now,
                              uint64_t *since_ms)
{
    const struct rights_question *question = call->asking.question;
    struct review_subject bare = without_selectors(subject);
    struct belfry_buf key;
    uint64_t since;
    belfry_buf_init(&key);
    bool knows =
        call->reviews->opts.answers != NULL && review_subject_write(&bare, &key) == BELFRY_OK &&
        answers_find_one(call->reviews->opts.answers, &question->who,
                         &(struct rights_range){.key = belfry_buf_bytes(&key)}, question->within_ms, now, &since);
    belfry_buf_fini(&key);
    if (knows)
        *since_ms = belfry_min_time(*since_ms, since);
    return knows;
}

/* The user may without selectors: other watches need not ask. */
static void review_call_share(const struct review_call *call, const struct review_subject *subject, uint64_t since_ms,
                              uint64_t now)
{
    struct review_subject bare = without_selectors(subject);
    struct belfry_buf key;
    belfry_buf_init(&key);
    if (call->reviews->opts.answers != NULL && review_subject_write(&bare, &key) == BELFRY_OK)
        answers_keep_one(call->reviews->opts.answers, &call->asking.question->who,
                         &(struct rights_range){.key = belfry_buf_bytes(&key)}, since_ms, now);
    belfry_buf_fini(&key);
}

static bool is_same_bare(const struct review_subject *a, const struct review_subject *b)
{
    return belfry_bytes_equal(a->verb, b->verb) && belfry_bytes_equal(a->group, b->group) &&
           belfry_bytes_equal(a->version, b->version) && belfry_bytes_equal(a->resource, b->resource) &&
           belfry_bytes_equal(a->subresource, b->subresource) && belfry_bytes_equal(a->namespace, b->namespace) &&
           belfry_bytes_equal(a->name, b->name);
}

/* Is the same asked about now, without selectors? If the answer is yes, it will be known. */
static bool review_call_is_asking(const struct review_call *call, const struct review_subject *subject)
{
    for (size_t i = 0; i < REVIEWS_OF_CALL; i++) {
        const struct review_slot *slot = &call->slots[i];
        struct review_subject other;
        bool is_bare = slot->state != SLOT_FREE && slot->stage == SLOT_BARE;
        if (is_bare && review_subject_read(slot->range->key, &other) == BELFRY_OK && is_same_bare(&other, subject))
            return call->reviews->opts.answers != NULL;
    }
    return false;
}

/* Has upstream refused the same without selectors, when it was asked this question? */
static bool review_call_was_refused(const struct review_call *call, const struct review_subject *subject)
{
    struct review_subject other;
    return call->refused != NULL && review_subject_read(call->refused->key, &other) == BELFRY_OK &&
           is_same_bare(&other, subject);
}

/* ---- what to send ---- */

static struct review_slot *review_call_slot(struct review_call *call, enum slot_state state)
{
    for (size_t i = 0; i < REVIEWS_OF_CALL; i++) {
        if (call->slots[i].state == state)
            return &call->slots[i];
    }
    return NULL;
}

static bool review_call_is_done(struct review_call *call)
{
    return call->has_user && call->is_begun && review_call_slot(call, SLOT_WANTED) == NULL &&
           review_call_slot(call, SLOT_POSTED) == NULL;
}

/* Begins the next subject that is not known to be allowed, in that slot. False: it was none of ours, and the call has
 * ended. */
static bool review_call_begin_next(struct review_call *call, struct review_slot *slot, uint64_t now)
{
    while (!call->is_begun) {
        struct review_subject subject;
        const struct rights_range *range = rights_question_range(call->asking.question, call->last);
        if (range == NULL) {
            call->is_begun = true;
            break;
        }
        if (range->end.len > 0 || review_subject_read(range->key, &subject) != BELFRY_OK) {
            review_call_answer(call, RIGHTS_FORBIDDEN, PERMIT_DENIED); /* it is a range of keys */
            return false;
        }
        bool is_bare_first = has_selectors(&subject) && !review_call_was_refused(call, &subject);
        if (is_bare_first && review_call_is_asking(call, &subject)) {
            call->is_blocked = true;
            break;
        }
        call->last = range;
        if (is_bare_first && review_call_knows(call, &subject, now, &call->since_ms))
            continue;
        slot->range = range;
        review_slot_want(slot, is_bare_first ? SLOT_BARE : SLOT_WHOLE);
        break;
    }
    return true;
}

/* A slot with something to send; NULL: none, or the call has ended (*out_ended). */
static struct review_slot *review_call_next(struct review_call *call, uint64_t now, bool *out_ended)
{
    struct review_slot *wanted = review_call_slot(call, SLOT_WANTED), *unused = review_call_slot(call, SLOT_FREE);
    *out_ended = false;
    if (wanted != NULL || !call->has_user || unused == NULL)
        return wanted;
    if (!review_call_begin_next(call, unused, now)) {
        *out_ended = true;
        return NULL;
    }
    return unused->state == SLOT_WANTED ? unused : NULL;
}

static bool review_call_may_send(struct review_call *call)
{
    bool may_begin =
        call->has_user && !call->is_begun && !call->is_blocked && review_call_slot(call, SLOT_FREE) != NULL;
    return may_begin || review_call_slot(call, SLOT_WANTED) != NULL;
}

/* After something has changed: it is queued, or it is done. */
static void review_call_go_on(struct review_call *call)
{
    if (review_call_may_send(call))
        review_call_queue(call);
    else if (review_call_is_done(call))
        review_call_answer(call, RIGHTS_ALLOWED, "");
}

/* ---- sending ---- */

static const char *review_slot_path(const struct review_slot *slot)
{
    return slot->stage == SLOT_TOKEN ? REVIEW_TOKEN_PATH : REVIEW_ACCESS_PATH;
}

static struct review_subject review_slot_subject(const struct review_slot *slot)
{
    struct review_subject subject = {0};
    enum belfry_err err = review_subject_read(slot->range->key, &subject);
    assert(err == BELFRY_OK); /* it was read when it was begun */
    belfry_ignore(err);
    return slot->stage == SLOT_BARE ? without_selectors(&subject) : subject;
}

static enum belfry_err review_slot_write(const struct review_slot *slot, struct belfry_buf *out)
{
    const struct review_call *call = slot->call;
    if (slot->stage == SLOT_TOKEN)
        return review_token_write(call->asking.question->who.secret, out);
    struct review_subject subject = review_slot_subject(slot);
    return review_access_write(belfry_buf_bytes(&call->user.spec), &subject, out);
}

static void on_slot_answer(const struct review_post_answer *answer, void *user);

static enum belfry_err review_slot_post(struct review_slot *slot, uint64_t now)
{
    struct reviews *reviews = slot->call->reviews;
    struct belfry_buf body;
    belfry_buf_init(&body);
    enum belfry_err err = review_slot_write(slot, &body);
    if (err != BELFRY_OK) {
        belfry_buf_fini(&body);
        return err;
    }
    slot->member = review_slot_member(slot, now);
    struct review_post_opts opts = {.uplink = reviews->opts.uplink,
                                    .pin = 1 + (unsigned)slot->member,
                                    .authorization = own_token_field(reviews->opts.own_token, now),
                                    .path = review_slot_path(slot),
                                    .body = &body,
                                    .fn = on_slot_answer,
                                    .user = slot};
    err = review_post_open(&opts, &slot->post);
    if (err != BELFRY_OK)
        return err;
    slot->state = SLOT_POSTED;
    slot->posted_ms = now;
    reviews->under_way++;
    review_slot_at(slot)->under_way++;
    reviews->stats.token_reviews += slot->stage == SLOT_TOKEN;
    reviews->stats.access_reviews += slot->stage != SLOT_TOKEN;
    return BELFRY_OK;
}

/* Sends one review of the call, and puts it behind the others if it has more. */
static void review_call_send_one(struct review_call *call, uint64_t now)
{
    bool ended;
    struct review_slot *slot = review_call_next(call, now, &ended);
    if (ended)
        return;
    enum belfry_err err = slot != NULL ? review_slot_post(slot, now) : BELFRY_OK;
    if (err == BELFRY_ERR_INVALID && slot->stage != SLOT_TOKEN) {
        struct review_subject subject = review_slot_subject(slot); /* a text that cannot be asked about */
        review_call_forbid(call, &subject, (struct belfry_bytes){0});
    } else if (err != BELFRY_OK) {
        review_call_fail(call, belfry_strerror((int)err));
    } else {
        review_call_go_on(call);
    }
}

/* The call whose turn it is; NULL: none, or no place is free for it. */
static struct review_call *reviews_next(const struct reviews *reviews)
{
    bool is_renewal = !belfry_list_empty(&reviews->renewals);
    const struct belfry_list *list = is_renewal ? &reviews->renewals : &reviews->firsts;
    size_t most = is_renewal ? REVIEWS_UNDER_WAY : REVIEWS_FIRST;
    bool may = !belfry_list_empty(list) && reviews->under_way < most;
    return may ? belfry_container(list->next, struct review_call, ready) : NULL;
}

static void reviews_send(struct reviews *reviews)
{
    uint64_t now = belfry_clock_ms();
    struct review_call *call;
    while ((call = reviews_next(reviews)) != NULL) {
        belfry_list_remove(&call->ready);
        review_call_send_one(call, now);
    }
}

static void on_reviews_timer(uv_timer_t *timer)
{
    reviews_send(timer->data);
}

/* ---- answers ---- */

static void reviews_log_refusal(struct reviews *reviews, const char *path, int status)
{
    if (belfry_log_is_due(reviews->stats.failed))
        belfry_logf(reviews->opts.log, BELFRY_LOG_WARN, "review_refused", "path=%s status=%d times=%llu", path, status,
                    (unsigned long long)reviews->stats.failed);
}

/* No answer, or not one that says anything. The next server is asked. */
static void review_slot_fail(struct review_slot *slot, const struct review_post_answer *answer)
{
    struct review_call *call = slot->call;
    struct reviews *reviews = call->reviews;
    char why[256];
    if (slot->n_tried + 1 < reviews->opts.n_members) {
        slot->n_tried++;
        review_call_queue(call);
        return;
    }
    if (answer->status == 0)
        snprintf(why, sizeof(why), "%s", answer->why);
    else if (answer->status == 401)
        snprintf(why, sizeof(why), "belfry: the API server does not accept the tier's own token");
    else if (answer->status == 403)
        snprintf(why, sizeof(why),
                 "belfry: the API server does not let the tier ask about its clients: give the tier's service account "
                 "the ClusterRole system:auth-delegator");
    else if (answer->status < 300)
        snprintf(why, sizeof(why), "belfry: the API server's review of a client cannot be read");
    else
        snprintf(why, sizeof(why), "belfry: the API server answered %d when the tier asked about its client",
                 answer->status);
    const char *path = review_slot_path(slot);
    review_call_fail(call, why);
    reviews_log_refusal(reviews, path, answer->status);
}

static void review_slot_take_user(struct review_slot *slot, const struct review_post_answer *answer, uint64_t now)
{
    struct review_call *call = slot->call;
    struct reviews *reviews = call->reviews;
    struct belfry_bytes token = call->asking.question->who.secret;
    enum review_says says;
    enum belfry_err err = review_token_read(answer->body, &call->user, &says);
    if (err != BELFRY_OK) {
        review_call_fail(call, belfry_strerror((int)err));
        return;
    }
    switch (says) {
    case REVIEW_YES:
        review_users_keep(reviews->users, token, &call->user, slot->posted_ms, now);
        identity_learn(token, belfry_buf_bytes(&call->user.name));
        call->has_user = true;
        slot->state = SLOT_FREE;
        review_call_go_on(call);
        return;
    case REVIEW_NO:
        review_users_keep(reviews->users, token, NULL, slot->posted_ms, now);
        reviews->stats.bad_tokens++;
        review_call_answer(call, RIGHTS_NO_SUCH_TOKEN, "");
        return;
    case REVIEW_UNREADABLE:
        break;
    }
    review_slot_fail(slot, answer);
}

static void review_slot_take_no(struct review_slot *slot, struct belfry_bytes reason)
{
    struct review_call *call = slot->call;
    if (slot->stage == SLOT_BARE) {
        call->refused = slot->range;
        slot->state = SLOT_FREE;
        review_slot_want(slot, SLOT_WHOLE);
        review_call_go_on(call);
        return;
    }
    struct review_subject subject = review_slot_subject(slot);
    review_call_forbid(call, &subject, reason);
}

static void review_slot_take_access(struct review_slot *slot, const struct review_post_answer *answer, uint64_t now)
{
    struct review_call *call = slot->call;
    struct belfry_buf reason;
    enum review_says says;
    belfry_buf_init(&reason);
    enum belfry_err err = review_access_read(answer->body, &reason, &says);
    if (err != BELFRY_OK) {
        review_call_fail(call, belfry_strerror((int)err));
    } else if (says == REVIEW_UNREADABLE) {
        review_slot_fail(slot, answer);
    } else if (says == REVIEW_NO) {
        review_slot_take_no(slot, belfry_buf_bytes(&reason));
    } else {
        struct review_subject subject = review_slot_subject(slot);
        if (slot->stage == SLOT_BARE)
            review_call_share(call, &subject, belfry_min_time(call->since_ms, slot->posted_ms), now);
        slot->state = SLOT_FREE;
        review_call_go_on(call);
    }
    belfry_buf_fini(&reason);
}

static void on_slot_answer(const struct review_post_answer *answer, void *user)
{
    struct review_slot *slot = user;
    struct reviews *reviews = slot->call->reviews;
    uint64_t now = belfry_clock_ms();
    review_slot_leave(slot);
    slot->call->is_blocked = false;
    if (answer->status == 401)
        own_token_refused(reviews->opts.own_token);
    if (answer->status != 200 && answer->status != 201)
        review_slot_fail(slot, answer);
    else if (slot->stage == SLOT_TOKEN)
        review_slot_take_user(slot, answer, now);
    else
        review_slot_take_access(slot, answer, now);
    reviews_send(reviews);
}

/* ---- asker ---- */

/* Copies a user that is known. */
static enum belfry_err review_call_take_known(struct review_call *call, const struct review_known *known)
{
    enum belfry_err err = belfry_buf_append(&call->user.spec, known->spec.data, known->spec.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&call->user.name, known->name.data, known->name.len);
    call->has_user = err == BELFRY_OK;
    call->since_ms = belfry_min_time(call->since_ms, known->since_ms);
    return err;
}

static enum belfry_err review_call_begin(struct review_call *call, uint64_t now)
{
    const struct rights_question *question = call->asking.question;
    struct review_known known;
    if (!review_users_find(call->reviews->users, question->who.secret, question->within_ms, now, &known)) {
        review_slot_want(&call->slots[0], SLOT_TOKEN);
        return BELFRY_OK;
    }
    return known.is_bad ? BELFRY_ERR_AUTH : review_call_take_known(call, &known);
}

static enum belfry_err reviews_open(struct asker *asker, struct rights_question *question,
                                    const struct asking_opts *opts, struct asking **out)
{
    struct reviews *reviews = belfry_container(asker, struct reviews, asker);
    BELFRY_OWNER_CHECK(reviews);
    opts->why[0] = '\0';
    if (question->who.kind != CREDENTIAL_AUTHORIZATION || !review_token_is_plain(question->who.secret))
        return BELFRY_ERR_INVALID;
    struct review_call *call = calloc(1, sizeof(*call));
    enum belfry_err err = BELFRY_ERR_NOMEM;
    if (call == NULL)
        goto fail;
    *call = (struct review_call){.asking = {.question = question, .user = opts->user},
                                 .reviews = reviews,
                                 .opts = *opts,
                                 .since_ms = question->sent_ms};
    belfry_list_init(&call->asking.node);
    belfry_list_init(&call->ready);
    for (size_t i = 0; i < REVIEWS_OF_CALL; i++)
        call->slots[i].call = call;
    BELFRY_OWNER_INIT(call);
    err = review_call_begin(call, belfry_clock_ms());
    if (err != BELFRY_OK)
        goto fail;
    review_call_queue(call);
    uv_timer_start(&reviews->timer, on_reviews_timer, 0, 0);
    *out = &call->asking;
    return BELFRY_OK;

fail:
    if (call != NULL)
        review_call_free(call);
    if (err == BELFRY_ERR_NOMEM)
        snprintf(opts->why, opts->why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
    return err;
}

static void reviews_cancel(struct asking *asking)
{
    struct review_call *call = belfry_container(asking, struct review_call, asking);
    struct reviews *reviews = call->reviews;
    BELFRY_OWNER_CHECK(call);
    review_call_free(call);
    if (reviews_next(reviews) != NULL)
        uv_timer_start(&reviews->timer, on_reviews_timer, 0, 0);
}

static void reviews_ask_elsewhere(struct asking *asking)
{
    struct review_call *call = belfry_container(asking, struct review_call, asking);
    struct reviews *reviews = call->reviews;
    BELFRY_OWNER_CHECK(call);
    for (size_t i = 0; i < REVIEWS_OF_CALL; i++) {
        struct review_slot *slot = &call->slots[i];
        if (slot->state != SLOT_POSTED || slot->n_tried + 1 >= reviews->opts.n_members)
            continue;
        review_slot_cancel(slot);
        slot->n_tried++;
        review_call_queue(call);
    }
    if (reviews_next(reviews) != NULL)
        uv_timer_start(&reviews->timer, on_reviews_timer, 0, 0);
}

/* ---- create and destroy ---- */

struct asker *reviews_asker(struct reviews *reviews)
{
    return &reviews->asker;
}

enum belfry_err reviews_create(const struct reviews_opts *opts, struct reviews **out)
{
    static const struct asker_api api = {
        .open = reviews_open, .cancel = reviews_cancel, .ask_elsewhere = reviews_ask_elsewhere};
    struct reviews *reviews = calloc(1, sizeof(*reviews));
    if (reviews == NULL)
        return BELFRY_ERR_NOMEM;
    reviews->asker.api = &api;
    reviews->opts = *opts;
    reviews->opts.n_members = opts->n_members > 0 ? opts->n_members : 1;
    reviews->members = calloc(reviews->opts.n_members, sizeof(reviews->members[0]));
    enum belfry_err err = reviews->members == NULL
                              ? BELFRY_ERR_NOMEM
                              : review_users_create(opts->period_ms, REVIEWS_USERS_BYTES, &reviews->users);
    if (err != BELFRY_OK) {
        free(reviews->members);
        free(reviews);
        return err;
    }
    belfry_list_init(&reviews->renewals);
    belfry_list_init(&reviews->firsts);
    uv_timer_init(opts->loop, &reviews->timer);
    reviews->timer.data = reviews;
    BELFRY_OWNER_INIT(reviews);
    *out = reviews;
    return BELFRY_OK;
}

static void on_reviews_timer_closed(uv_handle_t *timer)
{
    free(timer->data);
}

void reviews_destroy(struct reviews *reviews)
{
    if (reviews == NULL)
        return;
    BELFRY_OWNER_CHECK(reviews);
    assert(reviews_next(reviews) == NULL && reviews->under_way == 0);
    review_users_destroy(reviews->users);
    free(reviews->members);
    uv_close((uv_handle_t *)&reviews->timer, on_reviews_timer_closed);
}

void reviews_stats(const struct reviews *reviews, struct reviews_stats *out)
{
    *out = reviews->stats;
    out->under_way = reviews->under_way;
    out->users = review_users_count(reviews->users);
}
