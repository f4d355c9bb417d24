/* src/serve/relay/txn_deletes_test.c */
#include "serve/relay/txn_deletes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct txn_deletes deletes;

static int setup(void **state)
{
    (void)state;
    txn_deletes_init(&deletes);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    txn_deletes_fini(&deletes);
    return 0;
}

static struct txn_key key_of(const char *text)
{
    struct txn_key key;
    txn_key_clear(&key);
    txn_key_append(&key, (const uint8_t *)text, strlen(text));
    return key;
}

static void delete_from(const char *text, unsigned level, uint64_t branches)
{
    struct txn_key key = key_of(text);
    assert_int_equal(txn_deletes_add(&deletes, level, branches, &key), BELFRY_OK);
}

static bool has(const char *text, unsigned level, uint64_t branches)
{
    struct txn_key key = key_of(text);
    return txn_deletes_has(&deletes, level, branches, &key);
}

static void everything_from_the_lowest_key_on_is_deleted(void **state)
{
    (void)state;
    assert_false(has("z", 0, 0));
    delete_from("m", 0, 0);
    delete_from("x", 0, 0);
    assert_true(has("m", 0, 0) && has("ma", 0, 0) && has("n", 0, 0));
    assert_false(has("l", 0, 0) || has("lz", 0, 0) || has("", 0, 0));
    delete_from("b", 0, 0);
    assert_true(has("l", 0, 0) && !has("a", 0, 0));
    assert_int_equal(deletes.n_keys, 1);
}

static void the_other_branch_does_not_count(void **state)
{
    (void)state;
    delete_from("m", 0, 0);
    delete_from("b", 1, 2); /* in the second branch of a Txn in the first */
    assert_true(has("n", 0, 0) && !has("n", 0, 1));
    assert_true(has("c", 1, 2) && !has("c", 1, 0) && has("n", 1, 0));
    assert_false(has("c", 0, 0)); /* not for the outer one, as long as it is open */
}

static void a_txn_that_is_complete_has_deleted_for_the_outer_one(void **state)
{
    (void)state;
    delete_from("x", 0, 1);
    delete_from("m", 1, 1);
    delete_from("b", 1, 3);
    assert_int_equal(deletes.n_keys, 3);
    txn_deletes_close(&deletes, 1, 3);
    assert_int_equal(deletes.n_keys, 1);
    assert_true(has("c", 0, 1) && !has("c", 0, 0));
    assert_true(has("c", 1, 3) && has("c", 1, 1)); /* a later one, in the same branch */
    delete_from("a", 1, 0);
    txn_deletes_close(&deletes, 1, 0);
    assert_true(has("a", 0, 0) && !has("a", 0, 1));
    txn_deletes_close(&deletes, 1, 0); /* nothing was deleted in it */
    assert_int_equal(deletes.n_keys, 2);
}

static void long_keys_that_begin_alike_are_the_same(void **state)
{
    (void)state;
    char text[TXN_KEY_BYTES + 2];
    memset(text, 'k', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    delete_from(text, 0, 0);
    text[TXN_KEY_BYTES] = 'a'; /* lower, but behind what is kept */
    assert_true(has(text, 0, 0));
    text[TXN_KEY_BYTES - 1] = 'a';
    assert_false(has(text, 0, 0));
}

static void what_is_held_is_bounded(void **state)
{
    (void)state;
    for (unsigned level = 0; level < TXN_LEVELS; level++) {
        for (int i = 0; i < 10; i++) {
            delete_from("m", level, 0);
            delete_from("m", level, UINT64_MAX);
        }
    }
    assert_int_equal(deletes.n_keys, 2 * TXN_LEVELS);
    assert_true(sizeof(deletes) + txn_deletes_bytes(&deletes) < 55000);
    assert_true(has("m", TXN_LEVELS - 1, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_from_the_lowest_key_on_is_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(the_other_branch_does_not_count, setup, teardown),
        cmocka_unit_test_setup_teardown(a_txn_that_is_complete_has_deleted_for_the_outer_one, setup, teardown),
        cmocka_unit_test_setup_teardown(long_keys_that_begin_alike_are_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_held_is_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
