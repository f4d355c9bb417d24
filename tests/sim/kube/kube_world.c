/* tests/sim/kube/kube_world.c */
#include "sim/kube/kube_world.h"

#include <stdlib.h>
#include <string.h>

#include "follow/ingest.h"
#include "sim/cover.h"
#include "sim/kube/kube_judge.h"
#include "sim/kube/kube_questions.h"
#include "sim/pairs.h"
#include "sim/verdict.h"
#include "support/modelstore.h"

#define WATCH_S   6
#define DRAIN_MS  120000 /* the longest waits of the machine, and some */
#define DRAIN_MIN 15000
#define LAG_MS    14000 /* after 15 s it may be taken for another past */
#define FRESH_MS  20000 /* within this, it must be shown that it has what etcd has */
#define LEFT_MS   12000 /* after the server has asked its clients to leave a connection */
#define READY_MS  2000  /* it must be ready for this long: a 410 may be on its way */

struct kube_world {
    struct belfry_rng rng;
    uint64_t now_ms, steps;
    struct kube_history history;
    struct kube_servers servers;
    struct kube_judge judge;
    struct kube_questions questions;
    struct store *store;
    /* of the follower's process */
    struct evlog *evlog;
    struct ingest *ingest;
    struct resource_follow *follow;
    struct resource_pulse pulse;
    struct resource_stats counted; /* for covers */
    bool was_stale;
    uint64_t paused_ms; /* the process does not run before */
    uint64_t quiet_ms;  /* the resource does not change before */
    bool has_others;    /* the process follows other resources, too */
    bool has_leases;    /* objects end with leases ... */
    bool is_unaware;    /* ... and the follower is not told that they may */
    uint64_t listings;  /* that the follower had adopted at the last step */
    bool is_beside;     /* list_beside() */
    int64_t listed;     /* the version of the last list that came from a cache */
};

static uint64_t below(struct kube_world *w, uint64_t n)
{
    return belfry_rng_below(&w->rng, n);
}

static bool one_in(struct kube_world *w, uint64_t n)
{
    return below(w, n) == 0;
}

static void must(enum belfry_err err)
{
    if (err != BELFRY_OK)
        abort();
}

/* ---- the follower's process ---- */

static void follower_start(struct kube_world *w)
{
    bool warm;
    struct evlog_opts log = {.capacity_log2 = 10, .max_bytes = 1 << 20, .n_workers = 1};
    must(evlog_create(&log, &w->evlog));
    struct ingest_opts ingest = {.store = w->store, .evlog = w->evlog, .trim_rows = 100};
    must(ingest_create(&ingest, &w->ingest));
    must(ingest_open(w->ingest, &warm));
    struct resource_follow_opts opts = {.ingest = w->ingest,
                                        .store = w->store,
                                        .warm = warm,
                                        .n_servers = kube_servers_seen(&w->servers),
                                        .watch_s = WATCH_S,
                                        .has_leases = w->has_leases && !w->is_unaware,
                                        .seed = belfry_rng_next(&w->rng),
                                        .hash_key = {1, 2},
                                        .pulse = &w->pulse};
    w->pulse = (struct resource_pulse){0};
    must(resource_follow_create(&opts, w->now_ms, &w->follow));
    w->counted = (struct resource_stats){0};
    w->servers.delivered_ms = w->now_ms;
    kube_judge_attach(&w->judge, w->evlog, w->store);
    kube_judge_look(&w->judge, w->now_ms);
}

static void follower_stop(struct kube_world *w)
{
    kube_servers_forget(&w->servers);
    kube_questions_forget(&w->questions);
    resource_follow_destroy(w->follow);
    ingest_destroy(w->ingest);
    evlog_destroy(w->evlog);
}

static void follower_act(struct kube_world *w)
{
    struct resource_action action;
    w->servers.head = ingest_head(w->ingest);
    while (resource_next(w->follow, w->now_ms, &action)) {
        kube_servers_do(&w->servers, &action, w->now_ms);
        if (action.want != RESOURCE_WANT_ANSWER)
            continue;
        kube_judge_look(&w->judge, w->now_ms);
        kube_questions_answer(&w->questions, &w->judge, action.id, action.rv, w->now_ms);
    }
    kube_judge_look(&w->judge, w->now_ms);
}

static struct resource_object object_of(const struct kube_change *change, struct kube_text *text)
{
    struct kube_held held = {change->uid, change->content, change->rv};
    kube_object_write(change->key, &held, text);
    return (struct resource_object){.key = kube_key_text(change->key),
                                    .uid = kube_uid_text(&change->uid),
                                    .json = {(const char *)text, sizeof(*text)},
                                    .rv = change->rv};
}

static bool give(struct kube_world *w, uint64_t id, const struct kube_message *message)
{
    struct kube_text text;
    struct resource_object object = object_of(&message->change, &text);
    switch (message->kind) {
    case KUBE_OPENED:
        resource_on_opened(w->follow, id, message->link, w->now_ms);
        break;
    case KUBE_EVENT:
        return resource_on_event(w->follow, id,
                                 message->change.is_delete   ? RESOURCE_DELETED
                                 : message->change.is_create ? RESOURCE_ADDED
                                                             : RESOURCE_MODIFIED,
                                 &object, w->now_ms);
    case KUBE_BOOKMARK:
        return resource_on_bookmark(w->follow, id, message->rv, w->now_ms);
    case KUBE_INITIAL_END:
        resource_on_initial_end(w->follow, id, message->rv, w->now_ms);
        break;
    case KUBE_ITEM:
        resource_on_item(w->follow, id, &object, message->link, w->now_ms);
        break;
    case KUBE_LISTED:
        resource_on_listed(w->follow, id, message->rv, message->link, w->now_ms);
        break;
    case KUBE_END:
        resource_on_end(w->follow, id, message->end, w->now_ms);
        break;
    }
    return true;
}

/* An audit has passed: the last list that was not of etcd itself was its list. */
static void note_audit(struct kube_world *w)
{
    struct resource_stats stats;
    resource_stats(w->follow, &stats);
    if (stats.audits != w->counted.audits && w->listed > w->judge.audited)
        w->judge.audited = w->listed;
}

/* Only what comes on its connection; over HTTP/1.1, where nothing else can come there, on any to its address. */
static bool is_life_of(const struct kube_world *w, const struct kube_call *watch, uint64_t link, unsigned server)
{
    bool is_same_address = w->servers.is_balanced || server == watch->server;
    return link == watch->link || (w->servers.is_http1 && is_same_address);
}

static bool shows_life(const struct kube_world *w, const struct kube_call *call, const struct kube_message *message)
{
    if (message->kind == KUBE_END && message->end != RESOURCE_EXPIRED)
        return false;
    for (unsigned i = 0; i < KUBE_CALLS; i++) {
        const struct kube_call *watch = &w->servers.calls[i];
        if (watch->kind == KUBE_WATCH && watch->opened_ms != 0)
            return is_life_of(w, watch, call->link, call->server);
    }
    return true;
}

static void deliver_one(struct kube_world *w, struct kube_call *call)
{
    struct kube_message message = call->messages[call->first];
    uint64_t id = call->id;
    bool is_behind = call->kind == KUBE_PROBE && message.kind == KUBE_LISTED && message.rv < call->head &&
                     resource_state(w->follow) != RESOURCE_LISTING;
    TRACE("kube", "%llu: message %d, change %lld of key %u, version %lld", (unsigned long long)id, (int)message.kind,
          (long long)message.change.rv, message.change.key, (long long)message.rv);
    call->is_held = true; /* unless it is taken */
    if (call->kind == KUBE_WATCH)
        kube_servers_pace(&w->servers, call, w->now_ms);
    if (shows_life(w, call, &message)) {
        w->servers.delivered_ms = w->now_ms;
        w->servers.asked_ms = 0;
    }
    if (message.kind == KUBE_LISTED && call->kind == KUBE_LIST && call->at != RESOURCE_CONSISTENT)
        w->listed = message.rv;
    bool taken = give(w, id, &message);
    note_audit(w);
    if (is_behind && resource_state(w->follow) != RESOURCE_LISTING)
        verdict_fail("a probe at %lld, behind us, does not matter", (long long)message.rv);
    if (taken) {
        call->is_held = false;
        kube_call_took(call);
    }
    follower_act(w);
}

/* The next message is an event of that version. */
static bool has_more_of(const struct kube_call *call, int64_t rv)
{
    const struct kube_message *next = &call->messages[call->first];
    return call->kind == KUBE_WATCH && !call->is_held && call->first < call->n && next->kind == KUBE_EVENT &&
           next->change.rv == rv;
}

/* What one version has deleted comes together, mostly. */
static void deliver(struct kube_world *w, struct kube_call *call)
{
    struct kube_message message = call->messages[call->first];
    uint64_t id = call->id;
    bool ends_watch = message.kind == KUBE_END && call->kind == KUBE_WATCH;
    do
        deliver_one(w, call);
    while (message.kind == KUBE_EVENT && call->id == id && has_more_of(call, message.change.rv) && !one_in(w, 4) &&
           !verdict_failed());
    if (ends_watch)
        w->servers.cut_rv = 0;
}

static void count_paths(struct kube_world *w)
{
    struct resource_stats stats;
    resource_stats(w->follow, &stats);
    COVER_BY(kube_listing, stats.listings - w->counted.listings);
    COVER_BY(kube_stream, stats.streams - w->counted.streams);
    COVER_BY(kube_overlap, stats.overlaps - w->counted.overlaps);
    COVER_BY(kube_audit, stats.audits - w->counted.audits);
    COVER_BY(kube_cache_gone, stats.gone - w->counted.gone);
    COVER_BY(kube_debt, stats.debts - w->counted.debts);
    COVER_BY(kube_judged, stats.judgements - w->counted.judgements);
    COVER_BY(kube_older, stats.older - w->counted.older);
    COVER_BY(kube_link, stats.links - w->counted.links);
    COVER_BY(kube_probe, stats.probes - w->counted.probes);
    COVER_BY(kube_move, stats.moves - w->counted.moves);
    COVER_BY(kube_fresh_list, stats.fresh_lists - w->counted.fresh_lists);
    bool stale = resource_stale(w->follow);
    COVER_BY(kube_stale, stale && !w->was_stale);
    w->was_stale = stale;
    w->counted = stats;
}

static void judge_stale(struct kube_world *w)
{
    uint64_t silence = w->now_ms > w->servers.delivered_ms ? w->now_ms - w->servers.delivered_ms : 0;
    if (silence > RESOURCE_STALE_MS + 2 * RESOURCE_TICK_MS && !resource_stale(w->follow))
        verdict_fail("not stale after %llu ms of silence", (unsigned long long)silence);
}

/* Another follower of the process has the answer of a server. It shows life to a follower that is live, stale or not,
 * but not beyond a probe of its own that has no answer. */
static void pulse_step(struct kube_world *w)
{
    const struct kube_link *link = &w->servers.links[below(w, KUBE_LINKS)];
    const struct kube_server *server = &w->servers.servers[link->server];
    if (!w->has_others || !one_in(w, 40) || link->number == 0 || !server->is_up || w->now_ms < server->stopped_ms)
        return;
    struct resource_beat *beat = resource_beat(&w->pulse, w->servers.is_balanced ? 0 : link->server, link->number);
    beat->sent_ms = beat->heard_ms = w->now_ms;
    uint64_t life_ms = w->servers.asked_ms != 0 ? w->servers.asked_ms : w->now_ms;
    for (unsigned i = 0; i < KUBE_CALLS && resource_state(w->follow) == RESOURCE_LIVE; i++) {
        const struct kube_call *watch = &w->servers.calls[i];
        bool is_life =
            watch->kind == KUBE_WATCH && watch->opened_ms != 0 && is_life_of(w, watch, link->number, link->server);
        if (is_life && life_ms > w->servers.delivered_ms)
            w->servers.delivered_ms = life_ms;
    }
    COVER(kube_pulse);
}

static void follower_step(struct kube_world *w)
{
    if (w->now_ms < w->paused_ms)
        return;
    pulse_step(w);
    bool is_late = one_in(w, 8) && w->now_ms >= resource_due(w->follow); /* time is looked at before the sockets are */
    if (is_late) {
        resource_tick(w->follow, w->now_ms);
        follower_act(w);
    }
    for (unsigned i = 0; i < (is_late ? 200 : 20) && !verdict_failed(); i++) {
        struct kube_call *call = kube_servers_due(&w->servers, w->now_ms);
        if (call == NULL)
            break;
        deliver(w, call);
    }
    if (one_in(w, 3))
        resource_drained(w->follow, w->now_ms);
    if (one_in(w, 12))
        kube_questions_ask(&w->questions, w->follow, &w->history, w->now_ms);
    if (w->now_ms >= resource_due(w->follow)) {
        resource_tick(w->follow, w->now_ms);
        judge_stale(w);
    }
    follower_act(w);
    count_paths(w);
}

/* ---- faults ---- */

static void restore(struct kube_world *w)
{
    const struct kube_past *now = kube_history_now(&w->history);
    int64_t lost = (int64_t)below(w, 25);
    if (w->history.n == KUBE_PASTS || now->revision - lost < 10)
        return;
    kube_history_restore(&w->history, now->revision - lost);
    w->judge.may_rewrite = true;
    kube_servers_restored(&w->servers, w->now_ms);
    COVER(kube_restored);
    if (one_in(w, 2)) /* the new past soon has the versions of the old one */
        for (uint64_t i = below(w, 40); i > 0; i--)
            kube_history_write(&w->history, &w->rng);
}

/* The servers begin in the new past; then other resources move its revision past the versions of the old one. */
static void pass_while_quiet(struct kube_world *w)
{
    for (uint64_t until_ms = w->now_ms + 8000; w->now_ms < until_ms; w->now_ms += 50)
        kube_servers_step(&w->servers, w->now_ms);
    kube_history_pass(&w->history, below(w, 60));
    w->quiet_ms = w->now_ms + below(w, 60000);
}

/* Its own silence is nobody's. */
static void follower_sleeps(struct kube_world *w, uint64_t until_ms)
{
    if (until_ms > w->judge.awake_ms)
        w->judge.awake_ms = until_ms;
    if (w->judge.awake_ms > w->servers.delivered_ms)
        w->servers.delivered_ms = w->judge.awake_ms;
    if (w->servers.asked_ms != 0 && w->judge.awake_ms > w->servers.asked_ms)
        w->servers.asked_ms = w->judge.awake_ms;
}

static void kill_follower(struct kube_world *w)
{
    if (w->now_ms < w->paused_ms)
        return;
    COVER(kube_follower_killed);
    follower_stop(w);
    if (one_in(w, 4))
        modelstore_lose_page_cache(w->store);
    else
        modelstore_crash(w->store);
    w->now_ms += below(w, 3000);
    if (one_in(w, 3)) {
        restore(w);
        pass_while_quiet(w);
    }
    if (w->now_ms >= w->quiet_ms)
        for (uint64_t i = below(w, 10); i > 0; i--)
            kube_history_write(&w->history, &w->rng);
    follower_start(w);
    follower_act(w);
}

static void fault(struct kube_world *w)
{
    unsigned number = (unsigned)below(w, w->servers.n);
    struct kube_server *server = &w->servers.servers[number];
    switch (below(w, 12)) {
    case 11:
        kube_servers_leave_links(&w->servers, number);
        break;
    case 10:
        server->flaps_ms = w->now_ms + below(w, 8000);
        break;
    case 0:
        kube_servers_break_link(&w->servers, number, w->now_ms);
        break;
    case 1:
        kube_servers_restart(&w->servers, number, below(w, 3000), w->now_ms);
        COVER(kube_server_restarted);
        break;
    case 2:
        if (one_in(w, 2)) /* the others go on to answer */
            server = &w->servers.servers[kube_servers_watched(&w->servers, resource_server(w->follow))];
        server->stopped_ms = w->now_ms + below(w, one_in(w, 3) ? 20000 : 2000);
        COVER(kube_server_stopped);
        break;
    case 3:
        server->lag_ms = w->now_ms + below(w, 6000);
        COVER(kube_cache_lags);
        break;
    case 4:
        for (uint64_t i = 2 * KUBE_WINDOW; i > 0; i--) /* more than a cache keeps */
            kube_history_write(&w->history, &w->rng);
        COVER(kube_burst);
        break;
    case 5:
        restore(w);
        if (one_in(w, 3)) { /* the follower sleeps through it */
            pass_while_quiet(w);
            follower_sleeps(w, w->now_ms);
        }
        break;
    case 6:
        if (one_in(w, 2))
            kill_follower(w);
        break;
    case 7:
        w->paused_ms = w->now_ms + below(w, one_in(w, 2) ? 500 : 12000);
        follower_sleeps(w, w->paused_ms);
        break;
    case 8:
        modelstore_fail(w->store, (unsigned)below(w, 4));
        break;
    case 9:
        if (one_in(w, 6)) {
            modelstore_damage(w->store);
            w->judge.may_rewrite = true;
            COVER(kube_store_damaged);
        }
        break;
    }
}

/* ---- a run ---- */

static void world_move(struct kube_world *w)
{
    w->now_ms += 1 + below(w, one_in(w, 20) ? 400 : 30);
    kube_servers_step(&w->servers, w->now_ms);
    follower_step(w);
    pairs_look(w->steps++);
}

static void world_write(struct kube_world *w)
{
    uint64_t quiet = w->now_ms / 10000 % 3; /* every third stretch of 10 s is quiet */
    if (quiet != 0 && w->now_ms >= w->quiet_ms && one_in(w, quiet == 1 ? 4 : 40))
        kube_history_write(&w->history, &w->rng);
    if (w->has_leases && quiet != 0 && w->now_ms >= w->quiet_ms && one_in(w, 100))
        kube_history_end_lease(&w->history, &w->rng);
    if (one_in(w, 6))
        kube_history_pass(&w->history, 1 + below(w, 3));
}

/* To a version between the last change that the follower has and its head. Then the new past has the same changes up to
 * there, and not what came up to the head: nothing for a watch to show but what is missing. False: there is none. */
static bool restore_behind_changes(struct kube_world *w)
{
    const struct kube_past *now = kube_history_now(&w->history);
    int64_t last = 0, head = w->judge.at;
    for (unsigned key = 0; key < KUBE_KEYS; key++)
        if (w->judge.mirror.held[key].rv > last)
            last = w->judge.mirror.held[key].rv;
    if (w->history.n == KUBE_PASTS || last == 0 || last >= head || now->revision < head)
        return false;
    kube_history_restore(&w->history, last + (int64_t)below(w, (uint64_t)(head - last)));
    w->judge.may_rewrite = true;
    kube_servers_restored(&w->servers, w->now_ms);
    COVER(kube_restored_behind_changes);
    return true;
}

/* In the middle of a list or an audit: its server is in the new past at once, and that past soon has our versions;
 * perhaps it is at our very version, without one of our objects. */
static void restore_under_list(struct kube_world *w)
{
    enum resource_state state = resource_state(w->follow);
    if ((state != RESOURCE_LISTING && state != RESOURCE_AUDITING) || !one_in(w, 100))
        return;
    if (one_in(w, 2) && restore_behind_changes(w)) {
        if (kube_history_delete(&w->history, &w->rng))
            kube_history_pass(&w->history, (uint64_t)(w->judge.at - kube_history_now(&w->history)->revision));
        for (unsigned i = 0; i < w->servers.n; i++)
            kube_servers_restart(&w->servers, i, below(w, 20), w->now_ms);
        return;
    }
    restore(w);
    kube_history_pass(&w->history, below(w, 40));
    kube_servers_restart(&w->servers, kube_servers_watched(&w->servers, resource_server(w->follow)), below(w, 20),
                         w->now_ms);
}

static void restart_all(struct kube_world *w, uint64_t pass)
{
    for (unsigned i = 0; i < w->servers.n; i++) {
        kube_history_pass(&w->history, below(w, pass));
        kube_servers_restart(&w->servers, i, 0, w->now_ms);
        kube_servers_step(&w->servers, w->now_ms += 1 + below(w, 20));
    }
}

/* The caches lag, perhaps in another past. */
static void lag_apart(struct kube_world *w)
{
    if (one_in(w, 2) && w->history.n < KUBE_PASTS) {
        kube_history_restore(&w->history, kube_history_now(&w->history)->revision - (int64_t)below(w, 10));
        w->judge.may_rewrite = true;
        kube_servers_restored(&w->servers, w->now_ms);
        restart_all(w, 1);
    }
    for (unsigned i = 0; i < w->servers.n; i++)
        w->servers.servers[i].lag_ms = w->now_ms + below(w, LAG_MS);
    for (uint64_t i = below(w, 4); i > 0; i--)
        kube_history_write(&w->history, &w->rng);
}

/* Each server begins at another version, and the resource is quiet: without progress their caches stay apart. Then the
 * follower loses the server that it has chosen, and nothing else happens for a while. */
static void run_apart(struct kube_world *w)
{
    restart_all(w, 8);
    COVER(kube_caches_apart);
    uint64_t lost_ms = w->now_ms + below(w, 8000), end_ms = lost_ms + below(w, 40000);
    while (w->now_ms < lost_ms && !verdict_failed())
        world_move(w);
    unsigned server = kube_servers_watched(&w->servers, resource_server(w->follow));
    w->servers.servers[server].stopped_ms = end_ms;
    kube_servers_break_link(&w->servers, server, w->now_ms);
    if (one_in(w, 2))
        lag_apart(w);
    while (w->now_ms < end_ms && !verdict_failed())
        world_move(w);
}

/* A list comes from a server that is already in the new past, which has nothing of its own but deletions; then the
 * follower has to ask another server, which is still in the old one and has none of them. */
static void list_beside(struct kube_world *w)
{
    struct resource_stats stats;
    resource_stats(w->follow, &stats);
    bool is_listed = stats.listings != w->listings;
    w->listings = stats.listings;
    if (is_listed && w->is_beside) {
        w->is_beside = false;
        kube_servers_restart(&w->servers, kube_servers_watched(&w->servers, resource_server(w->follow)), 3000,
                             w->now_ms);
    }
    int64_t revision = kube_history_now(&w->history)->revision;
    if (resource_state(w->follow) != RESOURCE_LISTING || w->is_beside || w->history.n == KUBE_PASTS || !one_in(w, 60) ||
        revision < 30)
        return;
    w->is_beside = true;
    kube_history_restore(&w->history, revision - 1 - (int64_t)below(w, 8));
    w->judge.may_rewrite = true;
    kube_servers_restored(&w->servers, w->now_ms);
    while (kube_history_delete(&w->history, &w->rng) && one_in(w, 2)) {
    }
    kube_servers_restart(&w->servers, kube_servers_watched(&w->servers, resource_server(w->follow)), 0, w->now_ms);
    COVER(kube_listed_beside);
}

static void run_faults(struct kube_world *w, const struct world_opts *opts)
{
    uint64_t rarely = 40 + below(w, 200);
    unsigned turn = 0;
    while (w->steps < opts->steps && !verdict_failed()) {
        if (turn < opts->recipe.n_turns && w->steps >= opts->recipe.turns[turn].step)
            w->rng.state = opts->recipe.turns[turn++].seed;
        world_write(w);
        if (one_in(w, rarely))
            fault(w);
        if (one_in(w, 3000))
            run_apart(w);
        restore_under_list(w);
        list_beside(w);
        world_move(w);
    }
}

/* The resource does not change any more, but others do. Its watch may reach its end, and then it may have to list. */
static void drain_proves(struct kube_world *w)
{
    uint64_t proven = w->questions.proven, limit_ms = w->servers.is_slow ? 2 * FRESH_MS : FRESH_MS;
    uint64_t ready_ms = w->now_ms, end_ms = w->now_ms + DRAIN_MS;
    kube_history_pass(&w->history, 1);
    while (w->questions.proven < proven + 2 && !verdict_failed()) {
        world_move(w);
        if (!resource_ready(w->follow))
            ready_ms = w->now_ms;
        if (w->now_ms >= ready_ms + limit_ms || w->now_ms >= end_ms)
            verdict_fail("not shown to be fresh %d s after it was ready", (int)(limit_ms / 1000));
    }
}

/* The watch's server wants its connections to end, and no watch says anything: requests on another one show that it is
 * there, and a resource that is live is never stale. */
static void drain_moves(struct kube_world *w)
{
    w->servers.is_silent = true;
    kube_servers_mend(&w->servers, w->now_ms);
    kube_servers_leave_links(&w->servers, kube_servers_watched(&w->servers, resource_server(w->follow)));
    bool was_fresh = false; /* it may have just left the server that was stopped */
    for (uint64_t end_ms = w->now_ms + LEFT_MS; w->now_ms < end_ms && !verdict_failed();) {
        world_move(w);
        bool is_live = resource_state(w->follow) == RESOURCE_LIVE;
        was_fresh = is_live && (was_fresh || !resource_stale(w->follow));
        if (was_fresh && resource_stale(w->follow))
            verdict_fail("stale, though the server of a connection that is left answers on another one");
    }
}

/* The follower has to list, because no cache has its history. Meanwhile etcd is restored to an older version, and other
 * resources move it past the follower's: no cache comes to have that version. */
static void lose_version_under_list(struct kube_world *w)
{
    if (w->history.n == KUBE_PASTS || w->judge.at < 30)
        return;
    for (uint64_t i = 2 * KUBE_WINDOW; i > 0; i--)
        kube_history_write(&w->history, &w->rng);
    for (unsigned i = 0; i < w->servers.n; i++)
        kube_servers_restart(&w->servers, i, 0, w->now_ms);
    for (uint64_t end_ms = w->now_ms + 10000; resource_state(w->follow) != RESOURCE_LISTING && w->now_ms < end_ms;)
        world_move(w);
    kube_history_restore(&w->history, w->judge.at - 1 - (int64_t)below(w, 20));
    w->judge.may_rewrite = true;
    kube_servers_restored(&w->servers, w->now_ms);
    for (unsigned i = 0; i < w->servers.n; i++)
        kube_servers_restart(&w->servers, i, 0, w->now_ms);
    kube_servers_step(&w->servers, w->now_ms += 1);
    kube_history_pass(&w->history, 60);
    COVER(kube_version_lost);
}

/* One server of several stays stopped: the others must do. A balancer would send nothing to it. */
static void drain(struct kube_world *w)
{
    kube_servers_mend(&w->servers, w->now_ms);
    modelstore_fail(w->store, 0);
    w->paused_ms = 0;
    if (one_in(w, 4))
        lose_version_under_list(w);
    unsigned server = (unsigned)below(w, w->servers.n);
    if (kube_servers_seen(&w->servers) > 1)
        w->servers.servers[server].stopped_ms = UINT64_MAX;
    uint64_t end_ms = w->now_ms + DRAIN_MS, ready_ms = w->now_ms + DRAIN_MIN;
    while (w->now_ms < ready_ms + READY_MS && w->now_ms < end_ms && !verdict_failed()) {
        world_move(w);
        if (w->now_ms > ready_ms && !resource_ready(w->follow))
            ready_ms = w->now_ms;
    }
    if (w->now_ms >= end_ms)
        verdict_fail("not ready %d s after everything was mended: state %d", DRAIN_MS / 1000,
                     (int)resource_state(w->follow));
    if (!verdict_failed())
        drain_proves(w);
    if (!verdict_failed())
        drain_moves(w);
    if (!verdict_failed())
        kube_judge_end(&w->judge);
}

uint64_t kube_world_run(const struct world_opts *opts)
{
    static struct kube_world world; /* large */
    struct kube_world *w = &world;
    *w = (struct kube_world){.rng = {opts->recipe.seed}, .now_ms = 1000};
    verdict_clear();
    pairs_start();
    trace_start(opts->trace, &w->now_ms);
    kube_history_init(&w->history);
    kube_servers_init(&w->servers, &w->history, &w->rng, 1 + (unsigned)below(w, KUBE_SERVERS));
    w->has_others = one_in(w, 2);
    w->has_leases = (w->rng.state & 3) == 0;
    w->is_unaware = (w->rng.state & 12) == 0;
    w->judge = (struct kube_judge){.history = &w->history, .servers = &w->servers, .knows_leases = !w->is_unaware};
    struct modelstore_opts store = {.history_rows = 50, .history_age_s = 3600, .extent_bytes = 1 << 20};
    w->store = modelstore_create(&store);
    for (unsigned i = 0; i < 20; i++)
        kube_history_write(&w->history, &w->rng);
    follower_start(w);
    follower_act(w);
    run_faults(w, opts);
    if (!verdict_failed())
        drain(w);
    if (!verdict_failed()) {
        follower_stop(w);
        modelstore_destroy(w->store);
        kube_servers_fini(&w->servers);
        kube_history_fini(&w->history);
    }
    return w->steps;
}
