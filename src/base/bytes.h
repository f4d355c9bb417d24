/* src/base/bytes.h: comparing and copying runs of bytes. Thread: any. */
#ifndef BELFRY_BASE_BYTES_H
#define BELFRY_BASE_BYTES_H

#include <stdbool.h>
#include <string.h>

#include <belfry/bytes.h>

static inline struct belfry_bytes belfry_bytes_of(const void *data, size_t len)
{
    return (struct belfry_bytes){(const char *)data, len};
}

static inline struct belfry_bytes belfry_bytes_str(const char *text)
{
    return belfry_text(text);
}

static inline bool belfry_bytes_equal(struct belfry_bytes a, struct belfry_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Orders as etcd orders keys: byte by byte, unsigned; a prefix comes before longer keys. */
static inline int belfry_bytes_cmp(struct belfry_bytes a, struct belfry_bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n == 0 ? 0 : memcmp(a.data, b.data, n);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool belfry_bytes_begins(struct belfry_bytes whole, struct belfry_bytes prefix)
{
    return whole.len >= prefix.len && (prefix.len == 0 || memcmp(whole.data, prefix.data, prefix.len) == 0);
}

#endif
