/* src/cli/verify/verify_env.h
 *
 * verify_env: what the parts of one run of verify share: what is verified, the judge, chance, and why it has to end.
 *
 * Thread: owner. Memory: none of its own.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_ENV_H
#define BELFRY_CLI_VERIFY_VERIFY_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/belfry.h>

#include "cli/verify/verify_judge.h"

#define VERIFY_WHY 1024
#define SECOND_US  INT64_C(1000000)

struct verify_env {
    /* fixed when the run begins */
    struct belfry_range range;
    struct verify_judge *judge;
    int64_t history; /* how many revisions back a watcher may start */
    int64_t max_lag_us;
    /* moved by the parts */
    uint64_t random;
    uint64_t cluster_id; /* of the reference; 0: not known yet */
    int64_t compacted;   /* history before this revision is gone, as far as was told */
    uint64_t n_starts, n_old_starts, n_compacted, n_unclear;
    int err;              /* why the run must end; BELFRY_OK: it need not */
    const char *side;     /* err set: whose fault it is */
    char why[VERIFY_WHY]; /* err set: a sentence */
};

/* The first failure is kept. `side` is "reference" or "tier", or whatever else; a literal. */
void verify_env_fail(struct verify_env *env, const char *side, int err, const char *why);

/* 0 to n - 1; n at least 1. */
uint64_t verify_env_dice(struct verify_env *env, uint64_t n);

/* A key that whoever may watch the range may read: reads of it tell revisions and compactions. */
struct belfry_range verify_env_key(const struct verify_env *env);

int64_t verify_now_us(void); /* of a clock that only goes forward */

#endif
