#include "core/key_range.h"

#include "base/buf.h"

/* The first key after all that begin with `key`: the last byte that is not 0xff plus one, without the bytes after it.
 */
static bool ends_prefix(struct belfry_bytes key, struct belfry_bytes end)
{
    size_t n = key.len;
    while (n > 0 && (uint8_t)key.data[n - 1] == 0xff)
        n--;
    if (n == 0) /* all 0xff: no key comes after them, so the end is open */
        return false;
    return end.len == n && memcmp(key.data, end.data, n - 1) == 0 &&
           (uint8_t)end.data[n - 1] == (uint8_t)key.data[n - 1] + 1;
}

enum belfry_err range_prefix_end(struct belfry_bytes prefix, struct belfry_buf *out)
{
    size_t n = prefix.len;
    while (n > 0 && (uint8_t)prefix.data[n - 1] == 0xff)
        n--;
    if (n == 0)
        return BELFRY_OK;
    enum belfry_err err = belfry_buf_append(out, prefix.data, n);
    if (err == BELFRY_OK)
        out->data[out->end - 1]++;
    return err;
}

bool range_read(struct belfry_bytes key, struct belfry_bytes range_end, struct range *out)
{
    if (key.len == 0)
        key = belfry_bytes_of("", 1); /* "\0" */
    *out = (struct range){.kind = RANGE_KEY, .key = key};
    if (range_end.len == 0)
        return true;
    if (range_end.len == 1 && range_end.data[0] == '\0') {
        bool all = key.len == 1 && key.data[0] == '\0';
        *out = (struct range){.kind = all ? RANGE_PREFIX : RANGE_SPAN, .key = all ? (struct belfry_bytes){0} : key};
        return true;
    }
    if (belfry_bytes_cmp(key, range_end) >= 0)
        return false;
    if (ends_prefix(key, range_end))
        out->kind = RANGE_PREFIX;
    else
        *out = (struct range){.kind = RANGE_SPAN, .key = key, .end = range_end};
    return true;
}

bool range_has(const struct range *range, struct belfry_bytes key)
{
    switch (range->kind) {
    case RANGE_KEY:
        return belfry_bytes_equal(key, range->key);
    case RANGE_PREFIX:
        return belfry_bytes_begins(key, range->key);
    case RANGE_SPAN:
        return belfry_bytes_cmp(key, range->key) >= 0 && (range->end.len == 0 || belfry_bytes_cmp(key, range->end) < 0);
    }
    return false;
}

bool range_within(const struct range *range, struct belfry_bytes prefix)
{
    if (prefix.len == 0)
        return true;
    if (!belfry_bytes_begins(range->key, prefix))
        return false;
    return range->kind != RANGE_SPAN ||
           (range->end.len > 0 && (belfry_bytes_begins(range->end, prefix) || ends_prefix(prefix, range->end)));
}
