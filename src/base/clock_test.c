/* src/base/clock_test.c: the clock as the suites see it (tests/support/steadyclock.c). */
#include "base/clock.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Without a look at the clock: to it that is the same as not being allowed to run. */
static void be_away(uint64_t ms)
{
    uint64_t until = cpu_ms() + ms;
    while (cpu_ms() < until)
        ;
}

static void it_goes_on_while_somebody_waits(void **state)
{
    (void)state;
    uint64_t began = belfry_clock_ms(), boot = belfry_clock_boot_ms();
    nanosleep(&(struct timespec){.tv_nsec = 40000000}, NULL);
    assert_in_range(belfry_clock_ms() - began, 39, 75);
    assert_int_equal(poll(NULL, 0, 40), 0);
    assert_in_range(belfry_clock_ms() - began, 79, 150);
    assert_in_range(belfry_clock_boot_ms() - boot, 79, 170);
}

static void it_stands_still_while_nobody_runs(void **state)
{
    (void)state;
    uint64_t began = belfry_clock_ms(), boot = belfry_clock_boot_ms();
    be_away(150);
    assert_in_range(belfry_clock_ms() - began, 0, 50);
    assert_in_range(belfry_clock_boot_ms() - boot, 0, 70);
}

static void a_timerfd_is_due_by_this_clock(void **state)
{
    (void)state;
    struct pollfd timer = {.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), .events = POLLIN};
    uint64_t began = belfry_clock_ms();
    assert_int_equal(timerfd_settime(timer.fd, 0, &(struct itimerspec){.it_value.tv_nsec = 100000000}, NULL), 0);
    be_away(150);
    assert_in_range(belfry_clock_ms() - began, 0, 50);
    assert_int_equal(poll(&timer, 1, 0), 0);
    assert_int_equal(poll(&timer, 1, 10000), 1);
    assert_in_range(belfry_clock_ms() - began, 99, 200);
    close(timer.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_on_while_somebody_waits),
        cmocka_unit_test(it_stands_still_while_nobody_runs),
        cmocka_unit_test(a_timerfd_is_due_by_this_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
