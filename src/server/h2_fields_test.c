/* src/server/h2_fields_test.c */
#include "server/h2_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "support/refuse.h"

static void a_copy_outlives_what_it_was_made_of(void **state)
{
    (void)state;
    char name[] = "grpc-status", value[] = "13";
    const struct belfry_http_field fields[] = {{belfry_bytes_str(name), belfry_bytes_str(value)},
                                               {belfry_bytes_str("grpc-message"), {0}}};
    struct h2_fields *copy = h2_fields_copy(fields, 2);
    assert_non_null(copy);
    memset(name, '?', sizeof(name));
    memset(value, '?', sizeof(value));
    assert_int_equal(copy->n, 2);
    assert_int_equal(copy->list[0].namelen, 11);
    assert_memory_equal(copy->list[0].name, "grpc-status", 11);
    assert_int_equal(copy->list[0].valuelen, 2);
    assert_memory_equal(copy->list[0].value, "13", 2);
    assert_memory_equal(copy->list[1].name, "grpc-message", 12);
    assert_int_equal(copy->list[1].valuelen, 0);
    free(copy);
}

static enum belfry_err copy_one(void)
{
    const struct belfry_http_field field = {belfry_bytes_str("a"), belfry_bytes_str("b")};
    struct h2_fields *copy = h2_fields_copy(&field, 1);
    free(copy);
    return copy != NULL ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static void without_memory_there_is_no_copy(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(copy_one), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_outlives_what_it_was_made_of),
        cmocka_unit_test(without_memory_there_is_no_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
