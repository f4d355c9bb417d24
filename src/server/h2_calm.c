/* src/server/h2_calm.c */
#include "server/h2_calm.h"

#define FULL (H2_CALM_STREAMS * 1000u)

void h2_calm_init(struct h2_calm *calm)
{
    *calm = (struct h2_calm){.left = FULL};
}

bool h2_calm_spend(struct h2_calm *calm, size_t streams, uint64_t now_ms)
{
    uint32_t cost = (uint32_t)(streams < H2_CALM_MOST ? streams : H2_CALM_MOST) * 1000;
    uint64_t elapsed_ms = now_ms - calm->at_ms;
    uint64_t gained = elapsed_ms < FULL / H2_CALM_RATE ? elapsed_ms * H2_CALM_RATE : FULL;
    calm->left = gained < FULL - calm->left ? calm->left + (uint32_t)gained : FULL;
    calm->at_ms = now_ms;
    if (calm->left < cost)
        return false;
    calm->left -= cost;
    return true;
}
