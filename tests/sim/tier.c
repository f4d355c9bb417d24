/* tests/sim/tier.c: the life of a tier. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replica/replica.h"
#include "sim/cover.h"
#include "sim/tier_private.h"
#include "sim/trace.h"
#include "sim/verdict.h"
#include "support/modelstore.h"

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

void tier_start(struct tier *tier)
{
    struct tier_opts *opts = &tier->opts;
    assert(!tier->up);
    open_store(tier);
    struct evlog_opts log = {.capacity_log2 = opts->log_capacity_log2,
                             .max_bytes = opts->log_bytes,
                             .n_workers = opts->n_workers + 1}; /* one more for the simulator's own looks */
    struct ingest_opts ingest = {
        .store = tier->store, .extent_bytes = opts->extent_bytes, .trim_rows = 50, .whole_scope = true};
    struct upstream_opts upstream = {.store = tier->store,
                                     .key = {"", 1},
                                     .range_end = {"", 1},
                                     .window = opts->window,
                                     .far = opts->far,
                                     .page = opts->page};
    if (evlog_create(&log, &tier->log) != BELFRY_OK)
        abort();
    ingest.evlog = tier->log;
    if (ingest_create(&ingest, &tier->ingest) != BELFRY_OK)
        abort();
    upstream.ingest = tier->ingest;
    if (ingest_open(tier->ingest, &tier->warm) != BELFRY_OK ||
        upstream_create(&upstream, &tier->upstream) != BELFRY_OK ||
        backfill_create(opts->backfill_bytes, &tier->backfill) != BELFRY_OK)
        abort();
    backfill_prove_by(tier->backfill, tier->ingest);
    TRACE(opts->name, "starts %s at %lld", tier->warm ? "warm" : "cold", (long long)ingest_head(tier->ingest));
    if (tier->warm)
        COVER(start_warm);
    else
        COVER(start_cold);
    memset(tier->covered, 0, sizeof(tier->covered));
    belfry_list_init(&tier->reader_jobs);
    feed_start(tier);
    tier->up = true;
    for (unsigned i = 0; i < opts->n_workers; i++) {
        tier->servers[i] = (struct server){.tier = tier, .number = i};
        serve_start(&tier->servers[i]);
    }
    tier->ingest_actor = sched_add(opts->sched, ACTOR_THREAD, feed_step, tier);
    tier->reader_actor = sched_add(opts->sched, ACTOR_THREAD, reader_step, tier);
}

static void drop_jobs(struct belfry_list *queue)
{
    while (!belfry_list_empty(queue)) {
        struct job *job = job_of(belfry_list_pop(queue));
        segment_unref(job->segment);
        free(job);
    }
}

/* All have ended their steps before the first is gone: they wake each other. */
static void stop_threads(struct tier *tier)
{
    struct sched *sched = tier->opts.sched;
    sched_finish(tier->ingest_actor);
    sched_finish(tier->reader_actor);
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        sched_finish(tier->servers[i].actor);
    sched_remove(sched, tier->ingest_actor);
    sched_remove(sched, tier->reader_actor);
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        sched_remove(sched, tier->servers[i].actor);
}

void tier_stop(struct tier *tier, enum tier_stop how)
{
    assert(tier->up);
    TRACE(tier->opts.name, "stops (%d) at %lld, committed %lld", (int)how, (long long)ingest_head(tier->ingest),
          (long long)ingest_committed(tier->ingest));
    stop_threads(tier);
    sched_hold();
    tier_cover(tier);
    tier->up = false;
    for (unsigned i = 0; i < tier->opts.n_workers; i++) {
        serve_stop(&tier->servers[i]);
        drop_jobs(&tier->servers[i].jobs);
    }
    feed_stop(tier);
    drop_jobs(&tier->reader_jobs);
    drop_jobs(&tier->feed.jobs);
    drop_jobs(&tier->feed.backfilling);
    backfill_destroy(tier->backfill);
    upstream_destroy(tier->upstream);
    ingest_destroy(tier->ingest);
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
        upstream_stats(tier->upstream, out);
}

bool tier_ready(const struct tier *tier)
{
    return tier->up && upstream_ready(tier->upstream);
}

const char *tier_name(const struct tier *tier)
{
    return tier->opts.name;
}

int64_t tier_head(const struct tier *tier)
{
    return tier->up ? ingest_head(tier->ingest) : 0;
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
    bool busy = upstream_state(tier->upstream) != UPSTREAM_LIVE || !belfry_list_empty(&tier->reader_jobs) ||
                !belfry_list_empty(&tier->feed.jobs) || !belfry_list_empty(&tier->feed.backfilling);
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        busy = busy || !belfry_list_empty(&tier->servers[i].jobs);
    return busy;
}

void tier_look(const struct tier *tier, struct evlog_view *view)
{
    sched_hold();
    evlog_enter(tier->log, tier->opts.n_workers, view);
    evlog_leave(tier->log, tier->opts.n_workers);
    sched_release();
}

void tier_cut(const struct tier *tier, struct evlog_cut *out)
{
    struct evlog_view view = {0};
    if (tier->up)
        tier_look(tier, &view);
    *out = view.cut;
}

/* ---- jobs ---- */

void tier_post(struct tier *tier, struct belfry_list *queue, struct actor *reader, struct job *job)
{
    struct sched *sched = tier->opts.sched;
    job->at_ms = sched_now(sched) + sched_below(sched, tier->opts.delay_ms + 1);
    belfry_list_append(queue, &job->node);
    sched_wake(sched, reader, job->at_ms);
}

struct job *tier_take(struct tier *tier, struct belfry_list *queue)
{
    belfry_list_each (node, queue) {
        if (job_of(node)->at_ms > sched_now(tier->opts.sched))
            continue;
        belfry_list_remove(node);
        return job_of(node);
    }
    return NULL;
}

uint64_t tier_jobs_due(const struct belfry_list *queue)
{
    uint64_t due = BELFRY_NEVER;
    belfry_list_each (node, queue)
        due = belfry_min_time(due, job_of(node)->at_ms);
    return due;
}

void tier_answer(struct tier *tier, struct job *job, enum belfry_err err, struct segment *segment, int64_t compact_rev)
{
    job->err = err;
    job->segment = segment;
    job->compact_rev = compact_rev;
    tier_post(tier, &tier->servers[job->worker].jobs, tier->servers[job->worker].actor, job);
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
        sched_freeze(tier->opts.sched, tier->servers[sched_below(tier->opts.sched, tier->opts.n_workers)].actor,
                     until_ms);
}

void tier_freeze(struct tier *tier, uint64_t until_ms)
{
    if (!tier->up)
        return;
    sched_freeze(tier->opts.sched, tier->ingest_actor, until_ms);
    sched_freeze(tier->opts.sched, tier->reader_actor, until_ms);
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        sched_freeze(tier->opts.sched, tier->servers[i].actor, until_ms);
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
    upstream_stats(tier->upstream, &up);
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
    for (unsigned i = 0; i < tier->opts.n_workers; i++)
        count_worker(tier->servers[i].worker, counts);
    for (unsigned i = 0; i < COVER_END_; i++) {
        if (counts[i] <= tier->covered[i])
            continue;
        cover_counts[i] += counts[i] - tier->covered[i];
        tier->covered[i] = counts[i];
    }
}
