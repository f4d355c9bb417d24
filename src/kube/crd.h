/* src/kube/crd.h
 *
 * crd: what a CustomResourceDefinition (apiextensions.k8s.io/v1) says, checked, in a resource.
 *
 * v1beta1 is read, too: nobody writes one by hand any more, but it is the form in which kube-apiserver keeps them in etcd,
 * because it is the shorter one: schema, subresources, columns and selectable fields that all versions have in common
 * stand once, beside the versions.
 *
 * Checked is what would make us serve something wrong: names, scope, versions, paths. Kubernetes' further rules for
 * schemas are not: the schema is kept as it is. Where conversion is a webhook's, only the storage version is served,
 * for nobody here can convert.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KUBE_CRD_H
#define BELFRY_KUBE_CRD_H

#include <yyjson.h>

#include "base/err.h"
#include "kube/resource.h"
#include "json/manifest_fault.h"

/* Fills what a manifest says of *out, which is zero; prefix and wrap stay as they are. On failure it is filled in part,
 * which kube_resource_unref() copes with. Errors: BELFRY_ERR_INVALID with *fault, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_crd_read(yyjson_val *manifest, struct kube_resource *out,
                                               struct belfry_kube_fault *fault);

#endif
