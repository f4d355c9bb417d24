/* src/core/spans.h
 *
 * spans: which of many ranges [key, end) have a key, in O(log n + found log n): an interval tree linked through its
 * elements. Ordered by (key, end), balanced as base/treap.h is; each span knows the one in its subtree that ends last,
 * so a subtree that ends before the key is not entered. It knows its parent, so no function recurses.
 *
 * Thread: owner.
 */
#ifndef BELFRY_CORE_SPANS_H
#define BELFRY_CORE_SPANS_H

#include "base/bytes.h"

struct span {
    struct span *parent, *left, *right;
    const struct span *last;      /* in this subtree, the one that ends last */
    struct belfry_bytes key, end; /* lent by the caller while it is in; an empty end: no upper bound */
};

/* key and end are set; no equal span is in. */
void spans_insert(struct span **root, struct span *span);
void spans_remove(struct span **root, struct span *span);
struct span *spans_find(struct span *root, struct belfry_bytes key, struct belfry_bytes end); /* NULL: none is equal */

/* Visits the spans that have `key`: `after` is NULL at first, then the span returned before; NULL: no more. */
struct span *spans_next(struct span *root, struct span *after, struct belfry_bytes key);

#endif
