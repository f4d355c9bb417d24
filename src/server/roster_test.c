/* src/server/roster_test.c */
#include "server/roster.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/clock.h"

static void entries_are_found_by_number_in_the_order_of_joining(void **state)
{
    (void)state;
    struct roster roster;
    struct roster_entry entries[4];
    roster_init(&roster);
    assert_null(roster_after(&roster, 0));
    for (size_t i = 0; i < 4; i++)
        roster_join(&roster, &entries[i]);
    assert_ptr_equal(roster_after(&roster, 0), &entries[0]);
    assert_ptr_equal(roster_after(&roster, entries[1].number), &entries[2]);
    roster_leave(&roster, &entries[2]);
    assert_ptr_equal(roster_after(&roster, entries[1].number), &entries[3]);
    uint64_t last = entries[3].number;
    roster_leave(&roster, &entries[3]);
    assert_null(roster_after(&roster, entries[1].number));
    roster_join(&roster, &entries[3]);
    assert_true(entries[3].number > last); /* no number comes twice */
}

static void the_first_due_is_the_earliest_and_equal_times_go_by_number(void **state)
{
    (void)state;
    struct roster roster;
    struct roster_entry entries[3];
    roster_init(&roster);
    for (size_t i = 0; i < 3; i++)
        roster_join(&roster, &entries[i]);
    assert_null(roster_first_due(&roster));
    assert_true(roster_due(&roster) == BELFRY_NEVER);
    roster_set_due(&roster, &entries[2], 50);
    roster_set_due(&roster, &entries[1], 50);
    assert_ptr_equal(roster_first_due(&roster), &entries[1]);
    roster_set_due(&roster, &entries[2], 40);
    assert_ptr_equal(roster_first_due(&roster), &entries[2]);
    assert_int_equal(roster_due(&roster), 40);
    roster_leave(&roster, &entries[2]);
    roster_set_due(&roster, &entries[1], BELFRY_NEVER);
    assert_null(roster_first_due(&roster));
}

static void a_written_entry_is_popped_once(void **state)
{
    (void)state;
    struct roster roster;
    struct roster_entry entries[2];
    roster_init(&roster);
    roster_join(&roster, &entries[0]);
    roster_join(&roster, &entries[1]);
    roster_note_write(&roster, &entries[1]);
    roster_note_write(&roster, &entries[0]);
    roster_note_write(&roster, &entries[1]);
    assert_int_equal(roster_due(&roster), 0);
    assert_ptr_equal(roster_pop_written(&roster), &entries[1]);
    roster_leave(&roster, &entries[0]);
    assert_null(roster_pop_written(&roster));
    assert_true(roster_due(&roster) == BELFRY_NEVER);
}

static void a_round_visits_everybody_also_those_who_join_or_leave_meanwhile(void **state)
{
    (void)state;
    struct roster roster;
    struct roster_entry entries[3];
    roster_init(&roster);
    assert_null(roster_next_in_round(&roster));
    roster_join(&roster, &entries[0]);
    roster_join(&roster, &entries[1]);
    roster_begin_round(&roster);
    assert_int_equal(roster_due(&roster), 0);
    assert_ptr_equal(roster_next_in_round(&roster), &entries[0]);
    roster_leave(&roster, &entries[0]);
    roster_join(&roster, &entries[2]);
    assert_ptr_equal(roster_next_in_round(&roster), &entries[1]);
    assert_ptr_equal(roster_next_in_round(&roster), &entries[2]);
    assert_null(roster_next_in_round(&roster));
    assert_true(roster_due(&roster) == BELFRY_NEVER);
    roster_begin_round(&roster);
    assert_ptr_equal(roster_next_in_round(&roster), &entries[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_by_number_in_the_order_of_joining),
        cmocka_unit_test(the_first_due_is_the_earliest_and_equal_times_go_by_number),
        cmocka_unit_test(a_written_entry_is_popped_once),
        cmocka_unit_test(a_round_visits_everybody_also_those_who_join_or_leave_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
