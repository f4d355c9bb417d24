/* src/kube/quote_test.c */
#include "kube/quote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "support/refuse.h"

static void plain_text_stays(void **state)
{
    (void)state;
    assert_string_equal(kube_quote(belfry_bytes_str("")).text, "");
    assert_string_equal(kube_quote(belfry_bytes_str("a b\xC3\xA4")).text, "a b\xC3\xA4");
}

static void what_is_no_text_becomes_a_question_mark(void **state)
{
    (void)state;
    assert_string_equal(kube_quote(belfry_bytes_of("a\0\n\x7f\xff\xC3", 6)).text, "a?????");
}

static void long_text_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        char text[300];
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 <= sizeof(text); i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 3);
        struct kube_quote quote = kube_quote(belfry_bytes_of(text, shift + (sizeof(text) - shift) / 3 * 3));
        size_t len = strlen(quote.text);
        assert_true(len < KUBE_QUOTE_MAX && len > KUBE_QUOTE_MAX - 7);
        assert_string_equal(quote.text + len - 3, "...");
        assert_true(belfry_utf8_valid(quote.text, len));
    }
}

static void text_that_just_fits_is_not_cut(void **state)
{
    (void)state;
    char text[KUBE_QUOTE_MAX];
    memset(text, 'x', sizeof(text));
    assert_int_equal(strlen(kube_quote(belfry_bytes_of(text, KUBE_QUOTE_MAX - 4)).text), KUBE_QUOTE_MAX - 4);
    assert_non_null(strstr(kube_quote(belfry_bytes_of(text, KUBE_QUOTE_MAX - 3)).text, "..."));
}

static void nothing_is_allocated(void **state)
{
    (void)state;
    refuse_begin(0);
    struct kube_quote quote = kube_quote(belfry_bytes_str("a"));
    assert_false(refuse_end());
    assert_string_equal(quote.text, "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_stays),
        cmocka_unit_test(what_is_no_text_becomes_a_question_mark),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(text_that_just_fits_is_not_cut),
        cmocka_unit_test(nothing_is_allocated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
