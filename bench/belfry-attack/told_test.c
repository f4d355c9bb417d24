/* bench/belfry-attack/told_test.c */
#include "told.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void texts_that_differ_in_a_number_are_one(void **state)
{
    (void)state;
    struct told told = {0};
    told_add(&told, "GOAWAY ENHANCE_YOUR_CALM: %d bytes", 262144);
    told_add(&told, "GOAWAY ENHANCE_YOUR_CALM: %d bytes", 1048576);
    told_add(&told, "GOAWAY PROTOCOL_ERROR");
    assert_int_equal(told.n_rows, 2);
    assert_string_equal(told.rows[0].text, "GOAWAY ENHANCE_YOUR_CALM: # bytes");
    assert_int_equal(told.rows[0].count, 2);
}

static void codes_stay_apart(void **state)
{
    (void)state;
    struct told told = {0};
    for (int status = 400; status < 404; status++)
        told_add(&told, "HTTP %d", status);
    told_add(&told, "grpc-status %d", 8);
    told_add(&told, "grpc-status %d", 14);
    assert_int_equal(told.n_rows, 6);
    assert_string_equal(told.rows[3].text, "HTTP 403");
}

static void too_many_texts_are_counted_together(void **state)
{
    (void)state;
    struct told told = {0};
    for (int i = 0; i < TOLD_ROWS + 3; i++)
        told_add(&told, "%c", 'A' + i);
    assert_int_equal(told.n_rows, TOLD_ROWS);
    assert_int_equal(told.others, 3);
}

static void what_is_written_is_json(void **state)
{
    (void)state;
    struct told told = {0};
    char *text = NULL;
    size_t len = 0;
    told_add(&told, "a \"quoted\" \\ text\n");
    told_add(&told, "another");
    told_add(&told, "another");
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    told_write(&told, out);
    fclose(out);
    assert_string_equal(text, "{\"a .quoted. . text.\": 1, \"another\": 2}");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_differ_in_a_number_are_one),
        cmocka_unit_test(codes_stay_apart),
        cmocka_unit_test(too_many_texts_are_counted_together),
        cmocka_unit_test(what_is_written_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
