/* src/kapi/pool.h
 *
 * pool: the connections to one API server, and the calls that wait for one.
 *
 *     QUEUED --a connection has room--> ON --end, failed--> (gone)
 *        `--no connection can be made--> failed
 *
 * HTTP/2 is one connection until the peer's limit of streams is reached, HTTP/1.1 one for each call; which of the two
 * is known when the first is up, and until then only one is dialled. A connection is kept for the next call for a
 * while; one that the server ended just when it was used again is not the call's fault, which goes to another.
 *
 * Thread: owner (the loop's). Callbacks come from the loop, and from belfry_pool_call_hold(call, false).
 * Memory: at most BELFRY_POOL_CONNECTIONS connections; calls beyond wait.
 */
#ifndef BELFRY_KAPI_POOL_H
#define BELFRY_KAPI_POOL_H

#include "base/log.h"
#include "client/session.h"
#include "kapi/retry.h"
#include "net/fetch.h"

#define BELFRY_POOL_CONNECTIONS 4096
#define BELFRY_POOL_DIALING     16    /* at once */
#define BELFRY_POOL_IDLE        8     /* connections without a call that are kept ... */
#define BELFRY_POOL_IDLE_MS     60000 /* ... and for how long */
#define BELFRY_POOL_FIELDS      4

struct belfry_pool;
struct belfry_pool_call;

struct belfry_pool_opts {
    struct belfry *b; /* outlives the pool, as does all of this */
    const struct belfry_endpoint *endpoint;
    struct belfry_tls *tls; /* NULL: plain */
    uint32_t dial_timeout_ms;
    const char *user_agent;
};

struct belfry_pool_events {
    /* The fields that go with the request, asked for when it goes out, so that a token is fresh. Lent until the next.
     */
    size_t (*fields)(struct belfry_http_field out[BELFRY_POOL_FIELDS], void *user);
    void (*head)(const struct belfry_fetch_head *head, void *user);
    void (*body)(struct belfry_bytes bytes, void *user);
    /* One of these is the last; the call is gone when it returns. */
    void (*end)(void *user);
    void (*failed)(enum belfry_err err, const char *why, enum belfry_broke broke, void *user);
};

BELFRY_NODISCARD enum belfry_err belfry_pool_create(const struct belfry_pool_opts *opts, struct belfry_pool **out);

/* There are no calls any more. NULL is fine. */
void belfry_pool_destroy(struct belfry_pool *pool);

/* GET `target` (lent for the life of the call). Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_pool_call_open(struct belfry_pool *pool, const char *target,
                                                       const struct belfry_pool_events *events, void *user,
                                                       struct belfry_pool_call **out);

/* No callback comes after it, also from inside its own. */
void belfry_pool_call_cancel(struct belfry_pool_call *call);
void belfry_pool_call_hold(struct belfry_pool_call *call, bool hold);

struct belfry_pool_counts {
    uint64_t requests, connects, losses;
    size_t connections, http2; /* up now */
};
struct belfry_pool_counts belfry_pool_counts(const struct belfry_pool *pool);

#endif
