/* src/daemon/worker_thread.h
 *
 * worker_thread: a thread with its own connections, and its own parts that serve them (worker_parts.h).
 *
 * Each turn of its loop ends, before it blocks, with: what other threads have said, deliveries, sockets written, a
 * slice of a scan of watchers or clients. While work is left, the loop does not block.
 *
 * Thread: start, stop, destroy: the front's; the rest any.
 */
#ifndef BELFRY_DAEMON_WORKER_THREAD_H
#define BELFRY_DAEMON_WORKER_THREAD_H

#include "daemon/limits.h"
#include "daemon/worker_parts.h"
#include "serve/admin/clients.h"
#include "serve/admin/numbers.h"
#include "serve/admin/watchers.h"
#include "server/inbound.h"

struct worker_thread;

struct worker_thread_opts {
    worker_parts_fn create; /* what it serves */
    const void *parts;      /* for create; lent until worker_thread_start() has returned */
    struct limits *limits;  /* outlives it */
    uint32_t max_streams;
    uint64_t clients_seed; /* of the numbers of clients (shares_source()): the same for all workers */
    uint64_t check_ms;     /* between two looks at certificates of connections */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err worker_thread_start(const struct worker_thread_opts *opts, struct worker_thread **out);
void worker_thread_stop(struct worker_thread *thread);
void worker_thread_destroy(struct worker_thread *thread);

void worker_thread_wake(struct worker_thread *thread);

/* Hands over a connection. */
void worker_thread_accept(struct worker_thread *thread, const struct inbound_arrival *arrival);

/* Opens `mail` on the thread, with the worker_thread as owner; NULL: the thread has ended. */
void worker_thread_post(struct worker_thread *thread, struct mail *mail);

/* On the thread only. */
struct worker_parts *worker_thread_parts(struct worker_thread *thread);

/* Watchers and connections, those under way included: the worker with the least gets the next one. */
size_t worker_thread_load(const struct worker_thread *thread);
size_t worker_thread_connections(const struct worker_thread *thread); /* of these */
size_t worker_thread_refusing(const struct worker_thread *thread);    /* of these, connections that it is refusing */

/* Is auth on upstream, as last found? PERMIT_AUTH_UNKNOWN unless its parts look. */
enum permit_auth worker_thread_auth(const struct worker_thread *thread);

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
