/* tests/programs/now.h: the monotonic clock in ns, which the programs and the tests that drive them share. */
#ifndef BELFRY_TESTS_NOW_H
#define BELFRY_TESTS_NOW_H

#include <stdint.h>
#include <time.h>

static inline int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

#endif
