/* src/serve/uplink/unary.h
 *
 * unary: one small gRPC question of the tier's own over an uplink, and its answer.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside unary_open().
 * Memory: the question, and UNARY_BYTES of the answer; what is longer is read and dropped.
 */
#ifndef BELFRY_SERVE_UPLINK_UNARY_H
#define BELFRY_SERVE_UPLINK_UNARY_H

#include "serve/uplink/uplink.h"

#define UNARY_BYTES  4096
#define UNARY_FIELDS 4  /* that may be added */
#define UNARY_KEPT   32 /* bytes of a field of the answer */

struct unary;

struct unary_answer {
    int code;                 /* gRPC's; what the way it ended stands for when upstream gave none */
    bool judged;              /* upstream itself said so */
    const char *message;      /* "" when there was none */
    struct belfry_bytes body; /* the message of the response; {NULL, 0}: none, too long, or not plain */
    struct belfry_bytes kept; /* the value of opts.keeps; {NULL, 0}: none; empty: several, or over UNARY_KEPT bytes */
};

/* Everything is lent. The call is gone when it returns. */
typedef void (*unary_fn)(const struct unary_answer *answer, void *user);

struct unary_opts {
    struct uplink *uplink;
    unsigned pin;     /* 0: none */
    const char *path; /* static */
    uint32_t timeout_ms;
    const struct belfry_http_field *fields; /* of the request, beside gRPC's own */
    size_t n_fields;
    struct belfry_bytes message;
    enum uplink_caller caller;
    const char *keeps; /* a field of the answer; NULL: none. Static */
    unary_fn fn;
    void *user;
};

/* Copies what it needs. Errors: as uplink_open(). */
BELFRY_NODISCARD enum belfry_err unary_open(const struct unary_opts *opts, struct unary **out);
void unary_cancel(struct unary *unary); /* no answer will come; NULL is fine */

unsigned unary_pin(const struct unary *unary); /* where it went */

#endif
