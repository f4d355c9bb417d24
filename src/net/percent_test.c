/* src/net/percent_test.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/percent.h"

static void assert_decodes(const char *in, const char *expected)
{
    char out[64];
    assert_int_equal(belfry_percent_decode(belfry_bytes_str(in), out), strlen(expected));
    assert_string_equal(out, expected);
}

static void plain_text_passes_unchanged(void **state)
{
    (void)state;
    assert_decodes("", "");
    assert_decodes("etcdserver: no leader", "etcdserver: no leader");
}

static void escapes_in_either_case_become_bytes(void **state)
{
    (void)state;
    assert_decodes("100%25", "100%");
    assert_decodes("%e2%82%AC", "\xe2\x82\xac");
    assert_decodes("a%0Ab", "a\nb");
}

static void broken_escapes_stay_as_they_came(void **state)
{
    (void)state;
    assert_decodes("%", "%");
    assert_decodes("50%2", "50%2");
    assert_decodes("%zz%4", "%zz%4");
    assert_decodes("%%41", "%A");
    assert_decodes("%4g", "%4g");
}

static void a_nul_is_never_made(void **state)
{
    (void)state;
    assert_decodes("a%00b", "a%00b");
}

static void assert_encodes(struct belfry_bytes in, const char *expected)
{
    char out[800];
    assert_int_equal(belfry_percent_encode(in, out), strlen(expected));
    assert_string_equal(out, expected);
}

static void text_is_encoded_where_it_must_be(void **state)
{
    (void)state;
    assert_encodes(belfry_bytes_str(""), "");
    assert_encodes((struct belfry_bytes){0}, "");
    assert_encodes(belfry_bytes_str("belfry: not ready: ~"), "belfry: not ready: ~");
    assert_encodes(belfry_bytes_str("100% \n\x7f"), "100%25 %0A%7F");
    assert_encodes(belfry_bytes_str("\xe2\x82\xac"), "%E2%82%AC");
    assert_encodes(belfry_bytes_of("a\0b", 3), "a%00b");
}

static void what_was_encoded_decodes_to_the_same(void **state)
{
    (void)state;
    char all[255], encoded[3 * sizeof(all) + 1], decoded[sizeof(encoded)];
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (char)(i + 1); /* a NUL is not decoded */
    size_t len = belfry_percent_encode(belfry_bytes_of(all, sizeof(all)), encoded);
    assert_int_equal(belfry_percent_decode(belfry_bytes_of(encoded, len), decoded), sizeof(all));
    assert_memory_equal(decoded, all, sizeof(all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_passes_unchanged),      cmocka_unit_test(escapes_in_either_case_become_bytes),
        cmocka_unit_test(broken_escapes_stay_as_they_came), cmocka_unit_test(a_nul_is_never_made),
        cmocka_unit_test(text_is_encoded_where_it_must_be), cmocka_unit_test(what_was_encoded_decodes_to_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
