/* src/kube/schema.h
 *
 * schema: a resource's schema as it appears in OpenAPI documents.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KUBE_SCHEMA_H
#define BELFRY_KUBE_SCHEMA_H

#include "base/buf.h"
#include "base/err.h"
#include "kube/resource.h"

#define KUBE_SCHEMA_NAME_MAX 512

#define KUBE_SCHEMA_OBJECT_META "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
#define KUBE_SCHEMA_LIST_META   "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
#define KUBE_SCHEMA_REF         "#/components/schemas/"

/* The schemas of metadata that all resources share, as JSON objects. */
extern const char kube_schema_object_meta[], kube_schema_list_meta[];

/* "com.example.demo.v1.Widget" for `kind`. */
void kube_schema_name(const struct kube_resource *resource, const struct kube_version *version, const char *kind,
                      char out[KUBE_SCHEMA_NAME_MAX]);

/* Appends the schema of the resource's objects, a JSON object. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_schema_write(const struct kube_resource *resource,
                                                   const struct kube_version *version, struct belfry_buf *out);

#endif
