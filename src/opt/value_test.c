/* src/opt/value_test.c */
#include "opt/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void sizes_and_times_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        const char *text, *again;
        uint64_t value;
    } sizes[] = {{"0", "0", 0},
                 {"1", "1B", 1},
                 {"7B", "7B", 7},
                 {"1024", "1KiB", 1024},
                 {"3K", "3KiB", 3 << 10},
                 {"3KiB", "3KiB", 3 << 10},
                 {"2M", "2MiB", 2 << 20},
                 {"1G", "1GiB", 1 << 30},
                 {"1T", "1TiB", UINT64_C(1) << 40},
                 {"1025", "1025B", 1025},
                 {"2048MiB", "2GiB", UINT64_C(2) << 30}},
      times[] = {{"0", "0s", 0},
                 {"0s", "0s", 0},
                 {"5ms", "5ms", 5},
                 {"1500ms", "1500ms", 1500},
                 {"1s500ms", "1500ms", 1500},
                 {"1.5s", "1500ms", 1500},
                 {"1.001s", "1001ms", 1001},
                 {"0.5h", "30m", 1800000},
                 {"2500us", "2ms", 2},
                 {"999999ns", "0s", 0},
                 {"90s", "90s", 90000},
                 {"1m30s", "90s", 90000},
                 {"60m", "1h", 3600000},
                 {"87600h", "87600h", UINT64_C(87600) * 3600000}};
    char again[BELFRY_VALUE_MAX];
    uint64_t value;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_true(belfry_value_size(sizes[i].text, &value));
        assert_int_equal(value, sizes[i].value);
        assert_true(belfry_value_size_decimal(sizes[i].text, &value));
        assert_int_equal(value, sizes[i].value);
        belfry_value_write_size(value, again);
        assert_string_equal(again, sizes[i].again);
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        assert_true(belfry_value_ms(times[i].text, &value));
        assert_int_equal(value, times[i].value);
        belfry_value_write_ms(value, again);
        assert_string_equal(again, times[i].again);
    }
}

static void what_is_neither_size_nor_time_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",   " 1",      "1 ",     "KiB", "1kb", "1.5G", "0x10", "+1", "18446744073709551615T", "5s0", "1s2", "1.5",
        ".5", "5parsec", "1e999s", "inf", "-1s", "0x",   "s",    "5 s"};
    uint64_t value = 7;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(belfry_value_size(wrong[i], &value));
        assert_false(belfry_value_size_decimal(wrong[i], &value));
        assert_false(belfry_value_ms(wrong[i], &value));
    }
    assert_false(belfry_value_ms("5", &value));
    assert_false(belfry_value_ms("9999999h", &value));
    assert_false(belfry_value_ms("5124095h1000h", &value));
    assert_false(belfry_value_size("256MB", &value));
    assert_false(belfry_value_size_decimal("18446744073709551615KB", &value));
    assert_int_equal(value, 7);
    assert_true(belfry_value_size_decimal("3KB", &value));
    assert_int_equal(value, 3000);
}

static void large_numbers_are_the_largest(void **state)
{
    (void)state;
    uint64_t value;
    assert_true(belfry_value_count("18446744073709551615", &value));
    assert_true(value == UINT64_MAX);
    assert_true(belfry_value_count("99999999999999999999999", &value));
    assert_true(value == UINT64_MAX);
    assert_true(belfry_value_hex("ffffffffffffffff0", &value));
    assert_true(value == UINT64_MAX);
    assert_true(belfry_value_hex("0x1F", &value));
    assert_int_equal(value, 31);
    assert_true(belfry_value_hex("72c7a1dca00d8033", &value));
    assert_true(value == UINT64_C(0x72c7a1dca00d8033));
    static const char *const wrong[] = {"", "-1", "+1", " 1", "1 ", "0x", "g", "1.0"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(belfry_value_count(wrong[i], &value));
        assert_false(belfry_value_hex(wrong[i], &value));
    }
    assert_false(belfry_value_count("1f", &value));
}

static void booleans_are_gos(void **state)
{
    (void)state;
    static const char *const on[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const off[] = {"0", "f", "F", "false", "FALSE", "False"};
    static const char *const wrong[] = {"", "yes", "no", "on", "2", "truE"};
    bool value;
    for (size_t i = 0; i < 6; i++) {
        assert_true(belfry_value_bool(on[i], &value) && value);
        assert_true(belfry_value_bool(off[i], &value) && !value);
        assert_false(belfry_value_bool(wrong[i], &value));
    }
}

static void choices_with_capitals_are_taken_as_they_are(void **state)
{
    (void)state;
    unsigned place;
    size_t len;
    assert_true(belfry_value_choice("asc|desc", "DESC", &place));
    assert_int_equal(place, 1);
    assert_true(belfry_value_choice("Exact|NotOlderThan", "NotOlderThan", &place));
    assert_int_equal(place, 1);
    static const char *const wrong[] = {"", "exact", "Exact|", "Exac", "Exact|NotOlderThan"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(belfry_value_choice("Exact|NotOlderThan", wrong[i], &place));
    assert_memory_equal(belfry_value_choice_at("a|bc|d", 1, &len), "bc", 2);
    assert_int_equal(len, 2);
    belfry_value_choice_at("a|bc|d", 3, &len);
    assert_int_equal(len, 0);
}

static void items_may_be_empty_but_not_behind_the_last_separator(void **state)
{
    (void)state;
    const char *list = "a,,bc,";
    static const char *const items[] = {"a", "", "bc"};
    size_t len;
    for (size_t i = 0; i < 3; i++) {
        const char *item = belfry_value_item(&list, ",", &len);
        assert_non_null(item);
        assert_int_equal(len, strlen(items[i]));
        assert_memory_equal(item, items[i], len);
    }
    assert_null(belfry_value_item(&list, ",", &len));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_times_are_read_and_written),
        cmocka_unit_test(what_is_neither_size_nor_time_is_refused),
        cmocka_unit_test(large_numbers_are_the_largest),
        cmocka_unit_test(booleans_are_gos),
        cmocka_unit_test(choices_with_capitals_are_taken_as_they_are),
        cmocka_unit_test(items_may_be_empty_but_not_behind_the_last_separator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
