/* src/base/bytes_test.c */
#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct belfry_bytes s(const char *text)
{
    return belfry_bytes_str(text);
}

static void order_is_that_of_unsigned_bytes(void **state)
{
    (void)state;
    assert_true(belfry_bytes_cmp(s("a"), s("b")) < 0);
    assert_true(belfry_bytes_cmp(s("b"), s("a")) > 0);
    assert_true(belfry_bytes_cmp(s("\x7f"), s("\x80")) < 0);
    assert_int_equal(belfry_bytes_cmp(s("ab"), s("ab")), 0);
}

static void prefix_comes_before_what_it_begins(void **state)
{
    (void)state;
    assert_true(belfry_bytes_cmp(s("a"), s("ab")) < 0);
    assert_true(belfry_bytes_cmp(s("ab"), s("a")) > 0);
    assert_true(belfry_bytes_cmp(belfry_bytes_of("a\0", 2), s("a")) > 0);
    assert_true(belfry_bytes_cmp((struct belfry_bytes){0}, s("a")) < 0);
}

static void zero_bytes_count(void **state)
{
    (void)state;
    assert_false(belfry_bytes_equal(belfry_bytes_of("a\0b", 3), belfry_bytes_of("a\0c", 3)));
    assert_true(belfry_bytes_equal(belfry_bytes_of("a\0b", 3), belfry_bytes_of("a\0b", 3)));
    assert_false(belfry_bytes_equal(belfry_bytes_of("a\0", 2), s("a")));
}

static void nothing_equals_nothing_wherever_it_points(void **state)
{
    (void)state;
    assert_true(belfry_bytes_equal((struct belfry_bytes){0}, s("")));
    assert_int_equal(belfry_bytes_cmp((struct belfry_bytes){0}, s("")), 0);
    assert_true(belfry_bytes_begins(s("a"), (struct belfry_bytes){0}));
    assert_true(belfry_bytes_begins((struct belfry_bytes){0}, s("")));
}

static void beginning_is_compared_whole(void **state)
{
    (void)state;
    assert_true(belfry_bytes_begins(s("/pods/a"), s("/pods/")));
    assert_true(belfry_bytes_begins(s("/pods/"), s("/pods/")));
    assert_false(belfry_bytes_begins(s("/pods"), s("/pods/")));
    assert_false(belfry_bytes_begins(s("/nods/a"), s("/pods/")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_that_of_unsigned_bytes),
        cmocka_unit_test(prefix_comes_before_what_it_begins),
        cmocka_unit_test(zero_bytes_count),
        cmocka_unit_test(nothing_equals_nothing_wherever_it_points),
        cmocka_unit_test(beginning_is_compared_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
