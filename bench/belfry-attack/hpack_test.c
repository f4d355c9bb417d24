/* bench/belfry-attack/hpack_test.c: what is written by hand, read by nghttp2. */
#include "hpack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

/* Reads a block, and writes its fields to `out` as "name=value;"; values over 20 bytes as their length. */
static void read_block(nghttp2_hd_inflater *inflater, struct belfry_buf *block, char *out, size_t size)
{
    struct belfry_bytes bytes = belfry_buf_bytes(block);
    const uint8_t *at = (const uint8_t *)bytes.data;
    size_t left = bytes.len, len = 0;
    int flags = 0;
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv nv;
        flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, at, left, 1);
        assert_true(n >= 0);
        at += n;
        left -= (size_t)n;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
            continue;
        int wrote = nv.valuelen > 20 ? snprintf(out + len, size - len, "%s=%zu;", nv.name, nv.valuelen)
                                     : snprintf(out + len, size - len, "%s=%s;", nv.name, nv.value);
        assert_true(wrote > 0 && (size_t)wrote < size - len);
        len += (size_t)wrote;
    }
    nghttp2_hd_inflate_end_headers(inflater);
    belfry_buf_fini(block);
}

static void a_call_is_six_bytes_from_the_second_on(void **state)
{
    (void)state;
    char first[256], second[256];
    struct belfry_buf block = {0};
    nghttp2_hd_inflater *inflater;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    hpack_call(&block, HPACK_KEEP, "/a.B/C");
    read_block(inflater, &block, first, sizeof(first));
    assert_string_equal(first, ":method=POST;:scheme=http;:path=/a.B/C;:authority=127.0.0.1;"
                               "content-type=application/grpc;te=trailers;");
    hpack_call_again(&block, 0);
    assert_int_equal(belfry_buf_len(&block), 6);
    read_block(inflater, &block, second, sizeof(second));
    assert_string_equal(first, second);
    nghttp2_hd_inflate_del(inflater);
}

static void a_field_of_the_table_is_named_by_one_byte(void **state)
{
    (void)state;
    char text[256], value[3000];
    struct belfry_buf block = {0};
    nghttp2_hd_inflater *inflater;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    memset(value, 'A', sizeof(value));
    hpack_call(&block, HPACK_KEEP, "/a.B/C");
    hpack_field(&block, HPACK_KEEP, "x-p", value, sizeof(value));
    read_block(inflater, &block, text, sizeof(text));
    hpack_call_again(&block, 1);
    hpack_entry(&block, HPACK_NEWEST);
    hpack_entry(&block, HPACK_NEWEST);
    assert_int_equal(belfry_buf_len(&block), 8);
    read_block(inflater, &block, text, sizeof(text));
    assert_non_null(strstr(text, "te=trailers;x-p=3000;x-p=3000;"));
    nghttp2_hd_inflate_del(inflater);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_six_bytes_from_the_second_on),
        cmocka_unit_test(a_field_of_the_table_is_named_by_one_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
