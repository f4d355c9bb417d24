/* src/serve/rights/lanes_test.c */
#include "serve/rights/lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define PLACES 100

static struct lanes lanes;
#define PART 8

static struct belfry_list nodes[LANES + 1];

static void make(void)
{
    lanes_init(&lanes, PART);
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
        belfry_list_init(&nodes[i]);
}

static void lanes_take_turns_and_each_is_in_order(void **state)
{
    (void)state;
    make();
    for (size_t i = 0; i < 3; i++)
        lanes_wait(&lanes, &lanes.all[0], &nodes[i]);
    lanes_wait(&lanes, &lanes.all[1], &nodes[3]);
    static const size_t order[] = {0, 3, 1, 2};
    for (size_t i = 0; i < 4; i++)
        assert_ptr_equal(lanes_take(&lanes, lanes_next(&lanes, PLACES)), &nodes[order[i]]);
    assert_null(lanes_next(&lanes, PLACES));
}

static void one_that_stops_waiting_has_no_turn(void **state)
{
    (void)state;
    make();
    lanes_wait(&lanes, &lanes.all[0], &nodes[0]);
    belfry_list_remove(&nodes[0]);
    assert_null(lanes_next(&lanes, PLACES));
    lanes_wait(&lanes, &lanes.all[1], &nodes[1]);
    lanes_wait(&lanes, &lanes.all[0], &nodes[0]);
    assert_ptr_equal(lanes_take(&lanes, lanes_next(&lanes, PLACES)), &nodes[0]);
    assert_ptr_equal(lanes_take(&lanes, lanes_next(&lanes, PLACES)), &nodes[1]);
    assert_null(lanes_next(&lanes, PLACES));
}

/* Ten lanes come one after the other, and each takes all it can. */
static void lanes_that_give_nothing_back_leave_places(void **state)
{
    (void)state;
    make();
    size_t free = PLACES;
    struct lane *lane;
    for (size_t i = 0; i < 200; i++) {
        lanes_wait(&lanes, &lanes.all[i / 20], &nodes[i]);
        for (; (lane = lanes_next(&lanes, free)) != NULL; free--) {
            (void)lanes_take(&lanes, lane);
            lane_hold(lane);
        }
    }
    assert_in_range(lanes.all[0].held, PLACES / 9, PLACES / 9 + 1);
    assert_in_range(free, PLACES / 5, PLACES / 3);
    lanes_wait(&lanes, &lanes.all[10], &nodes[LANES]);
    assert_ptr_equal(lanes_next(&lanes, 1), &lanes.all[10]);
    assert_null(lanes_next(&lanes, 0));
}

static void sources_are_spread_by_the_key(void **state)
{
    (void)state;
    make();
    struct belfry_hash_key one = {1, 2}, two = {3, 4};
    bool used[LANES] = {0};
    size_t n = 0, n_moved = 0;
    for (uint64_t source = 0; source < LANES; source++) {
        const struct lane *lane = lanes_of(&lanes, one, (struct lanes_source){source, source});
        n += !used[lane - lanes.all];
        used[lane - lanes.all] = true;
        assert_ptr_equal(lanes_of(&lanes, one, (struct lanes_source){source, source}), lane);
        n_moved += lanes_of(&lanes, two, (struct lanes_source){source, source}) != lane;
    }
    assert_true(n > LANES / 2 && n_moved > LANES / 2);
}

static void connections_of_one_client_have_half_of_the_places(void **state)
{
    struct belfry_hash_key key = {1, 2};
    size_t n = 0, free = PLACES;
    (void)state;
    for (uint64_t i = 0; i < LANES; i++) {
        struct lane *lane = lanes_of(&lanes, key, (struct lanes_source){i, 7});
        lanes_wait(&lanes, lane, &nodes[i]);
    }
    for (struct lane *lane; (lane = lanes_next(&lanes, free)) != NULL; free--, n++) {
        (void)lanes_take(&lanes, lane);
        lane_hold(lane);
    }
    assert_int_equal(n, PLACES / 2);
    struct lane *other = lanes_of(&lanes, key, (struct lanes_source){LANES + 1, 8});
    lanes_wait(&lanes, other, &nodes[LANES]);
    assert_ptr_equal(lanes_next(&lanes, free), other);
    for (size_t i = 0; i < LANES; i++) {
        while (lanes.all[i].held > 0)
            lane_release(&lanes.all[i]);
    }
    assert_non_null(lanes_next(&lanes, PLACES));
}

/* All of one client's connections wait; each of the others finds a lane that is its own. */
static void a_client_with_many_connections_leaves_lanes_to_others(void **state)
{
    struct belfry_hash_key key = {5, 6};
    size_t n_used = 0;
    (void)state;
    make();
    for (uint64_t i = 0; i < LANES; i++)
        lanes_wait(&lanes, lanes_of(&lanes, key, (struct lanes_source){i, 7}), &nodes[i]);
    for (size_t i = 0; i < LANES; i++)
        n_used += !belfry_list_empty(&lanes.all[i].waiting);
    assert_in_range(n_used, LANES_OF_CLIENT / 2, LANES_OF_CLIENT);
    for (uint64_t client = 8; client < 10000; client++) {
        const struct lane *lane = lanes_of(&lanes, key, (struct lanes_source){LANES + client, client});
        assert_true(belfry_list_empty(&lane->waiting));
    }
}

static void connections_of_one_client_have_lanes_of_their_own_while_they_are_few(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct belfry_hash_key key = {seed, 6};
        struct lane *first, *second;
        make();
        first = lanes_of(&lanes, key, (struct lanes_source){1, 7});
        lanes_wait(&lanes, first, &nodes[0]);
        second = lanes_of(&lanes, key, (struct lanes_source){2, 7});
        assert_ptr_not_equal(first, second);
        assert_ptr_equal(lanes_of(&lanes, key, (struct lanes_source){1, 7}), first);
        lane_hold(second);
        assert_ptr_equal(lanes_of(&lanes, key, (struct lanes_source){2, 7}), second);
        lane_release(second);
    }
}

/* Eight connections of one client wait, and one of another: turns alternate. */
static void a_client_has_no_more_turns_for_more_connections(void **state)
{
    struct belfry_hash_key key = {7, 8};
    (void)state;
    make();
    for (uint64_t i = 0; i < 80; i++)
        lanes_wait(&lanes, lanes_of(&lanes, key, (struct lanes_source){i % 8, 7}), &nodes[i]);
    for (uint64_t i = 80; i < 90; i++)
        lanes_wait(&lanes, lanes_of(&lanes, key, (struct lanes_source){100, 8}), &nodes[i]);
    for (size_t i = 0; i < 20; i++) {
        struct lane *lane = lanes_next(&lanes, SIZE_MAX);
        assert_int_equal(lane->source.client, i % 2 == 0 ? 7 : 8);
        (void)lanes_take(&lanes, lane);
    }
    size_t n_left = 0;
    for (struct lane *lane; (lane = lanes_next(&lanes, SIZE_MAX)) != NULL; n_left++)
        (void)lanes_take(&lanes, lane);
    assert_int_equal(n_left, 70);
}

/* A lane that was left while it was in the turns of its client is another's next. */
static void a_lane_changes_its_client_with_its_turns(void **state)
{
    (void)state;
    for (uint64_t other = 8; other < 5000; other++) {
        struct belfry_hash_key key = {9, 10};
        make();
        struct lane *lane = lanes_of(&lanes, key, (struct lanes_source){1, 7});
        lanes_wait(&lanes, lane, &nodes[0]);
        belfry_list_remove(&nodes[0]);
        if (lanes_of(&lanes, key, (struct lanes_source){2, other}) != lane)
            continue;
        lanes_wait(&lanes, lane, &nodes[1]);
        assert_ptr_equal(lanes_next(&lanes, 1), lane);
        assert_ptr_equal(lanes_take(&lanes, lane), &nodes[1]);
        assert_null(lanes_next(&lanes, 1));
        return;
    }
    fail_msg("no client found the lane of another");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_take_turns_and_each_is_in_order),
        cmocka_unit_test(one_that_stops_waiting_has_no_turn),
        cmocka_unit_test(lanes_that_give_nothing_back_leave_places),
        cmocka_unit_test(sources_are_spread_by_the_key),
        cmocka_unit_test(connections_of_one_client_have_half_of_the_places),
        cmocka_unit_test(a_client_with_many_connections_leaves_lanes_to_others),
        cmocka_unit_test(connections_of_one_client_have_lanes_of_their_own_while_they_are_few),
        cmocka_unit_test(a_client_has_no_more_turns_for_more_connections),
        cmocka_unit_test(a_lane_changes_its_client_with_its_turns)};
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
