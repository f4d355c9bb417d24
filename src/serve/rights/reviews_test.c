/* src/serve/rights/reviews_test.c: permit with reviews, in front of an API server that knows tokens and rights. */
#include "serve/rights/reviews.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/rights/permit.h"
#include "serve/rights/review_post.h"
#include "serve/rights/review_subject.h"
#include "serve/rights/review_text.h"
#include "serve/rights/review_users.h"
#include "support/uplinkbed.h"

#define PERIOD 2000
#define OWN    "tier-token"
#define CROWD  120 /* two reviews for each: what the fake can count */

/* ---- an API server ---- */

/* Token "t-U" is user U's. The user "node" may only with the selector spec.nodeName=n1, "agent" with any field
 * selector, and "reader" always, unless `revoked`; others may not. */
static struct api {
    bool revoked, expired; /* rights, tokens */
    bool silent[2];        /* of a member */
    int refuses;           /* every review is answered with this status; 0: none is */
    const char *says;      /* every review is answered with this body; NULL: none is */
    size_t n_tokens, n_access, n_most, n_open;
} api;

static const struct belfry_log *logs;
static struct own_token *own;
static struct answers *shared;
static struct reviews *reviews;
static struct permit *permit;

static void answer_with(struct upstream *upstream, size_t i, const char *status, const char *body)
{
    const char *const fields[] = {":status", status, "content-type", "application/json", NULL};
    upstream_head(upstream, i, fields, false);
    upstream_data(upstream, i, body, strlen(body));
    upstream_trailers(upstream, i, NULL);
}

static void serve_token(struct upstream *upstream, size_t i, const char *body)
{
    char answer[500];
    const char *token = strstr(body, "\"token\":\"t-");
    api.n_tokens++;
    if (token == NULL || api.expired) {
        answer_with(upstream, i, "201", "{\"kind\":\"TokenReview\",\"status\":{\"error\":\"invalid bearer token\"}}");
        return;
    }
    token += strlen("\"token\":\"t-");
    snprintf(
        answer, sizeof(answer),
        "{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true,\"user\":{\"username\":\"%.*s\",\"uid\":\"7\","
        "\"groups\":[\"g1\",\"system:authenticated\"],\"extra\":{\"a\":[\"b\"]}}}}",
        (int)strcspn(token, "\""), token);
    answer_with(upstream, i, "201", answer);
}

static void serve_access(struct upstream *upstream, size_t i, const char *body)
{
    bool is_node = strstr(body, "\"user\":\"node\"") != NULL, is_reader = strstr(body, "\"user\":\"reader\"") != NULL;
    bool has_selector = strstr(body, "\"fieldSelector\":{\"rawSelector\":\"spec.nodeName=n1\"}") != NULL;
    bool is_agent = strstr(body, "\"user\":\"agent\"") != NULL && strstr(body, "fieldSelector") != NULL;
    bool may =
        !api.revoked && (is_reader || is_agent || (is_node && has_selector)) && strstr(body, "\"secret\"") == NULL;
    api.n_access++;
    assert_non_null(
        strstr(body, "\"uid\":\"7\",\"groups\":[\"g1\",\"system:authenticated\"],\"extra\":{\"a\":[\"b\"]}"));
    answer_with(upstream, i, "201",
                may ? "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":true}}"
                    : "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":false}}");
}

static void serve(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    const struct upstream_request *request = upstream_request(upstream, i);
    char body[4000], status[4];
    assert_true(request->body_len < sizeof(body));
    memcpy(body, request->body, request->body_len);
    body[request->body_len] = '\0';
    assert_string_equal(upstream_field(upstream, i, ":method"), "POST");
    assert_string_equal(upstream_field(upstream, i, "authorization"), "Bearer " OWN);
    assert_string_equal(upstream_field(upstream, i, "content-type"), "application/json");
    bool is_token = strcmp(upstream_field(upstream, i, ":path"), REVIEW_TOKEN_PATH) == 0;
    assert_true(is_token || strcmp(upstream_field(upstream, i, ":path"), REVIEW_ACCESS_PATH) == 0);
    if (api.silent[upstream == bed.members[1]])
        return;
    snprintf(status, sizeof(status), "%d", api.refuses);
    if (api.refuses != 0)
        answer_with(upstream, i, status, api.says != NULL ? api.says : "{\"kind\":\"Status\"}");
    else if (api.says != NULL)
        answer_with(upstream, i, "201", api.says);
    else if (is_token)
        serve_token(upstream, i, body);
    else
        serve_access(upstream, i, body);
}

/* ---- */

static enum belfry_err open_permit(size_t n_members)
{
    const char *why;
    struct reviews_opts opts = {.uplink = bed.uplink,
                                .loop = belfry_loop_uv(bed.loop),
                                .n_members = n_members,
                                .period_ms = PERIOD,
                                .log = logs};
    enum belfry_err err = own_token_create(&(struct own_token_opts){.token = OWN}, belfry_clock_ms(), &own, &why);
    if (err == BELFRY_OK)
        err = answers_create(PERIOD, &shared);
    opts.own_token = own;
    opts.answers = shared;
    if (err == BELFRY_OK)
        err = reviews_create(&opts, &reviews);
    struct permit_opts permit_opts = {.uplink = bed.uplink,
                                      .loop = belfry_loop_uv(bed.loop),
                                      .n_members = n_members,
                                      .period_ms = PERIOD,
                                      .answers = shared};
    if (err == BELFRY_OK) {
        permit_opts.asker = reviews_asker(reviews);
        err = permit_create(&permit_opts, &permit);
    }
    return err;
}

static void make_permit(int n_members)
{
    api = (struct api){0};
    make(&(struct upstream_opts){.serve = serve}, n_members);
    assert_int_equal(open_permit((size_t)n_members), BELFRY_OK);
}

static void close_permit(void)
{
    permit_destroy(permit);
    reviews_destroy(reviews);
    answers_destroy(shared);
    own_token_destroy(own);
    permit = NULL;
    reviews = NULL;
    shared = NULL;
    own = NULL;
}

static int tear_down(void **state)
{
    (void)state;
    close_permit();
    close_bed();
    return refuse_held() == 0 ? 0 : -1;
}

struct seen {
    struct permit_question *question;
    int n;
    enum permit_verdict verdict;
    char reason[600];
};

static void on_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct seen *seen = user;
    seen->n++;
    if (verdict != PERMIT_HELD)
        seen->question = NULL;
    seen->verdict = verdict;
    snprintf(seen->reason, sizeof(seen->reason), "%s", reason);
}

static struct belfry_buf key_of(const char *resource, const char *field_selector)
{
    struct review_subject subject = {.verb = belfry_bytes_str("watch"),
                                     .version = belfry_bytes_str("v1"),
                                     .resource = belfry_bytes_str(resource),
                                     .namespace = belfry_bytes_str("x"),
                                     .field_selector = belfry_bytes_str(field_selector)};
    struct belfry_buf key;
    belfry_buf_init(&key);
    assert_int_equal(review_subject_write(&subject, &key), BELFRY_OK);
    return key;
}

static struct identity who_has(const char *token)
{
    struct identity who = {0};
    if (token != NULL)
        who = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str(token));
    return who;
}

static void ask_as(struct seen *seen, const struct identity *who, const char *resource, const char *field_selector)
{
    struct belfry_buf key = key_of(resource, field_selector);
    *seen = (struct seen){0};
    assert_int_equal(permit_ask(permit, who, belfry_buf_bytes(&key), (struct belfry_bytes){0}, belfry_clock_ms(),
                                on_verdict, seen, &seen->question),
                     BELFRY_OK);
    assert_int_equal(seen->n, 0);
    belfry_buf_fini(&key);
}

static void ask(struct seen *seen, const char *token, const char *resource, const char *field_selector)
{
    struct identity who = who_has(token);
    ask_as(seen, &who, resource, field_selector);
}

static void asked(const char *token, const char *resource, const char *field_selector, enum permit_verdict verdict,
                  const char *reason)
{
    struct seen seen;
    ask(&seen, token, resource, field_selector);
    drive_until(seen.n > 0);
    assert_int_equal(seen.verdict, verdict);
    assert_string_equal(seen.reason, reason);
}

#define FORBIDDEN(user)                                                                                                \
    PERMIT_DENIED_PREFIX "pods is forbidden: User \"" user                                                             \
                         "\" cannot watch resource \"pods\" in API group \"\" in the namespace \"x\""

/* ---- once ---- */

static void user_with_the_right_may_and_others_may_not(void **state)
{
    (void)state;
    make_permit(1);
    asked("t-reader", "pods", "", PERMIT_GRANTED, "");
    assert_int_equal(api.n_tokens, 1);
    assert_int_equal(api.n_access, 1);
    asked("t-other", "pods", "", PERMIT_REFUSED, FORBIDDEN("other"));
    assert_string_equal(permit_sentence(FORBIDDEN("other")),
                        "pods is forbidden: User \"other\" cannot watch resource \"pods\" in API group \"\" in the "
                        "namespace \"x\"");
    assert_false(permit_is_about_token(FORBIDDEN("other")));
    asked("wrong", "pods", "", PERMIT_REFUSED, PERMIT_BAD_TOKEN);
    asked(NULL, "pods", "", PERMIT_REFUSED, PERMIT_NO_USER);
    assert_true(permit_is_about_token(PERMIT_BAD_TOKEN) && permit_is_about_token(PERMIT_NO_USER));
    assert_null(permit_sentence(PERMIT_DENIED));
    assert_null(permit_sentence(PERMIT_BAD_TOKEN));
}

static void answer_is_used_again_within_a_period(void **state)
{
    (void)state;
    make_permit(1);
    for (int i = 0; i < 20; i++)
        asked("t-reader", "pods", "", PERMIT_GRANTED, "");
    assert_int_equal(api.n_tokens, 1);
    assert_int_equal(api.n_access, 1);
    asked("t-reader", "nodes", "", PERMIT_GRANTED, ""); /* the user is known */
    assert_int_equal(api.n_tokens, 1);
    assert_int_equal(api.n_access, 2);
    drive_for(PERIOD + 100);
    asked("t-reader", "pods", "", PERMIT_GRANTED, "");
    assert_int_equal(api.n_tokens, 2);
    assert_int_equal(api.n_access, 3);
}

static void watches_with_selectors_share_one_review(void **state)
{
    (void)state;
    make_permit(1);
    struct seen seen[300];
    for (int i = 0; i < 300; i++) {
        char selector[40];
        snprintf(selector, sizeof(selector), "spec.nodeName=n%d", i);
        ask(&seen[i], "t-reader", "pods", selector);
    }
    for (int i = 0; i < 300; i++) {
        drive_until(seen[i].n > 0);
        assert_int_equal(seen[i].verdict, PERMIT_GRANTED);
    }
    assert_int_equal(api.n_tokens, 1);
    assert_int_equal(api.n_access, 1);
}

static void user_of_one_selector_has_the_right_for_that_alone(void **state)
{
    (void)state;
    make_permit(1);
    asked("t-node", "pods", "spec.nodeName=n1", PERMIT_GRANTED, "");
    assert_int_equal(api.n_access, 2); /* without the selector, then with it */
    asked("t-node", "pods", "spec.nodeName=n2", PERMIT_REFUSED, FORBIDDEN("node"));
    asked("t-node", "pods", "", PERMIT_REFUSED, FORBIDDEN("node"));
}

static void selectors_of_one_question_are_refused_once_without_them(void **state)
{
    (void)state;
    make_permit(1);
    struct seen seen[10];
    for (int i = 0; i < 10; i++) {
        char selector[60];
        snprintf(selector, sizeof(selector), "spec.nodeName=n%d", i);
        ask(&seen[i], "t-agent", "pods", selector);
    }
    for (int i = 0; i < 10; i++) {
        drive_until(seen[i].n > 0);
        assert_int_equal(seen[i].verdict, PERMIT_GRANTED);
    }
    assert_int_equal(api.n_access, 11);
}

static void one_denied_subject_does_not_deny_the_others(void **state)
{
    (void)state;
    make_permit(1);
    struct seen seen[20];
    for (int i = 0; i < 20; i++) {
        char resource[20];
        snprintf(resource, sizeof(resource), "r%d", i);
        ask(&seen[i], "t-reader", i == 13 ? "secret" : resource, "");
    }
    for (int i = 0; i < 20; i++) {
        drive_until(seen[i].n > 0);
        assert_int_equal(seen[i].verdict, i == 13 ? PERMIT_REFUSED : PERMIT_GRANTED);
        if (i == 13)
            assert_non_null(strstr(seen[i].reason, "secret is forbidden: User \"reader\""));
    }
    assert_int_equal(api.n_tokens, 1);
}

static void flood_of_one_wrong_token_costs_one_review(void **state)
{
    (void)state;
    make_permit(1);
    uint64_t begin = belfry_clock_ms();
    for (int i = 0; i < 50; i++)
        asked("wrong", "pods", "", PERMIT_REFUSED, PERMIT_BAD_TOKEN);
    assert_true(api.n_tokens <= 1 + (belfry_clock_ms() - begin) / REVIEW_BAD_MS);
    assert_int_equal(api.n_access, 0);
}

static void odd_tokens_and_certificates_are_refused_without_a_review(void **state)
{
    (void)state;
    static char large[REVIEW_TOKEN_MAX + 2];
    make_permit(1);
    memset(large, 'x', sizeof(large) - 1);
    asked("", "pods", "", PERMIT_REFUSED, PERMIT_BAD_TOKEN);
    asked("t-reader\n", "pods", "", PERMIT_REFUSED, PERMIT_BAD_TOKEN);
    asked("t-reader x", "pods", "", PERMIT_REFUSED, PERMIT_BAD_TOKEN);
    asked("t-\xff", "pods", "", PERMIT_REFUSED, PERMIT_BAD_TOKEN);
    asked(large, "pods", "", PERMIT_REFUSED, PERMIT_BAD_TOKEN);
    struct seen seen;
    struct identity cert = {.kind = IDENTITY_CERT, .text = belfry_bytes_str("root")};
    ask_as(&seen, &cert, "pods", "");
    drive_until(seen.n > 0);
    assert_int_equal(seen.verdict, PERMIT_REFUSED);
    assert_string_equal(seen.reason, PERMIT_NO_CERTIFICATES);
    assert_true(permit_explains(seen.reason));
    assert_int_equal(api.n_tokens + api.n_access, 0);
}

static void no_listener_is_open(void **state)
{
    (void)state;
    make_permit(1);
    struct identity who = {.rights = LISTEN_RIGHTS_OPEN};
    struct seen seen;
    assert_false(permit_is_open_to(permit, &who, belfry_clock_ms()));
    ask_as(&seen, &who, "pods", "");
    drive_until(seen.n > 0);
    assert_int_equal(seen.verdict, PERMIT_REFUSED);
    assert_string_equal(seen.reason, PERMIT_NO_USER);
    assert_int_equal(permit_auth(permit, belfry_clock_ms()), PERMIT_AUTH_ON);
    permit_doubt(permit);
    assert_false(permit_is_open_to(permit, &who, belfry_clock_ms()));
    assert_int_equal(permit_auth(permit, belfry_clock_ms()), PERMIT_AUTH_ON);
}

static void range_of_keys_is_no_subject(void **state)
{
    (void)state;
    make_permit(1);
    struct identity who = who_has("t-reader");
    const struct rights_range ranges[] = {{belfry_bytes_str("/registry/"), belfry_bytes_str("/registry0")},
                                          {belfry_bytes_str("/registry/a"), belfry_bytes_str("")}};
    for (size_t i = 0; i < 2; i++) {
        struct seen seen = {0};
        assert_int_equal(permit_ask(permit, &who, ranges[i].key, ranges[i].end, belfry_clock_ms(), on_verdict, &seen,
                                    &seen.question),
                         BELFRY_OK);
        drive_until(seen.n > 0);
        assert_int_equal(seen.verdict, PERMIT_REFUSED);
        assert_string_equal(seen.reason, PERMIT_DENIED);
    }
    assert_int_equal(api.n_access, 0);
}

/* ---- upstream fails ---- */

static void without_an_answer_nothing_is_granted(void **state)
{
    (void)state;
    static const int statuses[] = {400, 401, 403, 404, 409, 429, 500, 503, 302};
    make_permit(1);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        struct seen seen;
        api.refuses = statuses[i];
        ask(&seen, "t-reader", "pods", "");
        drive_until(seen.n > 0);
        assert_int_equal(seen.verdict, PERMIT_UNAVAILABLE);
        assert_non_null(strstr(seen.reason, statuses[i] == 403 ? "system:auth-delegator" : "API server"));
    }
    api.says = "{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":false}}"; /* not even that counts */
    asked("t-reader", "pods", "", PERMIT_UNAVAILABLE,
          "belfry: the API server answered 302 when the tier asked about its client");
    api.refuses = 0;
    api.says = NULL;
    asked("t-reader", "pods", "", PERMIT_GRANTED, "");
}

static void strange_answers_grant_nothing(void **state)
{
    (void)state;
    static const char *const strange[] = {"", "{}", "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":true}}",
                                          "{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true}}"};
    make_permit(1);
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
        api.says = strange[i];
        asked("t-reader", "pods", "", PERMIT_UNAVAILABLE, "belfry: the API server's review of a client cannot be read");
    }
    api.says = NULL;
    asked("t-reader", "pods", "", PERMIT_GRANTED, "");
}

static void answer_that_is_too_long_grants_nothing(void **state)
{
    (void)state;
    static char body[REVIEW_ANSWER_MAX + 100];
    make_permit(1);
    memset(body, ' ', sizeof(body) - 1);
    static const char known[] = "{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true,\"user\":"
                                "{\"username\":\"reader\"}}}";
    memcpy(body, known, sizeof(known) - 1);
    api.says = body;
    asked("t-reader", "pods", "", PERMIT_UNAVAILABLE, "the answer is too long");
}

static void another_server_is_asked_if_one_does_not_answer(void **state)
{
    (void)state;
    make_permit(2);
    api.silent[0] = true;
    for (int i = 0; i < 4; i++) {
        char resource[20];
        snprintf(resource, sizeof(resource), "r%d", i);
        asked("t-reader", resource, "", PERMIT_GRANTED, "");
    }
    assert_true(api.n_tokens <= 3 && upstream_count(bed.members[0]) <= 2); /* the silent one is avoided */
    api.silent[0] = false;
    upstream_drop(bed.members[1], true);
    asked("t-node", "pods", "spec.nodeName=n1", PERMIT_GRANTED, "");
}

static void silent_server_ends_in_unavailable(void **state)
{
    (void)state;
    make_permit(1);
    api.silent[0] = true;
    struct seen seen;
    ask(&seen, "t-reader", "pods", "");
    drive_until(seen.n > 0);
    assert_int_equal(seen.verdict, PERMIT_UNAVAILABLE);
    api.silent[0] = false;
    asked("t-reader", "pods", "", PERMIT_GRANTED, "");
    struct reviews_stats stats;
    reviews_stats(reviews, &stats);
    assert_int_equal(stats.under_way, 0);
}

static void crowd_of_new_clients_waits_for_its_places(void **state)
{
    (void)state;
    make_permit(1);
    static struct seen seen[CROWD];
    struct reviews_stats stats;
    for (int i = 0; i < CROWD; i++) {
        char token[20];
        snprintf(token, sizeof(token), "t-other%d", i);
        ask(&seen[i], token, "pods", "");
    }
    for (int i = 0; i < CROWD; i++) {
        while (seen[i].n == 0) {
            turn();
            reviews_stats(reviews, &stats);
            assert_true(stats.under_way <= REVIEWS_FIRST);
        }
        assert_int_equal(seen[i].verdict, PERMIT_REFUSED); /* they are other users */
    }
    assert_int_equal(api.n_tokens, CROWD);
}

/* ---- streams that run ---- */

static struct permit_party party;
static struct identity party_who;
static struct {
    int paused, resumed, ended;
    char reason[200];
} events;

static void on_party(struct permit_party *of, enum permit_event event, const char *reason)
{
    (void)of;
    events.paused += event == PERMIT_PAUSED;
    events.resumed += event == PERMIT_RESUMED;
    events.ended += event == PERMIT_ENDED;
    snprintf(events.reason, sizeof(events.reason), "%s", reason);
}

static void hold_subject(struct seen *seen, const char *token, const char *resource, const char *field_selector)
{
    struct belfry_buf key = key_of(resource, field_selector);
    *seen = (struct seen){0};
    memset(&events, 0, sizeof(events));
    party_who = who_has(token);
    permit_join(permit, &party, &party_who, on_party);
    assert_int_equal(permit_hold(permit, &party, belfry_buf_bytes(&key), (struct belfry_bytes){0}, belfry_clock_ms(),
                                 on_verdict, seen, &seen->question),
                     BELFRY_OK);
    belfry_buf_fini(&key);
    drive_until(seen->n > 0);
    assert_int_equal(seen->verdict, PERMIT_HELD);
    assert_true(permit_may_deliver(permit, &party, belfry_clock_ms()));
}

static void hold(struct seen *seen, const char *token)
{
    hold_subject(seen, token, "pods", "");
}

static void let_go(struct seen *seen)
{
    if (seen->question != NULL)
        permit_cancel(seen->question);
    permit_leave(permit, &party);
}

static void watch_is_asked_about_again_and_goes_on(void **state)
{
    (void)state;
    make_permit(1);
    struct seen seen;
    hold(&seen, "t-reader");
    uint64_t end = belfry_clock_ms() + 2 * PERIOD;
    while (belfry_clock_ms() < end) {
        turn();
        permit_turn(permit, belfry_clock_ms());
        assert_true(permit_may_deliver(permit, &party, belfry_clock_ms()));
    }
    assert_true(api.n_tokens >= 3 && api.n_tokens <= 8); /* at 40 to 70 percent of a period */
    assert_true(api.n_access >= 3 && api.n_access <= 8);
    assert_int_equal(events.paused + events.ended, 0);
    let_go(&seen);
}

static void revoked_watch_is_refused_within_a_period(void **state)
{
    (void)state;
    make_permit(1);
    struct seen seen;
    hold(&seen, "t-reader");
    drive_for(PERIOD);
    uint64_t revoked = belfry_clock_ms();
    api.revoked = true;
    while (seen.n == 1 && belfry_clock_ms() < revoked + 2 * PERIOD) {
        turn();
        permit_turn(permit, belfry_clock_ms());
        assert_true(belfry_clock_ms() < revoked + PERIOD || !permit_may_deliver(permit, &party, belfry_clock_ms()));
    }
    assert_int_equal(seen.n, 2);
    assert_int_equal(seen.verdict, PERMIT_REFUSED);
    assert_string_equal(seen.reason, FORBIDDEN("reader"));
    let_go(&seen);
}

static void watch_of_an_expired_token_ends_within_a_period(void **state)
{
    (void)state;
    make_permit(1);
    struct seen seen;
    hold(&seen, "t-reader");
    uint64_t expired = belfry_clock_ms();
    api.expired = true;
    drive_until(events.ended > 0);
    assert_true(belfry_clock_ms() < expired + PERIOD);
    assert_string_equal(events.reason, PERMIT_BAD_TOKEN);
    let_go(&seen);
}

static void watch_pauses_while_upstream_cannot_be_asked(void **state)
{
    (void)state;
    make_permit(1);
    struct seen seen;
    hold(&seen, "t-reader");
    uint64_t begin = belfry_clock_ms();
    api.refuses = 503;
    drive_until(events.paused > 0);
    assert_true(belfry_clock_ms() <= begin + PERIOD + 100);
    assert_false(permit_may_deliver(permit, &party, belfry_clock_ms()));
    api.refuses = 0;
    drive_until(events.resumed > 0);
    assert_true(permit_may_deliver(permit, &party, belfry_clock_ms()));
    api.silent[0] = true;
    drive_until(events.paused > 1);
    assert_false(permit_may_deliver(permit, &party, belfry_clock_ms()));
    assert_int_equal(events.ended, 0);
    let_go(&seen);
}

/* Asks about pods; then holds what depends on a part of that answer, and upstream fails: the watch may not be delivered
 * to for longer than a period after the first review. */
static void ends_with_the_first_review(const char *resource, const char *field_selector, size_t n_reviews)
{
    struct seen seen;
    make_permit(1);
    uint64_t begin = belfry_clock_ms();
    asked("t-reader", "pods", "", PERMIT_GRANTED, "");
    uint64_t answered = belfry_clock_ms();
    drive_for(PERIOD * 3 / 10);
    hold_subject(&seen, "t-reader", resource, field_selector);
    assert_int_equal(api.n_tokens + api.n_access, n_reviews);
    api.refuses = 503;
    while (permit_may_deliver(permit, &party, belfry_clock_ms()))
        turn();
    assert_true(belfry_clock_ms() <= answered + PERIOD);
    assert_true(belfry_clock_ms() >= begin + PERIOD * 9 / 10);
    let_go(&seen);
}

static void right_of_a_known_user_ends_with_the_review_of_its_token(void **state)
{
    (void)state;
    ends_with_the_first_review("nodes", "", 3);
}

static void right_by_a_selector_ends_with_the_review_without_it(void **state)
{
    (void)state;
    ends_with_the_first_review("pods", "spec.nodeName=n7", 2);
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    struct seen seen = {0};
    struct identity who = who_has("t-reader");
    struct belfry_buf key;
    api = (struct api){0};
    belfry_buf_init(&key);
    bed.members[0] = upstream_create(&(struct upstream_opts){.serve = serve});
    enum belfry_err err = open_bed();
    if (err == BELFRY_OK)
        err = open_permit(1);
    const struct review_subject subject = {.verb = belfry_bytes_str("list"),
                                           .resource = belfry_bytes_str("pods"),
                                           .field_selector = belfry_bytes_str("spec.nodeName=n1")};
    if (err == BELFRY_OK)
        err = review_subject_write(&subject, &key);
    if (err == BELFRY_OK)
        err = permit_ask(permit, &who, belfry_buf_bytes(&key), (struct belfry_bytes){0}, belfry_clock_ms(), on_verdict,
                         &seen, &seen.question);
    if (err == BELFRY_OK) {
        drive_until(seen.n > 0);
        err = seen.verdict == PERMIT_GRANTED ? BELFRY_OK : BELFRY_ERR_NOMEM;
        assert_true(seen.verdict == PERMIT_GRANTED || seen.verdict == PERMIT_UNAVAILABLE);
    }
    belfry_buf_fini(&key);
    close_permit();
    close_bed();
    return err;
}

static void every_refused_allocation_grants_nothing_and_leaks_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 20);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(user_with_the_right_may_and_others_may_not),
        TEST(answer_is_used_again_within_a_period),
        TEST(watches_with_selectors_share_one_review),
        TEST(user_of_one_selector_has_the_right_for_that_alone),
        TEST(selectors_of_one_question_are_refused_once_without_them),
        TEST(one_denied_subject_does_not_deny_the_others),
        TEST(flood_of_one_wrong_token_costs_one_review),
        TEST(odd_tokens_and_certificates_are_refused_without_a_review),
        TEST(no_listener_is_open),
        TEST(range_of_keys_is_no_subject),
        TEST(without_an_answer_nothing_is_granted),
        TEST(strange_answers_grant_nothing),
        TEST(answer_that_is_too_long_grants_nothing),
        TEST(another_server_is_asked_if_one_does_not_answer),
        TEST(silent_server_ends_in_unavailable),
        TEST(crowd_of_new_clients_waits_for_its_places),
        TEST(watch_is_asked_about_again_and_goes_on),
        TEST(revoked_watch_is_refused_within_a_period),
        TEST(watch_of_an_expired_token_ends_within_a_period),
        TEST(watch_pauses_while_upstream_cannot_be_asked),
        TEST(right_of_a_known_user_ends_with_the_review_of_its_token),
        TEST(right_by_a_selector_ends_with_the_review_without_it),
        cmocka_unit_test(every_refused_allocation_grants_nothing_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
