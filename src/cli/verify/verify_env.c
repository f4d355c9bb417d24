/* src/cli/verify/verify_env.c */
#include "cli/verify/verify_env.h"

#include <stdio.h>
#include <time.h>

void verify_env_fail(struct verify_env *env, const char *side, int err, const char *why)
{
    if (env->err != BELFRY_OK)
        return;
    env->err = err;
    env->side = side;
    snprintf(env->why, sizeof(env->why), "%s: %s", side, why != NULL && *why != '\0' ? why : belfry_strerror(err));
}

uint64_t verify_env_dice(struct verify_env *env, uint64_t n)
{
    uint64_t x = env->random += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64: any seed will do */
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (x ^ x >> 31) % n;
}

struct belfry_range verify_env_key(const struct verify_env *env)
{
    if (env->range.key.len == 0) /* every key: any will do */
        return belfry_key("belfry");
    return (struct belfry_range){.key = env->range.key, .kind = BELFRY_KEY};
}

int64_t verify_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}
