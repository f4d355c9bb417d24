/* src/net/fetch.h
 *
 * fetch: a call of net/call.h that is told as most users of HTTP think of it: one head, a body in pieces, and an end.
 * Requests have no body.
 *
 * Thread: owner. Pure.
 * Memory: a response head of at most BELFRY_FETCH_HEAD_BYTES and BELFRY_FETCH_FIELDS fields, kept until it is told; a
 *         body is lent as it comes.
 */
#ifndef BELFRY_NET_FETCH_H
#define BELFRY_NET_FETCH_H

#include "net/call.h"

#define BELFRY_FETCH_WINDOW     (256 * 1024) /* for belfry_http_opts.window */
#define BELFRY_FETCH_HEAD_BYTES (64 * 1024)  /* names, values and 32 each, as HTTP/2 counts them */
#define BELFRY_FETCH_FIELDS     128

struct belfry_fetch;

struct belfry_fetch_request {
    const char *method;                     /* "GET" */
    const char *target;                     /* path and query, already escaped */
    const struct belfry_http_field *fields; /* besides host (:authority) and user-agent */
    size_t n_fields;
};

struct belfry_fetch_head {
    int status; /* 200 to 599; 1xx are not told */
    const struct belfry_http_field *fields;
    size_t n_fields;
};

/* The value of the first field of this name (lower case); empty with data NULL: there is none. */
struct belfry_bytes belfry_fetch_find(const struct belfry_fetch_head *head, const char *name);

/* Made as the events of net/call.h are, and allowed the same. */
struct belfry_fetch_events {
    void (*head)(struct belfry_fetch *fetch, const struct belfry_fetch_head *head, void *user); /* once; lent */
    void (*body)(struct belfry_fetch *fetch, struct belfry_bytes bytes, void *user);            /* lent */
    /* The last event, one of two; the fetch is gone when it returns. The response ended as the protocol says. */
    void (*end)(struct belfry_fetch *fetch, void *user);
    /* It did not. `unprocessed`: certainly not seen by the server: safe to send again elsewhere.
     * BELFRY_ERR_UNAVAILABLE (the connection broke; GOAWAY; reset), _PROTOCOL, _NOMEM, _TOO_LARGE (the head),
     * _TIMEOUT (no answer to a PING), _LIMIT (HTTP/1.1: more was read for a held one than the window). */
    void (*failed)(struct belfry_fetch *fetch, enum belfry_err err, const char *why, bool unprocessed, void *user);
};

/* Everything of `request` is copied. Errors: as belfry_http_call_open(); BELFRY_ERR_NOMEM; BELFRY_ERR_INVALID: what
 * belfry_http_ask_create() refuses, a target that is not escaped, or a field that the connection says itself (host,
 * user-agent, connection, content-length ...). */
BELFRY_NODISCARD enum belfry_err belfry_fetch_open(struct belfry_http *http, const struct belfry_fetch_request *request,
                                                   const struct belfry_fetch_events *events, void *user,
                                                   struct belfry_fetch **out);

/* No event follows and the fetch is gone, also from inside its own events. As belfry_http_call_cancel(). */
void belfry_fetch_cancel(struct belfry_fetch *fetch);

/* true: nothing is told until false is said, its end neither (but belfry_http_destroy() tells it). What was kept
 * meanwhile is told from inside the call that says false, in order; an event among it may hold again. */
void belfry_fetch_hold(struct belfry_fetch *fetch, bool hold);

#endif
