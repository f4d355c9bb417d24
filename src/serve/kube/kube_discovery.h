/* src/serve/kube/kube_discovery.h
 *
 * kube_discovery: answers requests that are not about a resource: the documents that clients read first, and probes.
 *
 *     GET  /api /apis /apis/G /apis/G/V /openapi/v3...
 *     GET  /version /healthz /livez /readyz
 *
 * A document shows a client the definitions that it may see (kube_sight.h). With auth off these are all; otherwise the
 * request waits, as a visit, while upstream is asked.
 *
 * Thread: owner (the worker's).
 * Memory: a visit counts as SHARES_REQUESTS (shares.h); one for which there is no room is answered 429.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_DISCOVERY_H
#define BELFRY_SERVE_KUBE_KUBE_DISCOVERY_H

#include "base/list.h"
#include "kube/status.h"
#include "serve/kube/kube_sight.h"
#include "serve/kube/kube_state.h"

struct kube_discovery {
    struct kube_state *state;
    struct permit *permit;
    struct kube_sight *sight;  /* owned */
    struct belfry_list visits; /* requests that wait for upstream's answer about their rights */
    uint64_t refused;
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_discovery_init(struct kube_discovery *discovery, struct kube_state *state,
                                                     struct permit *permit);

/* Every visit is answered with `status`. Copes with one that kube_discovery_init() left half-built. */
void kube_discovery_fini(struct kube_discovery *discovery, const struct kube_status *status);

void kube_discovery_forget(struct kube_discovery *discovery); /* another catalog is served */

/* Is this a path of Kubernetes' API, of a resource or of anything else? */
bool kube_discovery_is_api(struct belfry_bytes path);

/* Takes over an exchange whose path is not a resource's. */
void kube_discover(struct kube_discovery *discovery, struct exchange *x, const struct exchange_head *head,
                   uint64_t now_ms);

#endif
