/* src/kapi/failure.h
 *
 * failure: how a request or a stream failed: by an HTTP status, by a Status object, or both.
 *
 * A body that is no Status is taken for what its HTTP status says, its text, cut and made printable, as the sentence.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KAPI_FAILURE_H
#define BELFRY_KAPI_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_FAILURE_BODY (64 * 1024) /* of an error's body; the rest is not read */
#define BELFRY_FAILURE_WHY  256         /* bytes of one failure's sentence */

struct belfry_failure {
    enum belfry_err err; /* BELFRY_OK: none */
    int code;            /* 0: none was said */
    char reason[48];     /* "Expired"; "" */
    /* A sentence with the code and the server's words, printable, UTF-8 not cut; room for that of another behind it */
    char why[2 * BELFRY_FAILURE_WHY + 64];
    int64_t retry_after_ms; /* -1: none; from details.retryAfterSeconds or the header; at most an hour */
    bool expired;           /* 410, or reason Expired or Gone: the version is too old */
    bool too_large; /* cause ResourceVersionTooLarge, or a Timeout whose message begins "Too large resource version"
                              * wherever that stands in it (old servers) */
};

/* An answer other than 200: its status, the value of Retry-After (empty: none; only whole seconds count), its body.
 * Never fails: when memory ends, it says what the code says. */
void belfry_failure_of_answer(struct belfry_failure *failure, int status, struct belfry_bytes retry_after,
                              struct belfry_bytes body);

/* The object of an ERROR event. */
void belfry_failure_of_status(struct belfry_failure *failure, struct belfry_bytes json);

/* It is the last of `tries`: says how the first failed, too, when that was something else. The last is often only the
 * consequence: "no answer came in time" of a server that first said why it cannot serve. */
void belfry_failure_add_first(struct belfry_failure *failure, const char *first, unsigned tries);

/* Our own words. */
void belfry_failure_set(struct belfry_failure *failure, enum belfry_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
