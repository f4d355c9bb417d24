/* src/server/work_test.c */
#include "server/work.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define START (1000 * (uint64_t)WORK_MS) /* a window begins */

static void assert_rate(const struct work *work, uint64_t now_ms, double wanted)
{
    struct work_rates rates = work_rates(work, now_ms);
    assert_true(fabs(rates.per_s[WORK_REQUESTS] - wanted) < 1e-6);
}

static void an_even_pace_has_the_same_rate_at_any_time(void **state)
{
    (void)state;
    struct work work = {0};
    for (uint64_t now = START; now < START + 3 * WORK_MS; now += 100) {
        if (now >= START + WORK_MS)
            assert_rate(&work, now, 20);
        work_add(&work, WORK_REQUESTS, 2, now);
    }
}

static void work_that_ended_is_forgotten_after_two_windows(void **state)
{
    (void)state;
    struct work work = {0};
    work_add(&work, WORK_REQUESTS, 1000, START);
    assert_rate(&work, START, 100);
    assert_rate(&work, START + WORK_MS - 1, 100);
    assert_rate(&work, START + WORK_MS + WORK_MS / 2, 50);
    assert_rate(&work, START + 2 * WORK_MS, 0);
    assert_rate(&work, START + 20 * WORK_MS, 0);
    work_add(&work, WORK_REQUESTS, 10, START + 5 * WORK_MS); /* what was before the gap does not count */
    assert_rate(&work, START + 5 * WORK_MS, 1);
}

static void kinds_are_counted_apart(void **state)
{
    (void)state;
    struct work work = {0};
    for (enum work_kind kind = 0; kind < WORK_N; kind++)
        work_add(&work, kind, 10 * ((uint64_t)kind + 1), START);
    struct work_rates rates = work_rates(&work, START);
    for (enum work_kind kind = 0; kind < WORK_N; kind++)
        assert_true(fabs(rates.per_s[kind] - (kind + 1)) < 1e-6);
}

static void every_kind_costs_something(void **state)
{
    (void)state;
    struct work_rates none = {0};
    assert_true(work_cost(&none) == 0);
    for (enum work_kind kind = 0; kind < WORK_N; kind++) {
        struct work_rates rates = {0};
        rates.per_s[kind] = 1;
        double one = work_cost(&rates);
        rates.per_s[kind] = 1000;
        assert_true(one > 0 && fabs(work_cost(&rates) - 1000 * one) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_even_pace_has_the_same_rate_at_any_time),
        cmocka_unit_test(work_that_ended_is_forgotten_after_two_windows),
        cmocka_unit_test(kinds_are_counted_apart),
        cmocka_unit_test(every_kind_costs_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
