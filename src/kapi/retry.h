/* src/kapi/retry.h
 *
 * retry: whether and when a failed request is sent again: client-go's rules for Request.Watch and Request.Do.
 *
 *     429 or 5xx with a Retry-After in seconds     after that time, jittered up to a quarter more
 *     the connection broke before an answer,
 *     or a timeout while waiting for it            after 1 s, jittered up to half more
 *     anything else                                never
 *
 * At most BELFRY_RETRY_MAX times per request.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_KAPI_RETRY_H
#define BELFRY_KAPI_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "kapi/failure.h"

#define BELFRY_RETRY_MAX 10

struct belfry_retry {
    unsigned tries; /* number of retries */
};

static inline void belfry_retry_init(struct belfry_retry *retry)
{
    *retry = (struct belfry_retry){0};
}

enum belfry_broke { BELFRY_BROKE_NOT, BELFRY_BROKE_REFUSED, BELFRY_BROKE_OFF };
/* BROKE_NOT: an answer came. BROKE_REFUSED: no connection could be made (client-go does not retry that here; the
 * reflector does). BROKE_OFF: the connection broke or timed out before the answer's head. */

/* True: send it again after *out_wait_ms; counts as a retry. False: give up. */
bool belfry_retry_again(struct belfry_retry *retry, const struct belfry_failure *failure, enum belfry_broke broke,
                        struct belfry_rng *rng, uint32_t *out_wait_ms);

#endif
