/* src/opt/options_test.c */
#include "opt/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct numbers {
    bool yes;
    unsigned count;
    uint64_t bytes, ms, seconds;
};

#define AT(field) .offset = offsetof(struct numbers, field), .width = sizeof(((struct numbers *)0)->field)

static const struct belfry_opt_row rows[] = {
    {0, "yes", .kind = BELFRY_KIND_BOOL, AT(yes), .help = "a"},
    {1, "count", .kind = BELFRY_KIND_COUNT, AT(count), .least = 1, .most = 256, .help = "b"},
    {2, "log-bytes", .kind = BELFRY_KIND_SIZE, AT(bytes), .least = 1 << 20, .most = UINT64_C(1) << 40, .help = "c"},
    {3, "lag", .kind = BELFRY_KIND_MS, AT(ms), .least = 100, .most = 86400000, .help = "d"},
    {4, "age", .kind = BELFRY_KIND_SECONDS, AT(seconds), .least = 1, .most = 315360000, .help = "e"},
    {5, "level", .kind = BELFRY_KIND_CHOICE, AT(count), .choices = "error|warn", .help = "f"},
    {6, "lease", .kind = BELFRY_KIND_HEX, AT(bytes), .help = "g"},
    {7, "name", .kind = BELFRY_KIND_TEXT, .help = "h"},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static void values_are_stored_and_written_back(void **state)
{
    (void)state;
    static const struct {
        unsigned row;
        const char *text, *again;
    } cases[] = {{0, "t", "true"},       {0, "false", "false"}, {1, "256", "256"},
                 {2, "2048MiB", "2GiB"}, {3, "90s", "90s"},     {4, "120m", "2h"},
                 {5, "WARN", "warn"},    {6, "0x1F", "1f"},     {6, "7fffffffffffffff", "7fffffffffffffff"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct belfry_opt_row *row = &rows[cases[i].row];
        struct numbers numbers = {.count = 77};
        uint64_t number;
        char why[BELFRY_OPT_WHY] = "", again[BELFRY_VALUE_MAX];
        assert_int_equal(belfry_opt_read(row, cases[i].text, &number, why), BELFRY_OK);
        belfry_opt_store(row, &numbers, number);
        assert_true(belfry_opt_load(row, &numbers) == number);
        belfry_opt_write(row, number, again);
        assert_string_equal(again, cases[i].again);
    }
}

static void a_wrong_value_has_a_sentence_that_says_what_would_do(void **state)
{
    (void)state;
    static const struct {
        unsigned row;
        const char *text, *sentence;
    } cases[] = {
        {0, "yes", "'yes' is neither true nor false"},
        {1, "two", "'two' is not a whole number"},
        {1, "0", "0 is out of range: it goes from 1 to 256"},
        {1, "99999999999999999999999", "99999999999999999999999 is out of range: it goes from 1 to 256"},
        {2, "much", "'much' is not a size: write 512KiB, 256MiB or 4GiB"},
        {2, "1KiB", "1KiB is out of range: it goes from 1MiB to 1TiB"},
        {3, "5", "'5' is not a time: write 500ms, 5s, 10m or 1h30m"},
        {3, "99ms", "99ms is out of range: it goes from 100ms to 24h"},
        {4, "1500ms", "'1500ms' is not a time in whole seconds"},
        {4, "0", "0 is out of range: it goes from 1s to 87600h"},
        {5, "loud", "'loud' is not one of error|warn"},
        {6, "zz", "'zz' is not a number in hexadecimal digits"},
        {6, "8000000000000000", "8000000000000000 is out of range: it goes from 0 to 7fffffffffffffff"},
    };
    uint64_t number = 7;
    char why[BELFRY_OPT_WHY], longer[4096];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(belfry_opt_read(&rows[cases[i].row], cases[i].text, &number, why), BELFRY_ERR_INVALID);
        assert_string_equal(why, cases[i].sentence);
    }
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(belfry_opt_read(&rows[1], longer, &number, why), BELFRY_ERR_INVALID);
    assert_true(strlen(why) < 100);
    assert_int_equal(number, 7);
    assert_int_equal(belfry_opt_read(&rows[7], longer, &number, why), BELFRY_OK);
}

static void a_row_is_found_by_its_whole_name_or_the_nearest_is_named(void **state)
{
    (void)state;
    const char *nearest;
    char longer[200] = "";
    assert_ptr_equal(belfry_opt_find(rows, N_ROWS, "lag=5", 3, &nearest), &rows[3]);
    assert_null(belfry_opt_find(rows, N_ROWS, "log-byte", 8, &nearest));
    assert_string_equal(nearest, "log-bytes");
    memset(longer, 'a', sizeof(longer) - 1);
    assert_null(belfry_opt_find(rows, N_ROWS, longer, strlen(longer), &nearest));
    assert_null(nearest);
}

static char *fake_getenv(const char *name)
{
    static char ours[] = "ours", theirs[] = "theirs", empty[] = "";
    return strcmp(name, "THEIR_LOG_BYTES") == 0 ? theirs
           : strcmp(name, "OUR_LOG_BYTES") == 0 ? empty
           : strcmp(name, "OUR_LAG") == 0       ? ours
           : strcmp(name, "THEIR_LAG") == 0     ? theirs
                                                : NULL;
}

static void the_first_variable_that_is_not_empty_counts(void **state)
{
    (void)state;
    const struct belfry_opt_table table = {.env = {"OUR_", "THEIR_"}};
    char label[BELFRY_OPT_ENV_NAME];
    assert_string_equal(belfry_opt_env(&table, &rows[2], fake_getenv, label), "theirs");
    assert_string_equal(label, "THEIR_LOG_BYTES");
    assert_string_equal(belfry_opt_env(&table, &rows[3], fake_getenv, label), "ours");
    assert_string_equal(label, "OUR_LAG");
    assert_null(belfry_opt_env(&table, &rows[4], fake_getenv, label));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_stored_and_written_back),
        cmocka_unit_test(a_wrong_value_has_a_sentence_that_says_what_would_do),
        cmocka_unit_test(a_row_is_found_by_its_whole_name_or_the_nearest_is_named),
        cmocka_unit_test(the_first_variable_that_is_not_empty_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
