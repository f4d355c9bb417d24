/* src/serve/sse/sse_ranges.c */
#include "serve/sse/sse_ranges.h"

#include <string.h>

#include "base/pack.h"

bool sse_ranges_have(const struct sse_ranges *ranges, size_t n, struct belfry_bytes key)
{
    for (size_t i = 0; i < n; i++)
        if (range_has(&ranges->list[i].range, key))
            return true;
    return false;
}

enum belfry_err sse_range_interval(const struct sse_range *range, struct belfry_bytes *key, struct belfry_buf *end)
{
    const struct range *r = &range->range;
    enum belfry_err err = BELFRY_OK;
    *key = r->key;
    switch (r->kind) {
    case RANGE_KEY:
        err = belfry_buf_append(end, r->key.data, r->key.len);
        return err != BELFRY_OK ? err : belfry_buf_append(end, "", 1);
    case RANGE_PREFIX:
        return range_prefix_end(r->key, end);
    case RANGE_SPAN:
        return belfry_buf_append(end, r->end.data, r->end.len);
    }
    return err;
}

/* Widens [*key, end) by one range. `first`: it has none yet; `open`: it goes to the very end. */
static enum belfry_err widen(const struct sse_range *range, bool first, bool *open, struct belfry_bytes *key,
                             struct belfry_buf *end)
{
    struct belfry_bytes from;
    struct belfry_buf to;
    belfry_buf_init(&to);
    enum belfry_err err = sse_range_interval(range, &from, &to);
    if (err == BELFRY_OK && (first || belfry_bytes_cmp(from, *key) < 0))
        *key = from;
    *open = *open || belfry_buf_len(&to) == 0;
    if (err == BELFRY_OK && (first || belfry_bytes_cmp(belfry_buf_bytes(&to), belfry_buf_bytes(end)) > 0)) {
        belfry_buf_clear(end);
        err = belfry_buf_append(end, to.data, belfry_buf_len(&to));
    }
    belfry_buf_fini(&to);
    return err;
}

enum belfry_err sse_ranges_hull(const struct sse_ranges *ranges, struct belfry_buf *key, struct belfry_buf *end)
{
    struct belfry_bytes from = {0};
    bool open = false;
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < ranges->n && err == BELFRY_OK; i++)
        err = widen(&ranges->list[i], i == 0, &open, &from, end);
    if (err != BELFRY_OK)
        return err;
    if (open) {
        belfry_buf_clear(end);
        err = belfry_buf_append(end, "", 1);
    }
    if (err != BELFRY_OK)
        return err;
    return from.len == 0 ? belfry_buf_append(key, "", 1) : belfry_buf_append(key, from.data, from.len);
}

/* ---- copies ---- */

size_t sse_ranges_bytes(const struct sse_ranges *ranges)
{
    size_t bytes = 0;
    for (size_t i = 0; i < ranges->n; i++)
        bytes += ranges->list[i].key.len + ranges->list[i].end.len;
    return bytes;
}

struct sse_ranges sse_ranges_pack(const struct sse_ranges *ranges, struct sse_range *list, char **to)
{
    for (size_t i = 0; i < ranges->n; i++) {
        list[i].key = belfry_pack(to, ranges->list[i].key);
        list[i].end = belfry_pack(to, ranges->list[i].end);
        (void)range_read(list[i].key, list[i].end, &list[i].range); /* it has been read before */
    }
    return (struct sse_ranges){.n = ranges->n, .list = list};
}
