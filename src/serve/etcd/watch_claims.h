/* src/serve/etcd/watch_claims.h
 *
 * watch_claims: the rights of the watches of one stream: one claim per watch, found by the watch's id.
 *
 * A claim is made before its watch is, while the create waits (watch_queue.h); or for a watch that ran when auth was
 * turned on, and is unproven until the first answer.
 *
 * Thread: owner (permit's).
 * Memory: one small allocation per claim, and permit's.
 */
#ifndef BELFRY_SERVE_ETCD_WATCH_CLAIMS_H
#define BELFRY_SERVE_ETCD_WATCH_CLAIMS_H

#include "base/treap.h"
#include "serve/etcd/watch_queue.h"
#include "serve/rights/permit.h"

struct watch_claims;

struct watch_claim {
    struct belfry_treap_node by_id; /* of `claims`, once the watch runs */
    struct watch_claims *claims;
    struct permit_question *question; /* NULL: it has been answered, with anything but HELD */
    struct watch_waiting *waiting;    /* its create, until the watch runs; otherwise NULL */
    int64_t id;                       /* once the watch runs */
    bool unproven;                    /* the watch ran before auth was turned on; no answer yet */
};

/* The verdict on a claim. Unless it is HELD the question is gone. */
typedef void (*watch_claim_fn)(struct watch_claim *claim, enum permit_verdict verdict, const char *reason);

struct watch_claims {
    struct permit *permit;
    struct permit_party *party; /* lent */
    watch_claim_fn fn;
    struct belfry_treap_node *by_id; /* of watches that run */
    size_t n_unproven;               /* of these */
};

static inline void watch_claims_init(struct watch_claims *claims, struct permit *permit, struct permit_party *party,
                                     watch_claim_fn fn)
{
    *claims = (struct watch_claims){.permit = permit, .party = party, .fn = fn};
}

void watch_claims_fini(struct watch_claims *claims); /* ends those of watches that run */

/* Claims the range. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT. */
BELFRY_NODISCARD enum belfry_err watch_claims_ask(struct watch_claims *claims, struct belfry_bytes key,
                                                  struct belfry_bytes range_end, uint64_t now_ms,
                                                  struct watch_claim **out);

/* The watch runs. */
void watch_claim_join(struct watch_claim *claim, int64_t id);

/* The watch runs already, and must not receive anything before the first answer. */
void watch_claim_join_unproven(struct watch_claim *claim, int64_t id);
void watch_claim_prove(struct watch_claim *claim); /* twice is fine */

/* The watch is gone, or has no right any more. Frees the claim. */
void watch_claim_end(struct watch_claim *claim);

/* The claim of a watch that runs; NULL: none. */
struct watch_claim *watch_claims_find(const struct watch_claims *claims, int64_t id);

#endif
