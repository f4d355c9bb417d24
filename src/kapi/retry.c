/* src/kapi/retry.c */
#include "kapi/retry.h"

#define BROKE_OFF_MS 1000

static uint32_t jittered(struct belfry_rng *rng, int64_t wait_ms, int64_t more_ms)
{
    return (uint32_t)wait_ms + (uint32_t)belfry_rng_below(rng, (uint64_t)more_ms + 1);
}

bool belfry_retry_again(struct belfry_retry *retry, const struct belfry_failure *failure, enum belfry_broke broke,
                        struct belfry_rng *rng, uint32_t *out_wait_ms)
{
    if (retry->tries >= BELFRY_RETRY_MAX)
        return false;
    switch (broke) {
    case BELFRY_BROKE_REFUSED:
        return false;
    case BELFRY_BROKE_OFF:
        *out_wait_ms = jittered(rng, BROKE_OFF_MS, BROKE_OFF_MS / 2);
        break;
    case BELFRY_BROKE_NOT:
        if ((failure->code != 429 && failure->code < 500) || failure->retry_after_ms < 0)
            return false;
        *out_wait_ms = jittered(rng, failure->retry_after_ms, failure->retry_after_ms / 4);
        break;
    }
    retry->tries++;
    return true;
}
