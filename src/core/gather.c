/* src/core/gather.c: pairs of (node, event), sorted by node, become the groups. */
#include "core/gather.h"

#include <stdlib.h>

struct gather_pair {
    struct interest_node *node;
    uint32_t event;
    uint32_t order; /* order of appearance, so that the result does not depend on addresses */
};

void gather_init(struct gather *gather, struct turn *turn, struct interest *interest, lines_attribute_fn attribute,
                 void *attribute_user)
{
    *gather =
        (struct gather){.turn = turn, .interest = interest, .attribute = attribute, .attribute_user = attribute_user};
}

void gather_fini(struct gather *gather)
{
    free(gather->groups);
    free(gather->picks);
    free(gather->pairs);
}

void gather_forget(struct gather *gather)
{
    gather->rev = 0;
}

/* Room for `need` elements; NULL: out of memory, `array` is as it was. */
static void *roomy(void *array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap && array != NULL)
        return array;
    size_t want = need < 16 ? 16 : need * 2;
    void *moved = realloc(array, want * size);
    if (moved != NULL)
        *cap = want;
    return moved;
}

static enum belfry_err reserve_pairs(struct gather *gather, size_t n)
{
    struct gather_pair *pairs = roomy(gather->pairs, &gather->cap_pairs, n, sizeof(*pairs));
    if (pairs == NULL)
        return BELFRY_ERR_NOMEM;
    gather->pairs = pairs;
    return BELFRY_OK;
}

static enum belfry_err reserve_groups(struct gather *gather, size_t n)
{
    struct gather_group *groups = roomy(gather->groups, &gather->cap_groups, n, sizeof(*groups));
    if (groups == NULL)
        return BELFRY_ERR_NOMEM;
    gather->groups = groups;
    uint32_t *picks = roomy(gather->picks, &gather->cap_picks, n, sizeof(*picks));
    if (picks == NULL)
        return BELFRY_ERR_NOMEM;
    gather->picks = picks;
    return BELFRY_OK;
}

enum belfry_err gather_event(struct gather *gather, const struct batch *batch, uint32_t event, unsigned population,
                             struct interest_node ***nodes, size_t *n)
{
    struct interest_asker asker = {gather->attribute, gather->attribute_user, batch, event};
    struct belfry_bytes key = batch_key(batch, &batch->events[event]);
    return interest_find(gather->interest, key, population, &asker, nodes, n);
}

/* Most batches have one event: each node is a group. */
static enum belfry_err gather_one(struct gather *gather, const struct batch *batch, unsigned population)
{
    struct interest_node **nodes;
    size_t n;
    enum belfry_err err = gather_event(gather, batch, 0, population, &nodes, &n);
    if (err == BELFRY_OK)
        err = reserve_groups(gather, n + 1);
    if (err != BELFRY_OK)
        return err;
    gather->picks[0] = 0;
    for (size_t i = 0; i < n; i++)
        gather->groups[i] = (struct gather_group){.node = nodes[i], .first = 0, .n = 1};
    gather->n_groups = n;
    return BELFRY_OK;
}

static enum belfry_err collect_pairs(struct gather *gather, const struct batch *batch, unsigned population)
{
    gather->n_pairs = 0;
    for (uint32_t event = 0; event < batch->n_events; event++) {
        struct interest_node **nodes;
        size_t n;
        enum belfry_err err = gather_event(gather, batch, event, population, &nodes, &n);
        if (err == BELFRY_OK && gather->n_pairs + n > GATHER_PAIRS_MAX)
            err = BELFRY_ERR_TOO_LARGE;
        if (err == BELFRY_OK)
            err = reserve_pairs(gather, gather->n_pairs + n + 1);
        if (err != BELFRY_OK)
            return err;
        for (size_t i = 0; i < n; i++, gather->n_pairs++)
            gather->pairs[gather->n_pairs] =
                (struct gather_pair){.node = nodes[i], .event = event, .order = (uint32_t)gather->n_pairs};
    }
    return BELFRY_OK;
}

static int pairs_by_node(const void *a, const void *b)
{
    const struct gather_pair *x = a, *y = b;
    if (x->node != y->node)
        return (uintptr_t)x->node < (uintptr_t)y->node ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int groups_by_order(const void *a, const void *b)
{
    const struct gather_group *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

static enum belfry_err gather_many(struct gather *gather, const struct batch *batch, unsigned population)
{
    enum belfry_err err = collect_pairs(gather, batch, population);
    if (err == BELFRY_OK)
        err = reserve_groups(gather, gather->n_pairs + 1);
    if (err != BELFRY_OK)
        return err;
    const struct gather_pair *pairs = gather->pairs;
    size_t g = 0;
    if (gather->n_pairs > 1)
        qsort(gather->pairs, gather->n_pairs, sizeof(*gather->pairs), pairs_by_node);
    for (uint32_t i = 0; i < gather->n_pairs; i++) {
        gather->picks[i] = pairs[i].event;
        if (i > 0 && pairs[i].node == pairs[i - 1].node)
            gather->groups[g - 1].n++;
        else
            gather->groups[g++] =
                (struct gather_group){.node = pairs[i].node, .first = i, .n = 1, .order = pairs[i].order};
    }
    if (g > 1)
        qsort(gather->groups, g, sizeof(*gather->groups), groups_by_order);
    gather->n_groups = g;
    return BELFRY_OK;
}

enum belfry_err gather_batch(struct gather *gather, const struct batch *batch, unsigned population)
{
    uint64_t generation = interest_generation(gather->interest);
    if (gather->rev == batch->rev && gather->population == population && gather->generation == generation)
        return gather->too_large ? BELFRY_ERR_TOO_LARGE : BELFRY_OK;
    gather->rev = 0;
    enum belfry_err err =
        batch->n_events == 1 ? gather_one(gather, batch, population) : gather_many(gather, batch, population);
    if (err != BELFRY_OK && err != BELFRY_ERR_TOO_LARGE)
        return err;
    turn_spend(gather->turn, gather->n_groups / 8);
    gather->too_large = err == BELFRY_ERR_TOO_LARGE;
    gather->rev = batch->rev;
    gather->population = population;
    gather->generation = generation;
    return err;
}

size_t gather_bytes(const struct gather *gather)
{
    return gather->cap_groups * sizeof(*gather->groups) + gather->cap_picks * sizeof(*gather->picks) +
           gather->cap_pairs * sizeof(*gather->pairs);
}
