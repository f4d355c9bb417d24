/* tests/sim/hunt_test.c: a hunt in a made-up world, in which a run meets what its recipe says. */
#include "sim/hunt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sim/pairs.h"

/* A run in which `path` is taken at `step`. */
static void take(enum cover path, uint64_t step)
{
    cover_counts[path]++;
    pairs_look(step);
}

static bool met(enum cover a, enum cover b)
{
    return pairs_first[a * COVER_END_ + b] != 0;
}

static void paths_that_are_near_are_a_pair_in_their_order(void **state)
{
    (void)state;
    pairs_start();
    take(COVER_park, 32);
    take(COVER_stale, 64);
    assert_true(met(COVER_park, COVER_stale));
    assert_false(met(COVER_stale, COVER_park));
    assert_int_equal(pairs_first[COVER_park * COVER_END_ + COVER_stale], 64 + 1);
}

static void paths_that_are_far_apart_are_no_pair(void **state)
{
    (void)state;
    pairs_start();
    take(COVER_park, 32);
    for (unsigned i = 0; i < PAIRS_NEAR; i++)
        pairs_look(64 + i);
    take(COVER_stale, 320);
    assert_false(met(COVER_park, COVER_stale));
}

static void a_new_run_has_met_nothing(void **state)
{
    (void)state;
    pairs_start();
    take(COVER_park, 32);
    pairs_start();
    pairs_look(32);
    for (unsigned i = 0; i < PAIRS; i++)
        assert_int_equal(pairs_first[i], 0);
}

/* A world in which depth n + 1 is reached from depth n by one seed in 16. Plain runs reach depth 4 once in 65,536. */
static unsigned depth_of(const struct recipe *recipe)
{
    static const enum cover rungs[] = {COVER_park, COVER_stale, COVER_gap, COVER_breach};
    struct belfry_rng rng = {recipe->seed};
    unsigned depth = 0, turn = 0;
    pairs_start();
    for (uint64_t step = 32; depth < 4; step += 32) {
        if (turn < recipe->n_turns && recipe->turns[turn].step < step)
            rng.state = recipe->turns[turn++].seed;
        if (belfry_rng_below(&rng, 16) != 0)
            break;
        take(rungs[depth++], step);
    }
    return depth;
}

static void a_hunt_goes_on_from_rare_places(void **state)
{
    (void)state;
    struct hunt *hunt = hunt_create(1, RECIPE_WITH_ANY);
    unsigned deepest = 0;
    for (unsigned i = 0; i < 1000; i++) {
        struct recipe recipe;
        hunt_next(hunt, &recipe);
        unsigned depth = depth_of(&recipe);
        deepest = depth > deepest ? depth : deepest;
        hunt_learn(hunt, &recipe);
    }
    hunt_destroy(hunt);
    assert_int_equal(deepest, 4);
}

static void a_hunt_follows_from_its_seed(void **state)
{
    (void)state;
    struct hunt *hunts[2] = {hunt_create(7, RECIPE_WITH_ANY), hunt_create(7, RECIPE_WITH_ANY)};
    for (unsigned i = 0; i < 200; i++) {
        struct recipe recipes[2];
        for (unsigned k = 0; k < 2; k++) {
            hunt_next(hunts[k], &recipes[k]);
            (void)depth_of(&recipes[k]);
            hunt_learn(hunts[k], &recipes[k]);
        }
        assert_memory_equal(&recipes[0], &recipes[1], sizeof(recipes[0]));
    }
    hunt_destroy(hunts[0]);
    hunt_destroy(hunts[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_that_are_near_are_a_pair_in_their_order),
        cmocka_unit_test(paths_that_are_far_apart_are_no_pair),
        cmocka_unit_test(a_new_run_has_met_nothing),
        cmocka_unit_test(a_hunt_goes_on_from_rare_places),
        cmocka_unit_test(a_hunt_follows_from_its_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
