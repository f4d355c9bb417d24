/* bench/belfry-bench/bound_test.c */
#include "bound.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void what_is_not_set_bounds_nothing(void **state)
{
    (void)state;
    const struct bound none = {0};
    assert_false(bound_is_set(&none));
    assert_int_equal(bound_check(&none, 0, UINT64_MAX), BOUND_NONE);
    assert_string_equal(bound_name(BOUND_NONE), "");
}

static void memory_below_the_floor_is_hit(void **state)
{
    (void)state;
    const struct bound bound = {.memory_floor = 1000};
    assert_true(bound_is_set(&bound));
    assert_int_equal(bound_check(&bound, 1000, UINT64_MAX), BOUND_NONE);
    assert_int_equal(bound_check(&bound, 999, 0), BOUND_MEMORY);
    assert_string_equal(bound_name(BOUND_MEMORY), "memory");
}

static void time_is_hit_when_it_has_come(void **state)
{
    (void)state;
    const struct bound bound = {.until_ns = 50};
    assert_true(bound_is_set(&bound));
    assert_int_equal(bound_check(&bound, 0, 49), BOUND_NONE);
    assert_int_equal(bound_check(&bound, 0, 50), BOUND_TIME);
    assert_string_equal(bound_name(BOUND_TIME), "time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_set_bounds_nothing),
        cmocka_unit_test(memory_below_the_floor_is_hit),
        cmocka_unit_test(time_is_hit_when_it_has_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
