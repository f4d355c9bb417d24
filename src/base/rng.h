/* src/base/rng.h: random numbers for jitter and for tests that replay from a seed (splitmix64); not for secrets.
 * Thread: owner. */
#ifndef BELFRY_BASE_RNG_H
#define BELFRY_BASE_RNG_H

#include <stdint.h>

struct belfry_rng {
    uint64_t state;
};

static inline uint64_t belfry_rng_next(struct belfry_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number in [0, n); n is at least 1. The bias of the remainder does not matter for jitter. */
static inline uint64_t belfry_rng_below(struct belfry_rng *rng, uint64_t n)
{
    return belfry_rng_next(rng) % n;
}

#endif
