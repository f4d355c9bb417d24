/* src/serve/admin/readiness.c */
#include "serve/admin/readiness.h"

#include <stdio.h>

#include "base/clock.h"

static bool check_upstream(const struct tier_numbers *numbers, char why[READINESS_WHY])
{
    const struct driver_status *s = &numbers->upstream;
    if (!numbers->upstream_answered)
        snprintf(why, READINESS_WHY, "the follower did not answer");
    else if (s->standing != DRIVER_READY)
        snprintf(why, READINESS_WHY, "%s%s%s", numbers_standing_name(s->standing), s->reason[0] != '\0' ? ": " : "",
                 s->reason);
    return numbers->upstream_answered && s->standing == DRIVER_READY;
}

static bool check_lag(const struct tier_numbers *numbers, char why[READINESS_WHY])
{
    uint64_t behind = numbers->upstream_answered ? numbers->upstream.silent_ms : BELFRY_NEVER;
    double limit = (double)numbers->ready_lag_ms / 1000;
    if (behind == BELFRY_NEVER)
        snprintf(why, READINESS_WHY, "not known yet (limit %g s)", limit);
    else
        snprintf(why, READINESS_WHY, "%g s behind (limit %g s)", (double)behind / 1000, limit);
    return behind <= numbers->ready_lag_ms;
}

static bool check_replica(const struct tier_numbers *numbers, char why[READINESS_WHY])
{
    bool trouble = numbers->upstream_answered && numbers->upstream.disk_trouble;
    snprintf(why, READINESS_WHY, "%s", numbers->upstream.disk_why);
    return !trouble;
}

static bool check_workers(const struct tier_numbers *numbers, char why[READINESS_WHY])
{
    size_t silent = 0;
    for (size_t i = 0; i < numbers->n_workers; i++)
        silent += !numbers->workers[i].answered;
    snprintf(why, READINESS_WHY, "%zu of %zu did not answer", silent, numbers->n_workers);
    return silent == 0;
}

/* A listener with rights=upstream serves only while upstream has auth on. */
static bool check_rights(const struct tier_numbers *numbers, char why[READINESS_WHY])
{
    for (size_t i = 0; i < numbers->n_workers && numbers->guarded != NULL; i++) {
        const struct worker_numbers *worker = &numbers->workers[i];
        if (!worker->answered || worker->auth == PERMIT_AUTH_ON)
            continue;
        snprintf(why, READINESS_WHY, "%s upstream, and %.128s has rights=upstream",
                 worker->auth == PERMIT_AUTH_OFF ? "auth is off" : "it is not known yet whether auth is on",
                 numbers->guarded);
        return false;
    }
    return true;
}

static bool check_drain(const struct tier_numbers *numbers, char why[READINESS_WHY])
{
    snprintf(why, READINESS_WHY, "the tier drains");
    return !numbers->draining;
}

static const struct {
    const char *name;
    bool (*holds)(const struct tier_numbers *numbers, char why[READINESS_WHY]);
} checks[READINESS_N] = {
    [READINESS_UPSTREAM] = {"upstream", check_upstream}, [READINESS_LAG] = {"lag", check_lag},
    [READINESS_REPLICA] = {"replica", check_replica},    [READINESS_WORKERS] = {"workers", check_workers},
    [READINESS_RIGHTS] = {"rights", check_rights},       [READINESS_DRAIN] = {"drain", check_drain}};

const char *readiness_name(enum readiness_check check)
{
    return checks[check].name;
}

bool readiness_holds(const struct tier_numbers *numbers, enum readiness_check check, char why[READINESS_WHY])
{
    return checks[check].holds(numbers, why);
}
