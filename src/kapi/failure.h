/* src/kapi/failure.h
 *
 * failure: why a request or a stream failed: an HTTP status, a Status object, or both.
 *
 * If the body is not a Status, the HTTP status decides, and the body's text, truncated and made printable, becomes the
 * sentence.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KAPI_FAILURE_H
#define BELFRY_KAPI_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_FAILURE_BODY (64 * 1024) /* bytes read of an error's body */
#define BELFRY_FAILURE_WHY  256         /* bytes of one failure's sentence */

struct belfry_failure {
    enum belfry_err err; /* BELFRY_OK: none */
    int code;            /* 0: none */
    char reason[48];     /* "Expired"; "" */
    /* A sentence with the code and the server's message; printable, complete UTF-8; has room for a second sentence */
    char why[2 * BELFRY_FAILURE_WHY + 64];
    int64_t retry_after_ms; /* -1: none; from details.retryAfterSeconds or the header; at most an hour */
    bool expired;           /* 410, or reason Expired or Gone: the version is too old */
    bool too_large; /* cause ResourceVersionTooLarge, or (old servers) a Timeout whose message says "Too large ..." */
};

/* From an answer other than 200: its status, the value of Retry-After (empty: none; only whole seconds count), its
 * body. Never fails: without memory, the sentence comes from the code alone. */
void belfry_failure_of_answer(struct belfry_failure *failure, int status, struct belfry_bytes retry_after,
                              struct belfry_bytes body);

/* From the object of an ERROR event. */
void belfry_failure_of_status(struct belfry_failure *failure, struct belfry_bytes json);

/* After the last of `tries`: adds why the first try failed, if that differs. The last failure is often only a
 * consequence, such as "no answer came in time" from a server that first said why it cannot serve. */
void belfry_failure_add_first(struct belfry_failure *failure, const char *first, unsigned tries);

/* A failure found by the client itself. */
void belfry_failure_set(struct belfry_failure *failure, enum belfry_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
