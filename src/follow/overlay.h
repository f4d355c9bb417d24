/* src/follow/overlay.h
 *
 * overlay: what revisions that the store has not taken left of the keys they touched. While the disk takes nothing,
 * ingest asks it before the store, so that the next revision can be checked and its previous values are known.
 *
 * Thread: owner (ingest's).
 * Memory: one node per key. The bytes are the batches': each batch that was added must live until overlay_clear().
 */
#ifndef BELFRY_FOLLOW_OVERLAY_H
#define BELFRY_FOLLOW_OVERLAY_H

#include <stdbool.h>

#include "base/treap.h"
#include "core/batch.h"

struct overlay {
    struct belfry_treap_node *root; /* by key; zeroes: empty */
    size_t bytes;                   /* of the nodes */
};

/* Adds a batch that is newer than all that were added. On BELFRY_ERR_NOMEM some of its events may be there: add it
 * again. */
BELFRY_NODISCARD enum belfry_err overlay_add(struct overlay *overlay, const struct batch *batch);

/* True: some batch touched the key; *kv is the KeyValue it left, empty if it deleted the key. Lent until
 * overlay_clear(). */
bool overlay_find(const struct overlay *overlay, struct belfry_bytes key, struct belfry_bytes *kv);

void overlay_clear(struct overlay *overlay);

#endif
