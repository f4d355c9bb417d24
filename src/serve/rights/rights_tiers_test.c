/* src/serve/rights/rights_tiers_test.c: a tree of tables that ask one another, as tiers do (rights_claim_below()),
 * under a model of etcd, with a clock of their own.
 *
 *   BELFRY_SEED=N build/release/bin/tests/rights_tiers_test
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
#include "support/refuse.h"

#define PERIOD  10000
#define HOP_MS  3 /* that each hop takes, there and back */
#define WATCHES 3

static uint64_t now;
static struct belfry_rng rng;

/* ---- etcd ---- */

static struct {
    bool revoked, away;
    uint64_t takes_ms; /* to answer */
    size_t n_calls, n_ranges;
    uint64_t last_ms;
    uint64_t closest_ms; /* the smallest time between two calls */
} etcd;

static enum rights_answer etcd_judge(const struct rights_question *question)
{
    if (etcd.away)
        return RIGHTS_UNREACHABLE;
    if (etcd.n_calls > 0 && now - etcd.last_ms < etcd.closest_ms)
        etcd.closest_ms = now - etcd.last_ms;
    etcd.last_ms = now;
    etcd.n_calls++;
    etcd.n_ranges += question->n;
    now += etcd.takes_ms;
    return etcd.revoked ? RIGHTS_FORBIDDEN : RIGHTS_ALLOWED;
}

/* ---- tiers ---- */

struct level {
    struct rights *rights;
    struct level *above; /* NULL: etcd */
    uint64_t period_ms;
    struct rights_party party;
    struct rights_claim watches[WATCHES];
    size_t n_watches;
    size_t pauses, denied;
};

static const struct rights_who who = {.kind = 1, .secret = {"token", 5}};

static struct level *level_create(struct level *above, uint64_t period_ms)
{
    struct level *level = test_calloc(1, sizeof(*level));
    struct rights_opts opts = {.period_ms = period_ms, .seed = belfry_rng_next(&rng), .idle_max = 1 << 24};
    level->above = above;
    level->period_ms = period_ms;
    assert_int_equal(rights_create(&opts, &level->rights), BELFRY_OK);
    return level;
}

static void level_serve(struct level *level);

static enum rights_answer answer_of(enum rights_verdict verdict)
{
    switch (verdict) {
    case RIGHTS_GRANTED:
        return RIGHTS_ALLOWED;
    case RIGHTS_DENIED:
        return RIGHTS_FORBIDDEN;
    case RIGHTS_BAD_TOKEN:
        return RIGHTS_NO_SUCH_TOKEN;
    case RIGHTS_OLD_TOKEN:
        return RIGHTS_TOKEN_IS_OLD;
    case RIGHTS_SILENT:
    case RIGHTS_UNAVAILABLE:
        break;
    }
    return RIGHTS_UNREACHABLE;
}

/* What inquiry.c does, with permit. */
static enum rights_answer level_inquire(struct level *level, const struct rights_question *question, uint64_t *age_ms)
{
    struct rights_claim claims[RIGHTS_BATCH];
    size_t n = 0;
    enum rights_use use = question->n > 1 ? RIGHTS_BELOW_PART : RIGHTS_BELOW;
    uint64_t since_ms = BELFRY_NEVER, asked_ms = now;
    enum rights_answer answer = RIGHTS_ALLOWED;
    for (const struct rights_range *range = NULL; (range = rights_question_range(question, range)) != NULL; n++) {
        bool granted;
        assert_int_equal(
            rights_claim_below(level->rights, who, *range, use, question->within_ms, now, &claims[n], &granted),
            BELFRY_OK);
        claims[n].verdict = granted ? RIGHTS_GRANTED : RIGHTS_UNAVAILABLE;
    }
    level_serve(level);
    for (size_t i = 0; i < n; i++) {
        if (claims[i].verdict != RIGHTS_GRANTED)
            answer = answer_of(claims[i].verdict);
        since_ms = belfry_min_time(since_ms, claims[i].since_ms);
        rights_release(level->rights, &claims[i]);
    }
    *age_ms = answer == RIGHTS_ALLOWED && since_ms < asked_ms ? asked_ms - since_ms + 1 : 0;
    return answer;
}

/* Asks what is to be asked, and waits for the answers. */
static void level_serve(struct level *level)
{
    enum rights_event event;
    struct rights_question *question;
    rights_turn(level->rights, now);
    while ((question = rights_ask(level->rights, now)) != NULL) {
        uint64_t age_ms = 0;
        now += HOP_MS;
        enum rights_answer answer =
            level->above == NULL ? etcd_judge(question) : level_inquire(level->above, question, &age_ms);
        now += HOP_MS;
        rights_answer(level->rights, question, answer, age_ms, now);
    }
    while (rights_news(level->rights, &event) != NULL)
        level->pauses += event == RIGHTS_PAUSED;
    for (struct rights_claim *claim; (claim = rights_settled(level->rights)) != NULL;)
        level->denied += claim->use == RIGHTS_KEPT && claim->verdict == RIGHTS_DENIED;
}

static void level_watch(struct level *level, const char *key)
{
    bool granted;
    struct rights_claim *claim = &level->watches[level->n_watches++];
    assert_int_equal(rights_claim(level->rights, who, rights_range_of(belfry_bytes_str(key), belfry_bytes_str("")),
                                  RIGHTS_KEPT, now, claim, &granted),
                     BELFRY_OK);
    level_serve(level);
    assert_false(claim->waits);
    assert_non_null(claim->warrant);
    rights_join(level->rights, claim, &level->party);
}

static void level_destroy(struct level *level)
{
    for (size_t i = 0; i < level->n_watches; i++)
        rights_release(level->rights, &level->watches[i]);
    rights_leave(level->rights, &level->party);
    rights_destroy(level->rights);
    test_free(level);
}

/* ---- a tree of them ---- */

#define LEVELS 12

static struct level *tree[LEVELS];
static size_t n_levels;

static struct level *grow(struct level *above, uint64_t period_ms)
{
    assert_true(n_levels < LEVELS);
    return tree[n_levels++] = level_create(above, period_ms);
}

static void plant(void)
{
    const char *given = getenv("BELFRY_SEED");
    rng.state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) ^ belfry_clock_ns();
    print_message("BELFRY_SEED=%llu\n", (unsigned long long)rng.state);
    memset(&etcd, 0, sizeof(etcd));
    etcd.closest_ms = BELFRY_NEVER;
    now = 1000000;
    n_levels = 0;
}

static void fell(void)
{
    while (n_levels > 0)
        level_destroy(tree[--n_levels]);
}

static uint64_t next_due(void)
{
    uint64_t due = BELFRY_NEVER;
    for (size_t i = 0; i < n_levels; i++)
        due = belfry_min_time(due, rights_due(tree[i]->rights));
    return due;
}

/* Leaves first, as their questions come to the tiers above. */
static void serve_all(void)
{
    for (size_t i = n_levels; i-- > 0;)
        level_serve(tree[i]);
}

static void pass(uint64_t until)
{
    while (now < until) {
        uint64_t due = next_due();
        if (due > now)
            now = due < until ? due : until;
        serve_all();
    }
}

static bool may(const struct level *level)
{
    return rights_party_may(&level->party, now);
}

/* etcd, A, two Bs, four Cs: everyone watches one range of all, and some of its own. */
static void plant_three_levels(void)
{
    plant();
    struct level *a = grow(NULL, PERIOD);
    struct level *b[] = {grow(a, PERIOD), grow(a, PERIOD)};
    for (int i = 0; i < 4; i++)
        grow(b[i / 2], PERIOD);
    for (size_t i = 0; i < n_levels; i++) {
        char key[32];
        snprintf(key, sizeof(key), "own%zu", i);
        level_watch(tree[i], "all");
        pass(now + belfry_rng_below(&rng, 1000));
        level_watch(tree[i], key);
    }
}

static size_t pauses(void)
{
    size_t n = 0;
    for (size_t i = 0; i < n_levels; i++)
        n += tree[i]->pauses;
    return n;
}

/* ---- tests ---- */

static void three_healthy_levels_never_pause_and_cost_etcd_at_most_three_calls_per_period(void **state)
{
    (void)state;
    plant_three_levels();
    pass(now + 2 * PERIOD); /* until all renew together */
    const size_t periods = 200;
    size_t before = etcd.n_calls;
    etcd.closest_ms = BELFRY_NEVER;
    uint64_t end = now + periods * PERIOD;
    while (now < end) {
        pass(now + 50);
        for (size_t i = 0; i < n_levels; i++)
            assert_true(may(tree[i]));
    }
    assert_int_equal(pauses(), 0);
    print_message("%.2f calls per period, at least %llu ms apart\n", (double)(etcd.n_calls - before) / (double)periods,
                  (unsigned long long)etcd.closest_ms);
    assert_true(etcd.n_calls - before <= 3 * periods);
    fell();
}

static void a_revocation_ends_every_level_within_one_period(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        plant_three_levels();
        pass(now + 2 * PERIOD + belfry_rng_below(&rng, PERIOD));
        etcd.revoked = true;
        uint64_t revoked = now, last = now;
        while (now < revoked + 3 * PERIOD) {
            for (size_t j = 0; j < n_levels; j++) {
                if (may(tree[j]) && tree[j]->denied < tree[j]->n_watches)
                    last = now;
            }
            pass(now + 20);
        }
        assert_true(last - revoked <= PERIOD);
        for (size_t j = 0; j < n_levels; j++)
            assert_int_equal(tree[j]->denied, tree[j]->n_watches);
        fell();
    }
}

static void each_tier_keeps_its_own_period(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        plant();
        struct level *a = grow(NULL, 60000);
        struct level *b = grow(a, PERIOD);
        struct level *c = grow(b, 2000);
        for (size_t j = 0; j < n_levels; j++)
            level_watch(tree[j], "all");
        pass(now + 20 * PERIOD + belfry_rng_below(&rng, PERIOD));
        assert_int_equal(pauses(), 0);
        assert_true(may(a) && may(b) && may(c));
        etcd.away = true; /* nothing is renewed, so only the ages count */
        uint64_t away = now;
        pass(away + 2000);
        assert_false(may(c));
        pass(away + PERIOD);
        assert_false(may(b));
        pass(away + 60000);
        assert_false(may(a));
        etcd.away = false;
        pass(now + PERIOD);
        assert_true(may(a) && may(b) && may(c));
        fell();
    }
}

static void a_longer_period_below_gains_nothing(void **state)
{
    (void)state;
    plant();
    struct level *a = grow(NULL, 2000);
    struct level *b = grow(a, 60000);
    level_watch(a, "all");
    level_watch(b, "all");
    pass(now + 300000);
    assert_int_equal(pauses(), 0);
    fell();
}

static void an_answer_that_is_old_is_asked_for_again_for_a_tier_below(void **state)
{
    (void)state;
    plant();
    struct level *a = grow(NULL, PERIOD), *b = grow(a, PERIOD), *c = grow(a, PERIOD);
    level_watch(b, "all");
    assert_int_equal(etcd.n_calls, 1);
    uint64_t asked = now;
    now = asked + PERIOD * 39 / 100; /* no turn of b or c: only the answer grows old */
    level_watch(c, "all");
    assert_int_equal(etcd.n_calls, 1);
    assert_true(rights_party_may(&c->party, asked + PERIOD - 4 * HOP_MS - 2));
    assert_false(rights_party_may(&c->party, asked + PERIOD));
    now = asked + PERIOD * 41 / 100;
    struct level *d = grow(a, PERIOD);
    level_watch(d, "all");
    assert_int_equal(etcd.n_calls, 2);
    assert_true(rights_party_may(&d->party, asked + PERIOD * 140 / 100));
    fell();
}

static void an_older_answer_is_given_when_upstream_does_not_answer(void **state)
{
    (void)state;
    plant();
    struct level *a = grow(NULL, PERIOD), *b = grow(a, PERIOD), *c = grow(a, PERIOD);
    level_watch(b, "all");
    uint64_t asked = now;
    now = asked + PERIOD * 60 / 100;
    etcd.away = true;
    level_watch(c, "all");
    assert_true(may(c));
    assert_false(rights_party_may(&c->party, asked + PERIOD));
    fell();
}

/* A tier below asks about many ranges that are all forbidden: that costs upstream one question, and no halves. */
static void a_question_from_below_costs_upstream_one(void **state)
{
    (void)state;
    plant();
    struct level *a = grow(NULL, PERIOD);
    struct rights_claim claims[RIGHTS_BATCH];
    bool granted;
    etcd.revoked = true;
    for (size_t i = 0; i < RIGHTS_BATCH; i++) {
        char key[32];
        snprintf(key, sizeof(key), "k%zu", i);
        struct rights_range range = rights_range_of(belfry_bytes_str(key), belfry_bytes_str(""));
        assert_int_equal(
            rights_claim_below(a->rights, who, range, RIGHTS_BELOW_PART, PERIOD, now, &claims[i], &granted), BELFRY_OK);
        assert_false(granted);
    }
    level_serve(a);
    assert_int_equal(etcd.n_calls, 1);
    for (size_t i = 0; i < RIGHTS_BATCH; i++)
        assert_int_equal(claims[i].verdict, RIGHTS_DENIED);
    pass(now + 3 * PERIOD);
    assert_int_equal(etcd.n_calls, 1);
    struct rights_stats stats;
    rights_stats(a->rights, &stats);
    assert_true(stats.bearers == 0 && stats.warrants == 0 && stats.bytes == 0);
    fell();
}

/* Alone, a range that was asked for with forbidden ones receives its own answer. */
static void a_single_range_from_below_is_never_denied_for_another(void **state)
{
    (void)state;
    plant();
    struct level *a = grow(NULL, PERIOD);
    struct rights_claim part, alone;
    bool granted;
    struct rights_range bad = rights_range_of(belfry_bytes_str("bad"), belfry_bytes_str("")),
                        good = rights_range_of(belfry_bytes_str("good"), belfry_bytes_str(""));
    assert_int_equal(rights_claim_below(a->rights, who, bad, RIGHTS_BELOW_PART, PERIOD, now, &part, &granted),
                     BELFRY_OK);
    assert_int_equal(rights_claim_below(a->rights, who, good, RIGHTS_BELOW, PERIOD, now, &alone, &granted), BELFRY_OK);
    struct rights_question *question = rights_ask(a->rights, now);
    assert_int_equal(question->n, 2);
    rights_answer(a->rights, question, RIGHTS_FORBIDDEN, 0, now);
    assert_ptr_equal(rights_settled(a->rights), &part);
    assert_null(rights_settled(a->rights));
    question = rights_ask(a->rights, now);
    assert_int_equal(question->n, 1);
    rights_answer(a->rights, question, RIGHTS_ALLOWED, 0, now);
    assert_ptr_equal(rights_settled(a->rights), &alone);
    assert_int_equal(alone.verdict, RIGHTS_GRANTED);
    fell();
}

static void what_a_tier_below_allows_goes_up_with_the_question(void **state)
{
    (void)state;
    plant();
    struct level *a = grow(NULL, PERIOD);
    struct rights_claim claims[2];
    bool granted;
    struct rights_range range = rights_range_of(belfry_bytes_str("k"), belfry_bytes_str(""));
    assert_int_equal(rights_claim_below(a->rights, who, range, RIGHTS_BELOW, 99999, now, &claims[0], &granted),
                     BELFRY_OK);
    assert_int_equal(rights_claim_below(a->rights, who, range, RIGHTS_BELOW, 700, now, &claims[1], &granted),
                     BELFRY_OK);
    struct rights_question *question = rights_ask(a->rights, now);
    assert_int_equal(question->within_ms, 700);
    rights_answer(a->rights, question, RIGHTS_ALLOWED, 600, now);
    assert_int_equal(claims[0].since_ms, now - 600);
    now += 101;
    assert_int_equal(rights_claim_below(a->rights, who, range, RIGHTS_BELOW, 700, now, &claims[1], &granted),
                     BELFRY_OK);
    assert_false(granted);
    assert_int_equal(rights_claim_below(a->rights, who, range, RIGHTS_BELOW, 701, now, &claims[0], &granted),
                     BELFRY_OK);
    assert_true(granted);
    question = rights_ask(a->rights, now);
    assert_true(!question->is_first && question->n == 1); /* there is an answer: it is renewed */
    rights_answer(a->rights, question, RIGHTS_ALLOWED, 0, now);
    fell();
}

static void the_time_that_etcd_takes_counts_once(void **state)
{
    (void)state;
    plant();
    struct level *c = grow(grow(grow(NULL, PERIOD), PERIOD), PERIOD);
    etcd.takes_ms = PERIOD * 4 / 10;
    uint64_t began = now;
    level_watch(c, "all");
    assert_true(rights_party_may(&c->party, began + PERIOD - 1));
    assert_false(rights_party_may(&c->party, began + PERIOD + 3 * HOP_MS));
    fell();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_healthy_levels_never_pause_and_cost_etcd_at_most_three_calls_per_period),
        cmocka_unit_test(a_revocation_ends_every_level_within_one_period),
        cmocka_unit_test(each_tier_keeps_its_own_period),
        cmocka_unit_test(a_longer_period_below_gains_nothing),
        cmocka_unit_test(an_answer_that_is_old_is_asked_for_again_for_a_tier_below),
        cmocka_unit_test(the_time_that_etcd_takes_counts_once),
        cmocka_unit_test(an_older_answer_is_given_when_upstream_does_not_answer),
        cmocka_unit_test(a_question_from_below_costs_upstream_one),
        cmocka_unit_test(a_single_range_from_below_is_never_denied_for_another),
        cmocka_unit_test(what_a_tier_below_allows_goes_up_with_the_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
