/* src/daemon/kube_ingest.h
 *
 * kube_ingest: the thread that follows resources of API servers (kfollow/resource_set.h) and writes their replicas and
 * logs.
 *
 * Thread: start, stop, destroy: the front's; the rest any.
 */
#ifndef BELFRY_DAEMON_KUBE_INGEST_H
#define BELFRY_DAEMON_KUBE_INGEST_H

#include "daemon/ingest_thread.h"
#include "kfollow/resource_set.h"
#include "thread/thread.h"

struct kube_ingest;
struct resource_standing;

struct kube_ingest_opts {
    struct resource_set_opts set;        /* without loop */
    const char *name;                    /* of the tier; lent */
    struct resource_standing *standings; /* of each resource */
    /* On the thread: a resource was found, or is selected by other fields than before (resource_set_events.found). */
    void (*found)(size_t number, const struct resource_set_view *view, void *user);
    void (*wake)(void *user); /* a log has more, or a standing moved */
    void *user;
};

/* On failure a sentence is stored in why. Errors: as resource_set_open(). */
BELFRY_NODISCARD enum belfry_err kube_ingest_start(const struct kube_ingest_opts *opts, struct kube_ingest **out,
                                                   char *why, size_t why_len);
void kube_ingest_stop(struct kube_ingest *ingest); /* when no other thread reads stores and logs any more */
void kube_ingest_destroy(struct kube_ingest *ingest);

/* Opens `mail` on the thread, with the kube_ingest as owner. */
void kube_ingest_post(struct kube_ingest *ingest, struct mail *mail);

/* On the thread only, as all that follows. */
struct resource_set *kube_ingest_set(struct kube_ingest *ingest);

/* What it counts, as ingest_thread_numbers() does for etcd. */
void kube_ingest_numbers(struct kube_ingest *ingest, struct ingest_thread_numbers *out);

/* For resource_fence_opts.prove: `owner` is the kube_ingest. */
bool kube_ingest_prove(void *owner, size_t number, struct resource_proof *proof);

#endif
