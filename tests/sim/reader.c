/* tests/sim/reader.c: the thread of a tier that reads history for those who are behind. */
#include "sim/cover.h"
#include "sim/tier_private.h"
#include "sim/trace.h"
#include "sim/verdict.h"

/* What is neither in the log nor committed can be given to nobody: an uncommitted batch must not leave the log. */
static void check_reachable(struct tier *tier, const struct worker_fetch *fetch)
{
    struct evlog_view view;
    tier_look(tier, &view);
    if (view.cut.past == fetch->past && !evlog_covers(&view, fetch->from) && evlog_commit_rev(tier->log) < fetch->from)
        verdict_fail("%s: revision %lld is neither in the log nor in history (committed up to %lld)", tier->opts.name,
                     (long long)fetch->from, (long long)evlog_commit_rev(tier->log));
}

static void read_history(struct tier *tier, struct job *job)
{
    const struct worker_fetch *fetch = &job->fetch;
    const struct store_api *api = tier->store->api;
    struct segment *segment = NULL;
    int64_t oldest = 0;
    enum belfry_err err =
        fetch->slice
            ? api->slice(tier->store, fetch->past, fetch->from, fetch->sub, tier->opts.segment_bytes, &segment, &oldest)
            : api->history(tier->store, fetch->past, fetch->from, tier->opts.segment_bytes, &segment, &oldest);
    TRACE(tier->opts.name, "reader: past=%llu from=%lld%s sub=%u -> %s upto=%lld oldest=%lld",
          (unsigned long long)fetch->past, (long long)fetch->from, fetch->slice ? " slice" : "", fetch->sub,
          belfry_errname((int)err), segment != NULL ? (long long)segment->upto : 0, (long long)oldest);
    if (err == BELFRY_ERR_NOT_FOUND) {
        job->oldest = oldest;
        tier_post(tier, &tier->feed.jobs, tier->ingest_actor, job);
        return;
    }
    if (err == BELFRY_OK)
        COVER(resume_history);
    if (err == BELFRY_ERR_AGAIN)
        check_reachable(tier, fetch);
    tier_answer(tier, job, err, segment, 0);
}

uint64_t reader_step(void *arg)
{
    struct tier *tier = arg;
    struct job *job = tier_take(tier, &tier->reader_jobs);
    if (job != NULL)
        read_history(tier, job);
    return tier_jobs_due(&tier->reader_jobs);
}
