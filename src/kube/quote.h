/* src/kube/quote.h: a peer's bytes inside a message for people: cut, without control characters, always UTF-8, or the
 * message could not be sent as JSON text. Thread: any. Pure. */
#ifndef BELFRY_KUBE_QUOTE_H
#define BELFRY_KUBE_QUOTE_H

#include "base/bytes.h"

#define KUBE_QUOTE_MAX 80 /* two of them and the longest sentence of Kubernetes fit into KUBE_MESSAGE_MAX */

struct kube_quote {
    char text[KUBE_QUOTE_MAX]; /* ends in "..." when it was cut */
};

struct kube_quote kube_quote(struct belfry_bytes bytes);

#endif
