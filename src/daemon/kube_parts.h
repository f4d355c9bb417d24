/* src/daemon/kube_parts.h
 *
 * kube_parts: what a worker serves in front of Kubernetes API servers: for each resource that is followed a core, and
 * lists and watches over it; one front, one way upstream and one permit for all of them. Wiring only.
 *
 * The cores share one bound of memory, and the work of a turn: they take it one after another, and the next turn begins
 * where this one had to stop. A core without anything to do has no turn.
 *
 * Thread: kube_parts_create: the worker's, as worker_parts.h says; the functions that take a worker_thread: any.
 */
#ifndef BELFRY_DAEMON_KUBE_PARTS_H
#define BELFRY_DAEMON_KUBE_PARTS_H

#include "daemon/kube_ingest.h"
#include "daemon/kube_upstream.h"
#include "daemon/worker_parts.h"
#include "daemon/worker_thread.h"
#include "follow/history_reader.h"
#include "kube/resource.h"
#include "serve/kfront/kfront_fields.h"

struct kube_parts_opts { /* lent, but for numbers */
    unsigned number;
    size_t n_resources;
    struct history_reader *const *history; /* filled in before the first resource is added */
    /* Thread: any. As in resource_fence_opts. They, and `user`, outlive the worker. */
    void (*to_ingest)(struct mail *mail, void *user);
    void (*to_worker)(struct mail *mail, void *user);
    void *user;
    const struct kube_upstream *upstream;
    const char *name;         /* of the tier, as a word (serve/uplink/via.h) */
    struct hosts *hosts;      /* by which it may be asked over plain HTTP */
    struct cors_origins cors; /* lent */
    size_t memory_max;        /* of all resources together */
    size_t forms_bytes;       /* of each: as in kube_service_opts */
    uint64_t progress_ms;
    uint64_t seed;
    uint64_t rights_period_ms;
    struct answers *answers;      /* of all workers; outlives it */
    struct kfront_fields *fields; /* likewise */
    uint64_t process;             /* as in kube_lists_opts */
    const struct belfry_log *log;
};

/* worker_parts_fn; `opts` is a struct kube_parts_opts, which is copied. */
BELFRY_NODISCARD enum belfry_err kube_parts_create(const void *opts, const struct worker_parts_host *host,
                                                   struct worker_parts **out);

/* A resource that was found: from now on it is answered here. Or one of a number that was added before, and is selected
 * by other fields now: its watches end cleanly if that is so, and their clients go on. */
struct kube_parts_resource {
    size_t number;
    const struct kube_resource *resource; /* one reference is taken */
    struct store *store;                  /* this and the next two outlive the worker */
    struct evlog *log;
    struct resource_standing *standing;
};
/* Errors: BELFRY_ERR_NOMEM (it is relayed as before). */
BELFRY_NODISCARD enum belfry_err kube_parts_add(struct worker_thread *thread, const struct kube_parts_resource *found);

/* The answer to a fetch of this worker. */
void kube_parts_fetched(struct worker_thread *thread, struct history_reader_job *job);

#endif
