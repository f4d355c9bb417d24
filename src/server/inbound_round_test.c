/* src/server/inbound_round_test.c */
#include "server/inbound_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define MEMBERS 100
#define ALL_MS  5000

static struct inbound_round turns;
static struct belfry_list members[MEMBERS];
static size_t n_turns[MEMBERS];

static int setup(void **state)
{
    (void)state;
    inbound_round_init(&turns);
    for (size_t i = 0; i < MEMBERS; i++) {
        belfry_list_init(&members[i]);
        inbound_round_join(&turns, &members[i]);
        n_turns[i] = 0;
    }
    return 0;
}

/* Gives a turn to at most `most` of those that are due; returns how many had one. */
static size_t go(size_t most)
{
    size_t n = 0;
    for (; n < most && inbound_round_is_due(&turns); n++)
        n_turns[inbound_round_next(&turns) - members]++;
    return n;
}

static void nobody_is_due_before_time_has_passed(void **state)
{
    (void)state;
    assert_false(inbound_round_is_due(&turns));
    inbound_round_pass(&turns, 0, ALL_MS);
    assert_false(inbound_round_is_due(&turns));
}

static void each_has_one_turn_in_the_time_for_all(void **state)
{
    (void)state;
    for (uint64_t ms = 0; ms < ALL_MS; ms += 500) {
        inbound_round_pass(&turns, 500, ALL_MS);
        assert_int_equal(go(SIZE_MAX), MEMBERS / 10);
    }
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(n_turns[i], 1);
}

static void a_part_of_a_member_is_a_whole_one(void **state)
{
    (void)state;
    inbound_round_pass(&turns, 1, ALL_MS); /* a fiftieth of one */
    assert_int_equal(go(SIZE_MAX), 1);
}

static void members_without_a_turn_stay_due_and_first(void **state)
{
    (void)state;
    inbound_round_pass(&turns, 500, ALL_MS);
    assert_int_equal(go(4), 4);
    inbound_round_pass(&turns, 500, ALL_MS);
    assert_int_equal(go(SIZE_MAX), 16);
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(n_turns[i], i < 20);
}

static void after_a_long_time_each_is_due_once(void **state)
{
    (void)state;
    inbound_round_pass(&turns, 100 * ALL_MS, ALL_MS);
    assert_int_equal(go(SIZE_MAX), MEMBERS);
}

static void members_that_leave_are_not_due(void **state)
{
    (void)state;
    inbound_round_pass(&turns, ALL_MS, ALL_MS);
    for (size_t i = 1; i < MEMBERS; i++)
        inbound_round_leave(&turns, &members[i]);
    inbound_round_leave(&turns, &members[1]); /* twice is fine */
    assert_int_equal(go(SIZE_MAX), 1);
    assert_int_equal(n_turns[0], 1);
    inbound_round_leave(&turns, &members[0]);
    inbound_round_pass(&turns, ALL_MS, ALL_MS);
    assert_false(inbound_round_is_due(&turns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nobody_is_due_before_time_has_passed, setup),
        cmocka_unit_test_setup(each_has_one_turn_in_the_time_for_all, setup),
        cmocka_unit_test_setup(a_part_of_a_member_is_a_whole_one, setup),
        cmocka_unit_test_setup(members_without_a_turn_stay_due_and_first, setup),
        cmocka_unit_test_setup(after_a_long_time_each_is_due_once, setup),
        cmocka_unit_test_setup(members_that_leave_are_not_due, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
