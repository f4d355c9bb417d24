/* src/serve/admin/readiness.c */
#include "serve/admin/readiness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define UPSTREAM_FIRST "the check of upstream says why: mend that, and the tier catches up by itself"

__attribute__((format(printf, 3, 4))) static void fails(struct readiness_finding *out, const char *hint,
                                                        const char *format, ...)
{
    va_list args;
    out->holds = false;
    out->hint = hint;
    va_start(args, format);
    vsnprintf(out->why, sizeof(out->why), format, args);
    va_end(args);
}

const char *readiness_upstream_hint(enum driver_trouble trouble)
{
    static const char *const hints[DRIVER_TROUBLES] = {
        [DRIVER_FINE] = "",
        [DRIVER_GAVE_UP] =
            "give each tier its own --name, point --upstream at etcd or a tier nearer to it, and restart",
        [DRIVER_TOO_OLD] = "upgrade etcd",
        [DRIVER_LOG_IN] =
            ("check --upstream-user and --upstream-password-file of the tier; in front of Kubernetes, the token in "
             "--upstream-token-file or the kubeconfig"),
        [DRIVER_REFUSED] = ("upstream answers with an error: does it have a leader? If auth is on, the tier needs "
                            "--upstream-user, or --upstream-cert"),
        [DRIVER_UNREACHABLE] =
            ("is upstream up, with a leader, can the tier's machine reach it and resolve its name, and do "
             "--upstream-cacert, --upstream-cert and --upstream-server-name fit? Clients keep their places meanwhile"),
        [DRIVER_DISK] = "make room where --cache-dir is; the tier goes on by itself",
        [DRIVER_WORKING] = "wait: the tier reads from upstream what it does not have",
        [DRIVER_SILENT] =
            "look at the member that the tier follows: does it have a leader, is it stopped or overloaded?",
        [DRIVER_ABSENT] = "check --follow of the tier: PLURAL, or PLURAL.GROUP; the tier looks for it every 10 s",
        [DRIVER_DENIED] =
            ("grant the tier's account the right that is named: in etcd, to read its --scope (docs/operations.md); in "
             "Kubernetes, get, list and watch (docs/kube-apiserver.md). The tier asks again by itself"),
    };
    return hints[trouble];
}

static void check_upstream(const struct tier_numbers *numbers, struct readiness_finding *out)
{
    const struct driver_status *s = &numbers->upstream;
    const char *hint = readiness_upstream_hint(s->trouble);
    if (!numbers->upstream_answered)
        fails(out, "restart the tier, and report it with its log: that is a bug", "the follower did not answer");
    else if (s->standing == DRIVER_STALE)
        fails(out, hint, "%s%sdata is stale", s->reason, s->reason[0] != '\0' ? "; " : "");
    else if (s->standing != DRIVER_READY)
        fails(out, hint, "%s", s->reason[0] != '\0' ? s->reason : numbers_standing_name(s->standing));
}

static void check_lag(const struct tier_numbers *numbers, struct readiness_finding *out)
{
    uint64_t behind = numbers->upstream_answered ? numbers->upstream.silent_ms : BELFRY_NEVER;
    double limit = (double)numbers->ready_lag_ms / 1000;
    bool is_known_cause = numbers->upstream_answered && numbers->upstream.standing != DRIVER_READY;
    if (behind == BELFRY_NEVER)
        fails(out, is_known_cause ? UPSTREAM_FIRST : "wait: upstream has not answered yet",
              "not known yet (limit %g s)", limit);
    else if (behind > numbers->ready_lag_ms)
        fails(out, is_known_cause ? UPSTREAM_FIRST : "is the link to upstream slow, or the machine busy?",
              "%g s behind (limit %g s)", (double)behind / 1000, limit);
}

static void check_replica(const struct tier_numbers *numbers, struct readiness_finding *out)
{
    if (numbers->upstream_answered && numbers->upstream.disk_trouble)
        fails(out, readiness_upstream_hint(DRIVER_DISK), "%s", numbers->upstream.disk_why);
}

static void check_workers(const struct tier_numbers *numbers, struct readiness_finding *out)
{
    size_t silent = 0;
    for (size_t i = 0; i < numbers->n_workers; i++)
        silent += !numbers->workers[i].answered;
    if (silent > 0)
        fails(out, "is the machine out of processor time? Otherwise restart the tier, and report it with its log",
              "%zu of %zu did not answer", silent, numbers->n_workers);
}

/* A listener with rights=upstream serves only while upstream has auth on. */
static void check_rights(const struct tier_numbers *numbers, struct readiness_finding *out)
{
    for (size_t i = 0; i < numbers->n_workers && numbers->guarded != NULL; i++) {
        const struct worker_numbers *worker = &numbers->workers[i];
        if (!worker->answered || worker->auth == PERMIT_AUTH_ON)
            continue;
        bool is_off = worker->auth == PERMIT_AUTH_OFF;
        fails(out,
              is_off ? "turn auth on upstream (etcdctl auth enable), or restart the tier with another rights= of that "
                       "listener"
                     : "wait: the tier asks upstream; if that lasts, is upstream up?",
              "%s upstream, and %.128s has rights=upstream",
              is_off ? "auth is off" : "it is not known yet whether auth is on", numbers->guarded);
        return;
    }
}

static void check_drain(const struct tier_numbers *numbers, struct readiness_finding *out)
{
    if (numbers->draining)
        fails(out, "nothing: it was told to stop, and clients go to other tiers", "the tier drains");
}

static const struct {
    const char *name;
    void (*judge)(const struct tier_numbers *numbers, struct readiness_finding *out); /* `out` holds, until it fails */
} checks[READINESS_N] = {
    [READINESS_UPSTREAM] = {"upstream", check_upstream}, [READINESS_LAG] = {"lag", check_lag},
    [READINESS_REPLICA] = {"replica", check_replica},    [READINESS_WORKERS] = {"workers", check_workers},
    [READINESS_RIGHTS] = {"rights", check_rights},       [READINESS_DRAIN] = {"drain", check_drain}};

const char *readiness_name(enum readiness_check check)
{
    return checks[check].name;
}

void readiness_line(enum readiness_check check, const struct readiness_finding *finding, char out[READINESS_LINE])
{
    const char *name = checks[check].name;
    size_t len = strlen(name);
    bool is_named = strncmp(finding->why, name, len) == 0 && finding->why[len] == ' ';
    snprintf(out, READINESS_LINE, "%s%s%s", is_named ? "" : name, is_named ? "" : ": ", finding->why);
}

void readiness_judge(const struct tier_numbers *numbers, struct readiness *out)
{
    out->is_ready = true;
    for (enum readiness_check check = 0; check < READINESS_N; check++) {
        out->checks[check] = (struct readiness_finding){.holds = true, .hint = ""};
        checks[check].judge(numbers, &out->checks[check]);
        out->is_ready = out->is_ready && out->checks[check].holds;
    }
}

bool readiness_warns(const struct tier_numbers *numbers, struct readiness_finding *out)
{
    const struct follow_loss *loss = &numbers->upstream.loss;
    bool warns = numbers->upstream_answered && loss->at_ms > 0 && numbers->now_ms < loss->at_ms + READINESS_LOSS_MS;
    if (warns)
        fails(out,
              "was etcd replaced by an empty one, or restored from a backup? If not, check --upstream and etcd's data",
              "upstream lost data %" PRIu64 " s ago: revision %" PRId64 " became %" PRId64 ", with %" PRIu64 " keys",
              (numbers->now_ms - loss->at_ms) / 1000, loss->rev_from, loss->to, loss->keys);
    return warns;
}

void readiness_write(struct belfry_json *json, const struct tier_numbers *numbers)
{
    char why[READINESS_LINE] = "", hint[READINESS_WHY] = "";
    struct readiness judged, *readiness = &judged;
    struct readiness_finding warning;
    readiness_judge(numbers, readiness);
    belfry_json_open(json, "warnings", '[');
    if (readiness_warns(numbers, &warning)) {
        belfry_json_open(json, NULL, '{');
        belfry_json_str(json, "name", readiness_name(READINESS_UPSTREAM));
        belfry_json_str(json, "why", warning.why);
        belfry_json_str(json, "hint", warning.hint);
        belfry_json_close(json, '}');
    }
    belfry_json_close(json, ']');
    belfry_json_open(json, "checks", '[');
    for (enum readiness_check check = 0; check < READINESS_N; check++) {
        const struct readiness_finding *finding = &readiness->checks[check];
        belfry_json_open(json, NULL, '{');
        belfry_json_str(json, "name", readiness_name(check));
        belfry_json_bool(json, "ok", finding->holds);
        if (!finding->holds) {
            belfry_json_str(json, "why", finding->why);
            belfry_json_str(json, "hint", finding->hint);
        }
        belfry_json_close(json, '}');
        if (!finding->holds && why[0] == '\0') {
            readiness_line(check, finding, why);
            snprintf(hint, sizeof(hint), "%s", finding->hint);
        }
    }
    belfry_json_close(json, ']');
    belfry_json_bool(json, "ready", readiness->is_ready);
    belfry_json_str(json, "verdict",
                    !readiness->checks[READINESS_DRAIN].holds ? "draining"
                    : readiness->is_ready                     ? "ready"
                                                              : "not ready");
    belfry_json_str(json, "why", why);
    belfry_json_str(json, "hint", hint);
}
