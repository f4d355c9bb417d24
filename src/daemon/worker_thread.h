/* src/daemon/worker_thread.h
 *
 * worker_thread: a thread with its own connections, streams and watchers, and its own way upstream.
 *
 * Each turn of its loop ends, before it blocks, with: what the standing says, a turn of the core, history asked for,
 * streams looked after, sockets written, a slice of a scan of watchers or clients. While work is left, the
 * loop does not block.
 *
 * Thread: start, stop, destroy: the front's; the rest any.
 */
#ifndef BELFRY_DAEMON_WORKER_THREAD_H
#define BELFRY_DAEMON_WORKER_THREAD_H

#include "core/evlog.h"
#include "daemon/ingest_thread.h"
#include "daemon/limits.h"
#include "daemon/standing.h"
#include "follow/history_reader.h"
#include "serve/admin/clients.h"
#include "serve/admin/numbers.h"
#include "serve/admin/watchers.h"
#include "serve/kube/catalog_feed.h"
#include "serve/route.h"
#include "serve/sse/cors.h"
#include "serve/sse/tickets.h"
#include "server/inbound.h"

struct worker_thread;

struct worker_thread_opts {
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
    struct limits *limits; /* outlives it */
    uint64_t progress_ms;
    uint32_t max_streams;
    uint64_t seed;
    uint64_t clients_seed; /* of the numbers of clients (shares_source()): the same for all workers */
    uint64_t rights_period_ms;
    struct answers *answers; /* of all workers; outlives it */
    uint64_t process;        /* a number for this process, not 0: see kube_lists_opts */
    const struct belfry_log *log_lines;
    bool kube;                            /* Kubernetes' API is served */
    const struct catalog_feed_opts *feed; /* NULL: another worker follows the definitions, or there are none to follow;
                                              thread and worker are filled in here */
};

BELFRY_NODISCARD enum belfry_err worker_thread_start(const struct worker_thread_opts *opts, struct worker_thread **out);
void worker_thread_stop(struct worker_thread *thread);
void worker_thread_destroy(struct worker_thread *thread);

void worker_thread_wake(struct worker_thread *thread);

/* Hands over a connection. */
void worker_thread_accept(struct worker_thread *thread, const struct inbound_arrival *arrival);

/* What Kubernetes' API serves from now on, consuming one reference. Errors: BELFRY_ERR_NOMEM (nothing changed). */
BELFRY_NODISCARD enum belfry_err worker_thread_set_catalog(struct worker_thread *thread, struct kube_catalog *catalog,
                                                           enum kube_catalog_extent extent);

/* Watchers and connections, those under way included: the worker with the least gets the next one. */
size_t worker_thread_load(const struct worker_thread *thread);
size_t worker_thread_connections(const struct worker_thread *thread); /* of these */

/* Is auth on upstream, as last found? PERMIT_AUTH_UNKNOWN unless opts.needs_auth. */
enum permit_auth worker_thread_auth(const struct worker_thread *thread);

/* The answer to one of its fetches. */
void worker_thread_fetched(struct worker_thread *thread, struct history_reader_job *job);

/* Tells the connections that are there now to leave, over the first half of drain_ms, and ends their streams over the
 * second. Later connections are served as before. */
void worker_thread_drain(struct worker_thread *thread, uint64_t drain_ms);

/* Tells all connections to leave and ends all streams, immediately; calls that run may finish. */
void worker_thread_farewell(struct worker_thread *thread);

/* Fills in the answer on the thread and posts `back` to `to`; if the thread has ended, only the latter. */
struct worker_thread_ask {
    struct mail mail; /* the thread's; then its open is set to `back` */
    void (*back)(struct mail *mail, void *owner);
    struct mailbox *to;
    bool is_sample;                     /* for _count: peaks since the last question are kept for the next */
    struct worker_numbers numbers;      /* for _count */
    struct watchers_query query;        /* for _scan */
    struct watchers_scan *scan;         /* for _scan; owned; NULL: not done */
    struct clients_query clients_query; /* for _clients */
    struct clients_scan *clients;       /* for _clients; owned; NULL: not done */
};
void worker_thread_count(struct worker_thread *thread, struct worker_thread_ask *ask);
void worker_thread_scan(struct worker_thread *thread, struct worker_thread_ask *ask);
void worker_thread_clients(struct worker_thread *thread, struct worker_thread_ask *ask);

#endif
