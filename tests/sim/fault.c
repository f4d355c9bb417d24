/* tests/sim/fault.c */
#include "sim/fault.h"

#include <stdlib.h>

#include "sim/cover.h"
#include "sim/trace.h"

#define TIERS_MAX 8

/* What can go wrong, and how often, of all. */
#define FAULT_TABLE(X)                                                                                                 \
    X(break_links, 6)                                                                                                  \
    X(silence_links, 3)                                                                                                \
    X(stop_member, 4)                                                                                                  \
    X(cut_off_member, 4)                                                                                               \
    X(lose_quorum, 1)                                                                                                  \
    X(go_to_one_behind, 3)                                                                                             \
    X(compact_behind, 4)                                                                                               \
    X(compact_all, 4)                                                                                                  \
    X(restore, 3)                                                                                                      \
    X(kill_tier, 4)                                                                                                    \
    X(power_off_tier, 2)                                                                                               \
    X(restore_behind_tier, 2)                                                                                          \
    X(discard_tier, 1)                                                                                                 \
    X(oversleep, 5)                                                                                                    \
    X(pause_tier, 4)                                                                                                   \
    X(fail_disk, 5)                                                                                                    \
    X(damage_replica, 2)

struct fault {
    struct fault_opts opts;
    struct actor *actor;
    bool stopped;
    uint64_t period_ms, next_ms;
    uint64_t switched_off; /* a set of kinds that this run does without */
    /* what is to be mended, and when; BELFRY_NEVER: nothing */
    uint64_t member_ms[ETCD_MEMBERS_MAX], joined_ms[ETCD_MEMBERS_MAX], tier_ms[TIERS_MAX];
    uint64_t break_ms; /* when every tier's links break */
};

static struct tier *any_tier(struct fault *fault, size_t *at)
{
    *at = sched_below(fault->opts.sched, fault->opts.n_tiers);
    struct tier *tier = fault->opts.tiers[*at];
    return tier_up(tier) ? tier : NULL;
}

/* Some time from now: as often short as long, on a scale of powers of two. */
static uint64_t soon(struct fault *fault, uint64_t most_ms)
{
    uint64_t most = most_ms >> sched_below(fault->opts.sched, 7);
    return sched_now(fault->opts.sched) + sched_below(fault->opts.sched, most + 1);
}

static int64_t head(const struct fault *fault)
{
    const struct history *history = etcd_history(fault->opts.etcd);
    return history_head(history, history_now(history));
}

/* ---- the network ---- */

static void break_links(struct fault *fault)
{
    size_t at;
    struct tier *tier = any_tier(fault, &at);
    if (tier == NULL)
        return;
    TRACE("fault", "links of %s break", tier_name(tier));
    tier_break_links(tier);
}

static void silence_links(struct fault *fault)
{
    size_t at;
    struct tier *tier = any_tier(fault, &at);
    if (tier == NULL)
        return;
    TRACE("fault", "links of %s fall silent", tier_name(tier));
    tier_silence_links(tier, soon(fault, 12000));
}

/* ---- the cluster ---- */

static void stop_member(struct fault *fault)
{
    unsigned member = (unsigned)sched_below(fault->opts.sched, etcd_members(fault->opts.etcd));
    if (!etcd_member_is_up(fault->opts.etcd, member))
        return;
    TRACE("fault", "member %u stops at %lld", member, (long long)etcd_member_revision(fault->opts.etcd, member));
    etcd_member_stop(fault->opts.etcd, member);
    fault->member_ms[member] = soon(fault, 2000);
}

static void cut_off(struct fault *fault, unsigned member, uint64_t most_ms)
{
    if (etcd_member_is_cut_off(fault->opts.etcd, member))
        return;
    TRACE("fault", "member %u is cut off at %lld", member, (long long)etcd_member_revision(fault->opts.etcd, member));
    etcd_member_cut_off(fault->opts.etcd, member, true);
    fault->joined_ms[member] = soon(fault, most_ms);
}

static void cut_off_member(struct fault *fault)
{
    cut_off(fault, (unsigned)sched_below(fault->opts.sched, etcd_members(fault->opts.etcd)), 4000);
}

static void lose_quorum(struct fault *fault)
{
    for (unsigned i = 0; i < etcd_members(fault->opts.etcd); i++)
        cut_off(fault, i, 8000);
}

/* A member misses some, and before it is back everybody has to go elsewhere: some to that one. */
static void go_to_one_behind(struct fault *fault)
{
    unsigned member = (unsigned)sched_below(fault->opts.sched, etcd_members(fault->opts.etcd));
    cut_off(fault, member, 4000);
    for (uint64_t n = 1 + sched_below(fault->opts.sched, 20); n > 0; n--)
        etcd_write(fault->opts.etcd);
    fault->break_ms = soon(fault, 1000);
    if (fault->joined_ms[member] < fault->break_ms)
        fault->joined_ms[member] = fault->break_ms + sched_below(fault->opts.sched, 500);
}

static void compact_at(struct fault *fault, int64_t rev)
{
    if (rev > 1 && etcd_compact(fault->opts.etcd, rev))
        TRACE("fault", "compaction at %lld", (long long)rev);
}

static void compact_behind(struct fault *fault)
{
    compact_at(fault, head(fault) - 20 - (int64_t)sched_below(fault->opts.sched, 60));
}

static void compact_all(struct fault *fault)
{
    compact_at(fault, head(fault) - (int64_t)sched_below(fault->opts.sched, 12));
}

static void restore(struct fault *fault)
{
    const struct history *history = etcd_history(fault->opts.etcd);
    int64_t back = (int64_t)sched_below(fault->opts.sched, sched_one_in(fault->opts.sched, 2) ? 6 : 40);
    if (history_pasts(history) >= HISTORY_PASTS_MAX || head(fault) < 10)
        return;
    int64_t rev = head(fault) > back + 2 ? head(fault) - back : 2;
    TRACE("fault", "the cluster (at %lld) is restored from a snapshot at %lld", (long long)head(fault), (long long)rev);
    etcd_restore(fault->opts.etcd, rev);
    /* as often as not it is soon past where it was, and nothing but the content tells */
    for (int64_t n = sched_one_in(fault->opts.sched, 2) ? back + 3 : 0; n > 0; n--)
        etcd_write(fault->opts.etcd);
    for (unsigned i = 0; i < ETCD_MEMBERS_MAX; i++)
        fault->member_ms[i] = fault->joined_ms[i] = BELFRY_NEVER;
}

/* ---- tiers ---- */

static void stop_tier(struct fault *fault, enum tier_stop how)
{
    size_t at;
    struct tier *tier = any_tier(fault, &at);
    if (tier == NULL)
        return;
    if (!tier_ready(tier) && !sched_one_in(fault->opts.sched, 4))
        return; /* mostly those who have something to lose */
    TRACE("fault", "%s is stopped", tier_name(tier));
    tier_stop(tier, how);
    fault->tier_ms[at] = soon(fault, 1500);
}

static void kill_tier(struct fault *fault)
{
    stop_tier(fault, TIER_STOP_KILL);
}

/* It comes back to another past than it left. */
static void restore_behind_tier(struct fault *fault)
{
    stop_tier(fault, TIER_STOP_KILL);
    restore(fault);
}

static void power_off_tier(struct fault *fault)
{
    COVER(start_lost);
    stop_tier(fault, TIER_STOP_POWER);
}

static void discard_tier(struct fault *fault)
{
    stop_tier(fault, TIER_STOP_DISCARD);
}

static void oversleep(struct fault *fault)
{
    size_t at;
    struct tier *tier = any_tier(fault, &at);
    if (tier == NULL)
        return;
    TRACE("fault", "a worker of %s oversleeps", tier_name(tier));
    tier_freeze_worker(tier, soon(fault, 5000));
}

static void pause_tier(struct fault *fault)
{
    size_t at;
    struct tier *tier = any_tier(fault, &at);
    if (tier == NULL)
        return;
    TRACE("fault", "%s is stopped by a signal", tier_name(tier));
    tier_freeze(tier, sched_now(fault->opts.sched) + sched_below(fault->opts.sched, 15000));
}

static void fail_disk(struct fault *fault)
{
    size_t at;
    struct tier *tier = any_tier(fault, &at);
    if (tier == NULL)
        return;
    unsigned n = 1 + (unsigned)sched_below(fault->opts.sched, 60);
    TRACE("fault", "%s: the next %u writes fail", tier_name(tier), n);
    tier_fail_disk(tier, n);
}

static void damage_replica(struct fault *fault)
{
    size_t at;
    struct tier *tier = any_tier(fault, &at);
    if (tier == NULL)
        return;
    TRACE("fault", "%s: its replica is damaged", tier_name(tier));
    tier_damage_replica(tier);
}

/* ---- */

static void mend(struct fault *fault, uint64_t now)
{
    for (unsigned i = 0; i < etcd_members(fault->opts.etcd); i++) {
        if (fault->member_ms[i] <= now && !etcd_member_is_up(fault->opts.etcd, i)) {
            TRACE("fault", "member %u starts", i);
            etcd_member_start(fault->opts.etcd, i);
        }
        if (fault->joined_ms[i] <= now && etcd_member_is_cut_off(fault->opts.etcd, i)) {
            TRACE("fault", "member %u is back", i);
            etcd_member_cut_off(fault->opts.etcd, i, false);
        }
        if (fault->member_ms[i] <= now)
            fault->member_ms[i] = BELFRY_NEVER;
        if (fault->joined_ms[i] <= now)
            fault->joined_ms[i] = BELFRY_NEVER;
    }
    for (size_t i = 0; i < fault->opts.n_tiers && fault->break_ms <= now; i++) {
        TRACE("fault", "links of %s break", tier_name(fault->opts.tiers[i]));
        if (tier_up(fault->opts.tiers[i]))
            tier_break_links(fault->opts.tiers[i]);
    }
    if (fault->break_ms <= now)
        fault->break_ms = BELFRY_NEVER;
    for (size_t i = 0; i < fault->opts.n_tiers; i++) {
        if (fault->tier_ms[i] > now)
            continue;
        fault->tier_ms[i] = BELFRY_NEVER;
        if (!tier_up(fault->opts.tiers[i]))
            tier_start(fault->opts.tiers[i]);
    }
}

static void strike(struct fault *fault)
{
    static const struct {
        void (*fn)(struct fault *fault);
        uint64_t weight;
        enum cover path;
    } kinds[] = {
#define FAULT_KIND(name, weight) {name, weight, COVER_fault_##name},
        FAULT_TABLE(FAULT_KIND)};
    uint64_t total = 0, n = sizeof(kinds) / sizeof(kinds[0]), weights[sizeof(kinds) / sizeof(kinds[0])];
    for (uint64_t i = 0; i < n; i++) {
        weights[i] = kinds[i].weight + (kinds[i].fn == restore ? fault->opts.restores : 0);
        total += weights[i];
    }
    uint64_t at = sched_below(fault->opts.sched, total), i = 0;
    while (at >= weights[i])
        at -= weights[i++];
    if ((fault->switched_off >> i & 1) != 0)
        return;
    cover_counts[kinds[i].path]++;
    kinds[i].fn(fault);
}

static uint64_t fault_step(void *arg)
{
    struct fault *fault = arg;
    uint64_t now = sched_now(fault->opts.sched);
    mend(fault, now);
    if (!fault->stopped && now >= fault->next_ms) {
        strike(fault);
        fault->next_ms = now + sched_below(fault->opts.sched, fault->period_ms * 2);
    }
    gate_wake(fault->opts.gate);
    uint64_t due = fault->stopped ? BELFRY_NEVER : belfry_min_time(fault->next_ms, fault->break_ms);
    for (unsigned i = 0; i < ETCD_MEMBERS_MAX; i++)
        due = belfry_min_time(due, belfry_min_time(fault->member_ms[i], fault->joined_ms[i]));
    for (size_t i = 0; i < fault->opts.n_tiers; i++)
        due = belfry_min_time(due, fault->tier_ms[i]);
    return due;
}

struct fault *fault_create(const struct fault_opts *opts)
{
    static const uint64_t periods[] = {30, 80, 200, 600};
    struct fault *fault = calloc(1, sizeof(*fault));
    if (fault == NULL)
        abort();
    fault->opts = *opts;
    fault->period_ms = periods[sched_below(opts->sched, 4)] * sched_tempo(opts->sched) * opts->spacing;
    fault->next_ms = sched_now(opts->sched) + sched_below(opts->sched, fault->period_ms * 2);
    fault->switched_off = sched_below(opts->sched, 1 << 17) & sched_below(opts->sched, 1 << 17);
    fault->break_ms = BELFRY_NEVER;
    for (unsigned i = 0; i < ETCD_MEMBERS_MAX; i++)
        fault->member_ms[i] = fault->joined_ms[i] = BELFRY_NEVER;
    for (size_t i = 0; i < TIERS_MAX; i++)
        fault->tier_ms[i] = BELFRY_NEVER;
    fault->actor = sched_add(opts->sched, ACTOR_PLAIN, fault_step, fault);
    return fault;
}

void fault_destroy(struct fault *fault)
{
    if (fault == NULL)
        return;
    sched_remove(fault->opts.sched, fault->actor);
    free(fault);
}

void fault_stop(struct fault *fault)
{
    uint64_t now = sched_now(fault->opts.sched);
    fault->stopped = true;
    fault->break_ms = BELFRY_NEVER;
    for (unsigned i = 0; i < etcd_members(fault->opts.etcd); i++)
        fault->member_ms[i] = fault->joined_ms[i] = now;
    for (size_t i = 0; i < fault->opts.n_tiers; i++)
        fault->tier_ms[i] = now;
    for (size_t i = 0; i < fault->opts.n_tiers; i++)
        tier_fail_disk(fault->opts.tiers[i], 0);
    mend(fault, now);
    sched_thaw_all(fault->opts.sched);
    gate_wake(fault->opts.gate);
}
