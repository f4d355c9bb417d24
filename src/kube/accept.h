/* src/kube/accept.h
 *
 * accept: chooses the form of an answer from a client's Accept header (docs/spec/kubernetes-watch.md 1.2, 1.5): among
 * the clauses that can be satisfied, the one with the highest q; the first among equals.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_ACCEPT_H
#define BELFRY_KUBE_ACCEPT_H

#include <stdbool.h>

#include "base/bytes.h"

enum kube_form {
    KUBE_FORM_NONE, /* none of our forms: 406 */
    KUBE_FORM_JSON,
    KUBE_FORM_TABLE,         /* as=Table;g=meta.k8s.io, v1 or v1beta1 */
    KUBE_FORM_METADATA,      /* as=PartialObjectMetadata;g=meta.k8s.io;v=v1 */
    KUBE_FORM_METADATA_LIST, /* as=PartialObjectMetadataList;g=meta.k8s.io;v=v1 */
    KUBE_FORM_DISCOVERY,     /* as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2 (v2beta1 is skipped) */
};

/* `forms` are the possible answers, ored as 1u << form. Without METADATA_LIST among them, METADATA is either. An empty
 * header means JSON. Only application/json and wildcards that cover it are supported. Skipped are: other media types,
 * clauses with q=0, and clauses whose `as`, `g` or `v` name no form. Other parameters (charset, pretty, stream) are
 * ignored. */
enum kube_form kube_accept(struct belfry_bytes header, unsigned forms);

/* Whether an Accept-Encoding header allows gzip. */
bool kube_accepts_gzip(struct belfry_bytes header);

#endif
