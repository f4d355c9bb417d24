/* src/server/h2_head_test.c */
#include "server/h2_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static struct h2_head head;
static const char large[H2_HEAD_BYTES - H2_HEAD_OVERHEAD] = "";

static int teardown(void **state)
{
    (void)state;
    h2_head_clear(&head);
    return refuse_held() == 0 ? 0 : -1;
}

static enum belfry_err add(size_t value_len)
{
    return h2_head_add(&head, belfry_bytes_of("n", 1), belfry_bytes_of(large, value_len));
}

static void fields_are_kept_up_to_the_bound(void **state)
{
    (void)state;
    assert_int_equal(add(sizeof(large) - 1), BELFRY_OK);
    assert_false(h2_head_is_too_large(&head));
    assert_int_equal(head.bytes, H2_HEAD_BYTES);
    assert_int_equal(head.fields.n, 1);
}

static void of_a_larger_head_nothing_is_kept(void **state)
{
    (void)state;
    assert_int_equal(add(sizeof(large) - 1), BELFRY_OK);
    assert_int_equal(add(0), BELFRY_OK);
    assert_true(h2_head_is_too_large(&head));
    assert_int_equal(refuse_held(), 0);
    assert_int_equal(add(10), BELFRY_OK); /* it stays too large */
    assert_int_equal(refuse_held(), 0);
}

static void the_next_head_begins_anew(void **state)
{
    (void)state;
    head.is_open = true;
    assert_int_equal(add(sizeof(large) - 1), BELFRY_OK);
    assert_int_equal(add(0), BELFRY_OK);
    h2_head_clear(&head);
    assert_false(head.is_open);
    assert_false(h2_head_is_too_large(&head));
    assert_int_equal(add(10), BELFRY_OK);
    assert_int_equal(head.fields.n, 1);
}

static enum belfry_err add_some(void)
{
    enum belfry_err err = add(100);
    if (err == BELFRY_OK)
        err = add(1000);
    h2_head_clear(&head);
    return err;
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    assert_true(refuse_sweep(add_some) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(fields_are_kept_up_to_the_bound, teardown),
        cmocka_unit_test_teardown(of_a_larger_head_nothing_is_kept, teardown),
        cmocka_unit_test_teardown(the_next_head_begins_anew, teardown),
        cmocka_unit_test_teardown(without_memory_it_says_so, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
