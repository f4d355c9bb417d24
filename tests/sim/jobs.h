/* tests/sim/jobs.h
 *
 * jobs: mail between the threads of a tier: fetches on their way from a worker to the reader, perhaps on to ingest, and
 * back to the worker. A job arrives a little after it was posted, and wakes its reader then.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_JOBS_H
#define BELFRY_SIM_JOBS_H

#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "core/segment.h"
#include "sim/sched.h"

struct job {
    struct belfry_list node;
    uint64_t at_ms; /* when it arrives */
    unsigned worker;
    struct worker_fetch fetch;
    int64_t oldest; /* for ingest: where the window begins */
    uint64_t token; /* of its backfill */
    /* the answer */
    enum belfry_err err;
    struct segment *segment;
    int64_t compact_rev;
};

/* The mail of one thread. */
struct jobs {
    struct belfry_list list;
    struct sched *sched;
    uint64_t delay_ms;   /* the longest that a job takes */
    struct actor *actor; /* the thread */
};

static inline struct job *job_of(struct belfry_list *node)
{
    return belfry_container(node, struct job, node);
}

void jobs_init(struct jobs *jobs, struct sched *sched, uint64_t delay_ms);
void jobs_post(struct jobs *jobs, struct job *job);
struct job *jobs_take(struct jobs *jobs); /* the next that has arrived; NULL: none */
uint64_t jobs_due(const struct jobs *jobs);
void jobs_drop(struct belfry_list *list); /* frees all jobs of a list */

#endif
