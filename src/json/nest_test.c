/* src/json/nest_test.c */
#include "json/nest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Where the value at the front of `text` ends, when it comes in pieces of `piece` bytes. */
static size_t end_of(const char *text, size_t piece)
{
    struct belfry_nest nest = {0};
    size_t at = 0, len = strlen(text);
    while (at < len) {
        size_t n = len - at < piece ? len - at : piece;
        size_t skipped = belfry_nest_skip(&nest, 0, belfry_bytes_of(text + at, n));
        at += skipped;
        if (belfry_nest_back(&nest, 0))
            return at;
        assert_int_equal(skipped, n);
    }
    return SIZE_MAX;
}

static void a_value_ends_with_its_last_bracket_or_quote(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t end;
    } cases[] = {
        {"{}", 2},
        {"[]]", 2},
        {"{\"a\":[1,{\"b\":\"]}\"}]}{", 20},
        {"\"\"x", 2},
        {"\"a\\\"b\"c", 6},
        {"\"a\\\\\"\"", 5},
        {"\"12345678901234567890\\\"12345678901234567890\"", 44},
        {"[\"\\u0022\",\"\\\\\\\"\"] ", 17},
        {"{\"a\"", SIZE_MAX},
        {"\"a\\", SIZE_MAX},
        {"[[[]]", SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t piece = 1; piece <= strlen(cases[i].text); piece++)
            assert_int_equal(end_of(cases[i].text, piece), cases[i].end);
    }
}

/* Eight bytes at a time is a trick with bits: each place of a quote and a backslash, beside each byte. */
static void no_byte_hides_a_quote_or_is_taken_for_one(void **state)
{
    (void)state;
    char text[24];
    for (size_t place = 0; place < 16; place++) {
        for (int byte = 0; byte < 256; byte++) {
            if (byte == '"' || byte == '\\')
                continue;
            struct belfry_nest nest = {.in = BELFRY_NEST_STRING};
            memset(text, byte, sizeof(text));
            assert_int_equal(belfry_nest_skip(&nest, 0, belfry_bytes_of(text, sizeof(text))), sizeof(text));
            assert_int_equal(nest.in, BELFRY_NEST_STRING);
            text[place] = '"';
            assert_int_equal(belfry_nest_skip(&nest, 0, belfry_bytes_of(text, sizeof(text))), place + 1);
            assert_true(belfry_nest_back(&nest, 0));
        }
    }
}

static void it_stops_at_the_floor_that_is_asked_for(void **state)
{
    (void)state;
    struct belfry_nest nest = {.depth = 1};
    struct belfry_bytes text = belfry_bytes_str("{\"a\":{}},3");
    assert_int_equal(belfry_nest_skip(&nest, 1, text), 8);
    assert_true(belfry_nest_back(&nest, 1));
}

static void depth_is_only_counted(void **state)
{
    (void)state;
    size_t depth = 1000000;
    char *text = malloc(2 * depth);
    assert_non_null(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    struct belfry_nest nest = {0};
    assert_int_equal(belfry_nest_skip(&nest, 0, belfry_bytes_of(text, 2 * depth)), 2 * depth);
    assert_true(belfry_nest_back(&nest, 0));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_ends_with_its_last_bracket_or_quote),
        cmocka_unit_test(no_byte_hides_a_quote_or_is_taken_for_one),
        cmocka_unit_test(it_stops_at_the_floor_that_is_asked_for),
        cmocka_unit_test(depth_is_only_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
