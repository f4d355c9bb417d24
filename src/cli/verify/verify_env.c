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

struct belfry_range verify_env_key(const struct verify_env *env)
{
    if (env->range.key.len == 0) /* the range is all keys */
        return belfry_key("belfry");
    return (struct belfry_range){.key = env->range.key, .kind = BELFRY_KEY};
}

int64_t verify_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

static const struct belfry_event *next_of_batch(const void *source, const struct belfry_event *after)
{
    return belfry_batch_next(source, after);
}

enum belfry_err verify_rev_of_batch(const struct belfry_batch *batch, struct judge_rev **out)
{
    return judge_rev_create(batch->rev, verify_now_us(), next_of_batch, batch, out);
}
