/* src/client/link.h
 *
 * link: a connection to one of several endpoints, made again as often as needed.
 *
 *     IDLE --wanted--> DIALING --> UP --lost, left, draining--.
 *      ^                  ^ |                                  |
 *      |                  | `-- failed --> RESTING <-----------'
 *      `--- not wanted ---+------------------'   no wait before an endpoint not tried yet in this round,
 *                                                backoff with jitter after each round
 *
 * The wait grows until belfry_link_good() says that an endpoint not only connects but serves. A connection whose peer
 * drains is put aside, its calls go on, and the link dials anew when wanted.
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_CLIENT_LINK_H
#define BELFRY_CLIENT_LINK_H

#include <stdbool.h>

#include "base/rng.h"
#include "net/carrier.h"
#include "net/grpc.h"

#define BELFRY_LINK_FIRST_MS 50   /* the first wait after a round in which no endpoint connected */
#define BELFRY_LINK_MAX_MS   3000 /* and the longest */
#define BELFRY_LINK_WHY      160

struct belfry_link;

struct belfry_link_opts {
    uv_loop_t *loop;
    struct belfry_dns *dns;
    struct belfry_tls *tls;                  /* may be NULL */
    const struct belfry_endpoint *endpoints; /* lent for the life of the link, in the order to try */
    size_t n_endpoints;
    const bool *barred; /* lent likewise; one for each: true: is passed over from now on. NULL: none is */
    uint32_t dial_timeout_ms;
    struct belfry_grpc_opts grpc; /* scheme and authority are filled in */
    const char *name;             /* for the log: "watch", "calls" */
    uint64_t seed;                /* of the jitter */
    const struct belfry_log *log;
};

struct belfry_link_events {
    void (*up)(struct belfry_link *link, void *user);
    /* A connection was lost or could not be made; the link goes on by itself while it is wanted. */
    void (*down)(struct belfry_link *link, enum belfry_err err, void *user);
};

BELFRY_NODISCARD enum belfry_err belfry_link_create(const struct belfry_link_opts *opts,
                                                    const struct belfry_link_events *events, void *user,
                                                    struct belfry_link **out);

/* Ends every call (with its callback) and all connections. NULL is fine. */
void belfry_link_destroy(struct belfry_link *link);

/* Whether somebody needs it; dials if so and not connected. */
void belfry_link_want(struct belfry_link *link, bool wanted);

/* The connection to open calls on; NULL unless UP. After using it, belfry_carrier_flush(). */
struct belfry_carrier *belfry_link_conn(struct belfry_link *link);

/* The endpoint connected to, or tried last. */
const struct belfry_endpoint *belfry_link_endpoint(const struct belfry_link *link);

size_t belfry_link_index(const struct belfry_link *link); /* of the same, in the list given */

/* The endpoint serves: the next failure is mended without a wait. */
void belfry_link_good(struct belfry_link *link);

/* The endpoint is of no use (no leader, another cluster): goes on with the next one. Calls that run may still end well.
 */
void belfry_link_leave(struct belfry_link *link, enum belfry_err err, const char *why);

/* "http://a:1: connection refused; http://b:2: no answer within 2000 ms" of what was tried since it last served. */
void belfry_link_describe(const struct belfry_link *link, char *text, size_t len);

/* True when no endpoint could be reached since the last success, each having been tried. */
bool belfry_link_exhausted(const struct belfry_link *link);

/* Connections made and lost so far. */
uint64_t belfry_link_connects(const struct belfry_link *link);
uint64_t belfry_link_losses(const struct belfry_link *link);

#endif
