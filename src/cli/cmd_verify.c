/* src/cli/cmd_verify.c: watches the reference and the tier at once, and has a judge compare them. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/one_call.h"
#include "cli/out/form.h"
#include "cli/out/out.h"
#include "cli/password.h"
#include "cli/range_args.h"
#include "cli/verify/verify_kube.h"
#include "cli/verify/verify_line.h"
#include "cli/verify/verify_report.h"
#include "cli/verify/verify_watcher.h"
#include "cli/verify/verify_writer.h"

#define TIER            "127.0.0.1:23790"
#define WATCHERS_MAX    VERIFY_KUBE_WATCHERS
#define SESSIONS_MAX    (1 + WATCHERS_MAX / 2)
#define HISTORY_MAX     1000000
#define WINDOW_BYTES    ((size_t)128 << 20)
#define TURN_MS         100
#define WRITING_TURN_MS 5
#define ASLEEP_US       (3 * SECOND_US)  /* a turn that took so long: this process was stopped, or starved */
#define REFERENCE_US    (10 * SECOND_US) /* at the end: so long the reference's watch may tell nothing more */
#define HURRY_US        (5 * SECOND_US)  /* for keys of our own; a second Ctrl-C ends that, too */

/*   STARTING --both sides have answered--> RUNNING --time is up--> SETTLING --all was given, or is overdue--> OVER
 *                                             `--Ctrl-C, failure------^ (not waited for: only own keys are deleted) */
enum phase { STARTING, RUNNING, SETTLING, OVER };

struct run {
    const struct flags *flags;
    struct flags at_reference; /* the same, with the credentials for the reference; it owns nothing */
    enum phase phase;
    int64_t began_us, turn_us, line_us, tick_us;
    int64_t held_up_us;            /* the longest turn */
    int64_t settle_us, settle_rev; /* SETTLING: since then, and up to there; 0: not yet known */
    bool in_a_hurry;               /* SETTLING after Ctrl-C, or a failure */
    int64_t head, head_us;         /* SETTLING: how far the reference's watch is, and since when */
    bool late;                     /* SETTLING: that is less than it should be */
    bool tier_asked, tier_answered;
    uint64_t tier_cluster;
    struct verify_env env;
    struct belfry *reference_session;
    struct verify_reference reference;
    /* The watcher that stays has a line for itself, so that its lag is not that of another's replay; the others share
     * one in twos, so that watchers of one stream are verified, too. */
    struct verify_line lines[SESSIONS_MAX];
    size_t n_lines, n_watchers;
    struct verify_watcher watchers[WATCHERS_MAX];
    struct verify_writer writer;
    struct verify_report report;
    char range[VERIFY_RANGE_TEXT];
};

static volatile sig_atomic_t interrupted; /* a signal handler has no other way to tell */

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted++;
}

static void see_to_interrupts(void)
{
    static const int signals[] = {SIGINT, SIGTERM};
    struct sigaction take = {.sa_handler = on_interrupt}, was;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaction(signals[i], &take, NULL);
}

static struct verify_line *line_of(struct run *run, size_t watcher)
{
    return &run->lines[(watcher + 1) / 2];
}

/* ---- violations, numbers ---- */

static void on_blame(const struct judge_violation *violation, void *user)
{
    struct run *run = user;
    char asked[VERIFY_SPEC_TEXT];
    verify_spec_text(&run->watchers[violation->watcher - 1].spec, asked);
    verify_report_violation(&run->report, violation, violation->asked != NULL ? violation->asked : asked);
}

static void fill_standing(struct run *run, int64_t now_us, struct verify_standing *out)
{
    *out = (struct verify_standing){.numbers = verify_judge_numbers(run->env.judge),
                                    .range = run->range,
                                    .elapsed_us = now_us - run->began_us,
                                    .first_rev = run->reference.first_revision,
                                    .rev = verify_reference_newest(&run->reference),
                                    .told_rev = verify_judge_head(run->env.judge),
                                    .late = run->late,
                                    .held_up_us = run->held_up_us,
                                    .silent_us = verify_reference_silence(&run->reference, now_us),
                                    .n_watchers = run->n_watchers,
                                    .n_starts = run->env.n_starts,
                                    .n_old_starts = run->env.n_old_starts,
                                    .n_compacted = run->env.n_compacted,
                                    .n_unclear = run->env.n_unclear,
                                    .n_rewinds = run->reference.n_rewinds,
                                    .n_reference_losses = belfry_get_stats(run->reference_session)->losses,
                                    .n_written = run->writer.n_done,
                                    .n_write_failures = run->writer.n_failed,
                                    .writes = run->writer.rate > 0};
    for (size_t i = 0; i < run->n_lines; i++)
        out->n_tier_losses += belfry_get_stats(run->lines[i].b)->losses;
    for (size_t i = 0; i < run->n_watchers; i++) {
        out->n_caught_up += run->watchers[i].state == VERIFY_WATCHING && run->watchers[i].caught_up;
        out->cut = out->cut || verify_watcher_cut(&run->watchers[i]);
    }
}

/* ---- the run ---- */

static void on_tier_answer(const struct belfry_reply *reply, void *user)
{
    struct run *run = user;
    if (reply->err != BELFRY_OK)
        verify_env_fail(&run->env, "tier", reply->err, reply->why);
    run->tier_cluster = reply->header.cluster_id;
    run->tier_answered = true;
}

static void start(struct run *run)
{
    if (!run->tier_asked) {
        int err = belfry_get(run->lines[0].b, verify_env_key(&run->env), NULL, on_tier_answer, run, NULL);
        if (err != BELFRY_OK)
            verify_env_fail(&run->env, "tier", err, NULL);
    }
    run->tier_asked = true;
    if (!run->tier_answered || run->reference.state != VERIFY_FOLLOWING)
        return;
    if (run->tier_cluster != run->env.cluster_id)
        verify_env_fail(&run->env, "tier", BELFRY_ERR_CLUSTER, "it is of another cluster than the reference");
    run->phase = RUNNING;
    run->began_us = verify_now_us(); /* what it took to get here is not of the time that was asked for */
}

static void look_at_lines(struct run *run)
{
    for (size_t i = 0; i < run->n_lines; i++)
        verify_line_look(&run->lines[i], verify_reference_newest(&run->reference), on_blame, run);
}

/* Once a second. */
static void tick(struct run *run)
{
    for (size_t i = 0; i < run->n_lines; i++) {
        int err = belfry_request_progress(run->lines[i].b);
        if (err != BELFRY_OK)
            verify_env_fail(&run->env, "tier", err, NULL);
    }
    look_at_lines(run);
}

static void show_line(struct run *run, int64_t now_us)
{
    struct verify_standing standing;
    if (now_us - run->line_us < (run->report.terminal ? 1 : 10) * SECOND_US)
        return;
    run->line_us = now_us;
    fill_standing(run, now_us, &standing);
    verify_report_line(&run->report, &standing);
}

/* A tier that cannot be reached is waited for as long as an event may take. */
static bool watchers_are_done(struct run *run, int64_t now_us)
{
    bool done = true;
    for (size_t i = 0; i < run->n_watchers; i++) {
        bool is_done = verify_watcher_done(&run->watchers[i], run->settle_rev);
        if (!is_done && verify_watcher_cut(&run->watchers[i]) && now_us - run->settle_us > run->env.max_lag_us)
            verify_env_fail(&run->env, "tier", BELFRY_ERR_UNAVAILABLE,
                            "it cannot be reached any more; what it has not given is not verified");
        done = done && is_done;
    }
    return done;
}

/* Has the reference told what the cluster had? A watch that does not move any more is not waited for; a cluster that
 * does not answer, as long as an event may take. */
static bool reference_is_done(struct run *run, int64_t now_us)
{
    int64_t head = verify_judge_head(run->env.judge);
    bool answers = verify_reference_answers(&run->reference, now_us);
    if (!answers && now_us - run->settle_us > run->env.max_lag_us)
        verify_env_fail(&run->env, "reference", BELFRY_ERR_UNAVAILABLE,
                        "it does not answer any more; what came since then is not verified");
    if (head != run->head || !answers) {
        run->head = head;
        run->head_us = now_us;
    }
    bool waited = now_us - run->head_us > REFERENCE_US && now_us - run->settle_us > REFERENCE_US;
    if (head < run->settle_rev && waited) {
        run->late = true;
        run->settle_rev = head;
    }
    bool doubts = verify_judge_doubts_prev(run->env.judge);
    return answers && head >= run->settle_rev && (waited || !doubts);
}

/* What was written last is on its way to both sides for a second; then what the cluster has by then is waited for. */
static bool is_settled(struct run *run, int64_t now_us)
{
    if (run->in_a_hurry)
        return verify_writer_idle(&run->writer) || now_us - run->settle_us > HURRY_US || interrupted > 1;
    if (!verify_writer_idle(&run->writer))
        run->settle_us = now_us;
    if (now_us - run->settle_us < SECOND_US)
        return false;
    if (run->settle_rev == 0)
        run->settle_rev = verify_reference_newest(&run->reference);
    bool told = reference_is_done(run, now_us), given = watchers_are_done(run, now_us);
    return told && given;
}

static void settle(struct run *run, int64_t now_us)
{
    run->phase = SETTLING;
    run->settle_us = now_us;
    verify_writer_end(&run->writer);
}

static void move(struct run *run, int64_t now_us)
{
    int64_t for_us = flags_ms(run->flags, FLAG_FOR) * 1000;
    if (run->phase == STARTING)
        start(run);
    bool time_is_up = for_us > 0 && now_us - run->began_us >= for_us;
    bool in_a_hurry = interrupted || run->env.err != BELFRY_OK;
    if ((run->phase == RUNNING && time_is_up) || (in_a_hurry && !run->in_a_hurry)) {
        run->in_a_hurry = in_a_hurry;
        settle(run, now_us);
    }
    if (run->phase == SETTLING && is_settled(run, now_us))
        run->phase = OVER;
}

/* Who is late because this process was held up, or because the cluster does not answer, is not late: whatever is due is
 * due from when that is over. After a while of it connections may be gone, and have to be made again first. */
static void look_at_clock(struct run *run, int64_t now_us)
{
    int64_t took_us = run->turn_us != 0 ? now_us - run->turn_us : 0;
    bool held_up = took_us > ASLEEP_US || took_us > run->env.max_lag_us / 2;
    if (held_up || !verify_reference_answers(&run->reference, now_us))
        verify_judge_excuse(run->env.judge, now_us);
    if (took_us > run->held_up_us)
        run->held_up_us = took_us;
    run->turn_us = now_us;
}

static void turn(struct run *run, int64_t now_us)
{
    look_at_clock(run, now_us);
    verify_reference_turn(&run->reference, now_us);
    if (run->phase != STARTING)
        verify_writer_turn(&run->writer, now_us);
    for (size_t i = 0; i < run->n_watchers && run->phase != STARTING; i++)
        verify_watcher_turn(&run->watchers[i], now_us, run->phase != RUNNING);
    if (run->phase != STARTING && now_us - run->tick_us >= SECOND_US) {
        run->tick_us = now_us;
        tick(run);
    }
    if (run->phase != STARTING)
        show_line(run, now_us);
    move(run, now_us);
}

static void dispatch(struct run *run, struct belfry *b, const char *side)
{
    int err = belfry_dispatch(b);
    if (err != BELFRY_OK)
        verify_env_fail(&run->env, side, err, NULL);
}

/* The reference first: what both have in their sockets by now is then no lag. */
static void wait_and_dispatch(struct run *run)
{
    struct pollfd fds[SESSIONS_MAX + 2] = {{.fd = belfry_fd(run->reference_session), .events = POLLIN}};
    size_t n = 1;
    for (; n <= run->n_lines; n++)
        fds[n] = (struct pollfd){.fd = belfry_fd(run->lines[n - 1].b), .events = POLLIN};
    fds[n] = (struct pollfd){.fd = STDOUT_FILENO}; /* without events: tells of a reader who has gone */
    int ready = poll(fds, n + 1, run->phase == RUNNING && run->writer.rate > 0 ? WRITING_TURN_MS : TURN_MS);
    if (ready < 0 && errno != EINTR)
        verify_env_fail(&run->env, "poll", BELFRY_ERR_IO, strerror(errno));
    for (size_t i = 0; i < run->n_lines; i++)
        run->lines[i].quiet = ready >= 0 && (fds[i + 1].revents & POLLIN) == 0;
    if (ready <= 0)
        return;
    if ((fds[0].revents & POLLIN) != 0)
        dispatch(run, run->reference_session, "reference");
    for (size_t i = 0; i < run->n_lines; i++)
        if (!run->lines[i].quiet)
            dispatch(run, run->lines[i].b, "tier");
    if ((fds[n].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        interrupted = 1;
}

static enum exit_code tell_failure(const struct run *run)
{
    const struct verify_env *env = &run->env;
    bool reference = strcmp(env->side, "reference") == 0;
    const char *remedy = report_remedy(env->err);
    if (report_code(env->err) == EXIT_NO_ANSWER)
        remedy = reference
                     ? "is etcd running there? It is named with --reference; https:// is for TLS"
                     : "is a belfryd running there? It is named with --endpoints or BELFRYCTL_ENDPOINTS; https:// is "
                       "for TLS";
    else if (env->err == BELFRY_ERR_CLUSTER)
        remedy = "--reference must be the etcd that the tier of --endpoints follows";
    return report_with_remedy(env->err, env->why, remedy);
}

static void tell_keys_left(const struct run *run)
{
    if (verify_writer_left(&run->writer))
        fprintf(stderr,
                "belfryctl: what was written could not be deleted\n  do so with: belfryctl del --prefix '%sverify-'\n",
                run->writer.prefix);
}

static enum exit_code finish(struct run *run)
{
    struct verify_standing standing;
    bool began = run->reference.first_revision != 0 && run->env.n_starts > 0;
    int64_t now_us = verify_now_us(), newest = verify_reference_newest(&run->reference);
    verify_judge_end(run->env.judge, run->late ? newest : run->settle_rev, now_us);
    look_at_lines(run);
    fill_standing(run, now_us, &standing);
    if (began)
        verify_report_sum(&run->report, &standing);
    enum exit_code code = run->report.n_violations > 0 ? EXIT_FAILED : EXIT_DONE;
    if (out_flush() == OUT_BROKEN)
        code = EXIT_FAILED;
    tell_keys_left(run);
    if (run->env.err == BELFRY_OK)
        return began ? code : EXIT_INTERRUPTED;
    enum exit_code failed = tell_failure(run);
    return code == EXIT_DONE ? failed : code;
}

/* ---- setting up ---- */

/* Not what other commands talk to when they are not told: that is etcd, which would be compared with itself. */
static const char *tier_of(const struct flags *flags)
{
    return flags_given(flags, FLAG_ENDPOINTS) ? flags->value[FLAG_ENDPOINTS] : TIER;
}

static enum exit_code open_session(const struct flags *flags, const char *endpoints, struct belfry **out)
{
    char *list = NULL;
    if (session_endpoints_of(flags, endpoints, &list) != BELFRY_OK)
        return report_error(BELFRY_ERR_NOMEM, NULL);
    enum exit_code code = session_open(flags, list, out);
    free(list);
    return code;
}

/* The flags by which the reference is asked: what was given for it alone stands for what is for both sides. */
static void choose_credentials(const struct flags *flags, struct flags *out)
{
    static const enum flag pairs[][2] = {
        {FLAG_REFERENCE_USER, FLAG_USER},     {FLAG_REFERENCE_PASSWORD_FILE, FLAG_PASSWORD_FILE},
        {FLAG_REFERENCE_CACERT, FLAG_CACERT}, {FLAG_REFERENCE_CERT, FLAG_CERT},
        {FLAG_REFERENCE_KEY, FLAG_KEY},       {FLAG_REFERENCE_SERVER_NAME, FLAG_SERVER_NAME},
    };
    *out = *flags;
    if (flags_given(flags, FLAG_REFERENCE_USER)) /* the password is another user's */
        for (size_t i = 0; i < 2; i++) {
            enum flag other = i == 0 ? FLAG_PASSWORD : FLAG_PASSWORD_FILE;
            out->value[other] = NULL;
            out->source[other] = FROM_DEFAULT;
        }
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (flags_given(flags, pairs[i][0])) {
            out->value[pairs[i][1]] = flags->value[pairs[i][0]];
            out->source[pairs[i][1]] = flags->source[pairs[i][0]];
        }
}

static enum exit_code open_sessions(struct run *run)
{
    enum exit_code code = open_session(&run->at_reference, run->flags->value[FLAG_REFERENCE], &run->reference_session);
    size_t n_lines = 1 + run->n_watchers / 2;
    while (code == EXIT_DONE && run->n_lines < n_lines) {
        struct verify_line *line = &run->lines[run->n_lines];
        code = open_session(run->flags, tier_of(run->flags), &line->b);
        if (code != EXIT_DONE)
            break;
        line->debug = flags_on(run->flags, FLAG_DEBUG);
        verify_line_listen(line);
        run->n_lines++;
    }
    return code;
}

static void set_up_parts(struct run *run)
{
    static const enum verify_role roles[] = {VERIFY_NOW, VERIFY_OLD, VERIFY_PART, VERIFY_OLD};
    run->reference = (struct verify_reference){.env = &run->env, .b = run->reference_session};
    run->writer = (struct verify_writer){.env = &run->env,
                                         .b = run->reference_session,
                                         .rate = flags_number(run->flags, FLAG_WRITE),
                                         .prefix = run->flags->value[FLAG_WRITE_PREFIX]};
    for (size_t i = run->n_watchers; i-- > 0;) {
        line_of(run, i)->watcher = (unsigned)i + 1;
        run->watchers[i] = (struct verify_watcher){.env = &run->env,
                                                   .reference = &run->reference,
                                                   .line = line_of(run, i),
                                                   .number = (unsigned)i + 1,
                                                   .role = i == 0 ? VERIFY_STAYS : roles[i % 4]};
    }
}

static void tear_down(struct run *run)
{
    for (size_t i = 0; i < run->n_lines; i++)
        belfry_close(run->lines[i].b);
    belfry_close(run->reference_session); /* the last: it answers what watchers have asked it */
    for (size_t i = 0; i < run->n_watchers; i++)
        verify_watcher_fini(&run->watchers[i]);
    verify_judge_destroy(run->env.judge);
}

static enum exit_code verify(struct run *run)
{
    struct verify_judge_opts opts = {
        .window_bytes = WINDOW_BYTES, .max_lag_us = run->env.max_lag_us, .blame = on_blame, .user = run};
    if (verify_judge_create(&opts, &run->env.judge) != BELFRY_OK)
        return report_error(BELFRY_ERR_NOMEM, NULL);
    enum exit_code code = open_sessions(run);
    if (code == EXIT_DONE) {
        set_up_parts(run);
        see_to_interrupts();
        run->began_us = run->line_us = verify_now_us();
        while (run->phase != OVER) {
            turn(run, verify_now_us());
            if (out_flush() != OUT_OPEN)
                interrupted = 1;
            if (run->phase != OVER)
                wait_and_dispatch(run);
        }
        code = finish(run);
    }
    tear_down(run);
    return code;
}

/* ---- what the flags say ---- */

static enum belfry_err choose_range(const struct flags *flags, struct belfry_range *out, char *why)
{
    if (flags->n_args > 0)
        return range_of_flags(flags, out, why);
    *out = belfry_prefix("");
    return BELFRY_OK;
}

/* What holds for keys and for resources. NULL: nothing is wrong. */
static const char *check_common_flags(const struct flags *flags, const char *tier)
{
    int64_t watchers = flags_number(flags, FLAG_WATCHERS);
    if (strcmp(flags->value[FLAG_REFERENCE], tier) == 0)
        return "--reference and --endpoints are the same: there is nothing to compare";
    if (watchers < 1 || watchers > WATCHERS_MAX)
        return "--watchers: from 1 to 64";
    if (flags_ms(flags, FLAG_MAX_LAG) < 1000)
        return "--max-lag: at least 1s";
    if (flags_given(flags, FLAG_REFERENCE_CERT) != flags_given(flags, FLAG_REFERENCE_KEY))
        return "--reference-cert and --reference-key: give both or neither";
    if (flags_given(flags, FLAG_REFERENCE_PASSWORD_FILE) && !flags_given(flags, FLAG_REFERENCE_USER))
        return "--reference-password-file is for --reference-user";
    return NULL;
}

/* NULL: nothing is wrong. */
static const char *check_flags(const struct flags *flags, const struct belfry_range *range)
{
    int64_t rate = flags_number(flags, FLAG_WRITE);
    const char *prefix = flags->value[FLAG_WRITE_PREFIX];
    if (flags->value[FLAG_REFERENCE] == NULL)
        return "--reference is missing: the etcd that the tier is compared with";
    const char *wrong = check_common_flags(flags, tier_of(flags));
    if (wrong != NULL)
        return wrong;
    if (flags_number(flags, FLAG_HISTORY) > HISTORY_MAX)
        return "--history: at most 1000000";
    if ((rate > 0) != (prefix != NULL))
        return "--write and --write-prefix go together: how many writes a second, and below which keys";
    if (rate > VERIFY_WRITER_RATE_MAX)
        return "--write: at most 10000 a second";
    if (prefix != NULL && (*prefix == '\0' || strlen(prefix) >= VERIFY_WRITER_PREFIX))
        return "--write-prefix: from 1 to 255 bytes";
    if (prefix != NULL && !verify_writer_fits(prefix, range))
        return "--write-prefix must lie inside the range that is verified";
    return NULL;
}

/* ---- a resource of an API server ---- */

static bool is_interrupted(void)
{
    return interrupted > 0;
}

static const char *check_kube_flags(const struct flags *flags, const struct verify_kube_opts *opts)
{
    if (opts->reference == NULL)
        return "--reference is missing: the URL of the API server that the tier is compared with";
    const char *wrong = check_common_flags(flags, opts->tier);
    if (wrong != NULL)
        return wrong;
    if (opts->plural == NULL || *opts->plural == '\0')
        return "--kube: group, version and plural, as in v1/pods or apps/v1/deployments";
    if (flags->n_args > 0 || flags_number(flags, FLAG_WRITE) > 0)
        return "--kube compares a resource: there is no KEY, and nothing is written";
    if (flags_given(flags, FLAG_REFERENCE_USER))
        return "--reference-user is for etcd: an API server knows tokens and certificates";
    if (opts->access.token != NULL && opts->access.token_file != NULL)
        return "--token and --token-file exclude each other: choose one";
    return NULL;
}

static struct verify_kube_access access_of(const struct flags *flags)
{
    return (struct verify_kube_access){.cacert = flags->value[FLAG_CACERT],
                                       .cert = flags->value[FLAG_CERT],
                                       .key = flags->value[FLAG_KEY],
                                       .server_name = flags->value[FLAG_SERVER_NAME],
                                       .token = flags->value[FLAG_TOKEN],
                                       .token_file = flags->value[FLAG_TOKEN_FILE],
                                       .skips_verify = flags_on(flags, FLAG_INSECURE_SKIP_TLS_VERIFY)};
}

static enum exit_code verify_kube(const struct flags *flags, const struct flags *at_reference,
                                  struct verify_report *report)
{
    char group_version[128], why[VERIFY_WHY], *plural;
    int err;
    snprintf(group_version, sizeof(group_version), "%s", flags->value[FLAG_KUBE]);
    plural = strrchr(group_version, '/');
    if (plural != NULL)
        *plural++ = '\0';
    struct verify_kube_opts opts = {.reference = flags->value[FLAG_REFERENCE],
                                    .tier = flags_given(flags, FLAG_ENDPOINTS) ? flags->value[FLAG_ENDPOINTS]
                                                                               : "http://" TIER,
                                    .access = access_of(flags),
                                    .at_reference = access_of(at_reference),
                                    .group_version = group_version,
                                    .plural = plural,
                                    .for_us = flags_ms(flags, FLAG_FOR) * 1000,
                                    .max_lag_us = flags_ms(flags, FLAG_MAX_LAG) * 1000,
                                    .n_watchers = (size_t)flags_number(flags, FLAG_WATCHERS),
                                    .is_interrupted = is_interrupted,
                                    .report = report};
    const char *wrong = check_kube_flags(flags, &opts);
    if (wrong != NULL)
        return report_usage(wrong);
    see_to_interrupts();
    verify_kube_run(&opts, &err, why, sizeof(why));
    if (out_flush() == OUT_BROKEN || report->n_violations > 0)
        return EXIT_FAILED;
    return err == BELFRY_OK ? EXIT_DONE : report_error(err, why);
}

/* ---- the command ---- */

enum exit_code cmd_verify(const struct flags *flags)
{
    static struct run run; /* of some size, and there is one */
    char why[FLAGS_WHY] = "", password[PASSWORD_MAX];
    run = (struct run){.flags = flags, .n_watchers = (size_t)flags_number(flags, FLAG_WATCHERS)};
    run.report = (struct verify_report){.out = stdout, .terminal = isatty(STDOUT_FILENO) == 1};
    if (form_choose(flags, run.report.terminal, &run.report.form, why) != BELFRY_OK ||
        choose_range(flags, &run.env.range, why) != BELFRY_OK ||
        form_refuse_etcds(run.report.form, "verify", why) != BELFRY_OK)
        return report_usage(why);
    choose_credentials(flags, &run.at_reference);
    if (flags->value[FLAG_KUBE] != NULL)
        return verify_kube(flags, &run.at_reference, &run.report);
    const char *wrong = check_flags(flags, &run.env.range);
    if (wrong != NULL)
        return report_usage(wrong);
    if (password_complete(&run.at_reference, password, why) != BELFRY_OK)
        return report_usage("--reference-user has no password: give --reference-password-file FILE");
    run.env.history = flags_number(flags, FLAG_HISTORY);
    run.env.max_lag_us = flags_ms(flags, FLAG_MAX_LAG) * 1000;
    run.env.rng.state = (uint64_t)verify_now_us() ^ (uint64_t)getpid() << 32;
    verify_range_text(&run.env.range, run.range);
    enum exit_code code = verify(&run);
    explicit_bzero(password, sizeof(password));
    return code;
}
