/* tests/sim/recipe.h
 *
 * recipe: what decides a run. A seed decides every choice from the first step on; a turn replaces the random stream at
 * a given step by that of another seed. Two recipes that agree up to a turn give the same run up to there, so a hunt
 * can try many endings of a run that reached a rare place.
 *
 * A run has auth (auth.h), or clients that read (reader.h), or neither; or it is of another world: a follower of a
 * resource of Kubernetes (kube/kube_world.h). That is a part of the recipe, beside the seed,
 * so that a run without them makes the same choices as before there were any.
 *
 * As text: "SEED", "SEED+auth", "SEED+reads" or "SEED+kube", then ",STEP:SEED" for each turn, steps ascending. That is
 * what --seed takes and what a failure prints.
 *
 * Thread: any. Plain data.
 */
#ifndef BELFRY_SIM_RECIPE_H
#define BELFRY_SIM_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECIPE_TURNS_MAX  6
#define RECIPE_TEXT_BYTES 320 /* 26 + 6 * 42, and its end */

struct recipe {
    uint64_t seed;
    bool auth, reads, kube; /* one at most */
    unsigned n_turns;
    struct recipe_turn {
        uint64_t step, seed;
    } turns[RECIPE_TURNS_MAX];
};

/* What a run has besides watches. */
enum recipe_with {
    RECIPE_WITH_ANY,
    RECIPE_WITH_OTHERS, /* any but kube */
    RECIPE_WITH_NOTHING,
    RECIPE_WITH_AUTH,
    RECIPE_WITH_READS,
    RECIPE_WITH_KUBE
};

/* The run of a seed among many. ANY: two in six have auth, one has reads, one is of Kubernetes. */
struct recipe recipe_of_seed(uint64_t seed, enum recipe_with with);

/* False: `text` is no recipe; *out is untouched. */
bool recipe_read(const char *text, struct recipe *out);

/* Writes the text form and returns `text`. */
const char *recipe_write(const struct recipe *recipe, char text[RECIPE_TEXT_BYTES]);

/* The same run up to `step`, another one from there on. Turns at or after `step` go. False: there is no room for one
 * more turn, and *out is untouched. */
bool recipe_turn_at(const struct recipe *recipe, uint64_t step, uint64_t seed, struct recipe *out);

#endif
