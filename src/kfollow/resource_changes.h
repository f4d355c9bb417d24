/* src/kfollow/resource_changes.h
 *
 * resource_changes: the last changes of a resource that we hold, in order and without a gap, by their versions and
 * hashes: a watch that begins before them must show the same ones first (resource_follow.h).
 *
 * After a listing it is the newest object alone: deletions may have come later, and changes of objects that are gone.
 * The next change takes its place.
 *
 * Thread: owner. Pure, given a store.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_CHANGES_H
#define BELFRY_KFOLLOW_RESOURCE_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "core/store.h"
#include "follow/ingest.h"

#define RESOURCE_OVERLAP 8 /* changes that are held, at most */

struct resource_held {
    int64_t rv;
    uint64_t hash; /* of its type, key and uid and, but for a deletion, its bytes */
};

struct resource_changes {
    struct resource_held held[RESOURCE_OVERLAP];
    unsigned n;
    int64_t before_rv; /* of the change before them; 0: it is not known, and has a smaller version */
    bool is_listed;    /* it is the newest object of a listing */
    bool is_tied;      /* is_listed: another object of the listing has the same version */
};

/* A change as a KeyValue of resource_kv.h. */
struct resource_held resource_held_of(struct belfry_hash_key hash_key, const struct belfry_wire_kv *kv, bool is_delete);

void resource_changes_push(struct resource_changes *changes, struct resource_held change);

/* The first of them, or the last one, at which an overlap can begin: it is alone in its version, because a server may
 * have lost a part of another. resource_changes.n: there is none. */
unsigned resource_changes_begin(const struct resource_changes *changes, bool is_short);

/* An object of a listing, or of a state without history. */
void resource_changes_list(struct resource_changes *changes, struct resource_held object);

/* Reads the last changes that the store's history still has, if any. It calls functions of the store's reader.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err resource_changes_read(struct resource_changes *changes, const struct ingest *ingest,
                                                       struct store *store, struct belfry_hash_key hash_key);

#endif
