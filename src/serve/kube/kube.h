/* src/serve/kube/kube.h
 *
 * kube: Kubernetes' list/watch over exchanges: which request it is, and its answer. Discovery and errors are answered
 * here; LIST and GET are kube_list.h's; a WATCH is a stream of lines in the worker's core (core/lines.h), like every other
 * stream: parked when it is slow, never killed, resumed from history, backfilled from upstream.
 *
 *     HELD --ready--> ASKING --granted--> STATE --all of it written--> LIVE --deadline, drain, lost--> ended, by a
 *      | 10 s: 429     (only with auth on)  (only with a state first)                       clean end of the body
 *
 *     GET  /api /apis /apis/G /apis/G/V /openapi/v3...     discovery
 *     GET  /version /healthz /livez /readyz                for who probes a Kubernetes server
 *     GET  .../{plural}[/{name}][?watch=1]                 the rest
 *     anything that writes: 405, with the sentence that objects are written to etcd
 *
 * A watch ends where a client can go on from what it has seen: behind the last line of a revision, if it takes that
 * within a few seconds. If not, it is told to list anew; and one that is inside a line is cut off (RST_STREAM, or the
 * connection), so that nobody takes half a line for a whole one.
 *
 * An object that cannot be decoded counts as absent, on both sides of a change; it is counted, and logged once a minute.
 *
 * With auth on upstream a request is served only when upstream allows its range to the client's own token (`Authorization:
 * Bearer TOKEN`, TOKEN as etcd's Authenticate gives it): 401 without one, 403 when refused. Discovery shows the definitions
 * that the token may see (kube_sight.h).
 *
 * Thread: owner (the worker's).
 * Memory: a watch is one small allocation, its selector, its exchange and the core's stream; idle it has no buffer.
 * Together with the core's they are bounded by opts.memory_max: beyond, one more is answered 429.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_H
#define BELFRY_SERVE_KUBE_KUBE_H

#include "core/lines.h"
#include "core/worker.h"
#include "kube/catalog.h"
#include "serve/kube/kube_list.h"
#include "serve/rights/fence.h"
#include "serve/rights/permit.h"
#include "server/exchange.h"

#define KUBE_HOLD_MS     10000            /* not ready: a request is held for so long */
#define KUBE_BOOKMARK_MS 60000            /* between two bookmarks; jitter is added */
#define KUBE_WATCH_MS    (30 * 60 * 1000) /* a watch without timeoutSeconds lasts so long, up to twice that */
#define KUBE_INSIDE_MS   60000            /* inside one line for so long while memory is over the limit: cut off */

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
    size_t memory_max;         /* of worker_stats.bytes and kube_stats.bytes together; 0: no bound */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err kube_create(const struct kube_service_opts *opts, struct kube_service **out);
void kube_destroy(struct kube_service *service); /* every watch ends cleanly; before its worker; NULL is fine */

void kube_set_worker(struct kube_service *service, struct worker *worker);

/* worker_opts.attribute, with the service for its user (so it is created before its worker). */
bool kube_attribute(void *service, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                    struct belfry_bytes *before, struct belfry_bytes *after);

/* Another set of resources (a reference is taken). Watches of a resource that is there no more end cleanly; one that
 * changed ends its watches, too: clients list anew. A resource is unchanged when it is the same one (both catalogs have
 * a reference to it). NULL: nothing is served.
 * PART: definitions that lie in etcd have not been read yet, so that what is not there may come: it is 429, not 404. */
enum kube_catalog_extent { KUBE_CATALOG_WHOLE, KUBE_CATALOG_PART };
void kube_set_catalog(struct kube_service *service, const struct kube_catalog *catalog,
                      enum kube_catalog_extent extent);

/* Is this a path of ours? */
bool kube_is(struct belfry_bytes path);
void kube_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms);

/* As in watch.h. */
void kube_after_turn(struct kube_service *service, uint64_t now_ms);
uint64_t kube_due(const struct kube_service *service);
void kube_stand(struct kube_service *service, bool ready, const char *reason);
void kube_drain(struct kube_service *service, uint64_t now_ms, uint64_t drain_ms);

/* A drain has begun: /readyz says so, and everything else is served as before. */
void kube_announce_drain(struct kube_service *service);

struct kube_stats {
    size_t watches, held;
    size_t bytes; /* of watches and their selectors */
    uint64_t opened, lines, bookmarks, expired, refused, too_many, undecodable, skipped;
    uint64_t slow;                     /* cut off, inside a line while memory was over the limit */
    uint64_t forms_made, forms_shared; /* events parsed, and given again without */
    size_t forms_bytes;
};
void kube_stats(const struct kube_service *service, struct kube_stats *out);

/* One watch, for /debug/watchers. Lent until the service is next called or told of an event. */
struct kube_watch_view {
    const struct stream *stream; /* NULL: its state is still being written */
    const struct exchange_conn *conn;
    const char *client;            /* user-agent, cut to 63 bytes */
    const char *resource;          /* its plural name */
    struct belfry_bytes namespace; /* "": all */
    struct belfry_bytes selector;  /* as kube_selector_text() writes it; "": everything */
    uint64_t opened_ms, sent_bytes;
};

/* As watch_next() in watch.h. */
bool kube_next(struct kube_service *service, uint64_t after, uint64_t *number, struct kube_watch_view *out);

#endif
