/* src/serve/rights/lanes.c */
#include "serve/rights/lanes.h"

static void lane_init(struct lane *lane)
{
    lane->held = 0;
    belfry_list_init(&lane->node);
    belfry_list_init(&lane->waiting);
}

void lanes_init(struct lanes *lanes)
{
    belfry_list_init(&lanes->turns);
    lane_init(&lanes->known);
    for (size_t i = 0; i < LANES; i++)
        lane_init(&lanes->all[i]);
}

struct lane *lanes_of(struct lanes *lanes, struct belfry_hash_key key, uint64_t source)
{
    return &lanes->all[belfry_hash(key, belfry_bytes_of(&source, sizeof(source))) % LANES];
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
        if (!belfry_list_empty(&lane->waiting) && lane->held * LANES_SHARE < free)
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
