/* src/base/list.h
 *
 * list: doubly linked, through the element, so that linking never allocates and never fails.
 *
 * A list is a ring around its head. An element that is in no list points at itself, so removing it twice is harmless.
 *
 * Thread: owner.
 */
#ifndef BELFRY_BASE_LIST_H
#define BELFRY_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct belfry_list {
    struct belfry_list *prev, *next;
};

/* The structure of type `type` whose member `member` is at `ptr`. */
#define belfry_container(ptr, type, member)       ((type *)((char *)(ptr)-offsetof(type, member)))
#define belfry_container_const(ptr, type, member) ((const type *)((const char *)(ptr)-offsetof(type, member)))

/* Visits every element; in the safe form the body may remove the current element (and no other). */
#define belfry_list_each(node, list) for (struct belfry_list *node = (list)->next; node != (list); node = node->next)
#define belfry_list_each_safe(node, list)                                                                              \
    for (struct belfry_list *node = (list)->next, *node##_next = node->next; node != (list);                           \
         node = node##_next, node##_next = node->next)

static inline void belfry_list_init(struct belfry_list *list)
{
    list->prev = list->next = list;
}

static inline bool belfry_list_empty(const struct belfry_list *list)
{
    return list->next == list;
}

static inline void belfry_list_remove(struct belfry_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    belfry_list_init(node);
}

/* Puts `node` (in no list) before `where`; before a head means at the end of its list. */
static inline void belfry_list_insert(struct belfry_list *where, struct belfry_list *node)
{
    node->prev = where->prev;
    node->next = where;
    where->prev->next = node;
    where->prev = node;
}

static inline void belfry_list_append(struct belfry_list *list, struct belfry_list *node)
{
    belfry_list_insert(list, node);
}

static inline void belfry_list_prepend(struct belfry_list *list, struct belfry_list *node)
{
    belfry_list_insert(list->next, node);
}

/* Removes and returns the first element; NULL if the list is empty. */
static inline struct belfry_list *belfry_list_pop(struct belfry_list *list)
{
    struct belfry_list *first = list->next;
    if (first == list)
        return NULL;
    belfry_list_remove(first);
    return first;
}

/* Moves all of `from` to the end of `to`. */
static inline void belfry_list_move_all(struct belfry_list *to, struct belfry_list *from)
{
    if (belfry_list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    belfry_list_init(from);
}

#endif
