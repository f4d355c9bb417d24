/* bench/belfry-bench/report_test.c */
#include "report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *printed(const struct report *report, enum report_form form)
{
    static char text[1024];
    memset(text, 0, sizeof(text));
    FILE *out = fmemopen(text, sizeof(text) - 1, "w");
    assert_non_null(out);
    report_print(report, form, out);
    fclose(out);
    return text;
}

static void json_is_one_object_with_quoted_texts(void **state)
{
    (void)state;
    struct report report = {0};
    report_text(&report, "mode", "a \"b\"\\\n");
    report_number(&report, "deliveries", 200000);
    report_number(&report, "cpu_us", 4.126);
    report_number(&report, "share", 0.01234);
    assert_string_equal(printed(&report, REPORT_JSON), "{\"mode\":\"a \\\"b\\\"\\\\\\u000a\",\"deliveries\":200000,"
                                                       "\"cpu_us\":4.13,\"share\":0.0123}\n");
}

static void what_is_not_a_number_is_zero(void **state)
{
    (void)state;
    struct report report = {0};
    double none = 0;
    report_number(&report, "ratio", 1 / none);
    report_number(&report, "other", none / none);
    assert_string_equal(printed(&report, REPORT_JSON), "{\"ratio\":0,\"other\":0}\n");
}

static void a_line_has_name_and_value(void **state)
{
    (void)state;
    struct report report = {0};
    report_number(&report, "lost", 0);
    assert_string_equal(printed(&report, REPORT_TABLE), "lost                               0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_one_object_with_quoted_texts),
        cmocka_unit_test(what_is_not_a_number_is_zero),
        cmocka_unit_test(a_line_has_name_and_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
