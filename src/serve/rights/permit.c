/* src/serve/rights/permit.c */
#include "serve/rights/permit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/pack.h"
#include "net/grpc.h"
#include "serve/uplink/unary.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"

#define RETRY_MS    100 /* between AuthStatus calls that were not answered */
#define RANGE_PATH  "/etcdserverpb.KV/Range"
#define STATUS_PATH "/etcdserverpb.Auth/AuthStatus"
#define AUTH_PATH   "/etcdserverpb.Auth/Authenticate"
#define IS_OFF      "etcdserver: authentication is not enabled"

enum credential { CREDENTIAL_NONE, CREDENTIAL_TOKEN, CREDENTIAL_AUTHORIZATION };

/* A client and the range that it wants to read. */
struct permit_subject {
    enum listen_rights rights;
    enum credential credential;
    struct belfry_bytes secret, key, range_end;
};

/* A Range that is under way, for one or more questions. */
struct permit_range {
    struct permit *permit;
    struct belfry_list node;
    struct belfry_map_node map_node;
    struct belfry_list questions;
    struct unary *unary;
};

/*     PENDING (auth is not known) --> ASKED --> READY --> answered
 *         `------------------------------------^  (refused or granted without a Range)
 */
enum question_state { PENDING, ASKED, READY };

struct permit_question {
    struct permit *permit;
    permit_fn fn;
    void *user;
    uint64_t asked_ms;
    struct belfry_list order; /* of all questions, as they were asked */
    struct belfry_list node;  /* of those that are pending, of its ask's, or of those that are ready */
    enum question_state state;
    bool saw_doubt;           /* PENDING: an answer was discarded, so the next one was requested after this question */
    struct permit_range *ask; /* ASKED */
    enum permit_verdict verdict; /* READY */
    const char *reason;          /* READY; static */
    unsigned pin;
    struct permit_subject subject; /* points behind this */
    size_t bytes;                  /* of it */
    char text[];
};

struct permit {
    /* fixed at creation */
    struct uplink *uplink;
    const struct belfry_log *log;
    struct belfry_hash_key hash_key;
    /* owner */
    uv_timer_t timer;
    bool destroyed;
    enum permit_auth auth;
    uint64_t auth_ms; /* when the AuthStatus was sent that said so */
    uint64_t doubts;  /* calls of permit_doubt() */
    enum permit_auth logged;
    /* the AuthStatus under way */
    struct unary *status;
    uint64_t status_ms, status_doubts;
    uint64_t retry_ms; /* the next one is not sent before */
    bool is_old;       /* upstream has no AuthStatus */
    /* questions */
    struct belfry_list order, pending, ready;
    struct belfry_list asks;
    struct belfry_map by_subject; /* the same, by hash */
    size_t n_questions, bytes;
    struct permit_stats stats;
    BELFRY_OWNER;
};

static void permit_arm_timer(struct permit *permit, uint64_t now);
static void permit_ask_status(struct permit *permit, uint64_t now);

/* ---- subjects ---- */

static uint64_t permit_subject_hash(const struct permit *permit, const struct permit_subject *subject)
{
    uint64_t hash = belfry_hash(permit->hash_key, subject->secret);
    hash = belfry_hash_int(hash + (uint64_t)subject->credential) ^ belfry_hash(permit->hash_key, subject->key);
    return belfry_hash_int(hash) ^ belfry_hash(permit->hash_key, subject->range_end);
}

static bool permit_subject_equal(const struct permit_subject *a, const struct permit_subject *b)
{
    return a->credential == b->credential && belfry_bytes_equal(a->secret, b->secret) &&
           belfry_bytes_equal(a->key, b->key) && belfry_bytes_equal(a->range_end, b->range_end);
}

/* ---- answers ---- */

static void permit_ask_free(struct permit_range *ask)
{
    belfry_list_remove(&ask->node);
    belfry_map_remove(&ask->permit->by_subject, &ask->map_node);
    free(ask);
}

/* Removes a question, and cancels its Range if no other question waits for it. */
static void permit_question_remove(struct permit_question *question)
{
    struct permit *permit = question->permit;
    struct permit_range *ask = question->state == ASKED ? question->ask : NULL;
    belfry_list_remove(&question->order);
    belfry_list_remove(&question->node);
    permit->n_questions--;
    permit->bytes -= question->bytes;
    if (ask != NULL && belfry_list_empty(&ask->questions) && ask->unary != NULL) {
        unary_cancel(ask->unary);
        permit_ask_free(ask);
    }
}

static void permit_question_free(struct permit_question *question)
{
    explicit_bzero(question->text, question->bytes - sizeof(*question));
    free(question);
}

static void permit_question_answer(struct permit_question *question, enum permit_verdict verdict, const char *reason)
{
    struct permit_stats *stats = &question->permit->stats;
    permit_question_remove(question);
    stats->granted += verdict == PERMIT_GRANTED;
    stats->refused += verdict == PERMIT_REFUSED;
    stats->unavailable += verdict == PERMIT_UNAVAILABLE;
    question->fn(verdict, reason, question->user);
    permit_question_free(question);
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

/* ---- Range ---- */

/* The reason for which etcd would refuse the watch, in its words. Any other reason is "permission denied". */
static const char *refusal_of(const struct unary_answer *with)
{
    if (with->code == BELFRY_GRPC_INVALID_ARGUMENT && strcmp(with->message, "etcdserver: user name is empty") == 0)
        return PERMIT_NO_USER;
    if (with->code == BELFRY_GRPC_INVALID_ARGUMENT &&
        strcmp(with->message, "etcdserver: revision of auth store is old") == 0)
        return PERMIT_OLD_REVISION;
    if (with->code == BELFRY_GRPC_UNAUTHENTICATED && strcmp(with->message, "etcdserver: invalid auth token") == 0)
        return PERMIT_BAD_TOKEN;
    return PERMIT_DENIED;
}

/* Upstream did not decide: it is down, too slow or too busy. */
static bool is_unjudged(const struct unary_answer *with)
{
    return !with->judged || with->code == BELFRY_GRPC_UNAVAILABLE || with->code == BELFRY_GRPC_DEADLINE_EXCEEDED ||
           with->code == BELFRY_GRPC_RESOURCE_EXHAUSTED || with->code == BELFRY_GRPC_CANCELLED;
}

static void on_permit_range(const struct unary_answer *with, void *user)
{
    struct permit_range *ask = user;
    enum permit_verdict verdict = is_unjudged(with)              ? PERMIT_UNAVAILABLE
                                  : with->code == BELFRY_GRPC_OK ? PERMIT_GRANTED
                                                                 : PERMIT_REFUSED;
    const char *reason = verdict == PERMIT_REFUSED ? refusal_of(with) : with->message;
    ask->unary = NULL;
    while (!belfry_list_empty(&ask->questions))
        permit_question_answer(belfry_container(ask->questions.next, struct permit_question, node), verdict, reason);
    permit_ask_free(ask);
}

static struct belfry_bytes pack_range(const struct permit_subject *subject, uint8_t *to)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.key = belfry_binary(subject->key.len > 0 ? subject->key : belfry_bytes_of("", 1));
    request.range_end = belfry_binary(subject->range_end);
    request.limit = 1;
    request.keys_only = true;
    request.serializable = true;
    return belfry_bytes_of(to, etcdserverpb__range_request__pack(&request, to));
}

static enum belfry_err permit_ask_send(struct permit_range *ask, const struct permit_question *question)
{
    const struct permit_subject *subject = &question->subject;
    uint8_t *message = malloc(subject->key.len + subject->range_end.len + 64); /* tags, lengths and the flags */
    if (message == NULL)
        return BELFRY_ERR_NOMEM;
    const char *name = subject->credential == CREDENTIAL_TOKEN ? "token" : "authorization";
    struct belfry_http_field field = {belfry_bytes_str(name), subject->secret};
    struct unary_opts opts = {.uplink = ask->permit->uplink,
                              .pin = question->pin,
                              .path = RANGE_PATH,
                              .timeout_ms = PERMIT_TIMEOUT_MS,
                              .fields = &field,
                              .n_fields = 1,
                              .message = pack_range(subject, message),
                              .fn = on_permit_range,
                              .user = ask};
    enum belfry_err err = unary_open(&opts, &ask->unary);
    free(message);
    return err;
}

static struct permit_range *permit_ask_find(struct permit *permit, uint64_t hash, const struct permit_subject *subject)
{
    struct belfry_map_node *node = belfry_map_first(&permit->by_subject, hash);
    for (; node != NULL; node = belfry_map_next(node)) {
        struct permit_range *ask = belfry_container(node, struct permit_range, map_node);
        if (belfry_list_empty(&ask->questions) || ask->unary == NULL)
            continue; /* it is being answered: a new question needs a new Range */
        if (permit_subject_equal(&belfry_container(ask->questions.next, struct permit_question, node)->subject,
                                 subject))
            return ask;
    }
    return NULL;
}

static enum belfry_err permit_ask_create(struct permit *permit, uint64_t hash, const struct permit_question *question,
                                         struct permit_range **out)
{
    struct permit_range *ask = calloc(1, sizeof(*ask));
    if (ask == NULL)
        return BELFRY_ERR_NOMEM;
    ask->permit = permit;
    belfry_list_init(&ask->questions);
    enum belfry_err err = permit_ask_send(ask, question);
    if (err != BELFRY_OK) {
        free(ask);
        return err;
    }
    belfry_list_append(&permit->asks, &ask->node);
    belfry_map_add(&permit->by_subject, hash, &ask->map_node);
    permit->stats.asked++;
    *out = ask;
    return BELFRY_OK;
}

/* Auth is on: asks upstream, unless the answer is known. */
static enum belfry_err permit_question_ask_range(struct permit_question *question)
{
    struct permit *permit = question->permit;
    if (question->subject.credential == CREDENTIAL_NONE) {
        permit_question_make_ready(question, PERMIT_REFUSED, PERMIT_NO_USER);
        return BELFRY_OK;
    }
    uint64_t hash = permit_subject_hash(permit, &question->subject);
    struct permit_range *ask = permit_ask_find(permit, hash, &question->subject);
    if (ask == NULL) {
        enum belfry_err err = permit_ask_create(permit, hash, question, &ask);
        if (err == BELFRY_ERR_INVALID) { /* the token cannot be sent in a header */
            permit_question_make_ready(question, PERMIT_REFUSED, PERMIT_BAD_TOKEN);
            return BELFRY_OK;
        }
        if (err != BELFRY_OK)
            return err;
    }
    belfry_list_remove(&question->node);
    belfry_list_append(&ask->questions, &question->node);
    question->state = ASKED;
    question->ask = ask;
    question->pin = unary_pin(ask->unary);
    return BELFRY_OK;
}

/* ---- is auth on? ---- */

static bool permit_is_fresh(const struct permit *permit, uint64_t now)
{
    uint64_t age = now - permit->auth_ms;
    return permit->auth == PERMIT_AUTH_OFF ? age < PERMIT_OFF_MS : permit->auth == PERMIT_AUTH_ON && age < PERMIT_ON_MS;
}

static enum permit_auth read_status(const struct unary_answer *with)
{
    if (with->code != BELFRY_GRPC_OK || with->body.data == NULL)
        return PERMIT_AUTH_ON;
    Etcdserverpb__AuthStatusResponse *response =
        etcdserverpb__auth_status_response__unpack(NULL, with->body.len, (const uint8_t *)with->body.data);
    if (response == NULL)
        return PERMIT_AUTH_ON;
    enum permit_auth auth = response->enabled ? PERMIT_AUTH_ON : PERMIT_AUTH_OFF;
    etcdserverpb__auth_status_response__free_unpacked(response, NULL);
    return auth;
}

static enum permit_auth permit_judge_status(struct permit *permit, const struct unary_answer *with)
{
    if (is_unjudged(with))
        return PERMIT_AUTH_UNKNOWN;
    if (permit->is_old) {
        bool off = with->code == BELFRY_GRPC_FAILED_PRECONDITION && strcmp(with->message, IS_OFF) == 0;
        return off ? PERMIT_AUTH_OFF : PERMIT_AUTH_ON;
    }
    if (with->code == BELFRY_GRPC_UNIMPLEMENTED) {
        permit->is_old = true;
        permit->retry_ms = 0;
        return PERMIT_AUTH_UNKNOWN;
    }
    return read_status(with);
}

static void permit_question_settle_off(struct permit_question *question)
{
    if (question->subject.rights == LISTEN_RIGHTS_UPSTREAM)
        permit_question_make_ready(question, PERMIT_UNAVAILABLE, PERMIT_AUTH_IS_OFF);
    else
        permit_question_make_ready(question, PERMIT_GRANTED, "");
}

static void permit_question_settle(struct permit_question *question, enum permit_auth auth)
{
    if (auth == PERMIT_AUTH_OFF) {
        permit_question_settle_off(question);
    } else if (auth == PERMIT_AUTH_ON) {
        enum belfry_err err = permit_question_ask_range(question);
        if (err != BELFRY_OK)
            permit_question_make_ready(question, PERMIT_UNAVAILABLE, belfry_strerror((int)err));
    }
}

/* Settles questions by what is known now. "Off" is valid for questions that came before the AuthStatus was sent, and
 * for others while it is fresh. */
static void permit_settle_pending(struct permit *permit, uint64_t now)
{
    belfry_list_each_safe (node, &permit->pending) {
        struct permit_question *question = belfry_container(node, struct permit_question, node);
        if (permit->auth == PERMIT_AUTH_ON || permit_is_fresh(permit, now) || question->asked_ms <= permit->auth_ms)
            permit_question_settle(question, permit->auth);
    }
}

/* An answer may be older than the doubt: it is discarded, and settles only questions that have seen another answer
 * discarded. Otherwise a client that causes doubts without end could delay every question. */
static void permit_settle_in_doubt(struct permit *permit, enum permit_auth auth)
{
    belfry_list_each_safe (node, &permit->pending) {
        struct permit_question *question = belfry_container(node, struct permit_question, node);
        if (question->saw_doubt)
            permit_question_settle(question, auth);
        question->saw_doubt = true;
    }
}

static void on_permit_status(const struct unary_answer *with, void *user)
{
    struct permit *permit = user;
    uint64_t now = belfry_clock_ms();
    permit->status = NULL;
    permit->retry_ms = now + RETRY_MS;
    enum permit_auth auth = permit_judge_status(permit, with);
    if (permit->status_doubts != permit->doubts) {
        permit_settle_in_doubt(permit, auth);
        auth = PERMIT_AUTH_UNKNOWN;
        permit->retry_ms = 0;
    }
    if (auth != permit->logged && auth != PERMIT_AUTH_UNKNOWN) {
        belfry_logf(permit->log, BELFRY_LOG_INFO, "upstream_auth", "is=%s", auth == PERMIT_AUTH_ON ? "on" : "off");
        permit->logged = auth;
    }
    permit->auth = auth;
    permit->auth_ms = permit->status_ms;
    if (auth != PERMIT_AUTH_UNKNOWN) {
        permit->retry_ms = 0;
        permit_settle_pending(permit, now);
    }
    if (!belfry_list_empty(&permit->pending))
        permit_ask_status(permit, now);
    permit_arm_timer(permit, now);
}

static void permit_ask_status(struct permit *permit, uint64_t now)
{
    if (permit->status != NULL || now < permit->retry_ms)
        return;
    struct unary_opts opts = {.uplink = permit->uplink,
                              .path = permit->is_old ? AUTH_PATH : STATUS_PATH,
                              .timeout_ms = PERMIT_TIMEOUT_MS,
                              .caller = UPLINK_CALLER_ANYONE, /* clients only learn whether they need a token */
                              .fn = on_permit_status,
                              .user = permit};
    if (unary_open(&opts, &permit->status) != BELFRY_OK) {
        permit->retry_ms = now + RETRY_MS;
        return;
    }
    permit->status_ms = now;
    permit->status_doubts = permit->doubts;
    permit->stats.status_calls++;
}

/* ---- time ---- */

static uint64_t permit_next_due(const struct permit *permit, uint64_t now)
{
    if (!belfry_list_empty(&permit->ready))
        return now;
    uint64_t due = BELFRY_NEVER;
    if (!belfry_list_empty(&permit->order))
        due = belfry_container(permit->order.next, struct permit_question, order)->asked_ms + PERMIT_TIMEOUT_MS;
    if (permit->status != NULL)
        due = belfry_min_time(due, permit->status_ms + PERMIT_TIMEOUT_MS);
    else if (!belfry_list_empty(&permit->pending))
        due = belfry_min_time(due, permit->retry_ms);
    return due;
}

static void permit_expire(struct permit *permit, uint64_t now)
{
    char why[400];
    uplink_describe(permit->uplink, why, sizeof(why));
    while (!belfry_list_empty(&permit->order)) {
        struct permit_question *question = belfry_container(permit->order.next, struct permit_question, order);
        if (now < question->asked_ms + PERMIT_TIMEOUT_MS)
            return;
        permit_question_answer(question, PERMIT_UNAVAILABLE,
                               why[0] != '\0' ? why : "upstream does not answer whether this is allowed");
    }
}

static void on_permit_timer(uv_timer_t *timer)
{
    struct permit *permit = timer->data;
    uint64_t now = belfry_clock_ms();
    struct belfry_list ready;
    belfry_list_init(&ready);
    belfry_list_move_all(&ready, &permit->ready); /* questions that become ready meanwhile wait for the next turn */
    while (!belfry_list_empty(&ready)) {
        struct permit_question *question = belfry_container(ready.next, struct permit_question, node);
        permit_question_answer(question, question->verdict, question->reason);
    }
    permit_expire(permit, now);
    if (permit->destroyed)
        return;
    if (permit->status != NULL && now >= permit->status_ms + PERMIT_TIMEOUT_MS) {
        unary_cancel(permit->status);
        permit->status = NULL;
    }
    if (!belfry_list_empty(&permit->pending))
        permit_ask_status(permit, now);
    permit_arm_timer(permit, now);
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

/* ---- interface ---- */

static bool is_off_now(void *user)
{
    return permit_is_open(user, belfry_clock_ms());
}

enum belfry_err permit_create(struct uplink *uplink, uv_loop_t *loop, const struct belfry_log *log, struct permit **out)
{
    struct permit *permit = calloc(1, sizeof(*permit));
    if (permit == NULL)
        return BELFRY_ERR_NOMEM;
    permit->uplink = uplink;
    permit->log = log;
    if (uv_random(NULL, NULL, &permit->hash_key, sizeof(permit->hash_key), 0, NULL) != 0)
        permit->hash_key = (struct belfry_hash_key){uv_hrtime(), (uint64_t)(uintptr_t)permit};
    belfry_list_init(&permit->order);
    belfry_list_init(&permit->pending);
    belfry_list_init(&permit->ready);
    belfry_list_init(&permit->asks);
    belfry_map_init(&permit->by_subject);
    uv_timer_init(loop, &permit->timer);
    permit->timer.data = permit;
    uplink_ask_auth(uplink, is_off_now, permit);
    BELFRY_OWNER_INIT(permit);
    *out = permit;
    return BELFRY_OK;
}

static void on_permit_timer_closed(uv_handle_t *timer)
{
    struct permit *permit = timer->data;
    belfry_map_fini(&permit->by_subject);
    free(permit);
}

void permit_destroy(struct permit *permit)
{
    if (permit == NULL)
        return;
    BELFRY_OWNER_CHECK(permit);
    permit->destroyed = true;
    uplink_ask_auth(permit->uplink, NULL, NULL);
    while (!belfry_list_empty(&permit->order))
        permit_cancel(belfry_container(permit->order.next, struct permit_question, order));
    unary_cancel(permit->status);
    permit->status = NULL;
    uv_close((uv_handle_t *)&permit->timer, on_permit_timer_closed);
}

bool permit_is_open(struct permit *permit, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(permit);
    return permit->auth == PERMIT_AUTH_OFF && permit_is_fresh(permit, now_ms);
}

bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms)
{
    switch (who->rights) {
    case LISTEN_RIGHTS_OPEN:
        return who->kind != IDENTITY_TOKEN || permit_is_open(permit, now_ms);
    case LISTEN_RIGHTS_UPSTREAM:
        return false;
    case LISTEN_RIGHTS_ASKED:
        break;
    }
    return permit_is_open(permit, now_ms);
}

static struct permit_subject permit_subject_of(const struct identity *who, struct belfry_bytes key,
                                               struct belfry_bytes range_end)
{
    struct permit_subject subject = {.rights = who->rights, .key = key, .range_end = range_end};
    if (who->kind == IDENTITY_TOKEN) {
        subject.credential = who->field == IDENTITY_FIELD_TOKEN ? CREDENTIAL_TOKEN : CREDENTIAL_AUTHORIZATION;
        subject.secret = who->text;
    }
    return subject;
}

static struct permit_question *permit_question_make(const struct permit_subject *subject)
{
    size_t text = subject->secret.len + subject->key.len + subject->range_end.len;
    struct permit_question *question = malloc(sizeof(*question) + text);
    if (question == NULL)
        return NULL;
    char *to = question->text;
    *question = (struct permit_question){.state = PENDING, .bytes = sizeof(*question) + text};
    question->subject.rights = subject->rights;
    question->subject.credential = subject->credential;
    question->subject.secret = belfry_pack(&to, subject->secret);
    question->subject.key = belfry_pack(&to, subject->key);
    question->subject.range_end = belfry_pack(&to, subject->range_end);
    belfry_list_init(&question->order);
    belfry_list_init(&question->node);
    return question;
}

static enum belfry_err permit_question_begin(struct permit *permit, struct permit_question *question, uint64_t now)
{
    const struct permit_subject *subject = &question->subject;
    if (subject->rights == LISTEN_RIGHTS_OPEN && subject->credential == CREDENTIAL_NONE) {
        permit_question_make_ready(question, PERMIT_GRANTED, "");
        return BELFRY_OK;
    }
    if (permit_is_fresh(permit, now) && permit->auth == PERMIT_AUTH_ON)
        return permit_question_ask_range(question);
    if (permit_is_fresh(permit, now)) {
        permit_question_settle_off(question);
        return BELFRY_OK;
    }
    belfry_list_append(&permit->pending, &question->node);
    permit_ask_status(permit, now);
    return BELFRY_OK;
}

enum belfry_err permit_ask(struct permit *permit, const struct identity *who, unsigned *pin, struct belfry_bytes key,
                           struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                           struct permit_question **out)
{
    BELFRY_OWNER_CHECK(permit);
    struct permit_subject subject = permit_subject_of(who, key, range_end);
    size_t bytes = sizeof(struct permit_question) + subject.secret.len + key.len + range_end.len;
    if (permit->n_questions >= PERMIT_QUESTIONS || bytes > PERMIT_BYTES - permit->bytes)
        return BELFRY_ERR_LIMIT;
    struct permit_question *question = permit_question_make(&subject);
    if (question == NULL)
        return BELFRY_ERR_NOMEM;
    question->permit = permit;
    question->fn = fn;
    question->user = user;
    question->asked_ms = now_ms;
    question->pin = pin != NULL ? *pin : 0;
    enum belfry_err err = permit_question_begin(permit, question, now_ms);
    if (err != BELFRY_OK) {
        permit_question_free(question);
        return err;
    }
    permit->n_questions++;
    permit->bytes += question->bytes;
    belfry_list_append(&permit->order, &question->order);
    if (pin != NULL)
        *pin = question->pin;
    permit_arm_timer(permit, now_ms);
    *out = question;
    return BELFRY_OK;
}

void permit_cancel(struct permit_question *question)
{
    permit_question_remove(question);
    permit_question_free(question);
}

void permit_doubt(struct permit *permit)
{
    BELFRY_OWNER_CHECK(permit);
    permit->doubts++;
    permit->auth = PERMIT_AUTH_UNKNOWN;
}

enum permit_auth permit_auth(struct permit *permit, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(permit);
    if (permit_is_fresh(permit, now_ms))
        return permit->auth;
    permit_ask_status(permit, now_ms);
    permit_arm_timer(permit, now_ms);
    return PERMIT_AUTH_UNKNOWN;
}

void permit_stats(const struct permit *permit, struct permit_stats *out)
{
    *out = permit->stats;
}
