/* src/daemon/etcd_tier.c
 *
 * Two objects: the tier, of which there is one, and the parts of each worker, which live on the worker's thread. The
 * parts find in the tier what is fixed or shared.
 */
#include "daemon/etcd_tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/evlog.h"
#include "daemon/crash_note.h"
#include "daemon/ingest_thread.h"
#include "daemon/read_points.h"
#include "daemon/seed.h"
#include "daemon/standing.h"
#include "daemon/worker_thread.h"
#include "follow/history_reader.h"
#include "replica/replica.h"
#include "serve/kube/catalog_feed.h"
#include "serve/kube/definitions.h"
#include "serve/kube/kube_reader.h"
#include "serve/reads/reads.h"
#include "serve/rights/etcd_fence.h"
#include "serve/route.h"
#include "serve/sse/tickets.h"

#define LOG_CAPACITY_LOG2 20 /* batches; what bounds it is its bytes */
#define SHELF_BYTES       (64 * 1024 * 1024)
#define TURN_WORK         1024 /* units of the core's work a turn: a millisecond when each is another connection */
#define SEGMENTS_BYTES    (8 * 1024 * 1024) /* kept for watchers that are behind */
#define DIAL_MS           2000
#define FRAGMENT_BYTES    (2 * 1024 * 1024)
#define RESPONSE_BYTES    (1024 * 1024)
#define RESPONSE_REVS     1000
#define AUTH_LOOK_MS      1000 /* between two looks whether auth is on upstream */
#define AUTH_WAIT_MS      50   /* while that is being asked */
#define RIGHTS_SHARE      16   /* answers about rights that no watch holds: a sixteenth */

struct etcd_tier {
    struct tier_parts parts;
    /* fixed */
    struct tier_parts_opts opts;
    struct belfry_tls *upstream_tls; /* NULL: no endpoint wants it */
    struct mint *mint;               /* NULL: this tier signs no tokens */
    struct vouch_opts vouch;         /* a worker fills in uplink and loop in a copy */
    struct belfry_bytes scope;       /* a prefix; empty: everything. The configuration's */
    struct belfry_buf scope_end;     /* of a prefix */
    size_t worker_memory;            /* bytes of each worker */
    uint64_t process;                /* kube_lists_opts */
    /* shared between the threads, each by its own rules */
    struct store *store;
    struct evlog *log;
    struct standing standing;
    struct term term;
    struct auth_revision auth_revision;
    struct history_reader *history; /* there before the first stream comes, as is ingest */
    struct answers *answers;
    struct ingest_thread *ingest;
};

/* What a worker serves: the watches of all dialects over one core, reads from the replica, and relays. */
struct etcd_parts {
    struct worker_parts parts;
    /* fixed at creation */
    struct etcd_tier *tier;
    unsigned number;
    uint64_t seed;
    struct worker_parts_host host;
    /* the thread's */
    struct belfry_dns *dns;
    struct uplink *uplink;
    struct vouch *vouch; /* NULL: users of client certificates are refused */
    struct permit *permit;
    struct points_source *points_source;
    struct points *points;
    struct reads *reads;
    struct relay *relay;
    struct watch_service *watch;
    struct fence *fence;
    struct sse *sse;
    struct kube_reader *kube_reader; /* this and the next three: NULL when Kubernetes' API is not served */
    struct kube_lists *kube_lists;
    struct kube_service *kube;
    struct catalog_feed *feed;
    struct route *route;
    struct gateway *gateway;
    struct worker *worker;
    bool stale; /* as the core knows it */
    uint64_t standing_turn;
    struct response_identity identity; /* as the core knows it */
    int64_t published;                 /* the newest revision when the turn began, */
    uint64_t published_ns;             /* and when it was published */
    int64_t measured;                  /* the revision whose latency was noted last */
    struct latency latency;
    uint64_t auth_due_ms; /* when to look whether auth is on upstream */
    enum permit_auth auth;
};

static struct etcd_parts *etcd_parts_of(struct worker_parts *parts)
{
    return belfry_container(parts, struct etcd_parts, parts);
}

static struct etcd_tier *etcd_tier_of(struct tier_parts *parts)
{
    return belfry_container(parts, struct etcd_tier, parts);
}

static const struct config *config_of(const struct etcd_parts *t)
{
    return t->tier->opts.config;
}

/* ---- a worker: a turn ---- */

static void etcd_parts_look_at_standing(struct etcd_parts *t)
{
    static const enum watch_standing watch_as[] = {
        [DRIVER_NOT_READY] = WATCH_NOT_READY, [DRIVER_READY] = WATCH_READY, [DRIVER_STALE] = WATCH_STALE};
    static const enum reads_standing reads_as[] = {
        [DRIVER_NOT_READY] = READS_NOT_READY, [DRIVER_READY] = READS_READY, [DRIVER_STALE] = READS_STALE};
    struct standing_view view;
    if (!standing_look(&t->tier->standing, &t->standing_turn, &view))
        return;
    bool ready = view.how == DRIVER_READY, stale = !ready;
    if (stale != t->stale) /* it looks at every stream */
        worker_set_stale(t->worker, stale);
    t->stale = stale;
    view.identity.raft_term = t->identity.raft_term; /* etcd_parts_look() knows better */
    t->identity = view.identity;
    worker_set_identity(t->worker, &t->identity);
    uplink_bar(t->uplink, view.barred);

    /* Watches are served from the log, but reads need the replica, which does not move while the disk is full. */
    bool relays = view.disk_trouble && ready;
    struct range_upstream upstream = {.identity = view.identity, .keys_only = view.keys_only};
    reads_stand(t->reads, relays ? READS_NOT_READY : reads_as[view.how], &upstream);
    watch_stand(t->watch, watch_as[view.how], view.reason);
    if (t->kube != NULL)
        kube_stand(t->kube, ready, view.reason);
    sse_stand(t->sse, view.how != DRIVER_NOT_READY);
    sse_streams_set_cluster(sse_streams(t->sse), view.identity.cluster_id);

    /* what etcd calls the version of a cluster: its members' without the last number */
    char cluster[sizeof(view.version)] = "";
    unsigned major, minor;
    if (sscanf(view.version, "%u.%u.", &major, &minor) == 2)
        snprintf(cluster, sizeof(cluster), "%u.%u.0", major, minor);
    route_stand(t->route, ready, view.reason, view.version, cluster);
}

static void etcd_parts_look(struct worker_parts *parts, uint64_t now)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    t->published = atomic_load_explicit(&t->tier->standing.published_rev, memory_order_acquire);
    t->published_ns = atomic_load_explicit(&t->tier->standing.published_ns, memory_order_relaxed);
    etcd_parts_look_at_standing(t);

    /* Watch responses of this turn have at least the term of every answer that was sent before it began. Tiers below
     * hear of a new one immediately, so that the term does not age by a second in each tier. */
    uint64_t raft_term = term_now(&t->tier->term);
    if (raft_term != t->identity.raft_term) {
        t->identity.raft_term = raft_term;
        worker_set_identity(t->worker, &t->identity);
        watch_tell_tiers(t->watch);
    }

    /* permit asks upstream when its last answer is too old, and knows it a moment later. A listener that needs auth
     * must know it now; the others should have known it a short time before upstream is lost (regime.h). */
    if (now >= t->auth_due_ms) {
        enum permit_auth auth = permit_auth(t->permit, now);
        if (!config_needs_auth(config_of(t))) {
            t->auth_due_ms = now + config_of(t)->rights_period_ms / 2;
        } else if (auth == PERMIT_AUTH_UNKNOWN) {
            t->auth_due_ms = now + AUTH_WAIT_MS;
        } else {
            t->auth_due_ms = now + AUTH_LOOK_MS;
            t->auth = auth;
            route_set_auth(t->route, auth);
        }
    }
    permit_turn(t->permit, now); /* before anything is written: rights end by the clock */
}

static bool etcd_parts_deliver(struct worker_parts *parts, uint64_t now)
{
    struct etcd_parts *t = etcd_parts_of(parts);

    /* streams that are being told something, one after another, take no events meanwhile */
    bool learning = watch_is_going_round(t->watch) || sse_streams_are_going_round(sse_streams(t->sse)) ||
                    (t->kube != NULL && kube_is_going_round(t->kube));
    bool more = learning || worker_turn(t->worker, now, TURN_WORK);
    struct worker_fetch fetch;
    while (worker_wants_fetch(t->worker, &fetch)) {
        enum belfry_err err = history_reader_ask(t->tier->history, t->number, &fetch);
        if (err != BELFRY_OK)
            worker_fetched(t->worker, &fetch, err, NULL, 0, 0);
    }

    /* what the core's turn has found to do, and what is due */
    watch_after_turn(t->watch, now);
    route_end_late(t->route, now);
    reads_see_past(t->reads, worker_past(t->worker), worker_rewritten(t->worker));
    reads_turn(t->reads);
    if (t->kube != NULL) {
        if (kube_lists_due(t->kube_lists) <= now)
            kube_lists_tick(t->kube_lists, now);
        kube_after_turn(t->kube, now);
        if (t->feed != NULL)
            catalog_feed_after_turn(t->feed, now);
    }
    sse_streams_after_turn(sse_streams(t->sse), now);
    return more;
}

/* A flush may make room for a next part. */
static bool etcd_parts_rest(struct worker_parts *parts)
{
    return reads_wait(etcd_parts_of(parts)->reads);
}

/* Notes how long the newest revision took, once all riding streams have it. */
static void etcd_parts_settled(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    if (t->published == t->measured || worker_position(t->worker) < t->published)
        return;
    t->measured = t->published;
    latency_note(&t->latency, t->published_ns, belfry_clock_ns());
}

static uint64_t etcd_parts_due(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    uint64_t due = belfry_min_time(worker_due(t->worker), watch_due(t->watch));
    due = belfry_min_time(due, t->auth_due_ms);
    due = belfry_min_time(due, belfry_min_time(route_due(t->route), sse_streams_due(sse_streams(t->sse))));
    if (t->kube != NULL)
        due = belfry_min_time(due, belfry_min_time(kube_due(t->kube), kube_lists_due(t->kube_lists)));
    return t->feed == NULL ? due : belfry_min_time(due, catalog_feed_due(t->feed));
}

static void etcd_parts_set_times(struct worker_parts *parts, const struct limits_times *times)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    watch_set_times(t->watch, times->message_ms, times->unread_ms);
    route_set_message_time(t->route, times->message_ms);
    relay_set_pace(t->relay, times->message_ms);
    sse_streams_set_unread_time(sse_streams(t->sse), times->unread_ms);
    if (t->kube != NULL)
        kube_set_unread_time(t->kube, times->unread_ms);
}

static void etcd_parts_announce_drain(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    route_drain(t->route);
    if (t->kube != NULL)
        kube_announce_drain(t->kube);
}

static void etcd_parts_drain(struct worker_parts *parts, uint64_t now, uint64_t drain_ms)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    watch_drain(t->watch, now, drain_ms);
    sse_streams_drain(sse_streams(t->sse), now, drain_ms);
    if (t->kube != NULL)
        kube_drain(t->kube, now, drain_ms);
}

/* ---- a worker: numbers ---- */

/* What is half sent to many is counted for each and is there once: it tells nothing of memory. */
static void etcd_parts_weigh(struct worker_parts *parts, struct worker_parts_weight *out)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    struct worker_stats core;
    struct permit_stats permit;
    worker_stats(t->worker, &core);
    permit_stats(t->permit, &permit);
    *out = (struct worker_parts_weight){
        .watchers = core.watchers, .bytes = core.bytes - core.rest_bytes + permit.rights.bytes, .auth = t->auth};
}

static void etcd_parts_count(struct worker_parts *parts, struct worker_numbers *numbers)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    worker_stats(t->worker, &numbers->core);
    watch_stats(t->watch, &numbers->watch);
    relay_stats(t->relay, &numbers->relay);
    reads_stats(t->reads, &numbers->reads);
    route_stats(t->route, &numbers->route);
    gateway_stats(t->gateway, &numbers->gateway);
    sse_streams_stats(sse_streams(t->sse), &numbers->sse);
    permit_stats(t->permit, &numbers->permit);
    vouch_stats(t->vouch, &numbers->vouch);
    numbers->auth = t->auth;
    uplink_stats(t->uplink, &numbers->uplink);
    if (t->kube != NULL) {
        kube_stats(t->kube, &numbers->kube);
        kube_lists_stats(t->kube_lists, &numbers->kube_lists);
    }
    fence_stats(t->fence, &numbers->fence);
    numbers->below = watch_tiers(t->watch);
    numbers->latency = t->latency;
    numbers->position = worker_position(t->worker);
}

static enum belfry_err etcd_parts_scan(struct worker_parts *parts, const struct watchers_query *query,
                                       struct watchers_scan **out)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    int64_t head = atomic_load_explicit(&t->tier->standing.published_rev, memory_order_relaxed);
    enum belfry_err err = watchers_scan_create(query, t->watch, t->worker, head, belfry_clock_ms(), out);
    if (err != BELFRY_OK)
        return err;
    watchers_scan_sse(*out, sse_streams(t->sse));
    if (t->kube != NULL)
        watchers_scan_kube(*out, t->kube);
    return BELFRY_OK;
}

/* ---- mail for workers; without an owner the thread has ended ---- */

static void etcd_parts_open_fetched(struct mail *mail, void *owner)
{
    struct history_reader_job *job = belfry_container(mail, struct history_reader_job, mail);
    if (owner != NULL) {
        struct etcd_parts *t = etcd_parts_of(worker_thread_parts(owner));
        worker_fetched(t->worker, &job->fetch, job->err, job->segment, job->compact_rev, job->oldest);
        job->segment = NULL;
    }
    history_reader_job_free(job);
}

static void etcd_tier_on_fetched(struct history_reader_job *job, void *user)
{
    struct etcd_tier *tier = user;
    job->mail.open = etcd_parts_open_fetched;
    worker_thread_post(tier->opts.workers->all[job->worker], &job->mail);
}

/* What Kubernetes' API serves from now on. */
struct catalog_order {
    struct mail mail;
    struct kube_catalog *catalog; /* one reference */
    enum kube_catalog_extent extent;
};

static void etcd_parts_open_catalog(struct mail *mail, void *owner)
{
    struct catalog_order *order = belfry_container(mail, struct catalog_order, mail);
    if (owner != NULL)
        kube_set_catalog(etcd_parts_of(worker_thread_parts(owner))->kube, order->catalog, order->extent);
    kube_catalog_unref(order->catalog);
    free(order);
}

/* To every worker, consuming one reference. Errors: BELFRY_ERR_NOMEM (some workers have it). Any thread. */
static enum belfry_err etcd_tier_spread(struct etcd_tier *tier, struct kube_catalog *catalog,
                                        enum kube_catalog_extent extent)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < tier->opts.workers->n && err == BELFRY_OK; i++) {
        struct catalog_order *order = calloc(1, sizeof(*order));
        if (order == NULL) {
            err = BELFRY_ERR_NOMEM;
            break;
        }
        *order = (struct catalog_order){
            .mail.open = etcd_parts_open_catalog, .catalog = kube_catalog_ref(catalog), .extent = extent};
        worker_thread_post(tier->opts.workers->all[i], &order->mail);
    }
    kube_catalog_unref(catalog);
    return err;
}

/* ---- a worker: what lives there ---- */

static bool follows_definitions(const struct config *config)
{
    for (size_t i = 0; i < config->resources.n; i++)
        if (config->resources.all[i].under != NULL)
            return true;
    return false;
}

static enum belfry_err etcd_parts_create_upstream_side(struct etcd_parts *t, uv_loop_t *loop)
{
    struct etcd_tier *tier = t->tier;
    const struct config *config = config_of(t);

    /* the way upstream */
    struct uplink_opts uplink = {.loop = loop,
                                 .endpoints = config->upstream,
                                 .n_endpoints = config->n_upstream,
                                 .tls = tier->upstream_tls,
                                 .dial_timeout_ms = DIAL_MS,
                                 .via = tier->opts.word,
                                 .seed = t->seed,
                                 .log = tier->opts.log};
    enum belfry_err err = belfry_dns_create(loop, &t->dns);
    uplink.dns = t->dns;
    if (err == BELFRY_OK)
        err = uplink_create(&uplink, &t->uplink);

    /* who may do what there; users of client certificates are refused unless upstream hears of them */
    struct vouch_opts vouch = tier->vouch;
    vouch.uplink = t->uplink;
    vouch.loop = loop;
    if (err == BELFRY_OK && (tier->mint != NULL || config->pass_users))
        err = vouch_create(&vouch, &t->vouch);
    struct permit_opts permit = {.uplink = t->uplink,
                                 .vouch = t->vouch,
                                 .loop = loop,
                                 .n_members = config->n_upstream,
                                 .period_ms = config->rights_period_ms,
                                 .idle_max = tier->worker_memory / RIGHTS_SHARE,
                                 .seed = t->seed,
                                 .answers = tier->answers,
                                 .log = tier->opts.log};
    if (err == BELFRY_OK)
        err = permit_create(&permit, &t->permit);

    /* reads from the replica, and what goes on to upstream */
    if (err == BELFRY_OK)
        err = read_points_create(&tier->ingest, t->host.thread, &t->points_source);
    if (err == BELFRY_OK)
        err = points_create(t->points_source, &t->points);
    struct reads_opts reads = {.store = tier->store,
                               .permit = t->permit,
                               .points = t->points,
                               .term = &tier->term,
                               .scope = tier->scope,
                               .loop = loop};
    if (err == BELFRY_OK)
        err = reads_create(&reads, &t->reads);
    struct relay_opts relay = {.uplink = t->uplink,
                               .permit = t->permit,
                               .vouch = t->vouch,
                               .reads = t->reads,
                               .term = &tier->term,
                               .advertise = tier->opts.advertise,
                               .pace_ms = t->host.times.message_ms,
                               .period_ms = config->rights_period_ms,
                               .log = tier->opts.log};
    return err != BELFRY_OK ? err : relay_create(&relay, &t->relay);
}

static enum belfry_err etcd_parts_create_sse(struct etcd_parts *t, uv_loop_t *loop)
{
    struct etcd_fence_opts fence = {.uplink = t->uplink, .permit = t->permit, .vouch = t->vouch, .loop = loop};
    enum belfry_err err = etcd_fence_create(&fence, &t->fence);
    struct sse_opts sse = {.streams = {.permit = t->permit,
                                       .fence = t->fence,
                                       .store = t->tier->store,
                                       .now = t->host.now,
                                       .work = t->host.work,
                                       .user = t->host.user,
                                       .seed = t->seed,
                                       .memory_max = t->tier->worker_memory,
                                       .unread_ms = t->host.times.unread_ms,
                                       .tickets = t->tier->opts.tickets,
                                       .log = t->tier->opts.log},
                           .scope = t->tier->scope,
                           .origins = {config_of(t)->cors_origins, config_of(t)->n_cors_origins}};
    return err != BELFRY_OK ? err : sse_create(&sse, &t->sse);
}

static enum belfry_err etcd_parts_create_kube(struct etcd_parts *t)
{
    if (config_of(t)->definitions == NULL)
        return BELFRY_OK;
    enum belfry_err err = kube_reader_create(&t->tier->history, NULL, t->host.thread, &t->kube_reader);
    struct kube_lists_opts lists = {.reader = t->kube_reader,
                                    .fence = t->fence,
                                    .now = t->host.now,
                                    .user = t->host.user,
                                    .process = t->tier->process};
    if (err == BELFRY_OK)
        err = kube_lists_create(&lists, &t->kube_lists);
    struct kube_service_opts kube = {.permit = t->permit,
                                     .fence = t->fence,
                                     .lists = t->kube_lists,
                                     .now = t->host.now,
                                     .work = t->host.work,
                                     .user = t->host.user,
                                     .seed = t->seed,
                                     .scope = t->tier->scope,
                                     .memory_max = t->tier->worker_memory,
                                     .unread_ms = t->host.times.unread_ms,
                                     .log = t->tier->opts.log};
    return err != BELFRY_OK ? err : kube_create(&kube, &t->kube);
}

/* On the reader's thread. */
static enum belfry_err etcd_parts_on_catalog(struct kube_catalog *catalog, void *user)
{
    return etcd_tier_spread(user, catalog, KUBE_CATALOG_WHOLE);
}

/* The core, and, on one worker of all, what follows the definitions in it. */
static enum belfry_err etcd_parts_create_core(struct etcd_parts *t)
{
    const struct config *config = config_of(t);
    struct worker_opts core = {.log = t->tier->log,
                               .number = t->number,
                               .seed = t->seed,
                               .fragment_bytes = FRAGMENT_BYTES,
                               .response_bytes = RESPONSE_BYTES,
                               .response_revs = RESPONSE_REVS,
                               .segment_bytes = SEGMENTS_BYTES,
                               .memory_max = t->tier->worker_memory,
                               .progress_ms = config->progress_ms,
                               .write = watch_write,
                               .attribute = t->kube == NULL ? NULL : kube_attribute,
                               .attribute_user = t->kube};
    enum belfry_err err = worker_create(&core, &t->worker);
    struct catalog_feed_opts feed = {.definitions = config->definitions,
                                     .sources = &config->resources,
                                     .history = &t->tier->history,
                                     .thread = t->host.thread,
                                     .worker = t->worker,
                                     .publish = etcd_parts_on_catalog,
                                     .user = t->tier,
                                     .log = t->tier->opts.log};
    if (err == BELFRY_OK && t->number == 0 && follows_definitions(config))
        err = catalog_feed_create(&feed, &t->feed);
    return err;
}

static void etcd_parts_on_about(struct about *out, void *user)
{
    struct etcd_parts *t = user;
    standing_about(&t->tier->standing, out);
    snprintf(out->self.name, sizeof(out->self.name), "%s", t->tier->opts.word);
    snprintf(out->self.version, sizeof(out->self.version), "belfryd/" BELFRY_VERSION); /* known before anything else */
}

static uint64_t etcd_parts_on_now(void *user)
{
    struct etcd_parts *t = user;
    return t->host.now(t->host.user);
}

static enum belfry_err etcd_parts_create_client_side(struct etcd_parts *t, uv_loop_t *loop)
{
    struct watch_service_opts watch = {.permit = t->permit,
                                       .now = t->host.now,
                                       .seed = t->seed,
                                       .scope = t->tier->scope,
                                       .memory_max = t->tier->worker_memory,
                                       .message_ms = t->host.times.message_ms,
                                       .unread_ms = t->host.times.unread_ms,
                                       .work = t->host.work,
                                       .user = t->host.user,
                                       .log = t->tier->opts.log};
    enum belfry_err err = watch_create(&watch, &t->watch);
    if (err != BELFRY_OK)
        return err;
    watch_set_worker(t->watch, t->worker);
    sse_streams_set_worker(sse_streams(t->sse), t->worker);
    if (t->kube != NULL)
        kube_set_worker(t->kube, t->worker);
    err = gateway_create(loop, &t->gateway);
    if (err != BELFRY_OK)
        return err;
    struct route_opts route = {.watch = t->watch,
                               .relay = t->relay,
                               .kube = t->kube,
                               .gateway = t->gateway,
                               .sse = t->sse,
                               .name = t->tier->opts.word,
                               .hosts = t->tier->opts.hosts,
                               .cors = {config_of(t)->cors_origins, config_of(t)->n_cors_origins},
                               .message_ms = t->host.times.message_ms,
                               .now = etcd_parts_on_now,
                               .about = etcd_parts_on_about,
                               .user = t};
    err = route_create(&route, &t->route);
    gateway_set_methods(t->gateway, route_begin_method, t->route);
    return err;
}

/* Clients learn how it ended, and resume. */
static void etcd_parts_end(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    if (t->relay != NULL)
        relay_end_all(t->relay, "belfry: stopping");
    route_destroy(t->route);
    watch_destroy(t->watch);
    catalog_feed_destroy(t->feed);
    sse_destroy(t->sse);
    kube_destroy(t->kube);
    kube_lists_destroy(t->kube_lists);
}

/* Users before what they use. */
static void etcd_parts_destroy(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_parts_of(parts);
    gateway_destroy(t->gateway);
    worker_destroy(t->worker);
    kube_reader_destroy(t->kube_reader);
    fence_destroy(t->fence);
    relay_destroy(t->relay);
    reads_destroy(t->reads);
    points_destroy(t->points);
    read_points_destroy(t->points_source);
    permit_destroy(t->permit);
    vouch_destroy(t->vouch);
    uplink_destroy(t->uplink);
    belfry_dns_destroy(t->dns);
    free(t);
}

static void etcd_parts_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    route_begin(x, head, etcd_parts_of(user)->route);
}

static const struct worker_parts_api etcd_parts_api = {.begin = etcd_parts_begin,
                                                       .look = etcd_parts_look,
                                                       .deliver = etcd_parts_deliver,
                                                       .rest = etcd_parts_rest,
                                                       .settled = etcd_parts_settled,
                                                       .due = etcd_parts_due,
                                                       .set_times = etcd_parts_set_times,
                                                       .announce_drain = etcd_parts_announce_drain,
                                                       .drain = etcd_parts_drain,
                                                       .weigh = etcd_parts_weigh,
                                                       .count = etcd_parts_count,
                                                       .scan = etcd_parts_scan,
                                                       .end = etcd_parts_end,
                                                       .destroy = etcd_parts_destroy};

struct etcd_parts_opts {
    struct etcd_tier *tier;
    unsigned number;
};

/* worker_parts_fn; `opts` is a struct etcd_parts_opts. */
static enum belfry_err etcd_parts_create(const void *opts, const struct worker_parts_host *host,
                                         struct worker_parts **out)
{
    const struct etcd_parts_opts *own = opts;
    struct etcd_parts *t = calloc(1, sizeof(*t));
    uv_loop_t *loop = thread_loop(host->thread);
    if (t == NULL)
        return BELFRY_ERR_NOMEM;
    t->parts.api = &etcd_parts_api;
    t->tier = own->tier;
    t->number = own->number;
    t->seed = seed_draw();
    t->host = *host;
    enum belfry_err err = etcd_parts_create_upstream_side(t, loop);
    if (err == BELFRY_OK)
        err = etcd_parts_create_sse(t, loop);
    if (err == BELFRY_OK)
        err = etcd_parts_create_kube(t);
    if (err == BELFRY_OK)
        err = etcd_parts_create_core(t);
    if (err == BELFRY_OK)
        err = etcd_parts_create_client_side(t, loop);
    if (err != BELFRY_OK) {
        etcd_parts_end(&t->parts);
        etcd_parts_destroy(&t->parts);
        return err;
    }
    *out = &t->parts;
    return BELFRY_OK;
}

/* ---- the tier: starting ---- */

/* Worker by worker, before the tier's own threads. */
static enum belfry_err etcd_tier_start_worker(struct tier_parts *parts, unsigned number,
                                              const struct worker_thread_opts *common, struct worker_thread **out)
{
    struct etcd_parts_opts opts = {.tier = etcd_tier_of(parts), .number = number};
    struct worker_thread_opts thread = *common;
    thread.create = etcd_parts_create;
    thread.parts = &opts;
    return worker_thread_start(&thread, out);
}

/* On the reader's thread. */
static void etcd_tier_on_lost(struct history_reader_job *job, void *user)
{
    struct etcd_tier *tier = user;
    ingest_thread_backfill(tier->ingest, job);
}

/* On ingest's thread. */
static void etcd_tier_on_wake(void *user)
{
    struct etcd_tier *tier = user;
    for (size_t i = 0; i < tier->opts.workers->n; i++)
        worker_thread_wake(tier->opts.workers->all[i]);
}

static enum belfry_err etcd_tier_start_ingest(struct etcd_tier *tier)
{
    const struct config *config = tier->opts.config;
    struct ingest_thread_opts opts = {.driver = {.endpoints = config->upstream,
                                                 .n_endpoints = config->n_upstream,
                                                 .tls = tier->upstream_tls,
                                                 .user = config->upstream_user,
                                                 .password_file = config->upstream_password_file,
                                                 .user_agent = "belfryd/" BELFRY_VERSION,
                                                 .name = tier->opts.word,
                                                 .store = tier->store,
                                                 .evlog = tier->log,
                                                 .term = &tier->term,
                                                 .segment_bytes = SEGMENT_BYTES,
                                                 .seed = seed_draw(),
                                                 .log = tier->opts.log},
                                      .standing = &tier->standing,
                                      .wake = etcd_tier_on_wake,
                                      .user = tier};

    /* the scope as on the wire: everything, or a prefix */
    opts.driver.key = opts.driver.range_end = belfry_bytes_of("\0", 1);
    if (config->n_scope > 0) {
        opts.driver.key = tier->scope;
        enum belfry_err err = range_prefix_end(tier->scope, &tier->scope_end);
        if (err != BELFRY_OK)
            return err;
        if (belfry_buf_len(&tier->scope_end) > 0)
            opts.driver.range_end = belfry_buf_bytes(&tier->scope_end);
    }
    return ingest_thread_start(&opts, &tier->ingest);
}

/* Workers and the reader start before ingest can wake them: a warm replica has a position immediately, and a worker
 * that follows definitions then asks the reader by itself, without a client. */
static enum belfry_err etcd_tier_start(struct tier_parts *parts)
{
    struct etcd_tier *tier = etcd_tier_of(parts);
    const struct config *config = tier->opts.config;
    enum belfry_err err = BELFRY_OK;

    /* definitions: what the files say; what lies in etcd comes when it can be read */
    if (config->definitions != NULL) {
        struct kube_catalog *catalog;
        enum kube_catalog_extent extent = follows_definitions(config) ? KUBE_CATALOG_PART : KUBE_CATALOG_WHOLE;
        err = definitions_catalog(config->definitions, tier->opts.log, &catalog);
        if (err == BELFRY_OK)
            err = etcd_tier_spread(tier, catalog, extent);
    }

    struct history_reader_opts reader = {.store = tier->store,
                                         .segment_bytes = SEGMENT_BYTES,
                                         .shelf_bytes = SHELF_BYTES,
                                         .done = etcd_tier_on_fetched,
                                         .lost = etcd_tier_on_lost,
                                         .user = tier};
    if (err == BELFRY_OK)
        err = history_reader_start(&reader, &tier->history);
    if (err == BELFRY_OK)
        err = etcd_tier_start_ingest(tier);
    if (err == BELFRY_OK)
        replica_serves(tier->store);
    return err;
}

/* ---- the tier: ending ---- */

/* The reader asks ingest; answers to a thread that has ended find a closed mailbox. */
static void etcd_tier_stop(struct tier_parts *parts)
{
    struct etcd_tier *tier = etcd_tier_of(parts);
    history_reader_stop(tier->history);
    ingest_thread_stop(tier->ingest);
}

static void etcd_tier_destroy(struct tier_parts *parts)
{
    struct etcd_tier *tier = etcd_tier_of(parts);
    ingest_thread_destroy(tier->ingest);
    history_reader_destroy(tier->history);
    evlog_destroy(tier->log);
    crash_note_watch(NULL);
    replica_close(tier->store, REPLICA_CLOSE_CLEAN);
    belfry_tls_destroy(tier->upstream_tls);
    answers_destroy(tier->answers);
    mint_destroy(tier->mint);
    standing_fini(&tier->standing);
    term_fini(&tier->term);
    auth_revision_fini(&tier->auth_revision);
    belfry_buf_fini(&tier->scope_end);
    free(tier);
}

/* ---- the tier: for the front ---- */

static void etcd_tier_post(struct tier_parts *parts, struct mail *mail)
{
    ingest_thread_post(etcd_tier_of(parts)->ingest, mail);
}

static void etcd_tier_fill(void *owner, struct ingest_thread_numbers *out)
{
    ingest_thread_numbers(owner, out);
}

static void etcd_tier_finish(struct tier_parts *parts, struct tier_numbers *numbers)
{
    struct etcd_tier *tier = etcd_tier_of(parts);
    const struct config *config = tier->opts.config;
    numbers->upstream_left_s =
        tier->upstream_tls != NULL ? tier_seconds_until(belfry_tls_expires(tier->upstream_tls)) : BELFRY_NEVER;
    numbers->endpoints = config->upstream;
    numbers->n_endpoints = config->n_upstream;
    numbers->scope = config->scope;
    numbers->n_scope = config->n_scope;
    replica_stats(tier->store, &numbers->replica);
    struct store_meta meta;
    tier->store->api->snapshot(tier->store, &meta);
    numbers->history_oldest = meta.oldest <= meta.revision ? meta.oldest : 0;
    numbers->history_newest = meta.oldest <= meta.revision ? meta.revision : 0;
    struct history_reader_stats reads;
    history_reader_stats(tier->history, &reads);
    numbers->reads = reads.reads;
    numbers->reads_shared = reads.shared;
    numbers->reads_shelved = reads.shelved;
    numbers->shelf_bytes = reads.shelf_bytes;
}

static void etcd_tier_look(struct tier_parts *parts, struct tier_parts_view *out)
{
    uint64_t turn = 0;
    struct standing_view view;
    standing_look(&etcd_tier_of(parts)->standing, &turn, &view);
    *out = (struct tier_parts_view){.is_ready = view.how == DRIVER_READY, .is_hopeless = view.given_up};
    memcpy(out->reason, view.reason, sizeof(out->reason));
}

static enum belfry_err etcd_tier_open_tail(struct tier_parts *parts, struct tail **out)
{
    struct etcd_tier *tier = etcd_tier_of(parts);
    return tail_create(tier->log, tier->opts.config->workers, out);
}

/* ---- the tier: opening ---- */

static enum belfry_err etcd_tier_load_credentials(struct etcd_tier *tier, char *why, size_t why_len)
{
    const struct config *config = tier->opts.config;
    struct belfry_tls_opts opts = {.cacert = config->upstream_cacert,
                                   .cert = config->upstream_cert,
                                   .key = config->upstream_key,
                                   .server_name = config->upstream_server_name};
    for (size_t i = 0; i < config->n_upstream; i++)
        if (config->upstream[i].tls)
            return belfry_tls_create(&opts, &tier->upstream_tls, why, why_len);
    return BELFRY_OK;
}

/* Whether and how this tier tells upstream the users of client certificates. */
static enum belfry_err etcd_tier_load_token_key(struct etcd_tier *tier, char *why, size_t why_len)
{
    const struct config *config = tier->opts.config;
    char reason[MINT_WHY];
    tier->vouch = (struct vouch_opts){.revision = &tier->auth_revision,
                                      .user = config->upstream_user,
                                      .password_file = config->upstream_password_file,
                                      .pass_users = config->pass_users,
                                      .allow_root = config->allow_root,
                                      .log = tier->opts.log};
    if (config->upstream_token_key == NULL)
        return BELFRY_OK;
    enum belfry_err err = mint_create(config->upstream_token_key, config->upstream_token_method, &tier->mint, reason);
    if (err != BELFRY_OK)
        snprintf(why, why_len, "%s", reason);
    else
        belfry_logf(tier->opts.log, BELFRY_LOG_INFO, "certificate_users", "method=%s", mint_method(tier->mint));
    tier->vouch.mint = tier->mint;
    return err;
}

static enum belfry_err etcd_tier_open_replica(struct etcd_tier *tier, char *why, size_t why_len)
{
    const struct config *config = tier->opts.config;
    struct replica_opts opts = {.dir = config->cache_dir,
                                .history_bytes = config->history_bytes,
                                .history_age_s = config->history_age_s,
                                .extent_bytes = INGEST_EXTENT_BYTES,
                                .scope = config->n_scope == 0 ? "" : config->scope[0],
                                .log = tier->opts.log};
    char *reason = NULL;
    enum belfry_err err = replica_open(&opts, &tier->store, &reason);
    if (err != BELFRY_OK)
        snprintf(why, why_len, "%s", reason != NULL ? reason : "out of memory");
    else
        crash_note_watch(tier->store);
    free(reason);
    return err;
}

static const struct tier_parts_api etcd_tier_api = {.start_worker = etcd_tier_start_worker,
                                                    .start = etcd_tier_start,
                                                    .stop = etcd_tier_stop,
                                                    .destroy = etcd_tier_destroy,
                                                    .post = etcd_tier_post,
                                                    .fill = etcd_tier_fill,
                                                    .finish = etcd_tier_finish,
                                                    .look = etcd_tier_look,
                                                    .open_tail = etcd_tier_open_tail};

enum belfry_err etcd_tier_open(const struct tier_parts_opts *opts, struct tier_parts **out, char *why, size_t why_len)
{
    struct etcd_tier *tier = calloc(1, sizeof(*tier));
    if (tier == NULL)
        return BELFRY_ERR_NOMEM;
    tier->parts.api = &etcd_tier_api;
    tier->opts = *opts;
    if (opts->config->n_scope > 0)
        tier->scope = belfry_bytes_str(opts->config->scope[0]);
    tier->worker_memory = opts->limits->memory / opts->config->workers;
    tier->process = seed_draw() | 1;
    standing_init(&tier->standing);
    term_init(&tier->term);
    auth_revision_init(&tier->auth_revision);
    enum belfry_err err = etcd_tier_load_credentials(tier, why, why_len);
    if (err == BELFRY_OK)
        err = etcd_tier_load_token_key(tier, why, why_len);
    if (err == BELFRY_OK)
        err = etcd_tier_open_replica(tier, why, why_len);
    struct evlog_opts log = {.capacity_log2 = LOG_CAPACITY_LOG2,
                             .max_bytes = opts->config->log_bytes,
                             .n_workers = opts->config->workers + 1}; /* and the tail */
    if (err == BELFRY_OK)
        err = evlog_create(&log, &tier->log);
    if (err == BELFRY_OK)
        err = answers_create(opts->config->rights_period_ms, &tier->answers);
    if (err != BELFRY_OK) {
        etcd_tier_destroy(&tier->parts);
        return err;
    }
    *out = &tier->parts;
    return BELFRY_OK;
}
