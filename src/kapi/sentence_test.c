/* src/kapi/sentence_test.c */
#include "kapi/sentence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "support/refuse.h"

static void assert_quoted(struct belfry_bytes foreign, const char *expected)
{
    char text[64];
    struct belfry_sentence sentence = belfry_sentence_begin(text, sizeof(text));
    belfry_sentence_quote(&sentence, foreign);
    assert_string_equal(text, expected);
}

static void foreign_text_is_made_fit_for_a_terminal(void **state)
{
    (void)state;
    assert_quoted(belfry_bytes_str("pods \"x\" not found"), "pods \"x\" not found");
    assert_quoted(belfry_bytes_str(" \r\n a\t\n b\v\fc "), "a b c ");
    assert_quoted(belfry_bytes_str("\x1b[31mred\x7f\x01"), "?[31mred??");
    assert_quoted(belfry_bytes_of("a\0b", 3), "a?b");
    assert_quoted(belfry_bytes_str("\xC2\x9b"
                                   "31m \xC2\xA0 \xC3\xA9"),
                  "?31m \xC2\xA0 \xC3\xA9");
    assert_quoted(belfry_bytes_str("\xff\xC3 \xE2\x82"), "?? ??");
}

static void what_does_not_fit_is_cut_between_characters(void **state)
{
    (void)state;
    char text[40];
    for (size_t cap = 1; cap <= sizeof(text); cap++) {
        memset(text, 'x', sizeof(text));
        struct belfry_sentence sentence = belfry_sentence_begin(text, cap);
        for (size_t i = 0; i < 20; i++)
            belfry_sentence_quote(&sentence, belfry_bytes_str("\xF0\x9F\x98\x80\xC3\xA9"));
        assert_true(strlen(text) < cap && belfry_utf8_valid(text, strlen(text)) && sentence.is_cut);
        assert_true(cap < 4 || strcmp(text + strlen(text) - 3, "...") == 0);
        assert_true(cap < 8 || text[strlen(text) - 4] != '.'); /* marked once */
    }
}

static void words_follow_words(void **state)
{
    (void)state;
    char text[32];
    struct belfry_sentence sentence = belfry_sentence_begin(text, sizeof(text));
    belfry_sentence_say(&sentence, "404");
    belfry_sentence_say(&sentence, ": ");
    sentence = belfry_sentence_resume(text, sizeof(text));
    belfry_sentence_quote(&sentence, belfry_bytes_str(" page not found\n"));
    belfry_sentence_trim(&sentence);
    assert_string_equal(text, "404: page not found");
    belfry_sentence_trim(&sentence);
    assert_string_equal(text, "404: page not found");
}

static void it_takes_no_memory(void **state)
{
    (void)state;
    refuse_begin(0);
    assert_quoted(belfry_bytes_str("a"), "a");
    assert_false(refuse_end());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_text_is_made_fit_for_a_terminal),
        cmocka_unit_test(what_does_not_fit_is_cut_between_characters),
        cmocka_unit_test(words_follow_words),
        cmocka_unit_test(it_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
