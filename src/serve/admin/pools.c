/* src/serve/admin/pools.c */
#include "serve/admin/pools.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "serve/admin/numbers.h"

#define AMOUNT 32 /* "1.25 GiB" */
#define NAME   128

static unsigned percent_of(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (unsigned)((double)part * 100 / (double)whole);
}

static bool is_full(const struct pool_numbers *p)
{
    return percent_of(p->used, p->limit) > POOLS_FULL;
}

void pools_count(const struct shares *shares, const struct shares_alarm *alarm, struct pool_numbers out[SHARES_N])
{
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++) {
        struct pool_numbers *p = &out[pool];
        struct shares_stats stats;
        size_t largest;
        const char *client = shares_largest(shares, pool, &largest);
        shares_stats(shares, pool, &stats);
        *p = (struct pool_numbers){stats.used, stats.total, stats.refused, stats.yielded, .largest = largest};
        p->in_trouble = is_full(p) || shares_alarm_is_on(alarm, pool);
        snprintf(p->client, sizeof(p->client), "%s", client != NULL ? client : "");
    }
}

/* ---- all workers ---- */

static const struct pool_numbers *pool_of(const struct tier_numbers *numbers, size_t worker, enum shares_pool pool)
{
    return numbers->workers[worker].answered ? &numbers->workers[worker].pools[pool] : NULL;
}

/* What that client holds in the workers where it holds most. */
static uint64_t held_by(const struct tier_numbers *numbers, enum shares_pool pool, const char *client)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < numbers->n_workers; i++) {
        const struct pool_numbers *p = pool_of(numbers, i, pool);
        if (p != NULL && strcmp(p->client, client) == 0)
            sum += p->largest;
    }
    return sum;
}

void pools_gather(const struct tier_numbers *numbers, enum shares_pool pool, struct pool_numbers *out)
{
    *out = (struct pool_numbers){0};
    for (size_t i = 0; i < numbers->n_workers; i++) {
        const struct pool_numbers *p = pool_of(numbers, i, pool);
        if (p == NULL)
            continue;
        out->used += p->used;
        out->limit += p->limit;
        out->refused += p->refused;
        out->yielded += p->yielded;
        out->in_trouble += p->in_trouble;
        uint64_t held = p->largest == 0 ? 0 : held_by(numbers, pool, p->client);
        if (held <= out->largest)
            continue;
        out->largest = held;
        memcpy(out->client, p->client, sizeof(out->client));
    }
}

/* ---- trouble ---- */

static const char *amount(enum shares_pool pool, uint64_t n, char out[AMOUNT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)n;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        value /= 1024;
    if (shares_pool_is_bytes(pool))
        snprintf(out, AMOUNT, "%.4g %s", value, units[unit]);
    else
        snprintf(out, AMOUNT, "%" PRIu64, n);
    return out;
}

/* A name from a certificate is foreign text: it must not begin a line of its own. */
static void printable(const char *name, char out[NAME])
{
    size_t left = strlen(name), at = 0;
    while (left > 0 && at + 4 < NAME) {
        uint32_t code;
        size_t n = belfry_utf8_next(name, left, &code), step = n == 0 ? 1 : n;
        if (n > 0 && !belfry_utf8_is_control(code)) {
            memcpy(out + at, name, n);
            at += n;
        } else {
            out[at++] = '?';
        }
        name += step;
        left -= step;
    }
    out[at] = '\0';
}

static void describe(const struct pool_numbers *p, enum shares_pool pool, const char *where, char why[POOLS_WHY])
{
    char limit[AMOUNT], client[NAME];
    const char *name = shares_pool_name(pool);
    size_t at = (size_t)snprintf(why, POOLS_WHY,
                                 is_full(p) ? "%s is full%s: %u %% of %s in use"
                                            : "%s: clients refused or ended in the last minute%s; %u %% of %s in use",
                                 name, where, percent_of(p->used, p->limit), amount(pool, p->limit, limit));
    printable(p->client, client);
    if (client[0] != '\0')
        snprintf(why + at, POOLS_WHY - at, "; %s holds most, %u %%", client, percent_of(p->largest, p->limit));
}

bool pools_trouble(const struct tier_numbers *numbers, enum shares_pool pool, char why[POOLS_WHY])
{
    const struct pool_numbers *worst = NULL;
    size_t n = 0;
    for (size_t i = 0; i < numbers->n_workers; i++) {
        const struct pool_numbers *p = pool_of(numbers, i, pool);
        if (p == NULL || p->in_trouble == 0)
            continue;
        n++;
        if (worst == NULL || percent_of(p->used, p->limit) > percent_of(worst->used, worst->limit))
            worst = p;
    }
    if (worst == NULL)
        return false;
    char where[64] = "";
    if (numbers->n_workers > 1)
        snprintf(where, sizeof(where), " in %zu of %zu workers", n, numbers->n_workers);
    describe(worst, pool, where, why);
    return true;
}

bool pools_admin_trouble(const struct tier_numbers *numbers, enum shares_pool pool, char why[POOLS_WHY])
{
    const struct pool_numbers *p = &numbers->admin.pools[pool];
    if (p->in_trouble == 0)
        return false;
    describe(p, pool, " at the admin address", why);
    return true;
}

/* ---- JSON ---- */

static void write_members(struct belfry_json *json, const struct pool_numbers *p)
{
    belfry_json_uint(json, "used", p->used);
    belfry_json_uint(json, "limit", p->limit);
    belfry_json_uint(json, "refused", p->refused);
    belfry_json_uint(json, "ended", p->yielded);
    belfry_json_uint(json, "largest", p->largest);
    belfry_json_str(json, "client", p->client);
}

void pools_write_worker(struct belfry_json *json, const struct pool_numbers pools[SHARES_N])
{
    belfry_json_open(json, "pools", '{');
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++) {
        belfry_json_open(json, shares_pool_name(pool), '{');
        write_members(json, &pools[pool]);
        belfry_json_close(json, '}');
    }
    belfry_json_close(json, '}');
}

void pools_write(struct belfry_json *json, const struct tier_numbers *numbers)
{
    belfry_json_open(json, "pools", '{');
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++) {
        struct pool_numbers sum;
        char why[POOLS_WHY];
        pools_gather(numbers, pool, &sum);
        belfry_json_open(json, shares_pool_name(pool), '{');
        write_members(json, &sum);
        if (pools_trouble(numbers, pool, why))
            belfry_json_str(json, "trouble", why);
        if (pools_admin_trouble(numbers, pool, why))
            belfry_json_str(json, "admin_trouble", why);
        belfry_json_close(json, '}');
    }
    belfry_json_close(json, '}');
}
