/* src/base/map.c: chains in a power-of-two table that doubles at one element per bucket. */
#include "base/map.h"

#include <stdlib.h>

#define FIRST_BUCKETS 16

void belfry_map_init(struct belfry_map *map)
{
    *map = (struct belfry_map){0};
}

void belfry_map_fini(struct belfry_map *map)
{
    free(map->buckets);
    belfry_map_init(map);
}

static struct belfry_map_node **bucket(struct belfry_map *map, uint64_t hash)
{
    if (map->buckets == NULL)
        return &map->one;
    return &map->buckets[hash & (map->n_buckets - 1)];
}

static void map_grow(struct belfry_map *map)
{
    size_t n = map->n_buckets == 0 ? FIRST_BUCKETS : map->n_buckets * 2;
    struct belfry_map_node **buckets = calloc(n, sizeof(*buckets));
    if (buckets == NULL)
        return; /* chains get longer until growing succeeds */
    struct belfry_map old = *map;
    map->buckets = buckets;
    map->n_buckets = n;
    map->one = NULL;
    map->drained = 0;
    struct belfry_map_node *node;
    while ((node = belfry_map_drain(&old)) != NULL) {
        struct belfry_map_node **to = bucket(map, node->hash);
        node->next = *to;
        *to = node;
    }
    free(old.buckets);
}

void belfry_map_add(struct belfry_map *map, uint64_t hash, struct belfry_map_node *node)
{
    if (map->count >= map->n_buckets)
        map_grow(map);
    struct belfry_map_node **to = bucket(map, hash);
    node->hash = hash;
    node->next = *to;
    *to = node;
    map->count++;
    map->drained = 0;
}

void belfry_map_remove(struct belfry_map *map, struct belfry_map_node *node)
{
    struct belfry_map_node **at = bucket(map, node->hash);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->next = NULL;
    map->count--;
}

static struct belfry_map_node *same_hash(struct belfry_map_node *node, uint64_t hash)
{
    while (node != NULL && node->hash != hash)
        node = node->next;
    return node;
}

struct belfry_map_node *belfry_map_first(const struct belfry_map *map, uint64_t hash)
{
    struct belfry_map_node *chain = map->buckets == NULL ? map->one : map->buckets[hash & (map->n_buckets - 1)];
    return same_hash(chain, hash);
}

struct belfry_map_node *belfry_map_next(const struct belfry_map_node *node)
{
    return same_hash(node->next, node->hash);
}

struct belfry_map_node *belfry_map_each(const struct belfry_map *map, const struct belfry_map_node *after)
{
    if (after != NULL && after->next != NULL)
        return after->next;
    if (map->buckets == NULL)
        return after == NULL ? map->one : NULL;
    size_t i = after == NULL ? 0 : (after->hash & (map->n_buckets - 1)) + 1;
    while (i < map->n_buckets && map->buckets[i] == NULL)
        i++;
    return i < map->n_buckets ? map->buckets[i] : NULL;
}

struct belfry_map_node *belfry_map_drain(struct belfry_map *map)
{
    if (map->count == 0)
        return NULL;
    if (map->buckets == NULL) {
        struct belfry_map_node *node = map->one;
        map->one = node->next;
        map->count--;
        return node;
    }
    while (map->buckets[map->drained] == NULL) /* kept between calls, so that emptying takes linear time */
        map->drained++;
    struct belfry_map_node **at = &map->buckets[map->drained];
    struct belfry_map_node *node = *at;
    *at = node->next;
    map->count--;
    return node;
}
