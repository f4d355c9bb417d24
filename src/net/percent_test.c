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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_passes_unchanged),
        cmocka_unit_test(escapes_in_either_case_become_bytes),
        cmocka_unit_test(broken_escapes_stay_as_they_came),
        cmocka_unit_test(a_nul_is_never_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
