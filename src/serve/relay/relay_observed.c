/* src/serve/relay/relay_observed.c */
#include "serve/relay/relay_observed.h"

#include "base/clock.h"

void relay_observed_init(struct relay_observed *observed)
{
    *observed = (struct relay_observed){.look_ms = BELFRY_NEVER};
}

void relay_observed_begin(struct relay_observed *observed, uint64_t now_ms, uint64_t period_ms)
{
    *observed = (struct relay_observed){.right_ms = now_ms, .look_ms = now_ms + period_ms / 2};
}

bool relay_observed_is_over(struct relay_observed *observed, enum permit_auth auth, uint64_t now_ms, uint64_t period_ms)
{
    uint64_t end_ms = observed->right_ms + period_ms - period_ms / 10;
    switch (auth) {
    case PERMIT_AUTH_OFF:
        relay_observed_begin(observed, now_ms, period_ms);
        return false;
    case PERMIT_AUTH_ON:
        observed->look_ms = end_ms;
        break;
    case PERMIT_AUTH_UNKNOWN: /* it is being asked */
        observed->look_ms = belfry_min_time(now_ms + RELAY_OBSERVED_LOOK_MS, end_ms);
        break;
    }
    return end_ms <= now_ms;
}
