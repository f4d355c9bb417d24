/* src/serve/etcd/tiers_below.c */
#include "serve/etcd/tiers_below.h"

#include <stdlib.h>

struct tree_below *tree_below_create(size_t room)
{
    struct tree_below *below = malloc(sizeof(*below) + room * sizeof(below->tiers[0]));
    if (below != NULL)
        *below = (struct tree_below){.room = room};
    return below;
}

void tree_below_add(struct tree_below *below, const struct tree_tier *tier)
{
    if (below->n < below->room)
        below->tiers[below->n++] = *tier;
    else
        below->more += tier->streams;
}
