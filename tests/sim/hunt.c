/* tests/sim/hunt.c */
#include "sim/hunt.h"

#include <stdlib.h>

#include "base/rng.h"
#include "sim/pairs.h"

#define WAYS  2  /* recipes that are remembered for a pair */
#define DRAWS 24 /* pairs of which the rarest is taken: more means rarer ones, and fewer different ones */

struct way {
    struct recipe recipe;
    uint64_t step; /* at which the pair was taken */
};

struct hunt {
    struct belfry_rng rng;
    enum recipe_with with;
    uint64_t runs;
    uint32_t taken[PAIRS]; /* in how many runs */
    struct way ways[PAIRS][WAYS];
    unsigned known[PAIRS]; /* pairs that were ever taken, in the order in which they were met */
    unsigned n_known;
};

struct hunt *hunt_create(uint64_t seed, enum recipe_with with)
{
    struct hunt *hunt = calloc(1, sizeof(*hunt));
    if (hunt == NULL)
        abort();
    hunt->rng.state = seed;
    hunt->with = with;
    return hunt;
}

void hunt_destroy(struct hunt *hunt)
{
    free(hunt);
}

static unsigned draw_rare(struct hunt *hunt)
{
    unsigned rarest = hunt->known[belfry_rng_below(&hunt->rng, hunt->n_known)];
    for (unsigned i = 1; i < DRAWS; i++) {
        unsigned pair = hunt->known[belfry_rng_below(&hunt->rng, hunt->n_known)];
        rarest = hunt->taken[pair] < hunt->taken[rarest] ? pair : rarest;
    }
    return rarest;
}

void hunt_next(struct hunt *hunt, struct recipe *out)
{
    uint64_t seed = belfry_rng_next(&hunt->rng) >> 1; /* a number that every shell can take */
    *out = recipe_of_seed(seed, hunt->with);
    if (hunt->runs++ % 2 == 0 || hunt->n_known == 0)
        return;
    unsigned pair = draw_rare(hunt);
    uint32_t n = hunt->taken[pair] < WAYS ? hunt->taken[pair] : WAYS;
    const struct way *way = &hunt->ways[pair][belfry_rng_below(&hunt->rng, n)];
    (void)recipe_turn_at(&way->recipe, way->step, seed, out); /* without room for a turn the seed is fresh */
}

/* Each run that took the pair has the same chance to be among those remembered. */
static void remember(struct hunt *hunt, unsigned pair, const struct recipe *recipe, uint64_t step)
{
    uint32_t before = hunt->taken[pair]++;
    if (before == 0)
        hunt->known[hunt->n_known++] = pair;
    uint64_t at = before < WAYS ? before : belfry_rng_below(&hunt->rng, before + 1);
    if (at < WAYS)
        hunt->ways[pair][at] = (struct way){.recipe = *recipe, .step = step};
}

void hunt_learn(struct hunt *hunt, const struct recipe *recipe)
{
    for (unsigned pair = 0; pair < PAIRS; pair++)
        if (pairs_first[pair] != 0)
            remember(hunt, pair, recipe, pairs_first[pair] - 1);
}
