/* tests/sim/tier.c: the life of a tier, and the thread that reads its history. */
#include "sim/tier.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replica/replica.h"
#include "sim/cover.h"
#include "sim/feed.h"
#include "sim/jobs.h"
#include "sim/reading.h"
#include "sim/serve.h"
#include "sim/trace.h"
#include "sim/verdict.h"
#include "support/modelstore.h"

struct tier {
    struct tier_opts opts;
    struct store *store;
    unsigned boot;    /* counts power losses */
    unsigned streams; /* dialled so far */
    bool up, warm;
    struct evlog *log;
    struct term term;
    struct jobs reader; /* fetches; its actor reads history */
    struct feed feed;
    struct server servers[TIER_WORKERS_MAX];
    struct answers *answers;      /* NULL without auth */
    uint64_t covered[COVER_END_]; /* what tier_cover() has added since the start */
};

struct tier *tier_create(const struct tier_opts *opts)
{
    struct tier *tier = calloc(1, sizeof(*tier));
    if (tier == NULL)
        abort();
    assert(opts->n_workers >= 1 && opts->n_workers <= TIER_WORKERS_MAX);
    tier->opts = *opts;
    struct modelstore_opts model = {
        .history_rows = opts->history_rows, .history_age_s = 3600, .extent_bytes = opts->extent_bytes};
    if (opts->store == TIER_STORE_MODEL)
        tier->store = modelstore_create(&model);
    return tier;
}

void tier_remove_folder(const struct tier *tier)
{
    char command[320];
    snprintf(command, sizeof(command), "rm -rf '%s'", tier->opts.dir);
    if (system(command) != 0)
        abort();
}

void tier_destroy(struct tier *tier)
{
    if (tier == NULL)
        return;
    assert(!tier->up);
    if (tier->opts.store == TIER_STORE_MODEL)
        modelstore_destroy(tier->store);
    else
        tier_remove_folder(tier);
    free(tier);
}

static void open_store(struct tier *tier)
{
    if (tier->opts.store == TIER_STORE_MODEL)
        return;
    char boot[32], *why = NULL;
    snprintf(boot, sizeof(boot), "boot-%u", tier->boot);
    struct replica_opts opts = {.dir = tier->opts.dir,
                                .history_bytes = tier->opts.history_rows * 200,
                                .history_age_s = 3600,
                                .map_bytes = 64 * 1024 * 1024,
                                .extent_bytes = tier->opts.extent_bytes,
                                .boot_id = boot,
                                .scope = "all",
                                .audit_here = true};
    enum belfry_err err = replica_open(&opts, &tier->store, &why);
    if (err != BELFRY_OK) {
        fprintf(stderr, "belfry-sim: %s: %s\n", tier->opts.dir, why != NULL ? why : belfry_strerror((int)err));
        abort();
    }
}

static void close_store(struct tier *tier, enum tier_stop how)
{
    if (tier->opts.store == TIER_STORE_MODEL) {
        if (how == TIER_STOP_KILL) {
            modelstore_crash(tier->store);
        } else if (how == TIER_STOP_POWER) {
            modelstore_lose_page_cache(tier->store);
        } else {
            struct modelstore_opts opts = {.history_rows = tier->opts.history_rows,
                                           .history_age_s = 3600,
                                           .extent_bytes = tier->opts.extent_bytes};
            modelstore_destroy(tier->store);
            tier->store = modelstore_create(&opts);
        }
        return;
    }
    replica_close(tier->store, REPLICA_CLOSE_DIRTY);
    tier->store = NULL;
    tier->boot += how == TIER_STOP_POWER;
    if (how == TIER_STOP_DISCARD)
        tier_remove_folder(tier);
}

/* ---- the thread that reads history for watchers that are behind ---- */

/* A revision that is neither in the log nor committed cannot be served: an uncommitted batch must not leave the log. */
static void check_reachable(struct tier *tier, const struct worker_fetch *fetch)
{
    struct evlog_view view;
    serve_look(&tier->servers[0], &view);
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
        jobs_post(&tier->feed.jobs, job);
        return;
    }
    if (err == BELFRY_OK)
        COVER(resume_history);
    if (err == BELFRY_ERR_AGAIN)
        check_reachable(tier, fetch);
    serve_answer(&tier->servers[job->worker], job, err, segment, 0);
}

static uint64_t reader_step(void *arg)
{
    struct tier *tier = arg;
    struct job *job = jobs_take(&tier->reader);
    if (job != NULL)
        read_history(tier, job);
    return jobs_due(&tier->reader);
}

/* ---- its life ---- */

void tier_start(struct tier *tier)
{
    static uint64_t boots; /* of all tiers */
    struct tier_opts *opts = &tier->opts;
    assert(!tier->up);
    boots++;
    open_store(tier);
    struct evlog_opts log = {.capacity_log2 = opts->log_capacity_log2,
                             .max_bytes = opts->log_bytes,
                             .n_workers = opts->n_workers + 1}; /* one more for the simulator's own looks */
    if (evlog_create(&log, &tier->log) != BELFRY_OK)
        abort();
    jobs_init(&tier->reader, opts->sched, opts->delay_ms);
    term_init(&tier->term);
    struct feed_parts parts = {.servers = tier->servers, .store = tier->store, .log = tier->log, .term = &tier->term};
    feed_start(&tier->feed, opts, &parts, &tier->warm);
    TRACE(opts->name, "starts %s at %lld", tier->warm ? "warm" : "cold", (long long)ingest_head(tier->feed.ingest));
    if (tier->warm)
        COVER(start_warm);
    else
        COVER(start_cold);
    memset(tier->covered, 0, sizeof(tier->covered));
    if (opts->auth != NULL && answers_create(opts->rights_period_ms, &tier->answers) != BELFRY_OK)
        abort();
    tier->up = true;
    for (unsigned i = 0; i < opts->n_workers; i++) {
        tier->servers[i] = (struct server){.opts = opts,
                                           .number = i,
                                           .log = tier->log,
                                           .store = tier->store,
                                           .reader = &tier->reader,
                                           .answers = tier->answers,
                                           .ingest = opts->reads ? &tier->feed.thread : NULL,
                                           .term = &tier->term,
                                           .boot = boots};
        serve_start(&tier->servers[i]);
    }
    feed_run(&tier->feed);
    tier->reader.actor = sched_add(opts->sched, ACTOR_THREAD, reader_step, tier);
}

/* All have ended their steps before the first is gone: they wake each other. */
static void stop_threads(struct tier *tier)
{
    struct sched *sched = tier->opts.sched;
    sched_finish(tier->feed.jobs.actor);
    sched_finish(tier->reader.actor);
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        sched_finish(tier->servers[i].jobs.actor);
    sched_remove(sched, tier->feed.jobs.actor);
    sched_remove(sched, tier->reader.actor);
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        sched_remove(sched, tier->servers[i].jobs.actor);
}

void tier_stop(struct tier *tier, enum tier_stop how)
{
    assert(tier->up);
    TRACE(tier->opts.name, "stops (%d) at %lld, committed %lld", (int)how, (long long)ingest_head(tier->feed.ingest),
          (long long)ingest_committed(tier->feed.ingest));
    stop_threads(tier);
    sched_hold();
    tier_cover(tier);
    tier->up = false;
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        serve_stop(&tier->servers[i]);
    answers_destroy(tier->answers);
    tier->answers = NULL;
    feed_stop(&tier->feed);
    jobs_drop(&tier->reader.list);
    term_fini(&tier->term);
    evlog_destroy(tier->log);
    close_store(tier, how);
    sched_release();
}

bool tier_up(const struct tier *tier)
{
    return tier->up;
}

bool tier_was_warm(const struct tier *tier)
{
    return tier->warm;
}

uint64_t tier_oldest_past(const struct tier *tier)
{
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; tier->up && i < tier->opts.n_workers; i++) {
        uint64_t past = worker_past(tier->servers[i].worker);
        oldest = past < oldest ? past : oldest;
    }
    return tier->up ? oldest : 0;
}

void tier_followed(const struct tier *tier, struct upstream_stats *out)
{
    *out = (struct upstream_stats){0};
    if (tier->up)
        upstream_stats(tier->feed.upstream, out);
}

bool tier_ready(const struct tier *tier)
{
    return tier->up && upstream_ready(tier->feed.upstream);
}

const char *tier_name(const struct tier *tier)
{
    return tier->opts.name;
}

int64_t tier_head(const struct tier *tier)
{
    return tier->up ? ingest_head(tier->feed.ingest) : 0;
}

int64_t tier_capped(const struct tier *tier)
{
    return tier->feed.capped;
}

int64_t tier_position(const struct tier *tier)
{
    int64_t least = INT64_MAX;
    for (unsigned i = 0; tier->up && i < tier->opts.n_workers; i++) {
        int64_t at = worker_position(tier->servers[i].worker);
        least = at < least ? at : least;
    }
    return tier->up ? least : 0;
}

bool tier_busy(const struct tier *tier)
{
    if (!tier->up)
        return false;
    bool busy = upstream_state(tier->feed.upstream) != UPSTREAM_LIVE || !belfry_list_empty(&tier->reader.list) ||
                !belfry_list_empty(&tier->feed.jobs.list) || !belfry_list_empty(&tier->feed.backfilling);
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        busy = busy || serve_is_waiting(&tier->servers[i]);
    return busy;
}

bool tier_is_calm(const struct tier *tier)
{
    for (unsigned i = 0; tier->up && i < tier->opts.n_workers; i++) {
        if (!serve_is_calm(&tier->servers[i]))
            return false;
    }
    return true;
}

void tier_cut(const struct tier *tier, struct evlog_cut *out)
{
    struct evlog_view view = {0};
    if (tier->up)
        serve_look(&tier->servers[0], &view);
    *out = view.cut;
}

struct link *tier_dial(struct tier *tier, struct actor *client, size_t window, enum tier_stream kind,
                       const struct auth_who *who)
{
    if (!tier_ready(tier))
        return NULL;
    struct server *server = &tier->servers[sched_below(tier->opts.sched, tier->opts.n_workers)];
    return serve_dial(server, client, window, kind, who, ++tier->streams);
}

uint64_t tier_run_reads(struct tier *tier)
{
    return tier->up ? feed_run_reads(&tier->feed) : BELFRY_NEVER;
}

/* ---- faults ---- */

void tier_break_links(struct tier *tier)
{
    if (tier->up && tier->feed.live.link != NULL)
        link_break(tier->feed.live.link);
    if (tier->up && tier->feed.back.link != NULL && sched_one_in(tier->opts.sched, 2))
        link_break(tier->feed.back.link);
}

void tier_silence_links(struct tier *tier, uint64_t until_ms)
{
    if (tier->up && tier->feed.live.link != NULL)
        link_silence(tier->feed.live.link, until_ms);
    if (tier->up && tier->feed.back.link != NULL)
        link_silence(tier->feed.back.link, until_ms);
}

void tier_freeze_worker(struct tier *tier, uint64_t until_ms)
{
    if (tier->up)
        sched_freeze(tier->opts.sched, tier->servers[sched_below(tier->opts.sched, tier->opts.n_workers)].jobs.actor,
                     until_ms);
}

void tier_freeze(struct tier *tier, uint64_t until_ms)
{
    if (!tier->up)
        return;
    sched_freeze(tier->opts.sched, tier->feed.jobs.actor, until_ms);
    sched_freeze(tier->opts.sched, tier->reader.actor, until_ms);
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        sched_freeze(tier->opts.sched, tier->servers[i].jobs.actor, until_ms);
}

void tier_fail_disk(struct tier *tier, unsigned n)
{
    if (tier->opts.store == TIER_STORE_MODEL)
        modelstore_fail(tier->store, n);
}

void tier_damage_replica(struct tier *tier)
{
    if (tier->opts.store == TIER_STORE_MODEL)
        modelstore_damage(tier->store);
}

/* ---- how it stands ---- */

void tier_check(struct tier *tier)
{
    for (unsigned i = 0; tier->up && i < tier->opts.n_workers; i++) {
        struct worker_stats stats;
        worker_stats(tier->servers[i].worker, &stats);
        size_t bound = 512 * 1024 + stats.streams * 4096 + (stats.watchers + stats.nodes) * 1024;
        if (stats.bytes > bound)
            verdict_fail("%s worker %u: %zu bytes are accounted, the bound is %zu (%zu streams, %zu watchers)",
                         tier->opts.name, i, stats.bytes, bound, stats.streams, stats.watchers);
    }
}

static void count_upstream(const struct tier *tier, uint64_t counts[COVER_END_])
{
    struct upstream_stats up;
    upstream_stats(tier->feed.upstream, &up);
    counts[COVER_overlap] = up.overlaps;
    counts[COVER_listing] = up.listings;
    counts[COVER_resync_compacted] = up.relists_compacted;
    counts[COVER_rewind] = up.relists_rewritten;
    counts[COVER_breach] = up.breaches;
    counts[COVER_lag] = up.judgements > up.relists_rewritten ? up.judgements - up.relists_rewritten : 0;
    counts[COVER_replay] = up.replays;
    counts[COVER_page_again] = up.pages_repeated;
    counts[COVER_stale] = up.stale;
    counts[COVER_gap] = up.gaps;
}

static void count_worker(const struct worker *worker, uint64_t counts[COVER_END_])
{
    struct worker_stats stats;
    worker_stats(worker, &stats);
    counts[COVER_park] += stats.parks;
    counts[COVER_unpark] += stats.unparks;
    counts[COVER_handover] += stats.handovers;
    counts[COVER_fragment] += stats.fragments;
    counts[COVER_extent] += stats.extents;
    counts[COVER_overslept] += stats.overslept;
    counts[COVER_packed] += stats.packed;
    counts[COVER_compacted] += stats.compacted;
    counts[COVER_cut] += stats.cuts;
}

void tier_cover(struct tier *tier)
{
    if (!tier->up)
        return;
    uint64_t counts[COVER_END_] = {0};
    count_upstream(tier, counts);
    for (unsigned i = 0; i < tier->opts.n_workers; i++) {
        count_worker(tier->servers[i].worker, counts);
        if (tier->servers[i].reading != NULL)
            reading_cover(tier->servers[i].reading, counts);
    }
    counts[COVER_point_asked] = tier->feed.point.stats.questions;
    counts[COVER_point_failed] = tier->feed.point.stats.failed;
    for (unsigned i = 0; i < COVER_END_; i++) {
        if (counts[i] <= tier->covered[i])
            continue;
        cover_counts[i] += counts[i] - tier->covered[i];
        tier->covered[i] = counts[i];
    }
}
