/* src/base/utf8_test.c */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void characters_of_every_length_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t code;
    } cases[] = {{"a", 'a'},
                 {"\x7f", 0x7f},
                 {"\xc2\x80", 0x80},
                 {"\xdf\xbf", 0x7ff},
                 {"\xe0\xa0\x80", 0x800},
                 {"\xed\x9f\xbf", 0xd7ff},
                 {"\xee\x80\x80", 0xe000},
                 {"\xf0\x90\x80\x80", 0x10000},
                 {"\xf4\x8f\xbf\xbf", 0x10ffff}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t code = 0;
        size_t len = strlen(cases[i].text);
        assert_int_equal(belfry_utf8_next(cases[i].text, len, &code), len);
        assert_int_equal(code, cases[i].code);
        char again[BELFRY_UTF8_MAX];
        assert_int_equal(belfry_utf8_write(code, again), len);
        assert_memory_equal(again, cases[i].text, len);
        for (size_t cut = 0; cut < len; cut++)
            assert_int_equal(belfry_utf8_next(cases[i].text, cut, &code), 0);
    }
}

static void what_is_no_character_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\x80",
                                        "\xbf",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf8\x88\x80\x80",
                                        "\xff",
                                        "\xc2\x41",
                                        "\xe2\x82\x41"};
    uint32_t code;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(belfry_utf8_next(wrong[i], strlen(wrong[i]), &code), 0);
        assert_false(belfry_utf8_valid(wrong[i], strlen(wrong[i])));
    }
    static const char *const parts[] = {"\xc3",   "\xe2\x82",     "\xf0\x90\x80",
                                        "a\xc3(", "\xed\xbf\xbf", "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        assert_false(belfry_utf8_valid(parts[i], strlen(parts[i])));
    assert_true(belfry_utf8_valid("\xef\xbf\xbf plain", 9));
    assert_true(belfry_utf8_valid("", 0));
    assert_true(belfry_utf8_valid("a\0\xc3\xa9", 4));
    assert_false(belfry_utf8_valid("a\xc3", 2));
}

static void controls_are_those_of_c0_and_c1_and_those_that_turn_text(void **state)
{
    (void)state;
    assert_true(belfry_utf8_is_control(0) && belfry_utf8_is_control(0x1f) && belfry_utf8_is_control(0x7f));
    assert_true(belfry_utf8_is_control(0x80) && belfry_utf8_is_control(0x9f));
    static const uint32_t turning[] = {0x61c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2066, 0x2069};
    for (size_t i = 0; i < sizeof(turning) / sizeof(turning[0]); i++)
        assert_true(belfry_utf8_is_control(turning[i]));
    assert_false(belfry_utf8_is_control(0x200d) || belfry_utf8_is_control(0x202f) || belfry_utf8_is_control(0x206a));
    assert_false(belfry_utf8_is_control(' ') || belfry_utf8_is_control('~') || belfry_utf8_is_control(0xa0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_of_every_length_are_read),
        cmocka_unit_test(what_is_no_character_is_refused),
        cmocka_unit_test(controls_are_those_of_c0_and_c1_and_those_that_turn_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
