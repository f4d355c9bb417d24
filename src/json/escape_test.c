/* src/json/escape_test.c */
#include "json/escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static const struct {
    const char *raw, *text;
} known[] = {
    {"", ""},
    {"items", "items"},
    {"\\u0069tems", "items"},
    {"item\\u0073", "items"},
    {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
    {"a\\u0026b", "a&b"},
    {"\\u00e9\\u00E9", "\xC3\xA9\xC3\xA9"},
    {"\\u20ac", "\xE2\x82\xAC"},
    {"\\ud83d\\ude00", "\xF0\x9F\x98\x80"},
    {"\\uD800\\uDC00\\uDBFF\\uDFFF", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"},
    {"\xC3\xA9", "\xC3\xA9"},
};

static const char *const broken[] = {
    "\\", "\\x", "\\u", "\\u12", "\\u12g4", "\\ud83d", "\\ude00a", "\\ud83d\\u0041", "\\ud83d\\ud83d", "\\ud83dxxxxxx"};

static void a_text_is_known_behind_its_escapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct belfry_bytes raw = belfry_bytes_str(known[i].raw);
        assert_true(belfry_escape_is(raw, known[i].text));
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
            assert_int_equal(belfry_escape_is(raw, known[k].text), strcmp(known[i].text, known[k].text) == 0);
    }
    assert_false(belfry_escape_is(belfry_bytes_str("\\u0069tem"), "items"));
    assert_false(belfry_escape_is(belfry_bytes_str("\\u0069temss"), "items"));
}

static void an_escape_becomes_what_it_means(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct belfry_buf buf;
        belfry_buf_init(&buf);
        assert_int_equal(belfry_escape_undo(belfry_bytes_str(known[i].raw), &buf), BELFRY_OK);
        assert_true(belfry_bytes_equal(belfry_buf_bytes(&buf), belfry_bytes_str(known[i].text)));
        belfry_buf_fini(&buf);
    }
}

static void what_is_no_escape_means_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct belfry_buf buf;
        belfry_buf_init(&buf);
        assert_int_equal(belfry_escape_undo(belfry_bytes_str(broken[i]), &buf), BELFRY_ERR_INVALID);
        assert_false(belfry_escape_is(belfry_bytes_str(broken[i]), broken[i]));
        belfry_buf_fini(&buf);
    }
}

static enum belfry_err undo(void)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = belfry_escape_undo(belfry_bytes_str("a"), &buf);
    if (err == BELFRY_OK)
        err = belfry_escape_undo(belfry_bytes_str("\\u20ac"), &buf);
    belfry_buf_fini(&buf);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(undo) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_known_behind_its_escapes),
        cmocka_unit_test(an_escape_becomes_what_it_means),
        cmocka_unit_test(what_is_no_escape_means_nothing),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
