/* src/kube/openapi.h
 *
 * openapi: OpenAPI 3.0 documents, one per group and version, for `kubectl explain` and other readers of schemas.
 *
 * A resource's schema is the manifest's. Descriptions of apiVersion and kind are added if missing, and metadata refers
 * to our own schema under the name that Kubernetes uses.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KUBE_OPENAPI_H
#define BELFRY_KUBE_OPENAPI_H

#include "base/buf.h"
#include "base/err.h"
#include "kube/group.h"

/* Appends the document of one version. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_openapi_write(const struct kube_group *group, const char *version,
                                                    struct belfry_buf *out);

#endif
