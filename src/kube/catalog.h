/* src/kube/catalog.h
 *
 * catalog: all served resources, and the documents by which clients find them: discovery (aggregated and legacy) and
 * /openapi/v3.
 *
 * A resource's schema in /openapi/v3 is the manifest's. Descriptions of apiVersion and kind are added if missing, and
 * metadata refers to our own schema under the name that Kubernetes uses.
 *
 * The documents are written once, together with the catalog, so that a request costs one copy (except after
 * kube_catalog_part()).
 *
 * Thread: any; immutable once made, counted. A different set of resources needs a new catalog.
 */
#ifndef BELFRY_KUBE_CATALOG_H
#define BELFRY_KUBE_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/resource.h"

#define KUBE_RESOURCES_MAX 4096

struct kube_catalog;

/* Takes its own references. If two resources share group and plural, or group and kind, the first stays; *why (owned by
 * the caller; NULL: no conflict) names the others. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT. */
BELFRY_NODISCARD enum belfry_err kube_catalog_make(struct kube_resource *const *resources, size_t n,
                                                   struct kube_catalog **out, char **why);
struct kube_catalog *kube_catalog_ref(const struct kube_catalog *catalog);
void kube_catalog_unref(const struct kube_catalog *catalog); /* NULL is fine */

/* Resources, ordered by group and plural. */
size_t kube_catalog_count(const struct kube_catalog *catalog);
const struct kube_resource *kube_catalog_at(const struct kube_catalog *catalog, size_t i);

/* The resource and its version; false: unknown, or not served. */
bool kube_catalog_find(const struct kube_catalog *catalog, struct belfry_bytes group, struct belfry_bytes version,
                       struct belfry_bytes plural, const struct kube_resource **resource,
                       const struct kube_version **served);

/* Appends the document at `path` ("/api", "/apis", "/apis/G", "/apis/G/V", "/api/v1", "/openapi/v3",
 * "/openapi/v3/apis/G/V", "/openapi/v3/api/v1"; one '/' at the end is ignored). `aggregated` selects the aggregated
 * form of /api and /apis; other paths ignore it. Verbs are get, list, watch; the only subresource listed is status,
 * with get.
 * Errors: BELFRY_ERR_NOT_FOUND (no document there), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_catalog_document(const struct kube_catalog *catalog, struct belfry_bytes path,
                                                       bool aggregated, struct belfry_buf *out);

/* The guards of its resources (resource.h), sorted, without duplicates. */
size_t kube_catalog_guards(const struct kube_catalog *catalog);
const char *kube_catalog_guard(const struct kube_catalog *catalog, size_t i);

/* A catalog of the resources whose guard is true in `seen` (an array of kube_catalog_guards() elements). It is fast to
 * make: schemas are written when their document is requested. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_catalog_part(const struct kube_catalog *catalog, const bool *seen,
                                                   struct kube_catalog **out);

/* Changes with the content; used for ETag and openapi's hash. */
uint64_t kube_catalog_hash(const struct kube_catalog *catalog);

#endif
