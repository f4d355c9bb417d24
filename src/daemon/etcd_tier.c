/* src/daemon/etcd_tier.c */
#include "daemon/etcd_tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/crash_note.h"
#include "daemon/etcd_parts.h"
#include "daemon/seed.h"
#include "replica/replica.h"
#include "serve/kube/definitions.h"

#define LOG_CAPACITY_LOG2 20 /* batches; what bounds it is its bytes */
#define SHELF_BYTES       (64 * 1024 * 1024)

struct etcd_tier {
    struct tier_parts parts;
    /* fixed */
    struct tier_parts_opts opts;
    struct belfry_tls *upstream_tls; /* NULL: no endpoint wants it */
    struct mint *mint;               /* NULL: this tier signs no tokens */
    struct vouch_opts vouch;
    struct belfry_buf scope_end; /* of a prefix */
    uint64_t process;            /* kube_lists_opts */
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
};

static struct etcd_tier *etcd_of(struct tier_parts *parts)
{
    return belfry_container(parts, struct etcd_tier, parts);
}

/* ---- from thread to thread ---- */

static void on_wake(void *user)
{
    struct etcd_tier *tier = user;
    for (size_t i = 0; i < tier->opts.workers->n; i++)
        worker_thread_wake(tier->opts.workers->all[i]);
}

static void on_done(struct history_reader_job *job, void *user)
{
    struct etcd_tier *tier = user;
    etcd_parts_fetched(tier->opts.workers->all[job->worker], job);
}

static void on_lost(struct history_reader_job *job, void *user)
{
    struct etcd_tier *tier = user;
    ingest_thread_backfill(tier->ingest, job);
}

static enum belfry_err tier_spread(struct etcd_tier *tier, struct kube_catalog *catalog,
                                   enum kube_catalog_extent extent)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < tier->opts.workers->n && err == BELFRY_OK; i++)
        err = etcd_parts_set_catalog(tier->opts.workers->all[i], kube_catalog_ref(catalog), extent);
    kube_catalog_unref(catalog);
    return err;
}

/* On the reader's thread. */
static enum belfry_err on_catalog(struct kube_catalog *catalog, void *user)
{
    return tier_spread(user, catalog, KUBE_CATALOG_WHOLE);
}

/* ---- starting ---- */

static bool wants_tls(const struct config *config)
{
    for (size_t i = 0; i < config->n_upstream; i++)
        if (config->upstream[i].tls)
            return true;
    return false;
}

static enum belfry_err load_credentials(struct etcd_tier *tier, char *why, size_t why_len)
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
static enum belfry_err load_token_key(struct etcd_tier *tier, char *why, size_t why_len)
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

static enum belfry_err open_replica(struct etcd_tier *tier, char *why, size_t why_len)
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

static enum belfry_err start_reader(struct etcd_tier *tier)
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
static enum belfry_err scope_of(struct etcd_tier *tier, struct belfry_bytes *key, struct belfry_bytes *range_end)
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

static enum belfry_err start_ingest(struct etcd_tier *tier)
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
static enum belfry_err publish_first(struct etcd_tier *tier)
{
    struct kube_catalog *catalog;
    if (tier->opts.config->definitions == NULL)
        return BELFRY_OK;
    enum belfry_err err = definitions_catalog(tier->opts.config->definitions, tier->opts.log, &catalog);
    if (err != BELFRY_OK)
        return err;
    return tier_spread(tier, catalog, follows_definitions(tier->opts.config) ? KUBE_CATALOG_PART : KUBE_CATALOG_WHOLE);
}

static enum belfry_err start_worker(struct tier_parts *parts, unsigned number, const struct worker_thread_opts *common,
                                    struct worker_thread **out)
{
    struct etcd_tier *tier = etcd_of(parts);
    const struct config *config = tier->opts.config;
    struct catalog_feed_opts feed = {.definitions = config->definitions,
                                     .sources = &config->resources,
                                     .history = &tier->history,
                                     .publish = on_catalog,
                                     .user = tier,
                                     .log = tier->opts.log};
    struct etcd_parts_opts opts = {.number = number,
                                   .log = tier->log,
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
                                   .name = tier->opts.word,
                                   .advertise = tier->opts.advertise,
                                   .hosts = tier->opts.hosts,
                                   .tickets = tier->opts.tickets,
                                   .cors = {config->cors_origins, config->n_cors_origins},
                                   .vouch = tier->mint != NULL || config->pass_users ? &tier->vouch : NULL,
                                   .needs_auth = config_needs_auth(config),
                                   .memory_max = tier->opts.limits->memory / config->workers,
                                   .progress_ms = config->progress_ms,
                                   .seed = seed_draw(),
                                   .rights_period_ms = config->rights_period_ms,
                                   .answers = tier->answers,
                                   .process = tier->process,
                                   .log_lines = tier->opts.log,
                                   .kube = config->definitions != NULL,
                                   .feed = number == 0 && follows_definitions(config) ? &feed : NULL};
    struct worker_thread_opts thread = *common;
    thread.create = etcd_parts_create;
    thread.parts = &opts;
    return worker_thread_start(&thread, out);
}

/* Workers and the reader start before ingest can wake them: a warm replica has a position immediately, and a worker
 * that follows definitions then asks the reader by itself, without a client. */
static enum belfry_err etcd_tier_start(struct tier_parts *parts)
{
    struct etcd_tier *tier = etcd_of(parts);
    enum belfry_err err = publish_first(tier);
    if (err == BELFRY_OK)
        err = start_reader(tier);
    if (err == BELFRY_OK)
        err = start_ingest(tier);
    if (err == BELFRY_OK)
        replica_serves(tier->store);
    return err;
}

/* ---- ending ---- */

/* The reader asks ingest; answers to a thread that has ended find a closed mailbox. */
static void etcd_tier_stop(struct tier_parts *parts)
{
    struct etcd_tier *tier = etcd_of(parts);
    history_reader_stop(tier->history);
    ingest_thread_stop(tier->ingest);
}

static void etcd_tier_destroy(struct tier_parts *parts)
{
    struct etcd_tier *tier = etcd_of(parts);
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

/* ---- for the front ---- */

static void etcd_tier_post(struct tier_parts *parts, struct mail *mail)
{
    ingest_thread_post(etcd_of(parts)->ingest, mail);
}

static void etcd_tier_fill(void *owner, struct ingest_thread_numbers *out)
{
    ingest_thread_numbers(owner, out);
}

static void etcd_tier_finish(struct tier_parts *parts, struct tier_numbers *numbers)
{
    struct etcd_tier *tier = etcd_of(parts);
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
    standing_look(&etcd_of(parts)->standing, &turn, &view);
    *out = (struct tier_parts_view){.is_ready = view.how == DRIVER_READY, .is_hopeless = view.given_up};
    memcpy(out->reason, view.reason, sizeof(out->reason));
}

static enum belfry_err etcd_tier_open_tail(struct tier_parts *parts, struct tail **out)
{
    struct etcd_tier *tier = etcd_of(parts);
    return tail_create(tier->log, tier->opts.config->workers, out);
}

static const struct tier_parts_api etcd_tier_api = {.start_worker = start_worker,
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
    tier->process = seed_draw() | 1;
    standing_init(&tier->standing);
    term_init(&tier->term);
    auth_revision_init(&tier->auth_revision);
    enum belfry_err err = load_credentials(tier, why, why_len);
    if (err == BELFRY_OK)
        err = load_token_key(tier, why, why_len);
    if (err == BELFRY_OK)
        err = open_replica(tier, why, why_len);
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
