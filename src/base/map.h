/* src/base/map.h
 *
 * map: a hash map linked through the elements.
 *
 * The element embeds a node, and the caller compares elements, so that one map serves both ids and byte keys.
 * Adding never fails: if the table cannot grow, its chains get longer.
 *
 *     node = belfry_map_first(&map, hash);
 *     while (node != NULL && !is_mine(node)) node = belfry_map_next(node);
 *
 * Thread: owner.
 */
#ifndef BELFRY_BASE_MAP_H
#define BELFRY_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct belfry_map_node {
    struct belfry_map_node *next; /* in the same bucket */
    uint64_t hash;
};

struct belfry_map {
    struct belfry_map_node **buckets; /* owned; NULL until the first add; `one` serves if allocation fails */
    struct belfry_map_node *one;
    size_t n_buckets; /* a power of two */
    size_t count;
    size_t drained; /* buckets below are empty */
};

void belfry_map_init(struct belfry_map *map);

/* Frees the table; the elements belong to the caller. */
void belfry_map_fini(struct belfry_map *map);

/* Adds a node under `hash`. It does not look for an equal element: the caller does that first. */
void belfry_map_add(struct belfry_map *map, uint64_t hash, struct belfry_map_node *node);

/* Removes a node that is in the map. */
void belfry_map_remove(struct belfry_map *map, struct belfry_map_node *node);

/* The first and the following nodes with exactly this hash; NULL after the last. */
struct belfry_map_node *belfry_map_first(const struct belfry_map *map, uint64_t hash);
struct belfry_map_node *belfry_map_next(const struct belfry_map_node *node);

/* Visits every node, in no particular order; `after` is NULL at the start. Do not remove a node before fetching the one
 * after it. To empty a map use belfry_map_drain(). */
struct belfry_map_node *belfry_map_each(const struct belfry_map *map, const struct belfry_map_node *after);

/* Removes and returns any node; NULL if the map is empty. */
struct belfry_map_node *belfry_map_drain(struct belfry_map *map);

#endif
