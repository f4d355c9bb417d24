/* src/serve/kube/kube_sight.h
 *
 * kube_sight: which definitions of a catalog may a client see? Those whose guard (kube/resource.h) upstream lets it
 * read with its own token. The guard is the prefix in etcd under which a definition lies, or, for a definition from a
 * file, the prefix of its objects.
 *
 * Each guard is one question of permit.h, which keeps answers for a period; at most KUBE_SIGHT_ASKS are under way. The
 * catalogs that sets of guards result in are kept: the KUBE_SIGHT_KEPT newest.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside kube_sight_ask().
 * Memory: an asker's is kube_sight_bytes(); a kept catalog's is at most that of the whole one.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_SIGHT_H
#define BELFRY_SERVE_KUBE_KUBE_SIGHT_H

#include "kube/catalog.h"
#include "serve/rights/permit.h"

#define KUBE_SIGHT_ASKS 8
#define KUBE_SIGHT_KEPT 8

struct kube_sight;
struct kube_sight_asker;

enum kube_sight_verdict {
    KUBE_SIGHT_SEES,        /* the catalog `seen`, which may be the whole one */
    KUBE_SIGHT_NO_TOKEN,    /* it has no token, or one that upstream does not know */
    KUBE_SIGHT_NOTHING,     /* it may see none of the definitions */
    KUBE_SIGHT_UNAVAILABLE, /* upstream cannot be asked; `why` says more */
    KUBE_SIGHT_BUSY         /* too many questions, or no memory */
};

/* `seen` (SEES only) and `why` are lent. The asker is gone when it returns. */
typedef void (*kube_sight_fn)(enum kube_sight_verdict verdict, const struct kube_catalog *seen, const char *why,
                              void *user);

/* `permit` outlives it. */
BELFRY_NODISCARD enum belfry_err kube_sight_create(struct permit *permit, struct kube_sight **out);
void kube_sight_destroy(struct kube_sight *sight); /* after its askers; NULL is fine */

/* Drops the kept catalogs: another one is served. */
void kube_sight_forget(struct kube_sight *sight);

/* Asks, when permit_is_open() is false. `who` is copied, and a reference to the catalog is
 * taken. For a catalog without definitions one question is still asked: whether the token is valid. Errors:
 * BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT. */
BELFRY_NODISCARD enum belfry_err kube_sight_ask(struct kube_sight *sight, const struct kube_catalog *catalog,
                                                const struct identity *who, uint64_t now_ms, kube_sight_fn fn,
                                                void *user, struct kube_sight_asker **out);
void kube_sight_cancel(struct kube_sight_asker *asker); /* no answer will come */

size_t kube_sight_bytes(const struct kube_catalog *catalog, const struct identity *who);

#endif
