/* src/kube/status.h
 *
 * status: Kubernetes' Status object: the reason of a failure, for programs (code, reason, causes) and for people
 * (message).
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_STATUS_H
#define BELFRY_KUBE_STATUS_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

enum kube_reason {
    KUBE_BAD_REQUEST,            /* 400 */
    KUBE_UNAUTHORIZED,           /* 401 */
    KUBE_FORBIDDEN,              /* 403 */
    KUBE_NOT_FOUND,              /* 404 */
    KUBE_METHOD_NOT_ALLOWED,     /* 405 */
    KUBE_NOT_ACCEPTABLE,         /* 406 */
    KUBE_EXPIRED,                /* 410 */
    KUBE_UNSUPPORTED_MEDIA_TYPE, /* 415 */
    KUBE_INVALID,                /* 422 */
    KUBE_TOO_MANY_REQUESTS,      /* 429 */
    KUBE_INTERNAL_ERROR,         /* 500 */
    KUBE_SERVICE_UNAVAILABLE,    /* 503 */
    KUBE_TIMEOUT                 /* 504 */
};

int kube_reason_code(enum kube_reason reason);
const char *kube_reason_name(enum kube_reason reason); /* "BadRequest" */

struct kube_cause {
    const char *reason; /* "FieldValueForbidden", "ResourceVersionTooLarge" */
    const char *message;
    const char *field; /* "" or NULL: none */
};

#define KUBE_MESSAGE_MAX 512
#define KUBE_CAUSES_MAX  4

/* All pointers are lent. The message is stored inside, so that the code that finds an error can print it in place. */
struct kube_status {
    enum kube_reason reason;
    char message[KUBE_MESSAGE_MAX];
    struct belfry_bytes name, group, kind; /* details; all empty: none */
    struct kube_cause causes[KUBE_CAUSES_MAX];
    size_t n_causes;
    unsigned retry_after_s;            /* 0: none; also sent as a header */
    struct belfry_bytes continue_with; /* metadata.continue; empty: none */
};

/* Sets reason and message and clears the rest. */
void kube_status_set(struct kube_status *status, enum kube_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void kube_status_cause(struct kube_status *status, const char *reason, const char *message, const char *field);

/* Appends it as compact JSON. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_status_write(const struct kube_status *status, struct belfry_buf *out);

/* The two that a list or a watch sends in its stream. */
void kube_status_expired(struct kube_status *status, int64_t asked, int64_t oldest);    /* 410 */
void kube_status_too_large(struct kube_status *status, int64_t asked, int64_t current); /* 504 */

#endif
