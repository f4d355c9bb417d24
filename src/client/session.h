/* src/client/session.h
 *
 * session: struct belfry for the other files of this folder: the loop, and the parts on it.
 *
 * Public calls only record what to do and poke the session. The work is done from the loop: the session's timer then
 * pumps watches, stream and calls until nothing is due.
 *
 * Thread: owner: one thread at a time, checked when a public call enters (base/owner.h).
 */
#ifndef BELFRY_CLIENT_SESSION_H
#define BELFRY_CLIENT_SESSION_H

#include <stdatomic.h>

#include <belfry/belfry.h>

#include "base/list.h"
#include "base/owner.h"
#include "base/rng.h"
#include "client/calls.h"
#include "client/stream.h"
#include "client/timers.h"
#include "client/watches.h"
#include "client/why.h"

/* An object on a session other than its watches and calls: a Kubernetes client, an informer, a kept lease. */
struct belfry_guest {
    struct belfry_list node; /* in belfry.guests, the newest first */
    /* The session is being closed: report that to callbacks, and end. A guest on top of another was added later, so it
     * is closed first. */
    void (*close)(struct belfry_guest *guest);
};

struct belfry {
    /* fixed */
    struct belfry_loop *loop;
    struct belfry_dns *dns;
    struct belfry_tls *tls; /* NULL: no endpoint uses TLS */
    struct belfry_endpoint *endpoints;
    size_t n_endpoints;
    uint32_t command_timeout_ms;
    /* owner */
    struct belfry_auth auth;
    struct belfry_cluster_identity identity;
    struct belfry_calls *calls; /* NULL, like stream and watches, in a session without etcd */
    struct belfry_stream *stream;
    struct belfry_watches *watches;
    uv_timer_t *timer; /* owned by the loop once it is closing */
    struct belfry_timers timers;
    struct belfry_list guests;
    size_t n_busy; /* number of guests' activities that belfry_run() waits for */
    struct belfry_rng rng;
    bool closing;
    bool poked; /* the timer is set to now, and the descriptor is readable */
    struct belfry_log log;
    belfry_log_fn log_fn;
    void *log_user;
    struct belfry_stats stats;
    char why[BELFRY_WHY_BYTES]; /* the last call that failed */
    /* any thread, and signal handlers */
    atomic_bool stop; /* belfry_stop() was called, and no belfry_run() has returned for it yet */
    BELFRY_OWNER_SESSION;
};

/* Something is due: the session pumps in the loop's next turn. May be called from anywhere on the thread. */
void belfry_session_poke(struct belfry *b);

/* Sets a guest's timer; it fires from the loop. May be called from anywhere on the thread. */
void belfry_session_set_timer(struct belfry *b, struct belfry_timer *timer, uint64_t due_ms);

/* The error if a call on etcd cannot begin: no callback, a session without etcd, an option that is not for it (`where`
 * as in opts.h), or a session that is being closed. Notes it for belfry_why(). */
BELFRY_NODISCARD enum belfry_err belfry_session_refuses(struct belfry *b, bool has_callback,
                                                        const struct belfry_opts *opts, unsigned where);

/* False: the session was opened without endpoints. */
static inline bool belfry_session_has_etcd(const struct belfry *b)
{
    return b->calls != NULL;
}

#endif
