/* bench/belfry-bench/histogram_test.c */
#include "histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct histogram h;

static void small_values_are_exact(void **state)
{
    (void)state;
    histogram_clear(&h);
    for (uint64_t v = 1; v <= 50; v++)
        histogram_add(&h, v);
    assert_int_equal(histogram_percentile(&h, 50), 25);
    assert_int_equal(histogram_percentile(&h, 98), 49);
    assert_int_equal(histogram_percentile(&h, 100), 50);
    assert_int_equal(histogram_percentile(&h, 0), 1);
    assert_int_equal(h.least, 1);
    assert_true(histogram_mean(&h) == 25.5);
}

static void a_percentile_is_never_too_small_and_at_most_one_step_too_large(void **state)
{
    (void)state;
    for (uint64_t v = 1; v < UINT64_MAX / 3; v = v * 3 + 1) {
        histogram_clear(&h);
        histogram_add(&h, v);
        histogram_add(&h, UINT64_MAX);
        uint64_t p = histogram_percentile(&h, 50);
        assert_true(p >= v);
        assert_true(p - v <= v / HISTOGRAM_STEPS);
    }
}

static void the_largest_value_has_a_bucket(void **state)
{
    (void)state;
    histogram_clear(&h);
    histogram_add(&h, UINT64_MAX);
    assert_int_equal(h.buckets[HISTOGRAM_BUCKETS - 1], 1);
    assert_true(histogram_percentile(&h, 50) == UINT64_MAX);
}

static void nothing_added_gives_zeroes(void **state)
{
    (void)state;
    histogram_clear(&h);
    assert_int_equal(histogram_percentile(&h, 99), 0);
    assert_true(histogram_mean(&h) == 0);
}

static void merged_is_as_if_added_to_one(void **state)
{
    (void)state;
    static struct histogram low, high;
    histogram_clear(&low);
    histogram_clear(&high);
    for (uint64_t v = 0; v < 1000; v++)
        histogram_add(v < 500 ? &low : &high, v * 1000);
    histogram_merge(&low, &high);
    assert_int_equal(low.count, 1000);
    assert_int_equal(low.least, 0);
    assert_int_equal(low.largest, 999000);
    assert_in_range(histogram_percentile(&low, 50), 499000, 507000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(a_percentile_is_never_too_small_and_at_most_one_step_too_large),
        cmocka_unit_test(the_largest_value_has_a_bucket),
        cmocka_unit_test(nothing_added_gives_zeroes),
        cmocka_unit_test(merged_is_as_if_added_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
