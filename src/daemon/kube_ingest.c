/* src/daemon/kube_ingest.c */
#include "daemon/kube_ingest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/resource_standing.h"
#include "replica/replica.h"

#define HTTP_UNAUTHORIZED 401
#define HTTP_FORBIDDEN    403

struct kube_ingest {
    /* fixed at creation */
    struct kube_ingest_opts opts;
    struct thread *thread;
    char *why; /* lent until it has started */
    size_t why_len;
    /* the thread's */
    struct resource_set *set;
};

static void on_resource_changed(size_t number, void *user)
{
    struct kube_ingest *ingest = user;
    struct resource_standing *standing = &ingest->opts.standings[number];
    struct resource_set_view view;
    struct resource_driver_status status;
    resource_set_look(ingest->set, number, &view);
    struct resource_standing_view now = {.is_ready = view.is_ready,
                                         .is_stale = view.is_stale,
                                         .is_absent = view.is_absent,
                                         .is_gone = view.is_absent && view.is_found};
    memcpy(now.reason, view.reason, sizeof(now.reason));
    if (view.is_found) {
        resource_driver_status(view.driver, &status);
        resource_standing_publish(standing, status.version, belfry_clock_ns());
    }
    resource_standing_set(standing, &now);
    ingest->opts.wake(ingest->opts.user);
}

static void on_resource_found(size_t number, void *user)
{
    struct kube_ingest *ingest = user;
    struct resource_set_view view;
    resource_set_look(ingest->set, number, &view);
    ingest->opts.found(number, &view, ingest->opts.user);
    on_resource_changed(number, user);
}

static enum belfry_err kube_ingest_begin(struct thread *thread, void *user)
{
    static const struct resource_set_events events = {.found = on_resource_found, .changed = on_resource_changed};
    struct kube_ingest *ingest = user;
    struct resource_set_opts opts = ingest->opts.set;
    opts.loop = thread_loop(thread);
    return resource_set_open(&opts, &events, ingest, &ingest->set, ingest->why, ingest->why_len);
}

static void kube_ingest_end(struct thread *thread, void *user)
{
    (void)thread;
    struct kube_ingest *ingest = user;
    resource_set_close(ingest->set);
    ingest->set = NULL;
}

enum belfry_err kube_ingest_start(const struct kube_ingest_opts *opts, struct kube_ingest **out, char *why,
                                  size_t why_len)
{
    static const struct thread_part part = {"belfry-ingest", kube_ingest_begin, kube_ingest_end};
    struct kube_ingest *ingest = calloc(1, sizeof(*ingest));
    if (ingest == NULL)
        return BELFRY_ERR_NOMEM;
    *ingest = (struct kube_ingest){.opts = *opts, .why = why, .why_len = why_len};
    enum belfry_err err = thread_start(&part, ingest, &ingest->thread);
    if (err != BELFRY_OK) {
        free(ingest);
        return err;
    }
    *out = ingest;
    return BELFRY_OK;
}

void kube_ingest_stop(struct kube_ingest *ingest)
{
    if (ingest != NULL)
        thread_stop(ingest->thread);
}

void kube_ingest_destroy(struct kube_ingest *ingest)
{
    if (ingest == NULL)
        return;
    thread_destroy(ingest->thread);
    free(ingest);
}

void kube_ingest_post(struct kube_ingest *ingest, struct mail *mail)
{
    thread_post(ingest->thread, mail);
}

struct resource_set *kube_ingest_set(struct kube_ingest *ingest)
{
    return ingest->set;
}

bool kube_ingest_prove(void *owner, size_t number, struct resource_proof *proof)
{
    struct kube_ingest *ingest = owner;
    struct resource_set_view view;
    resource_set_look(ingest->set, number, &view);
    if (view.is_found)
        resource_driver_prove(view.driver, proof);
    return view.is_found;
}

/* ---- numbers ---- */

/* Why a resource is not ready. */
static enum driver_trouble trouble_of(const struct resource_set_view *view)
{
    switch (view->code) {
    case HTTP_UNAUTHORIZED:
        return DRIVER_LOG_IN;
    case HTTP_FORBIDDEN:
        return DRIVER_DENIED;
    default:
        return view->is_absent  ? DRIVER_ABSENT
               : view->is_stale ? DRIVER_SILENT
               : view->is_found ? DRIVER_WORKING
                                : DRIVER_UNREACHABLE;
    }
}

static void kube_ingest_count_resource(struct kube_ingest *ingest, size_t number, struct resource_numbers *out)
{
    static const char *const states[] = {[RESOURCE_START] = "start",
                                         [RESOURCE_LISTING] = "listing",
                                         [RESOURCE_JOINING] = "joining",
                                         [RESOURCE_AUDITING] = "auditing",
                                         [RESOURCE_LIVE] = "live"};
    const char *state = "looking";
    struct resource_set_view view;
    resource_set_look(ingest->set, number, &view);

    /* what its follower and its replica have; before it was found there are none */
    if (view.is_found) {
        struct resource_driver_status status;
        struct replica_stats replica;
        resource_driver_status(view.driver, &status);
        replica_stats(view.store, &replica);
        const struct resource_stats *stats = &status.stats;
        state = states[status.state];
        snprintf(out->version, sizeof(out->version), "%s", view.facts->version);
        snprintf(out->server, sizeof(out->server), "%s",
                 belfry_kube_server(resource_set_server(ingest->set, status.server)));
        snprintf(out->relisted, sizeof(out->relisted), "%s", status.why);
        out->resource_version = (uint64_t)status.version;
        out->objects = replica.state_rows;
        out->replica_bytes = replica.used_bytes;
        out->log_bytes = evlog_bytes(view.log);
        out->events = stats->events;
        out->bookmarks = stats->bookmarks;
        out->listings = stats->listings;
        out->expired = stats->expired;
        out->rewritten = stats->rewritten;
        out->watches = stats->watches;
        out->probes = stats->probes;
        out->moves = stats->moves;
        out->proofs = stats->fresh;
        out->unproven = stats->unproven;
    }

    /* how it stands */
    resource_name_write(&ingest->opts.set.names[number], out->name);
    snprintf(out->state, sizeof(out->state), "%s", view.is_absent ? "absent" : state);
    memcpy(out->reason, view.reason, sizeof(out->reason));
    out->trouble = view.is_ready ? DRIVER_FINE : trouble_of(&view);
    out->ready = view.is_ready;
    out->stale = view.is_stale;
}

/* What the whole tier says of its upstream: ready while each resource is, but those whose definition was deleted. The
 * endpoint is that of the first resource. */
static void kube_ingest_sum_up(struct kube_ingest *ingest, struct driver_status *out)
{
    out->standing = DRIVER_READY;
    out->state = UPSTREAM_LIVE;
    for (size_t i = 0; i < ingest->opts.set.n_names; i++) {
        struct resource_set_view view;
        resource_set_look(ingest->set, i, &view);
        if (view.is_found) {
            struct resource_driver_status status;
            resource_driver_status(view.driver, &status);
            out->stats.events += status.stats.events;
            out->stats.overlaps += status.stats.overlaps;
            out->stats.listings += status.stats.listings;
            out->stats.relists_compacted += status.stats.expired;
            out->stats.relists_rewritten += status.stats.rewritten;
            out->stats.judgements += status.stats.judgements;
            if (out->endpoint[0] == '\0')
                snprintf(out->endpoint, sizeof(out->endpoint), "%s",
                         belfry_kube_server(resource_set_server(ingest->set, status.server)));
        }

        /* the first that is not ready says why the tier is not */
        if (view.is_ready || (view.is_absent && view.is_found) || out->standing != DRIVER_READY)
            continue;
        out->standing = view.is_stale ? DRIVER_STALE : DRIVER_NOT_READY;
        out->state = UPSTREAM_START;
        out->silent_ms = BELFRY_NEVER;
        out->trouble = trouble_of(&view);
        memcpy(out->reason, view.reason, sizeof(out->reason));
    }
    for (unsigned i = 0; i < ingest->opts.set.n_servers; i++) {
        const struct belfry_kube_stats *stats = belfry_kube_get_stats(resource_set_server(ingest->set, i));
        out->connects += stats->connects;
        out->losses += stats->losses;
    }
}

void kube_ingest_numbers(struct kube_ingest *ingest, struct ingest_thread_numbers *out)
{
    static const enum about_standing as[] = {
        [DRIVER_NOT_READY] = ABOUT_NOT_READY, [DRIVER_READY] = ABOUT_READY, [DRIVER_STALE] = ABOUT_STALE};
    size_t n = ingest->opts.set.n_names;
    kube_ingest_sum_up(ingest, &out->status);

    /* this tier, and the API server above it */
    out->about = (struct about){.self = {.version = "belfryd/" BELFRY_VERSION,
                                         .standing = as[out->status.standing],
                                         .silent_ms = out->status.silent_ms},
                                .n_above = 1,
                                .above = {{.name = "Kubernetes API", .silent_ms = BELFRY_NEVER}}};
    snprintf(out->about.self.name, sizeof(out->about.self.name), "%s", ingest->opts.name);
    snprintf(out->about.above[0].endpoint, sizeof(out->about.above[0].endpoint), "%.150s", out->status.endpoint);

    out->resources = calloc(n, sizeof(*out->resources));
    out->n_resources = out->resources == NULL ? 0 : n;
    for (size_t i = 0; i < out->n_resources; i++) {
        kube_ingest_count_resource(ingest, i, &out->resources[i]);
        out->log_bytes += out->resources[i].log_bytes;
    }
}
