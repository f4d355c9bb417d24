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

/* ---- refusals ---- */

static void refuse(struct exchange *x, uint64_t *count, enum kube_reason reason, const char *why)
{
    (*count)++;
    kube_answer_failure(x, reason, why);
}

/* True: it has been here before, or comes from too far. */
static bool refuse_by_via(struct kfront *kfront, struct exchange *x, const struct exchange_head *head)
{
    struct via via;
    char why[VIA_WHY_BYTES];
    switch (via_judge(head, kfront->opts.name, &via, why)) {
    case VIA_FINE:
        return false;
    case VIA_CIRCLE:
    case VIA_TOO_MANY:
        refuse(x, &kfront->stats.refused_circles, KUBE_INTERNAL_ERROR, why);
        break;
    case VIA_UNREADABLE:
        refuse(x, &kfront->stats.refused, KUBE_BAD_REQUEST, why);
        break;
    }
    return true;
}

/* True: nobody upstream would know for whom it asks, or its peer may not say so. */
static bool refuse_user(struct kfront *kfront, struct exchange *x, const struct exchange_head *head)
{
    const char *why = identity_refuses(x, head);
    if (why != NULL) {
        refuse(x, &kfront->stats.refused, KUBE_UNAUTHORIZED, why);
        return true;
    }
    if (exchange_conn(x)->user == NULL || exchange_field(head, "authorization").data != NULL)
        return false;
    refuse(x, &kfront->stats.refused_certificates, KUBE_UNAUTHORIZED, NO_CERTIFICATE);
    return true;
}

static bool reads(const struct exchange_head *head)
{
    return belfry_bytes_equal(head->method, belfry_bytes_str("GET")) ||
           belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
}

/* True: its listener does not serve it. A connection whose listener has no policy serves everything. */
static bool refuse_by_listener(struct kfront *kfront, struct exchange *x, const struct exchange_head *head)
{
    const struct listen_policy *policy = exchange_conn(x)->policy;
    if (policy == NULL)
        return false;
    if ((policy->dialects & DIALECT_KUBE) == 0) {
        refuse(x, &kfront->stats.refused, KUBE_NOT_FOUND, "belfry: this listener does not serve Kubernetes' API");
        return true;
    }
    if (reads(head) || listen_policy_writes(policy))
        return false;
    refuse(x, &kfront->stats.refused, KUBE_FORBIDDEN, READ_ONLY);
    return true;
}

/* True: whoever asks is to go elsewhere. */
static bool refuse_probe(struct kfront *kfront, struct exchange *x, const struct exchange_head *head)
{
    struct belfry_bytes query, path = exchange_path(head, &query);
    if (!kfront->drains || !belfry_bytes_equal(path, belfry_bytes_str("/readyz")))
        return false;
    refuse(x, &kfront->stats.refused, KUBE_SERVICE_UNAVAILABLE, "belfry: draining");
    return true;
}

static bool refuse_page(struct kfront *kfront, struct exchange *x, const struct exchange_head *head)
{
    if (!cors_refuse(&kfront->opts.cors, x, head))
        return false;
    kfront->stats.refused_pages++;
    return true;
}

static bool refuse_grpc(struct kfront *kfront, struct exchange *x, const struct exchange_head *head)
{
    if (!grpc_is(head))
        return false;
    kfront->stats.refused++;
    grpc_fail(x, GRPC_HEADERS_NOT_SENT, 12, "belfry: this tier serves Kubernetes' API, and no gRPC");
    return true;
}

/* ---- requests ---- */

static void kfront_dispatch(struct kfront *kfront, struct exchange *x, const struct exchange_head *head)
{
    struct kfront_judgement judged;
    kfront_judge(head, kfront->followed, kfront->n_followed, &judged);
    switch (judged.way) {
    case KFRONT_ANSWER:
        kfront->stats.answered++;
        kube_begin(judged.followed->service, x, head, kfront->opts.now(kfront->opts.user));
        break;
    case KFRONT_PASS:
        krelay_begin(kfront->krelay, x, head, &judged);
        break;
    case KFRONT_UPGRADES:
        refuse(x, &kfront->stats.refused_upgrades, KUBE_BAD_REQUEST, NO_UPGRADE);
        break;
    case KFRONT_IMPERSONATES:
        refuse(x, &kfront->stats.refused_impersonations, KUBE_FORBIDDEN, NO_IMPERSONATION);
        break;
    case KFRONT_NO_MEMORY:
        refuse(x, &kfront->stats.refused, KUBE_TOO_MANY_REQUESTS, "belfry: out of memory, please try again later");
        break;
    }
}

void kfront_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    struct kfront *kfront = user;
    BELFRY_OWNER_CHECK(kfront);
    if (refuse_page(kfront, x, head) || refuse_grpc(kfront, x, head) || hosts_refuse(kfront->opts.hosts, x, head) ||
        refuse_by_listener(kfront, x, head) || refuse_probe(kfront, x, head) || refuse_by_via(kfront, x, head) ||
        refuse_user(kfront, x, head))
        return;
    kfront_dispatch(kfront, x, head);
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
