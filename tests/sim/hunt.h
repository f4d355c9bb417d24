/* tests/sim/hunt.h
 *
 * hunt: which run to try next, so that rare pairs of paths are met often.
 *
 * A fresh seed meets the common pairs and few of the rare ones. A hunt remembers, for each pair, in how many runs it
 * was taken and some recipes that lead there. Every other run is fresh; the others take a recipe of a rare pair and
 * turn at the step at which the pair was taken first: the same way to a rare place, another way on. What that meets is
 * remembered in turn, so rare places lead to rarer ones (splitting, as in the simulation of rare events).
 *
 * Everything follows from the seed of the hunt. Thread: the one thread of the simulator. Memory: about 700 KiB, fixed.
 */
#ifndef BELFRY_SIM_HUNT_H
#define BELFRY_SIM_HUNT_H

#include <stdint.h>

#include "sim/recipe.h"

struct hunt;

struct hunt *hunt_create(uint64_t seed, enum recipe_with with);
void hunt_destroy(struct hunt *hunt); /* NULL is fine */

/* The next run. */
void hunt_next(struct hunt *hunt, struct recipe *out);

/* The run of `recipe` has ended well; pairs.h says what it met. */
void hunt_learn(struct hunt *hunt, const struct recipe *recipe);

#endif
