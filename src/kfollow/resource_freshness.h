/* src/kfollow/resource_freshness.h
 *
 * resource_freshness: is what we have as new as etcd? A client that starts without a version must not be shown a state
 * from before its request. A proof gives it a version at which we have everything that etcd had when it asked.
 *
 *            busy, or large            at R                 shown >= R
 *     IDLE ----------------> PROBING --------> WAITING ---------------------------------> IDLE
 *       |                                         | RESOURCE_FRESH_WAIT_MS (small: PAUSE)  ^
 *       | quiet and small                         v                                        |
 *       `------------------------------------> LISTING --at L--> COMPARING ----------------'
 *                                                                 shown >= L, or equal versions
 *
 * A probe costs etcd one key and tells R; the watch then shows everything up to R, if the resource changes at all or a
 * bookmark comes. A quiet resource may have neither for a minute. Then the versions of all objects are listed from
 * etcd, metadata only: if they are those of our state, our state is that of the list. (Objects that came and went since
 * our head do not count: the watch shows them later.)
 *
 * All who ask before a request is sent are of one batch, and share its answer. Who asks later waits for the next batch,
 * because the answer may be older than the question. So at most one request is under way, and N questions at once cost
 * two proofs. After a list of D ms the next one is sent D ms later at the earliest. A crowd that comes within a second
 * or two would cost a proof every few ms: for RESOURCE_FRESH_CROWD waits or more there are RESOURCE_FRESH_PACE_MS from
 * the beginning of one proof to that of the next. Fewer wait for nothing.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_FRESHNESS_H
#define BELFRY_KFOLLOW_RESOURCE_FRESHNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kfollow/resource_audit.h"

#define RESOURCE_FRESH_WAIT_MS  200   /* that the watch has after a probe */
#define RESOURCE_FRESH_PAUSE_MS 20    /* the same if a list would cost little: the resource is small */
#define RESOURCE_FRESH_QUIET_MS 1000  /* a resource without a change for this long is quiet */
#define RESOURCE_FRESH_SMALL    500   /* a resource of up to so many objects is small: one page */
#define RESOURCE_FRESH_MS       5000  /* without progress, a batch fails after this long */
#define RESOURCE_FRESH_MAX_MS   60000 /* and in any case after this long */
#define RESOURCE_FRESH_CROWD    8
#define RESOURCE_FRESH_PACE_MS  250
#define RESOURCE_FRESH_TRIES    3 /* and after so many requests that failed */

enum resource_fresh_at { FRESH_IDLE, FRESH_PROBING, FRESH_WAITING, FRESH_LISTING, FRESH_COMPARING };

enum resource_fresh_want { FRESH_WANT_NOTHING, FRESH_WANT_PROBE, FRESH_WANT_LIST };

/* How the follower stands. */
struct resource_fresh_facts {
    bool is_live;                 /* the past of its watch is proven, and the watch is open */
    int64_t head;                 /* published up to here */
    int64_t shown;                /* of that, what this watch has shown, or is known to have: head may be of another */
    struct resource_sum versions; /* of its state: resource_version_hash() of each object */
    uint64_t changed_ms;          /* the last change came then */
};

struct resource_fresh_answer {
    uint64_t batch;
    int64_t rv; /* 0: there is no proof */
};

struct resource_freshness {
    enum resource_fresh_at at;
    uint64_t batch;                /* the one under way; IDLE: the last one */
    size_t n_asked;                /* waits of the next batch ... */
    uint64_t asked_ms;             /* ... since then */
    uint64_t ended_ms;             /* when a batch was last answered */
    bool is_sent;                  /* PROBING, LISTING: the request is on its way */
    unsigned n_failed;             /* requests of this batch */
    uint64_t due_ms;               /* when the next one is sent, at the earliest */
    uint64_t begun_ms, moved_ms;   /* the batch began; something of it last came */
    uint64_t wait_ms;              /* WAITING: that the watch has */
    int64_t target;                /* WAITING, COMPARING */
    struct resource_sum listed;    /* LISTING, COMPARING */
    uint64_t list_ms, list_due_ms; /* when the last list was sent; no other before */
};

/* The hash of an object in resource_fresh_facts.versions and in a list. `mark`: resource_uid_mark(). */
uint64_t resource_version_hash(struct belfry_hash_key hash_key, struct belfry_bytes key, int64_t mark, int64_t rv);

/* For so many waits. Returns the number of the batch whose answer counts. */
uint64_t resource_freshness_ask(struct resource_freshness *fresh, size_t n, uint64_t now_ms);

/* The request to send now; the caller sends it. */
enum resource_fresh_want resource_freshness_next(struct resource_freshness *fresh,
                                                 const struct resource_fresh_facts *facts, uint64_t now_ms);

/* ---- what comes of the request ---- */

void resource_freshness_item(struct resource_freshness *fresh, uint64_t hash, uint64_t now_ms);
void resource_freshness_done(struct resource_freshness *fresh, int64_t rv, uint64_t now_ms); /* a probe or a list */
void resource_freshness_failed(struct resource_freshness *fresh, uint64_t now_ms);           /* or was ended */

/* Another past: what was learned says nothing. The request is ended by the caller. */
void resource_freshness_restart(struct resource_freshness *fresh, uint64_t now_ms);

/* Is the batch under way over? Call it after everything that changes the facts, in every tick, and while the follower
 * is live at resource_freshness_due(). */
bool resource_freshness_look(struct resource_freshness *fresh, const struct resource_fresh_facts *facts,
                             uint64_t now_ms, struct resource_fresh_answer *out);

uint64_t resource_freshness_due(const struct resource_freshness *fresh);

#endif
