/* bench/belfry-bench/put_time_test.c */
#include "put_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_time_of_a_put_is_read_back_from_its_value(void **state)
{
    (void)state;
    char value[PUT_TIME_BYTES + 3] = "xxxxxxxxxxxxxxxxxxxxxx";
    put_time_write(value, 1234567890123);
    assert_int_equal(put_time_read(belfry_bytes_of(value, sizeof(value))), 1234567890123);
    put_time_write(value, UINT64_MAX);
    assert_true(put_time_read(belfry_bytes_of(value, sizeof(value))) == UINT64_MAX);
    assert_int_equal(put_time_read(belfry_bytes_of(value, PUT_TIME_BYTES - 1)), 0);
    assert_int_equal(put_time_read(belfry_bytes_str("no time is in this value")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_time_of_a_put_is_read_back_from_its_value)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
