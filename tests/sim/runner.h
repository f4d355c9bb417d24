/* tests/sim/runner.h
 *
 * runner: many runs, in processes of their own, so that a crash is a finding like any other.
 *
 * Thread: the main thread; forks.
 */
#ifndef BELFRY_SIM_RUNNER_H
#define BELFRY_SIM_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sim.h"
#include "sim/cover.h"
#include "sim/pairs.h"
#include "sim/recipe.h"
#include "sim/tier.h"
#include "sim/verdict.h"

enum runner_way {
    RUNNER_IN_ORDER, /* seeds first, first + 1, ... */
    RUNNER_HUNT      /* recipes that a hunt chooses; `first` is its own seed */
};

struct runner_opts {
    enum runner_way way;
    enum recipe_with with;
    uint64_t first, seeds, steps;
    unsigned jobs;
    enum tier_store store;
    enum belfry_mutant mutant;
};

struct runner_result {
    uint64_t seeds, steps; /* run */
    bool failed;
    struct recipe recipe; /* what failed; the one with the smallest seed */
    char why[VERDICT_BYTES];
    uint64_t cover[COVER_END_];
    uint32_t pairs[PAIRS]; /* in how many runs each pair was taken */
};

/* Runs until one fails. */
void runner_run(const struct runner_opts *opts, struct runner_result *result);

/* For each mutant, the first seed that finds it: results[mutant], `jobs` mutants at a time. */
void runner_mutants(const struct runner_opts *opts, struct runner_result *results);

#endif
