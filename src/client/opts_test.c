/* src/client/opts_test.c */
#include "client/opts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static const struct row {
    const char *name, *value;
    enum belfry_opt opt;
    int64_t number; /* -1: refused */
} rows[] = {
    {"dial-timeout", "500ms", BELFRY_OPT_DIAL_TIMEOUT, 500},
    {"dial-timeout", "10s", BELFRY_OPT_DIAL_TIMEOUT, 10000},
    {"dial-timeout", "1m", BELFRY_OPT_DIAL_TIMEOUT, 60000},
    {"dial-timeout", "2h", BELFRY_OPT_DIAL_TIMEOUT, 7200000},
    {"dial-timeout", "1m30s", BELFRY_OPT_DIAL_TIMEOUT, 90000},
    {"dial-timeout", "1.5s", BELFRY_OPT_DIAL_TIMEOUT, 1500},
    {"dial-timeout", "10", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", "s", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", "", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", "-1s", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", "+1s", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", " 1s", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", "1 s", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", "1days", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", "2147483647ms", BELFRY_OPT_DIAL_TIMEOUT, 2147483647},
    {"dial-timeout", "2147483648ms", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", "2000h", BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"dial-timeout", NULL, BELFRY_OPT_DIAL_TIMEOUT, -1},
    {"max-message", "65536", BELFRY_OPT_MAX_MESSAGE, 65536},
    {"max-message", "64KiB", BELFRY_OPT_MAX_MESSAGE, 65536},
    {"max-message", "1MiB", BELFRY_OPT_MAX_MESSAGE, 1048576},
    {"max-message", "2GiB", BELFRY_OPT_MAX_MESSAGE, (int64_t)2 << 30},
    {"max-message", "3KB", BELFRY_OPT_MAX_MESSAGE, 3000},
    {"max-message", "4MB", BELFRY_OPT_MAX_MESSAGE, 4000000},
    {"max-message", "1GB", BELFRY_OPT_MAX_MESSAGE, 1000000000},
    {"max-message", "7B", BELFRY_OPT_MAX_MESSAGE, 7},
    {"max-message", "7X", BELFRY_OPT_MAX_MESSAGE, -1},
    {"max-message", "9223372036854775807GiB", BELFRY_OPT_MAX_MESSAGE, -1},
    {"rev", "9223372036854775807", BELFRY_OPT_REV, INT64_MAX},
    {"rev", "9223372036854775808", BELFRY_OPT_REV, -1},
    {"rev", "-1", BELFRY_OPT_REV, -1},
    {"rev", "0x10", BELFRY_OPT_REV, -1},
    {"prev-kv", NULL, BELFRY_OPT_PREV_KV, 1},
    {"prev-kv", "true", BELFRY_OPT_PREV_KV, 1},
    {"prev-kv", "1", BELFRY_OPT_PREV_KV, 1},
    {"fragment", "false", BELFRY_OPT_FRAGMENT, 0},
    {"fragment", "0", BELFRY_OPT_FRAGMENT, 0},
    {"fragment", "yes", BELFRY_OPT_FRAGMENT, -1},
    {"fragment", "", BELFRY_OPT_FRAGMENT, -1},
    {"sort-by", "key", BELFRY_OPT_SORT_BY, 0},
    {"sort-by", "version", BELFRY_OPT_SORT_BY, 1},
    {"sort-by", "create", BELFRY_OPT_SORT_BY, 2},
    {"sort-by", "mod", BELFRY_OPT_SORT_BY, 3},
    {"sort-by", "value", BELFRY_OPT_SORT_BY, 4},
    {"sort-by", "val", BELFRY_OPT_SORT_BY, -1},
    {"sort-by", "key|version", BELFRY_OPT_SORT_BY, -1},
    {"sort-by", "", BELFRY_OPT_SORT_BY, -1},
    {"order", "ascend", BELFRY_OPT_ORDER, 1},
    {"order", "descend", BELFRY_OPT_ORDER, 2},
    {"order", "up", BELFRY_OPT_ORDER, -1},
    {"resource-version-match", "Exact", BELFRY_OPT_VERSION_MATCH, 0},
    {"resource-version-match", "NotOlderThan", BELFRY_OPT_VERSION_MATCH, 1},
    {"resource-version-match", "exact", BELFRY_OPT_VERSION_MATCH, -1},
    {"chunk-size", "0", BELFRY_OPT_CHUNK_SIZE, 0},
    {"watch-timeout", "5m", BELFRY_OPT_WATCH_TIMEOUT, 300000},
    {"max-bytes", "2MiB", BELFRY_OPT_MAX_BYTES, 2 << 20},
    {"send-initial", NULL, BELFRY_OPT_SEND_INITIAL, 1},
};

static void values_are_taken_or_refused_with_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct belfry_opts *opts = NULL;
        int err = belfry_opts_set(&opts, row->name, row->value);
        if (err != (row->number < 0 ? BELFRY_ERR_INVALID : BELFRY_OK))
            fail_msg("%s=%s: %s", row->name, row->value, belfry_errname(err));
        if (row->number < 0) {
            assert_non_null(strstr(belfry_opts_why(opts), row->name));
            assert_false(belfry_opts_is_set(opts, row->opt));
        } else {
            assert_string_equal(belfry_opts_why(opts), "");
            assert_int_equal(belfry_opts_number(opts, row->opt), row->number);
        }
        belfry_opts_free(opts);
    }
}

static void numbers_are_taken_or_refused_with_a_reason(void **state)
{
    static const struct {
        const char *name, *text; /* NULL: refused */
        enum belfry_opt opt;
        int64_t number;
    } numbers[] = {
        {"lease", "31", BELFRY_OPT_LEASE, 0x1f},
        {"lease", "9223372036854775807", BELFRY_OPT_LEASE, INT64_MAX},
        {"lease", NULL, BELFRY_OPT_LEASE, -1},
        {"limit", "0", BELFRY_OPT_LIMIT, 0},
        {"dial-timeout", "2500ms", BELFRY_OPT_DIAL_TIMEOUT, 2500},
        {"dial-timeout", NULL, BELFRY_OPT_DIAL_TIMEOUT, (int64_t)INT32_MAX + 1},
        {"max-message", "8388608", BELFRY_OPT_MAX_MESSAGE, 8 << 20},
        {"prev-kv", "1", BELFRY_OPT_PREV_KV, 1},
        {"prev-kv", NULL, BELFRY_OPT_PREV_KV, 2},
        {"order", NULL, BELFRY_OPT_ORDER, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct belfry_opts *opts = NULL;
        int err = belfry_opts_set_int(&opts, numbers[i].name, numbers[i].number);
        if (numbers[i].text == NULL) {
            assert_int_equal(err, BELFRY_ERR_INVALID);
            assert_non_null(strstr(belfry_opts_why(opts), numbers[i].name));
            assert_string_equal(belfry_why(NULL), belfry_opts_why(opts));
            assert_false(belfry_opts_is_set(opts, numbers[i].opt));
        } else {
            assert_int_equal(err, BELFRY_OK);
            assert_int_equal(belfry_opts_number(opts, numbers[i].opt), numbers[i].number);
            assert_string_equal(belfry_opts_text(opts, numbers[i].opt), numbers[i].text);
        }
        belfry_opts_free(opts);
    }
    struct belfry_opts *opts = NULL;
    assert_int_equal(belfry_opts_set_int(&opts, "least", 1), BELFRY_ERR_INVALID);
    assert_non_null(strstr(belfry_why(NULL), "least"));
    belfry_opts_free(opts);
}

static void unknown_names_are_refused(void **state)
{
    struct belfry_opts *opts = NULL;
    (void)state;
    assert_int_equal(belfry_opts_set(&opts, "prefix", "x"), BELFRY_ERR_INVALID);
    assert_non_null(strstr(belfry_opts_why(opts), "prefix"));
    assert_int_equal(belfry_opts_set(&opts, "", NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_opts_set(&opts, "comand-timeout", "5s"), BELFRY_ERR_INVALID);
    assert_string_equal(belfry_opts_why(opts), "there is no option comand-timeout: did you mean command-timeout?");
    assert_int_equal(belfry_opts_set(&opts, "command-timeout", "5"), BELFRY_ERR_INVALID);
    assert_string_equal(belfry_opts_why(opts),
                        "option command-timeout: '5' is not a time: write 500ms, 5s, 10m or 1h30m");
    assert_int_equal(belfry_opts_set(&opts, "user", NULL), BELFRY_ERR_INVALID);
    assert_string_equal(belfry_opts_why(opts), "option user needs a value");
    char name[500], value[500];
    memset(name, 'n', sizeof(name) - 1);
    memset(value, 'v', sizeof(value) - 1);
    name[sizeof(name) - 1] = value[sizeof(value) - 1] = '\0';
    assert_int_equal(belfry_opts_set(&opts, name, value), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_opts_set(&opts, "rev", value), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_opts_set(&opts, "rev", "1"), BELFRY_OK);
    assert_string_equal(belfry_opts_why(opts), "");
    belfry_opts_free(opts);
}

/* The first of the words that an option takes. */
static void first_word(const char *words, char *out, size_t cap)
{
    int len = snprintf(out, cap, "%.*s", (int)strcspn(words, "|"), words);
    assert_in_range(len, 1, cap - 1);
}

/* Each option of the table with a value of its kind, where it may be used and where not. */
static void every_option_fits_where_the_table_says(void **state)
{
    static const struct {
        const char *name, *value, *words;
        unsigned where;
        int64_t number;
    } all[] = {
#define TEXT                                       "text"
#define BOOL                                       "true"
#define COUNT                                      "7"
#define MS                                         "7s"
#define SIZE_DECIMAL                               "7KiB"
#define CHOICE                                     NULL
#define ROW(id, name, kind, where, value, choices) {name, kind, choices, where, value},
        BELFRY_OPT_TABLE(ROW)
#undef ROW
    };
    (void)state;
    for (int i = 0; i < BELFRY_OPT_END_; i++) {
        char word[32] = "";
        struct belfry_opts *opts = NULL;
        if (all[i].value == NULL)
            first_word(all[i].words, word, sizeof(word));
        const char *value = all[i].value != NULL ? all[i].value : word;
        assert_int_equal(belfry_opts_number(NULL, (enum belfry_opt)i), all[i].number);
        assert_int_equal(belfry_opts_set(&opts, all[i].name, value), BELFRY_OK);
        assert_true(belfry_opts_is_set(opts, (enum belfry_opt)i));
        assert_string_equal(belfry_opts_text(opts, (enum belfry_opt)i), value);
        assert_true(all[i].where > 0 && all[i].where < BELFRY_FOR_HANDLER << 1);
        assert_string_equal(belfry_opts_why(opts), "");
        for (unsigned where = 1; where <= BELFRY_FOR_HANDLER; where <<= 1)
            assert_int_equal(belfry_opts_fit(opts, where), (all[i].where & where) != 0);
        assert_non_null(strstr(belfry_opts_why(opts), all[i].name)); /* no option is for everything */
        belfry_opts_free(opts);
    }
    assert_true(belfry_opts_fit(NULL, BELFRY_FOR_OPEN));
    assert_null(belfry_opts_text(NULL, BELFRY_OPT_USER));
}

static void the_last_value_counts_and_a_refused_one_changes_nothing(void **state)
{
    struct belfry_opts *opts = NULL;
    (void)state;
    assert_int_equal(belfry_opts_set(&opts, "user", "a"), BELFRY_OK);
    assert_int_equal(belfry_opts_set(&opts, "user", "b"), BELFRY_OK);
    assert_string_equal(belfry_opts_text(opts, BELFRY_OPT_USER), "b");
    assert_int_equal(belfry_opts_set(&opts, "limit", "5"), BELFRY_OK);
    assert_int_equal(belfry_opts_set(&opts, "limit", "x"), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_opts_number(opts, BELFRY_OPT_LIMIT), 5);
    belfry_opts_free(opts);
    belfry_opts_free(NULL);
    assert_string_equal(belfry_opts_why(NULL), "");
}

static enum belfry_err scenario(void)
{
    struct belfry_opts *opts = NULL;
    int err = belfry_opts_set(&opts, "user", "a");
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "user", "b");
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "rev", "7");
    if (err == BELFRY_OK)
        err = belfry_opts_set_int(&opts, "lease", 7);
    belfry_opts_free(opts);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_taken_or_refused_with_a_reason),
        cmocka_unit_test(numbers_are_taken_or_refused_with_a_reason),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(every_option_fits_where_the_table_says),
        cmocka_unit_test(the_last_value_counts_and_a_refused_one_changes_nothing),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
