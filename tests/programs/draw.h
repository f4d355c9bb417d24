/* tests/programs/draw.h: numbers that are repeatable from the seed alone (xorshift64). One sequence per program. */
#ifndef BELFRY_TESTS_DRAW_H
#define BELFRY_TESTS_DRAW_H

#include <stdint.h>

/* `seed` counts for the first number. */
static inline uint64_t draw_from(uint64_t seed, uint64_t below)
{
    static uint64_t state;
    if (state == 0)
        state = seed * 0x9E3779B97F4A7C15U + 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

#endif
