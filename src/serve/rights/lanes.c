/* src/serve/rights/lanes.c */
#include "serve/rights/lanes.h"

#include <assert.h>

static void lane_init(struct lane *lane)
{
    *lane = (struct lane){0};
    belfry_list_init(&lane->node);
    belfry_list_init(&lane->waiting);
}

void lanes_init(struct lanes *lanes, size_t part)
{
    lanes->part = part;
    belfry_list_init(&lanes->turns);
    lane_init(&lanes->known);
    for (size_t i = 0; i < LANES; i++) {
        lane_init(&lanes->all[i]);
        lanes->client_held[i] = 0;
    }
}

static uint64_t hash_of(struct belfry_hash_key key, uint64_t number)
{
    return belfry_hash(key, belfry_bytes_of(&number, sizeof(number)));
}

static bool lane_is_used(const struct lane *lane)
{
    return lane->held > 0 || !belfry_list_empty(&lane->waiting);
}

struct lane *lanes_of(struct lanes *lanes, struct belfry_hash_key key, struct lanes_source source)
{
    uint64_t client = hash_of(key, source.client), first = hash_of(key, source.connection);
    struct lane *shared = NULL;
    for (uint64_t i = 0; i < LANES_PROBED; i++) {
        struct lane *lane = &lanes->all[hash_of(key, client + (first + i) % LANES_OF_CLIENT) % LANES];
        if (!lane_is_used(lane)) {
            lane->source = source;
            lane->client_held = &lanes->client_held[client % LANES];
            return lane;
        }
        if (lane->source.client == source.client && lane->source.connection == source.connection)
            return lane;
        if (shared == NULL || (shared->source.client != source.client && lane->source.client == source.client))
            shared = lane;
    }
    return shared;
}

void lane_hold(struct lane *lane)
{
    lane->held++;
    if (lane->client_held != NULL)
        ++*lane->client_held;
}

void lane_release(struct lane *lane)
{
    assert(lane->held > 0);
    lane->held--;
    if (lane->client_held != NULL)
        --*lane->client_held;
}

static bool lane_may_hold(const struct lane *lane, size_t part, size_t free)
{
    return lane->held * part < free && (lane->client_held == NULL || *lane->client_held < free);
}

void lanes_wait(struct lanes *lanes, struct lane *lane, struct belfry_list *node)
{
    belfry_list_append(&lane->waiting, node);
    if (belfry_list_empty(&lane->node))
        belfry_list_append(&lanes->turns, &lane->node);
}

struct lane *lanes_next(const struct lanes *lanes, size_t free)
{
    belfry_list_each (node, &lanes->turns) {
        struct lane *lane = belfry_container(node, struct lane, node);
        if (!belfry_list_empty(&lane->waiting) && lane_may_hold(lane, lanes->part, free))
            return lane;
    }
    return NULL;
}

struct belfry_list *lanes_take(struct lanes *lanes, struct lane *lane)
{
    struct belfry_list *first = belfry_list_pop(&lane->waiting);
    belfry_list_remove(&lane->node);
    if (!belfry_list_empty(&lane->waiting))
        belfry_list_append(&lanes->turns, &lane->node);
    return first;
}
