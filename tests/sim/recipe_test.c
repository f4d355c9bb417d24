/* tests/sim/recipe_test.c */
#include "sim/recipe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void recipe_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",          "18446744073709551615", "7,32:9",       "7,32:9,64:9,96:1,128:2,160:3,192:4",
        "7+auth",     "7+auth,32:9",          "7+reads,32:9", "7+kube",
        "7+kube,32:9"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct recipe recipe;
        char text[RECIPE_TEXT_BYTES];
        assert_true(recipe_read(texts[i], &recipe));
        assert_string_equal(recipe_write(&recipe, text), texts[i]);
    }
}

static void longest_recipe_fits_its_text(void **state)
{
    (void)state;
    struct recipe recipe = {.seed = UINT64_MAX, .auth = true, .n_turns = RECIPE_TURNS_MAX}, again;
    char text[RECIPE_TEXT_BYTES];
    for (unsigned i = 0; i < RECIPE_TURNS_MAX; i++)
        recipe.turns[i] = (struct recipe_turn){.step = UINT64_MAX - RECIPE_TURNS_MAX + i, .seed = UINT64_MAX};
    assert_true(recipe_read(recipe_write(&recipe, text), &again));
    assert_memory_equal(&again, &recipe, sizeof(recipe));
}

static void what_is_no_recipe_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "-1",
                                        " 1",
                                        "x",
                                        "1,",
                                        "1,2",
                                        "1,2:",
                                        "1,:2",
                                        "1,5:2,5",
                                        "1,5:2,5:3",
                                        "1,6:2,5:3",
                                        "18446744073709551616",
                                        "1 ",
                                        "1,1:1,2:1,3:1,4:1,5:1,6:1,7:1",
                                        "1+",
                                        "1+auth+auth",
                                        "1+auth+reads",
                                        "1+reads+kube",
                                        "1+au",
                                        "1,2:3+auth"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct recipe recipe = {.seed = 77};
        assert_false(recipe_read(texts[i], &recipe));
        assert_int_equal(recipe.seed, 77);
    }
}

static void a_turn_replaces_later_turns(void **state)
{
    (void)state;
    struct recipe recipe, turned;
    char text[RECIPE_TEXT_BYTES];
    assert_true(recipe_read("1,10:2,20:3", &recipe));
    assert_true(recipe_turn_at(&recipe, 30, 4, &turned));
    assert_string_equal(recipe_write(&turned, text), "1,10:2,20:3,30:4");
    assert_true(recipe_turn_at(&recipe, 20, 4, &turned));
    assert_string_equal(recipe_write(&turned, text), "1,10:2,20:4");
    assert_true(recipe_turn_at(&recipe, 5, 4, &turned));
    assert_string_equal(recipe_write(&turned, text), "1,5:4");
}

static void turns_are_bounded(void **state)
{
    (void)state;
    struct recipe recipe = {.seed = 1}, full;
    for (uint64_t step = 1; step <= RECIPE_TURNS_MAX; step++)
        assert_true(recipe_turn_at(&recipe, step, step, &recipe));
    full = recipe;
    assert_false(recipe_turn_at(&full, RECIPE_TURNS_MAX + 1, 9, &recipe));
    assert_memory_equal(&full, &recipe, sizeof(full));
    assert_true(recipe_turn_at(&full, RECIPE_TURNS_MAX, 9, &recipe));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recipe_is_read_as_it_was_written),
        cmocka_unit_test(longest_recipe_fits_its_text),
        cmocka_unit_test(what_is_no_recipe_is_refused),
        cmocka_unit_test(a_turn_replaces_later_turns),
        cmocka_unit_test(turns_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
