/* src/serve/kube/kube_answer.h
 *
 * kube_answer: whole responses of the Kubernetes dialect: a document, or a Status that says why there is none.
 *
 * Thread: owner (the exchange's).
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_ANSWER_H
#define BELFRY_SERVE_KUBE_KUBE_ANSWER_H

#include "kube/status.h"
#include "serve/kube/kube_state.h"
#include "serve/rights/identity.h"

/* The last word: the Status with its code, and Retry-After when it has one. Without memory for its text: the code. */
void kube_answer_status(struct exchange *x, const struct kube_status *status);

/* The last word: a Status of this reason. 429 and 503 say that it may be tried again after a second. */
void kube_answer_failure(struct exchange *x, enum kube_reason reason, const char *why);

/* The last word: 200 and JSON. etag empty: none. */
void kube_answer_json(struct exchange *x, struct belfry_bytes type, struct belfry_bytes etag, struct belfry_bytes body);

/* The head of a response that goes on: 200, application/json. */
void kube_answer_begin(struct exchange *x);

/* 404; or 429 while the catalog is only a part of what is to come. */
void kube_status_no_resource(struct kube_status *status, enum kube_catalog_extent extent);

/* Upstream refused to say which revision is its newest: `err` is BELFRY_ERR_AUTH (401) or BELFRY_ERR_DENIED (403). For
 * a client without a token on an open listener the tier asks for itself; then it is 403, and says what to do. */
void kube_status_no_fence(struct kube_status *status, enum belfry_err err, const struct identity *who);

/* 503: the tier drains. */
void kube_status_drain(struct kube_status *status);

/* 429: retry after a second. `why` is for people. */
void kube_status_busy(struct kube_status *status, const char *why);

#endif
