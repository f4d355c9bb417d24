/* src/kube/token.h
 *
 * token: where to continue a list that was cut by its limit: unpadded URL-safe base64 of
 * {"v":"meta.k8s.io/v1","rv":10245,"start":"ns/name\u0000"}, as in Kubernetes (docs/spec/kubernetes-watch.md 2.4).
 *
 * `start` is relative to the prefix of the resource's keys. Keys that are not UTF-8 cannot be in a token.
 *
 * A revision identifies a state only within one past: after upstream was restored from a backup, the same number may
 * mean another state. Different processes cannot compare their pasts. So a token records the process that wrote it and
 * that process's past ("process" and "past"). The same process can check both; another process uses the revision alone,
 * so that a list may be continued at another replica.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_TOKEN_H
#define BELFRY_KUBE_TOKEN_H

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

/* A start is a namespace and a name plus the template's literals; even with every byte escaped it fits into a token. */
#define KUBE_START_MAX 2048
#define KUBE_TOKEN_MAX (32 * 1024)

struct kube_token_origin {
    uint64_t process, past; /* 0: not recorded */
};

struct kube_token {
    int64_t rev;             /* -1: the newest */
    struct belfry_buf start; /* owned */
    struct kube_token_origin origin;
};

/* Errors: BELFRY_ERR_INVALID (not a possible result of kube_token_write()), BELFRY_ERR_NOMEM. Call kube_token_fini() in
 * any case. */
BELFRY_NODISCARD enum belfry_err kube_token_read(struct belfry_bytes text, struct kube_token *out);
void kube_token_fini(struct kube_token *token);

/* Appends a token to `out`, with its origin if it has one. On error `out` is unchanged.
 * Errors: BELFRY_ERR_INVALID (rev is neither positive nor -1; start is empty, longer than KUBE_START_MAX, not UTF-8, or
 * has a part "." or ".."), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_token_write(int64_t rev, struct kube_token_origin origin,
                                                  struct belfry_bytes start, struct belfry_buf *out);

#endif
