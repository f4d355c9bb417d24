/* src/serve/kfront/kfront.h
 *
 * kfront: the front of a worker that stands before Kubernetes' API: which requests are answered from what the tier
 * follows, and which by the API server (kfront_judge.h, krelay.h).
 *
 * Refused here, whatever they ask for, with a Status:
 *
 *     400    a connection that is to become another protocol: exec, attach, port-forward
 *     401    a client certificate without a token: the API server would not see it; a user's name from a peer that may
 *            not give one (identity.h)
 *     403    impersonation where the answer is made here; a write on a read-only listener
 *     404    a listener that does not serve this dialect
 *     421    over plain HTTP a name that is none of ours (hosts.h)
 *     500    a request that has been here before, or has gone through too many tiers (via.h)
 *     503    /readyz during a drain
 *
 * gRPC is refused with 12.
 *
 * It has timers of its own: there is nothing to call after a turn.
 *
 * Thread: owner (the worker's). Destroyed before uplink, and before the services that were added.
 */
#ifndef BELFRY_SERVE_KFRONT_KFRONT_H
#define BELFRY_SERVE_KFRONT_KFRONT_H

#include "serve/kfront/krelay.h"
#include "serve/kube/kube.h"
#include "server/cors.h"
#include "server/hosts.h"

#define KFRONT_FOLLOWED 200 /* resources of one tier */

struct kfront;

struct kfront_opts {
    struct uplink *uplink;        /* with is_kube, `name` for its via, and TLS without a certificate (uplink.h) */
    const char *name;             /* the tier's, as a word (via.h); lent */
    struct hosts *hosts;          /* lent; NULL: every name is allowed */
    struct cors_origins cors;     /* lent: web pages that may ask */
    struct kfront_fields *fields; /* lent: counts selectors that are passed on; NULL: nothing does */
    uint64_t (*now)(void *user);
    void *user;
    uint64_t pace_ms, unread_ms; /* as in krelay.h */
};

BELFRY_NODISCARD enum belfry_err kfront_create(const struct kfront_opts *opts, struct kfront **out);
void kfront_destroy(struct kfront *kfront); /* what is passed on is cut; NULL is fine */

/* Requests for this resource go to `service` from now on. A reference to the resource is taken; one of the same group,
 * version and plural is replaced. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (KFRONT_FOLLOWED). */
BELFRY_NODISCARD enum belfry_err kfront_add(struct kfront *kfront, const struct kube_resource *resource,
                                            struct kube_service *service);

/* Requests for what this service answers go to the API server from now on. */
void kfront_remove(struct kfront *kfront, const struct kube_service *service);

/* exchange_begin_fn; user is the kfront. */
void kfront_begin(struct exchange *x, const struct exchange_head *head, void *user);

void kfront_set_pace(struct kfront *kfront, uint64_t pace_ms);
void kfront_set_unread_time(struct kfront *kfront, uint64_t unread_ms);

void kfront_announce_drain(struct kfront *kfront);           /* /readyz fails from now on */
void kfront_end_all(struct kfront *kfront, const char *why); /* the end of a drain: as krelay_end_all() */

struct kfront_stats {
    struct krelay_stats relay;
    uint64_t answered; /* given to a service */
    uint64_t refused_upgrades;
    uint64_t refused_certificates; /* clients that have nothing but a certificate */
    uint64_t refused_impersonations;
    uint64_t refused_circles;
    uint64_t refused_pages; /* requests of web pages of other sites (cors.h) */
    uint64_t refused;       /* for any other reason */
};
void kfront_stats(const struct kfront *kfront, struct kfront_stats *out);

#endif
