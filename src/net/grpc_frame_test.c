/* src/net/grpc_frame_test.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/grpc_frame.h"
#include "support/refuse.h"

/* Two messages, the second compressed, and an empty one. */
static const char three[] = "\0\0\0\0\3abc"
                            "\1\0\0\0\2de"
                            "\0\0\0\0\0";
#define THREE_BYTES (sizeof(three) - 1)

/* Feeds `three` in two pieces and checks what comes out. */
static void check_cut_at(size_t at)
{
    struct belfry_grpc_frame frame;
    belfry_grpc_frame_init(&frame);
    static const char *const expected[] = {"abc", "de", ""};
    size_t n = 0;
    for (int half = 0; half < 2; half++) {
        struct belfry_bytes in = half == 0 ? belfry_bytes_of(three, at) : belfry_bytes_of(three + at, THREE_BYTES - at);
        while (in.len > 0) {
            struct belfry_blob *blob;
            bool compressed;
            assert_int_equal(belfry_grpc_frame_feed(&frame, &in, 3, &blob, &compressed), BELFRY_OK);
            if (blob == NULL) {
                assert_int_equal(in.len, 0);
                continue;
            }
            assert_true(n < 3);
            assert_true(belfry_bytes_equal(belfry_blob_bytes(blob), belfry_bytes_str(expected[n])));
            assert_int_equal(compressed, n == 1);
            n++;
            belfry_blob_unref(blob);
        }
    }
    assert_int_equal(n, 3);
    assert_false(belfry_grpc_frame_inside(&frame));
    belfry_grpc_frame_fini(&frame);
}

static void messages_cut_anywhere_are_put_together_again(void **state)
{
    (void)state;
    for (size_t at = 0; at <= THREE_BYTES; at++)
        check_cut_at(at);
}

static void a_length_over_the_limit_is_refused_before_its_bytes_come(void **state)
{
    (void)state;
    struct belfry_grpc_frame frame;
    belfry_grpc_frame_init(&frame);
    struct belfry_blob *blob;
    bool compressed;
    struct belfry_bytes in = belfry_bytes_of("\0\0\0\0\4", 5);
    assert_int_equal(belfry_grpc_frame_feed(&frame, &in, 3, &blob, &compressed), BELFRY_ERR_TOO_LARGE);
    belfry_grpc_frame_fini(&frame);
}

static void an_unknown_flag_is_refused_at_once(void **state)
{
    (void)state;
    struct belfry_grpc_frame frame;
    belfry_grpc_frame_init(&frame);
    struct belfry_blob *blob;
    bool compressed;
    struct belfry_bytes in = belfry_bytes_of("\2", 1);
    assert_int_equal(belfry_grpc_frame_feed(&frame, &in, 3, &blob, &compressed), BELFRY_ERR_PROTOCOL);
    belfry_grpc_frame_fini(&frame);
}

static void an_announced_length_reserves_no_more_than_a_little(void **state)
{
    (void)state;
    struct belfry_grpc_frame frame;
    belfry_grpc_frame_init(&frame);
    struct belfry_blob *blob;
    bool compressed;
    struct belfry_bytes in = belfry_bytes_of("\0\x7f\xff\xff\xff.", 6);
    assert_int_equal(belfry_grpc_frame_feed(&frame, &in, UINT32_MAX, &blob, &compressed), BELFRY_OK);
    assert_null(blob);
    assert_int_equal(belfry_grpc_frame_need(&frame), 0x7fffffff);
    assert_true(belfry_blob_len(frame.blob) <= 1024);
    belfry_grpc_frame_fini(&frame);
}

static enum belfry_err growing_scenario(void)
{
    struct belfry_grpc_frame frame;
    belfry_grpc_frame_init(&frame);
    struct belfry_blob *blob = NULL;
    bool compressed;
    static char zeroes[3000];
    struct belfry_bytes in = belfry_bytes_of("\0\0\0\x20\0", 5); /* 8,192 bytes follow */
    enum belfry_err err = belfry_grpc_frame_feed(&frame, &in, 10000, &blob, &compressed);
    for (size_t left = 8192; err == BELFRY_OK && left > 0;) {
        size_t n = left < sizeof(zeroes) ? left : sizeof(zeroes);
        in = belfry_bytes_of(zeroes, n);
        err = belfry_grpc_frame_feed(&frame, &in, 10000, &blob, &compressed);
        left -= n;
    }
    if (err == BELFRY_OK)
        assert_int_equal(belfry_blob_len(blob), 8192);
    belfry_blob_unref(blob);
    belfry_grpc_frame_fini(&frame);
    return err;
}

static void refused_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(growing_scenario) >= 2);
}

static void a_body_of_one_message_is_told_from_others(void **state)
{
    (void)state;
    static const char one[] = {0, 0, 0, 0, 2, 'a', 'b'}, packed[] = {1, 0, 0, 0, 2, 'a', 'b'};
    struct belfry_bytes message = belfry_grpc_frame_only(belfry_bytes_of(one, sizeof(one)));
    assert_true(belfry_bytes_equal(message, belfry_bytes_str("ab")));
    assert_null(belfry_grpc_frame_only(belfry_bytes_of(one, sizeof(one) - 1)).data);
    assert_null(belfry_grpc_frame_only(belfry_bytes_of(one, 4)).data);
    assert_null(belfry_grpc_frame_only(belfry_bytes_of(packed, sizeof(packed))).data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_cut_anywhere_are_put_together_again),
        cmocka_unit_test(a_length_over_the_limit_is_refused_before_its_bytes_come),
        cmocka_unit_test(an_unknown_flag_is_refused_at_once),
        cmocka_unit_test(an_announced_length_reserves_no_more_than_a_little),
        cmocka_unit_test(a_body_of_one_message_is_told_from_others),
        cmocka_unit_test(refused_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
