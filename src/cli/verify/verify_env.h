/* src/cli/verify/verify_env.h
 *
 * verify_env: what the parts of one run of verify share: the range, the judge, the dice, and why the run must end.
 *
 * Thread: owner. Memory: none of its own.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_ENV_H
#define BELFRY_CLI_VERIFY_VERIFY_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/belfry.h>

#include "base/rng.h"
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
    struct belfry_rng rng;
    uint64_t cluster_id; /* of the reference; 0: not known yet */
    int64_t compacted;   /* history before this revision is gone, as far as is known */
    uint64_t n_starts, n_old_starts, n_compacted, n_unclear;
    int err;              /* why the run must end; BELFRY_OK: it need not */
    const char *side;     /* err set: whose fault it is */
    char why[VERIFY_WHY]; /* err set: a sentence */
};

/* Keeps the first failure. `side` is a literal: "reference", "tier" or another cause. */
void verify_env_fail(struct verify_env *env, const char *side, int err, const char *why);

/* A key of the range: a client that may watch the range may read it. Reads of it show revisions and compactions. */
struct belfry_range verify_env_key(const struct verify_env *env);

int64_t verify_now_us(void); /* of a clock that only goes forward */

/* A batch of changes, as the judge compares it. The caller frees *out. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err verify_rev_of_batch(const struct belfry_batch *batch, struct judge_rev **out);

#endif
