/* src/net/pool.h
 *
 * pool: connections to the endpoints of one service, made when they are needed, and the calls that wait for one.
 *
 * A route leads to one endpoint. With `one_at_a_time` there is one route for all endpoints: it leaves an endpoint that
 * is of no use for the next one, and rests when it has tried each. A route has one connection that takes new calls, or
 * several (full_ms).
 *
 *     route         READY <--> FULL         FULL: no stream of its connection has become free since the timer was set
 *                     ^ \       /
 *                     |  v     v            a connection failed, was lost, drains, or was left: those that wait go to
 *                     `-- RESTING           other routes. The rest grows until an endpoint serves: belfry_pool_good()
 *
 *     connection    DIALING --> UP --> RETIRED         RETIRED: it takes no more calls, those that it has go on, and it
 *                        `----------------^            closes with the last of them
 *
 * A waiter is embedded in what its owner keeps of a call. The pool places it on a connection, where the owner opens its
 * call (net/call.h, net/grpc.h, net/fetch.h), or refuses it.
 *
 * Thread: owner (the loop's). Events come from the loop, `place` also from inside belfry_pool_enqueue().
 * Memory: at most one connection per route or max_conns; the owner bounds its waiters.
 */
#ifndef BELFRY_NET_POOL_H
#define BELFRY_NET_POOL_H

#include "base/list.h"
#include "base/log.h"
#include "net/carrier.h"

#define BELFRY_POOL_FIRST_MS 50   /* the first wait after a route failed twice */
#define BELFRY_POOL_MAX_MS   3000 /* and the longest */
#define BELFRY_POOL_DIALING  16   /* connections of HTTP/1.1 that a route dials at the same time; of HTTP/2: 1 */
#define BELFRY_POOL_IDLE     8    /* connections without a call that are kept, with idle_ms */
#define BELFRY_POOL_FOREVER  UINT32_MAX

struct belfry_pool;

struct belfry_waiter {
    struct belfry_list node; /* the pool's while it waits, else the owner's */
    /* set by the owner before belfry_pool_enqueue() */
    unsigned
        *pin;     /* NULL, or lent while it waits: 1 + the number of the route to prefer, 0: any; the pool updates it */
    bool is_long; /* a call that lasts: it leaves a part of a connection's streams to others */
    uint64_t conn; /* the number of the connection to prefer, 0: any; once placed, that of its connection, not 0 */
    /* set by the pool */
    uint64_t since_ms;   /* waiting for an endpoint to be reached, not for a stream */
    enum belfry_err err; /* what it is to be refused with */
    bool reused;         /* placed: the connection had calls before, so the server may be ending it just now */
};

/* Names of log events, and how they are logged. */
struct belfry_pool_words {
    const char *up, *lost, *failed, *full;
    enum belfry_log_level again; /* of a failure for the same reason as the one before */
    bool goaway_code;            /* the reason of a connection that drains has the code of the peer's GOAWAY */
};

struct belfry_pool_opts {
    uv_loop_t *loop;
    struct belfry_dns *dns;
    struct belfry_tls *tls;                  /* of endpoints with TLS; may be NULL */
    const struct belfry_endpoint *endpoints; /* lent, in the order to try */
    size_t n_endpoints;
    const bool *barred; /* lent; one per endpoint, and may change: gets no new connection and no calls. NULL: none is */
    uint32_t dial_timeout_ms;
    struct belfry_http_opts http;          /* of every connection; scheme and authority are filled in */
    bool alpn;                             /* the version is what TLS agrees on, without that 1.1; else always HTTP/2 */
    const char *nonsense;                  /* as in carrier.h */
    uint64_t seed;                         /* of the jitter, and of the route that is used first */
    const struct belfry_log *log;          /* may be NULL */
    const struct belfry_pool_words *words; /* static; NULL: connections are not logged */
    const char *name;                      /* is logged as link=NAME; NULL: is not */
    /* policy */
    bool one_at_a_time;
    uint32_t wait_ms; /* a waiter for which no endpoint can be reached this long is refused; 0: when dialling fails, and
                         routes never rest: the owner decides when to try again */
    uint32_t full_ms; /* a connection without a free stream for this long retires, and another is dialled; 0: another is
                         dialled immediately, and both get calls */
    uint32_t idle_ms; /* a connection without a call closes after this long; 0: it is kept */
    size_t max_conns; /* more than one per route only up to this many in all, RETIRED ones too */
};

/* All but `place` and `refuse` may be NULL; a pool without waiters has neither. */
struct belfry_pool_events {
    void (*up)(struct belfry_pool *pool, struct belfry_carrier *conn, void *user);
    /* A connection was lost or could not be made. The pool dials again by itself while it is needed. */
    void (*down)(struct belfry_pool *pool, enum belfry_err err, void *user);
    /* Open the call on `conn`, which has room for it; the pool flushes. The waiter no longer waits; after an error it
     * is refused with that error. */
    enum belfry_err (*place)(struct belfry_waiter *waiter, struct belfry_carrier *conn, void *user);
    void (*refuse)(struct belfry_waiter *waiter, enum belfry_err err, const char *why, void *user);
    /* After belfry_pool_destroy(), when no call and no connection is left. */
    void (*gone)(void *user);
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_pool_create(const struct belfry_pool_opts *opts,
                                                    const struct belfry_pool_events *events, void *user,
                                                    struct belfry_pool **out);

/* Ends all connections and every call on them, and refuses every waiter; each receives `why`. NULL is fine. */
void belfry_pool_destroy(struct belfry_pool *pool, const char *why);

void belfry_pool_enqueue(struct belfry_pool *pool, struct belfry_waiter *waiter);
void belfry_pool_dequeue(struct belfry_waiter *waiter); /* it no longer waits; also if it did not */

/* With one_at_a_time, instead of waiters: */
void belfry_pool_want(struct belfry_pool *pool, bool wanted);      /* whether a connection is needed */
struct belfry_carrier *belfry_pool_conn(struct belfry_pool *pool); /* NULL unless one is UP; flush it after use */
size_t belfry_pool_at(const struct belfry_pool *pool);             /* the endpoint in use, or dialled next */
bool belfry_pool_exhausted(const struct belfry_pool *pool); /* each endpoint was tried since one served, and failed */
/* The endpoint is of no use (no leader, another cluster): the next one. Calls that run go on. */
void belfry_pool_leave(struct belfry_pool *pool, enum belfry_err err, const char *why);

/* The endpoint of `conn` answered: the next failure is mended without a wait. Ignored if `conn` is NULL or RETIRED. */
void belfry_pool_good(struct belfry_pool *pool, const struct belfry_carrier *conn);

/* With idle_ms the end of a connection is a loss only if a call failed with it. The owner says so, for each such call.
 */
void belfry_pool_count_loss(struct belfry_pool *pool, const struct belfry_carrier *conn);

/* "http://a:1: connection refused; http://b:2: ..." of endpoints that failed since they last served; "": none. */
void belfry_pool_describe(const struct belfry_pool *pool, char *text, size_t len);
/* Why this endpoint failed since it last served, "connection refused"; "": it did not. was_up: it had a connection. */
const char *belfry_pool_why(const struct belfry_pool *pool, size_t endpoint, bool *out_was_up);

struct belfry_pool_counts {
    uint64_t connects, losses; /* connections made and lost so far */
    size_t connections, http2; /* UP now, and those of HTTP/2 */
    size_t named;              /* UP now, and presented a certificate with a common name (net/transport.h) */
};
struct belfry_pool_counts belfry_pool_counts(const struct belfry_pool *pool);

#endif
