/* src/core/interest_private.h
 *
 * interest_private: what the files of the index share: the ranges (interest.c) and what is pinned below them (pins.c).
 *
 * Thread: owner.
 */
#ifndef BELFRY_CORE_INTEREST_PRIVATE_H
#define BELFRY_CORE_INTEREST_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/treap.h"
#include "core/interest.h"
#include "core/keyhash.h"
#include "core/table.h"

#define NODE_PINNED  3                       /* a kind of node, beside those of enum range_kind */
#define NODE_KEY_MAX (((size_t)1 << 29) - 1) /* what a node's key_len can say; no request comes near it */

struct riders;
struct span;
struct prefix_length;

/* Behind it, in the same block, lie the bytes of the key, and of a span's end; of a pinned one, of the value. A million
 * nodes with keys of 32 bytes are the aim: 40 + 32 bytes, 80 as malloc cuts them, and 8 for a bucket of the table. */
struct interest_node {
    struct table_link link;         /* of a key, a prefix or a pinned one; a span has its hash there */
    struct belfry_treap_node *live; /* root of POPULATION_LIVE */
    struct riders *riders;          /* owned; one for each bus that is ridden from here */
    uint32_t n_watchers;            /* and pinned nodes below it */
    uint32_t kind : 2;              /* enum range_kind, or NODE_PINNED */
    uint32_t has_pins : 1;          /* something is pinned below it */
    uint32_t key_len : 29;
};

struct interest {
    struct keyhash_secret secret;
    struct table table;
    struct span *spans;
    struct belfry_list ridden[POPULATIONS]; /* riders, by bus, in the order in which the nodes got their first */
    struct prefix_length *lengths;          /* owned; ascending */
    size_t n_lengths, cap_lengths;
    struct interest_node **found; /* owned; of the last find */
    size_t n_found, cap_found;
    size_t n_nodes;
    size_t node_bytes; /* nodes, their riders', families */

    struct table pinned;     /* nodes with a pin, by family and value */
    struct table pin_ranges; /* ranges below which something is pinned */
    uint64_t families;       /* made so far */
};

/* ---- interest.c ---- */

/* As the allocator of most systems cuts it, so that accounts and what the process is seen to use agree. */
static inline size_t interest_block_bytes(size_t bytes)
{
    return bytes + 8 <= 32 ? 32 : (bytes + 8 + 15) / 16 * 16;
}

/* The hash of `key`; `kind`, below 8, makes different ones of the same bytes. */
uint64_t interest_hash(const struct interest *interest, unsigned kind, struct belfry_bytes key);

/* Puts a node among the found, unless nobody of the population is at it. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err interest_found(struct interest *interest, struct interest_node *node,
                                                unsigned population);

/* ---- pins.c ---- */

/* The node of (base, pin) with one more watcher. *made: it is new, and counts among the watchers of `base`.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err pins_add(struct interest *interest, struct interest_node *base,
                                          const struct interest_pin *pin, struct interest_node **out, bool *made);
void pins_remove(struct interest *interest, struct interest_node *node); /* its last watcher is gone; the base stays */
struct interest_node *pins_base(const struct interest_node *node);

/* So many more, or less, of the node's watchers are in the population. */
void pins_count(struct interest_node *node, unsigned population, int more);

/* Puts those below `base` that want the event among the found. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err pins_find(struct interest *interest, const struct interest_node *base,
                                           unsigned population, const struct interest_asker *asker);

#endif
