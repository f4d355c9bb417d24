/* bench/belfry-bench/stopwatch.h: nanoseconds of CLOCK_MONOTONIC, and points in time that are not to be passed.
 * Thread: any. */
#ifndef BENCH_STOPWATCH_H
#define BENCH_STOPWATCH_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S  1000000000u
#define NS_PER_MS 1000000u

static inline uint64_t stopwatch_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Milliseconds until `at`, rounded up, for a wait: from 0 to 1000. */
static inline int stopwatch_ms_until(uint64_t at)
{
    uint64_t now = stopwatch_ns();
    if (at <= now)
        return 0;
    uint64_t ms = (at - now + NS_PER_MS - 1) / NS_PER_MS;
    return ms > 1000 ? 1000 : (int)ms;
}

#endif
