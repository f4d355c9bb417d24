/* src/serve/route.c */
#include "serve/route.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "serve/etcd/about_reply.h"
#include "serve/etcd/health.h"
#include "serve/rights/identity.h"
#include "serve/uplink/via.h"
#include "server/grpc_answer.h"

#define PATH_WATCH   "/etcdserverpb.Watch/Watch"
#define REASON_BYTES 256
#define AUTH_UNKNOWN "it is not known yet whether auth is on upstream, and this listener has rights=upstream"
#define AUTH_OFF     "auth is off upstream, and this listener has rights=upstream"

struct route {
    struct route_opts opts;
    struct health *health;
    struct health *guarded; /* the same for listeners with rights=upstream: not ready until auth is found on */
    bool draining;
    bool ready; /* as the tier stands; `reason` says why not */
    char reason[REASON_BYTES];
    enum permit_auth auth;
    struct route_stats stats;
    BELFRY_OWNER;
};

enum belfry_err route_create(const struct route_opts *opts, struct route **out)
{
    struct route *route = calloc(1, sizeof(*route));
    if (route == NULL)
        return BELFRY_ERR_NOMEM;
    route->opts = *opts;
    enum belfry_err err = health_create(opts->message_ms, &route->health);
    if (err == BELFRY_OK)
        err = health_create(opts->message_ms, &route->guarded);
    if (err != BELFRY_OK) {
        route_destroy(route);
        return err;
    }
    BELFRY_OWNER_INIT(route);
    *out = route;
    return BELFRY_OK;
}

void route_destroy(struct route *route)
{
    if (route == NULL)
        return;
    BELFRY_OWNER_CHECK(route);
    health_destroy(route->health);
    health_destroy(route->guarded);
    free(route);
}

void route_set_message_time(struct route *route, uint64_t message_ms)
{
    BELFRY_OWNER_CHECK(route);
    health_set_message_time(route->health, message_ms);
    health_set_message_time(route->guarded, message_ms);
}

/* ---- which part answers ---- */

/* A connection whose listener has no policy serves everything. */
static const struct listen_policy *policy_of(struct exchange *x)
{
    static const struct listen_policy all = {.dialects = DIALECT_GRPC | DIALECT_JSON | DIALECT_KUBE | DIALECT_SSE};
    const struct listen_policy *policy = exchange_conn(x)->policy;
    return policy == NULL ? &all : policy;
}

static struct health *health_of(const struct route *route, struct exchange *x)
{
    return policy_of(x)->rights == LISTEN_RIGHTS_UPSTREAM ? route->guarded : route->health;
}

static void begin_about(struct route *route, struct exchange *x, const struct exchange_head *head)
{
    struct about about;
    route->opts.about(&about, route->opts.user);
    about_reply(x, head, &about);
}

/* True: it has been here before, or comes from too far. */
static bool refuse_by_via(struct route *route, struct exchange *x, const struct exchange_head *head)
{
    struct via via;
    char why[VIA_WHY_BYTES];
    switch (via_judge(head, route->opts.name, &via, why)) {
    case VIA_FINE:
        return false;
    case VIA_CIRCLE:
    case VIA_TOO_MANY:
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 9, why);
        break;
    case VIA_UNREADABLE:
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 3, why);
        break;
    }
    return true;
}

/* True: it says for which user it asks, and may not. */
static bool refuse_user(struct route *route, struct exchange *x, const struct exchange_head *head)
{
    const char *why = identity_refuses(x, head);
    if (why == NULL)
        return false;
    route->stats.refused_users++;
    grpc_fail(x, GRPC_HEADERS_NOT_SENT, 16, why);
    return true;
}

/* Whatever form it came in. */
static void begin_method(struct route *route, struct exchange *x, const struct exchange_head *head)
{
    const struct listen_policy *policy = policy_of(x);
    if (belfry_bytes_equal(head->path, belfry_bytes_str(PATH_WATCH)))
        watch_begin(route->opts.watch, x, head, route->opts.now(route->opts.user));
    else if (health_is(head->path))
        health_begin(health_of(route, x), x, head, route->opts.now(route->opts.user));
    else if (belfry_bytes_equal(head->path, belfry_bytes_str(ABOUT_PATH)))
        begin_about(route, x, head);
    else
        relay_begin(route->opts.relay, x, head, listen_policy_writes(policy) ? RELAY_ALL : RELAY_READS);
}

static void begin_grpc(struct route *route, struct exchange *x, const struct exchange_head *head)
{
    if (refuse_by_via(route, x, head) || refuse_user(route, x, head))
        return;
    if ((policy_of(x)->dialects & DIALECT_GRPC) == 0)
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 12, "belfry: this listener does not serve gRPC");
    else
        begin_method(route, x, head);
}

void route_begin_method(struct exchange *x, const struct exchange_head *head, void *user)
{
    begin_method(user, x, head);
}

static void answer_text(struct exchange *x, int status, const char *text)
{
    const struct belfry_http_field type = {belfry_bytes_str("content-type"),
                                           belfry_bytes_str("text/plain; charset=utf-8")};
    exchange_answer(x, status, &type, 1, belfry_bytes_str(text));
}

static bool serves_kube(const struct route *route, struct exchange *x)
{
    return route->opts.kube != NULL && (policy_of(x)->dialects & DIALECT_KUBE) != 0;
}

static bool serves_json(const struct route *route, struct exchange *x)
{
    return route->opts.gateway != NULL && (policy_of(x)->dialects & DIALECT_JSON) != 0;
}

static bool serves_sse(const struct route *route, struct exchange *x)
{
    return route->opts.sse != NULL && (policy_of(x)->dialects & DIALECT_SSE) != 0;
}

/* A listener with rights=upstream, and auth was not found on. */
static bool is_unguarded(const struct route *route, struct exchange *x)
{
    return policy_of(x)->rights == LISTEN_RIGHTS_UPSTREAM && route->auth != PERMIT_AUTH_ON;
}

/* /health and /version are there whatever a listener serves: probes come to the port that clients use. */
static void begin_http(struct route *route, struct exchange *x, const struct exchange_head *head)
{
    struct belfry_bytes query, path = exchange_path(head, &query);
    if (hosts_refuse(route->opts.hosts, x, head)) {
        route->stats.refused_hosts++;
        return;
    }
    const char *why = identity_refuses(x, head);
    if (why != NULL) {
        route->stats.refused_users++;
        answer_text(x, 401, why);
        return;
    }
    bool kube = serves_kube(route, x);
    if (belfry_bytes_equal(path, belfry_bytes_str("/health")))
        health_http(health_of(route, x), x, head);
    else if (belfry_bytes_equal(path, belfry_bytes_str("/version")))
        health_version(route->health, x, head, kube ? HEALTH_VERSION_KUBE : HEALTH_VERSION_ETCD);
    else if (serves_json(route, x) && gateway_is(path))
        gateway_begin(route->opts.gateway, x, head);
    else if (serves_sse(route, x) && sse_is(path))
        sse_begin(route->opts.sse, x, head, route->opts.now(route->opts.user));
    else if (kube && belfry_bytes_equal(path, belfry_bytes_str("/readyz")) && is_unguarded(route, x))
        answer_text(x, 503, route->auth == PERMIT_AUTH_OFF ? AUTH_OFF "\n" : AUTH_UNKNOWN "\n");
    else if (kube && kube_is(path))
        kube_begin(route->opts.kube, x, head, route->opts.now(route->opts.user));
    else
        answer_text(x, 404, "404 page not found\n");
}

/* "/package.Service/Method": no path of another dialect has a dot in its first part and just two parts. */
static bool is_method(struct belfry_bytes path)
{
    if (path.len < 2 || path.data[0] != '/')
        return false;
    const char *end = path.data + path.len, *slash = memchr(path.data + 1, '/', path.len - 1);
    return slash != NULL && memchr(path.data + 1, '.', (size_t)(slash - path.data - 1)) != NULL && slash + 1 < end &&
           memchr(slash + 1, '/', (size_t)(end - slash - 1)) == NULL;
}

/* What is asked of a gRPC method is answered as gRPC even when it is not quite that. */
void route_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    struct route *route = user;
    if (cors_refuse(&route->opts.cors, x, head)) {
        route->stats.refused_pages++;
    } else if (!is_method(head->path) && !grpc_is(head)) {
        begin_http(route, x, head);
    } else if (!exchange_conn(x)->http1) {
        begin_grpc(route, x, head);
    } else {
        route->stats.refused_http1++;
        answer_text(x, 505, "gRPC requires HTTP/2\n");
    }
}

/* ---- how the tier stands ---- */

static void route_tell_health(struct route *route)
{
    static const char *const because[] = {
        [PERMIT_AUTH_UNKNOWN] = AUTH_UNKNOWN, [PERMIT_AUTH_OFF] = AUTH_OFF, [PERMIT_AUTH_ON] = ""};
    bool guarded = route->ready && route->auth == PERMIT_AUTH_ON;
    health_stand(route->health, route->ready, route->reason);
    health_stand(route->guarded, guarded, route->ready ? because[route->auth] : route->reason);
}

static void route_be(struct route *route, bool ready, const char *reason)
{
    route->ready = ready;
    snprintf(route->reason, sizeof(route->reason), "%s", reason);
    route_tell_health(route);
}

void route_stand(struct route *route, bool ready, const char *reason, const char *server_version,
                 const char *cluster_version)
{
    BELFRY_OWNER_CHECK(route);
    health_set_versions(route->health, server_version, cluster_version);
    health_set_versions(route->guarded, server_version, cluster_version);
    if (!route->draining)
        route_be(route, ready, reason);
}

void route_set_auth(struct route *route, enum permit_auth auth)
{
    BELFRY_OWNER_CHECK(route);
    if (auth == route->auth)
        return;
    route->auth = auth;
    route_tell_health(route);
}

void route_stats(const struct route *route, struct route_stats *out)
{
    *out = route->stats;
}

void route_end_late(struct route *route, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(route);
    route->stats.late += health_end_late(route->health, now_ms) + health_end_late(route->guarded, now_ms);
}

uint64_t route_due(const struct route *route)
{
    return belfry_min_time(health_due(route->health), health_due(route->guarded));
}

void route_drain(struct route *route)
{
    BELFRY_OWNER_CHECK(route);
    route->draining = true;
    route_be(route, false, "draining");
}
