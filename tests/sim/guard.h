/* tests/sim/guard.h
 *
 * guard: the rights of one stream's watches, kept with the real permit.c as serve/etcd/watch.c keeps them: a claim per
 * watch, made before the watch is, or when auth is turned on while it runs; nothing is delivered while a right is in
 * doubt; a watch that has lost its right is canceled, and the stream ends if its token is not known any more.
 *
 * permit's answers are noted when they come. The worker's loop then asks what is to be done (guard_next()).
 *
 * It also judges the tier, by the truth of auth.h: nothing goes out later than a period after a right has ended, and
 * nothing is taken from a client that never lost its right.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_GUARD_H
#define BELFRY_SIM_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "serve/rights/permit.h"
#include "sim/auth.h"

struct guard_watch;

struct guard {
    struct permit *permit;
    const struct auth *auth;
    struct uplink *uplink; /* where permit asks (asking.h) */
    const char *name;      /* the tier's */
    struct auth_who who;
    struct identity identity;
    struct permit_party party;
    struct belfry_list watches; /* that run */
    struct guard_watch *asking; /* the one that is asked for; NULL: none, or upstream is asked again at ask_ms */
    struct belfry_buf request;  /* of it; empty: none */
    uint64_t opened_ms, ask_ms; /* ask_ms: when to ask again; NEVER: no need */
    bool ended;                 /* permit says so */
    bool has_free;              /* a watch was created with auth off: it may have no claim */
    bool unclaimed;             /* such watches are to be claimed */
    bool changed;               /* what may be delivered may have changed */
};

void guard_init(struct guard *guard, struct permit *permit, const struct auth *auth, struct uplink *uplink,
                const struct auth_who *who, const char *name);
void guard_fini(struct guard *guard);

/* ---- requests ---- */

/* Must requests wait? */
bool guard_is_asking(const struct guard *guard);

enum guard_answer { GUARD_FREE, GUARD_WAIT };

/* A create request. FREE: make the watch, and say so by guard_created(). WAIT: guard_next() will say. */
enum guard_answer guard_create(struct guard *guard, struct belfry_bytes request, struct belfry_bytes key,
                               struct belfry_bytes range_end, uint64_t now_ms);

/* The watch of the last FREE or of GUARD_CREATE has this id; -1: it was refused by the core. */
void guard_created(struct guard *guard, int64_t id, struct belfry_bytes key, struct belfry_bytes range_end);
void guard_canceled(struct guard *guard, int64_t id);

/* ---- what is to be done ---- */

enum guard_act {
    GUARD_NOTHING,
    GUARD_CREATE, /* make the watch of `request` */
    GUARD_REFUSE, /* it is refused, for `reason` */
    GUARD_EXPEL,  /* watch `id` has lost its right */
    GUARD_END     /* end the stream: status 14 */
};

struct guard_order {
    enum guard_act act;
    int64_t id;
    const char *reason;          /* static */
    struct belfry_bytes request; /* lent until the next call */
};

struct guard_order guard_next(struct guard *guard, uint64_t now_ms);
uint64_t guard_due(const struct guard *guard);

/* ---- delivery ---- */

bool guard_may_deliver(const struct guard *guard, uint64_t now_ms);

/* The regime has changed: watches that run may need claims. */
void guard_apply_regime(struct guard *guard);

/* Claims watches that ran when auth was turned on. */
void guard_claim_free(struct guard *guard, uint64_t now_ms);

/* A message with events of the watch has been written whole, its last byte in the turn at now_ms. */
void guard_wrote(const struct guard *guard, int64_t id, uint64_t now_ms);

/* Does anything wait for upstream? */
bool guard_is_calm(const struct guard *guard, uint64_t now_ms);

#endif
