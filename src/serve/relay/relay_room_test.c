/* src/serve/relay/relay_room_test.c */
#include "serve/relay/relay_room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

#define TOTAL 1000
#define CALLS 4

static struct shares shares;
static struct shares_conn conns[2];
static struct relay_room room;
static struct relay_holding calls[CALLS]; /* the last is of another client */
static struct relay_holding *slow;

static void ignore_end(struct shares_conn *conn, enum shares_pool pool, void *user)
{
    (void)conn, (void)pool, (void)user;
}

static int setup(void **state)
{
    (void)state;
    struct shares_limits limits = {.percent = {100, 100}};
    limits.total[SHARES_CALL_BYTES] = TOTAL;
    shares_init(&shares, &limits, 7, ignore_end, NULL);
    relay_room_init(&room);
    for (size_t i = 0; i < 2; i++) {
        conns[i] = (struct shares_conn){0};
        assert_int_equal(shares_join(&shares, &conns[i], SHARES_CLIENT, i == 0 ? "10.0.0.1" : "10.0.0.2"), BELFRY_OK);
    }
    for (size_t i = 0; i < CALLS; i++)
        relay_holding_init(&calls[i], &room, &conns[i == CALLS - 1]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < CALLS; i++)
        relay_holding_end(&calls[i]);
    assert_int_equal(room.held, 0);
    assert_int_equal(room.held_down, 0);
    assert_true(belfry_list_empty(&room.slow));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(conns[i].held[SHARES_CALL_BYTES], 0);
        shares_leave(&conns[i]);
    }
    shares_fini(&shares);
    return refuse_held() == 0 ? 0 : -1;
}

static void what_calls_hold_is_counted_and_the_peak_stays(void **state)
{
    (void)state;
    relay_holding_set(&calls[0], 100, 50, true);
    relay_holding_set(&calls[1], 200, 0, false);
    assert_int_equal(room.held, 350);
    assert_int_equal(room.held_down, 50);
    assert_int_equal(conns[0].held[SHARES_CALL_BYTES], 350);
    relay_holding_set(&calls[0], 10, 0, false);
    assert_int_equal(room.held, 210);
    assert_int_equal(room.held_down, 0);
    assert_int_equal(room.held_peak, 350);
}

static void while_there_is_room_no_call_ends(void **state)
{
    (void)state;
    relay_holding_set(&calls[0], 0, TOTAL - 10, true);
    assert_true(relay_holding_has_room(&calls[1], 10, &slow));
    assert_null(slow);
}

static void the_call_that_has_read_nothing_for_longest_makes_room(void **state)
{
    (void)state;
    relay_holding_set(&calls[0], 0, 500, true);
    relay_holding_set(&calls[1], 0, 500, true);
    assert_false(relay_holding_has_room(&calls[2], 1, &slow));
    assert_ptr_equal(slow, &calls[0]);
    relay_holding_progress(&calls[0]);
    assert_false(relay_holding_has_room(&calls[2], 1, &slow));
    assert_ptr_equal(slow, &calls[1]);
    relay_holding_end(slow);
    assert_true(relay_holding_has_room(&calls[2], 1, &slow));
}

static void a_call_whose_response_does_not_wait_is_not_slow(void **state)
{
    (void)state;
    relay_holding_set(&calls[0], 0, 500, true);
    relay_holding_set(&calls[1], 0, 500, true);
    relay_holding_set(&calls[0], 500, 0, false);
    relay_holding_progress(&calls[0]);
    assert_false(relay_holding_has_room(&calls[2], 1, &slow));
    assert_ptr_equal(slow, &calls[1]);
}

static void the_slowest_call_itself_finds_no_room(void **state)
{
    (void)state;
    relay_holding_set(&calls[0], 0, TOTAL, true);
    assert_false(relay_holding_has_room(&calls[0], 1, &slow));
    assert_null(slow);
}

static void slow_calls_of_other_clients_do_not_make_room(void **state)
{
    (void)state;
    relay_holding_set(&calls[CALLS - 1], 0, TOTAL / 2, true);
    relay_holding_set(&calls[0], TOTAL / 2, 0, false);
    assert_false(relay_holding_has_room(&calls[0], 1, &slow));
    assert_null(slow);
}

static void a_connection_that_is_ending_ends_no_other_call(void **state)
{
    (void)state;
    relay_holding_set(&calls[0], 0, TOTAL, true);
    relay_holding_set(&calls[CALLS - 1], 0, TOTAL, true);
    shares_end(&conns[0]);
    assert_false(relay_holding_has_room(&calls[1], 1, &slow));
    assert_null(slow);
}

static void only_so_many_calls_are_looked_at(void **state)
{
    (void)state;
    static struct relay_holding others[RELAY_ROOM_LOOK];
    for (size_t i = 0; i < RELAY_ROOM_LOOK; i++) {
        relay_holding_init(&others[i], &room, &conns[1]);
        relay_holding_set(&others[i], 0, 1, true);
    }
    relay_holding_set(&calls[0], 0, TOTAL, true);
    assert_false(relay_holding_has_room(&calls[1], 1, &slow));
    assert_null(slow);
    relay_holding_end(&others[0]);
    assert_false(relay_holding_has_room(&calls[1], 1, &slow));
    assert_ptr_equal(slow, &calls[0]);
    for (size_t i = 1; i < RELAY_ROOM_LOOK; i++)
        relay_holding_end(&others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_calls_hold_is_counted_and_the_peak_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(while_there_is_room_no_call_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(the_call_that_has_read_nothing_for_longest_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_whose_response_does_not_wait_is_not_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(the_slowest_call_itself_finds_no_room, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_calls_of_other_clients_do_not_make_room, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_that_is_ending_ends_no_other_call, setup, teardown),
        cmocka_unit_test_setup_teardown(only_so_many_calls_are_looked_at, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
