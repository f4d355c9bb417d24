/* src/daemon/worker_thread.c */
#include "daemon/worker_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/read_points.h"
#include "daemon/slack.h"
#include "serve/kube/kube_reader.h"
#include "serve/reads/reads.h"
#include "serve/rights/etcd_fence.h"
#include "server/inbound.h"
#include "thread/thread.h"

#define TURN_WORK      1024 /* units of the core's work a turn: a millisecond when each is another connection */
#define SCAN_VISITS    256  /* watchers or clients between two looks at the clock */
#define SCAN_NS        500000
#define SEGMENTS_BYTES (8 * 1024 * 1024) /* kept for watchers that are behind */
#define DIAL_MS        2000
#define FRAGMENT_BYTES (2 * 1024 * 1024)
#define RESPONSE_BYTES (1024 * 1024)
#define RESPONSE_REVS  1000
#define LEAVE_MS       20   /* between two steps of sending connections away */
#define AUTH_LOOK_MS   1000 /* between two looks whether auth is on upstream */
#define AUTH_WAIT_MS   50   /* while that is being asked */
#define RIGHTS_SHARE   4    /* rights a quarter */

struct worker_thread {
    /* fixed at creation */
    struct worker_thread_opts opts;
    struct thread *thread;
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
    struct inbound_group *inbound;
    struct worker *worker;
    uv_prepare_t prepare;      /* the end of a turn */
    uv_idle_t idle;            /* runs while there is more to do, so that the loop does not block */
    bool stale;                /* as the core knows it */
    struct limits_view limits; /* in force */
    unsigned limits_version;
    bool due;         /* the core was given something to do since its last turn began */
    uv_timer_t timer; /* until the next thing is due */
    uint64_t timer_due;
    uint64_t standing_turn;
    struct response_identity identity; /* as the core knows it */
    struct belfry_list scans;          /* of worker_thread_ask.mail.node */
    int64_t measured;                  /* the revision whose latency was noted last */
    struct latency latency;
    uint64_t turn_ended_ns, idle_ns; /* the end of the last turn; how long the loop had been blocked by then */
    uint64_t turns, longest_us;
    struct slack slack;                   /* of the core and of connections */
    uint64_t auth_due_ms;                 /* when to look whether auth is on upstream; BELFRY_NEVER: no need */
    bool leaving;                         /* draining: connections are being shut, n_left of n_leaving so far */
    uint64_t leaving_from_ms, leaving_ms; /* when that began, and how long it takes */
    uint64_t drain_end_ms;                /* streams end between then and this */
    uint64_t leaving_newest;              /* later connections than this are served as before */
    size_t n_leaving, n_left;
    /* any */
    _Atomic size_t watchers, connections, coming; /* coming: handed over and not there yet */
    _Atomic enum permit_auth auth;                /* written by the thread; nothing else depends on it */
};

/* ---- a turn ---- */

/* What etcd calls the version of a cluster: its members' without the last number. */
static void cluster_version(const char *server, char *out, size_t out_len)
{
    unsigned major, minor;
    out[0] = '\0';
    if (sscanf(server, "%u.%u.", &major, &minor) == 2)
        snprintf(out, out_len, "%u.%u.0", major, minor);
}

static void look_at_standing(struct worker_thread *t)
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
    reads_stand(t->reads, reads_as[view.how], &view.identity);
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
static void look_at_term(struct worker_thread *t)
{
    uint64_t raft_term = term_now(t->opts.term);
    if (raft_term == t->identity.raft_term)
        return;
    t->identity.raft_term = raft_term;
    worker_set_identity(t->worker, &t->identity);
    watch_tell_tiers(t->watch);
}

static void ask_for_history(struct worker_thread *t)
{
    struct worker_fetch fetch;
    while (worker_wants_fetch(t->worker, &fetch)) {
        enum belfry_err err = history_reader_ask(*t->opts.history, t->opts.number, &fetch);
        if (err != BELFRY_OK)
            worker_fetched(t->worker, &fetch, err, NULL, 0, 0);
    }
}

/* Notes how long the newest revision took, once all riding streams have it. */
static void note_latency(struct worker_thread *t, int64_t rev, uint64_t published_ns)
{
    if (rev == t->measured || worker_position(t->worker) < rev)
        return;
    t->measured = rev;
    uint64_t now = belfry_clock_ns();
    double seconds = now > published_ns ? (double)(now - published_ns) / 1e9 : 0;
    size_t bucket = 0;
    for (double bound = 0.0001; bucket < LATENCY_BUCKETS && seconds > bound; bucket++)
        bound *= 2;
    t->latency.buckets[bucket]++;
    t->latency.count++;
    t->latency.sum_s += seconds;
}

static void send_back(struct worker_thread_ask *ask)
{
    ask->mail.open = ask->back;
    mailbox_post(ask->to, &ask->mail);
}

static bool scan_step(struct worker_thread_ask *ask)
{
    return ask->clients != NULL ? clients_scan_step(ask->clients, SCAN_VISITS)
                                : watchers_scan_step(ask->scan, SCAN_VISITS);
}

/* Goes on with the first question about watchers or clients. True: there is more to do. */
static bool scan_some(struct worker_thread *t)
{
    if (belfry_list_empty(&t->scans))
        return false;
    struct worker_thread_ask *ask = belfry_container(t->scans.next, struct worker_thread_ask, mail.node);
    uint64_t until = belfry_clock_ns() + SCAN_NS;
    bool done = false;
    while (!done && belfry_clock_ns() < until)
        done = scan_step(ask);
    if (done) {
        belfry_list_remove(&ask->mail.node);
        send_back(ask);
    }
    return !belfry_list_empty(&t->scans);
}

static void set_timer(struct worker_thread *t, uint64_t due, uint64_t now);

/* The load is for the front to see; watchers and connections that have gone leave memory that the kernel can have.
 * What is half sent to many is counted for each and is there once: it tells nothing of that. */
static void take_stock(struct worker_thread *t, uint64_t now)
{
    struct worker_stats core;
    struct inbound_stats inbound;
    struct permit_stats permit;
    worker_stats(t->worker, &core);
    inbound_stats(t->inbound, &inbound);
    permit_stats(t->permit, &permit);
    atomic_store_explicit(&t->watchers, core.watchers, memory_order_relaxed);
    atomic_store_explicit(&t->connections, inbound.connections, memory_order_relaxed);
    if (slack_seen(&t->slack, core.bytes - core.rest_bytes + inbound.bytes + permit.rights.bytes, now))
        slack_give_back();
}

static void look_after_kube(struct worker_thread *t, uint64_t now)
{
    if (t->kube == NULL)
        return;
    if (kube_lists_due(t->kube_lists) <= now)
        kube_lists_tick(t->kube_lists, now);
    kube_after_turn(t->kube, now);
    if (t->feed != NULL)
        catalog_feed_after_turn(t->feed, now);
}

/* permit asks upstream when its last answer is too old, and knows it a moment later. */
static void look_at_auth(struct worker_thread *t, uint64_t now)
{
    if (now < t->auth_due_ms)
        return;
    enum permit_auth auth = permit_auth(t->permit, now);
    t->auth_due_ms = now + (auth == PERMIT_AUTH_UNKNOWN ? AUTH_WAIT_MS : AUTH_LOOK_MS);
    if (auth == PERMIT_AUTH_UNKNOWN)
        return;
    atomic_store_explicit(&t->auth, auth, memory_order_relaxed);
    route_set_auth(t->route, auth);
}

/* Of connections that were sent away. */
static void end_streams(struct worker_thread *t, uint64_t now, uint64_t end_ms)
{
    uint64_t left = end_ms > now ? end_ms - now : 0;
    watch_drain(t->watch, now, left);
    sse_streams_drain(sse_streams(t->sse), now, left);
    if (t->kube != NULL)
        kube_drain(t->kube, now, left);
}

/* Clients connect elsewhere as soon as their connection is shut: one after another, over the first half of the drain.
 * Their streams end over the second half, and find the new connection there. A connection that was not sent away yet is
 * served as before. So is one that came after the drain began: otherwise a client without another tier would be sent
 * away again and again. */
static void send_away(struct worker_thread *t, uint64_t now)
{
    uint64_t passed = now - t->leaving_from_ms;
    if (passed >= t->leaving_ms) {
        t->leaving = false;
        (void)inbound_shut(t->inbound, t->leaving_newest, SIZE_MAX); /* all that are left */
        end_streams(t, now, t->drain_end_ms);
        return;
    }
    size_t by_now = t->n_leaving * passed / t->leaving_ms;
    (void)inbound_shut(t->inbound, t->leaving_newest,
                       by_now - t->n_left); /* whether there are more: we come again anyway */
    t->n_left = by_now;
}

/* When a turn is due even if nothing happens. */
static uint64_t next_due(const struct worker_thread *t, uint64_t now)
{
    uint64_t due = belfry_min_time(worker_due(t->worker), watch_due(t->watch));
    due = belfry_min_time(due, belfry_min_time(slack_due(&t->slack), t->auth_due_ms));
    due = belfry_min_time(due, belfry_min_time(route_due(t->route), sse_streams_due(sse_streams(t->sse))));
    if (t->leaving)
        due = belfry_min_time(due, now + LEAVE_MS);
    if (t->kube != NULL)
        due = belfry_min_time(due, belfry_min_time(kube_due(t->kube), kube_lists_due(t->kube_lists)));
    return t->feed == NULL ? due : belfry_min_time(due, catalog_feed_due(t->feed));
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* its being there is all */
}

static bool streams_are_learning(const struct worker_thread *t)
{
    return watch_is_going_round(t->watch) || sse_streams_are_going_round(sse_streams(t->sse)) ||
           (t->kube != NULL && kube_is_going_round(t->kube));
}

/* A turn is all that happened since the last one ended, reads of sockets included, but for the time that the loop was
 * blocked. */
static void note_turn(struct worker_thread *t)
{
    uint64_t now_ns = belfry_clock_ns(), idle_ns = uv_metrics_idle_time(t->prepare.loop);
    uint64_t all_ns = now_ns - t->turn_ended_ns, blocked_ns = idle_ns - t->idle_ns;
    uint64_t busy_us = all_ns > blocked_ns ? (all_ns - blocked_ns) / 1000 : 0;
    t->turn_ended_ns = now_ns;
    t->idle_ns = idle_ns;
    t->turns++;
    t->longest_us = busy_us > t->longest_us ? busy_us : t->longest_us;
}

/* New limits and times, from the configuration that was read again. */
static void apply_limits(struct worker_thread *t)
{
    const struct limits_times *times = &t->limits.times;
    inbound_set_limits(t->inbound, &t->limits.shares);
    inbound_set_times(t->inbound, &(struct inbound_times){times->greet_ms, times->idle_ms, times->unread_ms});
    watch_set_times(t->watch, times->message_ms, times->unread_ms);
    route_set_message_time(t->route, times->message_ms);
    relay_set_pace(t->relay, times->message_ms);
    sse_streams_set_unread_time(sse_streams(t->sse), times->unread_ms);
    if (t->kube != NULL)
        kube_set_unread_time(t->kube, times->unread_ms);
}

static void worker_thread_on_prepare(uv_prepare_t *prepare)
{
    struct worker_thread *t = prepare->data;
    uint64_t now = belfry_clock_ms();
    int64_t published = atomic_load_explicit(&t->opts.standing->published_rev, memory_order_acquire);
    uint64_t published_ns = atomic_load_explicit(&t->opts.standing->published_ns, memory_order_relaxed);
    look_at_standing(t);
    look_at_term(t);
    look_at_auth(t, now);
    t->due = false;              /* from here on: what follows may find room for waiting streams */
    permit_turn(t->permit, now); /* before anything is written: rights end by the clock */
    bool more = streams_are_learning(t) || worker_turn(t->worker, now, TURN_WORK);
    ask_for_history(t);
    watch_after_turn(t->watch, now);
    route_end_late(t->route, now);
    reads_see_past(t->reads, worker_past(t->worker), worker_rewritten(t->worker));
    reads_turn(t->reads);
    look_after_kube(t, now);
    sse_streams_after_turn(sse_streams(t->sse), now);
    if (limits_take(t->opts.limits, &t->limits_version, &t->limits))
        apply_limits(t);
    if (t->leaving)
        send_away(t, now);
    more = inbound_flush(t->inbound, now) || more || reads_wait(t->reads); /* a flush may make room for a next part */
    if (!more)
        note_latency(t, published, published_ns);
    more = scan_some(t) || more || t->due;
    take_stock(t, now);
    set_timer(t, next_due(t, now), now);
    if (more)
        uv_idle_start(&t->idle, on_idle);
    else
        uv_idle_stop(&t->idle);
    note_turn(t);
}

static void worker_thread_on_timer(uv_timer_t *timer)
{
    struct worker_thread *t = timer->data;
    t->timer_due = BELFRY_NEVER; /* the turn it caused does the rest */
}

static void set_timer(struct worker_thread *t, uint64_t due, uint64_t now)
{
    if (due == t->timer_due)
        return;
    t->timer_due = due;
    if (due == BELFRY_NEVER)
        uv_timer_stop(&t->timer);
    else
        uv_timer_start(&t->timer, worker_thread_on_timer, due > now ? due - now : 0, 0);
}

static void on_work(void *user)
{
    struct worker_thread *t = user;
    t->due = true;
    uv_idle_start(&t->idle, on_idle); /* the next prepare comes without blocking */
}

static uint64_t on_now(void *user)
{
    (void)user;
    return belfry_clock_ms();
}

/* ---- what lives there ---- */

static enum belfry_err create_core(struct worker_thread *t)
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

static enum belfry_err create_vouch(struct worker_thread *t, uv_loop_t *loop)
{
    if (t->opts.vouch == NULL)
        return BELFRY_OK;
    struct vouch_opts vouch = *t->opts.vouch;
    vouch.uplink = t->uplink;
    vouch.loop = loop;
    return vouch_create(&vouch, &t->vouch);
}

static enum belfry_err create_reads(struct worker_thread *t, uv_loop_t *loop)
{
    enum belfry_err err = read_points_create(t->opts.ingest, t->thread, &t->points_source);
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

static enum belfry_err create_upstream_side(struct worker_thread *t, uv_loop_t *loop)
{
    const struct worker_thread_opts *opts = &t->opts;
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
                                 .bytes_max = opts->memory_max / RIGHTS_SHARE,
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
                               .pace_ms = t->limits.times.message_ms,
                               .period_ms = opts->rights_period_ms,
                               .log = opts->log_lines};
    return err != BELFRY_OK ? err : relay_create(&relay, &t->relay);
}

static enum belfry_err create_sse(struct worker_thread *t, uv_loop_t *loop)
{
    struct etcd_fence_opts fence = {.uplink = t->uplink, .permit = t->permit, .vouch = t->vouch, .loop = loop};
    enum belfry_err err = etcd_fence_create(&fence, &t->fence);
    struct sse_opts sse = {.streams = {.permit = t->permit,
                                       .fence = t->fence,
                                       .store = t->opts.store,
                                       .now = on_now,
                                       .work = on_work,
                                       .user = t,
                                       .seed = t->opts.seed,
                                       .memory_max = t->opts.memory_max,
                                       .unread_ms = t->limits.times.unread_ms,
                                       .tickets = t->opts.tickets,
                                       .log = t->opts.log_lines},
                           .scope = t->opts.scope,
                           .origins = t->opts.cors};
    return err != BELFRY_OK ? err : sse_create(&sse, &t->sse);
}

static enum belfry_err create_kube(struct worker_thread *t)
{
    if (!t->opts.kube)
        return BELFRY_OK;
    enum belfry_err err = kube_reader_create(t->opts.history, t->thread, &t->kube_reader);
    struct kube_lists_opts lists = {
        .reader = t->kube_reader, .fence = t->fence, .now = on_now, .user = t, .process = t->opts.process};
    if (err == BELFRY_OK)
        err = kube_lists_create(&lists, &t->kube_lists);
    struct kube_service_opts kube = {.permit = t->permit,
                                     .fence = t->fence,
                                     .lists = t->kube_lists,
                                     .now = on_now,
                                     .work = on_work,
                                     .user = t,
                                     .seed = t->opts.seed,
                                     .scope = t->opts.scope,
                                     .memory_max = t->opts.memory_max,
                                     .unread_ms = t->limits.times.unread_ms,
                                     .log = t->opts.log_lines};
    return err != BELFRY_OK ? err : kube_create(&kube, &t->kube);
}

static enum belfry_err create_feed(struct worker_thread *t)
{
    if (t->opts.feed == NULL)
        return BELFRY_OK;
    struct catalog_feed_opts feed = *t->opts.feed;
    feed.thread = t->thread;
    feed.worker = t->worker;
    return catalog_feed_create(&feed, &t->feed);
}

static void worker_thread_on_about(struct about *out, void *user)
{
    struct worker_thread *t = user;
    standing_about(t->opts.standing, out);
    snprintf(out->self.name, sizeof(out->self.name), "%s", t->opts.name);
    snprintf(out->self.version, sizeof(out->self.version), "belfryd/" BELFRY_VERSION); /* known before anything else */
}

static enum belfry_err create_client_side(struct worker_thread *t, uv_loop_t *loop)
{
    struct watch_service_opts watch = {.permit = t->permit,
                                       .now = on_now,
                                       .seed = t->opts.seed,
                                       .scope = t->opts.scope,
                                       .memory_max = t->opts.memory_max,
                                       .message_ms = t->limits.times.message_ms,
                                       .unread_ms = t->limits.times.unread_ms,
                                       .work = on_work,
                                       .user = t,
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
                               .message_ms = t->limits.times.message_ms,
                               .now = on_now,
                               .about = worker_thread_on_about,
                               .user = t};
    err = route_create(&route, &t->route);
    gateway_set_methods(t->gateway, route_begin_method, t->route);
    struct inbound_opts inbound = {.loop = loop,
                                   .begin = route_begin,
                                   .user = t->route,
                                   .max_streams = t->opts.max_streams,
                                   .limits = t->limits.shares,
                                   .seed = t->opts.clients_seed,
                                   .is_tier = listen_policy_is_tier,
                                   .greet_ms = t->limits.times.greet_ms,
                                   .idle_ms = t->limits.times.idle_ms,
                                   .unread_ms = t->limits.times.unread_ms,
                                   .check_ms = t->opts.rights_period_ms,
                                   .log = t->opts.log_lines};
    return err != BELFRY_OK ? err : inbound_create(&inbound, &t->inbound);
}

/* Takes down what exists: first the parts that send clients a last message, so that they know how it ended and resume;
 * then what carries those messages; then users before what they use. No request begins meanwhile: a connection that
 * was shut drops those that were pipelined. */
static void destroy_parts(struct worker_thread *t)
{
    if (t->inbound != NULL)
        (void)inbound_shut(t->inbound, INBOUND_ALL, SIZE_MAX);
    if (t->relay != NULL)
        relay_end_all(t->relay, "belfry: stopping");
    route_destroy(t->route);
    watch_destroy(t->watch);
    catalog_feed_destroy(t->feed);
    sse_destroy(t->sse);
    kube_destroy(t->kube);
    kube_lists_destroy(t->kube_lists);
    while (t->inbound != NULL && inbound_flush(t->inbound, belfry_clock_ms()))
        ;
    inbound_destroy(t->inbound);
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
}

static enum belfry_err worker_thread_begin(struct thread *thread, void *user)
{
    struct worker_thread *t = user;
    uv_loop_t *loop = thread_loop(thread);
    belfry_list_init(&t->scans);
    t->timer_due = BELFRY_NEVER;
    t->auth_due_ms = t->opts.needs_auth ? 0 : BELFRY_NEVER;
    t->thread = thread;
    (void)limits_take(t->opts.limits, &t->limits_version, &t->limits);
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
        destroy_parts(t);
        return err;
    }
    uv_prepare_init(loop, &t->prepare);
    uv_idle_init(loop, &t->idle);
    uv_timer_init(loop, &t->timer);
    t->prepare.data = t->idle.data = t->timer.data = t;
    uv_prepare_start(&t->prepare, worker_thread_on_prepare);
    uv_loop_configure(loop, UV_METRICS_IDLE_TIME); /* note_turn() */
    t->turn_ended_ns = belfry_clock_ns();
    return BELFRY_OK;
}

static void drop_scans(struct worker_thread *t)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&t->scans)) != NULL;) {
        struct worker_thread_ask *ask = belfry_container(node, struct worker_thread_ask, mail.node);
        watchers_scan_destroy(ask->scan);
        clients_scan_destroy(ask->clients);
        ask->scan = NULL;
        ask->clients = NULL;
        send_back(ask);
    }
}

static void worker_thread_end(struct thread *thread, void *user)
{
    (void)thread;
    struct worker_thread *t = user;
    drop_scans(t);
    destroy_parts(t); /* before the handles: parts on their way out may still ask for a turn */
    uv_close((uv_handle_t *)&t->prepare, NULL);
    uv_close((uv_handle_t *)&t->idle, NULL);
    uv_close((uv_handle_t *)&t->timer, NULL);
}

enum belfry_err worker_thread_start(const struct worker_thread_opts *opts, struct worker_thread **out)
{
    static const struct thread_part part = {"belfry-worker", worker_thread_begin, worker_thread_end};
    struct worker_thread *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return BELFRY_ERR_NOMEM;
    t->opts = *opts;
    enum belfry_err err = thread_start(&part, t, &t->thread);
    if (err != BELFRY_OK) {
        free(t);
        return err;
    }
    *out = t;
    return BELFRY_OK;
}

void worker_thread_stop(struct worker_thread *thread)
{
    if (thread != NULL)
        thread_stop(thread->thread);
}

void worker_thread_destroy(struct worker_thread *thread)
{
    if (thread == NULL)
        return;
    thread_destroy(thread->thread);
    free(thread);
}

void worker_thread_wake(struct worker_thread *thread)
{
    thread_wake(thread->thread);
}

/* ---- what comes by mail ---- */

struct arrival_mail {
    struct mail mail;
    struct worker_thread *thread;
    struct inbound_arrival arrival;
};

static void open_arrival(struct mail *mail, void *owner)
{
    struct arrival_mail *coming = belfry_container(mail, struct arrival_mail, mail);
    struct worker_thread *t = owner;
    atomic_fetch_sub_explicit(&coming->thread->coming, 1, memory_order_relaxed);
    if (t == NULL)
        close(coming->arrival.fd);
    else
        belfry_ignore(inbound_accept(t->inbound, &coming->arrival, belfry_clock_ms())); /* the peer sees it closed */
    free(coming);
}

void worker_thread_accept(struct worker_thread *thread, const struct inbound_arrival *arrival)
{
    struct arrival_mail *coming = calloc(1, sizeof(*coming));
    if (coming == NULL) {
        close(arrival->fd);
        return;
    }
    *coming = (struct arrival_mail){.mail.open = open_arrival, .thread = thread, .arrival = *arrival};
    atomic_fetch_add_explicit(&thread->coming, 1, memory_order_relaxed);
    thread_post(thread->thread, &coming->mail);
}

size_t worker_thread_connections(const struct worker_thread *thread)
{
    return atomic_load_explicit(&thread->connections, memory_order_relaxed) +
           atomic_load_explicit(&thread->coming, memory_order_relaxed);
}

size_t worker_thread_load(const struct worker_thread *thread)
{
    return atomic_load_explicit(&thread->watchers, memory_order_relaxed) + worker_thread_connections(thread);
}

enum permit_auth worker_thread_auth(const struct worker_thread *thread)
{
    return atomic_load_explicit(&thread->auth, memory_order_relaxed);
}

static void open_fetched(struct mail *mail, void *owner)
{
    struct history_reader_job *job = belfry_container(mail, struct history_reader_job, mail);
    struct worker_thread *t = owner;
    if (t != NULL) {
        worker_fetched(t->worker, &job->fetch, job->err, job->segment, job->compact_rev, job->oldest);
        job->segment = NULL;
    }
    history_reader_job_free(job);
}

void worker_thread_fetched(struct worker_thread *thread, struct history_reader_job *job)
{
    job->mail.open = open_fetched;
    thread_post(thread->thread, &job->mail);
}

struct catalog_order {
    struct mail mail;
    struct kube_catalog *catalog; /* one reference */
    enum kube_catalog_extent extent;
};

static void open_catalog(struct mail *mail, void *owner)
{
    struct catalog_order *order = belfry_container(mail, struct catalog_order, mail);
    struct worker_thread *t = owner;
    if (t != NULL)
        kube_set_catalog(t->kube, order->catalog, order->extent);
    kube_catalog_unref(order->catalog);
    free(order);
}

enum belfry_err worker_thread_set_catalog(struct worker_thread *thread, struct kube_catalog *catalog,
                                          enum kube_catalog_extent extent)
{
    struct catalog_order *order = calloc(1, sizeof(*order));
    if (order == NULL) {
        kube_catalog_unref(catalog);
        return BELFRY_ERR_NOMEM;
    }
    *order = (struct catalog_order){.mail.open = open_catalog, .catalog = catalog, .extent = extent};
    thread_post(thread->thread, &order->mail);
    return BELFRY_OK;
}

struct drain_order {
    struct mail mail;
    uint64_t drain_ms;
};

static void open_drain(struct mail *mail, void *owner)
{
    struct drain_order *order = belfry_container(mail, struct drain_order, mail);
    struct worker_thread *t = owner;
    if (t != NULL) {
        uint64_t now = belfry_clock_ms();
        route_drain(t->route);
        if (t->kube != NULL)
            kube_announce_drain(t->kube);
        t->leaving = true;
        t->leaving_from_ms = now;
        t->leaving_ms = order->drain_ms / 2;
        t->drain_end_ms = now + order->drain_ms;
        t->leaving_newest = inbound_newest(t->inbound);
        t->n_leaving = inbound_connections(t->inbound);
        t->n_left = 0;
        send_away(t, now);
    }
    free(order);
}

void worker_thread_drain(struct worker_thread *thread, uint64_t drain_ms)
{
    struct drain_order *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return; /* the end of the period ends them all */
    *order = (struct drain_order){.mail.open = open_drain, .drain_ms = drain_ms};
    thread_post(thread->thread, &order->mail);
}

static void open_farewell(struct mail *mail, void *owner)
{
    struct worker_thread *t = owner;
    if (t != NULL) {
        uint64_t now = belfry_clock_ms();
        t->leaving = false;
        (void)inbound_shut(t->inbound, INBOUND_ALL, SIZE_MAX);
        end_streams(t, now, now);
    }
    free(mail);
}

void worker_thread_farewell(struct worker_thread *thread)
{
    struct mail *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return; /* the end of the period ends them all */
    order->open = open_farewell;
    thread_post(thread->thread, order);
}

static void open_count(struct mail *mail, void *owner)
{
    struct worker_thread_ask *ask = belfry_container(mail, struct worker_thread_ask, mail);
    struct worker_thread *t = owner;
    if (t != NULL) {
        struct worker_numbers *numbers = &ask->numbers;
        worker_stats(t->worker, &numbers->core);
        watch_stats(t->watch, &numbers->watch);
        inbound_stats(t->inbound, &numbers->inbound);
        pools_count(inbound_shares(t->inbound), inbound_alarm(t->inbound), numbers->pools);
        relay_stats(t->relay, &numbers->relay);
        reads_stats(t->reads, &numbers->reads);
        route_stats(t->route, &numbers->route);
        gateway_stats(t->gateway, &numbers->gateway);
        sse_streams_stats(sse_streams(t->sse), &numbers->sse);
        permit_stats(t->permit, &numbers->permit);
        vouch_stats(t->vouch, &numbers->vouch);
        numbers->auth = worker_thread_auth(t);
        uplink_stats(t->uplink, &numbers->uplink);
        if (t->kube != NULL) {
            kube_stats(t->kube, &numbers->kube);
            kube_lists_stats(t->kube_lists, &numbers->kube_lists);
        }
        fence_stats(t->fence, &numbers->fence);
        numbers->below = watch_tiers(t->watch);
        numbers->latency = t->latency;
        numbers->position = worker_position(t->worker);
        numbers->turns = t->turns;
        numbers->longest_turn_us = t->longest_us;
        numbers->answered = true;
        if (!ask->is_sample)
            t->longest_us = 0;
    }
    send_back(ask);
}

void worker_thread_count(struct worker_thread *thread, struct worker_thread_ask *ask)
{
    ask->mail.open = open_count;
    thread_post(thread->thread, &ask->mail);
}

static void open_scan(struct mail *mail, void *owner)
{
    struct worker_thread_ask *ask = belfry_container(mail, struct worker_thread_ask, mail);
    struct worker_thread *t = owner;
    int64_t head = t == NULL ? 0 : atomic_load_explicit(&t->opts.standing->published_rev, memory_order_relaxed);
    if (t == NULL ||
        watchers_scan_create(&ask->query, t->watch, t->worker, head, belfry_clock_ms(), &ask->scan) != BELFRY_OK)
        send_back(ask);
    else {
        watchers_scan_sse(ask->scan, sse_streams(t->sse));
        if (t->kube != NULL)
            watchers_scan_kube(ask->scan, t->kube);
        belfry_list_append(&t->scans, &ask->mail.node);
    }
}

void worker_thread_scan(struct worker_thread *thread, struct worker_thread_ask *ask)
{
    ask->mail.open = open_scan;
    thread_post(thread->thread, &ask->mail);
}

static void open_clients(struct mail *mail, void *owner)
{
    struct worker_thread_ask *ask = belfry_container(mail, struct worker_thread_ask, mail);
    struct worker_thread *t = owner;
    if (t == NULL || clients_scan_create(&ask->clients_query, inbound_shares(t->inbound), &ask->clients) != BELFRY_OK)
        send_back(ask);
    else
        belfry_list_append(&t->scans, &ask->mail.node);
}

void worker_thread_clients(struct worker_thread *thread, struct worker_thread_ask *ask)
{
    ask->mail.open = open_clients;
    thread_post(thread->thread, &ask->mail);
}
