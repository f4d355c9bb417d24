/* src/cli/out/quoted_test.c */
#include "cli/out/quoted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static char line[256], *at, *text;

static enum belfry_err read_quoted(const char *input)
{
    snprintf(line, sizeof(line), "%s", input);
    at = line;
    return quoted_read(&at, &text);
}

static void a_string_is_what_stands_between_quotes(void **state)
{
    (void)state;
    assert_int_equal(read_quoted("\"a b'c\" rest"), BELFRY_OK);
    assert_string_equal(text, "a b'c");
    assert_string_equal(at, " rest");
    assert_int_equal(read_quoted("\"\""), BELFRY_OK);
    assert_string_equal(text, "");
    assert_string_equal(at, "");
    assert_int_equal(read_quoted("`a\\n\"b`x"), BELFRY_OK);
    assert_string_equal(text, "a\\n\"b");
    assert_string_equal(at, "x");
}

static void escapes_are_gos(void **state)
{
    static const char *const pairs[][2] = {
        {"\"\\a\\b\\f\\n\\r\\t\\v\\\\\\\"\"", "\a\b\f\n\r\t\v\\\""},
        {"\"\\x41\\xff\\101\\377\"", "A\xff"
                                     "A\xff"},
        {"\"\\u00e9\\u20ac\\U0001f600\\u0041\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"
                                                 "A"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_int_equal(read_quoted(pairs[i][0]), BELFRY_OK);
        assert_string_equal(text, pairs[i][1]);
        assert_string_equal(at, "");
    }
}

static void what_is_no_string_is_refused(void **state)
{
    static const char *const bad[] = {"",          "abc",         "'abc'",       "\"abc",           "`abc",
                                      "\"abc\\\"", "\"\\",        "\"\\q\"",     "\"\\'\"",         "\"\\x4\"",
                                      "\"\\xg0\"", "\"\\x00\"",   "\"\\000\"",   "\"\\400\"",       "\"\\08a\"",
                                      "\"\\u12\"", "\"\\u0000\"", "\"\\ud800\"", "\"\\U00110000\"", "\"\\x",
                                      "\"\\u00"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(read_quoted(bad[i]), BELFRY_ERR_INVALID);
}

static enum belfry_err scenario(void)
{
    return read_quoted("\"\\u00e9\"");
}

static void reading_allocates_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_is_what_stands_between_quotes),
        cmocka_unit_test(escapes_are_gos),
        cmocka_unit_test(what_is_no_string_is_refused),
        cmocka_unit_test(reading_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
