/* src/client/timers_test.c */
#include "client/timers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

#define TIMERS 8

static struct belfry_timers timers;
static struct one {
    struct belfry_timer timer; /* first: a timer is its one */
    int n_fired;
    /* the timer that it sets when it fires, and its time; NULL: none */
    struct one *sets;
    uint64_t due_ms;
} ones[TIMERS];
static char fired[64]; /* "abc": in the order they fired */

static void on_fire(struct belfry_timer *timer)
{
    struct one *one = (struct one *)timer;
    assert_int_equal(timer->due_ms, BELFRY_NEVER);
    one->n_fired++;
    size_t len = strlen(fired);
    if (len + 1 < sizeof(fired))
        fired[len] = (char)('a' + (one - ones));
    if (one->sets != NULL)
        belfry_timers_set(&timers, &one->sets->timer, one->due_ms);
}

static int set_up(void **state)
{
    (void)state;
    timers = (struct belfry_timers){0};
    memset(fired, 0, sizeof(fired));
    memset(ones, 0, sizeof(ones));
    for (int i = 0; i < TIMERS; i++)
        belfry_timer_init(&ones[i].timer, on_fire);
    return 0;
}

static void set(int i, uint64_t due_ms)
{
    belfry_timers_set(&timers, &ones[i].timer, due_ms);
}

static void without_timers_nothing_is_due(void **state)
{
    (void)state;
    assert_int_equal(belfry_timers_due(&timers), BELFRY_NEVER);
    belfry_timers_fire(&timers, 1000);
    assert_string_equal(fired, "");
}

static void those_that_are_due_fire_once_the_earliest_first(void **state)
{
    (void)state;
    set(0, 30);
    set(1, 10);
    set(2, 20);
    set(3, 31);
    assert_int_equal(belfry_timers_due(&timers), 10);
    belfry_timers_fire(&timers, 9);
    assert_string_equal(fired, "");
    belfry_timers_fire(&timers, 30);
    assert_string_equal(fired, "bca");
    assert_int_equal(belfry_timers_due(&timers), 31);
    belfry_timers_fire(&timers, 30);
    assert_string_equal(fired, "bca");
}

static void those_of_one_time_fire_in_the_order_they_were_set(void **state)
{
    (void)state;
    set(2, 10);
    set(0, 10);
    set(1, 10);
    belfry_timers_fire(&timers, 10);
    assert_string_equal(fired, "cab");
}

static void a_timer_can_be_moved_and_stopped(void **state)
{
    (void)state;
    set(0, 10);
    set(1, 20);
    set(0, 30);
    set(1, BELFRY_NEVER);
    set(1, BELFRY_NEVER);
    assert_int_equal(belfry_timers_due(&timers), 30);
    set(0, 5);
    assert_int_equal(belfry_timers_due(&timers), 5);
    belfry_timers_fire(&timers, 100);
    assert_string_equal(fired, "a");
}

static void one_that_sets_itself_to_now_waits_for_the_next_time(void **state)
{
    (void)state;
    set(0, 10);
    ones[0].sets = &ones[0];
    ones[0].due_ms = 10;
    belfry_timers_fire(&timers, 10);
    assert_string_equal(fired, "a");
    assert_int_equal(belfry_timers_due(&timers), 10);
    belfry_timers_fire(&timers, 10);
    assert_string_equal(fired, "aa");
}

static void ones_that_are_always_due_hold_up_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        set(i, 10);
        ones[i].sets = &ones[i];
        ones[i].due_ms = 0; /* long before everybody else */
    }
    set(3, 11);
    set(4, 12);
    belfry_timers_fire(&timers, 12);
    assert_string_equal(fired, "abcde");
    belfry_timers_fire(&timers, 12);
    assert_string_equal(fired, "abcdeabc");
}

static void one_can_stop_another_that_is_due(void **state)
{
    (void)state;
    set(0, 10);
    set(1, 11);
    set(2, 12);
    ones[0].sets = &ones[1];
    ones[0].due_ms = BELFRY_NEVER;
    belfry_timers_fire(&timers, 20);
    assert_string_equal(fired, "ac");
}

static void one_that_was_stopped_makes_no_room_for_a_second_time(void **state)
{
    (void)state;
    set(0, 10);
    set(1, 11);
    set(2, 12);
    ones[0].sets = &ones[1];
    ones[0].due_ms = BELFRY_NEVER;
    ones[2].sets = &ones[2];
    ones[2].due_ms = 0;
    belfry_timers_fire(&timers, 20);
    assert_string_equal(fired, "ac");
}

static void random_times_fire_like_a_plain_array(void **state)
{
    (void)state;
    struct belfry_rng rng = {3};
    uint64_t due[TIMERS], now = 0;
    int n_expected[TIMERS] = {0};
    for (int i = 0; i < TIMERS; i++)
        due[i] = BELFRY_NEVER;
    for (int step = 0; step < 5000; step++) {
        size_t i = belfry_rng_below(&rng, TIMERS);
        due[i] = belfry_rng_below(&rng, 5) == 0 ? BELFRY_NEVER : now + belfry_rng_below(&rng, 50);
        set((int)i, due[i]);
        now += belfry_rng_below(&rng, 10);
        belfry_timers_fire(&timers, now);
        uint64_t first = BELFRY_NEVER;
        for (int k = 0; k < TIMERS; k++) {
            if (due[k] <= now) {
                n_expected[k]++;
                due[k] = BELFRY_NEVER;
            }
            first = belfry_min_time(first, due[k]);
            assert_int_equal(ones[k].n_fired, n_expected[k]);
        }
        assert_int_equal(belfry_timers_due(&timers), first);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_timers_nothing_is_due),
        TEST(those_that_are_due_fire_once_the_earliest_first),
        TEST(those_of_one_time_fire_in_the_order_they_were_set),
        TEST(a_timer_can_be_moved_and_stopped),
        TEST(one_that_sets_itself_to_now_waits_for_the_next_time),
        TEST(ones_that_are_always_due_hold_up_nobody),
        TEST(one_can_stop_another_that_is_due),
        TEST(one_that_was_stopped_makes_no_room_for_a_second_time),
        TEST(random_times_fire_like_a_plain_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
