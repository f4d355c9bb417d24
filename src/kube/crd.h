/* src/kube/crd.h
 *
 * crd: reads and checks a CustomResourceDefinition (apiextensions.k8s.io/v1) into a resource.
 *
 * It also reads v1beta1. People no longer write that form, but kube-apiserver stores definitions in etcd with it when
 * it is shorter: schema, subresources, columns and selectable fields that all versions share are then stored once,
 * beside the versions.
 *
 * It checks what would make us serve wrong answers: names, scope, versions, paths. It does not check Kubernetes'
 * further rules for schemas: the schema is kept as it is. If conversion uses a webhook, only the storage version is
 * served, because belfryd cannot convert.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KUBE_CRD_H
#define BELFRY_KUBE_CRD_H

#include <yyjson.h>

#include "base/err.h"
#include "kube/resource.h"
#include "json/manifest_fault.h"

/* Fills the parts of *out that a manifest defines; *out must be zero, and prefix and wrap stay unchanged. On failure
 * *out is partly filled; kube_resource_unref() accepts it. Errors: BELFRY_ERR_INVALID with *fault, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_crd_read(yyjson_val *manifest, struct kube_resource *out,
                                               struct belfry_kube_fault *fault);

#endif
