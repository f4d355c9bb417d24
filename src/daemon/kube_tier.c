/* src/daemon/kube_tier.c
 *
 * Two objects: the tier, of which there is one, and the parts of each worker, which live on the worker's thread. The
 * parts find in the tier what is fixed or shared.
 *
 * The parts have a core for each resource that was found, and one front, one way upstream and one permit for all of
 * them. The cores share one bound of memory, and the work of a turn: they take it one after another, and the next turn
 * begins where this one had to stop. A core without anything to do has no turn.
 */
#include "daemon/kube_tier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/owner.h"
#include "daemon/kube_ingest.h"
#include "daemon/kube_upstream.h"
#include "daemon/resource_fence.h"
#include "daemon/resource_standing.h"
#include "daemon/rotation.h"
#include "daemon/seed.h"
#include "daemon/worker_thread.h"
#include "follow/history_reader.h"
#include "kube/builtin.h"
#include "kube/catalog.h"
#include "kube/resource.h"
#include "serve/kfront/kfront.h"
#include "serve/kfront/kfront_fields.h"
#include "serve/kube/kube.h"
#include "serve/kube/kube_reader.h"
#include "serve/rights/permit.h"
#include "serve/rights/reviews.h"

#define SHELF_BYTES       4096               /* nothing is backfilled, so nothing is put there */
#define FORMS_BYTES       (16 * 1024 * 1024) /* of decoded events, of all resources on a worker, */
#define FORMS_BYTES_LEAST (64 * 1024)        /* and for each besides */
#define TURN_WORK         1024               /* units of all cores a turn, as in etcd_tier.c; */
#define SLICE_WORK        128                /* of one core before the next has its turn */
#define SEGMENTS_BYTES    (8 * 1024 * 1024)
#define DIAL_MS           2000
#define FRAGMENT_BYTES    (2 * 1024 * 1024)
#define RESPONSE_BYTES    (1024 * 1024)
#define RESPONSE_REVS     1000
#define RIGHTS_SHARE      16    /* answers about rights that no watch holds: a sixteenth */
#define PERIOD_MOST_MS    10000 /* of rights in front of Kubernetes */

/* From a worker to ingest and back. */
struct route {
    struct kube_tier *tier;
    unsigned worker;
};

struct kube_tier {
    struct tier_parts parts;
    /* fixed */
    struct tier_parts_opts opts;
    struct kube_upstream upstream;
    struct resource_name *names; /* owned */
    struct route *routes;        /* owned; of each worker */
    size_t n;                    /* resources */
    size_t worker_memory;        /* bytes of each worker */
    uint64_t process;            /* kube_lists_opts */
    /* shared between the threads, each by its own rules */
    struct resource_standing *standings; /* owned; of each resource */
    struct history_reader *history;      /* there before the first resource is found */
    struct answers *answers;
    struct kfront_fields *fields;
    struct kube_ingest *ingest;
    /* the front's */
    struct kfront_field relayed[KFRONT_FIELDS_MAX + 1]; /* a copy, for numbers */
    char why[256];                                      /* why ingest did not start */
};

/* One resource on this worker. */
struct kube_core {
    struct kube_parts *parts;
    size_t number;
    struct store *store;
    struct resource_standing *standing;
    struct fence *fence;
    struct kube_reader *reader;
    struct kube_lists *lists;
    struct kube_service *service;
    struct worker *worker;
    const struct kube_resource *resource; /* one reference */
    bool is_answered;                     /* its requests come here; otherwise they are relayed */
    uint64_t standing_turn;
    bool stale;             /* as the worker knows it */
    bool is_due;            /* it was given something to do since its last turn began, or has more to do */
    uint64_t news;          /* of its standing, when its last turn began, */
    int64_t seen;           /* and the version that was published then */
    int64_t measured;       /* the version whose latency was noted last */
    size_t watchers, bytes; /* as of its last turn */
};

/* What a worker serves. */
struct kube_parts {
    struct worker_parts parts;
    /* fixed at creation */
    struct kube_tier *tier;
    unsigned number;
    uint64_t seed;
    struct worker_parts_host host;
    /* the thread's */
    struct belfry_dns *dns;
    struct uplink *uplink;
    struct own_token *own_token;
    struct reviews *reviews;
    struct permit *permit;
    struct kfront *kfront;
    struct worker_memory memory; /* of all cores */
    struct kube_room room;       /* of all services */
    struct kube_core **cores;    /* owned, as each of them, in the order in which they came */
    size_t n_cores;
    struct rotation rotation; /* of the cores */
    struct limits_times times;
    bool announced; /* a drain has begun */
    struct latency latency;
    BELFRY_OWNER;
};

static struct kube_parts *kube_parts_of(struct worker_parts *parts)
{
    return belfry_container(parts, struct kube_parts, parts);
}

static struct kube_tier *kube_tier_of(struct tier_parts *parts)
{
    return belfry_container(parts, struct kube_tier, parts);
}

static const struct config *config_of(const struct kube_parts *t)
{
    return t->tier->opts.config;
}

/* ---- a worker: a turn ---- */

static enum belfry_err core_answer(struct kube_core *core);
static void core_relay(struct kube_core *core);

/* A resource that upstream does not have any more is not answered from here. */
static void core_look(struct kube_core *core)
{
    struct resource_standing_view view;
    if (!resource_standing_look(core->standing, &core->standing_turn, &view))
        return;
    if (view.is_stale != core->stale) /* it looks at every stream */
        worker_set_stale(core->worker, view.is_stale);
    core->stale = view.is_stale;
    kube_stand(core->service, view.is_ready, view.reason);
    core->is_due = true;
    if (view.is_absent)
        core_relay(core);
    else if (core_answer(core) != BELFRY_OK)
        core->standing_turn = 0; /* no memory: the next turn tries again */
}

static void kube_parts_look(struct worker_parts *parts, uint64_t now)
{
    struct kube_parts *t = kube_parts_of(parts);
    BELFRY_OWNER_CHECK(t);
    for (size_t i = 0; i < t->n_cores; i++)
        core_look(t->cores[i]);
    permit_turn(t->permit, now); /* before anything is written: rights end by the clock */
}

struct cores_turn {
    struct kube_parts *parts;
    uint64_t now;
};

/* Watches that are being told something, one after another, take no events meanwhile: kube_after_turn() goes on. */
static bool on_core_wants(size_t number, void *user)
{
    const struct cores_turn *turn = user;
    const struct kube_core *core = turn->parts->cores[number];
    if (kube_is_going_round(core->service))
        return false;
    return core->is_due || core->news != atomic_load_explicit(&core->standing->news, memory_order_acquire) ||
           worker_wants_turn(core->worker) || worker_due(core->worker) <= turn->now;
}

/* Returns what it spent. */
static size_t on_core_turn(size_t number, size_t work, bool *more, void *user)
{
    const struct cores_turn *turn = user;
    struct kube_parts *t = turn->parts;
    struct kube_core *core = t->cores[number];
    core->news = atomic_load_explicit(&core->standing->news, memory_order_acquire);
    core->seen = atomic_load_explicit(&core->standing->published, memory_order_acquire);
    core->is_due = false; /* from here on: what follows may find room for waiting streams */
    if (worker_turn(core->worker, turn->now, work))
        core->is_due = true;

    /* history that its watches want */
    struct worker_fetch fetch;
    while (worker_wants_fetch(core->worker, &fetch)) {
        enum belfry_err err = history_reader_ask_of(t->tier->history, core->store, t->number, &fetch);
        if (err != BELFRY_OK)
            worker_fetched(core->worker, &fetch, err, NULL, 0, 0);
    }

    /* what it weighs, until its next turn */
    struct worker_stats stats;
    worker_stats(core->worker, &stats);
    core->watchers = stats.watchers;
    core->bytes = stats.bytes - stats.rest_bytes;
    *more = core->is_due;
    return worker_spent(core->worker) + 1;
}

static bool kube_parts_deliver(struct worker_parts *parts, uint64_t now)
{
    struct kube_parts *t = kube_parts_of(parts);
    static const struct rotation_ops ops = {on_core_wants, on_core_turn};
    struct cores_turn turn = {.parts = t, .now = now};
    bool more = rotation_run(&t->rotation, t->n_cores, TURN_WORK, SLICE_WORK, &ops, &turn);
    for (size_t i = 0; i < t->n_cores; i++) {
        struct kube_core *core = t->cores[i];
        if (kube_lists_due(core->lists) <= now)
            kube_lists_tick(core->lists, now);
        kube_after_turn(core->service, now);
        more = more || core->is_due || kube_is_going_round(core->service);
    }
    return more;
}

static bool kube_parts_rest(struct worker_parts *parts)
{
    (void)parts;
    return false;
}

static void kube_parts_settled(struct worker_parts *parts)
{
    struct kube_parts *t = kube_parts_of(parts);
    for (size_t i = 0; i < t->n_cores; i++) {
        struct kube_core *core = t->cores[i];
        if (core->seen == core->measured || worker_position(core->worker) < core->seen)
            continue;
        core->measured = core->seen;
        uint64_t published_ns = atomic_load_explicit(&core->standing->published_ns, memory_order_relaxed);
        latency_note(&t->latency, published_ns, belfry_clock_ns());
    }
}

static uint64_t kube_parts_due(struct worker_parts *parts)
{
    struct kube_parts *t = kube_parts_of(parts);
    uint64_t due = BELFRY_NEVER;
    for (size_t i = 0; i < t->n_cores; i++) {
        struct kube_core *core = t->cores[i];
        due = belfry_min_time(due, belfry_min_time(worker_due(core->worker), kube_due(core->service)));
        due = belfry_min_time(due, kube_lists_due(core->lists));
    }
    return due;
}

static void kube_parts_set_times(struct worker_parts *parts, const struct limits_times *times)
{
    struct kube_parts *t = kube_parts_of(parts);
    t->times = *times;
    kfront_set_pace(t->kfront, times->message_ms);
    kfront_set_unread_time(t->kfront, times->unread_ms);
    for (size_t i = 0; i < t->n_cores; i++)
        kube_set_unread_time(t->cores[i]->service, times->unread_ms);
}

static void kube_parts_announce_drain(struct worker_parts *parts)
{
    struct kube_parts *t = kube_parts_of(parts);
    t->announced = true;
    kfront_announce_drain(t->kfront);
    for (size_t i = 0; i < t->n_cores; i++)
        kube_announce_drain(t->cores[i]->service);
}

static void kube_parts_drain(struct worker_parts *parts, uint64_t now, uint64_t drain_ms)
{
    struct kube_parts *t = kube_parts_of(parts);
    for (size_t i = 0; i < t->n_cores; i++)
        kube_drain(t->cores[i]->service, now, drain_ms);
}

/* ---- a worker: numbers ---- */

static void kube_parts_weigh(struct worker_parts *parts, struct worker_parts_weight *out)
{
    struct kube_parts *t = kube_parts_of(parts);
    struct permit_stats permit;
    permit_stats(t->permit, &permit);
    *out = (struct worker_parts_weight){.bytes = permit.rights.bytes + t->room.watch_bytes, .auth = PERMIT_AUTH_ON};
    for (size_t i = 0; i < t->n_cores; i++) {
        out->watchers += t->cores[i]->watchers;
        out->bytes += t->cores[i]->bytes;
    }
}

/* Structs of numbers only. Peaks are added up, too. */
static void add_words(void *to, const void *from, size_t size)
{
    uint64_t *sum = to;
    const uint64_t *more = from;
    for (size_t i = 0; i < size / sizeof(*sum); i++)
        sum[i] += more[i];
}

static void kube_parts_count(struct worker_parts *parts, struct worker_numbers *numbers)
{
    struct kube_parts *t = kube_parts_of(parts);
    static_assert(sizeof(size_t) == sizeof(uint64_t), "add_words() adds words of 8 bytes");
    for (size_t i = 0; i < t->n_cores; i++) {
        const struct kube_core *core = t->cores[i];
        struct worker_stats stats;
        struct kube_stats kube;
        struct kube_lists_stats lists;
        struct fence_stats fence;
        worker_stats(core->worker, &stats);
        kube_stats(core->service, &kube);
        kube_lists_stats(core->lists, &lists);
        fence_stats(core->fence, &fence);
        add_words(&numbers->core, &stats, sizeof(stats));
        add_words(&numbers->kube, &kube, sizeof(kube));
        add_words(&numbers->kube_lists, &lists, sizeof(lists));
        add_words(&numbers->fence, &fence, sizeof(fence));
    }
    permit_stats(t->permit, &numbers->permit);
    uplink_stats(t->uplink, &numbers->uplink);
    kfront_stats(t->kfront, &numbers->kfront);
    for (size_t i = 0; i < KFRONT_KINDS; i++)
        numbers->relay.relayed += numbers->kfront.relay.passed[i];
    numbers->route.refused_pages = numbers->kfront.refused_pages; /* one count, whatever is in front */
    reviews_stats(t->reviews, &numbers->reviews);
    numbers->auth = PERMIT_AUTH_ON;
    numbers->latency = t->latency;
}

static enum belfry_err kube_parts_scan(struct worker_parts *parts, const struct watchers_query *query,
                                       struct watchers_scan **out)
{
    struct kube_parts *t = kube_parts_of(parts);
    struct watchers_core cores[RESOURCE_SET_MAX];
    for (size_t i = 0; i < t->n_cores; i++) {
        struct kube_core *core = t->cores[i];
        int64_t head = atomic_load_explicit(&core->standing->published, memory_order_relaxed);
        cores[i] = (struct watchers_core){.kube = core->service, .worker = core->worker, .head = head};
    }
    struct watchers_scan *scan;
    enum belfry_err err = watchers_scan_create(query, NULL, NULL, 0, belfry_clock_ms(), &scan);
    if (err != BELFRY_OK)
        return err;
    err = watchers_scan_cores(scan, cores, t->n_cores);
    if (err != BELFRY_OK) {
        watchers_scan_destroy(scan);
        return err;
    }
    *out = scan;
    return BELFRY_OK;
}

/* ---- a worker: what lives there ---- */

static void on_core_work(void *user)
{
    struct kube_core *core = user;
    struct kube_parts *t = core->parts;
    core->is_due = true;
    t->host.work(t->host.user);
}

static uint64_t on_core_now(void *user)
{
    struct kube_core *core = user;
    return core->parts->host.now(core->parts->host.user);
}

static uint64_t kube_parts_on_now(void *user)
{
    struct kube_parts *t = user;
    return t->host.now(t->host.user);
}

static size_t kube_parts_on_core_bytes(const void *of)
{
    const struct kube_parts *t = of;
    return t->memory.bytes;
}

/* For a resource_fence. */
static void to_ingest(struct mail *mail, void *user)
{
    const struct route *route = user;
    kube_ingest_post(route->tier->ingest, mail);
}

static void to_worker(struct mail *mail, void *user)
{
    const struct route *route = user;
    worker_thread_post(route->tier->opts.workers->all[route->worker], mail);
}

static void core_destroy(struct kube_core *core)
{
    if (core == NULL)
        return;
    kube_destroy(core->service);
    kube_lists_destroy(core->lists);
    worker_destroy(core->worker);
    kube_reader_destroy(core->reader);
    fence_destroy(core->fence);
    kube_resource_unref(core->resource);
    free(core);
}

static enum belfry_err core_create_service(struct kube_core *core)
{
    struct kube_parts *t = core->parts;
    struct kube_lists_opts lists = {.reader = core->reader,
                                    .fence = core->fence,
                                    .now = on_core_now,
                                    .user = core,
                                    .process = t->tier->process,
                                    .room = &t->room};
    enum belfry_err err = kube_lists_create(&lists, &core->lists);
    struct kube_service_opts service = {.permit = t->permit,
                                        .fence = core->fence,
                                        .rights = KUBE_RIGHTS_REVIEW,
                                        .lists = core->lists,
                                        .now = on_core_now,
                                        .work = on_core_work,
                                        .user = core,
                                        .seed = t->seed + core->number,
                                        .room = &t->room,
                                        .forms_bytes = FORMS_BYTES / t->tier->n + FORMS_BYTES_LEAST,
                                        .unread_ms = t->times.unread_ms,
                                        .log = t->tier->opts.log};
    return err != BELFRY_OK ? err : kube_create(&service, &core->service);
}

/* Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT. */
static enum belfry_err core_answer(struct kube_core *core)
{
    struct kube_resource *one = kube_resource_ref(core->resource);
    struct kube_catalog *catalog;
    char *why = NULL;
    if (core->is_answered) {
        kube_resource_unref(one);
        return BELFRY_OK;
    }
    enum belfry_err err = kube_catalog_make(&one, 1, &catalog, &why);
    free(why);
    kube_resource_unref(one);
    if (err != BELFRY_OK)
        return err;
    kube_set_catalog(core->service, catalog, KUBE_CATALOG_WHOLE);
    kube_catalog_unref(catalog);
    err = kfront_add(core->parts->kfront, core->resource, core->service);
    core->is_answered = err == BELFRY_OK;
    return err;
}

/* Its watches end cleanly: their clients begin anew, at the API server. */
static void core_relay(struct kube_core *core)
{
    if (!core->is_answered)
        return;
    core->is_answered = false;
    kfront_remove(core->parts->kfront, core->service);
    kube_set_catalog(core->service, NULL, KUBE_CATALOG_WHOLE);
}

/* A resource that was found, for one worker: from now on it is answered there. Or one of a number that was found
 * before, and is selected by other fields now: its watches end cleanly if that is so, and their clients go on. */
struct found_mail {
    struct mail mail;
    size_t number;
    struct kube_resource *resource; /* one reference */
    struct store *store;            /* this and the next outlive the worker */
    struct evlog *log;
};

static enum belfry_err core_create(struct kube_parts *t, const struct found_mail *found, struct kube_core **out)
{
    struct kube_core *core = calloc(1, sizeof(*core));
    if (core == NULL)
        return BELFRY_ERR_NOMEM;
    *core = (struct kube_core){.parts = t,
                               .number = found->number,
                               .store = found->store,
                               .standing = &t->tier->standings[found->number],
                               .is_due = true};
    core->resource = kube_resource_ref(found->resource);
    struct resource_fence_opts fence = {.loop = thread_loop(t->host.thread),
                                        .number = found->number,
                                        .to_ingest = to_ingest,
                                        .to_worker = to_worker,
                                        .prove = kube_ingest_prove,
                                        .user = &t->tier->routes[t->number]};
    enum belfry_err err = resource_fence_create(&fence, &core->fence);
    if (err == BELFRY_OK)
        err = kube_reader_create(&t->tier->history, found->store, t->host.thread, &core->reader);
    if (err == BELFRY_OK)
        err = core_create_service(core);

    /* its core, under the bound of all of them */
    struct worker_opts worker = {.log = found->log,
                                 .number = t->number,
                                 .seed = t->seed + core->number,
                                 .fragment_bytes = FRAGMENT_BYTES,
                                 .response_bytes = RESPONSE_BYTES,
                                 .response_revs = RESPONSE_REVS,
                                 .segment_bytes = SEGMENTS_BYTES,
                                 .memory_max = t->tier->worker_memory,
                                 .memory = &t->memory,
                                 .progress_ms = config_of(t)->progress_ms,
                                 .attribute = kube_attribute,
                                 .attribute_user = core->service};
    if (err == BELFRY_OK)
        err = worker_create(&worker, &core->worker);
    if (err == BELFRY_OK) {
        kube_set_worker(core->service, core->worker);
        err = core_answer(core);
    }
    if (err != BELFRY_OK) {
        core_destroy(core);
        return err;
    }
    if (t->announced)
        kube_announce_drain(core->service);
    core_look(core);
    *out = core;
    return BELFRY_OK;
}

static enum belfry_err kube_parts_create_upstream_side(struct kube_parts *t, uv_loop_t *loop)
{
    const struct kube_upstream *upstream = &t->tier->upstream;
    const struct belfry_kubeconfig *config = &upstream->settings.config;
    const struct belfry_log *log = t->tier->opts.log;

    /* the way upstream */
    struct uplink_opts uplink = {.loop = loop,
                                 .endpoints = upstream->endpoints,
                                 .n_endpoints = upstream->n,
                                 .tls = upstream->tls,
                                 .dial_timeout_ms = DIAL_MS,
                                 .via = t->tier->opts.word,
                                 .base = upstream->settings.base,
                                 .is_kube = true,
                                 .seed = t->seed,
                                 .log = log};
    enum belfry_err err = belfry_dns_create(loop, &t->dns);
    uplink.dns = t->dns;
    if (err == BELFRY_OK)
        err = uplink_create(&uplink, &t->uplink);

    /* who may do what there: the tier asks with its own token */
    struct own_token_opts token = {.file = config->token_file, .token = config->token, .log = log};
    uint64_t period_ms = belfry_min_time(config_of(t)->rights_period_ms, PERIOD_MOST_MS);
    const char *why;
    if (err == BELFRY_OK)
        err = own_token_create(&token, belfry_clock_ms(), &t->own_token, &why);
    struct reviews_opts reviews = {.uplink = t->uplink,
                                   .loop = loop,
                                   .own_token = t->own_token,
                                   .answers = t->tier->answers,
                                   .n_members = upstream->n,
                                   .period_ms = period_ms,
                                   .log = log};
    if (err == BELFRY_OK)
        err = reviews_create(&reviews, &t->reviews);
    struct permit_opts permit = {.uplink = t->uplink,
                                 .loop = loop,
                                 .asker = err == BELFRY_OK ? reviews_asker(t->reviews) : NULL,
                                 .n_members = upstream->n,
                                 .period_ms = period_ms,
                                 .idle_max = t->tier->worker_memory / RIGHTS_SHARE,
                                 .seed = t->seed,
                                 .answers = t->tier->answers,
                                 .log = log};
    return err != BELFRY_OK ? err : permit_create(&permit, &t->permit);
}

/* Clients learn how it ended, and resume. */
static void kube_parts_end(struct worker_parts *parts)
{
    struct kube_parts *t = kube_parts_of(parts);
    if (t->kfront != NULL)
        kfront_end_all(t->kfront, "belfry: stopping");
    kfront_destroy(t->kfront);
    t->kfront = NULL;
    for (size_t i = 0; i < t->n_cores; i++) {
        struct kube_core *core = t->cores[i];
        kube_destroy(core->service);
        kube_lists_destroy(core->lists);
        core->service = NULL;
        core->lists = NULL;
    }
}

/* Users before what they use. */
static void kube_parts_destroy(struct worker_parts *parts)
{
    struct kube_parts *t = kube_parts_of(parts);
    for (size_t i = 0; i < t->n_cores; i++)
        core_destroy(t->cores[i]);
    free(t->cores);
    permit_destroy(t->permit);
    reviews_destroy(t->reviews);
    own_token_destroy(t->own_token);
    uplink_destroy(t->uplink);
    belfry_dns_destroy(t->dns);
    free(t);
}

static void kube_parts_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    kfront_begin(x, head, kube_parts_of(user)->kfront);
}

static const struct worker_parts_api kube_parts_api = {.begin = kube_parts_begin,
                                                       .look = kube_parts_look,
                                                       .deliver = kube_parts_deliver,
                                                       .rest = kube_parts_rest,
                                                       .settled = kube_parts_settled,
                                                       .due = kube_parts_due,
                                                       .set_times = kube_parts_set_times,
                                                       .announce_drain = kube_parts_announce_drain,
                                                       .drain = kube_parts_drain,
                                                       .weigh = kube_parts_weigh,
                                                       .count = kube_parts_count,
                                                       .scan = kube_parts_scan,
                                                       .end = kube_parts_end,
                                                       .destroy = kube_parts_destroy};

struct kube_parts_opts {
    struct kube_tier *tier;
    unsigned number;
};

/* worker_parts_fn; `opts` is a struct kube_parts_opts. */
static enum belfry_err kube_parts_create(const void *opts, const struct worker_parts_host *host,
                                         struct worker_parts **out)
{
    const struct kube_parts_opts *own = opts;
    const struct kube_tier *tier = own->tier;
    struct kube_parts *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return BELFRY_ERR_NOMEM;
    t->parts.api = &kube_parts_api;
    t->tier = own->tier;
    t->number = own->number;
    t->seed = seed_draw();
    t->host = *host;
    t->times = host->times;
    t->room = (struct kube_room){.memory_max = tier->worker_memory, .core_bytes = kube_parts_on_core_bytes, .of = t};
    BELFRY_OWNER_INIT(t);
    t->cores = calloc(tier->n, sizeof(*t->cores));
    enum belfry_err err =
        t->cores == NULL ? BELFRY_ERR_NOMEM : kube_parts_create_upstream_side(t, thread_loop(host->thread));
    struct kfront_opts front = {.uplink = t->uplink,
                                .name = tier->opts.word,
                                .hosts = tier->opts.hosts,
                                .cors = {config_of(t)->cors_origins, config_of(t)->n_cors_origins},
                                .fields = tier->fields,
                                .now = kube_parts_on_now,
                                .user = t,
                                .pace_ms = t->times.message_ms,
                                .unread_ms = t->times.unread_ms};
    if (err == BELFRY_OK)
        err = kfront_create(&front, &t->kfront);
    if (err != BELFRY_OK) {
        kube_parts_end(&t->parts);
        kube_parts_destroy(&t->parts);
        return err;
    }
    *out = &t->parts;
    return BELFRY_OK;
}

/* ---- mail for workers; without an owner the thread has ended ---- */

/* Errors: BELFRY_ERR_NOMEM (it is relayed until the next turn). */
static enum belfry_err core_change(struct kube_core *core, const struct kube_resource *to)
{
    if (to->hash == core->resource->hash)
        return BELFRY_OK;
    core_relay(core);
    kube_resource_unref(core->resource);
    core->resource = kube_resource_ref(to);
    core->standing_turn = 0; /* looked at anew: whether it is answered */
    core_look(core);
    return core->standing_turn != 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static void kube_parts_open_found(struct mail *mail, void *owner)
{
    struct found_mail *found = belfry_container(mail, struct found_mail, mail);
    struct kube_parts *t = owner == NULL ? NULL : kube_parts_of(worker_thread_parts(owner));
    if (t != NULL) {
        struct kube_core *core = NULL;
        for (size_t i = 0; i < t->n_cores && core == NULL; i++)
            if (t->cores[i]->number == found->number)
                core = t->cores[i];
        enum belfry_err err =
            core != NULL ? core_change(core, found->resource) : core_create(t, found, &t->cores[t->n_cores]);
        t->n_cores += core == NULL && err == BELFRY_OK;
        if (err != BELFRY_OK)
            belfry_logf(t->tier->opts.log, BELFRY_LOG_ERROR, "resource_not_served",
                        "resource=%s worker=%u why=\"%s\" hint=\"its requests are relayed\"", found->resource->plural,
                        t->number, belfry_strerror((int)err));
    }
    kube_resource_unref(found->resource);
    free(found);
}

/* On ingest's thread. */
static void kube_tier_on_found(size_t number, const struct resource_set_view *view, void *user)
{
    struct kube_tier *tier = user;
    const struct resource_name *name = &tier->names[number];
    const struct resource_selectable *selectable = &view->facts->selectable;
    const char *fields[RESOURCE_FIND_FIELDS];
    for (size_t i = 0; i < selectable->n_fields; i++)
        fields[i] = selectable->fields[i];
    struct kube_api_resource api = {.group = name->group,
                                    .version = view->facts->version,
                                    .plural = name->plural,
                                    .singular = view->facts->singular,
                                    .kind = view->facts->kind,
                                    .namespaced = view->facts->is_namespaced,
                                    .minor = selectable->minor,
                                    .fields = fields,
                                    .n_fields = selectable->n_fields};
    struct kube_resource *resource = NULL;
    enum belfry_err err = kube_resource_of_api(&api, &resource);

    for (size_t i = 0; i < tier->opts.workers->n && err == BELFRY_OK; i++) {
        struct found_mail *found = calloc(1, sizeof(*found));
        if (found == NULL) {
            err = BELFRY_ERR_NOMEM;
            break;
        }
        *found = (struct found_mail){.mail.open = kube_parts_open_found,
                                     .number = number,
                                     .resource = kube_resource_ref(resource),
                                     .store = view->store,
                                     .log = view->log};
        worker_thread_post(tier->opts.workers->all[i], &found->mail);
    }
    if (err != BELFRY_OK)
        belfry_logf(tier->opts.log, BELFRY_LOG_ERROR, "resource_not_served",
                    "resource=%s why=\"%s\" hint=\"its requests are relayed\"", name->plural,
                    belfry_strerror((int)err));
    kube_resource_unref(resource);
}

static void kube_parts_open_fetched(struct mail *mail, void *owner)
{
    struct history_reader_job *job = belfry_container(mail, struct history_reader_job, mail);
    struct kube_parts *t = owner == NULL ? NULL : kube_parts_of(worker_thread_parts(owner));
    for (size_t i = 0; t != NULL && i < t->n_cores; i++) {
        struct kube_core *core = t->cores[i];
        if (core->store != job->store)
            continue;
        worker_fetched(core->worker, &job->fetch, job->err, job->segment, job->compact_rev, job->oldest);
        job->segment = NULL;
        core->is_due = true;
    }
    history_reader_job_free(job);
}

static void kube_tier_on_fetched(struct history_reader_job *job, void *user)
{
    struct kube_tier *tier = user;
    job->mail.open = kube_parts_open_fetched;
    worker_thread_post(tier->opts.workers->all[job->worker], &job->mail);
}

/* ---- the tier: starting ---- */

/* Worker by worker, before the tier's own threads. */
static enum belfry_err kube_tier_start_worker(struct tier_parts *parts, unsigned number,
                                              const struct worker_thread_opts *common, struct worker_thread **out)
{
    struct kube_parts_opts opts = {.tier = kube_tier_of(parts), .number = number};
    struct worker_thread_opts thread = *common;
    thread.create = kube_parts_create;
    thread.parts = &opts;
    return worker_thread_start(&thread, out);
}

/* The window has lost it, and upstream cannot be asked for history. */
static void kube_tier_on_lost(struct history_reader_job *job, void *user)
{
    (void)user;
    history_reader_answer(job, BELFRY_ERR_COMPACTED, NULL, job->oldest);
}

/* On ingest's thread. */
static void kube_tier_on_wake(void *user)
{
    struct kube_tier *tier = user;
    for (size_t i = 0; i < tier->opts.workers->n; i++)
        worker_thread_wake(tier->opts.workers->all[i]);
}

static enum belfry_err kube_tier_start(struct tier_parts *parts)
{
    struct kube_tier *tier = kube_tier_of(parts);
    const struct config *config = tier->opts.config;
    struct history_reader_opts reader = {.segment_bytes = SEGMENT_BYTES,
                                         .shelf_bytes = SHELF_BYTES,
                                         .done = kube_tier_on_fetched,
                                         .lost = kube_tier_on_lost,
                                         .user = tier};
    enum belfry_err err = history_reader_start(&reader, &tier->history);
    if (err != BELFRY_OK)
        return err;

    const struct belfry_opts *servers[KUBE_UPSTREAM_MAX];
    for (unsigned i = 0; i < tier->upstream.n; i++)
        servers[i] = tier->upstream.opts[i];
    struct kube_ingest_opts opts = {.set = {.servers = servers,
                                            .n_servers = tier->upstream.n,
                                            .names = tier->names,
                                            .n_names = tier->n,
                                            .dir = config->cache_dir,
                                            .log_bytes = config->log_bytes,
                                            .history_bytes = config->history_bytes,
                                            .history_age_s = config->history_age_s,
                                            .n_workers = config->workers,
                                            .is_builtin = kube_builtin_is_group,
                                            .seed = seed_draw(),
                                            .log = tier->opts.log},
                                    .name = tier->opts.word,
                                    .standings = tier->standings,
                                    .found = kube_tier_on_found,
                                    .wake = kube_tier_on_wake,
                                    .user = tier};
    err = kube_ingest_start(&opts, &tier->ingest, tier->why, sizeof(tier->why));
    if (err != BELFRY_OK && tier->why[0] != '\0')
        belfry_logf(tier->opts.log, BELFRY_LOG_ERROR, "upstream_not_opened", "why=\"%s\"", tier->why);
    return err;
}

/* ---- the tier: ending ---- */

/* Workers have ended; when the reader has, nobody reads the stores, which ingest closes. */
static void kube_tier_stop(struct tier_parts *parts)
{
    struct kube_tier *tier = kube_tier_of(parts);
    history_reader_stop(tier->history);
    kube_ingest_stop(tier->ingest);
}

static void kube_tier_destroy(struct tier_parts *parts)
{
    struct kube_tier *tier = kube_tier_of(parts);
    kube_ingest_destroy(tier->ingest);
    history_reader_destroy(tier->history);
    answers_destroy(tier->answers);
    kfront_fields_destroy(tier->fields);
    for (size_t i = 0; tier->standings != NULL && i < tier->n; i++)
        resource_standing_fini(&tier->standings[i]);
    free(tier->standings);
    free(tier->names);
    free(tier->routes);
    kube_upstream_fini(&tier->upstream);
    free(tier);
}

/* ---- the tier: for the front ---- */

static void kube_tier_post(struct tier_parts *parts, struct mail *mail)
{
    kube_ingest_post(kube_tier_of(parts)->ingest, mail);
}

static void kube_tier_fill(void *owner, struct ingest_thread_numbers *out)
{
    kube_ingest_numbers(owner, out);
}

static void kube_tier_finish(struct tier_parts *parts, struct tier_numbers *numbers)
{
    struct kube_tier *tier = kube_tier_of(parts);
    struct history_reader_stats reads;
    history_reader_stats(tier->history, &reads);
    numbers->reads = reads.reads;
    numbers->reads_shared = reads.shared;
    numbers->fields = tier->relayed;
    numbers->n_fields = kfront_fields_look(tier->fields, tier->relayed);
    numbers->endpoints = tier->upstream.endpoints;
    numbers->n_endpoints = tier->upstream.n;
    numbers->upstream_left_s =
        tier->upstream.tls != NULL ? tier_seconds_until(belfry_tls_expires(tier->upstream.tls)) : BELFRY_NEVER;
}

/* A resource that was named and never found is probably a mistake. One that was found, and whose definition is deleted,
 * is relayed, and the others go on. */
static void kube_tier_look(struct tier_parts *parts, struct tier_parts_view *out)
{
    struct kube_tier *tier = kube_tier_of(parts);
    *out = (struct tier_parts_view){.is_ready = true};
    for (size_t i = 0; i < tier->n; i++) {
        uint64_t turn = 0;
        struct resource_standing_view view;
        resource_standing_look(&tier->standings[i], &turn, &view);
        if (view.is_ready || view.is_gone)
            continue;
        out->is_ready = false;
        memcpy(out->reason, view.reason, sizeof(out->reason));
        return;
    }
}

/* The admin's tail shows changes of keys to everyone: there is none in front of Kubernetes (config_check.c). */
static enum belfry_err kube_tier_open_tail(struct tier_parts *parts, struct tail **out)
{
    (void)parts;
    (void)out;
    return BELFRY_ERR_INVALID;
}

/* ---- the tier: opening ---- */

static enum belfry_err kube_tier_read_names(struct kube_tier *tier)
{
    const struct config *config = tier->opts.config;
    tier->names = calloc(config->n_follow, sizeof(*tier->names));
    tier->standings = calloc(config->n_follow, sizeof(*tier->standings));
    tier->routes = calloc(config->workers, sizeof(*tier->routes));
    if (tier->names == NULL || tier->standings == NULL || tier->routes == NULL)
        return BELFRY_ERR_NOMEM;
    for (unsigned i = 0; i < config->workers; i++)
        tier->routes[i] = (struct route){.tier = tier, .worker = i};
    for (; tier->n < config->n_follow; tier->n++) {
        resource_standing_init(&tier->standings[tier->n]);
        if (!resource_name_read(config->follow[tier->n], &tier->names[tier->n])) /* config_check.c has read it before */
            return BELFRY_ERR_INVALID;
    }
    return BELFRY_OK;
}

static const struct tier_parts_api kube_tier_api = {.start_worker = kube_tier_start_worker,
                                                    .start = kube_tier_start,
                                                    .stop = kube_tier_stop,
                                                    .destroy = kube_tier_destroy,
                                                    .post = kube_tier_post,
                                                    .fill = kube_tier_fill,
                                                    .finish = kube_tier_finish,
                                                    .look = kube_tier_look,
                                                    .open_tail = kube_tier_open_tail};

enum belfry_err kube_tier_open(const struct tier_parts_opts *opts, struct tier_parts **out, char *why, size_t why_len)
{
    const char *dir = opts->config->cache_dir;
    struct kube_tier *tier = calloc(1, sizeof(*tier));
    if (tier == NULL)
        return BELFRY_ERR_NOMEM;
    tier->parts.api = &kube_tier_api;
    tier->opts = *opts;
    tier->worker_memory = opts->limits->memory / opts->config->workers;
    tier->process = seed_draw() | 1;
    enum belfry_err err = kube_upstream_read(opts->config, &tier->upstream, why, why_len);
    if (err == BELFRY_OK && mkdir(dir, 0700) != 0 && errno != EEXIST) {
        snprintf(why, why_len, "%s: cannot be made: %s", dir, strerror(errno));
        err = BELFRY_ERR_IO;
    }
    if (err == BELFRY_OK)
        err = kube_tier_read_names(tier);
    if (err == BELFRY_OK)
        err = answers_create(opts->config->rights_period_ms, &tier->answers);
    if (err == BELFRY_OK)
        err = kfront_fields_create(opts->log, &tier->fields);
    if (err != BELFRY_OK) {
        kube_tier_destroy(&tier->parts);
        return err;
    }
    *out = &tier->parts;
    return BELFRY_OK;
}
