/* src/follow/circle.h
 *
 * circle: which of upstream's endpoints lead back to this tier, or through too many tiers.
 *
 * There are two signs: upstream refuses a request with the names of the tiers it went through (serve/uplink/via.h); or
 * this tier is among the tiers that the tier above reports above itself (about.h). Such an endpoint is barred until
 * the next start: its owner sends it nothing more. When all endpoints are barred, `given_up` says why.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_FOLLOW_CIRCLE_H
#define BELFRY_FOLLOW_CIRCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "follow/about.h"
#include "net/endpoint.h"

/* How a tier refuses a request that went in a circle, or through too many tiers (FAILED_PRECONDITION): the chain of
 * names and the remedy follow. */
#define CIRCLE_REFUSAL         "belfry: tiers in a circle: "
#define CIRCLE_REMEDY          "give each tier its own --name and point --upstream at etcd or a tier above"
#define CIRCLE_TOO_MANY        "belfry: more than 8 tiers: "
#define CIRCLE_TOO_MANY_REMEDY "point --upstream at a tier nearer to etcd"
#define CIRCLE_TIERS           8 /* in a row */
#define CIRCLE_WHY             800

struct circle {
    /* fixed at creation */
    const char *name;                        /* of this tier; "": none, then reports of others tell nothing */
    const struct belfry_endpoint *endpoints; /* lent */
    size_t n_endpoints;
    const struct belfry_log *log;
    /* moved by the owner */
    bool *barred;              /* owned; one per endpoint */
    char given_up[CIRCLE_WHY]; /* all are barred, and why; "": not all are */
};

/* `name`, `endpoints` and `log` are lent until circle_fini(). Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err circle_init(struct circle *circle, const char *name,
                                             const struct belfry_endpoint *endpoints, size_t n_endpoints,
                                             const struct belfry_log *log);
void circle_fini(struct circle *circle); /* one of zeroes is fine */

/* A server refused something: `endpoint` begins with its URL, `why` is what it said. True: an endpoint was barred. */
bool circle_refused(struct circle *circle, const char *endpoint, const char *why);

/* The tier above, at `endpoint`, has reported itself and those above it; connected for `since_ms`. True: the endpoint
 * was barred. */
bool circle_reported(struct circle *circle, const char *endpoint, const struct about *them, uint64_t since_ms);

#endif
