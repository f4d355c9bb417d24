/* src/server/inbound_pongs_test.c */
#include "server/inbound_pongs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

#define PONGS 3

static uv_loop_t loop;
static struct inbound_pongs pongs;
static struct inbound_pong all[PONGS];
static uint64_t paid_ms[PONGS];
static unsigned n_paid, n_closed;

static void on_due(struct inbound_pong *pong)
{
    assert_true(belfry_list_empty(&pong->node));
    paid_ms[pong - all] = belfry_clock_ms();
    n_paid++;
}

static void on_closed(uv_handle_t *handle)
{
    assert_ptr_equal(handle->data, &n_closed);
    n_closed++;
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    inbound_pongs_init(&pongs, &loop, on_due);
    for (size_t i = 0; i < PONGS; i++)
        belfry_list_init(&all[i].node);
    memset(paid_ms, 0, sizeof(paid_ms));
    n_paid = n_closed = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    inbound_pongs_close(&pongs, on_closed, &n_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_closed, 1);
    return uv_loop_close(&loop);
}

static void on_awake(uv_timer_t *timer)
{
    (void)timer;
}

/* Lets the loop run until so many were paid, or for as long. */
static void run_until(unsigned n, uint64_t ms)
{
    uv_timer_t awake;
    uint64_t until = belfry_clock_ms() + ms;
    uv_timer_init(&loop, &awake);
    uv_timer_start(&awake, on_awake, 1, 1);
    while (n_paid < n && belfry_clock_ms() < until)
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&awake, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void each_waits_for_its_time(void **state)
{
    (void)state;
    uint64_t began = belfry_clock_ms();
    inbound_pongs_add(&pongs, &all[0], began);
    inbound_pongs_add(&pongs, &all[1], began + 20);
    inbound_pongs_add(&pongs, &all[0], began + 30); /* keeps its time */
    run_until(2, 1000);
    assert_true(paid_ms[0] <= paid_ms[1]);
    assert_true(paid_ms[0] >= began + INBOUND_PONGS_MS && paid_ms[1] >= began + 20 + INBOUND_PONGS_MS);
    inbound_pongs_add(&pongs, &all[2], belfry_clock_ms());
    run_until(3, 1000);
    assert_int_equal(n_paid, 3);
}

static void one_that_was_taken_out_is_not_due(void **state)
{
    (void)state;
    inbound_pongs_add(&pongs, &all[0], belfry_clock_ms());
    inbound_pongs_add(&pongs, &all[1], belfry_clock_ms());
    belfry_list_remove(&all[0].node);
    run_until(2, 3 * INBOUND_PONGS_MS);
    assert_int_equal(n_paid, 1);
    assert_int_equal(paid_ms[0], 0);
}

static void the_loop_ends_without_them(void **state)
{
    (void)state;
    inbound_pongs_add(&pongs, &all[0], belfry_clock_ms());
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(n_paid, 0);
    belfry_list_remove(&all[0].node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_waits_for_its_time, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_taken_out_is_not_due, setup, teardown),
        cmocka_unit_test_setup_teardown(the_loop_ends_without_them, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
