/* tests/sim/world.h
 *
 * world: one run: a cluster, tiers in a chain with or without siblings, clients, faults; then everything is mended and
 * drained, everybody must have everything, and all is taken down.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_WORLD_H
#define BELFRY_SIM_WORLD_H

#include <stdint.h>

#include "sim/recipe.h"
#include "sim/tier.h"
#include "sim/trace.h"

struct world_opts {
    struct recipe recipe;
    uint64_t steps;
    enum tier_store store;
    enum trace_mode trace;
};

/* Runs it; what went wrong is in verdict.h, and then nothing is freed: end the process. Returns the steps taken. */
uint64_t world_run(const struct world_opts *opts);

#endif
