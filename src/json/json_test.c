/* src/json/json_test.c */
#include "json/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/refuse.h"

static void assert_wrote(struct belfry_buf *buf, const char *expected)
{
    assert_int_equal(belfry_buf_append(buf, "", 1), BELFRY_OK);
    assert_string_equal((const char *)buf->data + buf->start, expected);
    belfry_buf_fini(buf);
}

static void objects_arrays_and_commas_nest(void **state)
{
    (void)state;
    struct belfry_buf buf = {0};
    struct belfry_json json = belfry_json_begin(&buf);
    belfry_json_open(&json, NULL, '{');
    belfry_json_int(&json, "a", INT64_MIN);
    belfry_json_open(&json, "b", '[');
    belfry_json_open(&json, NULL, '{');
    belfry_json_close(&json, '}');
    belfry_json_uint(&json, NULL, UINT64_MAX);
    belfry_json_bool(&json, NULL, true);
    belfry_json_close(&json, ']');
    belfry_json_real(&json, "c", 0.25);
    belfry_json_bool(&json, "d", false);
    belfry_json_null(&json, "e");
    belfry_json_close(&json, '}');
    assert_int_equal(belfry_json_finish(&json), BELFRY_OK);
    assert_wrote(&buf, "{\"a\":-9223372036854775808,\"b\":[{},18446744073709551615,true],\"c\":0.25,\"d\":false,"
                       "\"e\":null}");
}

static void what_json_reserves_and_what_moves_a_terminal_is_escaped(void **state)
{
    (void)state;
    struct belfry_buf buf = {0};
    struct belfry_json json = belfry_json_begin(&buf);
    belfry_json_text(&json, NULL, belfry_bytes_of("\"\\/\b\f\n\r\t\0\x1b\x7f<\xc3\xa9\xf0\x9f\x94\x94", 18));
    assert_int_equal(belfry_json_finish(&json), BELFRY_OK);
    assert_wrote(&buf, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001b\\u007f<\xc3\xa9\xf0\x9f\x94\x94\"");
}

static void bytes_that_are_no_text_come_in_base64(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *expected;
    } rows[] = {
        {"\xff", 1, "\"k_b64\":\"/w==\""},         {"a\xff", 2, "\"k_b64\":\"Yf8=\""},
        {"ab\xff", 3, "\"k_b64\":\"YWL/\""},       {"\xc0\x80", 2, "\"k_b64\":\"wIA=\""},
        {"\xed\xa0\x80", 3, "\"k_b64\":\"7aCA\""}, {"\xf4\x90\x80\x80", 4, "\"k_b64\":\"9JCAgA==\""},
        {"\xe2\x82", 2, "\"k_b64\":\"4oI=\""},     {"\xf0\x80\x80\x80", 4, "\"k_b64\":\"8ICAgA==\""},
        {"\xe0\x80\x80", 3, "\"k_b64\":\"4ICA\""}, {"", 0, "\"k\":\"\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_buf buf = {0};
        struct belfry_json json = belfry_json_begin(&buf);
        belfry_json_text(&json, "k", belfry_bytes_of(rows[i].bytes, rows[i].len));
        assert_wrote(&buf, rows[i].expected);
    }
    struct belfry_buf buf = {0};
    struct belfry_json json = belfry_json_begin(&buf);
    belfry_json_text(&json, NULL, belfry_bytes_of("a\xff", 2));
    assert_wrote(&buf, "\"a\xEF\xBF\xBD\"");
}

static enum belfry_err scenario(void)
{
    struct belfry_buf buf = {0};
    struct belfry_json json = belfry_json_begin(&buf);
    belfry_json_open(&json, NULL, '[');
    for (int i = 0; i < 1000; i++)
        belfry_json_str(&json, NULL, "some text that makes it grow");
    belfry_json_close(&json, ']');
    enum belfry_err err = belfry_json_finish(&json);
    belfry_buf_fini(&buf);
    return err;
}

static void every_refused_allocation_is_told_at_the_end(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_arrays_and_commas_nest),
        cmocka_unit_test(what_json_reserves_and_what_moves_a_terminal_is_escaped),
        cmocka_unit_test(bytes_that_are_no_text_come_in_base64),
        cmocka_unit_test(every_refused_allocation_is_told_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
