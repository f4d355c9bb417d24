/* src/serve/rights/rights_request_test.c */
#include "serve/rights/rights_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define RANGE "/etcdserverpb.KV/Range"
#define TXN   "/etcdserverpb.KV/Txn"

static struct belfry_buf message;

static int teardown(void **state)
{
    (void)state;
    belfry_buf_fini(&message);
    return refuse_held() == 0 ? 0 : -1;
}

static enum belfry_err read_message(const char *path, struct rights_range *ranges, size_t *n)
{
    return rights_request_read(belfry_bytes_str(path), belfry_buf_bytes(&message), ranges, n);
}

static void refused(const char *path)
{
    struct rights_range ranges[RIGHTS_BATCH];
    size_t n;
    assert_int_equal(read_message(path, ranges, &n), BELFRY_ERR_PROTOCOL);
}

/* ---- questions ---- */

static struct rights *rights;

static void ask(size_t n, struct rights_claim *claims)
{
    struct rights_who who = {.kind = 1, .secret = belfry_bytes_str("t")};
    bool granted;
    assert_int_equal(rights_create(&(struct rights_opts){.period_ms = 1000, .idle_max = 1 << 20}, &rights), BELFRY_OK);
    for (size_t i = n; i-- > 0;) { /* the newest is asked first */
        char key[32];
        snprintf(key, sizeof(key), "key%zu", i);
        struct rights_range range = {belfry_bytes_str(key), belfry_bytes_str(i % 2 == 0 ? "" : "l")};
        assert_int_equal(rights_claim(rights, who, range, RIGHTS_ONCE, 1000, &claims[i], &granted), BELFRY_OK);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const size_t numbers[] = {1, 2, RIGHTS_BATCH};
    struct rights_claim claims[RIGHTS_BATCH];
    struct rights_range ranges[RIGHTS_BATCH];
    size_t n;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        ask(numbers[i], claims);
        const struct rights_question *question = rights_ask(rights, 1000);
        assert_int_equal(question->n, numbers[i]);
        assert_int_equal(rights_request_write(&message, question), BELFRY_OK);
        const char *path = rights_request_path(question->n);
        assert_string_equal(path, numbers[i] == 1 ? RANGE : TXN);
        assert_int_equal(read_message(path, ranges, &n), BELFRY_OK);
        assert_int_equal(n, numbers[i]);
        const struct rights_range *range = NULL;
        for (size_t j = 0; j < n; j++) {
            range = rights_question_range(question, range);
            assert_true(belfry_bytes_equal(range->key, ranges[j].key) && belfry_bytes_equal(range->end, ranges[j].end));
        }
        refused(numbers[i] == 1 ? TXN : RANGE);
        refused("/etcdserverpb.KV/Put");
        belfry_buf_fini(&message);
        for (size_t j = 0; j < numbers[i]; j++)
            rights_release(rights, &claims[j]);
        rights_destroy(rights);
    }
}

/* ---- other requests ---- */

static void pack_range(const Etcdserverpb__RangeRequest *request)
{
    uint8_t *to;
    belfry_buf_fini(&message);
    assert_int_equal(belfry_buf_reserve(&message, 1000, &to), BELFRY_OK);
    belfry_buf_grown(&message, etcdserverpb__range_request__pack(request, to));
}

static void a_range_that_asks_for_more_is_no_question(void **state)
{
    (void)state;
    struct rights_range ranges[RIGHTS_BATCH];
    size_t n;
    Etcdserverpb__RangeRequest question = ETCDSERVERPB__RANGE_REQUEST__INIT;
    question.key = belfry_binary(belfry_bytes_str("key"));
    question.revision = INT64_MAX;
    pack_range(&question);
    assert_int_equal(read_message(RANGE, ranges, &n), BELFRY_OK);
#define WITH(field, value)                                                                                             \
    do {                                                                                                               \
        Etcdserverpb__RangeRequest other = question;                                                                   \
        other.field = value;                                                                                           \
        pack_range(&other);                                                                                            \
        refused(RANGE);                                                                                                \
    } while (0)
    WITH(revision, 0);
    WITH(revision, INT64_MAX - 1);
    WITH(limit, 1);
    WITH(serializable, true);
    WITH(keys_only, true);
    WITH(count_only, true);
    WITH(sort_order, ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND);
    WITH(min_mod_revision, 1);
#undef WITH
    pack_range(&question);
    assert_int_equal(belfry_buf_append(&message, "\xa0\x06\x01", 3), BELFRY_OK); /* an unknown field */
    refused(RANGE);
    pack_range(&question);
    message.end--;
    refused(RANGE);
}

static void a_txn_that_asks_for_more_is_no_question(void **state)
{
    (void)state;
    struct rights_range ranges[RIGHTS_BATCH];
    size_t n;
    struct belfry_bytes key = belfry_bytes_str("k"), none = belfry_bytes_str("");
    refused(TXN); /* nothing is asked */
    assert_int_equal(belfry_write_txn_range(&message, key, none, INT64_MAX), BELFRY_OK);
    assert_int_equal(read_message(TXN, ranges, &n), BELFRY_OK);
    assert_int_equal(belfry_write_txn_range(&message, key, none, 7), BELFRY_OK);
    refused(TXN);
    static const struct {
        const char *name, *bytes;
        size_t len;
    } more[] = {{"a comparison", "\x0a\x00", 2},         {"a failure operation", "\x1a\x00", 2},
                {"a put", "\x12\x02\x12\x00", 4},        {"a delete", "\x12\x02\x1a\x00", 4},
                {"a nested txn", "\x12\x02\x22\x00", 4}, {"no operation", "\x12\x00", 2}};
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        belfry_buf_fini(&message);
        assert_int_equal(belfry_write_txn_range(&message, key, none, INT64_MAX), BELFRY_OK);
        assert_int_equal(belfry_buf_append(&message, more[i].bytes, more[i].len), BELFRY_OK);
        refused(TXN);
    }
    belfry_buf_fini(&message);
    for (size_t i = 0; i <= RIGHTS_BATCH; i++)
        assert_int_equal(belfry_write_txn_range(&message, key, none, INT64_MAX), BELFRY_OK);
    refused(TXN); /* one too many */
}

static enum belfry_err write_and_read(void)
{
    struct rights_range ranges[RIGHTS_BATCH];
    size_t n;
    enum belfry_err err = belfry_write_txn_range(&message, belfry_bytes_str("k"), belfry_bytes_str(""), INT64_MAX);
    if (err == BELFRY_OK)
        err = read_message(TXN, ranges, &n);
    belfry_buf_fini(&message);
    return err;
}

static void without_memory_nothing_is_read(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(write_and_read), 2);
}

/* ---- milliseconds ---- */

static bool reads(const char *text, uint64_t *ms)
{
    return rights_request_read_ms(belfry_bytes_str(text), ms);
}

static void milliseconds_are_digits_and_bounded(void **state)
{
    (void)state;
    uint64_t ms;
    char text[RIGHTS_REQUEST_MS];
    assert_true(reads("0", &ms) && ms == 0);
    assert_true(reads("4000", &ms) && ms == 4000);
    assert_true(reads("1000000000", &ms) && ms == RIGHTS_REQUEST_MS_MAX);
    static const char *const nonsense[] = {"",   "-1", "+1",  "1000000001",           "9999999999", "00000000001",
                                           " 1", "1 ", "1,2", "18446744073709551617", "0x10",       "ask"};
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
        assert_false(reads(nonsense[i], &ms));
    assert_false(rights_request_read_ms((struct belfry_bytes){0}, &ms));
    assert_true(belfry_bytes_equal(rights_request_write_ms(1200, text), belfry_bytes_str("1200")));
    assert_true(belfry_bytes_equal(rights_request_write_ms(UINT64_MAX, text), belfry_bytes_str("1000000000")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_written_is_read, teardown),
        cmocka_unit_test_teardown(a_range_that_asks_for_more_is_no_question, teardown),
        cmocka_unit_test_teardown(a_txn_that_asks_for_more_is_no_question, teardown),
        cmocka_unit_test_teardown(without_memory_nothing_is_read, teardown),
        cmocka_unit_test_teardown(milliseconds_are_digits_and_bounded, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
