/* src/kfollow/resource_audit.c */
#include "kfollow/resource_audit.h"

#include "base/sim.h"
#include "base/xxh64.h"

uint64_t resource_hash(struct belfry_hash_key hash_key, struct belfry_bytes key, int64_t mark)
{
    return belfry_hash_int(belfry_hash(hash_key, key) ^ belfry_hash_int((uint64_t)mark));
}

void resource_audit_item(struct resource_audit *audit, const struct resource_object *item,
                         const struct ingest_found *ours, uint64_t hash)
{
    bool same = ours != NULL && (ours->lease == resource_uid_mark(item->uid) || BELFRY_MUTANT(kube_uid_ignored));
    bool equal = same && ours->mod_rev == item->rv && ours->value == belfry_xxh64(0, item->json);
    if (item->rv <= audit->head && !equal && !BELFRY_MUTANT(kube_audit_unchecked))
        audit->contradicted = item->rv;
    if (same)
        resource_sum_add(&audit->found, hash);
}

bool resource_audit_end(const struct resource_audit *audit, int64_t at, struct resource_sum ours,
                        struct resource_debt *out)
{
    if (audit->contradicted != 0 || (at < audit->head && !BELFRY_MUTANT(kube_behind_ignored)))
        return false;
    *out = (struct resource_debt){.upto = at};
    if (BELFRY_MUTANT(kube_missing_ignored))
        return true;
    out->owed = (struct resource_sum){ours.n - audit->found.n, ours.sum - audit->found.sum};
    return out->owed.n > 0 || out->owed.sum == 0;
}

bool resource_debt_holds(const struct resource_debt *debt, int64_t rv)
{
    return resource_debt_is_paid(debt) || (rv < debt->upto && debt->owed.n > 0);
}
