/* src/base/map.h
 *
 * map: a hash map linked through the elements.
 *
 * The element embeds a node and the caller says what equality means, so that one map serves ids and byte keys alike.
 * Adding never fails: when the table cannot grow, chains get longer and the map goes on.
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
    struct belfry_map_node **buckets; /* owned; NULL until the first add, and then `one` serves if nothing can be had */
    struct belfry_map_node *one;
    size_t n_buckets; /* a power of two */
    size_t count;
    size_t drained; /* buckets below are empty */
};

void belfry_map_init(struct belfry_map *map);

/* Frees the table; the elements are the caller's. */
void belfry_map_fini(struct belfry_map *map);

/* Adds a node under `hash`. Equal elements are not looked for: find first. */
void belfry_map_add(struct belfry_map *map, uint64_t hash, struct belfry_map_node *node);

/* Takes out a node that is in the map. */
void belfry_map_remove(struct belfry_map *map, struct belfry_map_node *node);

/* The first and following nodes with exactly this hash; NULL when there are no more. */
struct belfry_map_node *belfry_map_first(const struct belfry_map *map, uint64_t hash);
struct belfry_map_node *belfry_map_next(const struct belfry_map_node *node);

/* Visits every node in no particular order; `after` is NULL at the start. The node returned may be removed before the
 * next call only if that call is made with the node fetched beforehand: use belfry_map_drain() to empty a map. */
struct belfry_map_node *belfry_map_each(const struct belfry_map *map, const struct belfry_map_node *after);

/* Takes out any node; NULL when the map is empty. */
struct belfry_map_node *belfry_map_drain(struct belfry_map *map);

#endif
