/* src/serve/route.h
 *
 * route: which part of a worker answers a request on a client port.
 *
 *     gRPC  /etcdserverpb.Watch/Watch      watch
 *           /grpc.health.v1.Health/...     health: SERVING when ready
 *           /belfry.Tier/About             about_reply
 *           any other                      relay
 *     HTTP  GET /health, GET /version      as etcd answers them: {"health":"true","reason":""}, 503 when not ready;
 *                                          {"etcdserver":"3.5.16","etcdcluster":"3.5.0"} with upstream's versions, and
 *                                          what Kubernetes' /version has where that dialect is served
 *           POST /v3/..., /v3beta/...      gateway: gRPC's methods with JSON
 *           GET /v1/events                 sse: changes as Server-Sent Events; with it /v1/ticket and /belfry.js
 *           /api, /apis, /openapi, probes  kube: list and watch of objects
 *           any other                      404
 *
 * A gRPC request that has been here before, or has gone through too many tiers, is refused (via.h): 9, with the chain.
 *
 * A request that says for which user it asks, and may not, is refused (identity.h): 16, or 401.
 *
 * A listener that does not serve the dialect of a request answers 12 (gRPC) or 404. /health and /version are there
 * whatever it serves.
 *
 * On a listener with rights=upstream, /health, /readyz and the health service say "not ready" until auth is found on.
 *
 * Thread: owner (the worker's).
 */
#ifndef BELFRY_SERVE_ROUTE_H
#define BELFRY_SERVE_ROUTE_H

#include "follow/about.h"
#include "serve/etcd/watch.h"
#include "serve/json/gateway.h"
#include "serve/kube/kube.h"
#include "serve/relay/relay.h"
#include "serve/rights/listen_policy.h"
#include "serve/sse/sse.h"
#include "server/cors.h"
#include "server/hosts.h"

/* Refused here: requests of web pages of other sites (cors.h); gRPC over HTTP/1.1, which has no streams that go on
 * (505, as gRPC's own servers); and over plain HTTP a name that is none of ours (hosts.h). */

struct route;

struct route_opts {
    struct watch_service *watch;
    struct relay *relay;
    struct kube_service *kube; /* NULL: its paths are not there */
    struct gateway *gateway;   /* the same */
    struct sse *sse;           /* the same */
    const char *name;          /* the tier's, as a word (via.h); lent */
    struct hosts *hosts;       /* lent; NULL: every name is allowed */
    struct cors_origins cors;  /* lent: web pages that may ask */
    uint64_t message_ms;       /* as in health.h */
    uint64_t (*now)(void *user);
    void (*about)(struct about *out, void *user); /* what the tier says of itself */
    void *user;
};

BELFRY_NODISCARD enum belfry_err route_create(const struct route_opts *opts, struct route **out);
void route_destroy(struct route *route); /* streams of health/Watch end with 14; NULL is fine */

/* exchange_begin_fn; user is the route. */
void route_begin(struct exchange *x, const struct exchange_head *head, void *user);

/* The same for a gRPC request that comes from within: of the gateway. */
void route_begin_method(struct exchange *x, const struct exchange_head *head, void *user);

/* How the tier stands, for health: health/Watch streams are told of changes. Versions as upstream's Status and
 * cluster say; "" while unknown. */
void route_stand(struct route *route, bool ready, const char *reason, const char *server_version,
                 const char *cluster_version);

/* Is auth on upstream, as last found? PERMIT_AUTH_UNKNOWN at first; for listeners with rights=upstream. */
void route_set_message_time(struct route *route, uint64_t message_ms); /* as in health.h */
void route_set_auth(struct route *route, enum permit_auth auth);

struct route_stats {
    uint64_t refused_hosts, refused_http1;
    uint64_t refused_pages; /* requests of web pages of other sites (cors.h) */
    uint64_t late;          /* calls of the health service whose request was not complete in time */
    uint64_t refused_users; /* requests that said for which user they ask, and may not (identity.h) */
};
void route_stats(const struct route *route, struct route_stats *out);

/* Ends calls that are late. route_due(): when one will be; BELFRY_NEVER: none. */
void route_end_late(struct route *route, uint64_t now_ms);
uint64_t route_due(const struct route *route);

void route_drain(struct route *route); /* health says NOT_SERVING from now on */

#endif
