/* src/server/inbound_wait.c */
#include "server/inbound_wait.h"

#include <string.h>

void inbound_waits_set(struct inbound_waits *waits, const uint64_t span_ms[INBOUND_N_WAITS])
{
    memcpy(waits->span_ms, span_ms, sizeof(waits->span_ms));
}

void inbound_waits_init(struct inbound_waits *waits, const uint64_t span_ms[INBOUND_N_WAITS])
{
    inbound_waits_set(waits, span_ms);
    for (size_t i = 0; i < INBOUND_N_WAITS; i++)
        belfry_list_init(&waits->lists[i]);
}

void inbound_wait_init(struct inbound_wait *wait)
{
    wait->kind = INBOUND_WAIT_NONE;
    belfry_list_init(&wait->node);
}

void inbound_wait_for(struct inbound_waits *waits, struct inbound_wait *wait, enum inbound_wait_kind kind,
                      uint64_t now_ms)
{
    belfry_list_remove(&wait->node);
    wait->kind = kind;
    if (kind == INBOUND_WAIT_NONE)
        return;
    wait->since_ms = now_ms;
    belfry_list_append(&waits->lists[kind], &wait->node);
}

struct inbound_wait *inbound_waits_due(const struct inbound_waits *waits, enum inbound_wait_kind kind, uint64_t now_ms)
{
    const struct belfry_list *list = &waits->lists[kind];
    if (belfry_list_empty(list))
        return NULL;
    struct inbound_wait *first = belfry_container(list->next, struct inbound_wait, node);
    return first->since_ms + waits->span_ms[kind] <= now_ms ? first : NULL;
}
