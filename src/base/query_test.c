/* src/base/query_test.c */
#include "base/query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_pairs(const char *query, const char *expected)
{
    struct belfry_bytes rest = belfry_bytes_str(query), name, value;
    char seen[256] = "";
    while (belfry_query_next(&rest, &name, &value)) {
        strncat(seen, name.data, name.len);
        strcat(seen, ":");
        strncat(seen, value.data, value.len);
        strcat(seen, ";");
    }
    assert_string_equal(seen, expected);
}

static void pairs_are_taken_one_after_the_other(void **state)
{
    (void)state;
    assert_pairs("", "");
    assert_pairs("&&", "");
    assert_pairs("a=1&b=2", "a:1;b:2;");
    assert_pairs("&a&b=&=c&d==e&", "a:;b:;:c;d:=e;");
}

static void assert_decoded(const char *in, const char *expected, size_t len)
{
    char out[64];
    size_t n;
    assert_true(belfry_query_decode(belfry_bytes_str(in), out, &n));
    assert_int_equal(n, len);
    assert_memory_equal(out, expected, len);
}

static void escapes_are_decoded_and_broken_ones_are_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {"%", "a%2", "%zz", "%4g", "%%41"};
    char out[64];
    size_t n;
    assert_decoded("", "", 0);
    assert_decoded("/a+b%2Bc%2fd", "/a b+c/d", 8);
    assert_decoded("%00%fF", "\0\xff", 2);
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
        assert_false(belfry_query_decode(belfry_bytes_str(broken[i]), out, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_taken_one_after_the_other),
        cmocka_unit_test(escapes_are_decoded_and_broken_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
