/* src/net/gzip_test.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/gzip.h"
#include "support/gzipped.h"
#include "support/refuse.h"

static void what_was_packed_comes_out(void **state)
{
    (void)state;
    uint8_t packed[256];
    size_t n = gzipped("one bell", 8, 9, packed, sizeof(packed));
    struct belfry_blob *blob;
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), 100, &blob), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_blob_bytes(blob), belfry_bytes_str("one bell")));
    belfry_blob_unref(blob);
}

static void nothing_packed_comes_out_as_nothing(void **state)
{
    (void)state;
    uint8_t packed[256];
    size_t n = gzipped("", 0, 9, packed, sizeof(packed));
    struct belfry_blob *blob;
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), 0, &blob), BELFRY_OK);
    assert_int_equal(belfry_blob_len(blob), 0);
    belfry_blob_unref(blob);
}

static void two_members_come_out_as_one(void **state)
{
    (void)state;
    uint8_t packed[512];
    size_t n = gzipped("one ", 4, 9, packed, sizeof(packed));
    n += gzipped("bell", 4, 9, packed + n, sizeof(packed) - n);
    struct belfry_blob *blob;
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), 8, &blob), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_blob_bytes(blob), belfry_bytes_str("one bell")));
    belfry_blob_unref(blob);
}

static void exactly_the_limit_passes_and_one_more_byte_does_not(void **state)
{
    (void)state;
    size_t len = 100000;
    uint8_t *plain = calloc(1, len);
    assert_non_null(plain);
    uint8_t packed[4096];
    size_t n = gzipped(plain, len, 9, packed, sizeof(packed));
    struct belfry_blob *blob;
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), len, &blob), BELFRY_OK);
    assert_int_equal(belfry_blob_len(blob), len);
    belfry_blob_unref(blob);
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), len - 1, &blob), BELFRY_ERR_TOO_LARGE);
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), 1, &blob), BELFRY_ERR_TOO_LARGE);
    free(plain);
}

static void damage_and_cuts_are_protocol_errors(void **state)
{
    (void)state;
    uint8_t packed[256];
    size_t n = gzipped("one bell, heard by the whole town", 33, 9, packed, sizeof(packed));
    struct belfry_blob *blob;
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, cut), 100, &blob), BELFRY_ERR_PROTOCOL);
    packed[n - 6] ^= 1; /* the checksum */
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), 100, &blob), BELFRY_ERR_PROTOCOL);
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_str("plain text"), 100, &blob), BELFRY_ERR_PROTOCOL);
}

static void as_much_of_the_front_comes_out_as_is_there(void **state)
{
    (void)state;
    uint8_t packed[256], front[8];
    size_t n = gzipped("one bell, heard by the whole town", 33, 9, packed, sizeof(packed)), out = 0, before = 0;
    for (size_t cut = 0; cut <= n; cut++) {
        assert_int_equal(belfry_gzip_front(belfry_bytes_of(packed, cut), front, sizeof(front), &out), BELFRY_OK);
        assert_in_range(out, before, sizeof(front));
        assert_memory_equal(front, "one bell", out);
        before = out;
    }
    assert_int_equal(out, sizeof(front));
    assert_int_equal(belfry_gzip_front(belfry_bytes_str("plain text"), front, sizeof(front), &out), BELFRY_OK);
    assert_int_equal(out, 0);
}

static uint8_t sweep_packed[4096];
static size_t sweep_len;

static enum belfry_err unpack_scenario(void)
{
    struct belfry_blob *blob = NULL;
    enum belfry_err err = belfry_gzip_unpack(belfry_bytes_of(sweep_packed, sweep_len), 1 << 20, &blob);
    if (err == BELFRY_OK)
        belfry_blob_unref(blob);
    return err;
}

static void refused_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    uint8_t *plain = calloc(1, 50000);
    assert_non_null(plain);
    sweep_len = gzipped(plain, 50000, 9, sweep_packed, sizeof(sweep_packed));
    free(plain);
    assert_true(refuse_sweep(unpack_scenario) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_out),
        cmocka_unit_test(nothing_packed_comes_out_as_nothing),
        cmocka_unit_test(two_members_come_out_as_one),
        cmocka_unit_test(exactly_the_limit_passes_and_one_more_byte_does_not),
        cmocka_unit_test(damage_and_cuts_are_protocol_errors),
        cmocka_unit_test(as_much_of_the_front_comes_out_as_is_there),
        cmocka_unit_test(refused_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
