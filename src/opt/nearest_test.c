/* src/opt/nearest_test.c */
#include "opt/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void distance_counts_a_swap_as_one(void **state)
{
    (void)state;
    assert_int_equal(belfry_nearest_distance("watch", "watch"), 0);
    assert_int_equal(belfry_nearest_distance("wacth", "watch"), 1);
    assert_int_equal(belfry_nearest_distance("prefx", "prefix"), 1);
    assert_int_equal(belfry_nearest_distance("", "abc"), 3);
    assert_int_equal(belfry_nearest_distance("kitten", "sitting"), 3);
    char word[100] = "";
    memset(word, 'a', sizeof(word) - 1);
    assert_int_equal(belfry_nearest_distance(word, "a"), BELFRY_NEAREST_MAX + 1);
}

static void only_what_is_near_is_suggested_and_the_nearest_of_it(void **state)
{
    (void)state;
    const char *best = NULL;
    belfry_nearest_consider("x", "name", &best);
    assert_null(best);
    belfry_nearest_consider("x", "y", &best); /* nothing of it is alike */
    assert_null(best);
    belfry_nearest_consider("listne", "list", &best);
    assert_string_equal(best, "list");
    belfry_nearest_consider("listne", "listen", &best);
    assert_string_equal(best, "listen");
    belfry_nearest_consider("listne", "lists", &best);
    assert_string_equal(best, "listen");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_counts_a_swap_as_one),
        cmocka_unit_test(only_what_is_near_is_suggested_and_the_nearest_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
