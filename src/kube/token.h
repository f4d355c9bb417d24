/* src/kube/token.h
 *
 * token: where a list that was cut by its limit goes on: unpadded URL-safe base64 of
 * {"v":"meta.k8s.io/v1","rv":10245,"start":"ns/name\u0000"}, as Kubernetes writes it (kubernetes-watch.md 2.4).
 *
 * `start` is relative to the prefix of the resource's keys; the bytes of a key that are not UTF-8 cannot be in one.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_TOKEN_H
#define BELFRY_KUBE_TOKEN_H

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

struct kube_token {
    int64_t rev;             /* -1: the newest */
    struct belfry_buf start; /* owned */
};

/* Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. kube_token_fini() in any case. */
BELFRY_NODISCARD enum belfry_err kube_token_read(struct belfry_bytes text, struct kube_token *out);
void kube_token_fini(struct kube_token *token);

/* Appends it to `out`. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_token_write(int64_t rev, struct belfry_bytes start, struct belfry_buf *out);

#endif
