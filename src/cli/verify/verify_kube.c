/* src/cli/verify/verify_kube.c */
#include "cli/verify/verify_kube.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <belfry/kube.h>

#include "cli/out/out.h"
#include "cli/verify/verify_env.h"
#include "cli/verify/verify_kube_state.h"
#include "judge/judge_rev.h"

#define AGAIN_US     (SECOND_US / 5)  /* until a watch that has ended is opened again */
#define REST_US      (SECOND_US / 10) /* of a watcher, until it comes again */
#define WINDOW_BYTES ((size_t)128 << 20)
#define TURN_MS      20
#define ASLEEP_US    (3 * SECOND_US)               /* a turn that took so long: this process was stopped, or starved */
#define SETTLE_US    (2 * SECOND_US)               /* what was written last is on its way to both sides for so long */
#define NOBODY       "metadata.name=belfry-verify" /* a list of it is short, and has the version all the same */

/* One watch of the resource, at the API server or at the tier. It is opened again from the version that it has come to,
 * as often as it ends or breaks, as clients do; so it is one watch to its user.
 *
 *   CLOSED --open--> WATCHING --ended, broken--> WAITING --a moment later--> WATCHING
 *                    WATCHING --410, refused--> CLOSED, and `ended` is called
 *
 * An object becomes a revision of the judge: its resourceVersion is the revision, ADDED a put that creates its key,
 * MODIFIED a put that does not, DELETED a delete with the last state as its previous value.
 */
enum side_state { SIDE_CLOSED, SIDE_WAITING, SIDE_WATCHING };

struct side {
    struct belfry_kube *kube;
    struct belfry_resource resource;
    const struct side_events *events;
    void *user;
    enum side_state state;               /* moved by side_move_to() alone */
    struct belfry_kube_request *request; /* WATCHING */
    int64_t version;                     /* it has been told everything up to here */
    int64_t due_us;                      /* WAITING */
    bool is_up;                          /* as `link` was told */
    bool is_held;                        /* `change` wanted no more */
};

struct side_events {
    /* A change; `rev` is handed over. False: no more for now, until side_resume(). */
    bool (*change)(struct side *side, struct judge_rev *rev);
    void (*bookmark)(struct side *side, int64_t version);
    void (*link)(struct side *side, bool is_up);
    /* It is CLOSED. BELFRY_ERR_COMPACTED: 410. */
    void (*ended)(struct side *side, int err, const char *why);
};

/* One client of the tier. It watches from a version on, is judged, leaves, and comes back from another version. The
 * first one of a run stays from beginning to end.
 *
 *   RESTING --due--> WATCHING --leaves, 410, or is given up--> RESTING
 *
 * An event that comes before the reference has it pauses the watch.
 */
enum watcher_role { WATCHER_STAYS, WATCHER_FROM_NOW, WATCHER_FROM_OLD };

struct watcher {
    struct verify_env *env;
    enum watcher_role role;
    struct side side;
    struct verify_spec spec;
    struct verify_case *judged; /* NULL: it rests */
    int64_t due_us;             /* comes, or leaves */
};

enum phase { ASKING, RUNNING, SETTLING, LISTING, OVER };

struct kube_run {
    const struct verify_kube_opts *opts;
    enum phase phase; /* moved by run_move_to() alone */
    int64_t began_us, since_us, turn_us, line_us, held_up_us;
    struct belfry *b;
    struct belfry_kube *reference, *tier;
    struct verify_env env;
    struct side side; /* the reference's watch */
    struct watcher watchers[VERIFY_KUBE_WATCHERS];
    /* the version of the reference, once a second */
    struct belfry_kube_request *probe; /* under way; NULL: none */
    int64_t probed_us, version, first_version;
    int64_t changed; /* the version of the newest change that the reference has told; 0: none */
    /* LISTING */
    struct verify_kube_list lists[2]; /* of the reference, of the tier */
    size_t n_same;                    /* objects on which both agree */
    char range[VERIFY_RANGE_TEXT];
};

/* ---- a watch ---- */

/* A resourceVersion as a number; 0: it is none. */
static int64_t version_of(struct belfry_bytes text)
{
    int64_t version = 0;
    if (text.len == 0 || text.len > 18)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        version = version * 10 + (text.data[i] - '0');
    }
    return version;
}

static void side_move_to(struct side *side, enum side_state to)
{
    side->state = to;
    if (to != SIDE_WATCHING)
        side->request = NULL;
    if (to == SIDE_WAITING)
        side->due_us = verify_now_us() + AGAIN_US;
    side->is_held = false;
}

static void side_link(struct side *side, bool is_up)
{
    if (is_up == side->is_up)
        return;
    side->is_up = is_up;
    side->events->link(side, is_up);
}

/* ---- a watch: what comes ---- */

static const struct belfry_event *only_event(const void *source, const struct belfry_event *after)
{
    return after == NULL ? source : NULL;
}

static struct belfry_event event_of(const struct belfry_kube_event *came, int64_t version)
{
    struct belfry_bytes key = belfry_object_key(came->object), json = belfry_object_value(came->object);
    struct belfry_event event = {.op = BELFRY_PUT, .key = key, .mod_rev = version};
    if (came->kind == BELFRY_KUBE_DELETED) {
        event.op = BELFRY_DELETE;
        event.prev = json;
    } else {
        event.value = json;
        event.version = 1 + (came->kind == BELFRY_KUBE_MODIFIED);
        event.create_rev = came->kind == BELFRY_KUBE_ADDED ? version : 1;
    }
    return event;
}

/* Ends a watch that cannot go on. */
static enum belfry_next side_end(struct side *side, int err, const char *why)
{
    side_move_to(side, SIDE_CLOSED);
    side->events->ended(side, err, why);
    return BELFRY_STOP;
}

static enum belfry_next side_on_change(struct side *side, const struct belfry_kube_event *came)
{
    struct judge_rev *rev;
    int64_t version = version_of(came->version);
    if (version == 0)
        return side_end(side, BELFRY_ERR_PROTOCOL, "an object has no resourceVersion that is a number");
    struct belfry_event event = event_of(came, version);
    enum belfry_err err = judge_rev_create(version, verify_now_us(), only_event, &event, &rev);
    if (err != BELFRY_OK)
        return side_end(side, err, "out of memory");
    if (version > side->version)
        side->version = version;
    side->is_held = !side->events->change(side, rev);
    return side->is_held ? BELFRY_PAUSE : BELFRY_MORE;
}

static enum belfry_next side_on_bookmark(struct side *side, const struct belfry_kube_event *came)
{
    int64_t version = version_of(came->version);
    if (version == 0)
        return side_end(side, BELFRY_ERR_PROTOCOL, "a bookmark has no resourceVersion that is a number");
    if (version > side->version)
        side->version = version;
    side->events->bookmark(side, version);
    return BELFRY_MORE;
}

/* Does a watch that ended so begin again by itself? */
static bool is_passing(int err)
{
    return err == BELFRY_OK || err == BELFRY_ERR_UNAVAILABLE || err == BELFRY_ERR_TIMEOUT || err == BELFRY_ERR_FUTURE ||
           err == BELFRY_ERR_RESOLVE;
}

static enum belfry_next on_side_event(struct belfry_kube_request *request, const struct belfry_kube_event *event,
                                      void *user)
{
    struct side *side = user;
    (void)request;
    switch (event->kind) {
    case BELFRY_KUBE_ADDED:
    case BELFRY_KUBE_MODIFIED:
    case BELFRY_KUBE_DELETED:
        side_link(side, true);
        return side_on_change(side, event);
    case BELFRY_KUBE_BOOKMARK:
        side_link(side, true);
        return side_on_bookmark(side, event);
    case BELFRY_KUBE_END:
        if (event->err == BELFRY_ERR_CANCELED) {
            side_move_to(side, SIDE_CLOSED);
        } else if (is_passing(event->err)) {
            side_move_to(side, SIDE_WAITING);
            side_link(side, false);
        } else {
            (void)side_end(side, event->err, event->why);
        }
        break;
    case BELFRY_KUBE_ERROR: /* END follows */
    case BELFRY_KUBE_ITEM:
    case BELFRY_KUBE_RESTART:
        break;
    }
    return BELFRY_MORE;
}

/* ---- a watch: opening and closing ---- */

static int side_request(struct side *side)
{
    struct belfry_opts *opts = NULL;
    char version[24];
    snprintf(version, sizeof(version), "%" PRId64, side->version);
    int err = belfry_opts_set(&opts, "resource-version", version);
    if (err == BELFRY_OK)
        err = belfry_kube_watch(side->kube, side->resource, opts, on_side_event, side, &side->request);
    belfry_opts_free(opts);
    return err;
}

/* Watches everything after `version`. Errors: as belfry_kube_watch(). */
static int side_open(struct side *side, int64_t version)
{
    assert(side->state == SIDE_CLOSED);
    side->version = version;
    side->is_up = true; /* until the contrary is known */
    int err = side_request(side);
    if (err == BELFRY_OK)
        side_move_to(side, SIDE_WATCHING);
    return err;
}

static void side_close(struct side *side)
{
    belfry_kube_cancel(side->request);
    side_move_to(side, SIDE_CLOSED);
}

static void side_resume(struct side *side)
{
    if (!side->is_held)
        return;
    side->is_held = false;
    belfry_kube_resume(side->request);
}

/* Opens it again, if that is due. */
static void side_turn(struct side *side, int64_t now_us)
{
    if (side->state != SIDE_WAITING || now_us < side->due_us)
        return;
    if (side_request(side) == BELFRY_OK)
        side_move_to(side, SIDE_WATCHING);
    else
        side_move_to(side, SIDE_WAITING);
}

/* ---- a watcher ---- */

static void watcher_rest(struct watcher *watcher)
{
    side_close(&watcher->side);
    verify_case_close(watcher->judged);
    watcher->judged = NULL;
    watcher->due_us = verify_now_us() + REST_US;
}

/* ---- a watcher: being told ---- */

static bool on_watcher_change(struct side *side, struct judge_rev *rev)
{
    struct watcher *watcher = side->user;
    verify_case_take(watcher->judged, rev, rev->rev);
    return !verify_case_ahead(watcher->judged);
}

static void on_watcher_bookmark(struct side *side, int64_t version)
{
    struct watcher *watcher = side->user;
    verify_case_progress(watcher->judged, version, version, verify_now_us());
}

static void on_watcher_link(struct side *side, bool is_up)
{
    struct watcher *watcher = side->user;
    verify_case_link(watcher->judged, is_up ? VERIFY_CONNECTED : VERIFY_CUT, verify_now_us());
}

/* A tier may have less history than the API server: then its clients list again. */
static void on_watcher_ended(struct side *side, int err, const char *why)
{
    struct watcher *watcher = side->user;
    if (err == BELFRY_ERR_COMPACTED)
        watcher->env->n_compacted++;
    else
        verify_env_fail(watcher->env, "tier", err, why);
    watcher_rest(watcher);
}

static const struct side_events watcher_events = {
    .change = on_watcher_change, .bookmark = on_watcher_bookmark, .link = on_watcher_link, .ended = on_watcher_ended};

/* ---- a watcher: coming and going ---- */

static int64_t us_between(struct watcher *watcher, uint64_t least_ms, uint64_t most_ms)
{
    return (int64_t)(least_ms + belfry_rng_below(&watcher->env->rng, most_ms - least_ms)) * 1000;
}

/* The version after which it watches. An older one is that before an event that the reference has told. */
static int64_t watcher_choose(struct watcher *watcher)
{
    struct verify_env *env = watcher->env;
    int64_t head = verify_judge_head(env->judge);
    const struct judge_event *event = verify_judge_pick(env->judge, belfry_rng_below(&env->rng, UINT64_MAX));
    if (watcher->role != WATCHER_FROM_OLD || event == NULL)
        return head;
    return event->kv.mod_rev - 1;
}

static void watcher_come(struct watcher *watcher, int64_t now_us)
{
    struct verify_env *env = watcher->env;
    int64_t version = watcher_choose(watcher);
    watcher->spec.start = version + 1;
    watcher->spec.newest = verify_judge_head(env->judge);
    int err = verify_case_open(env->judge, &watcher->spec, now_us, &watcher->judged);
    if (err == BELFRY_OK)
        err = side_open(&watcher->side, version);
    if (err != BELFRY_OK) {
        verify_env_fail(env, "tier", err, NULL);
        return;
    }
    watcher->due_us = watcher->role == WATCHER_STAYS      ? INT64_MAX
                      : watcher->role == WATCHER_FROM_OLD ? now_us + us_between(watcher, 200, 2000)
                                                          : now_us + us_between(watcher, 1000, 20000);
    env->n_starts++;
    env->n_old_starts += version < watcher->spec.newest;
}

/* Does what is due. `stays`: watchers neither come nor leave any more. */
static void watcher_turn(struct watcher *watcher, int64_t now_us, bool stays)
{
    if (watcher->judged == NULL) {
        if (now_us >= watcher->due_us && !stays)
            watcher_come(watcher, now_us);
        return;
    }
    if (verify_case_given_up(watcher->judged) || verify_case_overdue(watcher->judged, now_us)) {
        watcher_rest(watcher);
        return;
    }
    bool is_ahead = verify_case_ahead(watcher->judged);
    if (!is_ahead)
        side_resume(&watcher->side);
    if (now_us >= watcher->due_us && !is_ahead && !stays)
        watcher_rest(watcher);
    else
        side_turn(&watcher->side, now_us);
}

/* Has been told all up to `version` that the reference has told, or rests. */
static bool watcher_done(struct watcher *watcher, int64_t version)
{
    return watcher->judged == NULL || verify_case_complete(watcher->judged, version);
}

static bool watcher_cut(const struct watcher *watcher)
{
    return watcher->judged != NULL && verify_case_cut(watcher->judged);
}

static void watcher_init(struct watcher *watcher, struct verify_env *env, unsigned number, struct belfry_kube *kube,
                         struct belfry_resource resource)
{
    watcher->env = env;
    watcher->role = number == 1 ? WATCHER_STAYS : number % 2 == 0 ? WATCHER_FROM_OLD : WATCHER_FROM_NOW;
    watcher->side = (struct side){.kube = kube, .resource = resource, .events = &watcher_events, .user = watcher};
    watcher->spec = (struct verify_spec){.watcher = number, .range = env->range, .prev_kv = true};
}

static void watcher_fini(struct watcher *watcher)
{
    side_close(&watcher->side);
    verify_case_close(watcher->judged);
    watcher->judged = NULL;
}

/* ---- the run ---- */

static void run_move_to(struct kube_run *run, enum phase to)
{
    run->phase = to;
    run->since_us = verify_now_us();
}

static void run_fail(struct kube_run *run, const char *side, int err, const char *why)
{
    verify_env_fail(&run->env, side, err, why);
}

/* ---- violations ---- */

static void on_kube_blame(const struct judge_violation *violation, void *user)
{
    struct kube_run *run = user;
    char asked[VERIFY_SPEC_TEXT];
    int64_t from = violation->watcher > 0 ? run->watchers[violation->watcher - 1].spec.start - 1 : run->version;
    snprintf(asked, sizeof(asked), "%s after version %" PRId64, run->range, from);
    verify_report_violation(run->opts->report, violation, violation->watcher > 0 ? asked : run->range);
}

static void on_difference(enum verify_kube_difference difference, const char *key, int64_t version, void *user)
{
    static const char *const expected[] = {[VERIFY_KUBE_MISSING] = "in the tier's list, as in the reference's",
                                           [VERIFY_KUBE_EXTRA] = "not there: the reference does not list it",
                                           [VERIFY_KUBE_VERSION] = "the version that the reference lists",
                                           [VERIFY_KUBE_BYTES] = "the same bytes as the reference has"};
    static const char *const came[] = {[VERIFY_KUBE_MISSING] = "it is missing",
                                       [VERIFY_KUBE_EXTRA] = "an object that is gone",
                                       [VERIFY_KUBE_VERSION] = "another version",
                                       [VERIFY_KUBE_BYTES] = "other bytes"};
    bool is_content = difference == VERIFY_KUBE_BYTES || difference == VERIFY_KUBE_VERSION;
    on_kube_blame(&(struct judge_violation){.property = is_content ? JUDGE_CONTENT : JUDGE_RELIABLE,
                                            .rev = version,
                                            .key = {key, strlen(key)},
                                            .expected = expected[difference],
                                            .came = came[difference]},
                  user);
}

/* ---- the reference ---- */

static bool on_reference_change(struct side *side, struct judge_rev *rev)
{
    struct kube_run *run = side->user;
    run->changed = rev->rev;
    enum belfry_err err = verify_judge_reference(run->env.judge, rev);
    if (err != BELFRY_OK)
        run_fail(run, "reference", err, NULL);
    return true;
}

static void on_reference_bookmark(struct side *side, int64_t version)
{
    struct kube_run *run = side->user;
    verify_judge_reference_at(run->env.judge, version);
}

static void on_reference_link(struct side *side, bool is_up)
{
    (void)side;
    (void)is_up; /* it is opened again, and what is late because of that is excused */
}

static void on_reference_ended(struct side *side, int err, const char *why)
{
    run_fail(side->user, "reference", err,
             err == BELFRY_ERR_COMPACTED ? "it has lost the history that the run needs: begin anew" : why);
}

static const struct side_events reference_events = {.change = on_reference_change,
                                                    .bookmark = on_reference_bookmark,
                                                    .link = on_reference_link,
                                                    .ended = on_reference_ended};

static void run_begin(struct kube_run *run)
{
    verify_judge_begin(run->env.judge, run->version + 1);
    verify_judge_reference_at(run->env.judge, run->version);
    run->first_version = run->version;
    int err = side_open(&run->side, run->version);
    if (err != BELFRY_OK)
        run_fail(run, "reference", err, NULL);
    run->began_us = verify_now_us();
    run_move_to(run, RUNNING);
}

static enum belfry_next on_probe(struct belfry_kube_request *request, const struct belfry_kube_event *event, void *user)
{
    struct kube_run *run = user;
    (void)request;
    if (event->kind != BELFRY_KUBE_END)
        return BELFRY_MORE;
    run->probe = NULL;
    int64_t version = version_of(event->version);
    if (event->err != BELFRY_OK || version == 0) {
        if (run->phase == ASKING)
            run_fail(run, "reference", event->err != BELFRY_OK ? event->err : BELFRY_ERR_PROTOCOL,
                     event->err != BELFRY_OK ? event->why : "its lists have no resourceVersion that is a number");
        return BELFRY_MORE; /* it is asked again in a second */
    }
    run->version = version;
    if (run->phase == ASKING)
        run_begin(run);
    else
        verify_judge_cluster_at(run->env.judge, version, run->probed_us);
    return BELFRY_MORE;
}

static void run_probe(struct kube_run *run, int64_t now_us)
{
    struct belfry_opts *opts = NULL;
    if (run->probe != NULL || now_us - run->probed_us < SECOND_US)
        return;
    run->probed_us = now_us;
    int err = belfry_opts_set(&opts, "field-selector", NOBODY);
    if (err == BELFRY_OK)
        err = belfry_kube_list(run->reference, run->side.resource, opts, on_probe, run, &run->probe);
    belfry_opts_free(opts);
    if (err != BELFRY_OK)
        run_fail(run, "reference", err, NULL);
}

/* ---- the lists at the end ---- */

static void on_listed(struct kube_run *run, bool is_tier, const struct belfry_kube_event *event)
{
    struct verify_kube_list *list = &run->lists[is_tier ? 1 : 0];
    enum belfry_err err = BELFRY_OK;
    switch (event->kind) {
    case BELFRY_KUBE_ITEM:
        err = verify_kube_list_add(list, belfry_object_key(event->object), version_of(event->version),
                                   belfry_object_value(event->object));
        break;
    case BELFRY_KUBE_RESTART:
        verify_kube_list_clear(list);
        break;
    case BELFRY_KUBE_END:
        list->version = version_of(event->version);
        if (event->err != BELFRY_OK)
            run_fail(run, is_tier ? "tier" : "reference", event->err, event->why);
        break;
    case BELFRY_KUBE_ADDED:
    case BELFRY_KUBE_MODIFIED:
    case BELFRY_KUBE_DELETED:
    case BELFRY_KUBE_BOOKMARK:
    case BELFRY_KUBE_ERROR:
        break;
    }
    if (err != BELFRY_OK)
        run_fail(run, "memory", err, NULL);
}

static enum belfry_next on_reference_list(struct belfry_kube_request *request, const struct belfry_kube_event *event,
                                          void *user)
{
    (void)request;
    on_listed(user, false, event);
    return BELFRY_MORE;
}

static enum belfry_next on_tier_list(struct belfry_kube_request *request, const struct belfry_kube_event *event,
                                     void *user)
{
    (void)request;
    on_listed(user, true, event);
    return BELFRY_MORE;
}

/* The tier answers a list that need not be newer than what it has; one without a version it would only pass on. A quiet
 * resource may stay at the version of its last change, however far etcd is. */
static void run_list(struct kube_run *run)
{
    struct belfry_opts *opts = NULL;
    char version[24];
    struct belfry_hash_key key = belfry_hash_key_draw();
    run->lists[0].hash_key = run->lists[1].hash_key = key;
    snprintf(version, sizeof(version), "%" PRId64, run->changed);
    int err = belfry_opts_set(&opts, "resource-version", version);
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "resource-version-match", "NotOlderThan");
    if (err == BELFRY_OK)
        err = belfry_kube_list(run->tier, run->side.resource, opts, on_tier_list, run, NULL);
    if (err == BELFRY_OK)
        err = belfry_kube_list(run->reference, run->side.resource, NULL, on_reference_list, run, NULL);
    belfry_opts_free(opts);
    if (err != BELFRY_OK)
        run_fail(run, "tier", err, NULL);
    run_move_to(run, LISTING);
}

/* ---- turns ---- */

static void fill_standing(struct kube_run *run, struct verify_standing *out)
{
    int64_t now_us = verify_now_us();
    *out = (struct verify_standing){.numbers = verify_judge_numbers(run->env.judge),
                                    .range = run->range,
                                    .elapsed_us = now_us - run->began_us,
                                    .first_rev = run->first_version,
                                    .rev = run->version,
                                    .told_rev = verify_judge_head(run->env.judge),
                                    .held_up_us = run->held_up_us,
                                    .n_watchers = run->opts->n_watchers,
                                    .n_starts = run->env.n_starts,
                                    .n_old_starts = run->env.n_old_starts,
                                    .n_compacted = run->env.n_compacted,
                                    .n_reference_losses = belfry_kube_get_stats(run->reference)->losses,
                                    .n_tier_losses = belfry_kube_get_stats(run->tier)->losses,
                                    .n_listed = run->n_same,
                                    .is_kube = true};
    for (size_t i = 0; i < run->opts->n_watchers; i++) {
        const struct watcher *watcher = &run->watchers[i];
        out->n_caught_up += watcher->judged != NULL && verify_case_live(watcher->judged);
        out->cut = out->cut || watcher_cut(watcher);
    }
}

static void show_line(struct kube_run *run, int64_t now_us)
{
    struct verify_standing standing;
    if (now_us - run->line_us < (run->opts->report->terminal ? 1 : 10) * SECOND_US)
        return;
    run->line_us = now_us;
    fill_standing(run, &standing);
    verify_report_line(run->opts->report, &standing);
}

/* Who is late because this process was held up, or because the reference has no connection, is not late. */
static void look_at_clock(struct kube_run *run, int64_t now_us)
{
    int64_t took_us = run->turn_us != 0 ? now_us - run->turn_us : 0;
    if (took_us > ASLEEP_US || run->side.state != SIDE_WATCHING)
        verify_judge_excuse(run->env.judge, now_us);
    if (took_us > run->held_up_us)
        run->held_up_us = took_us;
    run->turn_us = now_us;
}

static bool all_done(struct kube_run *run, int64_t now_us)
{
    bool done = true;
    for (size_t i = 0; i < run->opts->n_watchers; i++)
        done = watcher_done(&run->watchers[i], verify_judge_head(run->env.judge)) && done;
    if (!done && now_us - run->since_us > run->opts->max_lag_us + SETTLE_US)
        run_fail(run, "tier", BELFRY_ERR_UNAVAILABLE,
                 "it cannot be reached any more; what it has not told is not verified");
    return done && now_us - run->since_us > SETTLE_US;
}

static void run_turn(struct kube_run *run, int64_t now_us)
{
    const struct verify_kube_opts *opts = run->opts;
    run_probe(run, now_us);
    if (run->phase == ASKING)
        return;
    look_at_clock(run, now_us);
    side_turn(&run->side, now_us);
    for (size_t i = 0; i < opts->n_watchers; i++)
        watcher_turn(&run->watchers[i], now_us, run->phase != RUNNING);
    show_line(run, now_us);
    if (run->phase == RUNNING && opts->for_us > 0 && now_us - run->began_us >= opts->for_us) {
        run_move_to(run, SETTLING);
    } else if (run->phase == SETTLING && all_done(run, now_us)) {
        run_list(run);
    } else if (run->phase == LISTING && run->lists[0].version != 0 && run->lists[1].version != 0) {
        run->n_same = verify_kube_compare(&run->lists[0], &run->lists[1], on_difference, run);
        run_move_to(run, OVER);
    }
}

/* ---- the whole ---- */

static int open_kube(struct kube_run *run, const char *server, const struct verify_kube_access *access,
                     struct belfry_kube **out)
{
    const struct {
        const char *name, *value;
    } rows[] = {{"server", server},
                {"cacert", access->cacert},
                {"cert", access->cert},
                {"key", access->key},
                {"token", access->token},
                {"server-name", access->server_name},
                {"token-file", access->token_file},
                {"insecure-skip-tls-verify", access->skips_verify ? "true" : NULL}};
    struct belfry_opts *opts = NULL;
    char why[VERIFY_WHY / 2] = "";
    int err = BELFRY_OK;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && err == BELFRY_OK; i++)
        if (rows[i].value != NULL)
            err = belfry_opts_set(&opts, rows[i].name, rows[i].value);
    if (err == BELFRY_OK)
        err = belfry_kube_open(run->b, opts, out, why, sizeof(why));
    belfry_opts_free(opts);
    if (err != BELFRY_OK)
        run_fail(run, server, err, why);
    return err;
}

static enum belfry_err run_set_up(struct kube_run *run)
{
    const struct verify_kube_opts *opts = run->opts;
    struct verify_judge_opts judge = {
        .window_bytes = WINDOW_BYTES, .max_lag_us = opts->max_lag_us, .blame = on_kube_blame, .user = run};
    run->env.range = belfry_prefix("");
    run->env.max_lag_us = opts->max_lag_us;
    run->env.rng.state = (uint64_t)verify_now_us();
    snprintf(run->range, sizeof(run->range), "%.40s/%.60s", opts->group_version, opts->plural);
    enum belfry_err err = verify_judge_create(&judge, &run->env.judge);
    if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_open(NULL, NULL, &run->b);
    if (err == BELFRY_OK)
        err = (enum belfry_err)open_kube(run, opts->reference, &opts->at_reference, &run->reference);
    if (err == BELFRY_OK)
        err = (enum belfry_err)open_kube(run, opts->tier, &opts->access, &run->tier);
    struct belfry_resource resource = belfry_resource(opts->group_version, opts->plural, NULL);
    run->side = (struct side){.kube = run->reference, .resource = resource, .events = &reference_events, .user = run};
    for (size_t i = 0; i < opts->n_watchers; i++)
        watcher_init(&run->watchers[i], &run->env, (unsigned)i + 1, run->tier, resource);
    return err;
}

static void run_tear_down(struct kube_run *run)
{
    for (size_t i = 0; i < run->opts->n_watchers; i++)
        watcher_fini(&run->watchers[i]);
    side_close(&run->side);
    belfry_close(run->b);
    verify_judge_destroy(run->env.judge);
    verify_kube_list_clear(&run->lists[0]);
    verify_kube_list_clear(&run->lists[1]);
}

static void run_report(struct kube_run *run)
{
    struct verify_standing standing;
    if (run->first_version == 0)
        return;
    verify_judge_end(run->env.judge, verify_judge_head(run->env.judge), verify_now_us());
    fill_standing(run, &standing);
    verify_report_sum(run->opts->report, &standing);
}

void verify_kube_run(const struct verify_kube_opts *opts, int *out_err, char *why, size_t why_len)
{
    static struct kube_run run; /* of some size, and there is one */
    run = (struct kube_run){.opts = opts};
    enum belfry_err err = run_set_up(&run);
    if (err != BELFRY_OK)
        run_fail(&run, "verify", err, NULL);
    run.line_us = verify_now_us();
    while (run.phase != OVER && run.env.err == BELFRY_OK && !opts->is_interrupted()) {
        run_turn(&run, verify_now_us());
        if (out_flush() != OUT_OPEN)
            break;
        err = (enum belfry_err)belfry_run(run.b, TURN_MS);
        if (err == BELFRY_OK) /* nothing is under way now */
            poll(NULL, 0, TURN_MS);
        else if (err != BELFRY_ERR_TIMEOUT)
            run_fail(&run, "verify", err, NULL);
    }
    run_report(&run);
    *out_err = run.env.err;
    snprintf(why, why_len, "%s", run.env.why);
    run_tear_down(&run);
}
