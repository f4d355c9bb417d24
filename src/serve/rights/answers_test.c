/* src/serve/rights/answers_test.c */
#include "serve/rights/answers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/refuse.h"

#define PERIOD 1000
#define WITHIN 400 /* what the table of a tier with that period asks for */

static struct answers *answers;

static void make(void)
{
    assert_int_equal(answers_create(PERIOD, &answers), BELFRY_OK);
}

static int teardown(void **state)
{
    (void)state;
    answers_destroy(answers);
    answers = NULL;
    return refuse_held() == 0 ? 0 : -1;
}

/* A question about n keys, of a table of its own. */
struct asker {
    struct rights *rights;
    struct rights_claim claims[RIGHTS_BATCH];
    size_t n;
    struct rights_question *question;
};

static void ask(struct asker *asker, struct rights_who who, const char *prefix, const char *end, size_t n)
{
    bool granted;
    assert_int_equal(rights_create(&(struct rights_opts){.period_ms = PERIOD, .idle_max = 1 << 20}, &asker->rights),
                     BELFRY_OK);
    asker->n = n;
    for (size_t i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof(key), "%s%zu", prefix, i);
        struct rights_range range = {belfry_bytes_str(key), belfry_bytes_str(end)};
        assert_int_equal(rights_claim(asker->rights, who, range, RIGHTS_ONCE, 5000, &asker->claims[i], &granted),
                         BELFRY_OK);
    }
    asker->question = rights_ask(asker->rights, 5000);
    assert_int_equal(asker->question->n, n);
    assert_int_equal(asker->question->within_ms, WITHIN);
}

static void stop(struct asker *asker)
{
    for (size_t i = 0; i < asker->n; i++)
        rights_release(asker->rights, &asker->claims[i]);
    rights_destroy(asker->rights);
}

static struct rights_who who_is(unsigned kind, const char *secret)
{
    return (struct rights_who){.kind = kind, .secret = belfry_bytes_str(secret)};
}

static bool finds(struct rights_who who, const char *prefix, const char *end, size_t n, uint64_t now,
                  uint64_t *since_ms)
{
    struct asker asker;
    ask(&asker, who, prefix, end, n);
    bool found = answers_find(answers, asker.question, now, since_ms);
    stop(&asker);
    return found;
}

static void keep(struct rights_who who, const char *prefix, const char *end, size_t n, uint64_t since, uint64_t now)
{
    struct asker asker;
    ask(&asker, who, prefix, end, n);
    answers_keep(answers, asker.question, since, now);
    stop(&asker);
}

static void an_answer_is_found_by_the_same_token_and_range_while_it_is_young(void **state)
{
    (void)state;
    make();
    uint64_t since = 0;
    struct rights_who who = who_is(1, "token");
    assert_false(finds(who, "k", "", 3, 5000, &since));
    keep(who, "k", "", 3, 5000, 5010);
    assert_true(finds(who, "k", "", 3, 5010, &since) && since == 5000);
    assert_true(finds(who, "k", "", 2, 5000 + WITHIN - 1, &since) && since == 5000);
    assert_false(finds(who, "k", "", 2, 5000 + WITHIN, &since));
    assert_false(finds(who, "k", "", 4, 5010, &since)); /* one is not known */
    assert_false(finds(who_is(2, "token"), "k", "", 3, 5010, &since));
    assert_false(finds(who_is(1, "toke"), "nk", "", 3, 5010, &since));
    assert_false(finds(who_is(1, "other"), "k", "", 3, 5010, &since));
    assert_false(finds(who, "k", "0", 3, 5010, &since));
    assert_false(finds(who, "", "k", 3, 5010, &since));
}

static void keys_and_ends_do_not_run_together(void **state)
{
    (void)state;
    make();
    uint64_t since;
    keep(who_is(1, "t"), "a", "b", 1, 5000, 5000); /* a0, b */
    assert_true(finds(who_is(1, "t"), "a", "b", 1, 5000, &since));
    assert_false(finds(who_is(1, "t"), "a0b", "", 1, 5000, &since));
    keep(who_is(1, "t"), "x", "", 1, 5000, 5000); /* x0 */
    assert_true(finds(who_is(1, "t"), "x", "", 1, 5000, &since));
    assert_false(finds(who_is(1, "t"), "x", "0", 1, 5000, &since));
}

static void the_newest_answer_counts_and_the_oldest_of_several(void **state)
{
    (void)state;
    make();
    uint64_t since;
    struct rights_who who = who_is(1, "token");
    keep(who, "k", "", 2, 5000, 5000);
    keep(who, "k", "", 1, 5200, 5200);
    keep(who, "k", "", 1, 5100, 5210); /* it was asked before, and comes later */
    assert_true(finds(who, "k", "", 1, 5300, &since) && since == 5200);
    assert_true(finds(who, "k", "", 2, 5300, &since) && since == 5000);
    assert_int_equal(answers_count(answers), 2);
}

static void answers_go_after_a_period_and_are_bounded(void **state)
{
    (void)state;
    make();
    uint64_t since;
    char token[32];
    keep(who_is(1, "first"), "k", "", RIGHTS_BATCH, 5000, 5000);
    keep(who_is(1, "token"), "k", "", 1, 5000 + PERIOD, 5000 + PERIOD);
    assert_int_equal(answers_count(answers), 1);
    for (size_t i = 0; i <= ANSWERS_MAX / RIGHTS_BATCH; i++) {
        snprintf(token, sizeof(token), "t%zu", i);
        keep(who_is(1, token), "k", "", RIGHTS_BATCH, 7000, 7000);
    }
    assert_int_equal(answers_count(answers), ANSWERS_MAX);
    assert_false(finds(who_is(1, "t0"), "k", "", RIGHTS_BATCH, 7000, &since));
    assert_true(finds(who_is(1, token), "k", "", RIGHTS_BATCH, 7000, &since));
}

static void without_memory_nothing_is_kept_and_nothing_lost(void **state)
{
    (void)state;
    struct asker asker;
    ask(&asker, who_is(1, "token"), "k", "l", 2);
    uint64_t since;
    bool refused = true;
    for (size_t n = 0; refused; n++) {
        size_t held = refuse_held();
        refuse_begin(n);
        enum belfry_err err = answers_create(PERIOD, &answers);
        if (err == BELFRY_OK) {
            answers_keep(answers, asker.question, 5000, 5000);
            bool found = answers_find(answers, asker.question, 5000, &since);
            assert_true(!found || answers_count(answers) == 2);
        }
        refused = refuse_end();
        assert_true(refused || err == BELFRY_OK);
        if (err == BELFRY_OK)
            answers_destroy(answers);
        answers = NULL;
        assert_int_equal(refuse_held(), held);
    }
    stop(&asker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_answer_is_found_by_the_same_token_and_range_while_it_is_young, teardown),
        cmocka_unit_test_teardown(keys_and_ends_do_not_run_together, teardown),
        cmocka_unit_test_teardown(the_newest_answer_counts_and_the_oldest_of_several, teardown),
        cmocka_unit_test_teardown(answers_go_after_a_period_and_are_bounded, teardown),
        cmocka_unit_test_teardown(without_memory_nothing_is_kept_and_nothing_lost, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
