/* src/base/query.c */
#include "base/query.h"

#include <string.h>

#include "base/hex.h"

/* The part of *from before the first `mark`, which is taken away together with it; all of it if there is none. */
static struct belfry_bytes take_until(struct belfry_bytes *from, char mark)
{
    const char *at = from->len == 0 ? NULL : memchr(from->data, mark, from->len);
    size_t len = at == NULL ? from->len : (size_t)(at - from->data), taken = at == NULL ? len : len + 1;
    struct belfry_bytes part = {from->data, len};
    *from = (struct belfry_bytes){from->data + taken, from->len - taken};
    return part;
}

bool belfry_query_next(struct belfry_bytes *query, struct belfry_bytes *name, struct belfry_bytes *value)
{
    struct belfry_bytes pair = {0};
    while (pair.len == 0 && query->len > 0)
        pair = take_until(query, '&');
    if (pair.len == 0)
        return false;
    *name = take_until(&pair, '=');
    *value = pair;
    return true;
}

bool belfry_query_decode(struct belfry_bytes in, char *out, size_t *out_len)
{
    size_t n = 0;
    for (size_t i = 0; i < in.len; i++) {
        if (in.data[i] != '%') {
            out[n++] = in.data[i] == '+' ? ' ' : in.data[i];
            continue;
        }
        int high = in.len - i > 2 ? belfry_hex_digit(in.data[i + 1]) : -1;
        int low = in.len - i > 2 ? belfry_hex_digit(in.data[i + 2]) : -1;
        if (high < 0 || low < 0)
            return false;
        out[n++] = (char)(high * 16 + low);
        i += 2;
    }
    *out_len = n;
    return true;
}
