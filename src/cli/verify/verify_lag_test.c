/* src/cli/verify/verify_lag_test.c */
#include "cli/verify/verify_lag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void percentiles_are_near_those_of_the_samples(void **state)
{
    (void)state;
    static struct verify_lag lag;
    for (int64_t us = 1; us <= 100000; us++)
        verify_lag_add(&lag, us, 1);
    assert_int_equal(lag.n, 100000);
    assert_int_equal(lag.max_us, 100000);
    assert_in_range(verify_lag_at(&lag, 0.5), 50000, 53200);
    assert_in_range(verify_lag_at(&lag, 0.99), 99000, 100000);
    assert_int_equal(verify_lag_at(&lag, 1), 100000);
}

static void negative_samples_count_as_none_and_are_counted(void **state)
{
    (void)state;
    static struct verify_lag lag;
    verify_lag_add(&lag, -5, 3);
    assert_int_equal(verify_lag_at(&lag, 1), 0);
    verify_lag_add(&lag, 7, 1);
    assert_int_equal(lag.n, 4);
    assert_int_equal(lag.n_early, 3);
    assert_int_equal(verify_lag_at(&lag, 0.5), 0);
    assert_int_equal(verify_lag_at(&lag, 0.99), 7);
}

static void nothing_has_no_lag_and_the_largest_fits(void **state)
{
    (void)state;
    static struct verify_lag lag;
    assert_int_equal(verify_lag_at(&lag, 0.5), 0);
    verify_lag_add(&lag, INT64_MAX, 1);
    assert_true(verify_lag_at(&lag, 0.5) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_near_those_of_the_samples),
        cmocka_unit_test(negative_samples_count_as_none_and_are_counted),
        cmocka_unit_test(nothing_has_no_lag_and_the_largest_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
