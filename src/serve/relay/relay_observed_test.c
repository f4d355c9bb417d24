/* src/serve/relay/relay_observed_test.c */
#include "serve/relay/relay_observed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

#define PERIOD_MS 10000
#define END_MS    (1000 + 9000) /* nine tenths of a period after it began at 1,000 */

static struct relay_observed observed;

static int setup(void **state)
{
    (void)state;
    relay_observed_init(&observed);
    relay_observed_begin(&observed, 1000, PERIOD_MS);
    return 0;
}

static bool is_over(enum permit_auth auth, uint64_t now_ms)
{
    return relay_observed_is_over(&observed, auth, now_ms, PERIOD_MS);
}

static void a_call_of_another_kind_is_never_looked_at(void **state)
{
    (void)state;
    relay_observed_init(&observed);
    assert_int_equal(observed.look_ms, BELFRY_NEVER);
}

static void with_auth_off_it_goes_on_for_ever(void **state)
{
    (void)state;
    for (uint64_t now = 6000; now < 100 * PERIOD_MS; now = observed.look_ms) {
        assert_int_equal(observed.look_ms, now);
        assert_false(is_over(PERMIT_AUTH_OFF, now));
    }
}

static void with_auth_on_it_ends_within_a_period(void **state)
{
    (void)state;
    assert_false(is_over(PERMIT_AUTH_ON, 6000));
    assert_int_equal(observed.look_ms, END_MS);
    assert_false(is_over(PERMIT_AUTH_ON, END_MS - 1));
    assert_true(is_over(PERMIT_AUTH_ON, END_MS));
}

static void while_auth_is_unknown_it_is_looked_at_often_and_ends_in_time(void **state)
{
    (void)state;
    uint64_t now = 6000;
    for (; !is_over(PERMIT_AUTH_UNKNOWN, now); now = observed.look_ms)
        assert_in_range(observed.look_ms, now + 1, now + RELAY_OBSERVED_LOOK_MS);
    assert_int_equal(now, END_MS);
}

static void auth_that_is_turned_on_ends_it_a_period_after_it_was_off(void **state)
{
    (void)state;
    assert_false(is_over(PERMIT_AUTH_OFF, 6000));
    assert_false(is_over(PERMIT_AUTH_ON, END_MS));
    assert_true(is_over(PERMIT_AUTH_ON, 6000 + 9000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_call_of_another_kind_is_never_looked_at, setup),
        cmocka_unit_test_setup(with_auth_off_it_goes_on_for_ever, setup),
        cmocka_unit_test_setup(with_auth_on_it_ends_within_a_period, setup),
        cmocka_unit_test_setup(while_auth_is_unknown_it_is_looked_at_often_and_ends_in_time, setup),
        cmocka_unit_test_setup(auth_that_is_turned_on_ends_it_a_period_after_it_was_off, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
