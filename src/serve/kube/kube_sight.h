/* src/serve/kube/kube_sight.h
 *
 * kube_sight: which definitions of a catalog may a client see? Those whose guard (kube/resource.h) upstream lets it read with
 * its own token: the prefix in etcd under which a definition lies, or, for a definition of a file, the prefix of its objects.
 *
 * Each guard is one question of permit.h, KUBE_SIGHT_ASKS of them under way at a time. No answer is kept, but the catalog
 * that a set of guards makes is: up to KUBE_SIGHT_KEPT of them, the oldest goes.
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
    KUBE_SIGHT_SEES,        /* what is in the catalog given, which may be the whole one */
    KUBE_SIGHT_NO_TOKEN,    /* it brings none, or one that upstream does not know */
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

/* Drops what is kept: another catalog is served. */
void kube_sight_forget(struct kube_sight *sight);

/* Asks, for a client to whom permit_is_open() does not apply. `who` is copied, `pin` lent until the answer, of the catalog a
 * reference is taken. Without any definition in it, one question is asked all the same: whether there is a token. Errors:
 * BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT. */
BELFRY_NODISCARD enum belfry_err kube_sight_ask(struct kube_sight *sight, const struct kube_catalog *catalog,
                                                const struct permit_who *who, unsigned *pin, uint64_t now_ms,
                                                kube_sight_fn fn, void *user, struct kube_sight_asker **out);
void kube_sight_cancel(struct kube_sight_asker *asker); /* no answer will come */

size_t kube_sight_bytes(const struct kube_catalog *catalog, const struct permit_who *who);

#endif
