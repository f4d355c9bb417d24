/* src/kube/crd_version.h: one element of spec.versions of a CustomResourceDefinition. Thread: any. Pure but for
 * yyjson. */
#ifndef BELFRY_KUBE_CRD_VERSION_H
#define BELFRY_KUBE_CRD_VERSION_H

#include "base/err.h"
#include "kube/resource.h"
#include "json/member.h"

/* Fills *out, which must be zero; on failure partly. Call kube_version_fini() in any case. `group` is for api_version.
 * `common` is the spec of a v1beta1 definition, which holds what all versions share; NULL for v1.
 * Errors: BELFRY_ERR_INVALID with the members' fault, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_crd_version_read(const struct belfry_kube_members *members,
                                                       const struct belfry_kube_members *common, const char *group,
                                                       struct kube_version *out);
void kube_version_fini(struct kube_version *version);

#endif
