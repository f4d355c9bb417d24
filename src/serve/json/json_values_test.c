/* src/serve/json/json_values_test.c */
#include "serve/json/json_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The values of a text that comes in pieces, each followed by a bar. */
static void expect(const char *text, const char *values)
{
    for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
        struct json_values cut;
        struct belfry_bytes value;
        char found[256] = "";
        json_values_init(&cut);
        for (size_t at = 0; at <= strlen(text); at += piece) {
            size_t n = strlen(text) - at < piece ? strlen(text) - at : piece;
            assert_int_equal(json_values_add(&cut, belfry_bytes_of(text + at, n)), BELFRY_OK);
            if (at + piece > strlen(text))
                json_values_end(&cut);
            while (json_values_first(&cut, &value)) {
                strncat(found, value.data, value.len);
                strcat(found, "|");
                json_values_take(&cut);
            }
        }
        assert_string_equal(found, values);
        json_values_fini(&cut);
    }
}

static void values_are_cut_out(void **state)
{
    (void)state;
    expect("", "");
    expect(" \r\n\t", "");
    expect("{}", "{}|");
    expect("{}{}", "{}|{}|");
    expect(" {\"a\":[1,{\"b\":\"}\\\"\"}]} \n[2]\"x\" ", "{\"a\":[1,{\"b\":\"}\\\"\"}]}|[2]|\"x\"|");
    expect("12 true{}null", "12|true|{}|null|");
}

static void what_is_no_value_is_given_too(void **state)
{
    (void)state;
    expect("{\"a\":1", "{\"a\":1|");
    expect("}{}", "}|{}|");
    expect("//", "/|/|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_cut_out),
        cmocka_unit_test(what_is_no_value_is_given_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
