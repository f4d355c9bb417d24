/* src/serve/reads/txn_compare_test.c: comparisons over a support/modelstore, by etcd's rules. */
#include "serve/reads/txn_compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/modelstore.h"
#include "support/refuse.h"
#include "support/storecheck.h"

static struct store *store;

static int setup(void **state)
{
    (void)state;
    store = modelstore_create(&(struct modelstore_opts){.history_rows = 100000, .history_age_s = 100});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    modelstore_destroy(store);
    return refuse_held() == 0 ? 0 : -1;
}

static bool holds(struct belfry_wire_compare compare)
{
    struct range_source source = RANGE_SOURCE(store, ETCD_KEYS_ONLY_LEASED);
    bool out;
    assert_int_equal(txn_compare(&source, &compare, &out), BELFRY_OK);
    return out;
}

/* Which results hold, as text: "=", "!<" ... */
static const char *results(const char *key, const char *end, int32_t target, int64_t number, const char *value)
{
    static char out[5];
    size_t n = 0;
    for (int32_t result = 0; result <= BELFRY_COMPARE_NOT_EQUAL; result++) {
        struct belfry_wire_compare compare = {.key = belfry_bytes_str(key),
                                              .range_end = belfry_bytes_str(end),
                                              .result = result,
                                              .target = target,
                                              .number = number,
                                              .value = belfry_bytes_str(value)};
        if (holds(compare))
            out[n++] = "=><!"[result];
    }
    out[n] = '\0';
    return out;
}

static void every_target_is_compared(void **state)
{
    (void)state;
    storecheck_write(store, 2, "k", "u");
    storecheck_write(store, 3, "k", "v");
    storecheck_write(store, 4, "k", "v"); /* version 3, created at 2 */
    static const int64_t numbers[] = {[BELFRY_COMPARE_VERSION] = 3,
                                      [BELFRY_COMPARE_CREATE] = 2,
                                      [BELFRY_COMPARE_MOD] = 4,
                                      [BELFRY_COMPARE_LEASE] = 0};
    for (int32_t target = 0; target <= BELFRY_COMPARE_LEASE; target++) {
        if (target == BELFRY_COMPARE_VALUE)
            continue;
        assert_string_equal(results("k", "", target, numbers[target], ""), "=");
        assert_string_equal(results("k", "", target, numbers[target] - 1, ""), ">!");
        assert_string_equal(results("k", "", target, numbers[target] + 1, ""), "<!");
    }
    assert_string_equal(results("k", "", BELFRY_COMPARE_VALUE, 0, "v"), "=");
    assert_string_equal(results("k", "", BELFRY_COMPARE_VALUE, 0, "u"), ">!");
    assert_string_equal(results("k", "", BELFRY_COMPARE_VALUE, 0, "va"), "<!");
    assert_string_equal(results("k", "", BELFRY_COMPARE_VALUE, 0, ""), ">!");
}

static void a_missing_key_has_zeroes_and_no_value(void **state)
{
    (void)state;
    storecheck_write(store, 2, "l", "v");
    const char *const ends[] = {"", "k\xff", "a"}; /* one key, an empty range, a range that is none */
    for (size_t i = 0; i < 3; i++) {
        for (int32_t target = 0; target <= BELFRY_COMPARE_LEASE; target++) {
            bool is_value = target == BELFRY_COMPARE_VALUE;
            assert_string_equal(results("k", ends[i], target, 0, ""), is_value ? "" : "=");
            assert_string_equal(results("k", ends[i], target, 1, "v"), is_value ? "" : "<!");
        }
    }
}

static void a_range_holds_if_every_key_does(void **state)
{
    (void)state;
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "b", "1");
    storecheck_write(store, 4, "c", "2");
    assert_string_equal(results("a", "c", BELFRY_COMPARE_VALUE, 0, "1"), "=");
    assert_string_equal(results("a", "d", BELFRY_COMPARE_VALUE, 0, "1"), "");
    assert_string_equal(results("a", "d", BELFRY_COMPARE_VALUE, 0, "3"), "<!");
    assert_string_equal(results("a", "d", BELFRY_COMPARE_MOD, 1, ""), ">!");
    struct belfry_wire_compare to_the_end = {.key = belfry_bytes_str("b"),
                                             .range_end = belfry_bytes_of("", 1),
                                             .result = BELFRY_COMPARE_GREATER,
                                             .target = BELFRY_COMPARE_MOD,
                                             .number = 2};
    assert_true(holds(to_the_end));
    to_the_end.key = belfry_bytes_str("a");
    assert_false(holds(to_the_end));
}

static void rows_of_ranges_are_bounded(void **state)
{
    (void)state;
    char key[8];
    for (int i = 0; i < 5; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        storecheck_write(store, 2 + i, key, "v");
    }
    struct belfry_wire_compare compare = {
        .key = belfry_bytes_str("k"), .range_end = belfry_bytes_str("l"), .result = BELFRY_COMPARE_NOT_EQUAL};
    struct range_source source = RANGE_SOURCE(store, ETCD_KEYS_ONLY_LEASED);
    bool out;
    source.walk = 4;
    assert_int_equal(txn_compare(&source, &compare, &out), BELFRY_OK);
    assert_true(out && source.walk == 0);
    source.walk = 3;
    assert_int_equal(txn_compare(&source, &compare, &out), BELFRY_ERR_TOO_LARGE);
    source.walk = 0;
    compare.range_end.len = 0; /* one key is always read */
    assert_int_equal(txn_compare(&source, &compare, &out), BELFRY_OK);
    compare.range_end.len = 1;
    compare.result = BELFRY_COMPARE_EQUAL; /* and so is the first, which decides */
    assert_int_equal(txn_compare(&source, &compare, &out), BELFRY_OK);
    assert_false(out);
}

static void damage_is_an_error(void **state)
{
    (void)state;
    struct belfry_wire_compare compare = {.key = belfry_bytes_str("k")};
    struct range_source source = RANGE_SOURCE(store, ETCD_KEYS_ONLY_LEASED);
    bool out;
    modelstore_damage(store);
    assert_int_equal(txn_compare(&source, &compare, &out), BELFRY_ERR_IO);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(every_target_is_compared),
        T(a_missing_key_has_zeroes_and_no_value),
        T(a_range_holds_if_every_key_does),
        T(rows_of_ranges_are_bounded),
        T(damage_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
