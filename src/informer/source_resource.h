/* src/informer/source_resource.h
 *
 * source_resource: a resource of a Kubernetes API server as the source of an informer: the reflector says what to ask,
 * requests ask it, and what comes becomes the informer's.
 *
 * Thread: owner.
 */
#ifndef BELFRY_INFORMER_SOURCE_RESOURCE_H
#define BELFRY_INFORMER_SOURCE_RESOURCE_H

#include <belfry/kube.h>

#include "informer/source.h"

/* `opts` are those of belfry_informer_resource(). Errors: BELFRY_ERR_INVALID (a name that cannot be one),
 * BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED. */
BELFRY_NODISCARD enum belfry_err belfry_source_resource_open(struct belfry_kube *k, struct belfry_resource resource,
                                                             const struct belfry_opts *opts,
                                                             const struct belfry_source_events *events, void *user,
                                                             struct belfry_source *out);

#endif
