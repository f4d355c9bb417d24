/* src/cli/verify/verify_lag.h
 *
 * verify_lag: percentiles of lag, from a histogram whose steps are a sixteenth of the value. Any number of samples
 * takes 8 KiB, and a percentile is off by 6 % at most.
 *
 * Thread: owner. Memory: fixed.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_LAG_H
#define BELFRY_CLI_VERIFY_VERIFY_LAG_H

#include <stdint.h>

#define VERIFY_LAG_STEPS (61 * 16)

/* Zeroed to begin with. */
struct verify_lag {
    uint64_t n;       /* samples */
    uint64_t n_early; /* of those, how many were negative: they count as 0 */
    int64_t max_us;
    uint64_t steps[VERIFY_LAG_STEPS];
};

void verify_lag_add(struct verify_lag *lag, int64_t us, uint64_t n_samples);

/* In microseconds; 0 without samples. `share` is from 0 to 1. */
int64_t verify_lag_at(const struct verify_lag *lag, double share);

#endif
