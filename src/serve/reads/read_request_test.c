/* src/serve/reads/read_request_test.c: which requests the store may answer, by their bytes. */
#include "serve/reads/read_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(...) belfry_bytes_of(((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__}))

/* Parts of a Txn: each is a field of it. */
#define COMPARE_C  0x0a, 3, 0x1a, 1, 'c'
#define SUCCESS_S  0x12, 5, 0x0a, 3, 0x0a, 1, 's'                   /* Range s */
#define SUCCESS_SS 0x12, 7, 0x0a, 5, 0x0a, 1, 's', 0x38, 1          /* the same, serializable */
#define FAILURE_F  0x1a, 5, 0x0a, 3, 0x0a, 1, 'f'                   /* Range f */
#define FAILURE_FS 0x1a, 7, 0x0a, 5, 0x0a, 1, 'f', 0x38, 1          /* the same, serializable */
#define PUT        0x12, 5, 0x12, 3, 0x0a, 1, 'p'                   /* success: Put p */
#define NESTED     0x12, 9, 0x22, 7, 0x12, 5, 0x0a, 3, 0x0a, 1, 's' /* success: a Txn that reads */

static enum read_request_fit fit_of(struct belfry_bytes message)
{
    struct read_request request;
    return read_request_read(READ_REQUEST_TXN, message, &request);
}

static bool is_serializable(struct belfry_bytes message)
{
    struct read_request request;
    assert_int_equal(read_request_read(READ_REQUEST_TXN, message, &request), READ_REQUEST_FITTING);
    return request.serializable;
}

static void a_range_reads_whatever_it_is(void **state)
{
    (void)state;
    struct read_request request;
    assert_int_equal(read_request_read(READ_REQUEST_RANGE, BYTES(0x0a, 1, 'k', 0x38, 1), &request),
                     READ_REQUEST_FITTING);
    assert_true(request.serializable);
    assert_int_equal(read_request_read(READ_REQUEST_RANGE, BYTES(0x38, 1), &request), READ_REQUEST_ETCDS);
    assert_true(request.serializable);
    assert_int_equal(read_request_read(READ_REQUEST_RANGE, BYTES(0x38), &request), READ_REQUEST_ETCDS);
    assert_false(request.serializable);
}

static void a_txn_reads_if_all_its_operations_do(void **state)
{
    (void)state;
    assert_int_equal(fit_of(belfry_bytes_of("", 0)), READ_REQUEST_FITTING);
    assert_int_equal(fit_of(BYTES(COMPARE_C, SUCCESS_S, FAILURE_F)), READ_REQUEST_FITTING);
    assert_int_equal(fit_of(BYTES(SUCCESS_S, PUT)), READ_REQUEST_NONE);
    assert_int_equal(fit_of(BYTES(SUCCESS_S, NESTED)), READ_REQUEST_NONE);
    assert_int_equal(fit_of(BYTES(SUCCESS_S, 0x12, 0)), READ_REQUEST_NONE);                        /* no operation */
    assert_int_equal(fit_of(BYTES(SUCCESS_S, 0x1a, 5, 0x1a, 3, 0x0a, 1, 'd')), READ_REQUEST_NONE); /* DeleteRange */
    assert_int_equal(fit_of(BYTES(0x12)), READ_REQUEST_NONE);
    assert_int_equal(fit_of(BYTES(0x0a, 1, 0x1a)), READ_REQUEST_NONE);
    assert_int_equal(fit_of(BYTES(0x12, 3, 0x0a, 1, 0x0a)), READ_REQUEST_NONE);
}

static void a_txn_that_is_odd_is_left_to_etcd(void **state)
{
    (void)state;
    assert_int_equal(fit_of(BYTES(SUCCESS_S, 0x20, 1)), READ_REQUEST_ETCDS);                      /* unknown field */
    assert_int_equal(fit_of(BYTES(0x0a, 0)), READ_REQUEST_ETCDS);                                 /* no key */
    assert_int_equal(fit_of(BYTES(0x0a, 5, 0x1a, 1, 'c', 0x08, 4)), READ_REQUEST_ETCDS);          /* a result */
    assert_int_equal(fit_of(BYTES(0x0a, 5, 0x1a, 1, 'c', 0x10, 5)), READ_REQUEST_ETCDS);          /* a target */
    assert_int_equal(fit_of(BYTES(0x0a, 6, 0x1a, 1, 'c', 0x82, 4, 0)), READ_REQUEST_ETCDS);       /* an empty end */
    assert_int_equal(fit_of(BYTES(0x12, 2, 0x0a, 0)), READ_REQUEST_ETCDS);                        /* no key */
    assert_int_equal(fit_of(BYTES(0x12, 7, 0x0a, 5, 0x0a, 1, 's', 0x12, 0)), READ_REQUEST_ETCDS); /* an empty end */
    assert_int_equal(fit_of(BYTES(0x12, 7, 0x0a, 5, 0x0a, 1, 's', 0x28, 3)), READ_REQUEST_ETCDS); /* an order */
    assert_int_equal(fit_of(BYTES(0x12, 9, 0x12, 2, 0x0a, 0, 0x0a, 3, 0x0a, 1, 's')), READ_REQUEST_ETCDS); /* two */
    assert_int_equal(
        fit_of(BYTES(0x12, 16, 0x0a, 14, 0x0a, 1, 's', 0x20, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1)),
        READ_REQUEST_ETCDS); /* a negative revision */
}

static void operations_are_bounded(void **state)
{
    (void)state;
    static const uint8_t parts[][7] = {{COMPARE_C}, {SUCCESS_S}, {FAILURE_F}};
    static const size_t lens[] = {5, 7, 7};
    static uint8_t message[7 * (READ_REQUEST_OPS + 1)];
    for (size_t part = 0; part < 3; part++) {
        for (size_t i = 0; i <= READ_REQUEST_OPS; i++)
            memcpy(message + i * lens[part], parts[part], lens[part]);
        assert_int_equal(fit_of(belfry_bytes_of(message, lens[part] * READ_REQUEST_OPS)), READ_REQUEST_FITTING);
        assert_int_equal(fit_of(belfry_bytes_of(message, lens[part] * (READ_REQUEST_OPS + 1))), READ_REQUEST_ETCDS);
    }
}

static void a_txn_is_serializable_if_all_its_ranges_are(void **state)
{
    (void)state;
    assert_true(is_serializable(belfry_bytes_of("", 0)));
    assert_true(is_serializable(BYTES(COMPARE_C)));
    assert_true(is_serializable(BYTES(SUCCESS_SS, FAILURE_FS)));
    assert_false(is_serializable(BYTES(SUCCESS_S, FAILURE_FS)));
    assert_false(is_serializable(BYTES(SUCCESS_SS, FAILURE_F)));
}

static void all_ranges_of_keys_are_walked_in_a_copy(void **state)
{
    (void)state;
    static char text[64];
    char *to = text, keys[8] = "";
    struct read_request request, copy;
    uint8_t message[] = {FAILURE_F, SUCCESS_S, COMPARE_C, SUCCESS_SS};
    struct belfry_bytes bytes = belfry_bytes_of(message, sizeof(message));
    assert_int_equal(read_request_read(READ_REQUEST_TXN, bytes, &request), READ_REQUEST_FITTING);
    copy = read_request_pack(&request, &to);
    assert_int_equal(to - text, read_request_bytes(&request));
    memset(message, 0, sizeof(message));
    struct read_request_walk walk = {0};
    struct read_request_span span;
    while (read_request_next_span(&copy, &walk, &span))
        strncat(keys, span.key.data, span.key.len);
    assert_string_equal(keys, "cssf");
    assert_false(read_request_next_span(&copy, &walk, &span));
    assert_true(read_request_is_within(&copy, belfry_bytes_str("")));
    assert_false(read_request_is_within(&copy, belfry_bytes_str("s")));
}

static void a_range_has_one_range_of_keys(void **state)
{
    (void)state;
    static char text[64];
    char *to = text;
    struct read_request request;
    struct read_request_walk walk = {0};
    struct read_request_span span;
    assert_int_equal(read_request_read(READ_REQUEST_RANGE, BYTES(0x0a, 2, 'k', '1', 0x12, 2, 'k', '2'), &request),
                     READ_REQUEST_FITTING);
    request = read_request_pack(&request, &to);
    assert_true(read_request_next_span(&request, &walk, &span));
    assert_true(belfry_bytes_equal(span.key, belfry_bytes_str("k1")));
    assert_true(belfry_bytes_equal(span.range_end, belfry_bytes_str("k2")));
    assert_false(read_request_next_span(&request, &walk, &span));
    assert_true(read_request_is_within(&request, belfry_bytes_str("k1")));
    assert_false(read_request_is_within(&request, belfry_bytes_str("k2")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_reads_whatever_it_is),
        cmocka_unit_test(a_txn_reads_if_all_its_operations_do),
        cmocka_unit_test(a_txn_that_is_odd_is_left_to_etcd),
        cmocka_unit_test(operations_are_bounded),
        cmocka_unit_test(a_txn_is_serializable_if_all_its_ranges_are),
        cmocka_unit_test(all_ranges_of_keys_are_walked_in_a_copy),
        cmocka_unit_test(a_range_has_one_range_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
