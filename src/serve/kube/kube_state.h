/* src/serve/kube/kube_state.h
 *
 * kube_state: what the parts of the Kubernetes service know about the tier: which resources it serves, and whether it
 * can. kube.c sets it; requests read it.
 *
 * Thread: owner (the worker's). Plain data.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_STATE_H
#define BELFRY_SERVE_KUBE_KUBE_STATE_H

#include "core/worker.h"
#include "kube/catalog.h"
#include "serve/kube/kube_room.h"
#include "server/exchange.h"

#define KUBE_REASON_MAX 160

/* PART: definitions in etcd have not been read yet, so a missing resource may still appear: it is 429, not 404. */
enum kube_catalog_extent { KUBE_CATALOG_WHOLE, KUBE_CATALOG_PART };

/* What upstream is asked about the rights of a request: the range of its keys (etcd), or its attributes as a
 * SubjectAccessReview has them (an API server: rights/review_subject.h). */
enum kube_rights { KUBE_RIGHTS_RANGE, KUBE_RIGHTS_REVIEW };

struct kube_state {
    enum kube_rights rights;
    struct kube_room *room;             /* lent */
    const struct kube_catalog *catalog; /* a reference; NULL: nothing is served */
    enum kube_catalog_extent extent;    /* of it */
    const struct worker *worker;
    bool ready;
    bool announced;               /* a drain has begun */
    bool draining;                /* requests on connections that were told to leave end */
    char reason[KUBE_REASON_MAX]; /* why it is not ready */
};

static inline bool kube_state_can_serve(const struct kube_state *state)
{
    return state->ready && worker_position(state->worker) > 0;
}

/* The exchange's connection was told to leave, and the time for that has come. */
static inline bool kube_state_must_leave(const struct kube_state *state, const struct exchange *x)
{
    return state->draining && exchange_conn(x)->leaving;
}

#endif
