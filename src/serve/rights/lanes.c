/* src/serve/rights/lanes.c */
#include "serve/rights/lanes.h"

#include <assert.h>

static void lane_init(struct lane *lane, struct lanes_client *client)
{
    *lane = (struct lane){.client = client};
    belfry_list_init(&lane->node);
    belfry_list_init(&lane->waiting);
    *client = (struct lanes_client){0};
    belfry_list_init(&client->node);
    belfry_list_init(&client->turns);
}

void lanes_init(struct lanes *lanes, size_t part)
{
    lanes->part = part;
    belfry_list_init(&lanes->turns);
    lane_init(&lanes->known, &lanes->of_known);
    for (size_t i = 0; i < LANES; i++)
        lane_init(&lanes->all[i], &lanes->clients[i]);
}

static uint64_t hash_of(struct belfry_hash_key key, uint64_t number)
{
    return belfry_hash(key, belfry_bytes_of(&number, sizeof(number)));
}

static bool lane_is_used(const struct lane *lane)
{
    return lane->held > 0 || !belfry_list_empty(&lane->waiting);
}

/* Nobody uses it. */
static void lane_assign(struct lane *lane, struct lanes_client *client, struct lanes_source source)
{
    belfry_list_remove(&lane->node);
    lane->client = client;
    lane->source = source;
}

struct lane *lanes_of(struct lanes *lanes, struct belfry_hash_key key, struct lanes_source source)
{
    uint64_t client = hash_of(key, source.client), first = hash_of(key, source.connection);
    struct lane *shared = NULL;
    for (uint64_t i = 0; i < LANES_PROBED; i++) {
        struct lane *lane = &lanes->all[hash_of(key, client + (first + i) % LANES_OF_CLIENT) % LANES];
        if (!lane_is_used(lane)) {
            lane_assign(lane, &lanes->clients[client % LANES], source);
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
    lane->client->held++;
}

void lane_release(struct lane *lane)
{
    assert(lane->held > 0 && lane->client->held > 0);
    lane->held--;
    lane->client->held--;
}

void lanes_wait(struct lanes *lanes, struct lane *lane, struct belfry_list *node)
{
    struct lanes_client *client = lane->client;
    belfry_list_append(&lane->waiting, node);
    if (belfry_list_empty(&lane->node))
        belfry_list_append(&client->turns, &lane->node);
    if (belfry_list_empty(&client->node))
        belfry_list_append(&lanes->turns, &client->node);
}

static struct lane *lanes_client_next(const struct lanes_client *client, size_t part, size_t free)
{
    if (client->held >= free)
        return NULL;
    belfry_list_each (node, &client->turns) {
        struct lane *lane = belfry_container(node, struct lane, node);
        if (!belfry_list_empty(&lane->waiting) && lane->held * part < free)
            return lane;
    }
    return NULL;
}

struct lane *lanes_next(const struct lanes *lanes, size_t free)
{
    belfry_list_each (node, &lanes->turns) {
        const struct lanes_client *client = belfry_container(node, struct lanes_client, node);
        struct lane *lane = lanes_client_next(client, lanes->part, free);
        if (lane != NULL)
            return lane;
    }
    return NULL;
}

struct belfry_list *lanes_take(struct lanes *lanes, struct lane *lane)
{
    struct lanes_client *client = lane->client;
    struct belfry_list *first = belfry_list_pop(&lane->waiting);
    belfry_list_remove(&lane->node);
    if (!belfry_list_empty(&lane->waiting))
        belfry_list_append(&client->turns, &lane->node);
    belfry_list_remove(&client->node);
    if (!belfry_list_empty(&client->turns))
        belfry_list_append(&lanes->turns, &client->node);
    return first;
}
