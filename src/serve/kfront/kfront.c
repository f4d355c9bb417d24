/* src/serve/kfront/kfront.c */
#include "serve/kfront/kfront.h"

#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "serve/kube/kube_answer.h"
#include "serve/rights/identity.h"
#include "serve/uplink/via.h"
#include "server/grpc_answer.h"

#define NO_UPGRADE                                                                                                     \
    "belfry: this tier does not pass on exec, attach, port-forward and other upgrades of a connection: "               \
    "connect to the API server (kube-apiserver) for them"
#define NO_CERTIFICATE                                                                                                 \
    "belfry: a client certificate cannot be passed on to the API server: send a token (Authorization: Bearer), or "    \
    "connect to the API server"
#define NO_IMPERSONATION                                                                                               \
    "belfry: impersonation is not possible for what this tier answers by itself: omit resourceVersion, or connect "    \
    "to the API server"
#define READ_ONLY "belfry: this listener is read-only"

struct kfront {
    /* fixed at creation */
    struct kfront_opts opts;
    struct krelay *krelay;
    /* owner */
    struct kfront_followed *followed; /* owned, with a reference to each resource */
    size_t n_followed;
    bool drains;
    struct kfront_stats stats; /* without `relay` */
    BELFRY_OWNER;
};

/* ---- what is followed ---- */

static bool is_same_resource(const struct kube_resource *a, const struct kube_resource *b)
{
    return strcmp(a->plural, b->plural) == 0 && strcmp(a->group, b->group) == 0 && a->n_served > 0 &&
           kube_resource_served(b, belfry_bytes_str(a->versions[0].name)) != NULL;
}

static void kfront_put(struct kfront *kfront, size_t at, const struct kube_resource *resource,
                       struct kube_service *service)
{
    kfront->followed[at] = (struct kfront_followed){.resource = kube_resource_ref(resource), .service = service};
}

enum belfry_err kfront_add(struct kfront *kfront, const struct kube_resource *resource, struct kube_service *service)
{
    BELFRY_OWNER_CHECK(kfront);
    for (size_t i = 0; i < kfront->n_followed; i++) {
        const struct kube_resource *before = kfront->followed[i].resource;
        if (is_same_resource(resource, before)) {
            kfront_put(kfront, i, resource, service);
            kube_resource_unref(before);
            return BELFRY_OK;
        }
    }
    if (kfront->n_followed == KFRONT_FOLLOWED)
        return BELFRY_ERR_LIMIT;
    struct kfront_followed *more =
        realloc(kfront->followed, (kfront->n_followed + 1) * sizeof(*more)); /* a few hundred times in a life */
    if (more == NULL)
        return BELFRY_ERR_NOMEM;
    kfront->followed = more;
    kfront_put(kfront, kfront->n_followed++, resource, service);
    return BELFRY_OK;
}

void kfront_remove(struct kfront *kfront, const struct kube_service *service)
{
    BELFRY_OWNER_CHECK(kfront);
    for (size_t i = 0; i < kfront->n_followed;) {
        if (kfront->followed[i].service != service) {
            i++;
            continue;
        }
        kube_resource_unref(kfront->followed[i].resource);
        kfront->followed[i] = kfront->followed[--kfront->n_followed];
    }
}

/* ---- requests ---- */

static void kfront_refuse(struct exchange *x, uint64_t *count, enum kube_reason reason, const char *why)
{
    (*count)++;
    kube_answer_failure(x, reason, why);
}

static bool is_read(const struct exchange_head *head)
{
    return belfry_bytes_equal(head->method, belfry_bytes_str("GET")) ||
           belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
}

void kfront_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    struct kfront *kfront = user;
    struct kfront_stats *stats = &kfront->stats;
    BELFRY_OWNER_CHECK(kfront);

    /* web pages of other origins, gRPC, and names that are none of ours */
    if (cors_refuse(&kfront->opts.cors, x, head)) {
        stats->refused_pages++;
        return;
    }
    if (grpc_is(head)) {
        stats->refused++;
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 12, "belfry: this tier serves Kubernetes' API, and no gRPC");
        return;
    }
    if (hosts_refuse(kfront->opts.hosts, x, head))
        return;

    /* what its listener does not serve; one without a policy serves everything */
    const struct listen_policy *policy = exchange_conn(x)->policy;
    if (policy != NULL && (policy->dialects & DIALECT_KUBE) == 0) {
        kfront_refuse(x, &stats->refused, KUBE_NOT_FOUND, "belfry: this listener does not serve Kubernetes' API");
        return;
    }
    if (policy != NULL && !is_read(head) && !listen_policy_writes(policy)) {
        kfront_refuse(x, &stats->refused, KUBE_FORBIDDEN, READ_ONLY);
        return;
    }

    /* during a drain whoever probes is to go elsewhere */
    struct belfry_bytes query, path = exchange_path(head, &query);
    if (kfront->drains && belfry_bytes_equal(path, belfry_bytes_str("/readyz"))) {
        kfront_refuse(x, &stats->refused, KUBE_SERVICE_UNAVAILABLE, "belfry: draining");
        return;
    }

    /* it has been here before, or comes from too far */
    struct via via;
    char circle[VIA_WHY_BYTES];
    switch (via_judge(head, kfront->opts.name, &via, circle)) {
    case VIA_FINE:
        break;
    case VIA_CIRCLE:
    case VIA_TOO_MANY:
        kfront_refuse(x, &stats->refused_circles, KUBE_INTERNAL_ERROR, circle);
        return;
    case VIA_UNREADABLE:
        kfront_refuse(x, &stats->refused, KUBE_BAD_REQUEST, circle);
        return;
    }

    /* its peer may not say for whom it asks, or nobody upstream would know */
    const char *why = identity_refuses(x, head);
    if (why != NULL) {
        kfront_refuse(x, &stats->refused, KUBE_UNAUTHORIZED, why);
        return;
    }
    if (exchange_conn(x)->user != NULL && exchange_field(head, "authorization").data == NULL) {
        kfront_refuse(x, &stats->refused_certificates, KUBE_UNAUTHORIZED, NO_CERTIFICATE);
        return;
    }

    struct kfront_judgement judged;
    kfront_judge(head, kfront->followed, kfront->n_followed, &judged);
    switch (judged.way) {
    case KFRONT_ANSWER:
        stats->answered++;
        kube_begin(judged.followed->service, x, head, kfront->opts.now(kfront->opts.user));
        break;
    case KFRONT_PASS:
        krelay_begin(kfront->krelay, x, head, &judged);
        break;
    case KFRONT_UPGRADES:
        kfront_refuse(x, &stats->refused_upgrades, KUBE_BAD_REQUEST, NO_UPGRADE);
        break;
    case KFRONT_IMPERSONATES:
        kfront_refuse(x, &stats->refused_impersonations, KUBE_FORBIDDEN, NO_IMPERSONATION);
        break;
    case KFRONT_NO_MEMORY:
        kfront_refuse(x, &stats->refused, KUBE_TOO_MANY_REQUESTS, "belfry: out of memory, please try again later");
        break;
    }
}

/* ---- the whole ---- */

enum belfry_err kfront_create(const struct kfront_opts *opts, struct kfront **out)
{
    struct kfront *kfront = calloc(1, sizeof(*kfront));
    if (kfront == NULL)
        return BELFRY_ERR_NOMEM;
    struct krelay_opts relay = {
        .uplink = opts->uplink, .fields = opts->fields, .pace_ms = opts->pace_ms, .unread_ms = opts->unread_ms};
    enum belfry_err err = krelay_create(&relay, &kfront->krelay);
    if (err != BELFRY_OK) {
        free(kfront);
        return err;
    }
    kfront->opts = *opts;
    BELFRY_OWNER_INIT(kfront);
    *out = kfront;
    return BELFRY_OK;
}

void kfront_destroy(struct kfront *kfront)
{
    if (kfront == NULL)
        return;
    BELFRY_OWNER_CHECK(kfront);
    krelay_destroy(kfront->krelay);
    for (size_t i = 0; i < kfront->n_followed; i++)
        kube_resource_unref(kfront->followed[i].resource);
    free(kfront->followed);
    free(kfront);
}

void kfront_set_pace(struct kfront *kfront, uint64_t pace_ms)
{
    krelay_set_pace(kfront->krelay, pace_ms);
}

void kfront_set_unread_time(struct kfront *kfront, uint64_t unread_ms)
{
    krelay_set_unread_time(kfront->krelay, unread_ms);
}

void kfront_announce_drain(struct kfront *kfront)
{
    BELFRY_OWNER_CHECK(kfront);
    kfront->drains = true;
}

void kfront_end_all(struct kfront *kfront, const char *why)
{
    BELFRY_OWNER_CHECK(kfront);
    krelay_end_all(kfront->krelay, why);
}

void kfront_stats(const struct kfront *kfront, struct kfront_stats *out)
{
    *out = kfront->stats;
    krelay_stats(kfront->krelay, &out->relay);
}
