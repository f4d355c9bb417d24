/* src/base/backoff.h
 *
 * backoff: how long to wait before a retry. The first wait is 0; then waits grow by half from `first_ms` to `max_ms`.
 * Each is jittered to between half and all of its length, so that many clients of a lost server do not return together.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_BASE_BACKOFF_H
#define BELFRY_BASE_BACKOFF_H

#include <stdint.h>

#include "base/rng.h"

struct belfry_backoff {
    uint32_t first_ms, max_ms; /* fixed */
    uint32_t tries;            /* failures since the last success */
};

static inline void belfry_backoff_init(struct belfry_backoff *backoff, uint32_t first_ms, uint32_t max_ms)
{
    *backoff = (struct belfry_backoff){.first_ms = first_ms, .max_ms = max_ms};
}

/* After a success: the next failure is retried immediately. */
static inline void belfry_backoff_reset(struct belfry_backoff *backoff)
{
    backoff->tries = 0;
}

/* Counts a failure and returns the milliseconds to wait. */
uint32_t belfry_backoff_next(struct belfry_backoff *backoff, struct belfry_rng *rng);

#endif
