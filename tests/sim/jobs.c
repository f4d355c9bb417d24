/* tests/sim/jobs.c */
#include "sim/jobs.h"

#include <stdlib.h>

#include "base/clock.h"

void jobs_init(struct jobs *jobs, struct sched *sched, uint64_t delay_ms)
{
    *jobs = (struct jobs){.sched = sched, .delay_ms = delay_ms};
    belfry_list_init(&jobs->list);
}

void jobs_post(struct jobs *jobs, struct job *job)
{
    job->at_ms = sched_now(jobs->sched) + sched_below(jobs->sched, jobs->delay_ms + 1);
    belfry_list_append(&jobs->list, &job->node);
    sched_wake(jobs->sched, jobs->actor, job->at_ms);
}

struct job *jobs_take(struct jobs *jobs)
{
    belfry_list_each (node, &jobs->list) {
        if (job_of(node)->at_ms > sched_now(jobs->sched))
            continue;
        belfry_list_remove(node);
        return job_of(node);
    }
    return NULL;
}

uint64_t jobs_due(const struct jobs *jobs)
{
    uint64_t due = BELFRY_NEVER;
    belfry_list_each (node, &jobs->list)
        due = belfry_min_time(due, job_of(node)->at_ms);
    return due;
}

void jobs_drop(struct belfry_list *list)
{
    while (!belfry_list_empty(list)) {
        struct job *job = job_of(belfry_list_pop(list));
        segment_unref(job->segment);
        free(job);
    }
}
