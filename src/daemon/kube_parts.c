/* src/daemon/kube_parts.c */
#include "daemon/kube_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "daemon/resource_fence.h"
#include "daemon/rotation.h"
#include "kube/catalog.h"
#include "serve/kfront/kfront.h"
#include "serve/kube/kube.h"
#include "serve/kube/kube_reader.h"
#include "serve/rights/permit.h"
#include "serve/rights/reviews.h"

#define TURN_WORK      1024 /* units of all cores a turn, as in etcd_parts.c; */
#define SLICE_WORK     128  /* of one core before the next has its turn */
#define SEGMENTS_BYTES (8 * 1024 * 1024)
#define DIAL_MS        2000
#define FRAGMENT_BYTES (2 * 1024 * 1024)
#define RESPONSE_BYTES (1024 * 1024)
#define RESPONSE_REVS  1000
#define RIGHTS_SHARE   16    /* answers about rights that no watch holds: a sixteenth */
#define PERIOD_MOST_MS 10000 /* of rights in front of Kubernetes */

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

struct kube_parts {
    struct worker_parts parts;
    /* fixed at creation */
    struct kube_parts_opts opts;
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

static struct kube_parts *kube_of(struct worker_parts *parts)
{
    return belfry_container(parts, struct kube_parts, parts);
}

/* ---- a turn ---- */

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

static void on_look(struct worker_parts *parts, uint64_t now)
{
    struct kube_parts *t = kube_of(parts);
    BELFRY_OWNER_CHECK(t);
    for (size_t i = 0; i < t->n_cores; i++)
        core_look(t->cores[i]);
    permit_turn(t->permit, now); /* before anything is written: rights end by the clock */
}

static void core_ask_for_history(struct kube_core *core)
{
    struct kube_parts *t = core->parts;
    struct worker_fetch fetch;
    while (worker_wants_fetch(core->worker, &fetch)) {
        enum belfry_err err = history_reader_ask_of(*t->opts.history, core->store, t->opts.number, &fetch);
        if (err != BELFRY_OK)
            worker_fetched(core->worker, &fetch, err, NULL, 0, 0);
    }
}

/* Watches that are being told something, one after another, take no events meanwhile: kube_after_turn() goes on. */
static bool core_wants_turn(const struct kube_core *core, uint64_t now)
{
    if (kube_is_going_round(core->service))
        return false;
    return core->is_due || core->news != atomic_load_explicit(&core->standing->news, memory_order_acquire) ||
           worker_wants_turn(core->worker) || worker_due(core->worker) <= now;
}

static void core_take_stock(struct kube_core *core)
{
    struct worker_stats stats;
    worker_stats(core->worker, &stats);
    core->watchers = stats.watchers;
    core->bytes = stats.bytes - stats.rest_bytes;
}

/* Returns what it spent. */
static size_t core_turn(struct kube_core *core, uint64_t now, size_t work)
{
    core->news = atomic_load_explicit(&core->standing->news, memory_order_acquire);
    core->seen = atomic_load_explicit(&core->standing->published, memory_order_acquire);
    core->is_due = false; /* from here on: what follows may find room for waiting streams */
    if (worker_turn(core->worker, now, work))
        core->is_due = true;
    core_ask_for_history(core);
    core_take_stock(core);
    return worker_spent(core->worker) + 1;
}

struct cores_turn {
    struct kube_parts *parts;
    uint64_t now;
};

static bool on_core_wants(size_t number, void *user)
{
    const struct cores_turn *turn = user;
    return core_wants_turn(turn->parts->cores[number], turn->now);
}

static size_t on_core_turn(size_t number, size_t work, bool *more, void *user)
{
    const struct cores_turn *turn = user;
    struct kube_core *core = turn->parts->cores[number];
    size_t spent = core_turn(core, turn->now, work);
    *more = core->is_due;
    return spent;
}

static bool on_deliver(struct worker_parts *parts, uint64_t now)
{
    struct kube_parts *t = kube_of(parts);
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

static bool on_rest(struct worker_parts *parts)
{
    (void)parts;
    return false;
}

static void on_settled(struct worker_parts *parts)
{
    struct kube_parts *t = kube_of(parts);
    for (size_t i = 0; i < t->n_cores; i++) {
        struct kube_core *core = t->cores[i];
        if (core->seen == core->measured || worker_position(core->worker) < core->seen)
            continue;
        core->measured = core->seen;
        uint64_t published_ns = atomic_load_explicit(&core->standing->published_ns, memory_order_relaxed);
        latency_note(&t->latency, published_ns, belfry_clock_ns());
    }
}

static uint64_t on_due(struct worker_parts *parts)
{
    struct kube_parts *t = kube_of(parts);
    uint64_t due = BELFRY_NEVER;
    for (size_t i = 0; i < t->n_cores; i++) {
        struct kube_core *core = t->cores[i];
        due = belfry_min_time(due, belfry_min_time(worker_due(core->worker), kube_due(core->service)));
        due = belfry_min_time(due, kube_lists_due(core->lists));
    }
    return due;
}

static void on_set_times(struct worker_parts *parts, const struct limits_times *times)
{
    struct kube_parts *t = kube_of(parts);
    t->times = *times;
    kfront_set_pace(t->kfront, times->message_ms);
    kfront_set_unread_time(t->kfront, times->unread_ms);
    for (size_t i = 0; i < t->n_cores; i++)
        kube_set_unread_time(t->cores[i]->service, times->unread_ms);
}

static void on_announce_drain(struct worker_parts *parts)
{
    struct kube_parts *t = kube_of(parts);
    t->announced = true;
    kfront_announce_drain(t->kfront);
    for (size_t i = 0; i < t->n_cores; i++)
        kube_announce_drain(t->cores[i]->service);
}

static void on_drain(struct worker_parts *parts, uint64_t now, uint64_t drain_ms)
{
    struct kube_parts *t = kube_of(parts);
    for (size_t i = 0; i < t->n_cores; i++)
        kube_drain(t->cores[i]->service, now, drain_ms);
}

/* ---- numbers ---- */

static void on_weigh(struct worker_parts *parts, struct worker_parts_weight *out)
{
    struct kube_parts *t = kube_of(parts);
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

static void count_core(struct kube_core *core, struct worker_numbers *numbers)
{
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

static void on_count(struct worker_parts *parts, struct worker_numbers *numbers)
{
    struct kube_parts *t = kube_of(parts);
    static_assert(sizeof(size_t) == sizeof(uint64_t), "add_words() adds words of 8 bytes");
    for (size_t i = 0; i < t->n_cores; i++)
        count_core(t->cores[i], numbers);
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

static enum belfry_err on_scan(struct worker_parts *parts, const struct watchers_query *query,
                               struct watchers_scan **out)
{
    struct kube_parts *t = kube_of(parts);
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

/* ---- what lives there ---- */

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
                                    .process = t->opts.process,
                                    .room = &t->room};
    enum belfry_err err = kube_lists_create(&lists, &core->lists);
    struct kube_service_opts service = {.permit = t->permit,
                                        .fence = core->fence,
                                        .rights = KUBE_RIGHTS_REVIEW,
                                        .lists = core->lists,
                                        .now = on_core_now,
                                        .work = on_core_work,
                                        .user = core,
                                        .seed = t->opts.seed + core->number,
                                        .room = &t->room,
                                        .forms_bytes = t->opts.forms_bytes,
                                        .unread_ms = t->times.unread_ms,
                                        .log = t->opts.log};
    return err != BELFRY_OK ? err : kube_create(&service, &core->service);
}

static enum belfry_err core_create_worker(struct kube_core *core, struct evlog *log)
{
    struct kube_parts *t = core->parts;
    struct worker_opts opts = {.log = log,
                               .number = t->opts.number,
                               .seed = t->opts.seed + core->number,
                               .fragment_bytes = FRAGMENT_BYTES,
                               .response_bytes = RESPONSE_BYTES,
                               .response_revs = RESPONSE_REVS,
                               .segment_bytes = SEGMENTS_BYTES,
                               .memory_max = t->opts.memory_max,
                               .memory = &t->memory,
                               .progress_ms = t->opts.progress_ms,
                               .attribute = kube_attribute,
                               .attribute_user = core->service};
    return worker_create(&opts, &core->worker);
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

static enum belfry_err core_create(struct kube_parts *t, const struct kube_parts_resource *found,
                                   struct kube_core **out)
{
    struct kube_core *core = calloc(1, sizeof(*core));
    if (core == NULL)
        return BELFRY_ERR_NOMEM;
    *core = (struct kube_core){
        .parts = t, .number = found->number, .store = found->store, .standing = found->standing, .is_due = true};
    core->resource = kube_resource_ref(found->resource);
    struct resource_fence_opts fence = {.loop = thread_loop(t->host.thread),
                                        .number = found->number,
                                        .to_ingest = t->opts.to_ingest,
                                        .to_worker = t->opts.to_worker,
                                        .prove = kube_ingest_prove,
                                        .user = t->opts.user};
    enum belfry_err err = resource_fence_create(&fence, &core->fence);
    if (err == BELFRY_OK)
        err = kube_reader_create(t->opts.history, found->store, t->host.thread, &core->reader);
    if (err == BELFRY_OK)
        err = core_create_service(core);
    if (err == BELFRY_OK)
        err = core_create_worker(core, found->log);
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

static enum belfry_err create_uplink(struct kube_parts *t, uv_loop_t *loop)
{
    const struct kube_upstream *upstream = t->opts.upstream;
    struct uplink_opts uplink = {.loop = loop,
                                 .endpoints = upstream->endpoints,
                                 .n_endpoints = upstream->n,
                                 .tls = upstream->tls,
                                 .dial_timeout_ms = DIAL_MS,
                                 .via = t->opts.name,
                                 .base = upstream->settings.base,
                                 .is_kube = true,
                                 .seed = t->opts.seed,
                                 .log = t->opts.log};
    enum belfry_err err = belfry_dns_create(loop, &t->dns);
    uplink.dns = t->dns;
    return err != BELFRY_OK ? err : uplink_create(&uplink, &t->uplink);
}

static enum belfry_err create_permit(struct kube_parts *t, uv_loop_t *loop)
{
    const struct belfry_kubeconfig *config = &t->opts.upstream->settings.config;
    struct own_token_opts token = {.file = config->token_file, .token = config->token, .log = t->opts.log};
    uint64_t period_ms = belfry_min_time(t->opts.rights_period_ms, PERIOD_MOST_MS);
    const char *why;
    enum belfry_err err = own_token_create(&token, belfry_clock_ms(), &t->own_token, &why);
    struct reviews_opts reviews = {.uplink = t->uplink,
                                   .loop = loop,
                                   .own_token = t->own_token,
                                   .answers = t->opts.answers,
                                   .n_members = t->opts.upstream->n,
                                   .period_ms = period_ms,
                                   .log = t->opts.log};
    if (err == BELFRY_OK)
        err = reviews_create(&reviews, &t->reviews);
    struct permit_opts permit = {.uplink = t->uplink,
                                 .loop = loop,
                                 .asker = err == BELFRY_OK ? reviews_asker(t->reviews) : NULL,
                                 .n_members = t->opts.upstream->n,
                                 .period_ms = period_ms,
                                 .idle_max = t->opts.memory_max / RIGHTS_SHARE,
                                 .seed = t->opts.seed,
                                 .answers = t->opts.answers,
                                 .log = t->opts.log};
    return err != BELFRY_OK ? err : permit_create(&permit, &t->permit);
}

static enum belfry_err create_front(struct kube_parts *t)
{
    struct kfront_opts front = {.uplink = t->uplink,
                                .name = t->opts.name,
                                .hosts = t->opts.hosts,
                                .cors = t->opts.cors,
                                .fields = t->opts.fields,
                                .now = kube_parts_on_now,
                                .user = t,
                                .pace_ms = t->times.message_ms,
                                .unread_ms = t->times.unread_ms};
    return kfront_create(&front, &t->kfront);
}

/* Clients learn how it ended, and resume. */
static void on_end(struct worker_parts *parts)
{
    struct kube_parts *t = kube_of(parts);
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
static void on_destroy(struct worker_parts *parts)
{
    struct kube_parts *t = kube_of(parts);
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

static void on_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    kfront_begin(x, head, kube_of(user)->kfront);
}

enum belfry_err kube_parts_create(const void *opts, const struct worker_parts_host *host, struct worker_parts **out)
{
    static const struct worker_parts_api api = {.begin = on_begin,
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
    struct kube_parts *t = calloc(1, sizeof(*t));
    uv_loop_t *loop = thread_loop(host->thread);
    if (t == NULL)
        return BELFRY_ERR_NOMEM;
    t->parts.api = &api;
    t->opts = *(const struct kube_parts_opts *)opts;
    t->host = *host;
    t->times = host->times;
    t->room = (struct kube_room){.memory_max = t->opts.memory_max, .core_bytes = kube_parts_on_core_bytes, .of = t};
    BELFRY_OWNER_INIT(t);
    t->cores = calloc(t->opts.n_resources, sizeof(*t->cores));
    enum belfry_err err = t->cores == NULL ? BELFRY_ERR_NOMEM : create_uplink(t, loop);
    if (err == BELFRY_OK)
        err = create_permit(t, loop);
    if (err == BELFRY_OK)
        err = create_front(t);
    if (err != BELFRY_OK) {
        on_end(&t->parts);
        on_destroy(&t->parts);
        return err;
    }
    *out = &t->parts;
    return BELFRY_OK;
}

/* ---- what comes by mail ---- */

struct found_mail {
    struct mail mail;
    struct kube_parts_resource found; /* with a reference */
};

static struct kube_core *core_of(struct kube_parts *t, size_t number)
{
    for (size_t i = 0; i < t->n_cores; i++)
        if (t->cores[i]->number == number)
            return t->cores[i];
    return NULL;
}

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

static enum belfry_err take_found(struct kube_parts *t, const struct kube_parts_resource *found)
{
    struct kube_core *core = core_of(t, found->number);
    if (core != NULL)
        return core_change(core, found->resource);
    enum belfry_err err = core_create(t, found, &t->cores[t->n_cores]);
    t->n_cores += err == BELFRY_OK;
    return err;
}

static void open_found(struct mail *mail, void *owner)
{
    struct found_mail *order = belfry_container(mail, struct found_mail, mail);
    struct kube_parts *t = owner == NULL ? NULL : kube_of(worker_thread_parts(owner));
    if (t != NULL) {
        enum belfry_err err = take_found(t, &order->found);
        if (err != BELFRY_OK)
            belfry_logf(t->opts.log, BELFRY_LOG_ERROR, "resource_not_served",
                        "resource=%s worker=%u why=\"%s\" hint=\"its requests are relayed\"",
                        order->found.resource->plural, t->opts.number, belfry_strerror((int)err));
    }
    kube_resource_unref(order->found.resource);
    free(order);
}

enum belfry_err kube_parts_add(struct worker_thread *thread, const struct kube_parts_resource *found)
{
    struct found_mail *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return BELFRY_ERR_NOMEM;
    *order = (struct found_mail){.mail.open = open_found, .found = *found};
    order->found.resource = kube_resource_ref(found->resource);
    worker_thread_post(thread, &order->mail);
    return BELFRY_OK;
}

static void open_fetched(struct mail *mail, void *owner)
{
    struct history_reader_job *job = belfry_container(mail, struct history_reader_job, mail);
    struct kube_parts *t = owner == NULL ? NULL : kube_of(worker_thread_parts(owner));
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

void kube_parts_fetched(struct worker_thread *thread, struct history_reader_job *job)
{
    job->mail.open = open_fetched;
    worker_thread_post(thread, &job->mail);
}
