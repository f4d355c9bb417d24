/* src/serve/kube.h
 *
 * kube: Kubernetes' list/watch over exchanges: which request it is, and its answer. Discovery and errors are answered
 * here; LIST and GET are kube_list.h's; a WATCH is a stream of lines in the worker's core (core/lines.h), like every other
 * stream: parked when it is slow, never killed, resumed from history, backfilled from upstream.
 *
 *     HELD --ready--> STATE --all of it written--> LIVE --deadline, drain, lost--> ended, by a clean end of body
 *      | 10 s: 429      (only with a state first)
 *
 *     GET  /api /apis /apis/G /apis/G/V /openapi/v3...     discovery
 *     GET  /version /healthz /livez /readyz                for who probes a Kubernetes server
 *     GET  .../{plural}[/{name}][?watch=1]                 the rest
 *     anything that writes: 405, with the sentence that objects are written to etcd
 *
 * An object that cannot be decoded counts as absent, on both sides of a change; it is counted, and logged once a minute.
 *
 * With auth on upstream a request is served only when upstream allows its range to the client's own token (`Authorization:
 * Bearer TOKEN`, TOKEN as etcd's Authenticate gives it): 401 without one, 403 when refused.
 *
 * Thread: owner (the worker's).
 * Memory: a watch is one small allocation, its exchange and the core's stream; idle it has no buffer.
 */
#ifndef BELFRY_SERVE_KUBE_H
#define BELFRY_SERVE_KUBE_H

#include "core/lines.h"
#include "core/worker.h"
#include "kube/catalog.h"
#include "net/exchange.h"
#include "serve/fence.h"
#include "serve/kube_list.h"
#include "serve/permit.h"

#define KUBE_HOLD_MS     10000            /* not ready: a request is held for so long */
#define KUBE_BOOKMARK_MS 60000            /* between two bookmarks; jitter is added */
#define KUBE_WATCH_MS    (30 * 60 * 1000) /* a watch without timeoutSeconds lasts so long, up to twice that */

struct kube_service;

struct kube_service_opts {
    struct permit *permit;
    struct fence *fence;
    struct kube_lists *lists;
    uint64_t (*now)(void *user);
    void (*work)(void *user); /* the core has something to do */
    void *user;
    uint64_t seed;
    struct belfry_bytes scope; /* as in watch.h */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err kube_create(const struct kube_service_opts *opts, struct kube_service **out);
void kube_destroy(struct kube_service *service); /* every watch ends cleanly; before its worker; NULL is fine */

void kube_set_worker(struct kube_service *service, struct worker *worker);

/* worker_opts.write for a stream of lines that kube opened; worker_opts.attribute. */
void kube_write(void *stream_user, const uint8_t *data, size_t len);
bool kube_attribute(void *service, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                    struct belfry_bytes *before, struct belfry_bytes *after);

/* Another set of resources (a reference is taken). Watches of a resource that is there no more end cleanly; one that
 * changed ends its watches, too: clients list anew. */
void kube_set_catalog(struct kube_service *service, const struct kube_catalog *catalog);

/* Is this a path of ours? */
bool kube_is(struct belfry_bytes path);
void kube_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms);

/* As in watch.h. */
void kube_after_turn(struct kube_service *service, uint64_t now_ms);
uint64_t kube_due(const struct kube_service *service);
void kube_stand(struct kube_service *service, bool ready, const char *reason);
void kube_drain(struct kube_service *service, uint64_t now_ms, uint64_t drain_ms);

struct kube_stats {
    size_t watches, held;
    uint64_t opened, lines, bookmarks, expired, refused, too_many, undecodable, skipped;
    uint64_t forms_made, forms_shared; /* events parsed, and given again without */
    size_t forms_bytes;
};
void kube_stats(const struct kube_service *service, struct kube_stats *out);

#endif
