/* tests/storm/run.h
 *
 * run: one storm: a server with small pools, clients in good order, rogues, faults and time, all by choice. In the end
 * the faults are over and the rogues gone; then the clients in good order must be served, every account must be back at
 * zero, and after the server's end nothing may be left of it.
 *
 * Thread: owner. One at a time.
 */
#ifndef BELFRY_STORM_RUN_H
#define BELFRY_STORM_RUN_H

#include <stdint.h>

#include "storm/choices.h"

/* What was met, so that a driver can see whether its runs meet anything. */
struct run_tally {
    uint64_t runs, steps, connections, requests, events, gets, reconnects, refused_streams, refused_connections,
        ended_largest, floods, relayed, questions, kube_watches, lists, pages, kube_runs, echoes, refusals_of_memory;
    uint64_t digest;  /* of the last run: the same choices give the same */
    uint64_t turn_us; /* its longest turn, by the processor's time */
};

/* `steps` is the most; a run by bytes ends with them. A finding ends the process (verdict.h). */
void run_storm(struct choices *choices, uint64_t seed, unsigned steps, struct run_tally *tally);

#endif
