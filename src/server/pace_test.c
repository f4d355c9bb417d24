/* src/server/pace_test.c */
#include "server/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void a_beginning_has_ten_seconds_and_trickling_gives_no_more(void **state)
{
    (void)state;
    struct pace pace;
    pace_init(&pace);
    assert_int_equal(pace.due_ms, BELFRY_NEVER);
    pace_wait(&pace, 1, 1000, PACE_MS);
    assert_int_equal(pace.due_ms, 1000 + PACE_MS);
    for (uint64_t now = 2000; now < 10000; now += 1000)
        pace_wait(&pace, 1, now, PACE_MS);
    assert_int_equal(pace.due_ms, 1000 + PACE_MS);
}

static void each_window_that_came_gives_as_long_again(void **state)
{
    (void)state;
    struct pace pace;
    pace_init(&pace);
    pace_wait(&pace, 0, 1000, PACE_MS);
    pace_wait(&pace, PACE_BYTES - 1, 9000, PACE_MS);
    assert_int_equal(pace.due_ms, 1000 + PACE_MS);
    pace_wait(&pace, 1, 10000, PACE_MS);
    assert_int_equal(pace.due_ms, 10000 + PACE_MS);
    pace_wait(&pace, PACE_BYTES - 1, 11000, PACE_MS);
    assert_int_equal(pace.due_ms, 10000 + PACE_MS);
}

static void a_peer_that_could_not_send_is_excused(void **state)
{
    (void)state;
    struct pace pace;
    pace_init(&pace);
    pace_wait(&pace, 1, 1000, PACE_MS);
    pace_excuse(&pace, 11000, PACE_MS);
    assert_int_equal(pace.due_ms, 11000 + PACE_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beginning_has_ten_seconds_and_trickling_gives_no_more),
        cmocka_unit_test(each_window_that_came_gives_as_long_again),
        cmocka_unit_test(a_peer_that_could_not_send_is_excused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
