/* src/kube/quote.h: quotes a peer's bytes in a message for people: truncated, without control characters, always valid
 * UTF-8, because the message is sent as JSON. Thread: any. Pure. */
#ifndef BELFRY_KUBE_QUOTE_H
#define BELFRY_KUBE_QUOTE_H

#include "base/bytes.h"

#define KUBE_QUOTE_MAX 80 /* two quotes and Kubernetes' longest sentence fit into KUBE_MESSAGE_MAX */

struct kube_quote {
    char text[KUBE_QUOTE_MAX]; /* ends in "..." if truncated */
};

struct kube_quote kube_quote(struct belfry_bytes bytes);

#endif
