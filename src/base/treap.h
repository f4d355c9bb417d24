/* src/base/treap.h
 *
 * treap: an ordered set linked through its elements: insert, remove and seek in O(log n), no allocation, no failure.
 *
 * The balance is random and costs no storage: an element's priority is a keyed hash of its address. The caller keeps the
 * root and says what the order is; equal elements must not meet. A set whose elements are freed is taken down from its
 * first element, never from its root: an allocator hands out again what was freed last, so memory freed from the root
 * down comes back by rising priority, and the next set filled in order would be a chain.
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

/* Below 0, 0, above 0: a is before, at, behind b. */
typedef int (*belfry_treap_order_fn)(const struct belfry_treap_node *a, const struct belfry_treap_node *b);

/* Below 0, 0, above 0: `key` is before, at, behind the node. */
typedef int (*belfry_treap_seek_fn)(const void *key, const struct belfry_treap_node *node);

void belfry_treap_insert(struct belfry_treap_node **root, struct belfry_treap_node *node, belfry_treap_order_fn order);

/* `node` is in the set. */
void belfry_treap_remove(struct belfry_treap_node **root, struct belfry_treap_node *node, belfry_treap_order_fn order);

/* The element at `key`; NULL when there is none. */
struct belfry_treap_node *belfry_treap_find(struct belfry_treap_node *root, const void *key, belfry_treap_seek_fn seek);

/* Walks in order. The set must not change between begin and the last next. On the stack are the ancestors that come
 * behind the next element: about ln n of them, and more than the stack holds with a chance of less than 2^-90 in a set
 * of 2^40, since nobody chooses addresses. Should it happen the process ends: an element left out would not be seen. */
#define BELFRY_TREAP_DEPTH 128
struct belfry_treap_walk {
    struct belfry_treap_node *stack[BELFRY_TREAP_DEPTH]; /* those still to be given, the next on top */
    size_t depth;
};

/* Starts at the first element that is not before `key` (a seek at or behind it); key NULL: at the very first. */
void belfry_treap_walk(struct belfry_treap_walk *walk, struct belfry_treap_node *root, const void *key,
                       belfry_treap_seek_fn seek);
struct belfry_treap_node *belfry_treap_next(struct belfry_treap_walk *walk); /* NULL: no more */

struct belfry_treap_node *belfry_treap_first(struct belfry_treap_node *root); /* NULL: empty */

#endif
