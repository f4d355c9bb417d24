/* src/cli/verify/verify_watcher.c */
#include "cli/verify/verify_watcher.h"

#include <inttypes.h>
#include <stdio.h>

#define REST_US   (SECOND_US / 10)
#define NEVER     INT64_MAX
#define EARLY_IN  5 /* one in EARLY_IN leaves before it has caught up */
#define OLDEST_IN 4 /* one in OLDEST_IN starts at the oldest revision */

static uint64_t dice(struct verify_watcher *watcher, uint64_t n)
{
    return belfry_rng_below(&watcher->env->rng, n);
}

static void fail(struct verify_watcher *watcher, int err, const char *why)
{
    verify_env_fail(watcher->env, "tier", err, why);
}

static int64_t ms_between(struct verify_watcher *watcher, int64_t least, int64_t most)
{
    return (least + (int64_t)dice(watcher, (uint64_t)(most - least))) * 1000;
}

static void rest(struct verify_watcher *watcher, int64_t now_us)
{
    belfry_watch_close(watcher->watch);
    watcher->watch = NULL;
    verify_case_close(watcher->judged);
    watcher->judged = NULL;
    watcher->state = VERIFY_RESTING;
    watcher->due_us = now_us + REST_US;
}

/* ---- being told ---- */

/* A claim that the past was rewritten may be early: the reference has max_lag to agree. */
static void await_rewind(struct verify_watcher *watcher, int64_t compact_rev)
{
    watcher->state = VERIFY_REWINDING;
    watcher->compact_rev = compact_rev;
    watcher->due_us = verify_now_us() + watcher->env->max_lag_us;
}

/* The reference's answer to a claim of compaction. */
static void on_probed(const struct belfry_reply *reply, void *user)
{
    struct verify_watcher *watcher = user;
    if (reply->err == BELFRY_OK || reply->err == BELFRY_ERR_FUTURE) {
        await_rewind(watcher, watcher->compact_rev); /* a tier also reports a rewritten past as compacted */
        return;
    }
    if (reply->err == BELFRY_ERR_COMPACTED) {
        watcher->env->n_compacted++;
        if (watcher->compact_rev > watcher->env->compacted)
            watcher->env->compacted = watcher->compact_rev;
    } else if (reply->err != BELFRY_ERR_CANCELED) {
        watcher->env->n_unclear++;
    }
    rest(watcher, verify_now_us());
}

/* A claim of compaction is right only if the cluster has compacted the watcher's place and all below compact_rev. */
static void doubt(struct verify_watcher *watcher, int64_t compact_rev)
{
    int64_t place = verify_case_next(watcher->judged);
    watcher->state = VERIFY_DOUBTING;
    watcher->compact_rev = compact_rev;
    int err = verify_reference_probe(watcher->reference, compact_rev - 1 > place ? compact_rev - 1 : place, on_probed,
                                     watcher);
    if (err != BELFRY_OK)
        fail(watcher, err, NULL);
}

static void on_end(struct verify_watcher *watcher, const struct belfry_batch *batch)
{
    watcher->watch = NULL; /* gone when this returns */
    switch (batch->err) {
    case BELFRY_ERR_COMPACTED:
        doubt(watcher, batch->compact_rev);
        break;
    case BELFRY_ERR_REWOUND:
        await_rewind(watcher, 0);
        break;
    case BELFRY_ERR_CANCELED: /* the session is being closed */
        break;
    default:
        fail(watcher, batch->err, batch->why);
    }
}

static void check_cluster(struct verify_watcher *watcher, const struct belfry_batch *batch)
{
    uint64_t ours = watcher->env->cluster_id, theirs = batch->header.cluster_id;
    char expected[64], came[64];
    if (ours == theirs || ours == 0 || watcher->told_cluster)
        return;
    watcher->told_cluster = true; /* once is enough */
    snprintf(expected, sizeof(expected), "a header of cluster %" PRIx64, ours);
    snprintf(came, sizeof(came), "one of cluster %" PRIx64, theirs);
    verify_case_blame(watcher->judged, JUDGE_HEADER, batch->rev, expected, came);
}

static void on_changes(struct verify_watcher *watcher, const struct belfry_batch *batch)
{
    struct judge_rev *rev;
    enum belfry_err err = verify_rev_of_batch(batch, &rev);
    if (err != BELFRY_OK) {
        fail(watcher, err, NULL);
        return;
    }
    check_cluster(watcher, batch);
    watcher->line->cut = false;
    verify_case_take(watcher->judged, rev, batch->header.revision);
    watcher->paused = verify_case_ahead(watcher->judged); /* until watch_on() resumes it */
}

static void on_link(struct verify_watcher *watcher, const struct belfry_batch *batch)
{
    watcher->line->cut = batch->err != BELFRY_OK;
    verify_case_link(watcher->judged, watcher->line->cut ? VERIFY_CUT : VERIFY_CONNECTED, verify_now_us());
}

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    struct verify_watcher *watcher = user;
    (void)watch;
    switch (batch->kind) {
    case BELFRY_CHANGES:
        on_changes(watcher, batch);
        break;
    case BELFRY_PROGRESS:
        watcher->line->cut = false;
        check_cluster(watcher, batch);
        verify_case_progress(watcher->judged, batch->rev, batch->header.revision, verify_now_us());
        break;
    case BELFRY_END:
        on_end(watcher, batch);
        return BELFRY_MORE;
    case BELFRY_LINK:
        on_link(watcher, batch);
        break;
    case BELFRY_STATE:
    case BELFRY_SYNCED:
    case BELFRY_CREATED:
        break;
    }
    return watcher->paused ? BELFRY_PAUSE : BELFRY_MORE;
}

/* ---- coming and going ---- */

static int64_t choose_start(struct verify_watcher *watcher)
{
    const struct verify_env *env = watcher->env;
    int64_t newest = verify_reference_newest(watcher->reference), oldest = verify_judge_first(env->judge);
    if (watcher->role == VERIFY_STAYS || watcher->role == VERIFY_NOW)
        return newest + 1;
    if (oldest <= env->compacted)
        oldest = env->compacted + 1;
    if (oldest <= newest - env->history)
        oldest = newest - env->history + 1;
    if (oldest > newest + 1)
        return newest + 1;
    bool all = dice(watcher, OLDEST_IN) == 0;
    return all ? oldest : oldest + (int64_t)dice(watcher, (uint64_t)(newest + 2 - oldest));
}

static enum belfry_err choose_range(struct verify_watcher *watcher)
{
    struct verify_env *env = watcher->env;
    struct belfry_range range = env->range;
    if (watcher->role == VERIFY_PART) {
        const struct judge_event *a = verify_judge_pick(env->judge, dice(watcher, UINT64_MAX));
        const struct judge_event *b = verify_judge_pick(env->judge, dice(watcher, UINT64_MAX));
        if (a != NULL && b != NULL)
            range = verify_range_within(&env->range, a->key, b->key, (unsigned)dice(watcher, 3));
    }
    return verify_range_copy(&watcher->range, range);
}

static int open_watch(struct verify_watcher *watcher)
{
    struct belfry_opts *opts = NULL;
    char rev[24];
    snprintf(rev, sizeof(rev), "%" PRId64, watcher->spec.start);
    int err = belfry_opts_set(&opts, "rev", rev);
    if (err == BELFRY_OK && watcher->spec.prev_kv)
        err = belfry_opts_set(&opts, "prev-kv", NULL);
    if (err == BELFRY_OK && dice(watcher, 2) == 0)
        err = belfry_opts_set(&opts, "progress-notify", NULL);
    if (err == BELFRY_OK)
        err = belfry_watch_open(watcher->line->b, watcher->range.is, opts, on_batch, watcher, &watcher->watch);
    belfry_opts_free(opts);
    return err;
}

/* When it leaves again; NEVER: after it has caught up. */
static int64_t choose_leave(struct verify_watcher *watcher, int64_t now_us)
{
    if (watcher->role == VERIFY_NOW)
        return now_us + ms_between(watcher, 5000, 30000);
    if (watcher->role == VERIFY_STAYS || dice(watcher, EARLY_IN) != 0)
        return NEVER;
    return now_us + ms_between(watcher, 20, 500);
}

static void come(struct verify_watcher *watcher, int64_t now_us)
{
    int err = choose_range(watcher);
    int64_t start = choose_start(watcher);
    int64_t newest = verify_reference_newest(watcher->reference);
    bool prev_kv = watcher->role == VERIFY_STAYS || dice(watcher, 2) == 0;
    watcher->spec = (struct verify_spec){watcher->number, watcher->range.is, start, newest, prev_kv};
    if (err == BELFRY_OK)
        err = verify_case_open(watcher->env->judge, &watcher->spec, now_us, &watcher->judged);
    if (err == BELFRY_OK)
        err = open_watch(watcher);
    if (err != BELFRY_OK) {
        fail(watcher, err, NULL);
        return;
    }
    if (watcher->line->cut) /* the library reports each state of the link once, and has reported this one */
        verify_case_link(watcher->judged, VERIFY_CUT, now_us);
    watcher->state = VERIFY_WATCHING;
    watcher->paused = watcher->caught_up = watcher->told_cluster = false;
    watcher->n_rewinds = watcher->reference->n_rewinds;
    watcher->due_us = choose_leave(watcher, now_us);
    watcher->env->n_starts++;
    watcher->env->n_old_starts += start <= newest;
}

/* Is its case given up? An event that waits in a socket of this process is not late; this process is. */
static bool is_over(struct verify_watcher *watcher, int64_t now_us)
{
    return verify_case_given_up(watcher->judged) ||
           (watcher->line->quiet && verify_case_overdue(watcher->judged, now_us));
}

static void watch_on(struct verify_watcher *watcher, int64_t now_us, bool stays)
{
    bool ahead = verify_case_ahead(watcher->judged);
    if (is_over(watcher, now_us)) {
        rest(watcher, now_us);
        return;
    }
    if (watcher->paused && !ahead) {
        watcher->paused = false;
        belfry_watch_resume(watcher->watch);
    }
    bool old = watcher->role == VERIFY_OLD || watcher->role == VERIFY_PART;
    if (!watcher->caught_up && verify_case_live(watcher->judged)) {
        watcher->caught_up = true;
        if (old && watcher->due_us == NEVER)
            watcher->due_us = now_us + ms_between(watcher, 500, 5000);
    }
    if (now_us >= watcher->due_us && !ahead && !stays)
        rest(watcher, now_us);
}

/* The past that it watches is gone. The tier has max_lag to notice; until then it sends the old past. */
static void forget_past(struct verify_watcher *watcher, int64_t now_us)
{
    rest(watcher, now_us);
    watcher->due_us = now_us + watcher->env->max_lag_us;
}

/* Each rewind of the cluster may reach a watcher twice: as a compaction, from a tier that has listed again, and as a
 * rewind, from the library, whose session remembers the old past until its next watch. */
static void doubt_rewind(struct verify_watcher *watcher, int64_t now_us)
{
    uint64_t *n_told = &watcher->n_told[watcher->compact_rev > 0];
    bool agreed = *n_told < watcher->reference->n_rewinds;
    char came[JUDGE_TEXT] = "rewound: what is told contradicts what was told before, as after a restored backup";
    if (!agreed && now_us < watcher->due_us)
        return;
    if (watcher->compact_rev > 0)
        snprintf(came, sizeof(came), "compacted: nothing before revision %" PRId64, watcher->compact_rev);
    if (!agreed)
        verify_case_blame(watcher->judged, JUDGE_END, verify_case_next(watcher->judged),
                          "history that the reference still has", came);
    *n_told += agreed;
    if (agreed)
        forget_past(watcher, now_us);
    else
        rest(watcher, now_us);
}

void verify_watcher_turn(struct verify_watcher *watcher, int64_t now_us, bool stays)
{
    switch (watcher->state) {
    case VERIFY_RESTING:
        if (now_us >= watcher->due_us && !stays && watcher->reference->state == VERIFY_FOLLOWING)
            come(watcher, now_us);
        break;
    case VERIFY_WATCHING:
        if (watcher->n_rewinds != watcher->reference->n_rewinds)
            forget_past(watcher, now_us);
        else
            watch_on(watcher, now_us, stays);
        break;
    case VERIFY_REWINDING:
        doubt_rewind(watcher, now_us);
        break;
    case VERIFY_DOUBTING: /* on_probed() moves it on; the request has a deadline */
        break;
    }
}

bool verify_watcher_done(struct verify_watcher *watcher, int64_t rev)
{
    return watcher->state == VERIFY_RESTING ||
           (watcher->state == VERIFY_WATCHING && verify_case_complete(watcher->judged, rev));
}

bool verify_watcher_cut(const struct verify_watcher *watcher)
{
    return watcher->state == VERIFY_WATCHING && verify_case_cut(watcher->judged);
}

void verify_watcher_fini(struct verify_watcher *watcher)
{
    verify_case_close(watcher->judged);
    watcher->judged = NULL;
    verify_range_fini(&watcher->range);
}
