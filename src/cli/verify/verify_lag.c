/* src/cli/verify/verify_lag.c */
#include "cli/verify/verify_lag.h"

/* Below 16 a step is one. Above, the four bits after the highest choose one of 16 steps per power of two. */
static unsigned step_of(uint64_t us)
{
    if (us < 16)
        return (unsigned)us;
    unsigned power = 63 - (unsigned)__builtin_clzll(us);
    return (power - 3) * 16 + (unsigned)(us >> (power - 4) & 15);
}

/* The largest value of a step. */
static int64_t end_of(unsigned step)
{
    if (step < 16)
        return step;
    unsigned shift = step / 16 - 1;
    return (int64_t)(((uint64_t)(16 + step % 16 + 1) << shift) - 1);
}

void verify_lag_add(struct verify_lag *lag, int64_t us, uint64_t n_samples)
{
    if (us < 0) {
        lag->n_early += n_samples;
        us = 0;
    }
    lag->n += n_samples;
    lag->steps[step_of((uint64_t)us)] += n_samples;
    if (us > lag->max_us)
        lag->max_us = us;
}

int64_t verify_lag_at(const struct verify_lag *lag, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)lag->n), seen = 0;
    for (unsigned step = 0; step < VERIFY_LAG_STEPS; step++) {
        seen += lag->steps[step];
        if (seen > wanted || (seen == lag->n && seen > 0))
            return end_of(step) < lag->max_us ? end_of(step) : lag->max_us;
    }
    return 0;
}
