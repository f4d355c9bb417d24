/* src/cli/verify/verify_report_test.c */
#include "cli/verify/verify_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

static char text[65536];
static struct verify_report report;
static struct verify_numbers numbers;
static struct verify_standing standing;

static int begin(void **state)
{
    (void)state;
    memset(text, 0, sizeof(text));
    numbers = (struct verify_numbers){.n_revisions = 12, .n_events = 34, .n_prev_same = 5, .n_progress = 6};
    standing = (struct verify_standing){
        .numbers = &numbers, .range = "all keys", .elapsed_us = 3723 * SECOND_US, .first_rev = 7, .rev = 19};
    standing.n_watchers = 8;
    standing.n_caught_up = 3;
    report = (struct verify_report){.out = fmemopen(text, sizeof(text), "w"), .form = FORM_TABLE};
    return report.out == NULL;
}

static int end(void **state)
{
    (void)state;
    return fclose(report.out);
}

static const char *written(void)
{
    fflush(report.out);
    return text;
}

static void blame(unsigned n)
{
    struct judge_violation violation = {.property = JUDGE_RELIABLE,
                                        .watcher = 2,
                                        .rev = 17,
                                        .key = {"/a\n\"", 4},
                                        .expected = "put \"/a\"",
                                        .came = "nothing"};
    for (unsigned i = 0; i < n; i++)
        verify_report_violation(&report, &violation, "prefix \"/a\" from revision 3");
}

static void a_violation_is_told_in_full_when_it_is_found(void **state)
{
    (void)state;
    blame(1);
    assert_string_equal(written(), "VIOLATION reliable: an event that was left out, or one that never happened\n"
                                   "  watcher   2: prefix \"/a\" from revision 3\n"
                                   "  revision  17\n"
                                   "  key       \"/a\\x0a\\x22\"\n"
                                   "  expected  put \"/a\"\n"
                                   "  came      nothing\n");
}

static void only_the_first_are_told_and_all_are_counted(void **state)
{
    (void)state;
    blame(VERIFY_KEPT + 80);
    verify_report_sum(&report, &standing);
    unsigned n = 0;
    for (const char *at = written(); (at = strstr(at, "VIOLATION")) != NULL; at++)
        n++;
    assert_int_equal(n, VERIFY_KEPT);
    assert_non_null(strstr(text, "violations        100, of which the first are above\n"));
    assert_non_null(strstr(text, "    reliable        100: "));
}

static void a_line_is_replaced_on_a_terminal_and_ended_elsewhere(void **state)
{
    (void)state;
    verify_report_line(&report, &standing);
    assert_string_equal(written(), "01:02:03  rev 19  34 events checked  lag 0.00 ms p50, 0.00 ms p99"
                                   "  3 of 8 watchers caught up  0 violations\n");
    report.terminal = standing.cut = true;
    verify_report_line(&report, &standing);
    verify_report_sum(&report, &standing);
    assert_non_null(strstr(written(), "0 violations  the tier cannot be reached\r\033[Kverified 01:02:03 of all keys"));
}

static void nothing_checked_is_not_called_clean(void **state)
{
    (void)state;
    verify_report_sum(&report, &standing);
    assert_non_null(strstr(written(), "  violations        none\n"));
    numbers.n_events = 0;
    verify_report_sum(&report, &standing);
    assert_non_null(strstr(written(), "none, but nothing was written either"));
}

static void what_was_not_judged_and_why_is_said_only_where_it_was_so(void **state)
{
    (void)state;
    static const char *const words[] = {"prev_kv missing   7", "unreachable       the tier, for up to 2.5 s",
                                        "no answer         from the reference, for up to 4.0 s",
                                        "reference late    its own watch came no further than revision 18",
                                        "held up           belfryctl itself, for up to 1.5 s"};
    verify_report_sum(&report, &standing);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char name[17];
        snprintf(name, sizeof(name), "%s", words[i]);
        assert_null(strstr(written(), name));
    }
    numbers.n_prev_absent = 7;
    numbers.cut_us = SECOND_US * 5 / 2;
    standing.silent_us = 4 * SECOND_US;
    standing.late = true;
    standing.told_rev = 18;
    standing.held_up_us = SECOND_US * 3 / 2;
    verify_report_sum(&report, &standing);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_non_null(strstr(written(), words[i]));
}

static void json_is_one_object_and_nothing_else(void **state)
{
    (void)state;
    report.form = FORM_LINES;
    blame(VERIFY_KEPT + 1);
    verify_lag_add(&numbers.lag, 1500, 4);
    verify_lag_add(&numbers.lag, -1, 4);
    verify_report_line(&report, &standing);
    verify_report_sum(&report, &standing);
    (void)written();
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    assert_non_null(doc);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(root, "violations")), VERIFY_KEPT + 1);
    assert_int_equal(yyjson_obj_size(yyjson_obj_get(root, "by_property")), JUDGE_N_PROPERTIES);
    yyjson_val *first = yyjson_arr_get_first(yyjson_obj_get(root, "first"));
    assert_int_equal(yyjson_arr_size(yyjson_obj_get(root, "first")), VERIFY_KEPT);
    assert_string_equal(yyjson_get_str(yyjson_obj_get(first, "key")), "/a\n\"");
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(root, "events")), 34);
    yyjson_val *lag = yyjson_obj_get(root, "lag_ms");
    assert_true(yyjson_get_real(yyjson_obj_get(lag, "max")) == 1.5);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(lag, "early")), 4);
    assert_false(yyjson_get_bool(yyjson_obj_get(root, "reference_late")));
    static const char *const times[] = {"unreachable_ms", "reference_silent_ms", "held_up_ms"};
    for (size_t i = 0; i < 3; i++)
        assert_true(yyjson_is_real(yyjson_obj_get(root, times[i])));
    yyjson_doc_free(doc);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_violation_is_told_in_full_when_it_is_found),
        TEST(only_the_first_are_told_and_all_are_counted),
        TEST(a_line_is_replaced_on_a_terminal_and_ended_elsewhere),
        TEST(nothing_checked_is_not_called_clean),
        TEST(what_was_not_judged_and_why_is_said_only_where_it_was_so),
        TEST(json_is_one_object_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
