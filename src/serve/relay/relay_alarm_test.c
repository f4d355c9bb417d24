/* src/serve/relay/relay_alarm_test.c */
#include "serve/relay/relay_alarm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static uv_loop_t loop;
static struct relay_alarm wake;
static size_t n_rings;
static uint64_t first_ms; /* when it rang first */
static uint64_t again_ms; /* the deadline that the next ring sets; 0: none */

static void on_ring(struct relay_alarm *rang, uint64_t now_ms)
{
    assert_ptr_equal(rang, &wake);
    assert_int_equal(rang->due_ms, BELFRY_NEVER);
    if (n_rings++ == 0)
        first_ms = now_ms;
    if (again_ms != 0)
        relay_alarm_set(rang, again_ms, now_ms);
    again_ms = 0;
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    relay_alarm_init(&wake, &loop, on_ring);
    n_rings = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    uv_close((uv_handle_t *)&wake.timer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void without_a_deadline_it_does_not_ring(void **state)
{
    (void)state;
    relay_alarm_set(&wake, BELFRY_NEVER, belfry_clock_ms());
    assert_false(uv_is_active((uv_handle_t *)&wake.timer));
}

static void it_rings_for_the_earliest_deadline(void **state)
{
    (void)state;
    uint64_t now = belfry_clock_ms();
    relay_alarm_set(&wake, now + 3600000, now);
    relay_alarm_set(&wake, now, now);
    relay_alarm_set(&wake, now + 1800000, now);
    assert_int_equal(wake.due_ms, now);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_rings, 1);
    assert_int_equal(wake.due_ms, BELFRY_NEVER);
}

static void two_rings_are_not_close_to_each_other(void **state)
{
    (void)state;
    uint64_t now = belfry_clock_ms();
    relay_alarm_set(&wake, now, now);
    again_ms = now;
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_rings, 2);
    assert_true(wake.rang_ms >= first_ms + RELAY_ALARM_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_deadline_it_does_not_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(it_rings_for_the_earliest_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(two_rings_are_not_close_to_each_other, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
