/* src/judge/judge_recency_test.c */
#include "judge/judge_recency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/refuse.h"

static struct judge_recency_result judged(const struct judge_answer *answers, size_t n)
{
    struct judge_recency_result result;
    assert_int_equal(judge_recency(answers, n, &result), BELFRY_OK);
    return result;
}

static void an_older_revision_after_a_newer_answer_is_stale(void **state)
{
    (void)state;
    const struct judge_answer answers[] = {{10, 20, 7, false}, {21, 30, 6, false}, {40, 50, 7, false}};
    struct judge_recency_result result = judged(answers, 3);
    assert_int_equal(result.n_stale, 1);
    assert_int_equal(result.stale, 1);
    assert_int_equal(result.newer, 0);
}

static void a_write_after_an_answer_has_a_newer_revision(void **state)
{
    (void)state;
    const struct judge_answer answers[] = {{10, 20, 7, false}, {21, 30, 7, true}};
    struct judge_recency_result result = judged(answers, 2);
    assert_int_equal(result.n_stale, 1);
    assert_int_equal(result.stale, 1);
}

static void an_older_revision_beside_a_newer_answer_is_not(void **state)
{
    (void)state;
    const struct judge_answer answers[] = {{10, 20, 7, false}, {20, 30, 6, false}, {15, 16, 5, true}};
    assert_int_equal(judged(answers, 3).n_stale, 0);
    assert_int_equal(judged(NULL, 0).n_stale, 0);
}

/* Against the definition, with times that often coincide. */
static void random_answers_are_judged_by_the_definition(void **state)
{
    (void)state;
    enum { N = 40 };
    uint64_t seed = (uint64_t)time(NULL);
    struct belfry_rng rng = {seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 500; round++) {
        struct judge_answer answers[N];
        size_t n_stale = 0;
        for (size_t i = 0; i < N; i++) {
            int64_t call = (int64_t)belfry_rng_below(&rng, 100), end = call + (int64_t)belfry_rng_below(&rng, 8);
            answers[i] = (struct judge_answer){call, end, end / 4 + (int64_t)belfry_rng_below(&rng, 2),
                                               belfry_rng_below(&rng, 4) == 0};
        }
        for (size_t i = 0; i < N; i++) {
            bool is_stale = false;
            for (size_t k = 0; k < N; k++)
                is_stale |=
                    answers[k].end_ns < answers[i].call_ns && answers[k].rev + answers[i].changed > answers[i].rev;
            n_stale += is_stale;
        }
        struct judge_recency_result result = judged(answers, N);
        assert_int_equal(result.n_stale, n_stale);
        if (n_stale > 0) {
            assert_true(answers[result.newer].end_ns < answers[result.stale].call_ns);
            assert_true(answers[result.newer].rev + answers[result.stale].changed > answers[result.stale].rev);
        }
    }
}

static enum belfry_err scenario(void)
{
    const struct judge_answer answers[] = {{10, 20, 7, false}, {21, 30, 6, false}};
    struct judge_recency_result result;
    return judge_recency(answers, 2, &result);
}

static void without_memory_nothing_is_judged(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_revision_after_a_newer_answer_is_stale),
        cmocka_unit_test(a_write_after_an_answer_has_a_newer_revision),
        cmocka_unit_test(an_older_revision_beside_a_newer_answer_is_not),
        cmocka_unit_test(random_answers_are_judged_by_the_definition),
        cmocka_unit_test(without_memory_nothing_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
