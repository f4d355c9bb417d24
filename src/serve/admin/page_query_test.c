/* src/serve/admin/page_query_test.c */
#include "serve/admin/page_query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char seen[256];

static enum belfry_err note(const char *name, const char *value, void *user, char *why, size_t why_len)
{
    size_t at = strlen(seen);
    assert_ptr_equal(user, seen);
    snprintf(seen + at, sizeof(seen) - at, "[%s|%s]", name, value);
    snprintf(why, why_len, "%s is wrong", name);
    return strcmp(name, "bad") == 0 ? BELFRY_ERR_INVALID : BELFRY_OK;
}

static enum belfry_err read_query(const void *query, size_t len, char why[64])
{
    seen[0] = '\0';
    return page_query_each(belfry_bytes_of(query, len), note, seen, why, 64);
}

static void parameters_come_one_by_one_and_decoded(void **state)
{
    (void)state;
    char why[64];
    static const char query[] = "a=1&&b=x%20y+z&c&d=&e=1=2&";
    assert_int_equal(read_query(query, strlen(query), why), BELFRY_OK);
    assert_string_equal(seen, "[a|1][b|x y z][c|][d|][e|1=2]");
    assert_int_equal(read_query("", 0, why), BELFRY_OK);
    assert_string_equal(seen, "");
}

static void the_first_that_is_wrong_ends_it(void **state)
{
    (void)state;
    char why[64];
    assert_int_equal(read_query("a=1&bad=2&c=3", 13, why), BELFRY_ERR_INVALID);
    assert_string_equal(seen, "[a|1][bad|2]");
    assert_string_equal(why, "bad is wrong");
}

static void long_parameters_and_zero_bytes_are_wrong(void **state)
{
    (void)state;
    char why[64], longest[PAGE_QUERY_BYTES];
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(read_query(longest, sizeof(longest) - 1, why), BELFRY_OK);
    assert_int_equal(read_query(longest, sizeof(longest), why), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "longer than"));
    assert_int_equal(read_query("a=b\0c", 5, why), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "zero byte"));
}

static void limits_are_numbers_within_their_range(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "0", "-1", "1001", "x", "1x", "+1", " 1", "99999999999999999999"};
    size_t limit = 7;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(page_query_limit(wrong[i], 1000, &limit), BELFRY_ERR_INVALID);
    assert_int_equal(limit, 7);
    assert_int_equal(page_query_limit("1000", 1000, &limit), BELFRY_OK);
    assert_int_equal(limit, 1000);
}

static void words_are_found_by_their_number(void **state)
{
    (void)state;
    static const char *const words[] = {"lag", "sent", NULL};
    assert_int_equal(page_query_word(words, "sent"), 1);
    assert_int_equal(page_query_word(words, "sen"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_come_one_by_one_and_decoded),
        cmocka_unit_test(the_first_that_is_wrong_ends_it),
        cmocka_unit_test(long_parameters_and_zero_bytes_are_wrong),
        cmocka_unit_test(limits_are_numbers_within_their_range),
        cmocka_unit_test(words_are_found_by_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
