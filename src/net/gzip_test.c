/* src/net/gzip_test.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "net/gzip.h"
#include "support/refuse.h"

static size_t pack(const void *in, size_t len, uint8_t *out, size_t cap)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    uint8_t *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy, in, len);
    z.next_in = copy;
    z.avail_in = (uInt)len;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = cap - z.avail_out;
    deflateEnd(&z);
    free(copy);
    return n;
}

static void what_was_packed_comes_out(void **state)
{
    (void)state;
    uint8_t packed[256];
    size_t n = pack("one bell", 8, packed, sizeof(packed));
    struct belfry_blob *blob;
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), 100, &blob), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_blob_bytes(blob), belfry_bytes_str("one bell")));
    belfry_blob_unref(blob);
}

static void nothing_packed_comes_out_as_nothing(void **state)
{
    (void)state;
    uint8_t packed[256];
    size_t n = pack("", 0, packed, sizeof(packed));
    struct belfry_blob *blob;
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), 0, &blob), BELFRY_OK);
    assert_int_equal(belfry_blob_len(blob), 0);
    belfry_blob_unref(blob);
}

static void two_members_come_out_as_one(void **state)
{
    (void)state;
    uint8_t packed[512];
    size_t n = pack("one ", 4, packed, sizeof(packed));
    n += pack("bell", 4, packed + n, sizeof(packed) - n);
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
    size_t n = pack(plain, len, packed, sizeof(packed));
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
    size_t n = pack("one bell, heard by the whole town", 33, packed, sizeof(packed));
    struct belfry_blob *blob;
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, cut), 100, &blob), BELFRY_ERR_PROTOCOL);
    packed[n - 6] ^= 1; /* the checksum */
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_of(packed, n), 100, &blob), BELFRY_ERR_PROTOCOL);
    assert_int_equal(belfry_gzip_unpack(belfry_bytes_str("plain text"), 100, &blob), BELFRY_ERR_PROTOCOL);
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
    sweep_len = pack(plain, 50000, sweep_packed, sizeof(sweep_packed));
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
        cmocka_unit_test(refused_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
