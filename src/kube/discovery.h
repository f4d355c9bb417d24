/* src/kube/discovery.h
 *
 * discovery: the documents that tell clients what is served (docs/spec/kubernetes-watch.md 1.2).
 *
 * Thread: any. Pure. All append to `out`. Errors everywhere: BELFRY_ERR_NOMEM.
 */
#ifndef BELFRY_KUBE_DISCOVERY_H
#define BELFRY_KUBE_DISCOVERY_H

#include "base/buf.h"
#include "base/err.h"
#include "kube/group.h"

/* APIGroupDiscoveryList (apidiscovery.k8s.io/v2) of these groups, without groups that have no resources. */
BELFRY_NODISCARD enum belfry_err kube_discovery_aggregated(const struct kube_group *groups, size_t n,
                                                           struct belfry_buf *out);
/* APIVersions of the core group, APIGroupList of others, one APIGroup. */
BELFRY_NODISCARD enum belfry_err kube_discovery_versions(const struct kube_group *core, struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err kube_discovery_groups(const struct kube_group *groups, size_t n,
                                                       struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err kube_discovery_group(const struct kube_group *group, struct belfry_buf *out);
/* APIResourceList of one version. */
BELFRY_NODISCARD enum belfry_err kube_discovery_resources(const struct kube_group *group, const char *version,
                                                          struct belfry_buf *out);

#endif
