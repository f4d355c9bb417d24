/* src/serve/kube/kube.h
 *
 * kube: Kubernetes' list/watch over exchanges.
 *
 *     GET  .../{plural}[/{name}][?watch=1]                 a resource: a call until it is granted, then kube_list.h
 *                                                          (LIST, GET) or kube_watch.h (WATCH)
 *     GET  /api /apis /apis/G /apis/G/V /openapi/v3...     the documents that clients read first
 *     GET  /version /healthz /livez /readyz                for programs that probe a Kubernetes server
 *     anything that writes: 405, with the sentence that objects are written to etcd
 *
 *     HELD --ready--> ASKING --granted--> STATE --all of it written--> LIVE --deadline, drain, lost--> ended, by a
 *      | 10 s: 429     (only with auth on)  (only with a state first)                       clean end of the body
 *
 * With auth on upstream a request is served only when upstream allows its range to the client's own token
 * (`Authorization: Bearer TOKEN`, TOKEN as etcd's Authenticate returns it): 401 without one, 403 when refused.
 * A document shows a client the definitions that its token may see (kube_sight.h): while upstream is asked about them,
 * the request waits, as a visit.
 *
 * Thread: owner (the worker's).
 * Memory: bounded by its room (kube_room.h) and by forms_bytes. A request that waits counts as SHARES_REQUESTS
 *         (shares.h); one for which there is no room is answered 429.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_H
#define BELFRY_SERVE_KUBE_KUBE_H

#include "core/lines.h"
#include "core/worker.h"
#include "kube/catalog.h"
#include "serve/kube/kube_list.h"
#include "serve/kube/kube_state.h"
#include "serve/kube/kube_watch.h"
#include "serve/rights/fence.h"
#include "serve/rights/permit.h"
#include "server/exchange.h"

#define KUBE_HOLD_MS 10000 /* not ready: a request is held for so long */

struct kube_service;

struct kube_service_opts {
    struct permit *permit;
    enum kube_rights rights; /* what permit is asked about */
    struct fence *fence;
    struct kube_lists *lists;
    uint64_t (*now)(void *user);
    void (*work)(void *user); /* the core has something to do */
    void *user;
    uint64_t seed;
    struct belfry_bytes scope; /* as in watch.h */
    struct kube_room *room;    /* shared with other services; NULL: one of its own, for its own core */
    size_t memory_max;         /* of a room of its own: worker_stats.bytes and kube_stats.bytes; 0: no bound */
    size_t forms_bytes;        /* of events that are held decoded (kube_forms.h); 0: KUBE_FORMS_BYTES */
    uint64_t unread_ms;        /* as in kube_watch.h */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err kube_create(const struct kube_service_opts *opts, struct kube_service **out);
void kube_destroy(struct kube_service *service); /* every watch ends cleanly; before its worker; NULL is fine */

void kube_set_unread_time(struct kube_service *service, uint64_t unread_ms); /* as in kube_watch.h */
void kube_set_worker(struct kube_service *service, struct worker *worker);

/* worker_opts.attribute, with the service for its user (so it is created before its worker). */
bool kube_attribute(void *service, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                    struct belfry_bytes *before, struct belfry_bytes *after);

/* Another set of resources (a reference is taken). Watches of a resource that is gone or has changed end cleanly, and
 * their clients list again. A resource is unchanged when both catalogs have a reference to it. NULL: nothing is
 * served. */
void kube_set_catalog(struct kube_service *service, const struct kube_catalog *catalog,
                      enum kube_catalog_extent extent);

/* Is this a path of Kubernetes' API? */
bool kube_is(struct belfry_bytes path);
void kube_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms);

/* As in watch.h. */
void kube_after_turn(struct kube_service *service, uint64_t now_ms);
uint64_t kube_due(const struct kube_service *service);
bool kube_is_going_round(const struct kube_service *service); /* as watch_is_going_round() */
void kube_stand(struct kube_service *service, bool ready, const char *reason);
void kube_drain(struct kube_service *service, uint64_t now_ms, uint64_t drain_ms);

/* A drain has begun: /readyz fails, and everything else is served as before. */
void kube_announce_drain(struct kube_service *service);

struct kube_stats {
    size_t watches, held;
    size_t bytes; /* of watches and their selectors */
    uint64_t opened, lines, bookmarks, expired, refused, too_many, undecodable, skipped;
    uint64_t slow;                     /* cut off inside a line while memory was over the limit */
    uint64_t expelled;                 /* for lack of rights */
    uint64_t forms_made, forms_shared; /* events parsed, and used again */
    size_t forms_bytes;
};
void kube_stats(const struct kube_service *service, struct kube_stats *out);

/* As watch_next() in watch.h. */
bool kube_next(struct kube_service *service, uint64_t after, uint64_t *number, struct kube_watch_view *out);

#endif
