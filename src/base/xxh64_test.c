/* src/base/xxh64_test.c: the values that other implementations give, and what a check of rows relies on. */
#include "base/xxh64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t of(const char *text)
{
    return belfry_xxh64(0, belfry_bytes_str(text));
}

static void values_are_those_of_the_specification(void **state)
{
    (void)state;
    assert_true(of("") == 0xEF46DB3751D8E999u);
    assert_true(of("a") == 0xD24EC4F1A98C6E5Bu);
    assert_true(of("abc") == 0x44BC2CF5AD770999u);
    assert_true(of("Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1u);
    assert_true(of("The quick brown fox jumps over the lazy dog") == 0x0B242D361FDA71BCu);
    assert_true(of("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef") == 0x1AF3AC4760FE2F85u);
}

static void every_flipped_bit_changes_it(void **state)
{
    (void)state;
    for (size_t len = 1; len < 80; len++) {
        char bytes[80];
        memset(bytes, 'x', sizeof(bytes));
        uint64_t was = belfry_xxh64(5, belfry_bytes_of(bytes, len));
        for (size_t bit = 0; bit < 8 * len; bit++) {
            bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
            assert_true(belfry_xxh64(5, belfry_bytes_of(bytes, len)) != was);
            bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        }
        assert_true(belfry_xxh64(6, belfry_bytes_of(bytes, len)) != was);
        assert_true(belfry_xxh64(5, belfry_bytes_of(bytes, len - 1)) != was);
    }
}

static void bytes_at_any_address_give_the_same(void **state)
{
    (void)state;
    char *room = malloc(100 + 8);
    for (size_t shift = 0; shift < 8; shift++) {
        memset(room + shift, 'y', 100);
        char aligned[100];
        memset(aligned, 'y', 100);
        assert_true(belfry_xxh64(1, belfry_bytes_of(room + shift, 100)) ==
                    belfry_xxh64(1, belfry_bytes_of(aligned, 100)));
    }
    free(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_specification),
        cmocka_unit_test(every_flipped_bit_changes_it),
        cmocka_unit_test(bytes_at_any_address_give_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
