/* src/core/spans.c */
#include "core/spans.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

static uint64_t span_priority(const struct span *span)
{
    struct belfry_rng rng = {(uint64_t)(uintptr_t)span};
    return belfry_rng_next(&rng); /* one to one */
}

static int end_cmp(struct belfry_bytes a, struct belfry_bytes b)
{
    if (a.len == 0 || b.len == 0)
        return (a.len == 0) - (b.len == 0);
    return belfry_bytes_cmp(a, b);
}

static int span_order(const struct span *span, struct belfry_bytes key, struct belfry_bytes end)
{
    int by_key = belfry_bytes_cmp(span->key, key);
    return by_key != 0 ? by_key : end_cmp(span->end, end);
}

static bool ends_behind(const struct span *span, struct belfry_bytes key)
{
    return span->end.len == 0 || belfry_bytes_cmp(key, span->end) < 0;
}

static const struct span *span_later(const struct span *a, const struct span *b)
{
    return b == NULL || end_cmp(a->end, b->end) >= 0 ? a : b;
}

static void span_update(struct span *span)
{
    span->last = span_later(span, span->left == NULL ? NULL : span->left->last);
    span->last = span_later(span->last, span->right == NULL ? NULL : span->right->last);
}

/* The place that points at `span`. */
static struct span **span_link(struct span **root, struct span *span)
{
    if (span->parent == NULL)
        return root;
    return span->parent->left == span ? &span->parent->left : &span->parent->right;
}

/* Rotates `child` above its parent; the order stays the same. */
static void span_rotate(struct span **root, struct span *child)
{
    struct span *parent = child->parent;
    *span_link(root, parent) = child;
    child->parent = parent->parent;
    struct span **inner = child == parent->left ? &child->right : &child->left;
    struct span **hole = child == parent->left ? &parent->left : &parent->right;
    *hole = *inner;
    if (*hole != NULL)
        (*hole)->parent = parent;
    *inner = parent;
    parent->parent = child;
    span_update(parent);
    span_update(child);
}

void spans_insert(struct span **root, struct span *span)
{
    struct span **at = root, *parent = NULL;
    while (*at != NULL) {
        parent = *at;
        at = span_order(parent, span->key, span->end) > 0 ? &parent->left : &parent->right;
    }
    span->parent = parent;
    span->left = span->right = NULL;
    span->last = span;
    *at = span;
    for (struct span *up = parent; up != NULL; up = up->parent)
        span_update(up);
    while (span->parent != NULL && span_priority(span->parent) < span_priority(span))
        span_rotate(root, span);
}

void spans_remove(struct span **root, struct span *span)
{
    while (span->left != NULL && span->right != NULL)
        span_rotate(root, span_priority(span->left) > span_priority(span->right) ? span->left : span->right);
    struct span *child = span->left != NULL ? span->left : span->right;
    *span_link(root, span) = child;
    if (child != NULL)
        child->parent = span->parent;
    for (struct span *up = span->parent; up != NULL; up = up->parent)
        span_update(up);
}

struct span *spans_find(struct span *root, struct belfry_bytes key, struct belfry_bytes end)
{
    while (root != NULL) {
        int by = span_order(root, key, end);
        if (by == 0)
            return root;
        root = by > 0 ? root->left : root->right;
    }
    return NULL;
}

/* The first span of the subtree, in order, that may contain the key. Skips subtrees that end before the key. */
static struct span *first_reaching(struct span *span, struct belfry_bytes key)
{
    if (span == NULL || !ends_behind(span->last, key))
        return NULL;
    while (span->left != NULL && ends_behind(span->left->last, key))
        span = span->left;
    return span;
}

/* The next in order after `span` that may have the key. */
static struct span *next_reaching(struct span *span, struct belfry_bytes key)
{
    struct span *inside = first_reaching(span->right, key);
    if (inside != NULL)
        return inside;
    while (span->parent != NULL && span == span->parent->right)
        span = span->parent;
    return span->parent;
}

struct span *spans_next(struct span *root, struct span *after, struct belfry_bytes key)
{
    struct span *at = after == NULL ? first_reaching(root, key) : next_reaching(after, key);
    /* they are ordered: if one begins after the key, all that follow do */
    while (at != NULL && belfry_bytes_cmp(at->key, key) <= 0) {
        if (ends_behind(at, key))
            return at;
        at = next_reaching(at, key);
    }
    return NULL;
}
