/* src/kube/age_test.c */
#include "kube/age.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#define THEN 1700000000 /* 2023-11-14T22:13:20Z */

static void assert_age(const char *timestamp, int64_t now_s, const char *expected)
{
    char text[KUBE_AGE_MAX];
    kube_age_write(belfry_bytes_str(timestamp), now_s, text);
    assert_string_equal(text, expected);
}

static void assert_duration(int64_t s, const char *expected)
{
    assert_age("2023-11-14T22:13:20Z", THEN + s, expected);
}

static void an_age_has_fewer_details_the_larger_it_is(void **state)
{
    (void)state;
    const int64_t m = 60, h = 60 * m, d = 24 * h, y = 365 * d;
    assert_duration(0, "0s");
    assert_duration(119, "119s");
    assert_duration(120, "2m");
    assert_duration(5 * m + 30, "5m30s");
    assert_duration(10 * m - 1, "9m59s");
    assert_duration(10 * m + 59, "10m");
    assert_duration(3 * h - 1, "179m");
    assert_duration(3 * h, "3h");
    assert_duration(7 * h + 59 * m, "7h59m");
    assert_duration(8 * h + 59 * m, "8h");
    assert_duration(2 * d - 1, "47h");
    assert_duration(2 * d, "2d");
    assert_duration(3 * d + 4 * h, "3d4h");
    assert_duration(8 * d + 23 * h, "8d");
    assert_duration(2 * y - 1, "729d");
    assert_duration(2 * y, "2y");
    assert_duration(3 * y + 5 * d, "3y5d");
    assert_duration(8 * y + 300 * d, "8y");
}

static void a_clock_that_is_a_second_behind_is_forgiven(void **state)
{
    (void)state;
    assert_duration(-1, "0s");
    assert_duration(-2, "<invalid>");
}

static void fractions_and_offsets_are_understood(void **state)
{
    (void)state;
    assert_age("2023-11-14T22:13:20.123456Z", THEN + 5, "5s");
    assert_age("2023-11-15T00:13:20+02:00", THEN + 5, "5s");
    assert_age("2023-11-14T16:43:20-05:30", THEN + 5, "5s");
}

static void every_day_is_where_the_c_library_has_it(void **state)
{
    (void)state;
    for (time_t t = -(time_t)62135596800 + 86400; t < 253402300800; t += 86400 * 13) {
        struct tm tm;
        char text[64];
        assert_non_null(gmtime_r(&t, &tm));
        tm.tm_hour = 0;
        assert_true(
            snprintf(text, sizeof(text), "%04d-%02d-%02dT00:00:00Z", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday) > 0);
        assert_age(text, t + 7, "7s");
    }
}

static void what_is_no_time_is_invalid(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "yesterday",
                                        "2023-11-14",
                                        "2023-11-14T22:13:20",
                                        "2023-11-14 22:13:20Z",
                                        "2023-11-14T22:13:20z",
                                        "2023-11-14T22:13:20Zx",
                                        "2023-11-14T22:13:20.Z",
                                        "2023-11-14T22:13:20+0200",
                                        "2023-11-14T22:13:20+24:00",
                                        "2023-13-14T22:13:20Z",
                                        "2023-00-14T22:13:20Z",
                                        "2023-02-29T22:13:20Z",
                                        "2023-11-31T22:13:20Z",
                                        "2023-11-14T24:13:20Z",
                                        "2023-11-14T22:60:20Z",
                                        "2023-11-14T22:13:60Z"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_age(texts[i], THEN, "<invalid>");
}

static void a_leap_day_is_a_day_in_leap_years_alone(void **state)
{
    (void)state;
    assert_age("2000-02-29T00:00:00Z", 951782400, "0s");
    assert_age("1900-02-29T00:00:00Z", THEN, "<invalid>");
}

static void a_time_that_was_never_set_is_unknown(void **state)
{
    (void)state;
    assert_age("0001-01-01T00:00:00Z", THEN, "<unknown>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_age_has_fewer_details_the_larger_it_is),
        cmocka_unit_test(a_clock_that_is_a_second_behind_is_forgiven),
        cmocka_unit_test(fractions_and_offsets_are_understood),
        cmocka_unit_test(every_day_is_where_the_c_library_has_it),
        cmocka_unit_test(what_is_no_time_is_invalid),
        cmocka_unit_test(a_leap_day_is_a_day_in_leap_years_alone),
        cmocka_unit_test(a_time_that_was_never_set_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
