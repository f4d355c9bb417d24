/* src/base/treap.c: split and merge follow one path in a loop, so a deep tree does not exhaust the stack. */
#include "base/treap.h"

#include <stdint.h>
#include <stdlib.h>

static const char salt; /* its address differs between processes */

/* The hash is one to one, so no two elements have the same priority. Multiplication alone is not enough: elements
 * allocated in key order form an arithmetic progression, whose multiples have long rising runs. */
static uint64_t treap_priority(const struct belfry_treap_node *node)
{
    uint64_t z = (uint64_t)(uintptr_t)node ^ (uint64_t)(uintptr_t)&salt << 20;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Splits `tree`: elements before `node` become its left subtree, elements after it the right one. */
static void treap_split(struct belfry_treap_node *tree, struct belfry_treap_node *node, belfry_treap_order_fn order)
{
    struct belfry_treap_node **before = &node->left, **behind = &node->right;
    while (tree != NULL) {
        if (order(tree, node) < 0) {
            *before = tree;
            before = &tree->right;
            tree = tree->right;
        } else {
            *behind = tree;
            behind = &tree->left;
            tree = tree->left;
        }
    }
    *before = *behind = NULL;
}

void belfry_treap_insert(struct belfry_treap_node **root, struct belfry_treap_node *node, belfry_treap_order_fn order)
{
    uint64_t mine = treap_priority(node);
    struct belfry_treap_node **at = root;
    while (*at != NULL && treap_priority(*at) > mine)
        at = order(node, *at) < 0 ? &(*at)->left : &(*at)->right;
    treap_split(*at, node, order);
    *at = node;
}

void belfry_treap_remove(struct belfry_treap_node **root, struct belfry_treap_node *node, belfry_treap_order_fn order)
{
    struct belfry_treap_node **at = root;
    while (*at != node)
        at = order(node, *at) < 0 ? &(*at)->left : &(*at)->right;
    struct belfry_treap_node *left = node->left, *right = node->right;
    while (left != NULL && right != NULL) {
        if (treap_priority(left) > treap_priority(right)) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    }
    *at = left != NULL ? left : right;
    node->left = node->right = NULL;
}

struct belfry_treap_node *belfry_treap_find(struct belfry_treap_node *root, const void *key, belfry_treap_seek_fn seek)
{
    while (root != NULL) {
        int order = seek(key, root);
        if (order == 0)
            return root;
        root = order < 0 ? root->left : root->right;
    }
    return NULL;
}

static void walk_push(struct belfry_treap_walk *walk, struct belfry_treap_node *node)
{
    if (walk->depth == BELFRY_TREAP_DEPTH)
        abort();                     /* see the header: silently skipping an element would be worse */
    __builtin_prefetch(node->right); /* visited after this node */
    walk->stack[walk->depth++] = node;
}

void belfry_treap_walk(struct belfry_treap_walk *walk, struct belfry_treap_node *root, const void *key,
                       belfry_treap_seek_fn seek)
{
    walk->depth = 0;
    while (root != NULL) {
        if (key == NULL || seek(key, root) <= 0) {
            walk_push(walk, root);
            root = root->left;
        } else {
            root = root->right;
        }
    }
}

struct belfry_treap_node *belfry_treap_next(struct belfry_treap_walk *walk)
{
    if (walk->depth == 0)
        return NULL;
    struct belfry_treap_node *node = walk->stack[--walk->depth];
    for (struct belfry_treap_node *at = node->right; at != NULL; at = at->left)
        walk_push(walk, at);
    return node;
}

struct belfry_treap_node *belfry_treap_first(struct belfry_treap_node *root)
{
    while (root != NULL && root->left != NULL)
        root = root->left;
    return root;
}
