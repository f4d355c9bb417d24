/* src/base/treap.h
 *
 * treap: an ordered set linked through its elements: insert, remove and seek in O(log n), no allocation, no failure.
 *
 * The balance is random and needs no storage: an element's priority is a keyed hash of its address. The caller keeps
 * the root and defines the order; no two elements may be equal. To free all elements, remove them from the first one
 * on, not from the root: allocators reuse the memory freed last, so memory freed from the root down returns in the
 * order of rising priority, and the next set filled in order would become a chain.
 *
 * Thread: owner.
 */
#ifndef BELFRY_BASE_TREAP_H
#define BELFRY_BASE_TREAP_H

#include <stdbool.h>
#include <stddef.h>

struct belfry_treap_node {
    struct belfry_treap_node *left, *right;
};

/* Below 0, 0, above 0: a is before, at, after b. */
typedef int (*belfry_treap_order_fn)(const struct belfry_treap_node *a, const struct belfry_treap_node *b);

/* Below 0, 0, above 0: `key` is before, at, after the node. */
typedef int (*belfry_treap_seek_fn)(const void *key, const struct belfry_treap_node *node);

void belfry_treap_insert(struct belfry_treap_node **root, struct belfry_treap_node *node, belfry_treap_order_fn order);

/* `node` must be in the set. */
void belfry_treap_remove(struct belfry_treap_node **root, struct belfry_treap_node *node, belfry_treap_order_fn order);

/* The element at `key`; NULL when there is none. */
struct belfry_treap_node *belfry_treap_find(struct belfry_treap_node *root, const void *key, belfry_treap_seek_fn seek);

/* Walks in order. The set must not change between begin and the last next. The stack holds the ancestors that come
 * after the next element, about ln n of them. In a set of 2^40 elements the chance that they overflow the stack is
 * below 2^-90, because no peer chooses addresses. If it happens, the process aborts rather than skip an element
 * unnoticed. */
#define BELFRY_TREAP_DEPTH 128
struct belfry_treap_walk {
    struct belfry_treap_node *stack[BELFRY_TREAP_DEPTH]; /* elements still to visit, the next on top */
    size_t depth;
};

/* Starts at the first element that is at or after `key`; key NULL: at the first element. */
void belfry_treap_walk(struct belfry_treap_walk *walk, struct belfry_treap_node *root, const void *key,
                       belfry_treap_seek_fn seek);
struct belfry_treap_node *belfry_treap_next(struct belfry_treap_walk *walk); /* NULL after the last */

struct belfry_treap_node *belfry_treap_first(struct belfry_treap_node *root); /* NULL: empty */

#endif
