/* src/server/shares_test.c */
#include "server/shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/refuse.h"

#define CONNS 64
#define MUCH  (10 * SHARES_UNFINISHED)

static struct shares shares;
static struct shares_conn conns[CONNS], *last_ended;
static enum shares_pool last_pool;
static unsigned n_ended;

static void note(struct shares_conn *conn, enum shares_pool pool, void *user)
{
    assert_ptr_equal(user, &shares);
    assert_true(conn->ending);
    last_ended = conn;
    last_pool = pool;
    n_ended++;
}

static void open_shares(enum shares_pool pool, size_t total, unsigned client, unsigned tier)
{
    struct shares_limits limits = {.percent = {client, tier}};
    limits.total[pool] = total;
    last_ended = NULL;
    n_ended = 0;
    shares_init(&shares, &limits, 7, note, &shares);
    for (size_t i = 0; i < CONNS; i++)
        conns[i] = (struct shares_conn){0};
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONNS; i++) {
        shares_count_unfinished(&conns[i], conns[i].unfinished, 0);
        for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
            shares_count(&conns[i], pool, conns[i].held[pool], 0);
        shares_leave(&conns[i]);
    }
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++) {
        assert_int_equal(shares.pools[pool].used, 0);
        assert_int_equal(shares.pools[pool].leaving, 0);
        assert_int_equal(shares.pools[pool].filled, 0);
    }
    shares_fini(&shares);
    return refuse_held() == 0 ? 0 : -1;
}

static void join(size_t i, const char *name)
{
    assert_int_equal(shares_join(&shares, &conns[i], SHARES_CLIENT, name), BELFRY_OK);
}

/* Asks, and takes what it may. */
static bool take(size_t i, enum shares_pool pool, size_t n)
{
    if (!shares_make_room(&conns[i], pool, n))
        return false;
    shares_count(&conns[i], pool, 0, n);
    return true;
}

static size_t take_all(size_t i, enum shares_pool pool)
{
    size_t n = 0;
    while (take(i, pool, 1))
        n++;
    return n;
}

static void a_client_may_hold_as_much_as_it_leaves_free(void **state)
{
    (void)state;
    open_shares(SHARES_WATCHERS, 1200, 50, 90);
    join(0, "10.0.0.1");
    join(1, "10.0.0.1"); /* the same, by another connection */
    join(2, "10.0.0.2");
    join(3, "10.0.0.3");
    assert_int_equal(take_all(0, SHARES_WATCHERS), 600);
    assert_int_equal(take_all(1, SHARES_WATCHERS), 0);
    assert_int_equal(take_all(2, SHARES_WATCHERS), 300);
    assert_int_equal(take_all(3, SHARES_WATCHERS), 150);
    assert_int_equal(n_ended, 0);
    shares_count(&conns[0], SHARES_WATCHERS, 600, 100);
    assert_int_equal(take_all(3, SHARES_WATCHERS), 250); /* 400 each, of 800 that the first leaves */
}

static void a_tier_below_has_a_larger_share(void **state)
{
    (void)state;
    open_shares(SHARES_CALLS, 1000, 50, 90);
    assert_int_equal(shares_join(&shares, &conns[0], SHARES_BELOW, "leaf"), BELFRY_OK);
    join(1, "leaf"); /* of the same name, and not authenticated as a tier */
    assert_int_equal(take_all(0, SHARES_CALLS), 900);
    assert_int_equal(take_all(1, SHARES_CALLS), 50);
}

static void without_a_total_everything_fits(void **state)
{
    (void)state;
    open_shares(SHARES_CALLS, 0, 50, 90);
    join(0, "a");
    assert_true(take(0, SHARES_CALLS, SIZE_MAX / 4));
    struct shares_conn uncounted = {0};
    assert_true(shares_make_room(&uncounted, SHARES_CALLS, 1));
    assert_string_equal(shares_name(&uncounted), "");
    assert_int_equal(shares_source(&uncounted), 0);
}

/* However many have taken what they could, one that holds little gets what it needs. */
static void the_client_that_holds_most_yields_to_one_that_holds_little(void **state)
{
    (void)state;
    enum { TOTAL = 640, CLIENTS = 12 };
    char name[24];
    size_t most;
    open_shares(SHARES_WATCHERS, TOTAL, 50, 90);
    for (size_t i = 0; i < 60; i++) {
        snprintf(name, sizeof(name), "%zu", i % CLIENTS);
        join(i, name);
        take_all(i, SHARES_WATCHERS);
    }
    assert_non_null(shares_largest(&shares, SHARES_WATCHERS, &most));
    assert_in_range(most, TOTAL / 4, TOTAL / 2);
    assert_in_range(shares.pools[SHARES_WATCHERS].used - shares.pools[SHARES_WATCHERS].leaving, TOTAL - CLIENTS, TOTAL);
    join(60, "new");
    unsigned before = n_ended;
    for (size_t i = 0; i < TOTAL / 64; i++)
        assert_true(take(60, SHARES_WATCHERS, 1));
    assert_in_range(n_ended, before + 1, before + 2);
    assert_int_equal(last_pool, SHARES_WATCHERS);
}

/* The turn is over: what ending connections of the first `n` held is freed, and they are forgotten. */
static void free_ending(size_t n, enum shares_pool pool)
{
    for (size_t i = 0; i < n; i++) {
        if (!conns[i].ending)
            continue;
        shares_count_unfinished(&conns[i], conns[i].unfinished, 0);
        shares_count(&conns[i], pool, conns[i].held[pool], 0);
        shares_leave(&conns[i]);
        conns[i] = (struct shares_conn){0};
    }
}

/* Each that comes takes what it can of the pool, and is ended for the next, in one turn of the loop. */
static void ending_and_new_ones_stay_within_a_bound(enum shares_pool pool, size_t part)
{
    enum { TOTAL = 8 * MUCH, MOST = TOTAL + TOTAL / SHARES_OVER, CLIENTS = 40 };
    char name[24];
    open_shares(pool, TOTAL, 50, 90);
    for (size_t i = 0; i < CLIENTS; i++) {
        snprintf(name, sizeof(name), "%zu", i);
        join(i, name);
        while (take(i, pool, part))
            shares_count_unfinished(&conns[i], 0, part);
        assert_in_range(shares.pools[pool].used, 1, MOST);
    }
    assert_in_range(n_ended, 1, 4); /* not one for each that asks in vain */
    join(CLIENTS, "small");
    assert_true(take(CLIENTS, pool, TOTAL / 64));
    free_ending(CLIENTS, pool);
    join(CLIENTS + 1, "large");
    assert_true(take(CLIENTS + 1, pool, TOTAL / 10));
}

static void bytes_that_are_ending_and_new_ones_stay_within_a_bound(void **state)
{
    static const size_t parts[] = {8 * MUCH / 10, 8 * MUCH / 4};
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++) {
        for (size_t i = 0; shares_pool_is_bytes(pool) && i < sizeof(parts) / sizeof(parts[0]); i++) {
            ending_and_new_ones_stay_within_a_bound(pool, parts[i]);
            assert_int_equal(teardown(state), 0);
        }
    }
    open_shares(SHARES_CALLS, 1, 50, 90); /* for the teardown */
}

/* The asker would be refused all the same: what is ending holds all that may be held beyond the pool. */
static void nobody_is_ended_while_the_pool_is_emptying(void **state)
{
    (void)state;
    enum { TOTAL = 8 * MUCH };
    open_shares(SHARES_WATCH_BYTES, TOTAL, 100, 100);
    join(0, "gone");
    assert_true(take(0, SHARES_WATCH_BYTES, TOTAL / 10));
    shares_end(&conns[0]);
    join(1, "large");
    assert_true(take(1, SHARES_WATCH_BYTES, TOTAL));
    shares_count_unfinished(&conns[1], 0, TOTAL);
    join(2, "small");
    assert_false(take(2, SHARES_WATCH_BYTES, TOTAL / 32));
    assert_int_equal(n_ended, 0);
    free_ending(1, SHARES_WATCH_BYTES);
    assert_true(take(2, SHARES_WATCH_BYTES, TOTAL / 32));
    assert_ptr_equal(last_ended, &conns[1]);
}

/* What is ending may linger with little, while others hold more than the pool, which was not asked for. */
static void what_lingers_with_little_does_not_keep_a_pool_full(void **state)
{
    (void)state;
    enum { TOTAL = 64000 };
    open_shares(SHARES_MEMORY, TOTAL, 100, 100);
    join(0, "lingers");
    assert_true(take(0, SHARES_MEMORY, 1));
    shares_end(&conns[0]);
    join(1, "large");
    shares_count(&conns[1], SHARES_MEMORY, 0, TOTAL / 4 * 5);
    join(2, "small");
    assert_false(take(2, SHARES_MEMORY, 100));
    assert_int_equal(n_ended, 1);
    shares_count(&conns[1], SHARES_MEMORY, TOTAL / 4 * 5, 0);
    assert_true(take(2, SHARES_MEMORY, 100));
    assert_int_equal(n_ended, 1);
}

static void of_the_client_that_yields_the_connection_that_holds_most_is_ended(void **state)
{
    (void)state;
    open_shares(SHARES_MEMORY, 1000, 100, 100);
    join(0, "a");
    join(1, "a");
    join(2, "a");
    join(3, "b");
    assert_true(take(0, SHARES_MEMORY, 300) && take(1, SHARES_MEMORY, 500) && take(2, SHARES_MEMORY, 200));
    assert_true(take(3, SHARES_MEMORY, 60));
    assert_ptr_equal(last_ended, &conns[1]);
    assert_true(take(3, SHARES_MEMORY, 60)); /* what the other held is free, although it is still there */
    assert_int_equal(n_ended, 1);
    shares_count(&conns[1], SHARES_MEMORY, 500, 0);
    assert_int_equal(shares.pools[SHARES_MEMORY].leaving, 0);
    assert_int_equal(shares.pools[SHARES_MEMORY].yielded, 1);
}

static void the_largest_is_found_among_those_of_its_size(void **state)
{
    (void)state;
    size_t held;
    open_shares(SHARES_CALLS, 1000, 100, 100);
    assert_null(shares_largest(&shares, SHARES_CALLS, &held));
    assert_int_equal(held, 0);
    join(0, "a");
    join(1, "b");
    join(2, "c");
    assert_true(take(0, SHARES_CALLS, 130) && take(1, SHARES_CALLS, 250) && take(2, SHARES_CALLS, 200));
    assert_string_equal(shares_largest(&shares, SHARES_CALLS, &held), "b");
    assert_int_equal(held, 250);
}

static void a_walk_sees_each_client_once_whatever_happens_meanwhile(void **state)
{
    (void)state;
    struct shares_walk walk, other;
    struct shares_view view;
    open_shares(SHARES_CALLS, 1000, 50, 90);
    join(0, "a");
    join(1, "b");
    join(2, "c");
    shares_count(&conns[2], SHARES_CALLS, 0, 30);
    shares_walk_begin(&walk, &shares);
    shares_walk_begin(&other, &shares);
    assert_true(shares_walk_next(&walk, &view));
    assert_string_equal(view.name, "a");
    shares_leave(&conns[1]); /* the next one */
    shares_tick(&shares, 2 * WORK_MS);
    join(3, "d");
    assert_true(shares_walk_next(&walk, &view));
    assert_string_equal(view.name, "c");
    assert_int_equal(view.held[SHARES_CALLS], 30);
    assert_true(shares_walk_next(&walk, &view));
    assert_string_equal(view.name, "d");
    assert_false(shares_walk_next(&walk, &view));
    shares_walk_end(&walk);
    shares_walk_end(&walk);
    shares_walk_end(&other); /* in the middle */
}

static bool walk_finds(const char *name, struct shares_view *out)
{
    struct shares_walk walk;
    bool found = false;
    shares_walk_begin(&walk, &shares);
    while (!found && shares_walk_next(&walk, out))
        found = strcmp(out->name, name) == 0;
    shares_walk_end(&walk);
    return found;
}

static void a_client_that_comes_and_goes_keeps_its_work(void **state)
{
    (void)state;
    struct shares_view view;
    open_shares(SHARES_CALLS, 1000, 50, 90);
    for (int i = 0; i < 100; i++) {
        join(0, "a");
        shares_work(&conns[0], WORK_REQUESTS, 1);
        shares_leave(&conns[0]);
    }
    assert_true(walk_finds("a", &view));
    assert_true(view.rates.per_s[WORK_REQUESTS] == 10);
    shares_tick(&shares, 2 * WORK_MS - 1);
    assert_true(walk_finds("a", &view));
    shares_tick(&shares, 2 * WORK_MS);
    assert_false(walk_finds("a", &view));
}

static void clients_that_left_are_remembered_up_to_a_bound(void **state)
{
    (void)state;
    struct shares_view view;
    char name[32];
    open_shares(SHARES_CALLS, 1000, 50, 90);
    for (size_t i = 0; i < 2 * SHARES_DEPARTED; i++) {
        snprintf(name, sizeof(name), "%zu", i);
        join(0, name);
        shares_leave(&conns[0]);
    }
    assert_int_equal(shares.clients.count, SHARES_DEPARTED);
    assert_false(walk_finds("0", &view));
    snprintf(name, sizeof(name), "%d", SHARES_DEPARTED); /* the oldest that is left comes back */
    join(0, name);
    join(1, "new");
    shares_leave(&conns[1]);
    assert_true(walk_finds(name, &view));
    assert_int_equal(shares.clients.count, SHARES_DEPARTED + 1);
}

static void work_counts_to_the_client_and_to_all(void **state)
{
    (void)state;
    struct shares_view view;
    struct shares_conn uncounted = {0};
    open_shares(SHARES_CALLS, 1000, 50, 90);
    join(0, "a");
    join(1, "b");
    shares_work(&conns[0], WORK_BYTES_IN, 500);
    shares_work(&conns[1], WORK_BYTES_IN, 1500);
    shares_work(&uncounted, WORK_BYTES_IN, 1);
    shares_count(&conns[0], SHARES_CALLS, 0, 20);
    shares_count(&conns[0], SHARES_CALLS, 20, 5);
    assert_true(walk_finds("a", &view));
    assert_true(view.rates.per_s[WORK_BYTES_IN] == 50 && view.rates.per_s[WORK_CALLS] == 2);
    assert_true(work_rates(&shares.work, 0).per_s[WORK_BYTES_IN] == 200);
}

static void clients_that_hold_about_the_same_do_not_yield(void **state)
{
    (void)state;
    open_shares(SHARES_LISTS, 8, 100, 100);
    join(0, "a");
    join(1, "b");
    assert_true(take(0, SHARES_LISTS, 5) && take(1, SHARES_LISTS, 3));
    assert_false(take(1, SHARES_LISTS, 1));
    assert_false(take(0, SHARES_LISTS, 1));
    assert_int_equal(n_ended, 0);
    assert_int_equal(shares.pools[SHARES_LISTS].refused, 2);
}

static void nobody_yields_to_what_could_never_be_held(void **state)
{
    (void)state;
    open_shares(SHARES_REQUESTS, 1000, 50, 90);
    join(0, "a");
    join(1, "b");
    assert_true(take(0, SHARES_REQUESTS, 400));
    assert_false(take(1, SHARES_REQUESTS, 501));
    assert_int_equal(n_ended, 0);
}

static void unfinished_requests_yield_before_anything_in_good_order(void **state)
{
    (void)state;
    open_shares(SHARES_MEMORY, 4 * MUCH, 100, 100);
    join(0, "in order");
    join(1, "hostile");
    join(2, "hostile");
    join(3, "c");
    assert_true(take(0, SHARES_MEMORY, 2 * MUCH) && take(1, SHARES_MEMORY, MUCH / 2) && take(2, SHARES_MEMORY, MUCH));
    shares_count_unfinished(&conns[1], 0, MUCH / 2);
    shares_count_unfinished(&conns[2], 0, MUCH);
    assert_true(take(3, SHARES_MEMORY, MUCH));
    assert_ptr_equal(last_ended, &conns[2]);
    free_ending(CONNS, SHARES_MEMORY);
    assert_true(take(0, SHARES_MEMORY, MUCH));
    assert_ptr_equal(last_ended, &conns[1]);
    assert_int_equal(n_ended, 2);
}

/* It leaves the others of its client in peace, and everybody else. */
static void at_the_limit_of_a_client_only_its_own_connections_are_ended(void **state)
{
    (void)state;
    open_shares(SHARES_REQUESTS, 4 * MUCH, 50, 90);
    join(0, "a");
    join(1, "a");
    join(2, "b");
    assert_true(take(0, SHARES_REQUESTS, MUCH));
    shares_count_unfinished(&conns[0], 0, MUCH);
    assert_true(take(2, SHARES_REQUESTS, MUCH + 1));
    shares_count_unfinished(&conns[2], 0, MUCH + 1);
    assert_true(take(1, SHARES_REQUESTS, MUCH / 2)); /* over the half of what is left */
    assert_ptr_equal(last_ended, &conns[0]);
    assert_int_equal(n_ended, 1);
}

static void the_asker_itself_is_ended_if_it_holds_most(void **state)
{
    (void)state;
    open_shares(SHARES_REQUESTS, MUCH, 100, 100);
    join(0, "a");
    assert_true(take(0, SHARES_REQUESTS, MUCH));
    shares_count_unfinished(&conns[0], 0, MUCH);
    assert_false(take(0, SHARES_REQUESTS, 1));
    assert_ptr_equal(last_ended, &conns[0]);
    assert_false(shares_has(&conns[0], SHARES_REQUESTS, 0)); /* it is ending */
}

static void little_that_is_unfinished_ends_nothing(void **state)
{
    (void)state;
    open_shares(SHARES_REQUESTS, MUCH, 100, 100);
    join(0, "a");
    assert_true(take(0, SHARES_REQUESTS, MUCH));
    shares_count_unfinished(&conns[0], 0, SHARES_UNFINISHED - 1);
    assert_false(take(0, SHARES_REQUESTS, 1));
    assert_int_equal(n_ended, 0);
}

static void what_a_connection_holds_moves_to_the_client_that_it_turns_out_to_be(void **state)
{
    (void)state;
    size_t held;
    open_shares(SHARES_CONNECTIONS, 100, 50, 90);
    join(0, "10.0.0.1");
    join(1, "10.0.0.1");
    assert_true(take(0, SHARES_CONNECTIONS, 40) && take(1, SHARES_CONNECTIONS, 10));
    assert_true(shares_same_client(&conns[0], &conns[1]));
    assert_int_equal(shares_move(&conns[0], SHARES_CLIENT, "user \"web\""), BELFRY_OK);
    assert_false(shares_same_client(&conns[0], &conns[1]));
    assert_int_not_equal(shares_source(&conns[0]), shares_source(&conns[1]));
    assert_string_equal(shares_name(&conns[0]), "user \"web\"");
    assert_string_equal(shares_largest(&shares, SHARES_CONNECTIONS, &held), "user \"web\"");
    assert_int_equal(held, 40);
    assert_int_equal(shares_move(&conns[0], SHARES_CLIENT, "user \"web\""), BELFRY_OK);
    assert_int_equal(shares_move(&conns[1], SHARES_CLIENT, "user \"web\""), BELFRY_OK);
    join(2, "10.0.0.2");
    shares_count(&conns[2], SHARES_CONNECTIONS, 0, 1);
    assert_int_equal(shares_move(&conns[2], SHARES_CLIENT, "user \"web\""), BELFRY_ERR_LIMIT); /* it has 50 already */
}

static void limits_can_change(void **state)
{
    (void)state;
    open_shares(SHARES_CALLS, 100, 50, 90);
    join(0, "a");
    assert_int_equal(take_all(0, SHARES_CALLS), 50);
    struct shares_limits limits = {.total = {[SHARES_CALLS] = 200}, .percent = {75, 90}};
    shares_set_limits(&shares, &limits);
    assert_int_equal(take_all(0, SHARES_CALLS), 100);
    limits.total[SHARES_CALLS] = 10; /* what is held stays */
    shares_set_limits(&shares, &limits);
    assert_false(take(0, SHARES_CALLS, 1));
    struct shares_stats stats;
    shares_stats(&shares, SHARES_CALLS, &stats);
    assert_int_equal(stats.used, 150);
    assert_int_equal(stats.total, 10);
    assert_int_equal(stats.refused, 3);
    assert_int_equal(n_ended, 0);
}

/* Any sequence: nothing is held beyond the total by those who asked, sums are right, and whoever is refused holds at
 * least a quarter of what the largest does, or had more than its part. */
static void random_clients(void **state)
{
    (void)state;
    enum { TOTAL = 1000, STEPS = 20000 };
    uint64_t seed = (uint64_t)time(NULL);
    struct belfry_rng rng = {seed};
    char name[24];
    print_message("seed %llu\n", (unsigned long long)seed);
    open_shares(SHARES_CALLS, TOTAL, 50, 90);
    for (int step = 0; step < STEPS; step++) {
        size_t i = belfry_rng_below(&rng, CONNS);
        struct shares_conn *conn = &conns[i];
        size_t held = conn->held[SHARES_CALLS];
        if (conn->shares == NULL) {
            snprintf(name, sizeof(name), "%zu", i / 4);
            join(i, name);
        } else if (conn->ending) {
            shares_count(conn, SHARES_CALLS, held, 0);
            shares_leave(conn);
        } else if (belfry_rng_below(&rng, 100) == 0) {
            shares_end(conn);
        } else if (belfry_rng_below(&rng, 3) == 0 && held > 0) {
            shares_count(conn, SHARES_CALLS, held, held - 1 - belfry_rng_below(&rng, held));
        } else {
            take(i, SHARES_CALLS, 1 + belfry_rng_below(&rng, 20));
        }
        size_t sum = 0, leaving = 0;
        for (size_t k = 0; k < CONNS; k++) {
            sum += conns[k].held[SHARES_CALLS];
            leaving += conns[k].ending ? conns[k].held[SHARES_CALLS] : 0;
        }
        assert_int_equal(shares.pools[SHARES_CALLS].used, sum);
        assert_int_equal(shares.pools[SHARES_CALLS].leaving, leaving);
        assert_true(sum - leaving <= TOTAL);
    }
}

static void without_memory_nobody_joins_and_nothing_is_lost(void **state)
{
    (void)state;
    open_shares(SHARES_CALLS, 10, 50, 90);
    refuse_begin(0);
    assert_int_equal(shares_join(&shares, &conns[0], SHARES_CLIENT, "a"), BELFRY_ERR_NOMEM);
    assert_true(refuse_end());
    conns[0] = (struct shares_conn){0};
    join(0, "a");
    assert_true(take(0, SHARES_CALLS, 2));
    refuse_begin(0);
    assert_int_equal(shares_move(&conns[0], SHARES_CLIENT, "b"), BELFRY_ERR_NOMEM);
    assert_true(refuse_end());
    assert_string_equal(shares_name(&conns[0]), "a");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_client_may_hold_as_much_as_it_leaves_free),
        TEST(a_tier_below_has_a_larger_share),
        TEST(without_a_total_everything_fits),
        TEST(the_client_that_holds_most_yields_to_one_that_holds_little),
        TEST(bytes_that_are_ending_and_new_ones_stay_within_a_bound),
        TEST(nobody_is_ended_while_the_pool_is_emptying),
        TEST(what_lingers_with_little_does_not_keep_a_pool_full),
        TEST(of_the_client_that_yields_the_connection_that_holds_most_is_ended),
        TEST(clients_that_hold_about_the_same_do_not_yield),
        TEST(the_largest_is_found_among_those_of_its_size),
        TEST(a_walk_sees_each_client_once_whatever_happens_meanwhile),
        TEST(a_client_that_comes_and_goes_keeps_its_work),
        TEST(clients_that_left_are_remembered_up_to_a_bound),
        TEST(work_counts_to_the_client_and_to_all),
        TEST(nobody_yields_to_what_could_never_be_held),
        TEST(unfinished_requests_yield_before_anything_in_good_order),
        TEST(at_the_limit_of_a_client_only_its_own_connections_are_ended),
        TEST(the_asker_itself_is_ended_if_it_holds_most),
        TEST(little_that_is_unfinished_ends_nothing),
        TEST(what_a_connection_holds_moves_to_the_client_that_it_turns_out_to_be),
        TEST(limits_can_change),
        TEST(random_clients),
        TEST(without_memory_nobody_joins_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
