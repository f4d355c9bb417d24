/* tests/sim/kube/kube_judge.c */
#include "sim/kube/kube_judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kfollow/resource_kv.h"
#include "sim/cover.h"
#include "sim/trace.h"
#include "sim/verdict.h"

#define ON_WAY_MS 700 /* an answer of etcd may be this old when it is used: 200 ms on its way, then a step of 400 */

void kube_judge_attach(struct kube_judge *judge, struct evlog *evlog, struct store *store)
{
    judge->evlog = evlog;
    judge->store = store;
    judge->past = 0;
    judge->at = 0;
    judge->mirror = (struct kube_state){0};
}

/* ---- the store ---- */

static bool read_row(struct belfry_bytes key, struct belfry_bytes raw, void *user)
{
    struct kube_state *state = user;
    struct belfry_wire_kv kv;
    unsigned number;
    if (belfry_scan_kv(raw, &kv) != BELFRY_OK || !kube_key_read(key, &number)) {
        verdict_fail("the store has a row that nobody wrote");
        return false;
    }
    struct kube_held *held = &state->held[number];
    if (!kube_object_read(kv.value, number, held) || held->rv != kv.mod_rev)
        verdict_fail("the store has an object that nobody wrote");
    if (kv.lease != resource_uid_mark(kube_uid_text(&held->uid)))
        verdict_fail("the store has the mark of another uid");
    return true;
}

/* False: it cannot be read now. */
static bool read_store(struct kube_judge *judge, struct kube_state *out, int64_t *at)
{
    struct store_read read = {.max_rows = SIZE_MAX, .max_bytes = SIZE_MAX};
    struct store_page page;
    *out = (struct kube_state){0};
    if (judge->store->api->range(judge->store, &read, read_row, out, &page) != BELFRY_OK)
        return false;
    *at = page.meta.revision;
    return true;
}

/* ---- the log ---- */

static const struct kube_change *next_of_key(const struct kube_past *past, unsigned key, int64_t rv)
{
    const struct kube_change *change = kube_past_after(past, rv), *end = past->changes + past->n;
    while (change != NULL && change < end && change->key != key)
        change++;
    return change == end ? NULL : change;
}

/* A past that the mirror may be of. An audit cannot see that an object was changed before our version if it was changed
 * or deleted again since, up to the audit's list: until then the mirror may have it as it was in an older past. */
static bool is_of(const struct kube_judge *judge, const struct kube_past *past)
{
    struct kube_state state;
    if (past->revision < judge->at)
        return false;
    kube_past_state(past, judge->at, &state);
    for (unsigned key = 0; key < KUBE_KEYS && judge->at < judge->audited; key++) {
        const struct kube_change *next = next_of_key(past, key, judge->at);
        if (next != NULL && next->rv <= judge->audited)
            state.held[key] = judge->mirror.held[key];
    }
    return kube_state_equal(&state, &judge->mirror);
}

/* The changes of one batch. */
struct shown {
    struct kube_change changes[KUBE_KEYS];
    unsigned n;
};

static bool is_next(const struct kube_judge *judge, const struct kube_past *past, const struct batch *batch,
                    const struct shown *shown)
{
    const struct kube_change *next = kube_past_after(past, judge->at), *end = past->changes + past->n;
    if (batch->kind == BATCH_ADVANCE)
        return past->revision >= batch->rev && (next == NULL || next->rv > batch->rev);
    for (unsigned i = 0; i < shown->n; i++, next = next + 1 < end ? next + 1 : NULL) {
        const struct kube_change *change = &shown->changes[i];
        if (next == NULL || next->rv != batch->rev || next->key != change->key || next->is_delete != change->is_delete)
            return false;
        if (!change->is_delete && (next->uid != change->uid || next->content != change->content))
            return false;
    }
    return true;
}

/* The end of a lease deletes many objects at one version. A watch may break between its events; then the rest cannot be
 * shown any more, and everybody has to list. */
static bool has_rest(const struct kube_past *past, int64_t rv, unsigned n)
{
    const struct kube_change *first = kube_past_after(past, rv - 1), *end = past->changes + past->n;
    return first != NULL && (size_t)(end - first) > n && first[n].rv == rv;
}

static void judge_changes(const struct batch *batch, struct shown *out)
{
    struct belfry_wire_event event;
    if (batch->n_events == 0 || batch->n_events > KUBE_KEYS) {
        verdict_fail("version %" PRId64 " has %zu changes", batch->rev, (size_t)batch->n_events);
        return;
    }
    for (; out->n < batch->n_events; out->n++) {
        struct kube_change *change = &out->changes[out->n];
        struct kube_held held = {0};
        if (belfry_scan_event(batch_bytes(batch, &batch->events[out->n], false), &event) != BELFRY_OK ||
            !kube_key_read(event.kv.key, &change->key)) {
            verdict_fail("version %" PRId64 " is no change of an object", batch->rev);
            return;
        }
        change->is_delete = event.is_delete;
        if (!event.is_delete && (!kube_object_read(event.kv.value, change->key, &held) || held.rv != batch->rev))
            verdict_fail("version %" PRId64 " shows an object that nobody wrote", batch->rev);
        change->uid = held.uid;
        change->content = held.content;
    }
}

static void judge_batch(struct kube_judge *judge, const struct batch *batch)
{
    struct shown shown = {0};
    bool found = false;
    if (batch->kind == BATCH_EVENTS)
        judge_changes(batch, &shown);
    bool was_partial = judge->partial_rv != 0, is_partial = false;
    for (unsigned i = 0; i < judge->history->n && (!found || is_partial); i++) {
        const struct kube_past *past = &judge->history->pasts[i];
        if (!is_of(judge, past) || !is_next(judge, past, batch, &shown))
            continue;
        found = true;
        is_partial = batch->kind == BATCH_EVENTS && has_rest(past, batch->rev, shown.n);
    }
    judge->partial_rv = is_partial ? batch->rev : 0;
    if (is_partial && judge->knows_leases && batch->rev != judge->servers->cut_rv)
        verdict_fail("of version %" PRId64 " not all deletions are shown at once", batch->rev);
    if (was_partial && judge->at >= judge->audited)
        verdict_fail("a version of which a part was shown is neither listed anew nor audited");
    TRACE("log", "%s %" PRId64 " key %u uid %" PRIu64 "%s, %u", batch->kind == BATCH_ADVANCE ? "advance" : "change",
          batch->rev, shown.changes[0].key, shown.changes[0].uid, shown.changes[0].is_delete ? " deleted" : "",
          shown.n);
    if (!found)
        verdict_fail("version %" PRId64 " after %" PRId64 " is of no past that had the state before it", batch->rev,
                     judge->at);
    judge->at = batch->rev;
    judge->may_rewrite = judge->may_rewrite || is_partial;
    COVER_BY(kube_together, shown.n > 1);
    COVER_BY(kube_torn, is_partial);
    for (unsigned i = 0; i < shown.n; i++) {
        const struct kube_change *change = &shown.changes[i];
        judge->mirror.held[change->key] =
            change->is_delete ? (struct kube_held){0} : (struct kube_held){change->uid, change->content, batch->rev};
    }
}

static void judge_told(struct kube_judge *judge, const struct evlog_cut *cut, const struct kube_state *state)
{
    uint32_t all = (UINT32_C(1) << judge->servers->n) - 1;
    if (cut->why == EVLOG_CUT_REWRITTEN) {
        COVER(kube_rewritten);
        if (!judge->may_rewrite)
            verdict_fail("all watchers are told 410, and the past was not rewritten");
        return;
    }
    COVER(kube_expired);
    if (judge->servers->lost != all && !judge->servers->is_balanced) /* behind one address nobody can ask them all */
        verdict_fail("listed anew, and a server has the history");
    if (judge->at >= cut->compact_rev)
        verdict_fail("watchers at %" PRId64 " are not told that etcd is behind them", judge->at);
    if (judge->at >= cut->rev && !kube_state_equal(state, &judge->mirror))
        verdict_fail("watchers at %" PRId64 " are not told of another state", judge->at);
}

/* Changes of a past that is gone may still come. */
static bool has_old_cache(const struct kube_judge *judge)
{
    for (unsigned i = 0; i < judge->servers->n; i++)
        if (judge->servers->servers[i].past != judge->history->n - 1)
            return true;
    for (unsigned i = 0; i < KUBE_CALLS; i++) { /* they may be on their way */
        const struct kube_call *call = &judge->servers->calls[i];
        if (call->kind == KUBE_WATCH && call->sent_ms <= judge->servers->restored_ms)
            return true;
    }
    return false;
}

static void judge_cut(struct kube_judge *judge, const struct evlog_cut *cut)
{
    struct kube_state state;
    int64_t at;
    TRACE("log", "cut %d at %" PRId64, (int)cut->why, cut->rev);
    if (!read_store(judge, &state, &at) || at != cut->rev)
        verdict_fail("the store is not at the version of the cut");
    bool is_warm = judge->past == 0 && cut->rev < judge->audited; /* what an audit did not see, the store has kept */
    if (judge->past != 0)
        judge_told(judge, cut, &state);
    if (judge->past != 0 || cut->rev != judge->partial_rv) /* otherwise the store has kept the part */
        judge->partial_rv = 0;
    judge->past = cut->past;
    if (!is_warm)
        judge->audited = 0;
    judge->at = cut->rev;
    judge->mirror = state;
    if (cut->why != EVLOG_CUT_START)
        judge->may_rewrite = !is_of(judge, kube_history_now(judge->history)) || has_old_cache(judge);
    judge->servers->lost = 0;
    if (cut->why != EVLOG_CUT_START && cut->rev > kube_history_now(judge->history)->revision &&
        judge->now_ms > judge->servers->restored_ms + ON_WAY_MS && judge->now_ms > judge->awake_ms + ON_WAY_MS)
        verdict_fail("listed at %" PRId64 " in a past that etcd does not have any more", cut->rev);
    bool found = judge->partial_rv != 0;
    for (unsigned i = 0; i < judge->history->n && !found; i++)
        found = is_of(judge, &judge->history->pasts[i]);
    if (!found)
        verdict_fail("the state at %" PRId64 " was never that of etcd", cut->rev);
}

static void judge_store(struct kube_judge *judge)
{
    struct kube_state state;
    int64_t at;
    if (read_store(judge, &state, &at) && at == judge->at && !kube_state_equal(&state, &judge->mirror))
        verdict_fail("the store at %" PRId64 " has another state than the log", at);
}

void kube_judge_look(struct kube_judge *judge, uint64_t now_ms)
{
    struct evlog_view view;
    judge->now_ms = now_ms;
    evlog_enter(judge->evlog, 0, &view);
    if (view.cut.past != judge->past && view.cut.past != 0)
        judge_cut(judge, &view.cut);
    for (uint64_t seq = evlog_find(&view, judge->at + 1); seq < view.next && !verdict_failed(); seq++) {
        judge_batch(judge, evlog_at(&view, seq));
        judge->servers->lost = 0;
    }
    evlog_leave(judge->evlog, 0);
    if (judge->past != 0)
        judge_store(judge);
}

void kube_judge_end(struct kube_judge *judge)
{
    const struct kube_past *past = kube_history_now(judge->history);
    struct kube_state state;
    kube_past_state(past, past->revision, &state);
    if (!kube_state_equal(&state, &judge->mirror))
        verdict_fail("at the end the state at %" PRId64 " is not etcd's at %" PRId64, judge->at, past->revision);
}
