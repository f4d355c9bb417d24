/* bench/belfry-bench/outcome.h
 *
 * outcome: how requests of one kind went: how many succeeded, how long they took, and what the last failure was.
 *
 * Thread: owner.
 * Memory: fixed, 30 KiB.
 */
#ifndef BENCH_OUTCOME_H
#define BENCH_OUTCOME_H

#include <stdint.h>
#include <stdio.h>

#include "histogram.h"

#define OUTCOME_LATE_MS 5000 /* a request that is not answered after this time has failed */

struct outcome {
    uint64_t ok, failed;
    struct histogram took; /* ns, of those that succeeded */
    char why[128];         /* of the last that failed */
};

static inline void outcome_clear(struct outcome *outcome)
{
    outcome->ok = outcome->failed = 0;
    outcome->why[0] = '\0';
    histogram_clear(&outcome->took);
}

static inline void outcome_ok(struct outcome *outcome, uint64_t took_ns)
{
    outcome->ok++;
    histogram_add(&outcome->took, took_ns);
}

static inline void outcome_fail(struct outcome *outcome, const char *why)
{
    outcome->failed++;
    snprintf(outcome->why, sizeof(outcome->why), "%s", why);
}

#endif
