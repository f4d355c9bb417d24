/* src/kube/token.h
 *
 * token: where a list that was cut by its limit goes on: unpadded URL-safe base64 of
 * {"v":"meta.k8s.io/v1","rv":10245,"start":"ns/name\u0000"}, as in Kubernetes (docs/spec/kubernetes-watch.md 2.4).
 *
 * `start` is relative to the prefix of the resource's keys; the bytes of a key that are not UTF-8 cannot be in one.
 *
 * A revision has one meaning in one past only: where upstream was restored from a backup, the same number may be another
 * state. Nothing tells pasts of different processes apart, so a token says which process wrote it, and in which of its
 * pasts: "process" and "past". Who knows the process can tell; who does not goes by the revision alone, so that a list may
 * be continued at another replica.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_TOKEN_H
#define BELFRY_KUBE_TOKEN_H

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

/* A start is a namespace and a name and what a template puts around them; written with every byte escaped it still fits
 * into a token. */
#define KUBE_START_MAX 2048
#define KUBE_TOKEN_MAX (32 * 1024)

struct kube_token_origin {
    uint64_t process, past; /* 0: it does not say */
};

struct kube_token {
    int64_t rev;             /* -1: the newest */
    struct belfry_buf start; /* owned */
    struct kube_token_origin origin;
};

/* Errors: BELFRY_ERR_INVALID: nothing that kube_token_write() could have written; BELFRY_ERR_NOMEM. kube_token_fini() in
 * any case. */
BELFRY_NODISCARD enum belfry_err kube_token_read(struct belfry_bytes text, struct kube_token *out);
void kube_token_fini(struct kube_token *token);

/* Appends it to `out`, the origin where there is one. Errors: BELFRY_ERR_INVALID: rev is neither positive nor -1, start is empty, longer than
 * KUBE_START_MAX, not UTF-8, or has a part "." or ".."; BELFRY_ERR_NOMEM. `out` is then unchanged. */
BELFRY_NODISCARD enum belfry_err kube_token_write(int64_t rev, struct kube_token_origin origin,
                                                  struct belfry_bytes start, struct belfry_buf *out);

#endif
