/* src/base/treap.c: split and merge along one path, so that nothing recurses however deep the tree is. */
#include "base/treap.h"

#include <stdint.h>
#include <stdlib.h>

static const char salt; /* its address differs from process to process */

/* One to one, so no two elements have the same priority. A plain multiplication would not do: elements allocated one
 * after another in key order are an arithmetic progression, and its multiples have long runs that only rise. */
static uint64_t priority(const struct belfry_treap_node *node)
{
    uint64_t z = (uint64_t)(uintptr_t)node ^ (uint64_t)(uintptr_t)&salt << 20;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Hangs what is before `node` to its left and what is behind it to its right. */
static void split(struct belfry_treap_node *tree, struct belfry_treap_node *node, belfry_treap_order_fn order)
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
    uint64_t mine = priority(node);
    struct belfry_treap_node **at = root;
    while (*at != NULL && priority(*at) > mine)
        at = order(node, *at) < 0 ? &(*at)->left : &(*at)->right;
    split(*at, node, order);
    *at = node;
}

void belfry_treap_remove(struct belfry_treap_node **root, struct belfry_treap_node *node, belfry_treap_order_fn order)
{
    struct belfry_treap_node **at = root;
    while (*at != node)
        at = order(node, *at) < 0 ? &(*at)->left : &(*at)->right;
    struct belfry_treap_node *left = node->left, *right = node->right;
    while (left != NULL && right != NULL) {
        if (priority(left) > priority(right)) {
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

static void push(struct belfry_treap_walk *walk, struct belfry_treap_node *node)
{
    if (walk->depth == BELFRY_TREAP_DEPTH)
        abort();                     /* see the header: leaving somebody out in silence would be worse */
    __builtin_prefetch(node->right); /* where the walk goes when it comes back to this one */
    walk->stack[walk->depth++] = node;
}

void belfry_treap_walk(struct belfry_treap_walk *walk, struct belfry_treap_node *root, const void *key,
                       belfry_treap_seek_fn seek)
{
    walk->depth = 0;
    while (root != NULL) {
        if (key == NULL || seek(key, root) <= 0) {
            push(walk, root);
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
        push(walk, at);
    return node;
}

struct belfry_treap_node *belfry_treap_first(struct belfry_treap_node *root)
{
    while (root != NULL && root->left != NULL)
        root = root->left;
    return root;
}
