/* src/client/txn_test.c: transactions read back by protobuf-c. */
#include "client/txn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/rpc.pb-c.h"

static struct belfry_bytes str(const char *text)
{
    return belfry_bytes_str(text);
}

static Etcdserverpb__TxnRequest *read_back(const struct belfry_txn *txn)
{
    struct belfry_bytes bytes;
    assert_int_equal(belfry_txn_request(txn, &bytes), BELFRY_OK);
    Etcdserverpb__TxnRequest *request = etcdserverpb__txn_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    assert_non_null(request);
    return request;
}

static void steps_in_any_order_make_one_request(void **state)
{
    char big[300];
    (void)state;
    memset(big, 'v', sizeof(big)); /* a length of two bytes */
    struct belfry_txn *txn = belfry_txn_create();
    belfry_txn_put(txn, BELFRY_THEN, str("k"), belfry_bytes_of(big, sizeof(big)), 9);
    belfry_txn_if_version(txn, str("a"), '=', 1);
    belfry_txn_if_create_rev(txn, str("b"), '!', 2);
    belfry_txn_del(txn, BELFRY_ELSE, belfry_prefix("p"));
    belfry_txn_if_mod_rev(txn, str("c"), '<', 3);
    belfry_txn_if_value(txn, str("d"), '>', str("x"));
    belfry_txn_if_lease(txn, str("e"), '=', 5);
    belfry_txn_get(txn, BELFRY_ELSE, belfry_key("g"));
    Etcdserverpb__TxnRequest *r = read_back(txn);
    assert_true(r->n_compare == 5 && r->n_success == 1 && r->n_failure == 2);
    assert_true(r->compare[0]->result == ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL && r->compare[0]->version == 1);
    assert_true(r->compare[1]->result == ETCDSERVERPB__COMPARE__COMPARE_RESULT__NOT_EQUAL &&
                r->compare[1]->create_revision == 2);
    assert_true(r->compare[2]->result == ETCDSERVERPB__COMPARE__COMPARE_RESULT__LESS &&
                r->compare[2]->mod_revision == 3);
    assert_true(r->compare[3]->result == ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER &&
                r->compare[3]->value.len == 1);
    assert_true(r->compare[4]->target == ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE && r->compare[4]->lease == 5);
    assert_true(r->success[0]->request_put->value.len == sizeof(big) && r->success[0]->request_put->lease == 9);
    assert_memory_equal(r->failure[0]->request_delete_range->range_end.data, "q", 1);
    assert_int_equal(r->failure[1]->request_range->range_end.len, 0);
    etcdserverpb__txn_request__free_unpacked(r, NULL);
    belfry_txn_free(txn);
}

static struct belfry_opts *options(const char *name, const char *value, const char *name2, const char *value2)
{
    struct belfry_opts *opts = NULL;
    assert_int_equal(belfry_opts_set(&opts, name, value), BELFRY_OK);
    assert_int_equal(belfry_opts_set(&opts, name2, value2), BELFRY_OK);
    return opts;
}

static void steps_take_the_options_of_the_calls(void **state)
{
    struct belfry_opts *put = options("lease", "5", "prev-kv", NULL), *del = options("prev-kv", NULL, "prev-kv", NULL);
    struct belfry_opts *get = options("limit", "3", "order", "descend");
    (void)state;
    struct belfry_txn *txn = belfry_txn_create();
    belfry_txn_put_with(txn, BELFRY_THEN, str("k"), str("v"), put);
    belfry_txn_del_with(txn, BELFRY_THEN, belfry_key("d"), del);
    belfry_txn_get_with(txn, BELFRY_ELSE, belfry_from("g"), get);
    belfry_txn_get_with(txn, BELFRY_ELSE, belfry_key("g"), NULL);
    belfry_opts_free(put);
    belfry_opts_free(del);
    Etcdserverpb__TxnRequest *r = read_back(txn);
    assert_true(r->n_success == 2 && r->n_failure == 2);
    assert_true(r->success[0]->request_put->lease == 5 && r->success[0]->request_put->prev_kv);
    assert_true(r->success[1]->request_delete_range->prev_kv);
    assert_true(r->failure[0]->request_range->limit == 3 &&
                r->failure[0]->request_range->sort_order == ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND);
    assert_int_equal(r->failure[1]->request_range->limit, 0);
    etcdserverpb__txn_request__free_unpacked(r, NULL);
    belfry_txn_free(txn);

    struct belfry_bytes bytes; /* an option of another call */
    txn = belfry_txn_create();
    belfry_txn_put_with(txn, BELFRY_THEN, str("k"), str("v"), get);
    assert_int_equal(belfry_txn_request(txn, &bytes), BELFRY_ERR_INVALID);
    belfry_txn_free(txn);
    belfry_opts_free(get);
}

/* A comparison with zero must still name its target. */
static void comparing_with_nothing_is_written(void **state)
{
    (void)state;
    struct belfry_txn *txn = belfry_txn_create();
    belfry_txn_if_mod_rev(txn, str("k"), '=', 0);
    Etcdserverpb__TxnRequest *r = read_back(txn);
    assert_int_equal(r->compare[0]->target_union_case, ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION);
    assert_int_equal(r->compare[0]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD);
    etcdserverpb__txn_request__free_unpacked(r, NULL);
    belfry_txn_free(txn);
}

static void the_first_error_is_kept(void **state)
{
    struct belfry_bytes bytes;
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct belfry_txn *txn = belfry_txn_create();
        if (i == 0)
            belfry_txn_if_version(txn, str("k"), '?', 1);
        else if (i == 1)
            belfry_txn_put(txn, (enum belfry_branch)5, str("k"), str("v"), 0);
        else if (i == 2)
            belfry_txn_del(txn, BELFRY_THEN, belfry_interval("b", "a"));
        else
            belfry_txn_get(txn, (enum belfry_branch)5, belfry_key("a"));
        belfry_txn_put(txn, BELFRY_THEN, str("k"), str("v"), 0);
        assert_int_equal(belfry_txn_request(txn, &bytes), BELFRY_ERR_INVALID);
        belfry_txn_free(txn);
    }
    belfry_txn_put(NULL, BELFRY_THEN, str("k"), str("v"), 0);
    belfry_txn_get(NULL, BELFRY_THEN, belfry_key("k"));
    belfry_txn_if_value(NULL, str("k"), '=', str("v"));
    assert_int_equal(belfry_txn_request(NULL, &bytes), BELFRY_ERR_NOMEM);
    belfry_txn_free(NULL);
}

static enum belfry_err scenario(void)
{
    struct belfry_bytes bytes;
    struct belfry_txn *txn = belfry_txn_create();
    belfry_txn_if_mod_rev(txn, str("k"), '=', 0);
    belfry_txn_put(txn, BELFRY_THEN, str("k"), str("a value that is longer than the first block of a buffer"), 0);
    for (int i = 0; i < 20; i++)
        belfry_txn_del(txn, BELFRY_ELSE, belfry_prefix("prefix"));
    enum belfry_err err = belfry_txn_request(txn, &bytes);
    belfry_txn_free(txn);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_in_any_order_make_one_request), cmocka_unit_test(steps_take_the_options_of_the_calls),
        cmocka_unit_test(comparing_with_nothing_is_written),   cmocka_unit_test(the_first_error_is_kept),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
