/* src/serve/relay/grpc_walk_test.c */
#include "serve/relay/grpc_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BYTES(literal) belfry_bytes_of(literal, sizeof(literal) - 1)

static void messages_are_counted_however_they_are_cut(void **state)
{
    (void)state;
    static const char body[] = "\0\0\0\0\3abc\1\0\0\0\0\0\0\0\1\2" /* of 258 bytes, which follow */
                               "................................................................................"
                               "................................................................................"
                               "................................................................................"
                               "..................";
    size_t len = sizeof(body) - 1;
    assert_int_equal(len, 8 + 5 + 5 + 258);
    for (size_t step = 1; step <= len; step++) {
        struct grpc_walk walk = {0};
        for (size_t at = 0; at < len; at += step) {
            assert_true(grpc_walk_inside(&walk) == (at != 0 && at != 8 && at != 13));
            grpc_walk_pass(&walk, belfry_bytes_of(body + at, len - at < step ? len - at : step));
        }
        assert_int_equal(walk.whole, 3);
        assert_false(grpc_walk_inside(&walk));
    }
}

static void a_message_is_begun_with_the_first_byte_of_its_prefix(void **state)
{
    (void)state;
    struct grpc_walk walk = {0};
    grpc_walk_pass(&walk, BYTES("\0"));
    assert_true(grpc_walk_inside(&walk));
    grpc_walk_pass(&walk, BYTES("\xff\xff\xff\xff"
                                "a"));
    assert_true(grpc_walk_inside(&walk));
    assert_int_equal(walk.left, 0xfffffffe);
    assert_int_equal(walk.whole, 0);
}

static void nothing_passed_is_nothing_begun(void **state)
{
    (void)state;
    struct grpc_walk walk = {0};
    grpc_walk_pass(&walk, (struct belfry_bytes){0});
    assert_false(grpc_walk_inside(&walk));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_counted_however_they_are_cut),
        cmocka_unit_test(a_message_is_begun_with_the_first_byte_of_its_prefix),
        cmocka_unit_test(nothing_passed_is_nothing_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
