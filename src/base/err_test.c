/* src/base/err_test.c */
#include "base/err.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_code_has_its_own_name_and_a_sentence(void **state)
{
    (void)state;
    for (int a = 0; a < BELFRY_ERR_END_; a++) {
        assert_non_null(belfry_errname(a)); /* a hole in the numbers would be NULL */
        assert_non_null(belfry_strerror(a));
        assert_true(strlen(belfry_strerror(a)) > 0);
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(belfry_errname(a), belfry_errname(b));
            assert_string_not_equal(belfry_strerror(a), belfry_strerror(b));
        }
    }
}

static void names_are_those_of_the_header(void **state)
{
    (void)state;
    assert_string_equal(belfry_errname(BELFRY_OK), "BELFRY_OK");
    assert_string_equal(belfry_errname(BELFRY_ERR_COMPACTED), "BELFRY_ERR_COMPACTED");
    assert_string_equal(belfry_strerror(BELFRY_ERR_NOMEM), "out of memory");
}

/* Values are ABI: a row put in the middle or taken out shows here. */
static void published_values_never_change(void **state)
{
    (void)state;
    assert_int_equal(BELFRY_OK, 0);
    assert_int_equal(BELFRY_ERR_AGAIN, 4);
    assert_int_equal(BELFRY_ERR_PROTOCOL, 11);
    assert_int_equal(BELFRY_ERR_UNCERTAIN, 19);
    assert_int_equal(BELFRY_ERR_FUTURE, 22);
}

static void unknown_codes_have_an_answer_too(void **state)
{
    (void)state;
    static const int strange[] = {-1, BELFRY_ERR_END_, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
        assert_string_equal(belfry_strerror(strange[i]), "unknown error");
        assert_string_equal(belfry_errname(strange[i]), "BELFRY_ERR_?");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_own_name_and_a_sentence),
        cmocka_unit_test(names_are_those_of_the_header),
        cmocka_unit_test(published_values_never_change),
        cmocka_unit_test(unknown_codes_have_an_answer_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
