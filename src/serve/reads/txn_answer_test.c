/* src/serve/reads/txn_answer_test.c: Txns over a support/modelstore, compared with what protobuf-c writes around the
 * answers of range_answer(). */
#include "serve/reads/txn_answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "net/grpc_frame.h"
#include "support/modelstore.h"
#include "support/refuse.h"
#include "support/storecheck.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"

#define KEYS      12
#define REVISIONS 60
#define OPS       4
#define BYTES_MAX (1 << 16)

static const struct range_upstream upstream = {.identity = {.cluster_id = 7, .member_id = 8, .raft_term = 9},
                                               .keys_only = ETCD_KEYS_ONLY_LEASED};
static struct store *store;
static int64_t head;

static int setup(void **state)
{
    (void)state;
    store = modelstore_create(
        &(struct modelstore_opts){.history_rows = 100000, .history_age_s = 100, .extent_bytes = 1 << 20});
    head = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    modelstore_destroy(store);
    return refuse_held() == 0 ? 0 : -1;
}

static void put(const char *key, const char *value)
{
    storecheck_write(store, ++head, key, value);
}

/* ---- requests ---- */

/* Which Ranges, in which branch. Without a comparison it succeeds; `fails` has one that does not hold. */
struct txn {
    bool fails;
    size_t n_success, n_failure;
    Etcdserverpb__RangeRequest success[OPS], failure[OPS];
};

static void fill_ops(Etcdserverpb__RangeRequest *ranges, size_t n, Etcdserverpb__RequestOp *ops,
                     Etcdserverpb__RequestOp **list)
{
    for (size_t i = 0; i < n; i++) {
        ops[i] = (Etcdserverpb__RequestOp)ETCDSERVERPB__REQUEST_OP__INIT;
        ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        ops[i].request_range = &ranges[i];
        list[i] = &ops[i];
    }
}

static struct read_request pack(struct txn *txn)
{
    static uint8_t bytes[BYTES_MAX];
    Etcdserverpb__TxnRequest message = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT, *compares[] = {&compare};
    Etcdserverpb__RequestOp ops[2 * OPS], *list[2 * OPS];
    struct read_request request;
    compare.key = belfry_binary(belfry_bytes_str("absent"));
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE;
    fill_ops(txn->success, txn->n_success, ops, list);
    fill_ops(txn->failure, txn->n_failure, ops + OPS, list + OPS);
    message.n_compare = txn->fails, message.compare = compares;
    message.n_success = txn->n_success, message.success = list;
    message.n_failure = txn->n_failure, message.failure = list + OPS;
    size_t len = etcdserverpb__txn_request__pack(&message, bytes);
    assert_int_equal(read_request_read(READ_REQUEST_TXN, belfry_bytes_of(bytes, len), &request), READ_REQUEST_FITTING);
    return request;
}

static Etcdserverpb__RangeRequest range_of(const char *key, const char *end)
{
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    range.key = belfry_binary(belfry_bytes_str(key));
    range.range_end = belfry_binary(belfry_bytes_str(end));
    return range;
}

static enum belfry_err try_txn(struct txn *txn)
{
    struct read_request request = pack(txn);
    struct belfry_buf out;
    struct range_answer about;
    belfry_buf_init(&out);
    enum belfry_err err = txn_answer(store, &request, &upstream, &out, &about);
    assert_int_equal(belfry_buf_len(&out) > 0, err == BELFRY_OK);
    belfry_buf_fini(&out);
    return err;
}

/* ---- what is right ---- */

/* The answer to one Range, with no more in its header than the revision. To be freed. */
static Etcdserverpb__RangeResponse *right_range(const Etcdserverpb__RangeRequest *range)
{
    uint8_t bytes[1024];
    struct belfry_wire_range_request request;
    struct belfry_buf out;
    struct range_answer about;
    size_t len = etcdserverpb__range_request__pack(range, bytes);
    assert_int_equal(belfry_scan_range_request(belfry_bytes_of(bytes, len), &request), BELFRY_OK);
    belfry_buf_init(&out);
    assert_int_equal(
        range_answer(store, &request, &(struct range_upstream){.keys_only = ETCD_KEYS_ONLY_LEASED}, &out, &about),
        BELFRY_OK);
    struct belfry_bytes message = belfry_grpc_frame_only(belfry_buf_bytes(&out));
    Etcdserverpb__RangeResponse *response =
        etcdserverpb__range_response__unpack(NULL, message.len, (const uint8_t *)message.data);
    assert_non_null(response);
    belfry_buf_fini(&out);
    return response;
}

static size_t right_answer(const struct txn *txn, uint8_t *to)
{
    const Etcdserverpb__RangeRequest *ranges = txn->fails ? txn->failure : txn->success;
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__TxnResponse response = ETCDSERVERPB__TXN_RESPONSE__INIT;
    Etcdserverpb__ResponseOp ops[OPS], *list[OPS];
    header.cluster_id = 7, header.member_id = 8, header.raft_term = 9, header.revision = head;
    response.header = &header;
    response.succeeded = !txn->fails;
    response.n_responses = txn->fails ? txn->n_failure : txn->n_success;
    response.responses = list;
    for (size_t i = 0; i < response.n_responses; i++) {
        ops[i] = (Etcdserverpb__ResponseOp)ETCDSERVERPB__RESPONSE_OP__INIT;
        ops[i].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        ops[i].response_range = right_range(&ranges[i]);
        list[i] = &ops[i];
    }
    size_t len = etcdserverpb__txn_response__pack(&response, to);
    for (size_t i = 0; i < response.n_responses; i++)
        etcdserverpb__range_response__free_unpacked(ops[i].response_range, NULL);
    return len;
}

static void expect_right(struct txn *txn)
{
    static uint8_t right[BYTES_MAX];
    struct read_request request = pack(txn);
    struct belfry_buf out;
    struct range_answer about;
    belfry_buf_init(&out);
    assert_int_equal(txn_answer(store, &request, &upstream, &out, &about), BELFRY_OK);
    assert_int_equal(about.revision, head);
    size_t len = right_answer(txn, right);
    struct belfry_bytes message = belfry_grpc_frame_only(belfry_buf_bytes(&out));
    assert_int_equal(message.len, len);
    assert_memory_equal(message.data, right, len);
    belfry_buf_fini(&out);
}

/* ---- tests ---- */

static Etcdserverpb__RangeRequest draw_range(struct belfry_rng *rng)
{
    static const char *const keys[] = {"k", "k00", "k05", "k1", "l"}, *const ends[] = {"", "k07", "l", "\xff"};
    Etcdserverpb__RangeRequest range = range_of(keys[belfry_rng_below(rng, 5)], ends[belfry_rng_below(rng, 4)]);
    if (belfry_rng_below(rng, 2) == 0)
        range.limit = (int64_t)belfry_rng_below(rng, 5);
    if (belfry_rng_below(rng, 3) == 0)
        range.revision = 2 + (int64_t)belfry_rng_below(rng, (uint64_t)head - 1);
    if (belfry_rng_below(rng, 3) == 0)
        range.sort_target = (Etcdserverpb__RangeRequest__SortTarget)belfry_rng_below(rng, 5);
    range.keys_only = belfry_rng_below(rng, 4) == 0;
    range.count_only = belfry_rng_below(rng, 8) == 0;
    return range;
}

static void every_range_is_answered_as_it_would_be_alone(void **state)
{
    (void)state;
    struct belfry_rng rng = {belfry_clock_ns()};
    char key[8];
    print_message("seed %llu\n", (unsigned long long)rng.state);
    while (head < REVISIONS) {
        snprintf(key, sizeof(key), "k%02u", (unsigned)belfry_rng_below(&rng, KEYS));
        put(key, belfry_rng_below(&rng, 4) == 0 ? NULL : "value");
    }
    for (size_t i = 0; i < 2000; i++) {
        struct txn txn = {.fails = belfry_rng_below(&rng, 2) == 0,
                          .n_success = belfry_rng_below(&rng, OPS + 1),
                          .n_failure = belfry_rng_below(&rng, OPS + 1)};
        for (size_t n = 0; n < OPS; n++)
            txn.success[n] = draw_range(&rng), txn.failure[n] = draw_range(&rng);
        expect_right(&txn);
    }
}

static void revisions_of_the_branch_that_is_taken_are_looked_at_first(void **state)
{
    (void)state;
    put("a", "1");
    put("a", "2");
    struct txn txn = {.n_success = 2, .n_failure = 1};
    txn.success[0] = txn.success[1] = txn.failure[0] = range_of("a", "");
    txn.success[1].revision = head + 1;
    assert_int_equal(try_txn(&txn), BELFRY_ERR_AGAIN);
    txn.fails = true;
    assert_int_equal(try_txn(&txn), BELFRY_OK);
    struct belfry_wire_header header = {.cluster_id = 7, .revision = 9};
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    assert_int_equal(store->api->adopt(store, 9, &header, 1), BELFRY_OK);
    txn.fails = false;
    txn.success[1].revision = 2;
    assert_int_equal(try_txn(&txn), BELFRY_ERR_COMPACTED);
    txn.success[0].revision = 10; /* the first decides */
    assert_int_equal(try_txn(&txn), BELFRY_ERR_AGAIN);
}

static void all_ranges_share_one_bound(void **state)
{
    (void)state;
    static char value[RANGE_ANSWER_BYTES * 2 / 5];
    memset(value, 'v', sizeof(value) - 1);
    put("a", value);
    struct txn txn = {.n_success = 2};
    for (size_t i = 0; i < OPS; i++)
        txn.success[i] = range_of("a", "");
    assert_int_equal(try_txn(&txn), BELFRY_OK);
    txn.n_success = 3;
    assert_int_equal(try_txn(&txn), BELFRY_ERR_TOO_LARGE);
    for (size_t i = 0; i < OPS; i++) { /* what is kept to be sorted counts, too */
        txn.success[i].keys_only = true;
        txn.success[i].sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND;
    }
    assert_int_equal(try_txn(&txn), BELFRY_ERR_TOO_LARGE);
    for (size_t i = 0; i < OPS; i++)
        txn.success[i].sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__NONE;
    assert_int_equal(try_txn(&txn), BELFRY_OK);
}

/* Messages of more Ranges than struct txn has. */
static void older_revisions_are_bounded(void **state)
{
    (void)state;
    static const uint8_t op[] = {0x12, 7, 0x0a, 5, 0x0a, 1, 'a', 0x20, 2}; /* at revision 2 */
    uint8_t message[sizeof(op) * (TXN_ANSWER_OLDER + 1)];
    put("a", "1");
    put("a", "2");
    for (size_t n = 0; n <= TXN_ANSWER_OLDER; n++) {
        struct read_request request;
        struct belfry_buf out;
        struct range_answer about;
        memcpy(message + n * sizeof(op), op, sizeof(op));
        struct belfry_bytes bytes = belfry_bytes_of(message, (n + 1) * sizeof(op));
        assert_int_equal(read_request_read(READ_REQUEST_TXN, bytes, &request), READ_REQUEST_FITTING);
        belfry_buf_init(&out);
        assert_int_equal(txn_answer(store, &request, &upstream, &out, &about),
                         n < TXN_ANSWER_OLDER ? BELFRY_OK : BELFRY_ERR_TOO_LARGE);
        belfry_buf_fini(&out);
    }
}

static void refused_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    put("a", "1");
    put("b", "1");
    struct txn txn = {.n_success = 2};
    txn.success[0] = range_of("a", "");
    txn.success[1] = range_of("a", "c");
    txn.success[1].sort_target = ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__MOD;
    struct read_request request = pack(&txn);
    size_t held = refuse_held();
    bool reached = true;
    for (size_t n = 0; reached; n++) {
        struct belfry_buf out;
        struct range_answer about;
        belfry_buf_init(&out);
        refuse_begin(n);
        enum belfry_err err = txn_answer(store, &request, &upstream, &out, &about);
        reached = refuse_end();
        belfry_buf_fini(&out);
        assert_int_equal(refuse_held(), held);
        assert_int_equal(err, reached ? BELFRY_ERR_NOMEM : BELFRY_OK);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(every_range_is_answered_as_it_would_be_alone),
        T(revisions_of_the_branch_that_is_taken_are_looked_at_first),
        T(all_ranges_share_one_bound),
        T(older_revisions_are_bounded),
        T(refused_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
