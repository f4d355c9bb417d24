/* src/kapi/warning_test.c */
#include "kapi/warning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

/* All warnings of a field, as "code text|code text". */
static const char *all(const char *value)
{
    static char out[2 * BELFRY_WARNING_TEXT];
    struct belfry_bytes field = belfry_bytes_str(value);
    struct belfry_warning warning;
    size_t at = 0;
    out[0] = '\0';
    while (belfry_warning_next(&field, &warning))
        at += (size_t)snprintf(out + at, sizeof(out) - at, "%s%d %s", at > 0 ? "|" : "", warning.code, warning.text);
    return out;
}

static void a_warning_is_its_code_and_text(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"299 - \"v1 is old\"", "299 v1 is old"},
        {"299 - \"a\", 299 - \"b\"", "299 a|299 b"},
        {"299 host:443 \"a\" \"Wed, 21 Oct 2026 07:28:00 GMT\",199 - \"b\"", "299 a|199 b"},
        {"299 - \"say \\\"x\\\" and \\\\\"", "299 say \"x\" and \\"},
        {" ,, 299 - \"a\" , ", "299 a"},
        {"299 - \"\"", "299 "},
        {"299 - \"a\x1b[31m\tb\"", "299 a?[31m b"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(all(rows[i][0]), rows[i][1]);
}

static void what_is_no_warning_is_left_out(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",      " ",      ",",       "29",        "2x9 - \"a\"", "299",        "299 ",
        "299 -", "299 - ", "299 - a", "299 - \"a", "299 - \"a\\", "299  \"a\"", "299 - \"a\" \"b"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(all(rows[i]), "");
    assert_string_equal(all("299 - \"a\", nonsense"), "299 a");
}

static void a_long_text_is_cut(void **state)
{
    (void)state;
    char value[2 * BELFRY_WARNING_TEXT];
    memset(value, 'x', sizeof(value));
    memcpy(value, "299 - \"", 7);
    memcpy(value + sizeof(value) - 2, "\"", 2);
    struct belfry_bytes field = belfry_bytes_str(value);
    struct belfry_warning warning;
    assert_true(belfry_warning_next(&field, &warning));
    assert_int_equal(strlen(warning.text), BELFRY_WARNING_TEXT - 1);
    assert_string_equal(warning.text + BELFRY_WARNING_TEXT - 4, "...");
    assert_false(belfry_warning_next(&field, &warning));
}

static void each_text_is_told_once_up_to_a_bound(void **state)
{
    (void)state;
    struct belfry_warnings warnings = {.n = 0};
    char text[32];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < BELFRY_WARNINGS_MAX; i++) {
            snprintf(text, sizeof(text), "warning %zu", i);
            assert_int_equal(belfry_warnings_add(&warnings, text), round == 0);
        }
    }
    assert_false(belfry_warnings_add(&warnings, "one more"));
    assert_int_equal(refuse_held(), 0); /* whatever a server says */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_warning_is_its_code_and_text),
        cmocka_unit_test(what_is_no_warning_is_left_out),
        cmocka_unit_test(a_long_text_is_cut),
        cmocka_unit_test(each_text_is_told_once_up_to_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
