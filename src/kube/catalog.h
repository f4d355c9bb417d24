/* src/kube/catalog.h
 *
 * catalog: all resources that are served, and the documents by which clients find them: discovery (aggregated and
 * legacy), /openapi/v3.
 *
 * The documents are made with the catalog, once, so that whoever asks for one costs a copy (but kube_catalog_part()).
 *
 * Thread: any; immutable once made, counted. Another set of resources is another catalog.
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

/* Takes references of its own. Two resources of one group and plural, or whose group and kind are equal: the first
 * stays, and *why (owned by the caller; NULL: nothing to say) tells of the others. Errors: BELFRY_ERR_NOMEM,
 * BELFRY_ERR_LIMIT. */
BELFRY_NODISCARD enum belfry_err kube_catalog_make(struct kube_resource *const *resources, size_t n,
                                                   struct kube_catalog **out, char **why);
struct kube_catalog *kube_catalog_ref(const struct kube_catalog *catalog);
void kube_catalog_unref(const struct kube_catalog *catalog); /* NULL is fine */

/* Resources, ordered by group and plural. */
size_t kube_catalog_count(const struct kube_catalog *catalog);
const struct kube_resource *kube_catalog_at(const struct kube_catalog *catalog, size_t i);

/* The resource and its version; false: there is none, or it is not served. */
bool kube_catalog_find(const struct kube_catalog *catalog, struct belfry_bytes group, struct belfry_bytes version,
                       struct belfry_bytes plural, const struct kube_resource **resource,
                       const struct kube_version **served);

/* The document at `path` ("/api", "/apis", "/apis/G", "/apis/G/V", "/api/v1", "/openapi/v3", "/openapi/v3/apis/G/V",
 * "/openapi/v3/api/v1"; a '/' more at the end does not count), appended. `aggregated`: for /api and /apis, the
 * aggregated form; it does not count for the others. verbs are get, list, watch; of the subresources, status is
 * told, with get. Errors: BELFRY_ERR_NOT_FOUND: there is none there. BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_catalog_document(const struct kube_catalog *catalog, struct belfry_bytes path,
                                                       bool aggregated, struct belfry_buf *out);

/* The guards of its resources (resource.h), each once, in order. */
size_t kube_catalog_guards(const struct kube_catalog *catalog);
const char *kube_catalog_guard(const struct kube_catalog *catalog, size_t i);

/* A catalog of those resources whose guard has a true in `seen` (kube_catalog_guards() of them). It is made quickly: schemas
 * are written when their document is asked for. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_catalog_part(const struct kube_catalog *catalog, const bool *seen,
                                                   struct kube_catalog **out);

/* Changes with the content: for ETag and openapi's hash. */
uint64_t kube_catalog_hash(const struct kube_catalog *catalog);

#endif
