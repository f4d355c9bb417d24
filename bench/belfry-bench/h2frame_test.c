/* bench/belfry-bench/h2frame_test.c */
#include "h2frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct belfry_buf
    wire; /* DATA of stream 1 with "abc", SETTINGS without a payload, the largest DATA of stream 5 */

static int write_frames(void **state)
{
    static char filling[H2FRAME_MAX];
    (void)state;
    memset(filling, 'x', sizeof(filling));
    h2frame_put_head(&wire, H2FRAME_DATA, H2FRAME_END_STREAM, 1, 3);
    assert_int_equal(belfry_buf_append(&wire, "abc", 3), BELFRY_OK);
    h2frame_put_head(&wire, H2FRAME_SETTINGS, 0, 0, 0);
    h2frame_put_head(&wire, H2FRAME_DATA, 0, 5, sizeof(filling));
    assert_int_equal(belfry_buf_append(&wire, filling, sizeof(filling)), BELFRY_OK);
    return 0;
}

static int free_frames(void **state)
{
    (void)state;
    belfry_buf_fini(&wire);
    return 0;
}

static void check_frame(const struct h2frame *frame, size_t number)
{
    static const struct h2frame expected[] = {{.type = H2FRAME_DATA, .flags = H2FRAME_END_STREAM, .id = 1, .len = 3},
                                              {.type = H2FRAME_SETTINGS},
                                              {.type = H2FRAME_DATA, .id = 5, .len = H2FRAME_MAX}};
    assert_int_equal(frame->type, expected[number].type);
    assert_int_equal(frame->flags, expected[number].flags);
    assert_int_equal(frame->id, expected[number].id);
    assert_int_equal(frame->len, expected[number].len);
    if (number == 0)
        assert_memory_equal(frame->payload, "abc", 3);
    if (number == 2)
        assert_int_equal(frame->payload[H2FRAME_MAX - 1], 'x');
}

static void frames_are_cut_however_the_bytes_come(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 2, 8, 9, 10, 12, 13, 21, 4096, 1 << 20};
    struct belfry_bytes all = belfry_buf_bytes(&wire);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct h2frame_cutter cutter = {0};
        size_t n_frames = 0;
        for (size_t at = 0; at < all.len; at += pieces[i]) {
            size_t len = all.len - at < pieces[i] ? all.len - at : pieces[i];
            struct belfry_bytes piece = belfry_bytes_of(all.data + at, len);
            struct h2frame frame;
            while (h2frame_cut(&cutter, &piece, &frame) == H2FRAME_CUT)
                check_frame(&frame, n_frames++);
            assert_int_equal(piece.len, 0);
        }
        assert_int_equal(n_frames, 3);
        h2frame_cutter_fini(&cutter);
    }
}

static void a_frame_that_lies_whole_is_used_in_place(void **state)
{
    (void)state;
    struct h2frame_cutter cutter = {0};
    struct belfry_bytes bytes = belfry_buf_bytes(&wire);
    struct h2frame frame;
    assert_int_equal(h2frame_cut(&cutter, &bytes, &frame), H2FRAME_CUT);
    assert_ptr_equal(frame.payload, wire.data + H2FRAME_HEAD);
    assert_null(cutter.start.data);
}

static void a_frame_over_the_maximum_is_too_long(void **state)
{
    (void)state;
    static char data[H2FRAME_HEAD + H2FRAME_MAX + 1] = {0, 0x40, 1};
    static const size_t pieces[] = {1, 9, sizeof(data)};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct h2frame_cutter cutter = {0};
        struct h2frame frame;
        enum h2frame_next next = H2FRAME_INCOMPLETE;
        size_t at = 0;
        for (; next == H2FRAME_INCOMPLETE && at < sizeof(data); at += pieces[i]) {
            struct belfry_bytes piece = belfry_bytes_of(data + at, pieces[i]);
            next = h2frame_cut(&cutter, &piece, &frame);
        }
        assert_int_equal(next, H2FRAME_TOO_LONG);
        assert_true(pieces[i] > H2FRAME_HEAD || at == H2FRAME_HEAD); /* its head is enough to know */
        h2frame_cutter_fini(&cutter);
    }
}

static void the_reserved_bit_is_no_part_of_the_stream(void **state)
{
    (void)state;
    struct h2frame_cutter cutter = {0};
    struct belfry_bytes bytes = belfry_bytes_of("\0\0\0\x8\0\x80\0\0\x3", H2FRAME_HEAD);
    struct h2frame frame;
    assert_int_equal(h2frame_cut(&cutter, &bytes, &frame), H2FRAME_CUT);
    assert_int_equal(frame.id, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_cut_however_the_bytes_come),
        cmocka_unit_test(a_frame_that_lies_whole_is_used_in_place),
        cmocka_unit_test(a_frame_over_the_maximum_is_too_long),
        cmocka_unit_test(the_reserved_bit_is_no_part_of_the_stream),
    };
    return cmocka_run_group_tests(tests, write_frames, free_frames);
}
