/* src/daemon/seed.h: numbers that nobody outside can guess, for seeds. Thread: any. */
#ifndef BELFRY_DAEMON_SEED_H
#define BELFRY_DAEMON_SEED_H

#include <stdint.h>
#include <sys/random.h>

#include "base/clock.h"

static inline uint64_t seed_draw(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = belfry_clock_ms();
    return seed;
}

#endif
