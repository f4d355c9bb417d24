/* bench/belfry-bench/bound.c */
#include "bound.h"

bool bound_is_set(const struct bound *bound)
{
    return bound->memory_floor != 0 || bound->until_ns != 0;
}

enum bound_hit bound_check(const struct bound *bound, uint64_t available_bytes, uint64_t now_ns)
{
    if (available_bytes < bound->memory_floor)
        return BOUND_MEMORY;
    return bound->until_ns != 0 && now_ns >= bound->until_ns ? BOUND_TIME : BOUND_NONE;
}

const char *bound_name(enum bound_hit hit)
{
    switch (hit) {
    case BOUND_NONE:
        break;
    case BOUND_MEMORY:
        return "memory";
    case BOUND_TIME:
        return "time";
    }
    return "";
}
