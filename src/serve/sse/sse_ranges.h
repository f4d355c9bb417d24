/* src/serve/sse/sse_ranges.h
 *
 * sse_ranges: the ranges of one stream of Server-Sent Events. They share one position, so to the core they are one
 * watcher of several ranges (core/lines.h). All streams with the same list of ranges are found together.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_SSE_SSE_RANGES_H
#define BELFRY_SERVE_SSE_SSE_RANGES_H

#include "base/buf.h"
#include "core/key_range.h"

#define SSE_RANGES 16

struct sse_range {
    struct belfry_bytes key, end; /* as on etcd's wire */
    struct range range;           /* what these mean; of the same bytes */
};

struct sse_ranges {
    size_t n;
    const struct sse_range *list; /* lent */
};

/* Does one of the first `n` ranges have the key? */
bool sse_ranges_have(const struct sse_ranges *ranges, size_t n, struct belfry_bytes key);

/* The smallest range that has all of them, as on etcd's wire. `key` and `end` are empty. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err sse_ranges_hull(const struct sse_ranges *ranges, struct belfry_buf *key,
                                                 struct belfry_buf *end);

/* The interval [key, end) of a range; an empty end: to the very end. `end` is empty. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err sse_range_interval(const struct sse_range *range, struct belfry_bytes *key,
                                                    struct belfry_buf *end);

/* Bytes that sse_ranges_pack() needs, and their copy. *list is written. */
size_t sse_ranges_bytes(const struct sse_ranges *ranges);
struct sse_ranges sse_ranges_pack(const struct sse_ranges *ranges, struct sse_range *list, char **to);

#endif
