/* src/serve/relay/relay_turns_test.c */
#include "serve/relay/relay_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define PLACES 128
#define MANY   (4 * PLACES)

static struct relay_turns turns;
static struct relay_turn calls[MANY];

static int setup(void **state)
{
    (void)state;
    relay_turns_init(&turns, PLACES, (struct belfry_hash_key){3, 4});
    return 0;
}

static struct relay_turn *call(size_t i, uint64_t connection, uint64_t client)
{
    relay_turn_init(&calls[i], (struct lanes_source){connection, client});
    return &calls[i];
}

static void while_there_are_places_nobody_waits(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLACES / 2; i++)
        assert_true(relay_turn_take(&turns, call(i, 1, 1)));
    for (size_t i = 0; i < PLACES / 2; i++)
        assert_false(relay_turn_end(&turns, &calls[i])); /* nobody is next */
    assert_int_equal(turns.held, 0);
    assert_false(relay_turn_end(&turns, &calls[0])); /* once is enough */
}

static void a_client_that_holds_half_waits_and_others_do_not(void **state)
{
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < MANY / 2; i++)
        n += relay_turn_take(&turns, call(i, 1 + i % 8, 1)); /* eight connections of one client */
    assert_int_equal(n, PLACES / 2);
    assert_true(relay_turn_take(&turns, call(MANY / 2, 100, 2)));
    assert_null(relay_turns_next(&turns));
    assert_false(relay_turn_end(&turns, &calls[MANY / 2 - 1])); /* it only waited */
    size_t first = 0;
    while (!calls[first].held)
        first++;
    assert_true(relay_turn_end(&turns, &calls[first]));
    struct relay_turn *next = relay_turns_next(&turns);
    assert_non_null(next);
    assert_true(next->held);
    assert_null(relay_turns_next(&turns));
}

static void connections_that_wait_take_turns(void **state)
{
    (void)state;
    size_t n = 0, n_held = 0;
    for (; n < PLACES; n++) /* all places, each by a client of its own */
        n_held += relay_turn_take(&turns, call(n, 1000 + n, 1000 + n));
    assert_int_equal(n_held, turns.held);
    size_t full = turns.held;
    assert_in_range(full, PLACES - 8, PLACES); /* some share a lane */
    size_t greedy = n;
    for (; n < PLACES + 100; n++)
        assert_false(relay_turn_take(&turns, call(n, 1, 1)) && full == PLACES);
    struct relay_turn *other = call(n, 2, 2);
    assert_false(relay_turn_take(&turns, other));
    for (size_t i = 0; i < PLACES; i++)
        relay_turn_end(&turns, &calls[i]);
    size_t before = 0;
    for (struct relay_turn *next; !other->held && (next = relay_turns_next(&turns)) != NULL;)
        before += next != other;
    assert_true(other->held);
    assert_in_range(before, 0, 2); /* it did not wait behind a hundred */
    for (size_t i = greedy; i <= n; i++)
        relay_turn_end(&turns, &calls[i]);
    assert_int_equal(turns.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(while_there_are_places_nobody_waits, setup),
        cmocka_unit_test_setup(a_client_that_holds_half_waits_and_others_do_not, setup),
        cmocka_unit_test_setup(connections_that_wait_take_turns, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
