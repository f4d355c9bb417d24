/* src/kapi/api_calls.h
 *
 * api_calls: the calls to one API server: each waits for a connection of the pool (net/pool.h), is sent, and ends once.
 *
 *     QUEUED --placed--> ON --end, failed--> (gone)
 *       ^ `--no connection can be made--> failed
 *       `------ sent elsewhere ---'
 *
 * HTTP/2 is one connection until the peer's limit of streams is reached, HTTP/1.1 one per call; which of the two is
 * known when the first is up. A connection that the server ends just when it is used again is not the call's fault: the
 * call is sent on another.
 *
 * Thread: owner (the loop's). Callbacks come from the loop, and from belfry_api_call_hold(call, false).
 * Memory: at most BELFRY_API_CONNECTIONS connections; calls beyond wait.
 */
#ifndef BELFRY_KAPI_API_CALLS_H
#define BELFRY_KAPI_API_CALLS_H

#include "client/session.h"
#include "kapi/retry.h"
#include "net/fetch.h"
#include "net/pool.h"

#define BELFRY_API_CONNECTIONS 4096
#define BELFRY_API_IDLE_MS     60000 /* a connection without a call is kept for this long */
#define BELFRY_API_FIELDS      4

struct belfry_api_calls;
struct belfry_api_call;

struct belfry_api_opts {
    struct belfry *b; /* outlives the calls, as does all of this */
    const struct belfry_endpoint *endpoint;
    struct belfry_tls *tls; /* NULL: plain */
    uint32_t dial_timeout_ms;
    const char *user_agent;
};

struct belfry_api_events {
    /* The fields that go with the request, requested when it goes out, so that a token is fresh. Lent until the next
     * call. */
    size_t (*fields)(struct belfry_http_field out[BELFRY_API_FIELDS], void *user);
    void (*head)(const struct belfry_fetch_head *head, void *user);
    void (*body)(struct belfry_bytes bytes, void *user);
    /* One of these is the last; the call is gone when it returns. */
    void (*end)(void *user);
    void (*failed)(enum belfry_err err, const char *why, enum belfry_broke broke, void *user);
};

BELFRY_NODISCARD enum belfry_err belfry_api_create(const struct belfry_api_opts *opts, struct belfry_api_calls **out);

/* There are no calls any more. NULL is fine. */
void belfry_api_destroy(struct belfry_api_calls *calls);

struct belfry_api_ask {
    const char *target; /* lent for the life of the call */
    bool is_watch;      /* it lasts */
    uint64_t link;      /* of an earlier call: the same connection, if it still takes calls; 0: any */
};

/* GET. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_api_call_open(struct belfry_api_calls *calls, const struct belfry_api_ask *ask,
                                                      const struct belfry_api_events *events, void *user,
                                                      struct belfry_api_call **out);

/* Where a call that was answered goes: its connection, not 0. Two calls with the same link reach the same server, also
 * behind the address of a balancer that passes connections on. Odd: HTTP/2. Even: HTTP/1.1, where the connection has
 * one call at a time: no other can go there until this one has ended. */
uint64_t belfry_api_call_link(const struct belfry_api_call *call);

/* No callback comes after it, also from inside its own. */
void belfry_api_call_cancel(struct belfry_api_call *call);
void belfry_api_call_hold(struct belfry_api_call *call, bool hold);

uint64_t belfry_api_requests(const struct belfry_api_calls *calls); /* sent so far */
struct belfry_pool_counts belfry_api_counts(const struct belfry_api_calls *calls);

#endif
