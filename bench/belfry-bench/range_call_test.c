/* bench/belfry-bench/range_call_test.c */
#include "range_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/scan.h"

static void a_request_is_what_a_server_reads(void **state)
{
    (void)state;
    const struct range_call call = {.key = belfry_bytes_str("/a/"),
                                    .range_end = belfry_bytes_str("/a0"),
                                    .limit = 500,
                                    .revision = (uint64_t)1 << 40,
                                    .serializable = true};
    struct belfry_wire_range_request request;
    struct belfry_buf buf = {0};
    range_call_write(&call, &buf);
    assert_int_equal(belfry_scan_range_request(belfry_buf_bytes(&buf), &request), BELFRY_OK);
    assert_true(belfry_bytes_equal(request.key, call.key));
    assert_true(belfry_bytes_equal(request.range_end, call.range_end));
    assert_int_equal(request.limit, 500);
    assert_int_equal(request.revision, (int64_t)1 << 40);
    assert_true(request.serializable);
    assert_false(request.is_odd);
    belfry_buf_fini(&buf);
}

static void a_request_for_one_key_has_nothing_else(void **state)
{
    (void)state;
    const struct range_call call = {.key = belfry_bytes_str("k")};
    struct belfry_buf buf = {0};
    range_call_write(&call, &buf);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&buf), belfry_bytes_of("\x0a\x01k", 3)));
    belfry_buf_fini(&buf);
}

/* header { revision: 7 }, kvs { key: "a" }, kvs { key: "bc" }, more, count: 9 */
#define TWO_KEYS                                                                                                       \
    "\x0a\x02\x18\x07\x12\x03\x0a\x01"                                                                                 \
    "a\x12\x04\x0a\x02"                                                                                                \
    "bc\x18\x01\x20\x09"

static void an_answer_is_counted_and_its_last_key_found(void **state)
{
    (void)state;
    struct range_answer answer;
    assert_int_equal(range_call_read(belfry_bytes_of(TWO_KEYS, sizeof(TWO_KEYS) - 1), &answer), BELFRY_OK);
    assert_int_equal(answer.revision, 7);
    assert_int_equal(answer.n_kvs, 2);
    assert_true(answer.more);
    assert_true(belfry_bytes_equal(answer.last_key, belfry_bytes_str("bc")));
}

static void an_answer_that_is_cut_off_is_refused(void **state)
{
    (void)state;
    struct range_answer answer = {.n_kvs = 99};
    assert_int_equal(range_call_read(belfry_bytes_of(TWO_KEYS, 14), &answer), BELFRY_ERR_PROTOCOL);
    assert_int_equal(answer.n_kvs, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_what_a_server_reads),
        cmocka_unit_test(a_request_for_one_key_has_nothing_else),
        cmocka_unit_test(an_answer_is_counted_and_its_last_key_found),
        cmocka_unit_test(an_answer_that_is_cut_off_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
