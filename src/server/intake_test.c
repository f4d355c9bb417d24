/* src/server/intake_test.c */
#include "server/intake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define CONNS 4
#define MUCH  (10 * INTAKE_LEAST)

static struct intake intake;
static struct intake_conn conns[CONNS], *last_ended;

static void note(struct intake_conn *conn, void *user)
{
    assert_ptr_equal(user, &intake);
    last_ended = conn;
}

static int setup(void **state)
{
    (void)state;
    last_ended = NULL;
    intake_init(&intake, note, &intake);
    for (size_t i = 0; i < CONNS; i++)
        intake_join(&intake, &conns[i]);
    return 0;
}

static void within_its_bound_a_pool_has_room_and_nothing_is_ended(void **state)
{
    (void)state;
    intake_count(&conns[0], 0, MUCH);
    assert_true(intake_has_room(&intake, &conns[1], MUCH, MUCH));
    assert_true(intake_has_room(&intake, &conns[0], MUCH, MUCH));
    assert_null(last_ended);
}

static void the_largest_share_ends_and_counts_as_free_at_once(void **state)
{
    (void)state;
    intake_count(&conns[0], 0, INTAKE_LEAST + 1);
    intake_count(&conns[1], 0, MUCH);
    intake_count(&conns[2], 0, INTAKE_LEAST);
    assert_true(intake_has_room(&intake, &conns[3], MUCH + 1, MUCH));
    assert_ptr_equal(last_ended, &conns[1]);
    last_ended = NULL;
    assert_true(intake_has_room(&intake, &conns[3], 2 * MUCH, MUCH)); /* its memory may still be there */
    assert_null(last_ended);
    intake_count(&conns[1], MUCH, 0); /* it is gone */
    assert_true(intake_has_room(&intake, &conns[3], MUCH + INTAKE_LEAST + 1, MUCH));
    assert_ptr_equal(last_ended, &conns[0]);
    assert_int_equal(intake.ended, 2);
}

static void the_asker_ends_when_its_own_share_is_the_largest(void **state)
{
    (void)state;
    intake_count(&conns[0], 0, MUCH);
    intake_count(&conns[1], 0, MUCH + 1);
    assert_false(intake_has_room(&intake, &conns[1], MUCH + 1, MUCH));
    assert_ptr_equal(last_ended, &conns[1]);
    assert_false(intake_has_room(&intake, &conns[1], 1, MUCH)); /* whatever it asks for now */
    assert_int_equal(intake.ended, 1);
}

static void a_pool_full_of_good_use_ends_nobody(void **state)
{
    (void)state;
    intake_count(&conns[0], 0, INTAKE_LEAST - 1);
    assert_false(intake_has_room(&intake, &conns[1], MUCH + 1, MUCH));
    assert_false(intake_has_room(&intake, NULL, MUCH + 1, MUCH));
    assert_null(last_ended);
}

static void a_new_connection_is_let_in_for_the_largest_share(void **state)
{
    (void)state;
    intake_count(&conns[2], 0, MUCH);
    assert_true(intake_has_room(&intake, NULL, MUCH + 1, MUCH));
    assert_ptr_equal(last_ended, &conns[2]);
}

static void shares_end_until_there_is_room(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONNS - 1; i++)
        intake_count(&conns[i], 0, INTAKE_LEAST);
    assert_true(intake_has_room(&intake, &conns[3], MUCH + INTAKE_LEAST + 1, MUCH));
    assert_int_equal(intake.ended, 2);
}

static void a_connection_that_closes_is_no_candidate_and_its_share_is_free(void **state)
{
    (void)state;
    intake_count(&conns[0], 0, MUCH);
    intake_leave(&conns[0]);
    assert_true(intake_has_room(&intake, &conns[1], 2 * MUCH, MUCH));
    assert_null(last_ended);
    intake_count(&conns[0], MUCH, 0);
    assert_false(intake_has_room(&intake, &conns[1], 2 * MUCH, MUCH));
    assert_int_equal(intake.leaving, 0);
}

static void a_connection_that_joined_nothing_only_has_its_pools(void **state)
{
    (void)state;
    struct intake_conn alone = {0};
    intake_count(&alone, 0, MUCH);
    intake_leave(&alone);
    assert_true(intake_has_room(NULL, &alone, 1, 1));
    assert_false(intake_has_room(NULL, &alone, 2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(within_its_bound_a_pool_has_room_and_nothing_is_ended, setup),
        cmocka_unit_test_setup(the_largest_share_ends_and_counts_as_free_at_once, setup),
        cmocka_unit_test_setup(the_asker_ends_when_its_own_share_is_the_largest, setup),
        cmocka_unit_test_setup(a_pool_full_of_good_use_ends_nobody, setup),
        cmocka_unit_test_setup(a_new_connection_is_let_in_for_the_largest_share, setup),
        cmocka_unit_test_setup(shares_end_until_there_is_room, setup),
        cmocka_unit_test_setup(a_connection_that_closes_is_no_candidate_and_its_share_is_free, setup),
        cmocka_unit_test_setup(a_connection_that_joined_nothing_only_has_its_pools, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
