/* tests/storm/feed_kube.c: the feed (feed.h) in the place of daemon/kube_ingest.c, as one resource, and
 * daemon/kube_upstream.c, so that the API server is a unix socket. The linker takes these functions instead of the real
 * ones. Thread: owner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/kube_ingest.h"
#include "daemon/kube_upstream.h"
#include "daemon/resource_standing.h"
#include "replica/replica.h"
#include "storm/apiserver.h"
#include "storm/feed.h"
#include "storm/verdict.h"

#define LOG_CAPACITY_LOG2 17

struct kube_ingest {
    struct kube_ingest_opts opts;
    struct store *store;
    struct evlog *evlog;
    struct ingest *ingest;     /* NULL: it has stopped */
    struct belfry_list proofs; /* of resource_proof.node */
};

/* ---- kube_upstream.h ---- */

enum belfry_err kube_upstream_read(const struct config *config, struct kube_upstream *out, char *why, size_t why_len)
{
    *out = (struct kube_upstream){.n = 1};
    verdict_must(belfry_endpoint_parse(config->upstream_kube, strlen(config->upstream_kube), &out->endpoints[0], why,
                                       why_len) == BELFRY_OK,
                 why);
    out->settings.base = strdup("");
    out->settings.config.token = strdup(APISERVER_TIER);
    verdict_must(out->settings.base != NULL && out->settings.config.token != NULL, "upstream");
    return BELFRY_OK;
}

void kube_upstream_fini(struct kube_upstream *upstream)
{
    belfry_kube_settings_fini(&upstream->settings);
}

/* ---- kube_ingest.h ---- */

static void answer_proofs(struct kube_ingest *thread, int64_t rv)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&thread->proofs)) != NULL;) {
        struct resource_proof *proof = belfry_container(node, struct resource_proof, node);
        proof->fn(proof, rv);
    }
}

static void on_tell(void *user)
{
    struct kube_ingest *thread = user;
    struct resource_standing_view view = {.is_ready = !feed_is_stale(), .is_stale = feed_is_stale()};
    snprintf(view.reason, sizeof(view.reason), "%s", feed_is_stale() ? "upstream is silent" : "");
    resource_standing_publish(&thread->opts.standings[0], feed_head(), belfry_clock_ns());
    resource_standing_set(&thread->opts.standings[0], &view);
    thread->opts.wake(thread->opts.user);
}

static void on_answer(void *user)
{
    struct kube_ingest *thread = user;
    if (!feed_is_stale())
        answer_proofs(thread, feed_head());
}

static bool on_is_asked(void *user)
{
    struct kube_ingest *thread = user;
    return !belfry_list_empty(&thread->proofs) && !feed_is_stale();
}

/* As kfollow/resource_set.c does. */
static void open_store(struct kube_ingest *thread)
{
    const struct resource_set_opts *set = &thread->opts.set;
    char dir[128], *why = NULL;
    struct replica_opts replica = {.dir = dir,
                                   .history_bytes = set->history_bytes,
                                   .history_age_s = set->history_age_s,
                                   .extent_bytes = INGEST_EXTENT_BYTES,
                                   .scope = "demo.example.com/v1 widgets",
                                   .audit_here = true,
                                   .log = set->log};
    struct evlog_opts log = {
        .capacity_log2 = LOG_CAPACITY_LOG2, .max_bytes = set->log_bytes, .n_workers = set->n_workers};
    snprintf(dir, sizeof(dir), "%s/widgets", set->dir);
    verdict_must(replica_open(&replica, &thread->store, &why) == BELFRY_OK &&
                     evlog_create(&log, &thread->evlog) == BELFRY_OK,
                 "a resource");
    replica_serves(thread->store);
}

static void tell_found(struct kube_ingest *thread)
{
    static const struct resource_facts facts = {.group_version = "demo.example.com/v1",
                                                .version = "v1",
                                                .singular = "widget",
                                                .kind = "Widget",
                                                .is_namespaced = true};
    struct resource_set_view view = {
        .is_found = true, .is_ready = true, .facts = &facts, .store = thread->store, .log = thread->evlog};
    thread->opts.found(0, &view, thread->opts.user);
}

enum belfry_err kube_ingest_start(const struct kube_ingest_opts *opts, struct kube_ingest **out, char *why,
                                  size_t why_len)
{
    struct kube_ingest *thread = calloc(1, sizeof(*thread));
    (void)why, (void)why_len;
    verdict_must(thread != NULL, "the feed");
    thread->opts = *opts;
    belfry_list_init(&thread->proofs);
    open_store(thread);
    struct feed_opts feed = {.is_kube = true,
                             .store = thread->store,
                             .evlog = thread->evlog,
                             .tell = on_tell,
                             .answer = on_answer,
                             .is_asked = on_is_asked,
                             .user = thread};
    thread->ingest = feed_begin(&feed);
    feed_cut(EVLOG_CUT_START);
    tell_found(thread);
    *out = thread;
    return BELFRY_OK;
}

void kube_ingest_stop(struct kube_ingest *thread)
{
    if (thread == NULL)
        return;
    answer_proofs(thread, 0);
    feed_end();
    thread->ingest = NULL;
    evlog_destroy(thread->evlog);
    replica_close(thread->store, REPLICA_CLOSE_CLEAN);
}

void kube_ingest_destroy(struct kube_ingest *thread)
{
    free(thread);
}

void kube_ingest_post(struct kube_ingest *thread, struct mail *mail)
{
    mail->open(mail, thread->ingest == NULL ? NULL : thread);
}

bool kube_ingest_prove(void *owner, size_t number, struct resource_proof *proof)
{
    struct kube_ingest *thread = owner;
    (void)number;
    belfry_list_append(&thread->proofs, &proof->node);
    return true;
}

void kube_ingest_numbers(struct kube_ingest *thread, struct ingest_thread_numbers *out)
{
    *out = (struct ingest_thread_numbers){.log_bytes = evlog_bytes(thread->evlog)};
    out->status.standing = feed_is_stale() ? DRIVER_STALE : DRIVER_READY;
    out->status.state = UPSTREAM_LIVE;
}
