/* src/kube/accept.h
 *
 * accept: which form of an answer a client wants (docs/spec/kubernetes-watch.md 1.2, 1.5): of the clauses of its Accept
 * header that can be satisfied, the one with the highest q, the first among equals.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_ACCEPT_H
#define BELFRY_KUBE_ACCEPT_H

#include <stdbool.h>

#include "base/bytes.h"

enum kube_form {
    KUBE_FORM_NONE, /* nothing we have: 406 */
    KUBE_FORM_JSON,
    KUBE_FORM_TABLE,     /* as=Table;g=meta.k8s.io, v1 or v1beta1 */
    KUBE_FORM_METADATA,  /* as=PartialObjectMetadata or ...List;g=meta.k8s.io;v=v1 */
    KUBE_FORM_DISCOVERY, /* as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2 (v2beta1 is skipped) */
};

/* What may be answered: forms, ored as 1u << form. An empty header is JSON. application/json and wildcards that cover it
 * are understood; other media types are skipped, and so are clauses with q=0 and those with an `as`, `g` or `v` that makes
 * no form. Other parameters (charset, pretty, stream) do not count. */
enum kube_form kube_accept(struct belfry_bytes header, unsigned forms);

/* Does an Accept-Encoding header allow gzip? */
bool kube_accepts_gzip(struct belfry_bytes header);

#endif
