/* src/cli/verify/verify_kube.c */
#include "cli/verify/verify_kube.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "cli/out/out.h"
#include "cli/verify/verify_kube_state.h"
#include "cli/verify/verify_kube_watcher.h"

#define WINDOW_BYTES ((size_t)128 << 20)
#define TURN_MS      20
#define ASLEEP_US    (3 * SECOND_US)               /* a turn that took so long: this process was stopped, or starved */
#define SETTLE_US    (2 * SECOND_US)               /* what was written last is on its way to both sides for so long */
#define NOBODY       "metadata.name=belfry-verify" /* a list of it is short, and has the version all the same */

enum phase { ASKING, RUNNING, SETTLING, LISTING, OVER };

struct kube_run {
    const struct verify_kube_opts *opts;
    enum phase phase; /* moved by run_move_to() alone */
    int64_t began_us, since_us, turn_us, line_us, held_up_us;
    struct belfry *b;
    struct belfry_kube *reference, *tier;
    struct verify_env env;
    struct verify_kube_side side; /* the reference's watch */
    struct verify_kube_watcher watchers[VERIFY_KUBE_WATCHERS];
    /* the version of the reference, once a second */
    struct belfry_kube_request *probe; /* under way; NULL: none */
    int64_t probed_us, version, first_version;
    int64_t changed; /* the version of the newest change that the reference has told; 0: none */
    /* LISTING */
    struct verify_kube_list lists[2]; /* of the reference, of the tier */
    size_t n_same;                    /* objects on which both agree */
    char range[VERIFY_RANGE_TEXT];
};

static void run_move_to(struct kube_run *run, enum phase to)
{
    run->phase = to;
    run->since_us = verify_now_us();
}

static void fail(struct kube_run *run, const char *side, int err, const char *why)
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

static bool on_reference_change(struct verify_kube_side *side, struct judge_rev *rev)
{
    struct kube_run *run = side->user;
    run->changed = rev->rev;
    enum belfry_err err = verify_judge_reference(run->env.judge, rev);
    if (err != BELFRY_OK)
        fail(run, "reference", err, NULL);
    return true;
}

static void on_reference_bookmark(struct verify_kube_side *side, int64_t version)
{
    struct kube_run *run = side->user;
    verify_judge_reference_at(run->env.judge, version);
}

static void on_reference_link(struct verify_kube_side *side, bool is_up)
{
    (void)side;
    (void)is_up; /* it is opened again, and what is late because of that is excused */
}

static void on_reference_ended(struct verify_kube_side *side, int err, const char *why)
{
    fail(side->user, "reference", err,
         err == BELFRY_ERR_COMPACTED ? "it has lost the history that the run needs: begin anew" : why);
}

static const struct verify_kube_events reference_events = {.change = on_reference_change,
                                                           .bookmark = on_reference_bookmark,
                                                           .link = on_reference_link,
                                                           .ended = on_reference_ended};

static void begin(struct kube_run *run)
{
    verify_judge_begin(run->env.judge, run->version + 1);
    verify_judge_reference_at(run->env.judge, run->version);
    run->first_version = run->version;
    int err = verify_kube_open(&run->side, run->version);
    if (err != BELFRY_OK)
        fail(run, "reference", err, NULL);
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
    int64_t version = verify_kube_version(event->version);
    if (event->err != BELFRY_OK || version == 0) {
        if (run->phase == ASKING)
            fail(run, "reference", event->err != BELFRY_OK ? event->err : BELFRY_ERR_PROTOCOL,
                 event->err != BELFRY_OK ? event->why : "its lists have no resourceVersion that is a number");
        return BELFRY_MORE; /* it is asked again in a second */
    }
    run->version = version;
    if (run->phase == ASKING)
        begin(run);
    else
        verify_judge_cluster_at(run->env.judge, version, run->probed_us);
    return BELFRY_MORE;
}

static void probe(struct kube_run *run, int64_t now_us)
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
        fail(run, "reference", err, NULL);
}

/* ---- the lists at the end ---- */

static struct verify_kube_list *list_of(struct kube_run *run, bool is_tier)
{
    return &run->lists[is_tier ? 1 : 0];
}

static void on_listed(struct kube_run *run, bool is_tier, const struct belfry_kube_event *event)
{
    struct verify_kube_list *list = list_of(run, is_tier);
    enum belfry_err err = BELFRY_OK;
    switch (event->kind) {
    case BELFRY_KUBE_ITEM:
        err = verify_kube_list_add(list, belfry_object_key(event->object), verify_kube_version(event->version),
                                   belfry_object_value(event->object));
        break;
    case BELFRY_KUBE_RESTART:
        verify_kube_list_clear(list);
        break;
    case BELFRY_KUBE_END:
        list->version = verify_kube_version(event->version);
        if (event->err != BELFRY_OK)
            fail(run, is_tier ? "tier" : "reference", event->err, event->why);
        break;
    case BELFRY_KUBE_ADDED:
    case BELFRY_KUBE_MODIFIED:
    case BELFRY_KUBE_DELETED:
    case BELFRY_KUBE_BOOKMARK:
    case BELFRY_KUBE_ERROR:
        break;
    }
    if (err != BELFRY_OK)
        fail(run, "memory", err, NULL);
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
static void list_both(struct kube_run *run)
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
        fail(run, "tier", err, NULL);
    run_move_to(run, LISTING);
}

static void compare_lists(struct kube_run *run)
{
    if (run->lists[0].version == 0 || run->lists[1].version == 0)
        return;
    run->n_same = verify_kube_compare(&run->lists[0], &run->lists[1], on_difference, run);
    run_move_to(run, OVER);
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
        const struct verify_kube_watcher *watcher = &run->watchers[i];
        out->n_caught_up += watcher->judged != NULL && verify_case_live(watcher->judged);
        out->cut = out->cut || verify_kube_watcher_cut(watcher);
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
    if (took_us > ASLEEP_US || run->side.state != VERIFY_KUBE_WATCHING)
        verify_judge_excuse(run->env.judge, now_us);
    if (took_us > run->held_up_us)
        run->held_up_us = took_us;
    run->turn_us = now_us;
}

static bool all_done(struct kube_run *run, int64_t now_us)
{
    bool done = true;
    for (size_t i = 0; i < run->opts->n_watchers; i++)
        done = verify_kube_watcher_done(&run->watchers[i], verify_judge_head(run->env.judge)) && done;
    if (!done && now_us - run->since_us > run->opts->max_lag_us + SETTLE_US)
        fail(run, "tier", BELFRY_ERR_UNAVAILABLE,
             "it cannot be reached any more; what it has not told is not verified");
    return done && now_us - run->since_us > SETTLE_US;
}

static void take_turn(struct kube_run *run, int64_t now_us)
{
    const struct verify_kube_opts *opts = run->opts;
    probe(run, now_us);
    if (run->phase == ASKING)
        return;
    look_at_clock(run, now_us);
    verify_kube_turn(&run->side, now_us);
    for (size_t i = 0; i < opts->n_watchers; i++)
        verify_kube_watcher_turn(&run->watchers[i], now_us, run->phase != RUNNING);
    show_line(run, now_us);
    if (run->phase == RUNNING && opts->for_us > 0 && now_us - run->began_us >= opts->for_us)
        run_move_to(run, SETTLING);
    else if (run->phase == SETTLING && all_done(run, now_us))
        list_both(run);
    else if (run->phase == LISTING)
        compare_lists(run);
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
        fail(run, server, err, why);
    return err;
}

static enum belfry_err set_up(struct kube_run *run)
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
    run->side = (struct verify_kube_side){
        .kube = run->reference, .resource = resource, .events = &reference_events, .user = run};
    for (size_t i = 0; i < opts->n_watchers; i++)
        verify_kube_watcher_init(&run->watchers[i], &run->env, (unsigned)i + 1, run->tier, resource);
    return err;
}

static void tear_down(struct kube_run *run)
{
    for (size_t i = 0; i < run->opts->n_watchers; i++)
        verify_kube_watcher_fini(&run->watchers[i]);
    verify_kube_close(&run->side);
    belfry_close(run->b);
    verify_judge_destroy(run->env.judge);
    verify_kube_list_clear(&run->lists[0]);
    verify_kube_list_clear(&run->lists[1]);
}

static void report(struct kube_run *run)
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
    enum belfry_err err = set_up(&run);
    if (err != BELFRY_OK)
        fail(&run, "verify", err, NULL);
    run.line_us = verify_now_us();
    while (run.phase != OVER && run.env.err == BELFRY_OK && !opts->is_interrupted()) {
        take_turn(&run, verify_now_us());
        if (out_flush() != OUT_OPEN)
            break;
        err = (enum belfry_err)belfry_run(run.b, TURN_MS);
        if (err == BELFRY_OK) /* nothing is under way now */
            poll(NULL, 0, TURN_MS);
        else if (err != BELFRY_ERR_TIMEOUT)
            fail(&run, "verify", err, NULL);
    }
    report(&run);
    *out_err = run.env.err;
    snprintf(why, why_len, "%s", run.env.why);
    tear_down(&run);
}
