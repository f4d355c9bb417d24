/* src/cli/verify/verify_kube_watcher.c */
#include "cli/verify/verify_kube_watcher.h"

#define REST_US (SECOND_US / 10)

static struct verify_kube_watcher *watcher_of(struct verify_kube_side *side)
{
    return side->user;
}

static void rest(struct verify_kube_watcher *watcher)
{
    verify_kube_close(&watcher->side);
    verify_case_close(watcher->judged);
    watcher->judged = NULL;
    watcher->due_us = verify_now_us() + REST_US;
}

/* ---- being told ---- */

static bool on_watcher_change(struct verify_kube_side *side, struct judge_rev *rev)
{
    struct verify_kube_watcher *watcher = watcher_of(side);
    verify_case_take(watcher->judged, rev, rev->rev);
    return !verify_case_ahead(watcher->judged);
}

static void on_watcher_bookmark(struct verify_kube_side *side, int64_t version)
{
    verify_case_progress(watcher_of(side)->judged, version, version, verify_now_us());
}

static void on_watcher_link(struct verify_kube_side *side, bool is_up)
{
    verify_case_link(watcher_of(side)->judged, is_up ? VERIFY_CONNECTED : VERIFY_CUT, verify_now_us());
}

/* A tier may have less history than the API server: then its clients list again. */
static void on_watcher_ended(struct verify_kube_side *side, int err, const char *why)
{
    struct verify_kube_watcher *watcher = watcher_of(side);
    if (err == BELFRY_ERR_COMPACTED)
        watcher->env->n_compacted++;
    else
        verify_env_fail(watcher->env, "tier", err, why);
    rest(watcher);
}

static const struct verify_kube_events watcher_events = {
    .change = on_watcher_change, .bookmark = on_watcher_bookmark, .link = on_watcher_link, .ended = on_watcher_ended};

/* ---- coming and going ---- */

static int64_t us_between(struct verify_kube_watcher *watcher, uint64_t least_ms, uint64_t most_ms)
{
    return (int64_t)(least_ms + belfry_rng_below(&watcher->env->rng, most_ms - least_ms)) * 1000;
}

/* The version after which it watches. An older one is that before an event that the reference has told. */
static int64_t choose_version(struct verify_kube_watcher *watcher)
{
    struct verify_env *env = watcher->env;
    int64_t head = verify_judge_head(env->judge);
    const struct judge_event *event = verify_judge_pick(env->judge, belfry_rng_below(&env->rng, UINT64_MAX));
    if (watcher->role != VERIFY_KUBE_FROM_OLD || event == NULL)
        return head;
    return event->kv.mod_rev - 1;
}

static void come(struct verify_kube_watcher *watcher, int64_t now_us)
{
    struct verify_env *env = watcher->env;
    int64_t version = choose_version(watcher);
    watcher->spec.start = version + 1;
    watcher->spec.newest = verify_judge_head(env->judge);
    int err = verify_case_open(env->judge, &watcher->spec, now_us, &watcher->judged);
    if (err == BELFRY_OK)
        err = verify_kube_open(&watcher->side, version);
    if (err != BELFRY_OK) {
        verify_env_fail(env, "tier", err, NULL);
        return;
    }
    watcher->due_us = watcher->role == VERIFY_KUBE_STAYS      ? INT64_MAX
                      : watcher->role == VERIFY_KUBE_FROM_OLD ? now_us + us_between(watcher, 200, 2000)
                                                              : now_us + us_between(watcher, 1000, 20000);
    env->n_starts++;
    env->n_old_starts += version < watcher->spec.newest;
}

void verify_kube_watcher_turn(struct verify_kube_watcher *watcher, int64_t now_us, bool stays)
{
    if (watcher->judged == NULL) {
        if (now_us >= watcher->due_us && !stays)
            come(watcher, now_us);
        return;
    }
    if (verify_case_given_up(watcher->judged) || verify_case_overdue(watcher->judged, now_us)) {
        rest(watcher);
        return;
    }
    bool is_ahead = verify_case_ahead(watcher->judged);
    if (!is_ahead)
        verify_kube_resume(&watcher->side);
    if (now_us >= watcher->due_us && !is_ahead && !stays)
        rest(watcher);
    else
        verify_kube_turn(&watcher->side, now_us);
}

bool verify_kube_watcher_done(struct verify_kube_watcher *watcher, int64_t version)
{
    return watcher->judged == NULL || verify_case_complete(watcher->judged, version);
}

bool verify_kube_watcher_cut(const struct verify_kube_watcher *watcher)
{
    return watcher->judged != NULL && verify_case_cut(watcher->judged);
}

void verify_kube_watcher_init(struct verify_kube_watcher *watcher, struct verify_env *env, unsigned number,
                              struct belfry_kube *kube, struct belfry_resource resource)
{
    watcher->env = env;
    watcher->role = number == 1 ? VERIFY_KUBE_STAYS : number % 2 == 0 ? VERIFY_KUBE_FROM_OLD : VERIFY_KUBE_FROM_NOW;
    watcher->side =
        (struct verify_kube_side){.kube = kube, .resource = resource, .events = &watcher_events, .user = watcher};
    watcher->spec = (struct verify_spec){.watcher = number, .range = env->range, .prev_kv = true};
}

void verify_kube_watcher_fini(struct verify_kube_watcher *watcher)
{
    verify_kube_close(&watcher->side);
    verify_case_close(watcher->judged);
    watcher->judged = NULL;
}
