/* belfry/lease.h: a lease of etcd that is kept alive for the caller.
 *
 * It is granted, renewed three times in its life by whichever member answers, and told as lost no later than the server
 * may have let it expire, whatever the network does: what hangs on it must be given up then.
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
    BELFRY_LEASE_HELD = 1, /* granted: .id may be used from now on. Once */
    BELFRY_LEASE_RENEWED,  /* good for another .ttl_s */
    BELFRY_LEASE_LATE,     /* a renewal failed, .why says how; tried again until the lease may have expired */
    BELFRY_LEASE_END       /* the last call: it is lost, or was never had; gone when the callback returns */
};

struct belfry_lease_event {
    enum belfry_lease_kind kind;
    int64_t id;
    int64_t ttl_s;   /* as the server granted it; it may be more than was asked for */
    int64_t left_ms; /* LATE: until it is given up */
    int err;         /* END: BELFRY_ERR_NOT_FOUND (expired or revoked, the server says), BELFRY_ERR_TIMEOUT (not renewed
                        * in time: it may have expired), BELFRY_ERR_CANCELED (belfry_close()), or why it could not be
                        * granted */
    const char *why; /* LATE, END; never NULL there */
};                   /* may grow at its end */

typedef void (*belfry_lease_fn)(struct belfry_lease *lease, const struct belfry_lease_event *event, void *user);

/* Asks for a lease of `ttl_s` seconds (at least 1; etcd gives no less than its election timeout allows) and keeps it. An
 * answer that was lost is asked for again under the same id, so that no lease is left behind. It is asked for as long as
 * "command-timeout" of the session says; one that was granted and whose answer never came ends by itself.
 * Errors: BELFRY_ERR_INVALID (also: no etcd in the session), BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (10,000 calls under way),
 * BELFRY_ERR_IO (the system gave no random number), BELFRY_ERR_CANCELED (the session is being closed). */
BELFRY_API int belfry_lease_open(struct belfry *b, int64_t ttl_s, belfry_lease_fn fn, void *user,
                                 struct belfry_lease **out);

/* 0 before BELFRY_LEASE_HELD. */
BELFRY_API int64_t belfry_lease_id(const struct belfry_lease *lease);

/* How long it is certainly still ours, by our own clock, in milliseconds; 0: it may be gone. The clock is one that goes
 * on while the machine sleeps. BELFRY_LEASE_END comes from the loop, which after such a sleep, or when the process was
 * stopped, or was busy elsewhere, may turn too late: ask this before what must not be done without the lease. */
BELFRY_API int64_t belfry_lease_left_ms(const struct belfry_lease *lease);

enum belfry_lease_way {
    BELFRY_LEASE_REVOKE, /* the server is asked, once, to end it now, with every key on it */
    BELFRY_LEASE_LEAVE   /* it ends by itself when its time is over */
};

/* Ends the keeping, any time, also inside its own callback: no callback comes after it. NULL is fine. A revocation is under
 * way when this returns; run the session until belfry_run() has nothing left to do. belfry_close() leaves the lease, and
 * tells BELFRY_LEASE_END. */
BELFRY_API void belfry_lease_close(struct belfry_lease *lease, enum belfry_lease_way way);

#ifdef __cplusplus
}
#endif
#endif
