/* src/daemon/worker_parts.h
 *
 * worker_parts: what a worker thread serves: everything between its connections and its upstream. The thread
 * (worker_thread.h) has the loop, the connections, the timer, the drain and the scans, and calls the parts in each of
 * its turns. There are two implementations: in etcd_tier.c and in kube_tier.c.
 *
 *     a turn:   look, deliver, (the thread writes the sockets), rest, (settled), due
 *
 * Thread: owner (the worker's). unchecked: an interface; what implements it checks its own parts.
 */
#ifndef BELFRY_DAEMON_WORKER_PARTS_H
#define BELFRY_DAEMON_WORKER_PARTS_H

#include "daemon/limits.h"
#include "serve/admin/numbers.h"
#include "serve/admin/watchers.h"
#include "server/exchange.h"
#include "thread/thread.h"

struct worker_parts;

/* What the thread gives to its parts; lent for their life. */
struct worker_parts_host {
    struct thread *thread;
    struct limits_times times; /* in force at the beginning */
    uint64_t (*now)(void *user);
    void (*work)(void *user); /* a core has something to do: another turn follows without blocking */
    void *user;
};

/* For the thread's accounts. */
struct worker_parts_weight {
    size_t watchers, bytes;
    enum permit_auth auth; /* worker_thread_auth() */
};

struct worker_parts_api {
    exchange_begin_fn begin; /* a request; user is the parts */
    /* The beginning of a turn: what other threads have said, and which rights have ended. */
    void (*look)(struct worker_parts *parts, uint64_t now_ms);
    /* Gives clients what there is, within the work of a turn. True: there is more to do now. */
    bool (*deliver)(struct worker_parts *parts, uint64_t now_ms);
    /* After the sockets were written. True: something waits that can go on in a next turn. */
    bool (*rest)(struct worker_parts *parts);
    void (*settled)(struct worker_parts *parts); /* nothing is left to do in this turn */
    uint64_t (*due)(struct worker_parts *parts);
    void (*set_times)(struct worker_parts *parts, const struct limits_times *times);
    /* A drain has begun: not ready, and everything is served as before. */
    void (*announce_drain)(struct worker_parts *parts);
    /* Streams of connections that were told to leave end within drain_ms. */
    void (*drain)(struct worker_parts *parts, uint64_t now_ms, uint64_t drain_ms);
    void (*weigh)(struct worker_parts *parts, struct worker_parts_weight *out);
    void (*count)(struct worker_parts *parts, struct worker_numbers *out);
    /* Errors: BELFRY_ERR_NOMEM. */
    enum belfry_err (*scan)(struct worker_parts *parts, const struct watchers_query *query, struct watchers_scan **out);
    /* Clients are sent a last message; no request begins any more. Then connections end, and then destroy() comes. */
    void (*end)(struct worker_parts *parts);
    void (*destroy)(struct worker_parts *parts);
};

struct worker_parts {
    const struct worker_parts_api *api;
};

/* Makes the parts of one worker, on its thread. `opts` is the maker's own. */
typedef enum belfry_err (*worker_parts_fn)(const void *opts, const struct worker_parts_host *host,
                                           struct worker_parts **out);

#endif
