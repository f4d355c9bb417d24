/* src/daemon/kube_tier.c */
#include "daemon/kube_tier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/kube_parts.h"
#include "daemon/seed.h"
#include "kube/builtin.h"

#define SHELF_BYTES       4096               /* nothing is backfilled, so nothing is put there */
#define FORMS_BYTES       (16 * 1024 * 1024) /* of decoded events, of all resources on a worker, */
#define FORMS_BYTES_LEAST (64 * 1024)        /* and for each besides */

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
    size_t n;
    uint64_t process; /* kube_lists_opts */
    /* shared between the threads, each by its own rules */
    struct resource_standing *standings; /* owned; of each resource */
    struct history_reader *history;
    struct answers *answers;
    struct kfront_fields *fields;
    /* the front's */
    struct kube_ingest *ingest;
    struct kfront_field relayed[KFRONT_FIELDS_MAX + 1]; /* a copy, for numbers */
    char why[256];                                      /* why ingest did not start */
};

static struct kube_tier *kube_of(struct tier_parts *parts)
{
    return belfry_container(parts, struct kube_tier, parts);
}

/* ---- from thread to thread ---- */

static void on_wake(void *user)
{
    struct kube_tier *tier = user;
    for (size_t i = 0; i < tier->opts.workers->n; i++)
        worker_thread_wake(tier->opts.workers->all[i]);
}

static void on_done(struct history_reader_job *job, void *user)
{
    struct kube_tier *tier = user;
    kube_parts_fetched(tier->opts.workers->all[job->worker], job);
}

/* The window has lost it, and upstream cannot be asked for history. */
static void on_lost(struct history_reader_job *job, void *user)
{
    (void)user;
    history_reader_answer(job, BELFRY_ERR_COMPACTED, NULL, job->oldest);
}

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

/* On ingest's thread. */
static void on_found(size_t number, const struct resource_set_view *view, void *user)
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
    struct kube_parts_resource found = {.number = number,
                                        .resource = resource,
                                        .store = view->store,
                                        .log = view->log,
                                        .standing = &tier->standings[number]};
    for (size_t i = 0; i < tier->opts.workers->n && err == BELFRY_OK; i++)
        err = kube_parts_add(tier->opts.workers->all[i], &found);
    if (err != BELFRY_OK)
        belfry_logf(tier->opts.log, BELFRY_LOG_ERROR, "resource_not_served",
                    "resource=%s why=\"%s\" hint=\"its requests are relayed\"", name->plural,
                    belfry_strerror((int)err));
    kube_resource_unref(resource);
}

/* ---- starting ---- */

static enum belfry_err start_worker(struct tier_parts *parts, unsigned number, const struct worker_thread_opts *common,
                                    struct worker_thread **out)
{
    struct kube_tier *tier = kube_of(parts);
    const struct config *config = tier->opts.config;
    struct kube_parts_opts opts = {.number = number,
                                   .n_resources = tier->n,
                                   .history = &tier->history,
                                   .to_ingest = to_ingest,
                                   .to_worker = to_worker,
                                   .user = &tier->routes[number],
                                   .upstream = &tier->upstream,
                                   .name = tier->opts.word,
                                   .hosts = tier->opts.hosts,
                                   .cors = {config->cors_origins, config->n_cors_origins},
                                   .memory_max = tier->opts.limits->memory / config->workers,
                                   .forms_bytes = FORMS_BYTES / tier->n + FORMS_BYTES_LEAST,
                                   .progress_ms = config->progress_ms,
                                   .seed = seed_draw(),
                                   .rights_period_ms = config->rights_period_ms,
                                   .answers = tier->answers,
                                   .fields = tier->fields,
                                   .process = tier->process,
                                   .log = tier->opts.log};
    struct worker_thread_opts thread = *common;
    thread.create = kube_parts_create;
    thread.parts = &opts;
    return worker_thread_start(&thread, out);
}

static enum belfry_err start_ingest(struct kube_tier *tier)
{
    const struct config *config = tier->opts.config;
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
                                    .found = on_found,
                                    .wake = on_wake,
                                    .user = tier};
    return kube_ingest_start(&opts, &tier->ingest, tier->why, sizeof(tier->why));
}

static enum belfry_err kube_tier_start(struct tier_parts *parts)
{
    struct kube_tier *tier = kube_of(parts);
    struct history_reader_opts reader = {
        .segment_bytes = SEGMENT_BYTES, .shelf_bytes = SHELF_BYTES, .done = on_done, .lost = on_lost, .user = tier};
    enum belfry_err err = history_reader_start(&reader, &tier->history);
    if (err == BELFRY_OK)
        err = start_ingest(tier);
    if (err != BELFRY_OK && tier->why[0] != '\0')
        belfry_logf(tier->opts.log, BELFRY_LOG_ERROR, "upstream_not_opened", "why=\"%s\"", tier->why);
    return err;
}

/* ---- ending ---- */

/* Workers have ended; when the reader has, nobody reads the stores, which ingest closes. */
static void kube_tier_stop(struct tier_parts *parts)
{
    struct kube_tier *tier = kube_of(parts);
    history_reader_stop(tier->history);
    kube_ingest_stop(tier->ingest);
}

static void kube_tier_destroy(struct tier_parts *parts)
{
    struct kube_tier *tier = kube_of(parts);
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

/* ---- for the front ---- */

static void kube_tier_post(struct tier_parts *parts, struct mail *mail)
{
    kube_ingest_post(kube_of(parts)->ingest, mail);
}

static void kube_tier_fill(void *owner, struct ingest_thread_numbers *out)
{
    kube_ingest_numbers(owner, out);
}

static void kube_tier_finish(struct tier_parts *parts, struct tier_numbers *numbers)
{
    struct kube_tier *tier = kube_of(parts);
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
    struct kube_tier *tier = kube_of(parts);
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

static const struct tier_parts_api kube_tier_api = {.start_worker = start_worker,
                                                    .start = kube_tier_start,
                                                    .stop = kube_tier_stop,
                                                    .destroy = kube_tier_destroy,
                                                    .post = kube_tier_post,
                                                    .fill = kube_tier_fill,
                                                    .finish = kube_tier_finish,
                                                    .look = kube_tier_look,
                                                    .open_tail = kube_tier_open_tail};

static enum belfry_err read_names(struct kube_tier *tier)
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

static enum belfry_err make_folder(const char *dir, char *why, size_t why_len)
{
    if (mkdir(dir, 0700) == 0 || errno == EEXIST)
        return BELFRY_OK;
    snprintf(why, why_len, "%s: cannot be made: %s", dir, strerror(errno));
    return BELFRY_ERR_IO;
}

enum belfry_err kube_tier_open(const struct tier_parts_opts *opts, struct tier_parts **out, char *why, size_t why_len)
{
    struct kube_tier *tier = calloc(1, sizeof(*tier));
    if (tier == NULL)
        return BELFRY_ERR_NOMEM;
    tier->parts.api = &kube_tier_api;
    tier->opts = *opts;
    tier->process = seed_draw() | 1;
    enum belfry_err err = kube_upstream_read(opts->config, &tier->upstream, why, why_len);
    if (err == BELFRY_OK)
        err = make_folder(opts->config->cache_dir, why, why_len);
    if (err == BELFRY_OK)
        err = read_names(tier);
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
