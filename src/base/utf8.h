/* src/base/utf8.h: reads text that may contain invalid UTF-8, one character at a time (RFC 3629). Thread: any. Pure. */
#ifndef BELFRY_BASE_UTF8_H
#define BELFRY_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stores the character at text[0, len) in *out and returns its length in bytes. Returns 0 if it is invalid: an overlong
 * form, a surrogate, beyond U+10FFFF, truncated, or len 0. */
static inline size_t belfry_utf8_next(const char *text, size_t len, uint32_t *out)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (len == 0)
        return 0;
    uint8_t first = (uint8_t)text[0];
    size_t n = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    if (n == 0 || n > len)
        return 0;
    uint32_t code = n == 1 ? first : first & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (((uint8_t)text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((uint8_t)text[i] & 0x3f);
    }
    if (code < smallest[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *out = code;
    return n;
}

static inline bool belfry_utf8_valid(const char *text, size_t len)
{
    uint32_t code;
    for (size_t n; len > 0; text += n, len -= n)
        if ((n = belfry_utf8_next(text, len, &code)) == 0)
            return false;
    return true;
}

/* C0, DEL or C1: a terminal may take it for a command. */
static inline bool belfry_utf8_is_control(uint32_t code)
{
    bool turns = code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                 (code >= 0x2066 && code <= 0x2069);
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || turns;
}

#define BELFRY_UTF8_MAX 4

/* Writes a valid character and returns its length in bytes. */
static inline size_t belfry_utf8_write(uint32_t code, char out[BELFRY_UTF8_MAX])
{
    static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned more = code < 0x80      ? 0
                    : code < 0x800   ? 1
                    : code < 0x10000 ? 2
                                     : 3; /* bytes after the first, six bits each */
    out[0] = (char)(heads[more] | code >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
    return more + 1;
}

#endif
