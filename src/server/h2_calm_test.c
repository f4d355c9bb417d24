/* src/server/h2_calm_test.c */
#include "server/h2_calm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct h2_calm calm;

static int setup(void **state)
{
    (void)state;
    h2_calm_init(&calm);
    return 0;
}

/* Spends for one stream after another; returns how many there was enough for. */
static size_t spend_all(uint64_t now_ms)
{
    size_t n = 0;
    while (h2_calm_spend(&calm, 1, now_ms))
        n++;
    return n;
}

static void a_burst_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(spend_all(1000000), H2_CALM_STREAMS);
    assert_int_equal(spend_all(1000000), 0);
}

static void it_fills_with_time(void **state)
{
    (void)state;
    spend_all(1000000);
    assert_int_equal(spend_all(1001000), H2_CALM_RATE);
    assert_int_equal(spend_all(1001005), H2_CALM_RATE / 200);
    assert_int_equal(spend_all(1001009), 0); /* four fifths of a stream are kept */
    assert_int_equal(spend_all(1001010), 1);
}

static void a_long_time_fills_it_and_no_more(void **state)
{
    (void)state;
    spend_all(1000000);
    assert_int_equal(spend_all(UINT64_MAX), H2_CALM_STREAMS);
}

static void one_event_costs_only_so_much(void **state)
{
    (void)state;
    for (size_t i = 0; i < H2_CALM_STREAMS / H2_CALM_MOST; i++)
        assert_true(h2_calm_spend(&calm, SIZE_MAX, 1000000));
    assert_false(h2_calm_spend(&calm, 1, 1000000));
    assert_true(h2_calm_spend(&calm, 0, 1000000)); /* nothing is always there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_burst_is_bounded, setup),
        cmocka_unit_test_setup(it_fills_with_time, setup),
        cmocka_unit_test_setup(a_long_time_fills_it_and_no_more, setup),
        cmocka_unit_test_setup(one_event_costs_only_so_much, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
