/* src/base/backoff.c */
#include "base/backoff.h"

uint32_t belfry_backoff_next(struct belfry_backoff *backoff, struct belfry_rng *rng)
{
    if (backoff->tries++ == 0)
        return 0;
    uint64_t wait = backoff->first_ms;
    for (uint32_t i = 2; i < backoff->tries && wait < backoff->max_ms; i++)
        wait += wait / 2 + 1;
    if (wait > backoff->max_ms)
        wait = backoff->max_ms;
    return (uint32_t)(wait / 2 + belfry_rng_below(rng, wait / 2 + 1));
}
