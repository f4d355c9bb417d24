/* src/follow/digest.h
 *
 * digest: what a revision holds, in a few bytes, to compare an overlap with. Types, keys and KeyValues count, in their
 * order; how they were encoded does not. Two pasts that differ at a revision agree here once in 2^64.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_FOLLOW_DIGEST_H
#define BELFRY_FOLLOW_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "wire/scan.h"

struct digest {
    uint64_t n_events, hash;
};

static inline void digest_add(struct digest *digest, const struct belfry_wire_event *event)
{
    static const struct belfry_hash_key key = {0x62656c66727964, 0x6469676573740a}; /* nothing secret: fixed */
    const uint64_t words[] = {
        digest->hash,
        event->is_delete,
        belfry_hash(key, event->kv.key),
        event->is_delete ? 0 : belfry_hash(key, event->kv.value),
        (uint64_t)event->kv.create_rev,
        (uint64_t)event->kv.mod_rev,
        (uint64_t)event->kv.version,
        (uint64_t)event->kv.lease,
    };
    digest->n_events++;
    digest->hash = belfry_hash(key, belfry_bytes_of(words, sizeof(words)));
}

static inline struct digest digest_of(const struct belfry_wire_event *events, size_t n)
{
    struct digest digest = {0};
    for (size_t i = 0; i < n; i++)
        digest_add(&digest, &events[i]);
    return digest;
}

static inline bool digest_equal(struct digest a, struct digest b)
{
    return a.n_events == b.n_events && a.hash == b.hash;
}

#endif
