/* belfry/lease.h: an etcd lease that the library keeps alive.
 *
 * The library requests the lease and renews it three times per TTL, on any member that answers. It reports the lease as
 * lost no later than the moment when the server may let it expire, whatever the network does. From then on the caller
 * must not rely on the lease or its keys.
 *
 * Thread, callbacks, memory and errors: as belfry/belfry.h says.
 */
#ifndef BELFRY_LEASE_H
#define BELFRY_LEASE_H

#include <belfry/belfry.h>

#ifdef __cplusplus
extern "C" {
#endif

struct belfry_lease;

enum belfry_lease_kind {
    BELFRY_LEASE_HELD = 1, /* granted: .id is valid from now on. Comes once */
    BELFRY_LEASE_RENEWED,  /* valid for another .ttl_s */
    BELFRY_LEASE_LATE,     /* a renewal failed (.why); it is retried until the lease may have expired */
    BELFRY_LEASE_END       /* the last callback: lost, or never granted; the handle is freed when it returns */
};

struct belfry_lease_event {
    enum belfry_lease_kind kind;
    int64_t id;
    int64_t ttl_s;   /* as granted by the server, which may grant more than the caller requested */
    int64_t left_ms; /* LATE: time until the lease counts as lost */
    int err;         /* END: BELFRY_ERR_NOT_FOUND (the server says: expired or revoked), BELFRY_ERR_TIMEOUT (not renewed
                        * in time: it may have expired), BELFRY_ERR_CANCELED (belfry_close()), or the reason why it was
                        * not granted */
    const char *why; /* LATE, END: a sentence, never NULL there */
};                   /* may grow at its end */

typedef void (*belfry_lease_fn)(struct belfry_lease *lease, const struct belfry_lease_event *event, void *user);

/* Requests a lease of `ttl_s` seconds (at least 1; etcd grants no less than its election timeout allows) and keeps it
 * alive. If an answer is lost, the library repeats the request with the same id, so that no lease is left behind. It
 * tries for the session's "command-timeout"; a lease that was granted although no answer came expires by itself.
 * Errors: BELFRY_ERR_INVALID (also: session without etcd), BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (10,000 calls in
 * progress), BELFRY_ERR_IO (the system gave no random number), BELFRY_ERR_CANCELED (the session is being closed). */
BELFRY_API int belfry_lease_open(struct belfry *b, int64_t ttl_s, belfry_lease_fn fn, void *user,
                                 struct belfry_lease **out);

/* 0 before BELFRY_LEASE_HELD. */
BELFRY_API int64_t belfry_lease_id(const struct belfry_lease *lease);

/* For how many milliseconds the lease is certainly still ours, by our own clock, which also runs while the machine
 * sleeps; 0: the lease may have expired. BELFRY_LEASE_END comes from the event loop, and that may run too late: after a
 * sleep, after the process was stopped, or while it was busy. So check this before each action that needs the lease. */
BELFRY_API int64_t belfry_lease_left_ms(const struct belfry_lease *lease);

enum belfry_lease_way {
    BELFRY_LEASE_REVOKE, /* ask the server, once, to end the lease now and delete its keys */
    BELFRY_LEASE_LEAVE   /* let the lease expire by itself */
};

/* Stops keeping the lease and frees `lease`; no callback comes after it. May be called any time, also in the lease's
 * own callback. `lease` may be NULL. A revocation is still in progress when this returns: run the session until
 * belfry_run() has nothing left to do. belfry_close() acts as BELFRY_LEASE_LEAVE and reports BELFRY_LEASE_END. */
BELFRY_API void belfry_lease_close(struct belfry_lease *lease, enum belfry_lease_way way);

#ifdef __cplusplus
}
#endif
#endif
