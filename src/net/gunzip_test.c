/* src/net/gunzip_test.c: members whole and cut, and memory that is refused. */
#include "net/gunzip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "support/gzipped.h"
#include "support/refuse.h"

static uint8_t packed[200000], plain[100000];

/* Unpacks `in`, given `piece` bytes at a time. */
static enum belfry_err unpack(struct belfry_bytes in, size_t piece, size_t most, struct belfry_buf *out,
                              bool *out_whole)
{
    struct belfry_gunzip *gunzip;
    enum belfry_err err = belfry_gunzip_create(most, &gunzip);
    if (err != BELFRY_OK)
        return err;
    for (size_t at = 0; at < in.len && err == BELFRY_OK; at += piece) {
        struct belfry_bytes more = belfry_bytes_of(in.data + at, in.len - at < piece ? in.len - at : piece), bytes;
        do {
            err = belfry_gunzip_next(gunzip, &more, &bytes);
            if (err == BELFRY_OK && bytes.len > 0)
                err = belfry_buf_append(out, bytes.data, bytes.len);
        } while (err == BELFRY_OK && bytes.len > 0);
        assert_true(err != BELFRY_OK || more.len == 0);
    }
    *out_whole = belfry_gunzip_is_whole(gunzip);
    belfry_gunzip_destroy(gunzip);
    return err;
}

static void expect(struct belfry_bytes in, size_t piece, enum belfry_err err, bool is_whole,
                   struct belfry_bytes expected)
{
    struct belfry_buf out;
    bool whole;
    belfry_buf_init(&out);
    assert_int_equal(unpack(in, piece, sizeof(plain), &out, &whole), err);
    if (err == BELFRY_OK) {
        assert_int_equal(whole, is_whole);
        assert_true(belfry_bytes_equal(belfry_buf_bytes(&out), expected));
    }
    belfry_buf_fini(&out);
}

static void what_was_packed_comes_out_however_it_is_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(plain); i++)
        plain[i] = (uint8_t)(i * i >> 7);
    for (int level = 0; level <= 9; level += 3) {
        size_t n = gzipped(plain, sizeof(plain), level, packed, sizeof(packed));
        for (size_t piece = 1; piece <= n; piece = piece * 7 + 1)
            expect(belfry_bytes_of(packed, n), piece, BELFRY_OK, true, belfry_bytes_of(plain, sizeof(plain)));
        expect(belfry_bytes_of(packed, n), n, BELFRY_OK, true, belfry_bytes_of(plain, sizeof(plain)));
    }
}

static void members_that_follow_each_other_are_one_message(void **state)
{
    (void)state;
    size_t n = gzipped("one ", 4, 9, packed, sizeof(packed));
    n += gzipped("", 0, 9, packed + n, sizeof(packed) - n);
    n += gzipped("bell", 4, 9, packed + n, sizeof(packed) - n);
    for (size_t piece = 1; piece <= n; piece++)
        expect(belfry_bytes_of(packed, n), piece, BELFRY_OK, true, belfry_bytes_str("one bell"));
}

static void what_is_cut_off_is_not_whole(void **state)
{
    (void)state;
    size_t n = gzipped("one bell", 8, 0, packed, sizeof(packed));
    expect(belfry_bytes_of(packed, n - 1), 3, BELFRY_OK, false, belfry_bytes_str("one bell"));
    expect(belfry_bytes_of(packed, 12), 3, BELFRY_OK, false, belfry_bytes_str(""));
}

static void what_is_damaged_is_refused(void **state)
{
    (void)state;
    size_t n = gzipped("one bell", 8, 9, packed, sizeof(packed));
    packed[n] = 'x'; /* behind its end */
    expect(belfry_bytes_of(packed, n + 1), n + 1, BELFRY_OK, false, belfry_bytes_str("one bell"));
    packed[n + 1] = 'y';
    expect(belfry_bytes_of(packed, n + 2), n + 2, BELFRY_ERR_PROTOCOL, false, belfry_bytes_str(""));
    packed[n - 6] ^= 1; /* the checksum */
    expect(belfry_bytes_of(packed, n), n, BELFRY_ERR_PROTOCOL, false, belfry_bytes_str(""));
    expect(belfry_bytes_str("no gzip"), 7, BELFRY_ERR_PROTOCOL, false, belfry_bytes_str(""));
}

static void no_more_comes_out_than_is_allowed(void **state)
{
    (void)state;
    struct belfry_buf out;
    bool whole;
    memset(plain, 0, sizeof(plain));
    size_t n = gzipped(plain, sizeof(plain), 9, packed, sizeof(packed));
    belfry_buf_init(&out);
    assert_int_equal(unpack(belfry_bytes_of(packed, n), n, sizeof(plain) - 1, &out, &whole), BELFRY_ERR_TOO_LARGE);
    assert_true(belfry_buf_len(&out) < sizeof(plain));
    belfry_buf_fini(&out);
}

static enum belfry_err unpack_one(void)
{
    struct belfry_buf out;
    bool whole;
    belfry_buf_init(&out);
    size_t n = gzipped("one bell", 8, 9, packed, sizeof(packed));
    enum belfry_err err = unpack(belfry_bytes_of(packed, n), 4, 8, &out, &whole);
    belfry_buf_fini(&out);
    return err;
}

static void refused_memory_leaves_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(unpack_one) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_out_however_it_is_cut),
        cmocka_unit_test(members_that_follow_each_other_are_one_message),
        cmocka_unit_test(what_is_cut_off_is_not_whole),
        cmocka_unit_test(what_is_damaged_is_refused),
        cmocka_unit_test(no_more_comes_out_than_is_allowed),
        cmocka_unit_test(refused_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
