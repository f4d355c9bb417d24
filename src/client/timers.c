/* src/client/timers.c */
#include "client/timers.h"

#include "base/list.h"

static const struct belfry_timer *of(const struct belfry_treap_node *node)
{
    return belfry_container_const(node, struct belfry_timer, node);
}

static int order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    uint64_t due_a = of(a)->due_ms, due_b = of(b)->due_ms;
    if (due_a != due_b)
        return due_a < due_b ? -1 : 1;
    return (of(a)->number > of(b)->number) - (of(a)->number < of(b)->number);
}

void belfry_timers_set(struct belfry_timers *timers, struct belfry_timer *timer, uint64_t due_ms)
{
    if (due_ms < timers->firing_ms)
        due_ms = timers->firing_ms; /* after all that are due now */
    if (timer->due_ms == due_ms)
        return;
    if (timer->due_ms != BELFRY_NEVER)
        belfry_treap_remove(&timers->root, &timer->node, order);
    timer->due_ms = due_ms;
    timer->number = timers->n_set++;
    if (due_ms != BELFRY_NEVER)
        belfry_treap_insert(&timers->root, &timer->node, order);
}

void belfry_timers_fire(struct belfry_timers *timers, uint64_t now_ms)
{
    uint64_t n_set = timers->n_set; /* timers set from now on wait */
    struct belfry_treap_node *node;
    timers->firing_ms = now_ms;
    while ((node = belfry_treap_first(timers->root)) != NULL && of(node)->due_ms <= now_ms &&
           of(node)->number < n_set) {
        struct belfry_timer *timer = belfry_container(node, struct belfry_timer, node);
        belfry_treap_remove(&timers->root, &timer->node, order);
        timer->due_ms = BELFRY_NEVER;
        timer->fn(timer);
    }
    timers->firing_ms = 0;
}

uint64_t belfry_timers_due(const struct belfry_timers *timers)
{
    const struct belfry_treap_node *first = belfry_treap_first(timers->root);
    return first == NULL ? BELFRY_NEVER : of(first)->due_ms;
}
