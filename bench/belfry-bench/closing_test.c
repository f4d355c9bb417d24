/* bench/belfry-bench/closing_test.c */
#include "closing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static void memory_is_back_when_a_tenth_is_left(void **state)
{
    (void)state;
    assert_false(closing_is_back(100 * MIB, 1100 * MIB, 1100 * MIB));
    assert_false(closing_is_back(100 * MIB, 1100 * MIB, 200 * MIB + 1));
    assert_true(closing_is_back(100 * MIB, 1100 * MIB, 200 * MIB));
    assert_true(closing_is_back(100 * MIB, 1100 * MIB, 50 * MIB));
}

static void little_memory_is_not_waited_for(void **state)
{
    (void)state;
    assert_false(closing_is_back(MIB, 20 * MIB, 9 * MIB + 1));
    assert_true(closing_is_back(MIB, 20 * MIB, 9 * MIB));
}

static void memory_that_was_not_taken_is_back(void **state)
{
    (void)state;
    assert_true(closing_is_back(100, 100, 100));
    assert_true(closing_is_back(100, 90, 100));
    assert_true(closing_is_back(0, 0, 0)); /* no process was named */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_back_when_a_tenth_is_left),
        cmocka_unit_test(little_memory_is_not_waited_for),
        cmocka_unit_test(memory_that_was_not_taken_is_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
