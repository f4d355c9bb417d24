/* src/daemon/tier.c */
#include "daemon/tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/owner.h"
#include "daemon/advertise.h"
#include "daemon/crash_note.h"
#include "daemon/gathering.h"
#include "daemon/limits.h"
#include "daemon/service.h"
#include "replica/replica.h"
#include "serve/admin/metrics.h"
#include "serve/kube/definitions.h"

#define LOG_CAPACITY_LOG2 20 /* batches; what bounds it is its bytes */
#define HAND_MS           2000
#define SHELF_BYTES       (64 * 1024 * 1024)

/* What a worker was handed in the last moments. */
struct hand {
    uint64_t since_ms;
    size_t n;
};

struct tier {
    /* fixed */
    struct tier_opts opts;
    struct belfry_tls *upstream_tls; /* NULL: no endpoint wants it */
    struct mint *mint;               /* NULL: this tier signs no tokens */
    struct vouch_opts vouch;
    char word[VIA_WORD_BYTES + 1]; /* our name, as other tiers see it */
    struct belfry_buf scope_end;   /* of a prefix */
    const char *advertise;         /* what MemberList shows; NULL: what upstream says */
    struct limits *limits;
    uint64_t started_ms;
    double process_start_s;
    /* shared between the threads, each by its own rules */
    struct store *store;
    struct evlog *log;
    struct standing standing;
    struct term term;
    struct auth_revision auth_revision;
    struct history_reader *history;
    struct answers *answers;
    /* the front's */
    struct ingest_thread *ingest;
    struct worker_thread **workers;
    struct hand *hands; /* of each */
    size_t n_workers;
    struct gatherer *gatherer;
    struct listener_stats listeners;
    int64_t listeners_expire_s;
    uint64_t refused; /* connections over connections_max */
    bool draining, stopped;
    BELFRY_OWNER;
};

/* ---- from thread to thread ---- */

static void on_wake(void *user)
{
    struct tier *tier = user;
    for (size_t i = 0; i < tier->n_workers; i++)
        worker_thread_wake(tier->workers[i]);
}

static void on_done(struct history_reader_job *job, void *user)
{
    struct tier *tier = user;
    worker_thread_fetched(tier->workers[job->worker], job);
}

static void on_lost(struct history_reader_job *job, void *user)
{
    struct tier *tier = user;
    ingest_thread_backfill(tier->ingest, job);
}

static enum belfry_err tier_spread(struct tier *tier, struct kube_catalog *catalog, enum kube_catalog_extent extent)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < tier->n_workers && err == BELFRY_OK; i++)
        err = worker_thread_set_catalog(tier->workers[i], kube_catalog_ref(catalog), extent);
    kube_catalog_unref(catalog);
    return err;
}

/* On the reader's thread. */
static enum belfry_err on_catalog(struct kube_catalog *catalog, void *user)
{
    return tier_spread(user, catalog, KUBE_CATALOG_WHOLE);
}

/* ---- starting ---- */

static uint64_t draw_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = belfry_clock_ms();
    return seed;
}

static bool wants_tls(const struct config *config)
{
    for (size_t i = 0; i < config->n_upstream; i++)
        if (config->upstream[i].tls)
            return true;
    return false;
}

static enum belfry_err load_credentials(struct tier *tier, char *why, size_t why_len)
{
    const struct config *config = tier->opts.config;
    if (!wants_tls(config))
        return BELFRY_OK;
    struct belfry_tls_opts opts = {.cacert = config->upstream_cacert,
                                   .cert = config->upstream_cert,
                                   .key = config->upstream_key,
                                   .server_name = config->upstream_server_name};
    return belfry_tls_create(&opts, &tier->upstream_tls, why, why_len);
}

/* Whether and how this tier tells upstream the users of client certificates. */
static enum belfry_err load_token_key(struct tier *tier, char *why, size_t why_len)
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

static enum belfry_err open_replica(struct tier *tier, char *why, size_t why_len)
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

static enum belfry_err start_reader(struct tier *tier)
{
    struct history_reader_opts opts = {.store = tier->store,
                                       .segment_bytes = SEGMENT_BYTES,
                                       .shelf_bytes = SHELF_BYTES,
                                       .done = on_done,
                                       .lost = on_lost,
                                       .user = tier};
    return history_reader_start(&opts, &tier->history);
}

/* The scope as on the wire: everything, or a prefix. */
static enum belfry_err scope_of(struct tier *tier, struct belfry_bytes *key, struct belfry_bytes *range_end)
{
    const struct config *config = tier->opts.config;
    *key = *range_end = belfry_bytes_of("\0", 1);
    if (config->n_scope == 0)
        return BELFRY_OK;
    *key = belfry_bytes_str(config->scope[0]);
    enum belfry_err err = range_prefix_end(*key, &tier->scope_end);
    if (err == BELFRY_OK && belfry_buf_len(&tier->scope_end) > 0)
        *range_end = belfry_buf_bytes(&tier->scope_end);
    return err;
}

static enum belfry_err start_ingest(struct tier *tier)
{
    const struct config *config = tier->opts.config;
    struct ingest_thread_opts opts = {.driver = {.endpoints = config->upstream,
                                                 .n_endpoints = config->n_upstream,
                                                 .tls = tier->upstream_tls,
                                                 .user = config->upstream_user,
                                                 .password_file = config->upstream_password_file,
                                                 .user_agent = "belfryd/" BELFRY_VERSION,
                                                 .name = tier->word,
                                                 .store = tier->store,
                                                 .evlog = tier->log,
                                                 .term = &tier->term,
                                                 .segment_bytes = SEGMENT_BYTES,
                                                 .seed = draw_seed(),
                                                 .log = tier->opts.log},
                                      .standing = &tier->standing,
                                      .wake = on_wake,
                                      .user = tier};
    enum belfry_err err = scope_of(tier, &opts.driver.key, &opts.driver.range_end);
    return err != BELFRY_OK ? err : ingest_thread_start(&opts, &tier->ingest);
}

static bool follows_definitions(const struct config *config)
{
    for (size_t i = 0; i < config->resources.n; i++)
        if (config->resources.all[i].under != NULL)
            return true;
    return false;
}

/* What the files say; what lies in etcd comes when it can be read. */
static enum belfry_err publish_first(struct tier *tier)
{
    struct kube_catalog *catalog;
    if (tier->opts.config->definitions == NULL)
        return BELFRY_OK;
    enum belfry_err err = definitions_catalog(tier->opts.config->definitions, tier->opts.log, &catalog);
    if (err != BELFRY_OK)
        return err;
    return tier_spread(tier, catalog, follows_definitions(tier->opts.config) ? KUBE_CATALOG_PART : KUBE_CATALOG_WHOLE);
}

static enum belfry_err start_workers(struct tier *tier)
{
    const struct config *config = tier->opts.config;
    tier->workers = calloc(config->workers, sizeof(struct worker_thread *));
    tier->hands = calloc(config->workers, sizeof(*tier->hands));
    if (tier->workers == NULL || tier->hands == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = answers_create(config->rights_period_ms, &tier->answers);
    if (err != BELFRY_OK)
        return err;
    struct worker_thread_opts opts = {.log = tier->log,
                                      .history = &tier->history,
                                      .ingest = &tier->ingest,
                                      .store = tier->store,
                                      .standing = &tier->standing,
                                      .term = &tier->term,
                                      .scope = config->n_scope == 0 ? (struct belfry_bytes){0}
                                                                    : belfry_bytes_str(config->scope[0]),
                                      .upstream = config->upstream,
                                      .n_upstream = config->n_upstream,
                                      .upstream_tls = tier->upstream_tls,
                                      .name = tier->word,
                                      .advertise = tier->advertise,
                                      .hosts = tier->opts.hosts,
                                      .tickets = tier->opts.tickets,
                                      .cors = {config->cors_origins, config->n_cors_origins},
                                      .vouch = tier->mint != NULL || config->pass_users ? &tier->vouch : NULL,
                                      .needs_auth = config_needs_auth(config),
                                      .memory_max = tier->limits->memory / config->workers,
                                      .limits = tier->limits,
                                      .progress_ms = config->progress_ms,
                                      .rights_period_ms = config->rights_period_ms,
                                      .answers = tier->answers,
                                      .max_streams = config->max_streams,
                                      .log_lines = tier->opts.log,
                                      .kube = config->definitions != NULL,
                                      .clients_seed = draw_seed(),
                                      .process = draw_seed() | 1};
    struct catalog_feed_opts feed = {.definitions = config->definitions,
                                     .sources = &config->resources,
                                     .history = &tier->history,
                                     .publish = on_catalog,
                                     .user = tier,
                                     .log = tier->opts.log};
    for (unsigned i = 0; i < config->workers; i++) {
        opts.number = i;
        opts.seed = draw_seed();
        opts.feed = i == 0 && follows_definitions(config) ? &feed : NULL;
        err = worker_thread_start(&opts, &tier->workers[i]);
        if (err != BELFRY_OK)
            return err;
        tier->n_workers++;
    }
    return BELFRY_OK;
}

/* 0: it has expired. */
static uint64_t seconds_until(int64_t expires_s)
{
    int64_t left_s = expires_s - (int64_t)time(NULL);
    if (expires_s == INT64_MAX)
        return BELFRY_NEVER;
    return left_s > 0 ? (uint64_t)left_s : 0;
}

static uint64_t unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t descriptors_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

static uint64_t free_bytes(const char *folder)
{
    struct statvfs disk;
    return statvfs(folder, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : BELFRY_NEVER;
}

static void finish_numbers(struct tier_numbers *numbers, void *user)
{
    struct tier *tier = user;
    const struct config *config = tier->opts.config;
    numbers->now_ms = belfry_clock_ms();
    numbers->started_ms = tier->started_ms;
    numbers->process_start_s = tier->process_start_s;
    numbers->name = config->name;
    numbers->version = BELFRY_VERSION;
    numbers->draining = tier->draining;
    numbers->ready_lag_ms = config->ready_lag_ms;
    for (size_t i = 0; i < config->n_listen && numbers->guarded == NULL; i++)
        if (config->listen[i].policy.rights == LISTEN_RIGHTS_UPSTREAM)
            numbers->guarded = config->listen[i].endpoint.url;
    numbers->listeners = tier->listeners;
    numbers->listeners.refused += tier->refused;
    numbers->listeners_left_s = seconds_until(tier->listeners_expire_s);
    numbers->upstream_left_s =
        tier->upstream_tls != NULL ? seconds_until(belfry_tls_expires(tier->upstream_tls)) : BELFRY_NEVER;
    numbers->clock_ms = unix_ms();
    numbers->descriptors = descriptors_limit();
    numbers->disk_free_bytes = free_bytes(config->cache_dir);
    numbers->advertise = tier->advertise;
    numbers->endpoints = config->upstream;
    numbers->n_endpoints = config->n_upstream;
    numbers->scope = config->scope;
    numbers->n_scope = config->n_scope;
    numbers->memory_max = tier->limits->memory;
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

static enum belfry_err start_gatherer(struct tier *tier)
{
    struct gatherer_opts opts = {.loop = tier->opts.loop,
                                 .front = tier->opts.front,
                                 .ingest = tier->ingest,
                                 .workers = tier->workers,
                                 .n_workers = tier->n_workers,
                                 .finish = finish_numbers,
                                 .user = tier};
    return gatherer_create(&opts, &tier->gatherer);
}

/* Workers and the reader start before ingest can wake them: a warm replica has a position immediately, and a worker
 * that follows definitions then asks the reader by itself, without a client. */
static enum belfry_err start_threads(struct tier *tier)
{
    struct evlog_opts log = {.capacity_log2 = LOG_CAPACITY_LOG2,
                             .max_bytes = tier->opts.config->log_bytes,
                             .n_workers = tier->opts.config->workers + 1}; /* and the tail */
    enum belfry_err err = evlog_create(&log, &tier->log);
    if (err == BELFRY_OK)
        err = start_workers(tier);
    if (err == BELFRY_OK)
        err = publish_first(tier);
    if (err == BELFRY_OK)
        err = start_reader(tier);
    if (err == BELFRY_OK)
        err = start_ingest(tier);
    return err == BELFRY_OK ? start_gatherer(tier) : err;
}

static void find_address(struct tier *tier)
{
    char why[256];
    enum advertise_sockets sockets = service_has_listen_fds() ? ADVERTISE_HANDED_OVER : ADVERTISE_OWN;
    tier->advertise = advertise_choose(tier->opts.config, sockets, why, sizeof(why));
    if (tier->advertise != NULL)
        belfry_logf(tier->opts.log, BELFRY_LOG_INFO, "advertise", "url=%s", tier->advertise);
    else if (why[0] != '\0')
        belfry_logf(
            tier->opts.log, BELFRY_LOG_WARN, "no_advertise",
            "why=\"%s\" hint=\"MemberList shows upstream's addresses, so clients that sync with it leave this tier "
            "for upstream; --advertise URL keeps them here\"",
            why);
}

enum belfry_err tier_start(const struct tier_opts *opts, struct tier **out, char *why, size_t why_len)
{
    struct tier *tier = calloc(1, sizeof(*tier));
    snprintf(why, why_len, "out of memory");
    if (tier == NULL)
        return BELFRY_ERR_NOMEM;
    tier->opts = *opts;
    tier->started_ms = belfry_clock_ms();
    tier->process_start_s = metrics_process_start();
    tier->limits = opts->limits;
    find_address(tier);
    standing_init(&tier->standing);
    term_init(&tier->term);
    auth_revision_init(&tier->auth_revision);
    via_word(opts->config->name, tier->word);
    enum belfry_err err = load_credentials(tier, why, why_len);
    if (err == BELFRY_OK)
        err = load_token_key(tier, why, why_len);
    if (err == BELFRY_OK)
        err = open_replica(tier, why, why_len);
    if (err == BELFRY_OK) {
        err = start_threads(tier);
        if (err != BELFRY_OK)
            snprintf(why, why_len, "cannot start the threads: %s", belfry_strerror((int)err));
    }
    if (err != BELFRY_OK) {
        tier_stop(tier);
        tier_destroy(tier);
        return err;
    }
    replica_serves(tier->store);
    BELFRY_OWNER_INIT(tier);
    *out = tier;
    return BELFRY_OK;
}

/* ---- ending ---- */

/* Workers ask the reader, and the reader asks ingest; answers to a thread that has ended find a closed mailbox. */
void tier_stop(struct tier *tier)
{
    if (tier == NULL || tier->stopped)
        return;
    BELFRY_OWNER_CHECK(tier);
    tier->stopped = true;
    for (size_t i = 0; i < tier->n_workers; i++)
        worker_thread_stop(tier->workers[i]);
    history_reader_stop(tier->history);
    ingest_thread_stop(tier->ingest);
    gatherer_destroy(tier->gatherer);
}

void tier_destroy(struct tier *tier)
{
    if (tier == NULL)
        return;
    BELFRY_OWNER_CHECK(tier);
    for (size_t i = 0; i < tier->n_workers; i++)
        worker_thread_destroy(tier->workers[i]);
    ingest_thread_destroy(tier->ingest);
    history_reader_destroy(tier->history);
    free(tier->workers);
    free(tier->hands);
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

/* ---- for the front ---- */

/* The worker with the least to do. Connections that come together, after a fault for example, bring their watchers only
 * later, and the watchers they had before still count. So each connection of the last moments counts as if it had the
 * average number of watchers. */
static size_t choose_worker(struct tier *tier, uint64_t now)
{
    size_t best = 0, least = SIZE_MAX, all = 0;
    for (size_t i = 0; i < tier->n_workers; i++)
        all += worker_thread_load(tier->workers[i]);
    size_t each = all / (tier_busy(tier) + 1);
    for (size_t i = 0; i < tier->n_workers; i++) {
        struct hand *hand = &tier->hands[i];
        if (now - hand->since_ms > HAND_MS)
            *hand = (struct hand){.since_ms = now};
        size_t load = worker_thread_load(tier->workers[i]) + hand->n * each;
        if (load < least) {
            least = load;
            best = i;
        }
    }
    return best;
}

void tier_accept(struct tier *tier, const struct inbound_arrival *arrival)
{
    BELFRY_OWNER_CHECK(tier);
    if (tier_busy(tier) >= tier->limits->connections) { /* the rest of the descriptors is for upstream and the admin */
        tier->refused++;
        close(arrival->fd);
        return;
    }
    size_t best = choose_worker(tier, belfry_clock_ms());
    tier->hands[best].n++;
    worker_thread_accept(tier->workers[best], arrival);
}

void tier_drain(struct tier *tier, uint64_t drain_ms)
{
    BELFRY_OWNER_CHECK(tier);
    tier->draining = true;
    for (size_t i = 0; i < tier->n_workers; i++)
        worker_thread_drain(tier->workers[i], drain_ms);
}

void tier_farewell(struct tier *tier)
{
    BELFRY_OWNER_CHECK(tier);
    for (size_t i = 0; i < tier->n_workers; i++)
        worker_thread_farewell(tier->workers[i]);
}

size_t tier_busy(const struct tier *tier)
{
    size_t busy = 0;
    for (size_t i = 0; i < tier->n_workers; i++)
        busy += worker_thread_connections(tier->workers[i]);
    return busy;
}

enum belfry_err tier_open_tail(struct tier *tier, struct tail **out)
{
    BELFRY_OWNER_CHECK(tier);
    return tail_create(tier->log, tier->opts.config->workers, out);
}

enum belfry_err tier_collect(admin_numbers_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    return gatherer_numbers(tier->gatherer, fn, fn_user);
}

enum belfry_err tier_sample(admin_numbers_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    return gatherer_sample(tier->gatherer, fn, fn_user);
}

enum belfry_err tier_scan(const struct watchers_query *query, admin_scans_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    return gatherer_scan(tier->gatherer, query, fn, fn_user);
}

enum belfry_err tier_clients(const struct clients_query *query, admin_clients_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    return gatherer_clients(tier->gatherer, query, fn, fn_user);
}

void tier_note_listeners(struct tier *tier, const struct listener_stats *stats, int64_t expires_s)
{
    BELFRY_OWNER_CHECK(tier);
    tier->listeners = *stats;
    tier->listeners_expire_s = expires_s;
}

/* OFF when a worker found it off, UNKNOWN when one does not know. */
static enum permit_auth tier_auth(const struct tier *tier)
{
    enum permit_auth least = PERMIT_AUTH_ON;
    for (size_t i = 0; i < tier->n_workers; i++) {
        enum permit_auth auth = worker_thread_auth(tier->workers[i]);
        if (auth == PERMIT_AUTH_OFF)
            return PERMIT_AUTH_OFF;
        least = auth == PERMIT_AUTH_UNKNOWN ? PERMIT_AUTH_UNKNOWN : least;
    }
    return least;
}

enum permit_auth tier_guard(const struct tier *tier)
{
    BELFRY_OWNER_CHECK(tier);
    return config_needs_auth(tier->opts.config) ? tier_auth(tier) : PERMIT_AUTH_ON;
}

enum tier_state tier_look(struct tier *tier, char *reason, size_t reason_len)
{
    BELFRY_OWNER_CHECK(tier);
    uint64_t turn = 0;
    struct standing_view view;
    standing_look(&tier->standing, &turn, &view);
    snprintf(reason, reason_len, "%s", view.reason);
    if (view.given_up)
        return TIER_HOPELESS;
    if (view.how != DRIVER_READY || tier->draining)
        return TIER_NOT_READY;
    if (tier_guard(tier) == PERMIT_AUTH_ON)
        return TIER_READY;
    snprintf(reason, reason_len, "a listener has rights=upstream, and auth was not found on there");
    return TIER_NOT_READY;
}
