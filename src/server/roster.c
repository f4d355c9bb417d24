/* src/server/roster.c */
#include "server/roster.h"

#include "base/clock.h"

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int order_by_number(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    return compare_numbers(belfry_container_const(a, struct roster_entry, by_number)->number,
                           belfry_container_const(b, struct roster_entry, by_number)->number);
}

static int order_by_due(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct roster_entry *x = belfry_container_const(a, struct roster_entry, by_due);
    const struct roster_entry *y = belfry_container_const(b, struct roster_entry, by_due);
    int order = compare_numbers(x->due_ms, y->due_ms);
    return order != 0 ? order : compare_numbers(x->number, y->number);
}

static int seek_number(const void *key, const struct belfry_treap_node *node)
{
    return compare_numbers(*(const uint64_t *)key,
                           belfry_container_const(node, struct roster_entry, by_number)->number);
}

void roster_init(struct roster *roster)
{
    *roster = (struct roster){0};
    belfry_list_init(&roster->written);
}

void roster_join(struct roster *roster, struct roster_entry *entry)
{
    *entry = (struct roster_entry){.number = ++roster->numbers, .due_ms = BELFRY_NEVER};
    belfry_list_init(&entry->written);
    belfry_treap_insert(&roster->by_number, &entry->by_number, order_by_number);
}

void roster_leave(struct roster *roster, struct roster_entry *entry)
{
    roster_set_due(roster, entry, BELFRY_NEVER);
    belfry_list_remove(&entry->written);
    belfry_treap_remove(&roster->by_number, &entry->by_number, order_by_number);
}

struct roster_entry *roster_after(const struct roster *roster, uint64_t after)
{
    struct belfry_treap_walk walk;
    uint64_t from = after + 1;
    belfry_treap_walk(&walk, roster->by_number, &from, seek_number);
    struct belfry_treap_node *node = belfry_treap_next(&walk);
    return node == NULL ? NULL : belfry_container(node, struct roster_entry, by_number);
}

void roster_set_due(struct roster *roster, struct roster_entry *entry, uint64_t due_ms)
{
    if (entry->due_ms == due_ms)
        return;
    if (entry->due_ms != BELFRY_NEVER)
        belfry_treap_remove(&roster->by_due, &entry->by_due, order_by_due);
    entry->due_ms = due_ms;
    if (due_ms != BELFRY_NEVER)
        belfry_treap_insert(&roster->by_due, &entry->by_due, order_by_due);
}

struct roster_entry *roster_first_due(const struct roster *roster)
{
    struct belfry_treap_node *node = belfry_treap_first(roster->by_due);
    return node == NULL ? NULL : belfry_container(node, struct roster_entry, by_due);
}

void roster_begin_round(struct roster *roster)
{
    roster->rounding = true;
    roster->round_at = 0;
}

struct roster_entry *roster_next_in_round(struct roster *roster)
{
    struct roster_entry *entry = roster->rounding ? roster_after(roster, roster->round_at) : NULL;
    roster->rounding = entry != NULL;
    if (entry != NULL)
        roster->round_at = entry->number;
    return entry;
}

uint64_t roster_due(const struct roster *roster)
{
    if (roster->rounding || !belfry_list_empty(&roster->written))
        return 0;
    const struct roster_entry *first = roster_first_due(roster);
    return first == NULL ? BELFRY_NEVER : first->due_ms;
}
