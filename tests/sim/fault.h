/* tests/sim/fault.h
 *
 * fault: what goes wrong, and when it is mended. Which faults a run has, and how often, its seed decides.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_FAULT_H
#define BELFRY_SIM_FAULT_H

#include <stddef.h>

#include "sim/etcd.h"
#include "sim/gate.h"
#include "sim/sched.h"
#include "sim/tier.h"

struct fault;

struct fault_opts {
    struct sched *sched;
    struct etcd *etcd;
    struct gate *gate;
    struct tier **tiers;
    size_t n_tiers;
    uint64_t spacing;  /* times the usual time between two faults; 1: as usual */
    uint64_t restores; /* that are added to their usual weight among the faults */
};

struct fault *fault_create(const struct fault_opts *opts);
void fault_destroy(struct fault *fault); /* NULL is fine */

/* Everything is mended now, and nothing breaks any more. */
void fault_stop(struct fault *fault);

#endif
