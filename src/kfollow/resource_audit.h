/* src/kfollow/resource_audit.h
 *
 * resource_audit: is the past of a server's cache still ours? A list at version L, whose items are compared with our
 * state at our head H, in any order and without holding any of them:
 *
 *     item's version <= H     it must be ours: the same version, uid and bytes; otherwise the past is another one
 *     item's version > H      new, or changed since: the watch from H shows it
 *     ours, not in the list   deleted since: the watch from H must show that, up to L
 *     L < H                   the past is another one
 *
 * What the watch still has to show is a debt: the number of our objects that the list does not have, and the sum of
 * their hashes. A deletion pays for one object. The debt must be paid exactly before the watch has passed L.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_AUDIT_H
#define BELFRY_KFOLLOW_RESOURCE_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "follow/ingest.h"
#include "kfollow/resource_kv.h"

/* A set of objects: how many, and the sum of their hashes. */
struct resource_sum {
    uint64_t n, sum;
};

/* The hash of an object: of its key and the mark of its uid. */
uint64_t resource_hash(struct belfry_hash_key hash_key, struct belfry_bytes key, int64_t mark);

static inline void resource_sum_add(struct resource_sum *sum, uint64_t hash)
{
    sum->n++;
    sum->sum += hash;
}

static inline void resource_sum_remove(struct resource_sum *sum, uint64_t hash)
{
    sum->n--;
    sum->sum -= hash;
}

struct resource_audit {
    int64_t head;              /* H */
    struct resource_sum found; /* those of our objects that are in the list */
    int64_t contradicted;      /* the version of an item that cannot be of our past; 0: none yet */
};

static inline void resource_audit_begin(struct resource_audit *audit, int64_t head)
{
    *audit = (struct resource_audit){.head = head};
}

/* An item of the list, and ours of the same key (NULL: none). `hash`: resource_hash() of ours. */
void resource_audit_item(struct resource_audit *audit, const struct resource_object *item,
                         const struct ingest_found *ours, uint64_t hash);

/* What the watch has to show. All zero: nothing. */
struct resource_debt {
    struct resource_sum owed;
    int64_t upto; /* L */
};

/* The list has ended at version `at`, and our state has `ours`. False: the past is another one. */
bool resource_audit_end(const struct resource_audit *audit, int64_t at, struct resource_sum ours,
                        struct resource_debt *out);

static inline bool resource_debt_is_paid(const struct resource_debt *debt)
{
    return debt->owed.n == 0 && debt->owed.sum == 0;
}

/* The watch shows that an object of ours, of this hash, was deleted. */
static inline void resource_debt_pay(struct resource_debt *debt, uint64_t hash)
{
    resource_sum_remove(&debt->owed, hash);
}

/* The watch has shown everything up to `rv`. False: the debt was due and is not paid, so the past is another one. */
bool resource_debt_holds(const struct resource_debt *debt, int64_t rv);

#endif
