/* src/daemon/etcd_parts.c */
#include "daemon/etcd_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/read_points.h"
#include "serve/kube/kube_reader.h"
#include "serve/reads/reads.h"
#include "serve/rights/etcd_fence.h"

#define TURN_WORK      1024 /* units of the core's work a turn: a millisecond when each is another connection */
#define SEGMENTS_BYTES (8 * 1024 * 1024) /* kept for watchers that are behind */
#define DIAL_MS        2000
#define FRAGMENT_BYTES (2 * 1024 * 1024)
#define RESPONSE_BYTES (1024 * 1024)
#define RESPONSE_REVS  1000
#define AUTH_LOOK_MS   1000 /* between two looks whether auth is on upstream */
#define AUTH_WAIT_MS   50   /* while that is being asked */
#define RIGHTS_SHARE   16   /* answers about rights that no watch holds: a sixteenth */

struct etcd_parts {
    struct worker_parts parts;
    /* fixed at creation */
    struct etcd_parts_opts opts;
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

static struct etcd_parts *etcd_of(struct worker_parts *parts)
{
    return belfry_container(parts, struct etcd_parts, parts);
}

/* ---- a turn ---- */

/* What etcd calls the version of a cluster: its members' without the last number. */
static void cluster_version(const char *server, char *out, size_t out_len)
{
    unsigned major, minor;
    out[0] = '\0';
    if (sscanf(server, "%u.%u.", &major, &minor) == 2)
        snprintf(out, out_len, "%u.%u.0", major, minor);
}

static void look_at_standing(struct etcd_parts *t)
{
    struct standing_view view;
    if (!standing_look(t->opts.standing, &t->standing_turn, &view))
        return;
    static const enum watch_standing as[] = {
        [DRIVER_NOT_READY] = WATCH_NOT_READY, [DRIVER_READY] = WATCH_READY, [DRIVER_STALE] = WATCH_STALE};
    bool stale = view.how != DRIVER_READY;
    if (stale != t->stale) /* it looks at every stream */
        worker_set_stale(t->worker, stale);
    t->stale = stale;
    view.identity.raft_term = t->identity.raft_term; /* look_at_term() knows better */
    t->identity = view.identity;
    worker_set_identity(t->worker, &t->identity);
    uplink_bar(t->uplink, view.barred);
    static const enum reads_standing reads_as[] = {
        [DRIVER_NOT_READY] = READS_NOT_READY, [DRIVER_READY] = READS_READY, [DRIVER_STALE] = READS_STALE};
    /* Watches are served from the log, but reads need the replica, which does not move while the disk is full. */
    bool relays = view.disk_trouble && view.how == DRIVER_READY;
    struct range_upstream upstream = {.identity = view.identity, .keys_only = view.keys_only};
    reads_stand(t->reads, relays ? READS_NOT_READY : reads_as[view.how], &upstream);
    watch_stand(t->watch, as[view.how], view.reason);
    if (t->kube != NULL)
        kube_stand(t->kube, view.how == DRIVER_READY, view.reason);
    sse_stand(t->sse, view.how != DRIVER_NOT_READY);
    sse_streams_set_cluster(sse_streams(t->sse), view.identity.cluster_id);
    char cluster[sizeof(view.version)];
    cluster_version(view.version, cluster, sizeof(cluster));
    route_stand(t->route, view.how == DRIVER_READY, view.reason, view.version, cluster);
}

/* Watch responses of this turn have at least the term of every answer that was sent before it began. Tiers below hear
 * of a new one immediately, so that the term does not age by a second in each tier. */
static void look_at_term(struct etcd_parts *t)
{
    uint64_t raft_term = term_now(t->opts.term);
    if (raft_term == t->identity.raft_term)
        return;
    t->identity.raft_term = raft_term;
    worker_set_identity(t->worker, &t->identity);
    watch_tell_tiers(t->watch);
}

static void ask_for_history(struct etcd_parts *t)
{
    struct worker_fetch fetch;
    while (worker_wants_fetch(t->worker, &fetch)) {
        enum belfry_err err = history_reader_ask(*t->opts.history, t->opts.number, &fetch);
        if (err != BELFRY_OK)
            worker_fetched(t->worker, &fetch, err, NULL, 0, 0);
    }
}

/* Notes how long the newest revision took, once all riding streams have it. */
static void on_settled(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_of(parts);
    if (t->published == t->measured || worker_position(t->worker) < t->published)
        return;
    t->measured = t->published;
    latency_note(&t->latency, t->published_ns, belfry_clock_ns());
}

static void look_after_kube(struct etcd_parts *t, uint64_t now)
{
    if (t->kube == NULL)
        return;
    if (kube_lists_due(t->kube_lists) <= now)
        kube_lists_tick(t->kube_lists, now);
    kube_after_turn(t->kube, now);
    if (t->feed != NULL)
        catalog_feed_after_turn(t->feed, now);
}

/* permit asks upstream when its last answer is too old, and knows it a moment later. A listener that needs auth must
 * know it now; the others should have known it a short time before upstream is lost (regime.h). */
static void look_at_auth(struct etcd_parts *t, uint64_t now)
{
    if (now < t->auth_due_ms)
        return;
    enum permit_auth auth = permit_auth(t->permit, now);
    if (!t->opts.needs_auth) {
        t->auth_due_ms = now + t->opts.rights_period_ms / 2;
        return;
    }
    t->auth_due_ms = now + (auth == PERMIT_AUTH_UNKNOWN ? AUTH_WAIT_MS : AUTH_LOOK_MS);
    if (auth == PERMIT_AUTH_UNKNOWN)
        return;
    t->auth = auth;
    route_set_auth(t->route, auth);
}

static void on_look(struct worker_parts *parts, uint64_t now)
{
    struct etcd_parts *t = etcd_of(parts);
    t->published = atomic_load_explicit(&t->opts.standing->published_rev, memory_order_acquire);
    t->published_ns = atomic_load_explicit(&t->opts.standing->published_ns, memory_order_relaxed);
    look_at_standing(t);
    look_at_term(t);
    look_at_auth(t, now);
    permit_turn(t->permit, now); /* before anything is written: rights end by the clock */
}

static bool streams_are_learning(const struct etcd_parts *t)
{
    return watch_is_going_round(t->watch) || sse_streams_are_going_round(sse_streams(t->sse)) ||
           (t->kube != NULL && kube_is_going_round(t->kube));
}

static bool on_deliver(struct worker_parts *parts, uint64_t now)
{
    struct etcd_parts *t = etcd_of(parts);
    bool more = streams_are_learning(t) || worker_turn(t->worker, now, TURN_WORK);
    ask_for_history(t);
    watch_after_turn(t->watch, now);
    route_end_late(t->route, now);
    reads_see_past(t->reads, worker_past(t->worker), worker_rewritten(t->worker));
    reads_turn(t->reads);
    look_after_kube(t, now);
    sse_streams_after_turn(sse_streams(t->sse), now);
    return more;
}

/* A flush may make room for a next part. */
static bool on_rest(struct worker_parts *parts)
{
    return reads_wait(etcd_of(parts)->reads);
}

static uint64_t on_due(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_of(parts);
    uint64_t due = belfry_min_time(worker_due(t->worker), watch_due(t->watch));
    due = belfry_min_time(due, t->auth_due_ms);
    due = belfry_min_time(due, belfry_min_time(route_due(t->route), sse_streams_due(sse_streams(t->sse))));
    if (t->kube != NULL)
        due = belfry_min_time(due, belfry_min_time(kube_due(t->kube), kube_lists_due(t->kube_lists)));
    return t->feed == NULL ? due : belfry_min_time(due, catalog_feed_due(t->feed));
}

static void on_set_times(struct worker_parts *parts, const struct limits_times *times)
{
    struct etcd_parts *t = etcd_of(parts);
    watch_set_times(t->watch, times->message_ms, times->unread_ms);
    route_set_message_time(t->route, times->message_ms);
    relay_set_pace(t->relay, times->message_ms);
    sse_streams_set_unread_time(sse_streams(t->sse), times->unread_ms);
    if (t->kube != NULL)
        kube_set_unread_time(t->kube, times->unread_ms);
}

static void on_announce_drain(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_of(parts);
    route_drain(t->route);
    if (t->kube != NULL)
        kube_announce_drain(t->kube);
}

static void on_drain(struct worker_parts *parts, uint64_t now, uint64_t drain_ms)
{
    struct etcd_parts *t = etcd_of(parts);
    watch_drain(t->watch, now, drain_ms);
    sse_streams_drain(sse_streams(t->sse), now, drain_ms);
    if (t->kube != NULL)
        kube_drain(t->kube, now, drain_ms);
}

/* ---- numbers ---- */

/* What is half sent to many is counted for each and is there once: it tells nothing of memory. */
static void on_weigh(struct worker_parts *parts, struct worker_parts_weight *out)
{
    struct etcd_parts *t = etcd_of(parts);
    struct worker_stats core;
    struct permit_stats permit;
    worker_stats(t->worker, &core);
    permit_stats(t->permit, &permit);
    *out = (struct worker_parts_weight){
        .watchers = core.watchers, .bytes = core.bytes - core.rest_bytes + permit.rights.bytes, .auth = t->auth};
}

static void on_count(struct worker_parts *parts, struct worker_numbers *numbers)
{
    struct etcd_parts *t = etcd_of(parts);
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

static enum belfry_err on_scan(struct worker_parts *parts, const struct watchers_query *query,
                               struct watchers_scan **out)
{
    struct etcd_parts *t = etcd_of(parts);
    int64_t head = atomic_load_explicit(&t->opts.standing->published_rev, memory_order_relaxed);
    enum belfry_err err = watchers_scan_create(query, t->watch, t->worker, head, belfry_clock_ms(), out);
    if (err != BELFRY_OK)
        return err;
    watchers_scan_sse(*out, sse_streams(t->sse));
    if (t->kube != NULL)
        watchers_scan_kube(*out, t->kube);
    return BELFRY_OK;
}

/* ---- what lives there ---- */

static enum belfry_err create_core(struct etcd_parts *t)
{
    struct worker_opts opts = {.log = t->opts.log,
                               .number = t->opts.number,
                               .seed = t->opts.seed,
                               .fragment_bytes = FRAGMENT_BYTES,
                               .response_bytes = RESPONSE_BYTES,
                               .response_revs = RESPONSE_REVS,
                               .segment_bytes = SEGMENTS_BYTES,
                               .memory_max = t->opts.memory_max,
                               .progress_ms = t->opts.progress_ms,
                               .write = watch_write,
                               .attribute = t->kube == NULL ? NULL : kube_attribute,
                               .attribute_user = t->kube};
    return worker_create(&opts, &t->worker);
}

static enum belfry_err create_vouch(struct etcd_parts *t, uv_loop_t *loop)
{
    if (t->opts.vouch == NULL)
        return BELFRY_OK;
    struct vouch_opts vouch = *t->opts.vouch;
    vouch.uplink = t->uplink;
    vouch.loop = loop;
    return vouch_create(&vouch, &t->vouch);
}

static enum belfry_err create_reads(struct etcd_parts *t, uv_loop_t *loop)
{
    enum belfry_err err = read_points_create(t->opts.ingest, t->host.thread, &t->points_source);
    if (err == BELFRY_OK)
        err = points_create(t->points_source, &t->points);
    struct reads_opts reads = {.store = t->opts.store,
                               .permit = t->permit,
                               .points = t->points,
                               .term = t->opts.term,
                               .scope = t->opts.scope,
                               .loop = loop};
    return err != BELFRY_OK ? err : reads_create(&reads, &t->reads);
}

static enum belfry_err create_upstream_side(struct etcd_parts *t, uv_loop_t *loop)
{
    const struct etcd_parts_opts *opts = &t->opts;
    struct uplink_opts uplink = {.loop = loop,
                                 .endpoints = opts->upstream,
                                 .n_endpoints = opts->n_upstream,
                                 .tls = opts->upstream_tls,
                                 .dial_timeout_ms = DIAL_MS,
                                 .via = opts->name,
                                 .seed = opts->seed,
                                 .log = opts->log_lines};
    enum belfry_err err = belfry_dns_create(loop, &t->dns);
    uplink.dns = t->dns;
    if (err == BELFRY_OK)
        err = uplink_create(&uplink, &t->uplink);
    if (err == BELFRY_OK)
        err = create_vouch(t, loop);
    struct permit_opts permit = {.uplink = t->uplink,
                                 .vouch = t->vouch,
                                 .loop = loop,
                                 .n_members = opts->n_upstream,
                                 .period_ms = opts->rights_period_ms,
                                 .idle_max = opts->memory_max / RIGHTS_SHARE,
                                 .seed = opts->seed,
                                 .answers = opts->answers,
                                 .log = opts->log_lines};
    if (err == BELFRY_OK)
        err = permit_create(&permit, &t->permit);
    if (err == BELFRY_OK)
        err = create_reads(t, loop);
    struct relay_opts relay = {.uplink = t->uplink,
                               .permit = t->permit,
                               .vouch = t->vouch,
                               .reads = t->reads,
                               .term = opts->term,
                               .advertise = opts->advertise,
                               .pace_ms = t->host.times.message_ms,
                               .period_ms = opts->rights_period_ms,
                               .log = opts->log_lines};
    return err != BELFRY_OK ? err : relay_create(&relay, &t->relay);
}

static enum belfry_err create_sse(struct etcd_parts *t, uv_loop_t *loop)
{
    struct etcd_fence_opts fence = {.uplink = t->uplink, .permit = t->permit, .vouch = t->vouch, .loop = loop};
    enum belfry_err err = etcd_fence_create(&fence, &t->fence);
    struct sse_opts sse = {.streams = {.permit = t->permit,
                                       .fence = t->fence,
                                       .store = t->opts.store,
                                       .now = t->host.now,
                                       .work = t->host.work,
                                       .user = t->host.user,
                                       .seed = t->opts.seed,
                                       .memory_max = t->opts.memory_max,
                                       .unread_ms = t->host.times.unread_ms,
                                       .tickets = t->opts.tickets,
                                       .log = t->opts.log_lines},
                           .scope = t->opts.scope,
                           .origins = t->opts.cors};
    return err != BELFRY_OK ? err : sse_create(&sse, &t->sse);
}

static enum belfry_err create_kube(struct etcd_parts *t)
{
    if (!t->opts.kube)
        return BELFRY_OK;
    enum belfry_err err = kube_reader_create(t->opts.history, NULL, t->host.thread, &t->kube_reader);
    struct kube_lists_opts lists = {.reader = t->kube_reader,
                                    .fence = t->fence,
                                    .now = t->host.now,
                                    .user = t->host.user,
                                    .process = t->opts.process};
    if (err == BELFRY_OK)
        err = kube_lists_create(&lists, &t->kube_lists);
    struct kube_service_opts kube = {.permit = t->permit,
                                     .fence = t->fence,
                                     .lists = t->kube_lists,
                                     .now = t->host.now,
                                     .work = t->host.work,
                                     .user = t->host.user,
                                     .seed = t->opts.seed,
                                     .scope = t->opts.scope,
                                     .memory_max = t->opts.memory_max,
                                     .unread_ms = t->host.times.unread_ms,
                                     .log = t->opts.log_lines};
    return err != BELFRY_OK ? err : kube_create(&kube, &t->kube);
}

static enum belfry_err create_feed(struct etcd_parts *t)
{
    if (t->opts.feed == NULL)
        return BELFRY_OK;
    struct catalog_feed_opts feed = *t->opts.feed;
    feed.thread = t->host.thread;
    feed.worker = t->worker;
    return catalog_feed_create(&feed, &t->feed);
}

static void etcd_parts_on_about(struct about *out, void *user)
{
    struct etcd_parts *t = user;
    standing_about(t->opts.standing, out);
    snprintf(out->self.name, sizeof(out->self.name), "%s", t->opts.name);
    snprintf(out->self.version, sizeof(out->self.version), "belfryd/" BELFRY_VERSION); /* known before anything else */
}

static uint64_t etcd_parts_on_now(void *user)
{
    struct etcd_parts *t = user;
    return t->host.now(t->host.user);
}

static enum belfry_err create_client_side(struct etcd_parts *t, uv_loop_t *loop)
{
    struct watch_service_opts watch = {.permit = t->permit,
                                       .now = t->host.now,
                                       .seed = t->opts.seed,
                                       .scope = t->opts.scope,
                                       .memory_max = t->opts.memory_max,
                                       .message_ms = t->host.times.message_ms,
                                       .unread_ms = t->host.times.unread_ms,
                                       .work = t->host.work,
                                       .user = t->host.user,
                                       .log = t->opts.log_lines};
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
                               .name = t->opts.name,
                               .hosts = t->opts.hosts,
                               .cors = t->opts.cors,
                               .message_ms = t->host.times.message_ms,
                               .now = etcd_parts_on_now,
                               .about = etcd_parts_on_about,
                               .user = t};
    err = route_create(&route, &t->route);
    gateway_set_methods(t->gateway, route_begin_method, t->route);
    return err;
}

/* Clients learn how it ended, and resume. */
static void on_end(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_of(parts);
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
static void on_destroy(struct worker_parts *parts)
{
    struct etcd_parts *t = etcd_of(parts);
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

static void on_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    route_begin(x, head, etcd_of(user)->route);
}

static const struct worker_parts_api etcd_parts_api = {.begin = on_begin,
                                                       .look = on_look,
                                                       .deliver = on_deliver,
                                                       .rest = on_rest,
                                                       .settled = on_settled,
                                                       .due = on_due,
                                                       .set_times = on_set_times,
                                                       .announce_drain = on_announce_drain,
                                                       .drain = on_drain,
                                                       .weigh = on_weigh,
                                                       .count = on_count,
                                                       .scan = on_scan,
                                                       .end = on_end,
                                                       .destroy = on_destroy};

enum belfry_err etcd_parts_create(const void *opts, const struct worker_parts_host *host, struct worker_parts **out)
{
    struct etcd_parts *t = calloc(1, sizeof(*t));
    uv_loop_t *loop = thread_loop(host->thread);
    if (t == NULL)
        return BELFRY_ERR_NOMEM;
    t->parts.api = &etcd_parts_api;
    t->opts = *(const struct etcd_parts_opts *)opts;
    t->host = *host;
    enum belfry_err err = create_upstream_side(t, loop);
    if (err == BELFRY_OK)
        err = create_sse(t, loop);
    if (err == BELFRY_OK)
        err = create_kube(t);
    if (err == BELFRY_OK)
        err = create_core(t);
    if (err == BELFRY_OK)
        err = create_feed(t);
    if (err == BELFRY_OK)
        err = create_client_side(t, loop);
    if (err != BELFRY_OK) {
        on_end(&t->parts);
        on_destroy(&t->parts);
        return err;
    }
    *out = &t->parts;
    return BELFRY_OK;
}

/* ---- what comes by mail ---- */

static struct etcd_parts *etcd_of_owner(void *owner)
{
    return owner == NULL ? NULL : etcd_of(worker_thread_parts(owner));
}

static void open_fetched(struct mail *mail, void *owner)
{
    struct history_reader_job *job = belfry_container(mail, struct history_reader_job, mail);
    struct etcd_parts *t = etcd_of_owner(owner);
    if (t != NULL) {
        worker_fetched(t->worker, &job->fetch, job->err, job->segment, job->compact_rev, job->oldest);
        job->segment = NULL;
    }
    history_reader_job_free(job);
}

void etcd_parts_fetched(struct worker_thread *thread, struct history_reader_job *job)
{
    job->mail.open = open_fetched;
    worker_thread_post(thread, &job->mail);
}

struct catalog_order {
    struct mail mail;
    struct kube_catalog *catalog; /* one reference */
    enum kube_catalog_extent extent;
};

static void open_catalog(struct mail *mail, void *owner)
{
    struct catalog_order *order = belfry_container(mail, struct catalog_order, mail);
    struct etcd_parts *t = etcd_of_owner(owner);
    if (t != NULL)
        kube_set_catalog(t->kube, order->catalog, order->extent);
    kube_catalog_unref(order->catalog);
    free(order);
}

enum belfry_err etcd_parts_set_catalog(struct worker_thread *thread, struct kube_catalog *catalog,
                                       enum kube_catalog_extent extent)
{
    struct catalog_order *order = calloc(1, sizeof(*order));
    if (order == NULL) {
        kube_catalog_unref(catalog);
        return BELFRY_ERR_NOMEM;
    }
    *order = (struct catalog_order){.mail.open = open_catalog, .catalog = catalog, .extent = extent};
    worker_thread_post(thread, &order->mail);
    return BELFRY_OK;
}
