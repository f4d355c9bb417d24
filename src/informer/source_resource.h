/* src/informer/source_resource.h
 *
 * source_resource: an informer source on a resource of a Kubernetes API server: the reflector chooses requests, this
 * module sends them and passes the results to the informer.
 *
 * Thread: owner.
 */
#ifndef BELFRY_INFORMER_SOURCE_RESOURCE_H
#define BELFRY_INFORMER_SOURCE_RESOURCE_H

#include <belfry/kube.h>

#include "informer/source.h"

/* `opts` are those of belfry_informer_resource(). Errors: BELFRY_ERR_INVALID (an invalid name),
 * BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED. */
BELFRY_NODISCARD enum belfry_err belfry_source_resource_open(struct belfry_kube *k, struct belfry_resource resource,
                                                             const struct belfry_opts *opts,
                                                             const struct belfry_source_events *events, void *user,
                                                             struct belfry_source *out);

#endif
