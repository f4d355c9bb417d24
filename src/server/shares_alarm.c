/* src/server/shares_alarm.c */
#include "server/shares_alarm.h"

#include <assert.h>
#include <stdio.h>

static const char *const hints[] = {
    [SHARES_CONNECTIONS] = "see belfryctl top --clients; more: --max-connections, --client-share",
    [SHARES_MEMORY] = "see belfryctl top --clients; more: --memory-bytes, --client-share",
    [SHARES_REQUESTS] = "see belfryctl top --clients; more: --memory-bytes, --client-share",
    [SHARES_WATCHERS] = "see belfryctl top --clients; more: --max-watchers, --client-share",
    [SHARES_CALLS] = "see belfryctl top --clients; more: --max-calls, --client-share",
    [SHARES_CALL_BYTES] = "see belfryctl top --clients; more: --memory-bytes, --client-share",
    [SHARES_LISTS] = "see belfryctl top --clients; more: --workers, --client-share",
    [SHARES_WATCH_BYTES] = "see belfryctl top --clients; more: --memory-bytes, --client-share",
    [SHARES_LIST_BYTES] = "see belfryctl top --clients; more: --memory-bytes, --client-share",
};
static_assert(sizeof(hints) / sizeof(hints[0]) == SHARES_N, "one for each pool");

/* The value stands in quotes, and a name from a certificate may hold some. */
static void quotable(const char *name, char out[SHARES_NAME_BYTES])
{
    snprintf(out, SHARES_NAME_BYTES, "%s", name);
    for (char *at = out; *at != '\0'; at++)
        *at = *at == '"' || *at == '\\' ? '\'' : *at;
}

static void alarm_log(const struct shares_alarm *alarm, const struct shares *shares, enum shares_pool pool,
                      const struct belfry_log *log)
{
    struct shares_stats stats;
    size_t held;
    const char *largest = shares_largest(shares, pool, &held);
    char name[SHARES_NAME_BYTES];
    shares_stats(shares, pool, &stats);
    quotable(largest != NULL ? largest : "", name);
    belfry_logf(log, BELFRY_LOG_WARN, "pool_full",
                "pool=%s used=%zu limit=%zu client=\"%s\" holds=%zu refused=%llu ended=%llu hint=\"%s\"",
                shares_pool_name(pool), stats.used, stats.total, name, held,
                (unsigned long long)(stats.refused - alarm->pools[pool].told_refused),
                (unsigned long long)(stats.yielded - alarm->pools[pool].told_yielded),
                alarm->hint != NULL ? alarm->hint : hints[pool]);
}

static void alarm_look_at(struct shares_alarm *alarm, const struct shares *shares, enum shares_pool pool,
                          uint64_t now_ms, const struct belfry_log *log)
{
    struct shares_stats stats;
    struct shares_alarm_pool *p = &alarm->pools[pool];
    shares_stats(shares, pool, &stats);
    if (stats.refused != p->refused || stats.yielded != p->yielded)
        p->grew_ms = now_ms;
    p->refused = stats.refused;
    p->yielded = stats.yielded;
    p->on = p->grew_ms != 0 && now_ms - p->grew_ms < SHARES_ALARM_MS;
    bool is_news = p->refused != p->told_refused || p->yielded != p->told_yielded;
    if (!is_news || (p->told_ms != 0 && now_ms - p->told_ms < SHARES_ALARM_MS))
        return;
    alarm_log(alarm, shares, pool, log);
    p->told_refused = p->refused;
    p->told_yielded = p->yielded;
    p->told_ms = now_ms;
}

void shares_alarm_look(struct shares_alarm *alarm, const struct shares *shares, uint64_t now_ms,
                       const struct belfry_log *log)
{
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        alarm_look_at(alarm, shares, pool, now_ms, log);
}

bool shares_alarm_is_on(const struct shares_alarm *alarm, enum shares_pool pool)
{
    return alarm->pools[pool].on;
}
