/* src/serve/sse/sse_id.c */
#include "serve/sse/sse_id.h"

#include <stdio.h>

#include "base/hex.h"

#define TAG_DIGITS 8

static bool read_tag(struct belfry_bytes text, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = belfry_hex_digit(text.data[i]);
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return text.len == TAG_DIGITS;
}

bool sse_id_read(struct belfry_bytes text, struct sse_id *out)
{
    size_t i = 0;
    *out = (struct sse_id){0};
    for (; i < text.len && text.data[i] >= '0' && text.data[i] <= '9'; i++) {
        int digit = text.data[i] - '0';
        if (out->rev > (INT64_MAX - digit) / 10)
            return false;
        out->rev = out->rev * 10 + digit;
    }
    if (i == 0 || i == text.len)
        return i > 0;
    out->tagged = true;
    return text.data[i] == '-' && read_tag(belfry_bytes_of(text.data + i + 1, text.len - i - 1), &out->tag);
}

void sse_id_write(const struct sse_id *id, char out[SSE_ID_TEXT])
{
    if (id->tagged)
        snprintf(out, SSE_ID_TEXT, "%lld-%08x", (long long)id->rev, (unsigned)id->tag);
    else
        snprintf(out, SSE_ID_TEXT, "%lld", (long long)id->rev);
}
