/* src/serve/rights/rights_test.c: warrants against a store of grants that answers as etcd would.
 *
 *   BELFRY_RIGHTS_PAIRS=1000000 BELFRY_SEED=N build/release/bin/tests/rights_test    pairs of grants and requests
 */
#include "serve/rights/rights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "core/key_range.h"
#include "serve/rights/lanes.h"
#include "support/fakeshares.h"
#include "support/refuse.h"

#define PERIOD      10000
#define CLAIM_BYTES 400
#define MANY        1000

/* ---- upstream ---- */

static struct upstream {
    bool away, token_unknown, token_old, silent;
    size_t max_ops;         /* 0: RIGHTS_BATCH */
    const char *allowed[8]; /* prefixes; NULL: the end */
    uint64_t age_ms;
    size_t n_questions, n_ranges;
} upstream;

static struct rights *rights;
static uint64_t now;

static bool is_allowed(const struct rights_range *range)
{
    for (const char *const *prefix = upstream.allowed; *prefix != NULL; prefix++) {
        struct range read;
        if (range_read(range->key, range->end, &read) && range_within(&read, belfry_bytes_str(*prefix)))
            return true;
    }
    return false;
}

static enum rights_answer judge(const struct rights_question *question)
{
    if (upstream.away)
        return RIGHTS_UNREACHABLE;
    if (upstream.silent)
        return RIGHTS_SILENCE;
    if (question->n > (upstream.max_ops > 0 ? upstream.max_ops : RIGHTS_BATCH))
        return RIGHTS_TOO_MANY;
    if (upstream.token_unknown)
        return RIGHTS_NO_SUCH_TOKEN;
    if (upstream.token_old)
        return RIGHTS_TOKEN_IS_OLD;
    for (const struct rights_range *range = NULL; (range = rights_question_range(question, range)) != NULL;) {
        if (!is_allowed(range))
            return RIGHTS_FORBIDDEN;
    }
    return RIGHTS_ALLOWED;
}

/* Answers every question that may be asked now. */
static void serve(void)
{
    struct rights_question *question;
    rights_turn(rights, now);
    while ((question = rights_ask(rights, now)) != NULL) {
        upstream.n_questions++;
        upstream.n_ranges += question->n;
        rights_answer(rights, question, judge(question), upstream.age_ms, now);
    }
}

/* Lets time pass up to `until`, in the steps that the table asks for. */
static void pass(uint64_t until)
{
    serve();
    while (now < until) {
        uint64_t due = rights_due(rights);
        assert_true(due > now);
        now = due < until ? due : until;
        serve();
    }
}

/* ---- clients ---- */

struct client {
    struct rights_party party;
    struct rights_claim claims[MANY];
    size_t n;
};

static uint64_t source;             /* that clients come by */
static struct shares_conn *account; /* that their claims count to; NULL: none */

static struct rights_who who_is(const char *token)
{
    return (struct rights_who){
        .kind = 1, .secret = belfry_bytes_str(token), .source = {source, source}, .share = account};
}

static void make_that_renews(bool late)
{
    upstream = (struct upstream){.allowed = {"a"}};
    now = 1000000;
    struct rights_opts opts = {
        .period_ms = PERIOD, .seed = 7, .idle_max = 1 << 26, .claim_bytes = CLAIM_BYTES, .renews_late = late};
    assert_int_equal(rights_create(&opts, &rights), BELFRY_OK);
}

static void make(void)
{
    make_that_renews(false);
}

static bool claim_use(struct client *client, const char *token, const char *key, const char *end, enum rights_use use)
{
    bool granted = false;
    assert_int_equal(rights_claim(rights, who_is(token), rights_range_of(belfry_bytes_str(key), belfry_bytes_str(end)),
                                  use, now, &client->claims[client->n], &granted),
                     BELFRY_OK);
    client->n++;
    return granted;
}

static bool claim(struct client *client, const char *token, const char *key)
{
    return claim_use(client, token, key, "", RIGHTS_KEPT);
}

static struct client *come(void)
{
    return test_calloc(1, sizeof(struct client));
}

static void join(struct client *client)
{
    rights_join(rights, &client->claims[0], &client->party);
}

static void quit(struct client *client)
{
    for (size_t i = 0; i < client->n; i++)
        rights_release(rights, &client->claims[i]);
    rights_leave(rights, &client->party);
    test_free(client);
}

static void settled_is(struct rights_claim *claim, enum rights_verdict verdict)
{
    struct rights_claim *settled = rights_settled(rights);
    assert_ptr_equal(settled, claim);
    assert_int_equal(settled->verdict, verdict);
}

static void news_is(struct client *client, enum rights_event expected)
{
    enum rights_event event;
    assert_ptr_equal(rights_news(rights, &event), &client->party);
    assert_int_equal(event, expected);
}

static void no_news(void)
{
    enum rights_event event;
    assert_null(rights_news(rights, &event));
    assert_null(rights_settled(rights));
}

static struct rights_stats counted(void)
{
    struct rights_stats stats;
    rights_stats(rights, &stats);
    return stats;
}

/* Nothing may be left once all have gone and the last answers have ended. */
static void finish(void)
{
    pass(now + 2 * PERIOD);
    struct rights_stats stats = counted();
    assert_true(stats.bearers == 0 && stats.warrants == 0 && stats.bytes == 0 && stats.kept == 0 && stats.waiting == 0);
    assert_true(rights_due(rights) == BELFRY_NEVER);
    rights_destroy(rights);
    rights = NULL;
}

/* ---- tests ---- */

static void range_is(const char *key, size_t key_len, const char *end, size_t end_len, const char *read_key,
                     size_t read_key_len, const char *read_end, size_t read_end_len)
{
    struct rights_range range = rights_range_of(belfry_bytes_of(key, key_len), belfry_bytes_of(end, end_len));
    assert_true(belfry_bytes_equal(range.key, belfry_bytes_of(read_key, read_key_len)));
    assert_true(belfry_bytes_equal(range.end, belfry_bytes_of(read_end, read_end_len)));
}

static void a_range_reads_as_etcd_reads_it(void **state)
{
    (void)state;
    range_is("a", 1, "", 0, "a", 1, "", 0);       /* one key */
    range_is("a", 1, "a\0", 2, "a", 1, "", 0);    /* the same */
    range_is("a", 1, "b", 1, "a", 1, "b", 1);     /* a prefix */
    range_is("a", 1, "\0", 1, "a", 1, "\0", 1);   /* from a key on: asked as a Range, never as the single key */
    range_is("", 0, "", 0, "\0", 1, "", 0);       /* an empty key */
    range_is("", 0, "\0", 1, "\0", 1, "\0", 1);   /* everything */
    range_is("\0", 1, "\0", 1, "\0", 1, "\0", 1); /* the same */
    range_is("b", 1, "a", 1, "b", 1, "a", 1);     /* empty: upstream decides, the core refuses it */
    range_is("\0", 1, "\0\0", 2, "\0", 1, "", 0); /* one key */
}

static void an_answer_is_shared_until_a_period_after_its_question(void **state)
{
    (void)state;
    make();
    struct client *a = come(), *b = come();
    assert_false(claim_use(a, "t", "a1", "", RIGHTS_ONCE));
    assert_false(claim_use(b, "t", "a1", "", RIGHTS_ONCE));
    struct rights_question *question = rights_ask(rights, now);
    assert_true(question->n == 1 && question->is_first);
    assert_null(rights_ask(rights, now));
    now += 3000;
    rights_answer(rights, question, RIGHTS_ALLOWED, 0, now);
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    settled_is(&b->claims[0], RIGHTS_GRANTED);
    now += PERIOD - 3000 - 1;
    assert_true(claim_use(a, "t", "a1", "", RIGHTS_ONCE));
    assert_false(claim_use(a, "u", "a1", "", RIGHTS_ONCE));
    assert_false(claim_use(a, "t", "a2", "", RIGHTS_ONCE));
    now++;
    assert_false(claim_use(b, "t", "a1", "", RIGHTS_ONCE));
    quit(a);
    quit(b);
    finish();
}

static void an_answer_that_comes_from_a_tier_above_ends_earlier(void **state)
{
    (void)state;
    make();
    upstream.age_ms = 9000;
    struct client *a = come();
    assert_false(claim_use(a, "t", "a1", "", RIGHTS_ONCE));
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    now += 999;
    assert_true(claim_use(a, "t", "a1", "", RIGHTS_ONCE));
    now++;
    assert_false(claim_use(a, "t", "a1", "", RIGHTS_ONCE));
    upstream.age_ms = PERIOD;
    serve();
    settled_is(&a->claims[2], RIGHTS_UNAVAILABLE); /* it was over before it came */
    quit(a);
    finish();
}

static void a_thousand_ranges_cost_eight_questions_per_period(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    char key[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "a%d", i);
        assert_false(claim(a, "t", key));
    }
    serve();
    assert_int_equal(upstream.n_questions, (MANY + RIGHTS_BATCH - 1) / RIGHTS_BATCH);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(rights_settled(rights)->verdict, RIGHTS_GRANTED);
    join(a);
    no_news();
    upstream.n_questions = 0;
    uint64_t from = now;
    while (now < from + 100 * PERIOD) {
        pass(now + 100);
        assert_true(rights_party_may(&a->party, now));
    }
    no_news();
    assert_true(upstream.n_questions <= 100 * 8 * 10 / 4 && upstream.n_questions >= 100 * 8);
    quit(a);
    finish();
}

/* So that answers never end, and a question that fails leaves time for another. */
static void answers_are_renewed_in_time_and_late_if_wanted(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        make_that_renews(late);
        struct client *client = come();
        assert_false(claim(client, "t", "a"));
        serve();
        settled_is(&client->claims[0], RIGHTS_GRANTED);
        join(client);
        for (int i = 0; i < 200; i++) {
            uint64_t asked_ms = now;
            size_t n = upstream.n_questions;
            while (upstream.n_questions == n)
                pass(rights_due(rights));
            assert_true(now - asked_ms >= (late ? PERIOD * 70 / 100 : PERIOD * 40 / 100));
            assert_true(now - asked_ms <= (late ? PERIOD * 80 / 100 : PERIOD * 70 / 100));
            assert_true(rights_party_may(&client->party, now));
        }
        no_news();
        quit(client);
        finish();
    }
}

static void the_forbidden_ones_of_many_are_found_by_halving(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    char key[16];
    for (int i = 0; i < RIGHTS_BATCH; i++) {
        snprintf(key, sizeof(key), "%c%d", i == 17 || i == 100 ? 'b' : 'a', i);
        (void)claim(a, "t", key);
    }
    serve();
    assert_true(upstream.n_questions < 40);
    size_t denied = 0;
    for (struct rights_claim *c; (c = rights_settled(rights)) != NULL;) {
        bool is_bad = c == &a->claims[17] || c == &a->claims[100];
        assert_int_equal(c->verdict, is_bad ? RIGHTS_DENIED : RIGHTS_GRANTED);
        denied += is_bad;
    }
    assert_int_equal(denied, 2);
    join(a);
    pass(now + PERIOD);
    no_news();
    assert_true(rights_party_may(&a->party, now));
    quit(a);
    finish();
}

static void a_right_that_is_revoked_ends_within_a_period_and_others_go_on(void **state)
{
    (void)state;
    make();
    upstream.allowed[1] = "b";
    struct client *a = come();
    (void)claim(a, "t", "a1");
    (void)claim(a, "t", "b1");
    serve();
    assert_int_equal(rights_settled(rights)->verdict, RIGHTS_GRANTED);
    assert_int_equal(rights_settled(rights)->verdict, RIGHTS_GRANTED);
    join(a);
    upstream.allowed[1] = NULL;
    pass(now + PERIOD * 7 / 10 + 1);
    settled_is(&a->claims[1], RIGHTS_DENIED);
    no_news();
    pass(now + 10 * PERIOD);
    no_news();
    assert_true(rights_party_may(&a->party, now));
    quit(a);
    finish();
}

static void without_upstream_a_party_pauses_in_time_and_goes_on_when_it_answers(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    (void)claim(a, "t", "a1");
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    join(a);
    uint64_t granted = now;
    upstream.away = true;
    pass(granted + PERIOD - 1);
    assert_true(rights_party_may(&a->party, now));
    assert_false(rights_party_may(&a->party, granted + PERIOD)); /* before anybody was told */
    no_news();
    pass(granted + PERIOD);
    news_is(a, RIGHTS_PAUSED);
    struct client *late = come();
    pass(granted + 60000);
    no_news();
    assert_int_equal(counted().paused, 1);
    assert_false(claim(late, "t", "a1"));
    serve();
    settled_is(&late->claims[0], RIGHTS_UNAVAILABLE);
    rights_join(rights, &a->claims[0], &late->party);
    news_is(late, RIGHTS_PAUSED);
    size_t asked = upstream.n_questions;
    assert_true(asked < 100); /* not without pause */
    upstream.away = false;
    pass(now + 2000);
    assert_true(rights_party_may(&a->party, now));
    news_is(a, RIGHTS_RESUMED);
    news_is(late, RIGHTS_RESUMED);
    no_news();
    quit(a);
    quit(late);
    finish();
}

/* Two ranges are kept. One ends earlier than the other, and its claim goes: what is left is good. */
static void a_party_goes_on_when_the_claim_that_paused_it_goes(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    (void)claim(a, "t", "a1");
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    join(a);
    uint64_t granted = now;
    now += 1000;
    (void)claim(a, "t", "a2");
    serve();
    settled_is(&a->claims[1], RIGHTS_GRANTED);
    upstream.away = true;
    pass(granted + PERIOD);
    news_is(a, RIGHTS_PAUSED);
    rights_release(rights, &a->claims[0]);
    assert_true(rights_party_may(&a->party, now));
    assert_true(rights_due(rights) <= now);
    rights_turn(rights, now);
    news_is(a, RIGHTS_RESUMED);
    assert_int_equal(counted().paused, 0);
    pass(granted + PERIOD + 1000);
    news_is(a, RIGHTS_PAUSED); /* by the other one, in its time */
    quit(a);
    finish();
}

static void a_party_without_claims_is_not_paused(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    (void)claim(a, "t", "a1");
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    join(a);
    upstream.away = true;
    pass(now + PERIOD);
    news_is(a, RIGHTS_PAUSED);
    rights_release(rights, &a->claims[0]);
    news_is(a, RIGHTS_RESUMED);
    assert_true(rights_party_may(&a->party, now));
    upstream.away = false;
    (void)claim(a, "t", "a2");
    serve();
    settled_is(&a->claims[1], RIGHTS_GRANTED);
    assert_true(rights_party_may(&a->party, now + PERIOD - 1));
    quit(a);
    finish();
}

static void a_token_that_upstream_forgot_ends_its_parties_and_may_come_back(void **state)
{
    (void)state;
    make();
    struct client *a = come(), *other = come();
    (void)claim(a, "t", "a1");
    (void)claim(other, "u", "a1");
    serve();
    (void)rights_settled(rights);
    (void)rights_settled(rights);
    join(a);
    join(other);
    upstream.token_unknown = true;
    assert_false(claim(a, "t", "a2"));
    serve();
    settled_is(&a->claims[1], RIGHTS_BAD_TOKEN);
    news_is(a, RIGHTS_ENDED);
    assert_int_equal(a->party.why, RIGHTS_BAD_TOKEN);
    assert_false(rights_party_may(&a->party, now));
    assert_true(rights_party_may(&other->party, now));
    upstream.token_unknown = false;
    struct client *b = come();
    assert_false(claim(b, "t", "a1")); /* what was known of it counts no more */
    serve();
    settled_is(&b->claims[0], RIGHTS_GRANTED);
    join(b);
    quit(a);
    pass(now + PERIOD);
    no_news();
    assert_true(rights_party_may(&b->party, now));
    quit(b);
    quit(other);
    finish();
}

static void parties_of_an_old_token_pause_when_the_answer_ends_and_end_within_a_minute(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    (void)claim(a, "t", "a1");
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    join(a);
    uint64_t granted = now;
    upstream.token_old = true;
    assert_false(claim_use(a, "t", "a2", "", RIGHTS_ONCE));
    serve();
    settled_is(&a->claims[1], RIGHTS_OLD_TOKEN);
    assert_true(rights_party_may(&a->party, granted + PERIOD - 1));
    assert_false(rights_party_may(&a->party, granted + PERIOD));
    size_t asked = upstream.n_questions;
    pass(granted + RIGHTS_OLD_MS);
    assert_int_equal(upstream.n_questions, asked);
    news_is(a, RIGHTS_ENDED);
    assert_int_equal(a->party.why, RIGHTS_OLD_TOKEN);
    quit(a);
    finish();
}

/* The warrant of an old token is not renewed, so a watch that began by it would pause for ever. */
static void a_claim_by_an_old_token_is_asked_about_even_if_the_last_answer_is_good(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    assert_false(claim_use(a, "t", "a1", "", RIGHTS_ONCE));
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    upstream.token_old = true;
    assert_false(claim_use(a, "t", "a2", "", RIGHTS_ONCE));
    serve();
    settled_is(&a->claims[1], RIGHTS_OLD_TOKEN);
    assert_false(claim(a, "t", "a1"));
    serve();
    settled_is(&a->claims[2], RIGHTS_OLD_TOKEN);
    upstream.token_old = false; /* it was another tier's mistake, say */
    assert_false(claim(a, "t", "a1"));
    serve();
    settled_is(&a->claims[3], RIGHTS_GRANTED);
    assert_true(claim(a, "t", "a1"));
    quit(a);
    finish();
}

static void silence_counts_against_the_token_alone(void **state)
{
    (void)state;
    make();
    struct client *a = come(), *b = come();
    (void)claim(a, "t", "a1");
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    join(a);
    upstream.silent = true;
    (void)claim(b, "made-up", "a1");
    serve();
    settled_is(&b->claims[0], RIGHTS_SILENT);
    upstream.silent = false;
    assert_true(rights_party_may(&a->party, now));
    no_news();
    quit(a);
    quit(b);
    finish();
}

static void renewals_of_many_bearers_spread_out(void **state)
{
    (void)state;
    make();
    static struct client *clients[500];
    char token[16];
    for (size_t i = 0; i < 500; i++) {
        snprintf(token, sizeof(token), "t%zu", i);
        clients[i] = come();
        (void)claim(clients[i], token, "a1");
    }
    serve();
    while (rights_settled(rights) != NULL)
        ;
    upstream.n_questions = 0;
    uint64_t from = now;
    size_t most = 0;
    for (uint64_t ms = PERIOD * 4 / 10; ms <= PERIOD * 7 / 10; ms += 100) {
        size_t before = upstream.n_questions;
        pass(from + ms);
        most = upstream.n_questions - before > most ? upstream.n_questions - before : most;
    }
    assert_int_equal(upstream.n_questions, 500);
    assert_true(most < 50); /* of 17 on average */
    for (size_t i = 0; i < 500; i++)
        quit(clients[i]);
    finish();
}

static void questions_that_somebody_waits_for_go_before_renewals_and_both_are_bounded(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    (void)claim(a, "t", "a1");
    serve();
    (void)rights_settled(rights);
    rights_doubt(rights, now);
    static struct client *clients[RIGHTS_QUESTIONS];
    static struct rights_question *asked[RIGHTS_QUESTIONS];
    char token[16];
    for (size_t i = 0; i < RIGHTS_QUESTIONS; i++) {
        source = i;
        snprintf(token, sizeof(token), "t%zu", i);
        clients[i] = come();
        (void)claim(clients[i], token, "a1");
    }
    source = 0;
    size_t n = 0;
    while ((asked[n] = rights_ask(rights, now)) != NULL && asked[n]->is_first)
        n++;
    size_t most = RIGHTS_QUESTIONS - RIGHTS_RENEWALS; /* the last few are kept for sources that have none (lanes.h) */
    assert_in_range(n, most - 16, most);
    assert_true(belfry_bytes_equal(asked[n]->who.secret, belfry_bytes_str("t")));
    n++;
    assert_null(rights_ask(rights, now));
    while (n > 0)
        rights_answer(rights, asked[--n], RIGHTS_ALLOWED, 0, now);
    serve();
    for (size_t i = 0; i < RIGHTS_QUESTIONS; i++)
        assert_int_equal(rights_settled(rights)->verdict, RIGHTS_GRANTED);
    for (size_t i = 0; i < RIGHTS_QUESTIONS; i++)
        quit(clients[i]);
    quit(a);
    finish();
}

/* A source whose tokens make upstream hang holds every place that it can get. */
static void a_source_without_answers_leaves_places_to_others(void **state)
{
    (void)state;
    make();
    struct client *known = come(); /* by the same source, and upstream has accepted its token */
    (void)claim(known, "k", "a1");
    serve();
    settled_is(&known->claims[0], RIGHTS_GRANTED);
    static struct client *hostile[RIGHTS_QUESTIONS];
    static struct rights_question *asked[RIGHTS_QUESTIONS];
    char token[16];
    for (size_t i = 0; i < RIGHTS_QUESTIONS; i++) {
        snprintf(token, sizeof(token), "x%zu", i);
        hostile[i] = come();
        (void)claim(hostile[i], token, "a1");
    }
    size_t n = 0, share = (RIGHTS_QUESTIONS - RIGHTS_RENEWALS) / (8 + 1) + 1;
    while ((asked[n] = rights_ask(rights, now)) != NULL)
        n++;
    assert_int_equal(n, share);
    assert_false(rights_has_question(rights)); /* its owner would turn without end */
    source = 1;                                /* another lane: the key of these tests is fixed */
    struct client *good = come();
    (void)claim(good, "t", "a1");
    struct rights_question *question = rights_ask(rights, now);
    assert_non_null(question);
    assert_true(belfry_bytes_equal(question->who.secret, belfry_bytes_str("t")));
    rights_answer(rights, question, RIGHTS_ALLOWED, 0, now);
    settled_is(&good->claims[0], RIGHTS_GRANTED);
    source = 0;
    (void)claim(known, "k", "a2");
    question = rights_ask(rights, now);
    assert_non_null(question);
    assert_true(belfry_bytes_equal(question->who.secret, belfry_bytes_str("k")));
    rights_answer(rights, question, RIGHTS_ALLOWED, 0, now);
    settled_is(&known->claims[1], RIGHTS_GRANTED);
    while (n > 0)
        rights_answer(rights, asked[--n], RIGHTS_SILENCE, 0, now);
    while ((asked[n] = rights_ask(rights, now)) != NULL) /* places were given back */
        n++;
    assert_int_equal(n, share);
    while (n > 0)
        rights_answer(rights, asked[--n], RIGHTS_SILENCE, 0, now);
    for (size_t i = 0; i < RIGHTS_QUESTIONS; i++)
        quit(hostile[i]);
    quit(good);
    quit(known);
    finish();
}

/* Upstream's answer comes before the holder of a claim was told that it is granted: its party joins later. */
/* Asked before a turn has found it over, it does not deliver; the renewal comes before that turn, too. */
static void a_right_that_is_renewed_after_it_was_found_over_is_told(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    (void)claim(a, "t", "a1");
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    join(a);
    uint64_t end = now + PERIOD;
    now += PERIOD * 70 / 100;
    rights_turn(rights, now);
    struct rights_question *renewal = rights_ask(rights, now);
    assert_non_null(renewal);
    now = end - 1;
    rights_turn(rights, now);
    no_news();
    now = end + 1;
    assert_false(rights_party_may(&a->party, now));
    rights_answer(rights, renewal, RIGHTS_ALLOWED, 0, now);
    assert_true(rights_party_may(&a->party, now));
    news_is(a, RIGHTS_RESUMED);
    no_news();
    quit(a);
    finish();
}

static void join_after(enum rights_answer answer)
{
    make();
    struct client *a = come(), *b = come();
    (void)claim(a, "t", "a1");
    serve();
    settled_is(&a->claims[0], RIGHTS_GRANTED);
    join(a);
    rights_doubt(rights, now);
    struct rights_question *renewal = rights_ask(rights, now);
    assert_non_null(renewal);
    assert_true(claim(b, "t", "a1"));
    quit(a);
    rights_answer(rights, renewal, answer, 0, now);
    join(b);
    upstream.token_unknown = answer == RIGHTS_NO_SUCH_TOKEN;
    upstream.token_old = answer == RIGHTS_TOKEN_IS_OLD;
    pass(now + PERIOD + RIGHTS_OLD_MS);
    assert_false(rights_party_may(&b->party, now));
    news_is(b, RIGHTS_ENDED);
    quit(b);
    finish();
}

static void a_party_that_joins_after_its_token_was_refused_ends_too(void **state)
{
    (void)state;
    join_after(RIGHTS_NO_SUCH_TOKEN);
    join_after(RIGHTS_TOKEN_IS_OLD);
}

static void an_upstream_with_a_lower_limit_is_asked_for_fewer_at_a_time(void **state)
{
    (void)state;
    make();
    upstream.max_ops = 10;
    struct client *a = come();
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "a%d", i);
        (void)claim(a, "t", key);
    }
    serve();
    for (int i = 0; i < 100; i++)
        assert_int_equal(rights_settled(rights)->verdict, RIGHTS_GRANTED);
    quit(a);
    finish();
}

static void a_question_that_nobody_waits_for_is_abandoned(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    (void)claim(a, "t", "a1");
    struct rights_question *question = rights_ask(rights, now);
    rights_release(rights, &a->claims[0]);
    assert_ptr_equal(rights_abandoned(rights), question);
    assert_null(rights_abandoned(rights));
    rights_answer(rights, question, RIGHTS_UNREACHABLE, 0, now);
    no_news();
    (void)claim(a, "t", "a1");
    question = rights_ask(rights, now);
    rights_release(rights, &a->claims[1]);
    (void)claim(a, "t", "a1");
    assert_null(rights_abandoned(rights)); /* another came */
    rights_answer(rights, question, RIGHTS_ALLOWED, 0, now);
    settled_is(&a->claims[2], RIGHTS_GRANTED);
    quit(a);
    finish();
}

static void warrants_are_bounded_in_number_and_bytes(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    char key[16];
    static struct rights_claim claims[RIGHTS_PER_BEARER + 1];
    bool granted;
    for (size_t i = 0; i < RIGHTS_PER_BEARER; i++) {
        snprintf(key, sizeof(key), "a%zu", i);
        enum belfry_err err =
            rights_claim(rights, who_is("t"), rights_range_of(belfry_bytes_str(key), (struct belfry_bytes){0}),
                         RIGHTS_KEPT, now, &claims[i], &granted);
        assert_int_equal(err, BELFRY_OK);
    }
    struct rights_range one_more = rights_range_of(belfry_bytes_str("b"), (struct belfry_bytes){0});
    assert_int_equal(
        rights_claim(rights, who_is("t"), one_more, RIGHTS_KEPT, now, &claims[RIGHTS_PER_BEARER], &granted),
        BELFRY_ERR_LIMIT);
    for (size_t i = 0; i < RIGHTS_PER_BEARER; i++)
        rights_release(rights, &claims[i]);
    quit(a);
    finish();
}

/* One period of a bearer with 65,536 warrants, each question answered like this. Returns the work of it all, after
 * looking at the work of each answer. */
static uint64_t work_of_a_period(enum rights_answer answer, size_t *n_questions)
{
    uint64_t began = counted().visits, until = now + PERIOD;
    *n_questions = 0;
    for (;;) {
        struct rights_question *question;
        rights_turn(rights, now);
        while ((question = rights_ask(rights, now)) != NULL) {
            uint64_t before = counted().visits;
            rights_answer(rights, question, answer, (*n_questions)++ % 3 * 100, now);
            assert_in_range(counted().visits - before, 0, RIGHTS_BATCH * 150); /* each removed, inserted and moved */
        }
        if (now >= until)
            return counted().visits - began;
        uint64_t due = rights_due(rights);
        now = due < until ? due : until;
    }
}

/* Work, not time: twice as many warrants must not be four times the work. */
static void the_largest_bearer_is_renewed_without_looking_at_all_for_each_answer(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    char key[16];
    static struct rights_claim claims[RIGHTS_PER_BEARER];
    size_t n_questions;
    bool granted;
    for (size_t i = 0; i < RIGHTS_PER_BEARER; i++) {
        snprintf(key, sizeof(key), "a%zu", i);
        enum belfry_err err =
            rights_claim(rights, who_is("t"), rights_range_of(belfry_bytes_str(key), (struct belfry_bytes){0}),
                         RIGHTS_KEPT, now, &claims[i], &granted);
        assert_int_equal(err, BELFRY_OK);
    }
    serve();
    while (rights_settled(rights) != NULL)
        ;
    rights_join(rights, &claims[0], &a->party);
    assert_int_equal(counted().kept, RIGHTS_PER_BEARER);

    uint64_t visits = work_of_a_period(RIGHTS_ALLOWED, &n_questions);
    assert_in_range(n_questions, RIGHTS_PER_BEARER / RIGHTS_BATCH, 3 * RIGHTS_PER_BEARER / RIGHTS_BATCH);
    assert_in_range(visits, RIGHTS_PER_BEARER, n_questions * RIGHTS_BATCH * 160);
    (void)work_of_a_period(RIGHTS_UNREACHABLE, &n_questions); /* and the party pauses */
    assert_false(rights_party_may(&a->party, now));
    visits = work_of_a_period(RIGHTS_ALLOWED, &n_questions);
    assert_true(rights_party_may(&a->party, now));
    assert_in_range(visits, RIGHTS_PER_BEARER, n_questions * RIGHTS_BATCH * 160);
    for (size_t i = 0; i < RIGHTS_PER_BEARER; i++)
        rights_release(rights, &claims[i]);
    quit(a);
    finish();
}

/* ---- who pays ---- */

static struct fakeshares fake;
static struct exchange_conn conns[2];

static void open_accounts(size_t total, unsigned percent)
{
    fakeshares_init(&fake, SHARES_WATCH_BYTES, total, percent);
    for (size_t i = 0; i < 2; i++) {
        conns[i] = (struct exchange_conn){0};
        fakeshares_join(&fake, &conns[i], i == 0 ? "10.0.0.1" : "10.0.0.2");
    }
}

static size_t paid_by(size_t i)
{
    return conns[i].share.held[SHARES_WATCH_BYTES];
}

/* Every byte of the table is somebody's, or idle. */
static void assert_all_is_paid(void)
{
    assert_int_equal(counted().bytes, paid_by(0) + paid_by(1) + counted().idle_bytes);
}

static void close_accounts(void)
{
    account = NULL;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(paid_by(i), 0);
        shares_leave(&conns[i].share);
    }
    shares_fini(&fake.shares);
}

static enum belfry_err claim_by(size_t who, const char *key, enum rights_use use, struct rights_claim *claim,
                                bool *granted)
{
    account = &conns[who].share;
    return rights_claim(rights, who_is("t"), rights_range_of(belfry_bytes_str(key), (struct belfry_bytes){0}), use, now,
                        claim, granted);
}

static void claims_count_to_their_connections_and_one_of_them_for_the_warrant(void **state)
{
    (void)state;
    make();
    open_accounts(1 << 20, 100);
    struct rights_claim first, second, third, once;
    bool granted;
    assert_int_equal(claim_by(0, "a", RIGHTS_KEPT, &first, &granted), BELFRY_OK);
    size_t whole = paid_by(0);
    assert_true(whole > CLAIM_BYTES && whole == counted().bytes); /* it, the warrant and the bearer */
    assert_int_equal(claim_by(1, "a", RIGHTS_KEPT, &second, &granted), BELFRY_OK);
    assert_int_equal(paid_by(1), CLAIM_BYTES); /* the other pays for both */
    assert_int_equal(claim_by(1, "a2", RIGHTS_KEPT, &third, &granted), BELFRY_OK);
    assert_all_is_paid();
    serve(); /* who pays may change when claims are granted, not how much is paid */
    assert_all_is_paid();

    rights_release(rights, &first); /* the second takes over */
    assert_int_equal(paid_by(0), 0);
    assert_all_is_paid();
    rights_release(rights, &second); /* the answer is kept for the next one who asks, at nobody's cost */
    assert_true(counted().idle_bytes > 0);
    assert_all_is_paid();
    assert_int_equal(claim_by(0, "a", RIGHTS_ONCE, &once, &granted), BELFRY_OK);
    assert_true(granted && paid_by(0) == 0);
    assert_int_equal(claim_by(0, "a", RIGHTS_KEPT, &first, &granted), BELFRY_OK);
    assert_true(granted && paid_by(0) > CLAIM_BYTES && counted().idle_bytes == 0);
    assert_all_is_paid();
    rights_release(rights, &third);
    rights_release(rights, &first);
    close_accounts();
    finish();
}

static void a_claim_beyond_the_share_of_its_client_is_refused(void **state)
{
    (void)state;
    make();
    static struct rights_claim claims[100];
    static char keys[100][1000];
    struct rights_claim other;
    bool granted;
    size_t n = 0;
    open_accounts(100000, 50);
    for (; n < 100; n++) {
        memset(keys[n], 'a', sizeof(keys[n]) - 1);
        keys[n][1] = (char)('0' + n / 10);
        keys[n][2] = (char)('0' + n % 10);
        if (claim_by(0, keys[n], RIGHTS_KEPT, &claims[n], &granted) != BELFRY_OK)
            break;
    }
    assert_in_range(n, 25, 45);
    assert_int_equal(claim_by(0, keys[n], RIGHTS_KEPT, &claims[n], &granted), BELFRY_ERR_REFUSED);
    assert_in_range(paid_by(0), 45000, 50000);
    assert_int_equal(fake.shares.pools[SHARES_WATCH_BYTES].refused, 2);
    assert_all_is_paid();
    assert_int_equal(claim_by(1, "a", RIGHTS_KEPT, &other, &granted), BELFRY_OK); /* there is room for others */
    serve();
    assert_all_is_paid();
    rights_release(rights, &other);
    while (n > 0)
        rights_release(rights, &claims[--n]);
    close_accounts();
    finish();
}

static void a_claim_that_is_refused_by_upstream_is_paid_back(void **state)
{
    (void)state;
    make();
    open_accounts(1 << 20, 100);
    struct rights_claim claims[3];
    bool granted;
    assert_int_equal(claim_by(0, "x", RIGHTS_KEPT, &claims[0], &granted), BELFRY_OK);
    assert_int_equal(claim_by(0, "a", RIGHTS_KEPT, &claims[1], &granted), BELFRY_OK);
    assert_int_equal(claim_by(1, "x", RIGHTS_ONCE, &claims[2], &granted), BELFRY_OK);
    serve();
    assert_int_equal(paid_by(1), 0);
    assert_int_equal(paid_by(0), counted().bytes);
    upstream.allowed[0] = "x"; /* what was granted is forbidden later */
    pass(now + PERIOD);
    assert_int_equal(paid_by(0), 0);
    assert_int_equal(paid_by(1), 0);
    for (size_t i = 0; i < 3; i++)
        rights_release(rights, &claims[i]);
    while (rights_settled(rights) != NULL)
        ;
    close_accounts();
    finish();
}

static void answers_that_nobody_keeps_are_dropped_above_their_bound(void **state)
{
    (void)state;
    make();
    rights_destroy(rights);
    struct rights_opts opts = {.period_ms = PERIOD, .idle_max = 4000, .claim_bytes = CLAIM_BYTES};
    assert_int_equal(rights_create(&opts, &rights), BELFRY_OK);
    struct rights_claim kept, once;
    bool granted;
    assert_int_equal(claim_by(0, "a", RIGHTS_KEPT, &kept, &granted), BELFRY_OK);
    for (int i = 0; i < 200; i++) {
        char key[16];
        snprintf(key, sizeof(key), "a%d", i);
        assert_int_equal(claim_by(0, key, RIGHTS_ONCE, &once, &granted), BELFRY_OK);
        serve();
        while (rights_settled(rights) != NULL)
            ;
        assert_true(counted().idle_bytes <= 4000);
    }
    assert_in_range(counted().warrants, 5, 30);
    assert_int_equal(claim_by(0, "a199", RIGHTS_ONCE, &once, &granted), BELFRY_OK);
    assert_true(granted); /* the newest is still there */
    assert_int_equal(claim_by(0, "a0", RIGHTS_ONCE, &once, &granted), BELFRY_OK);
    assert_false(granted); /* the oldest is not */
    rights_release(rights, &once);
    assert_int_equal(claim_by(0, "a", RIGHTS_ONCE, &once, &granted), BELFRY_OK);
    assert_true(granted); /* what is kept is not dropped */
    rights_release(rights, &kept);
    account = NULL;
    finish();
}

static void a_doubt_asks_for_every_kept_warrant_again(void **state)
{
    (void)state;
    make();
    struct client *a = come();
    (void)claim(a, "t", "a1");
    (void)claim_use(a, "t", "a2", "", RIGHTS_ONCE);
    serve();
    while (rights_settled(rights) != NULL)
        ;
    upstream.n_ranges = 0;
    upstream.allowed[0] = "x";
    rights_doubt(rights, now);
    serve();
    assert_int_equal(upstream.n_ranges, 1);
    settled_is(&a->claims[0], RIGHTS_DENIED);
    quit(a);
    finish();
}

/* ---- a model: every key that a watch would see must be granted, and nothing else is needed ---- */

struct text {
    char bytes[4];
    size_t len;
};

struct grant {
    struct text key, end; /* as of role grant-permission: an empty end is one key, "\0" has no bound */
};

static struct text random_text(struct belfry_rng *rng)
{
    static const char letters[] = {'\0', 'a', 'b', (char)0xff};
    struct text text = {.len = belfry_rng_below(rng, 4)};
    for (size_t i = 0; i < text.len; i++)
        text.bytes[i] = letters[belfry_rng_below(rng, sizeof(letters))];
    return text;
}

static struct belfry_bytes bytes_of(const struct text *text)
{
    return belfry_bytes_of(text->bytes, text->len);
}

static bool is_open(struct belfry_bytes end)
{
    return end.len == 1 && end.data[0] == '\0';
}

/* [key, end) as etcd's auth store compares it: the end of one key is the key with a zero byte, "\0" is above all. */
static bool grant_has(const struct grant *grant, struct belfry_bytes key)
{
    struct belfry_bytes first = bytes_of(&grant->key), end = bytes_of(&grant->end);
    if (end.len == 0)
        return belfry_bytes_equal(first, key);
    return belfry_bytes_cmp(first, key) <= 0 && (is_open(end) || belfry_bytes_cmp(key, end) < 0);
}

#define GRANTS 4

static bool grants_have(const struct grant *grants, struct belfry_bytes key)
{
    for (size_t i = 0; i < GRANTS; i++) {
        if (grant_has(&grants[i], key))
            return true;
    }
    return false;
}

/* The keys at which a part that is not granted can begin: the first of the range, and the ends of grants. */
static size_t critical_keys(const struct grant *grants, struct belfry_bytes first, char (*keys)[8], size_t *lens)
{
    size_t n = 0;
    memcpy(keys[n], first.data, first.len);
    lens[n++] = first.len;
    for (size_t i = 0; i < GRANTS; i++) {
        const struct text *at = grants[i].end.len > 0 ? &grants[i].end : &grants[i].key;
        memcpy(keys[n], at->bytes, at->len);
        keys[n][at->len] = '\0';
        lens[n++] = at->len + (grants[i].end.len == 0); /* after one key comes the same with a zero byte */
    }
    return n;
}

/* Is every key granted for which `has` says yes? */
static bool all_granted(const struct grant *grants, struct belfry_bytes first,
                        bool (*has)(const void *range, struct belfry_bytes key), const void *range)
{
    char keys[GRANTS + 1][8];
    size_t lens[GRANTS + 1], n = critical_keys(grants, first, keys, lens);
    for (size_t i = 0; i < n; i++) {
        struct belfry_bytes key = belfry_bytes_of(keys[i], lens[i]);
        if (has(range, key) && !grants_have(grants, key))
            return false;
    }
    return true;
}

static bool watch_has(const void *range, struct belfry_bytes key)
{
    return range_has(range, key);
}

static bool question_has(const void *range, struct belfry_bytes key)
{
    const struct rights_range *asked = range;
    if (asked->end.len == 0)
        return belfry_bytes_equal(asked->key, key);
    return belfry_bytes_cmp(asked->key, key) <= 0 && (is_open(asked->end) || belfry_bytes_cmp(key, asked->end) < 0);
}

static void answer_by_grants(const struct grant *grants)
{
    struct rights_question *question;
    rights_turn(rights, now);
    while ((question = rights_ask(rights, now)) != NULL) {
        enum rights_answer answer = RIGHTS_ALLOWED;
        for (const struct rights_range *range = NULL; (range = rights_question_range(question, range)) != NULL;) {
            if (!all_granted(grants, range->key, question_has, range))
                answer = RIGHTS_FORBIDDEN;
        }
        rights_answer(rights, question, answer, 0, now);
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PAIRS 20000 /* sanitizers take ten times as long */
#else
#define PAIRS 1000000 /* about two seconds */
#endif

static size_t pairs_wanted(uint64_t *seed)
{
    const char *pairs = getenv("BELFRY_RIGHTS_PAIRS"), *given = getenv("BELFRY_SEED");
    *seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    return pairs != NULL ? strtoull(pairs, NULL, 10) : PAIRS;
}

static void verdicts_agree_with_a_model_that_looks_at_every_key(void **state)
{
    (void)state;
    uint64_t seed;
    size_t left = pairs_wanted(&seed), granted_n = 0;
    print_message("seed %llu, %zu pairs\n", (unsigned long long)seed, left);
    struct belfry_rng rng = {.state = seed};
    make();
    while (left > 0) {
        struct grant grants[GRANTS];
        struct client *client = come();
        struct text keys[32], ends[32];
        bool expected[32];
        size_t n = 1 + belfry_rng_below(&rng, 32);
        for (size_t i = 0; i < GRANTS; i++)
            grants[i] = (struct grant){random_text(&rng), random_text(&rng)};
        for (size_t i = 0; i < n; i++) {
            struct range range;
            do {
                keys[i] = random_text(&rng);
                ends[i] = random_text(&rng);
            } while (!range_read(bytes_of(&keys[i]), bytes_of(&ends[i]), &range));
            struct belfry_bytes first = range.key.len > 0 ? range.key : belfry_bytes_of("", 1);
            expected[i] = all_granted(grants, first, watch_has, &range);
            bool granted;
            assert_int_equal(rights_claim(rights, who_is("t"), rights_range_of(bytes_of(&keys[i]), bytes_of(&ends[i])),
                                          RIGHTS_KEPT, now, &client->claims[client->n++], &granted),
                             BELFRY_OK);
            assert_false(granted);
        }
        answer_by_grants(grants);
        for (struct rights_claim *settled; (settled = rights_settled(rights)) != NULL;) {
            size_t i = (size_t)(settled - client->claims);
            assert_int_equal(settled->verdict == RIGHTS_GRANTED, expected[i]);
            granted_n += expected[i];
        }
        quit(client);
        pass(now + PERIOD);
        left -= n < left ? n : left;
    }
    assert_true(granted_n > 0);
    finish();
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    struct rights_opts opts = {.period_ms = PERIOD, .idle_max = 1 << 20};
    struct rights_claim one = {0}, two = {0};
    struct rights_party party = {0};
    bool granted;
    struct rights_range range = rights_range_of(belfry_bytes_str("a"), (struct belfry_bytes){0});
    enum belfry_err err = rights_create(&opts, &rights);
    if (err != BELFRY_OK)
        return err;
    err = rights_claim(rights, who_is("t"), range, RIGHTS_KEPT, now, &one, &granted);
    if (err == BELFRY_OK) {
        err = rights_claim(rights, who_is("u"), range, RIGHTS_KEPT, now, &two, &granted);
        serve();
        while (rights_settled(rights) != NULL)
            ;
        rights_join(rights, &one, &party);
        rights_release(rights, &one);
    }
    if (err == BELFRY_OK)
        rights_release(rights, &two);
    rights_leave(rights, &party);
    rights_destroy(rights);
    return err;
}

static void without_memory_a_claim_fails_and_nothing_leaks(void **state)
{
    (void)state;
    upstream = (struct upstream){.allowed = {"a"}};
    assert_true(refuse_sweep(scenario) > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_reads_as_etcd_reads_it),
        cmocka_unit_test(an_answer_is_shared_until_a_period_after_its_question),
        cmocka_unit_test(an_answer_that_comes_from_a_tier_above_ends_earlier),
        cmocka_unit_test(a_thousand_ranges_cost_eight_questions_per_period),
        cmocka_unit_test(answers_are_renewed_in_time_and_late_if_wanted),
        cmocka_unit_test(the_forbidden_ones_of_many_are_found_by_halving),
        cmocka_unit_test(a_right_that_is_revoked_ends_within_a_period_and_others_go_on),
        cmocka_unit_test(without_upstream_a_party_pauses_in_time_and_goes_on_when_it_answers),
        cmocka_unit_test(a_right_that_is_renewed_after_it_was_found_over_is_told),
        cmocka_unit_test(a_party_goes_on_when_the_claim_that_paused_it_goes),
        cmocka_unit_test(a_party_without_claims_is_not_paused),
        cmocka_unit_test(a_token_that_upstream_forgot_ends_its_parties_and_may_come_back),
        cmocka_unit_test(parties_of_an_old_token_pause_when_the_answer_ends_and_end_within_a_minute),
        cmocka_unit_test(a_claim_by_an_old_token_is_asked_about_even_if_the_last_answer_is_good),
        cmocka_unit_test(silence_counts_against_the_token_alone),
        cmocka_unit_test(renewals_of_many_bearers_spread_out),
        cmocka_unit_test(questions_that_somebody_waits_for_go_before_renewals_and_both_are_bounded),
        cmocka_unit_test(a_source_without_answers_leaves_places_to_others),
        cmocka_unit_test(a_party_that_joins_after_its_token_was_refused_ends_too),
        cmocka_unit_test(an_upstream_with_a_lower_limit_is_asked_for_fewer_at_a_time),
        cmocka_unit_test(a_question_that_nobody_waits_for_is_abandoned),
        cmocka_unit_test(warrants_are_bounded_in_number_and_bytes),
        cmocka_unit_test(the_largest_bearer_is_renewed_without_looking_at_all_for_each_answer),
        cmocka_unit_test(claims_count_to_their_connections_and_one_of_them_for_the_warrant),
        cmocka_unit_test(a_claim_beyond_the_share_of_its_client_is_refused),
        cmocka_unit_test(a_claim_that_is_refused_by_upstream_is_paid_back),
        cmocka_unit_test(answers_that_nobody_keeps_are_dropped_above_their_bound),
        cmocka_unit_test(a_doubt_asks_for_every_kept_warrant_again),
        cmocka_unit_test(verdicts_agree_with_a_model_that_looks_at_every_key),
        cmocka_unit_test(without_memory_a_claim_fails_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
