/* src/kube/openapi.h
 *
 * openapi: OpenAPI 3.0 documents, one a group and version, for `kubectl explain` and for what else reads schemas.
 *
 * A resource's schema is its manifest's, with apiVersion and kind described where they were not, and metadata by a
 * schema of our own under Kubernetes' name for it.
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
