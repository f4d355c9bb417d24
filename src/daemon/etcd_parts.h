/* src/daemon/etcd_parts.h
 *
 * etcd_parts: what a worker serves when upstream is etcd, or a tier in front of etcd: the watches of all dialects over
 * one core, reads from the replica, and relays. Wiring only.
 *
 * Thread: etcd_parts_create: the worker's, as worker_parts.h says; the functions that take a worker_thread: any.
 */
#ifndef BELFRY_DAEMON_ETCD_PARTS_H
#define BELFRY_DAEMON_ETCD_PARTS_H

#include "core/evlog.h"
#include "daemon/ingest_thread.h"
#include "daemon/standing.h"
#include "daemon/worker_parts.h"
#include "daemon/worker_thread.h"
#include "follow/history_reader.h"
#include "serve/kube/catalog_feed.h"
#include "serve/route.h"
#include "serve/sse/tickets.h"
#include "server/cors.h"

struct etcd_parts_opts {
    unsigned number;
    struct evlog *log;
    struct history_reader *const *history; /* filled in before the first stream comes */
    struct ingest_thread *const *ingest;   /* the same */
    struct store *store;
    struct standing *standing;
    struct term *term;
    struct belfry_bytes scope;              /* a prefix; empty: everything. Lent */
    const struct belfry_endpoint *upstream; /* lent */
    size_t n_upstream;
    struct belfry_tls *upstream_tls; /* may be NULL */
    const char *name;                /* of the tier, as a word (serve/uplink/via.h) */
    const char *advertise;           /* NULL: none */
    struct hosts *hosts;             /* by which it may be asked over plain HTTP; lent */
    struct tickets *tickets;         /* for EventSource; lent */
    struct cors_origins cors;        /* lent */
    const struct vouch_opts *vouch;  /* for users of client certificates; uplink and loop are filled in here. NULL: they
                                        are refused. Lent */
    bool needs_auth;                 /* a listener has rights=upstream: look whether auth is on there */
    size_t memory_max;
    uint64_t progress_ms;
    uint64_t seed;
    uint64_t rights_period_ms;
    struct answers *answers; /* of all workers; outlives it */
    uint64_t process;        /* a number for this process, not 0: see kube_lists_opts */
    const struct belfry_log *log_lines;
    bool kube;                            /* Kubernetes' API is served */
    const struct catalog_feed_opts *feed; /* NULL: another worker follows the definitions, or there are none to follow;
                                              thread and worker are filled in here. Lent until it was created */
};

/* worker_parts_fn; `opts` is a struct etcd_parts_opts, which is copied. */
BELFRY_NODISCARD enum belfry_err etcd_parts_create(const void *opts, const struct worker_parts_host *host,
                                                   struct worker_parts **out);

/* What Kubernetes' API serves from now on, consuming one reference. Errors: BELFRY_ERR_NOMEM (nothing changed). */
BELFRY_NODISCARD enum belfry_err etcd_parts_set_catalog(struct worker_thread *thread, struct kube_catalog *catalog,
                                                        enum kube_catalog_extent extent);

/* The answer to a fetch of this worker. */
void etcd_parts_fetched(struct worker_thread *thread, struct history_reader_job *job);

#endif
