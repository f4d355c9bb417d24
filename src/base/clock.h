/* src/base/clock.h: the clock. Drivers read it and pass the time to the machines, which never read it. Thread: any. */
#ifndef BELFRY_BASE_CLOCK_H
#define BELFRY_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define BELFRY_NEVER UINT64_MAX /* as a point in time: no timer is needed */

/* Milliseconds of CLOCK_MONOTONIC; in the simulator, its own. */
#ifdef BELFRY_SIM
uint64_t belfry_clock_ms(void);
#else
static inline uint64_t belfry_clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
#endif

/* Milliseconds of CLOCK_BOOTTIME, which also runs while the machine sleeps: for deadlines that a server keeps. */
static inline uint64_t belfry_clock_boot_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Nanoseconds of CLOCK_MONOTONIC, for measurements; in the simulator, its own. */
#ifdef BELFRY_SIM
uint64_t belfry_clock_ns(void);
#else
static inline uint64_t belfry_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
#endif

static inline uint64_t belfry_min_time(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
