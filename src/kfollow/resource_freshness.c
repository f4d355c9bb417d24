/* src/kfollow/resource_freshness.c */
#include "kfollow/resource_freshness.h"

#include <assert.h>

#include "base/clock.h"
#include "base/sim.h"

#define RETRY_MS 200 /* before a request that failed is sent again */

uint64_t resource_version_hash(struct belfry_hash_key hash_key, struct belfry_bytes key, int64_t mark, int64_t rv)
{
    return belfry_hash_int(resource_hash(hash_key, key, mark) + belfry_hash_int((uint64_t)rv));
}

uint64_t resource_freshness_ask(struct resource_freshness *fresh, size_t n, uint64_t now_ms)
{
    if (BELFRY_MUTANT(kube_fresh_joins_sent) && fresh->at != FRESH_IDLE)
        return fresh->batch;
    if (fresh->n_asked == 0)
        fresh->asked_ms = now_ms;
    fresh->n_asked += n;
    return fresh->batch + 1;
}

/* ---- requests ---- */

static void fresh_want(struct resource_freshness *fresh, enum resource_fresh_at at, uint64_t at_ms)
{
    assert(at == FRESH_PROBING || at == FRESH_LISTING);
    fresh->at = at;
    fresh->is_sent = false;
    fresh->due_ms = at == FRESH_LISTING && at_ms < fresh->list_due_ms ? fresh->list_due_ms : at_ms;
}

/* The next batch is the one under way. */
static void fresh_begin(struct resource_freshness *fresh, const struct resource_fresh_facts *facts, uint64_t now_ms)
{
    bool is_quiet = now_ms - facts->changed_ms >= RESOURCE_FRESH_QUIET_MS;
    bool is_small = facts->versions.n <= RESOURCE_FRESH_SMALL;
    fresh->batch++;
    fresh->n_asked = 0;
    fresh->n_failed = 0;
    fresh->begun_ms = fresh->moved_ms = now_ms;
    fresh->wait_ms = is_small ? RESOURCE_FRESH_PAUSE_MS : RESOURCE_FRESH_WAIT_MS;
    fresh_want(fresh, is_quiet && is_small ? FRESH_LISTING : FRESH_PROBING, now_ms);
}

/* When the next batch begins, at the earliest. */
static uint64_t begins_at(const struct resource_freshness *fresh)
{
    bool is_crowd = fresh->n_asked >= RESOURCE_FRESH_CROWD && fresh->batch > 0;
    return is_crowd ? fresh->begun_ms + RESOURCE_FRESH_PACE_MS : 0;
}

enum resource_fresh_want resource_freshness_next(struct resource_freshness *fresh,
                                                 const struct resource_fresh_facts *facts, uint64_t now_ms)
{
    if (fresh->at == FRESH_IDLE && fresh->n_asked > 0 && facts->is_live && now_ms >= begins_at(fresh))
        fresh_begin(fresh, facts, now_ms);
    bool is_wanted = (fresh->at == FRESH_PROBING || fresh->at == FRESH_LISTING) && !fresh->is_sent;
    if (!is_wanted || now_ms < fresh->due_ms || !facts->is_live)
        return FRESH_WANT_NOTHING;
    fresh->is_sent = true;
    fresh->moved_ms = now_ms;
    if (fresh->at == FRESH_PROBING)
        return FRESH_WANT_PROBE;
    if (!BELFRY_MUTANT(kube_fresh_list_added))
        fresh->listed = (struct resource_sum){0};
    fresh->list_ms = now_ms;
    return FRESH_WANT_LIST;
}

/* ---- what comes of them ---- */

void resource_freshness_item(struct resource_freshness *fresh, uint64_t hash, uint64_t now_ms)
{
    assert(fresh->at == FRESH_LISTING && fresh->is_sent);
    fresh->moved_ms = now_ms;
    resource_sum_add(&fresh->listed, hash);
}

static void list_is_over(struct resource_freshness *fresh, uint64_t now_ms)
{
    fresh->list_due_ms = now_ms + (now_ms - fresh->list_ms);
}

void resource_freshness_done(struct resource_freshness *fresh, int64_t rv, uint64_t now_ms)
{
    assert(fresh->is_sent);
    fresh->is_sent = false;
    fresh->moved_ms = now_ms;
    fresh->target = rv;
    if (fresh->at == FRESH_LISTING)
        list_is_over(fresh, now_ms);
    fresh->at = fresh->at == FRESH_PROBING ? FRESH_WAITING : FRESH_COMPARING;
}

void resource_freshness_failed(struct resource_freshness *fresh, uint64_t now_ms)
{
    assert(fresh->is_sent);
    fresh->n_failed++;
    if (fresh->at == FRESH_LISTING)
        list_is_over(fresh, now_ms);
    fresh_want(fresh, fresh->at, now_ms + RETRY_MS);
}

void resource_freshness_restart(struct resource_freshness *fresh, uint64_t now_ms)
{
    if (fresh->at != FRESH_IDLE)
        fresh_want(fresh, FRESH_PROBING, now_ms);
}

/* ---- answers ---- */

/* The next batch was asked for, and none was under way: since then a proof could have begun. */
static uint64_t could_begin_ms(const struct resource_freshness *fresh)
{
    return fresh->asked_ms > fresh->ended_ms ? fresh->asked_ms : fresh->ended_ms;
}

static bool is_proven(const struct resource_freshness *fresh, const struct resource_fresh_facts *facts)
{
    bool has_target = fresh->at == FRESH_WAITING || fresh->at == FRESH_COMPARING;
    if (!facts->is_live || !has_target)
        return false;
    if (facts->shown >= fresh->target || BELFRY_MUTANT(kube_fresh_by_probe))
        return true;
    return fresh->at == FRESH_COMPARING && facts->versions.n == fresh->listed.n &&
           (facts->versions.sum == fresh->listed.sum || BELFRY_MUTANT(kube_fresh_by_count));
}

static bool fresh_end(struct resource_freshness *fresh, uint64_t batch, int64_t rv, uint64_t now_ms,
                      struct resource_fresh_answer *out)
{
    fresh->at = FRESH_IDLE;
    fresh->ended_ms = now_ms;
    *out = (struct resource_fresh_answer){.batch = batch, .rv = rv};
    return true;
}

bool resource_freshness_look(struct resource_freshness *fresh, const struct resource_fresh_facts *facts,
                             uint64_t now_ms, struct resource_fresh_answer *out)
{
    if (fresh->at == FRESH_IDLE && fresh->n_asked > 0 && now_ms - could_begin_ms(fresh) >= RESOURCE_FRESH_MS) {
        fresh->n_asked = 0; /* there was nothing to prove it with */
        return fresh_end(fresh, ++fresh->batch, 0, now_ms, out);
    }
    if (fresh->at == FRESH_IDLE)
        return false;
    if (is_proven(fresh, facts))
        return fresh_end(fresh, fresh->batch, facts->head, now_ms, out);
    bool is_late = now_ms - fresh->moved_ms >= RESOURCE_FRESH_MS && (fresh->is_sent || now_ms >= fresh->due_ms);
    bool is_given_up = fresh->n_failed >= RESOURCE_FRESH_TRIES;
    if (is_late || is_given_up || now_ms - fresh->begun_ms >= RESOURCE_FRESH_MAX_MS)
        return fresh_end(fresh, fresh->batch, 0, now_ms, out);
    if (fresh->at == FRESH_WAITING && now_ms - fresh->moved_ms >= fresh->wait_ms)
        fresh_want(fresh, FRESH_LISTING, now_ms);
    return false;
}

uint64_t resource_freshness_due(const struct resource_freshness *fresh)
{
    switch (fresh->at) {
    case FRESH_IDLE:
        return fresh->n_asked == 0    ? BELFRY_NEVER
               : begins_at(fresh) > 0 ? begins_at(fresh)
                                      : could_begin_ms(fresh) + RESOURCE_FRESH_MS;
    case FRESH_PROBING:
    case FRESH_LISTING:
        return fresh->is_sent ? fresh->moved_ms + RESOURCE_FRESH_MS : fresh->due_ms;
    case FRESH_WAITING:
        return fresh->moved_ms + fresh->wait_ms;
    case FRESH_COMPARING:
        return fresh->moved_ms + RESOURCE_FRESH_MS;
    }
    return BELFRY_NEVER;
}
