/* src/net/percent.c */
#include "net/percent.h"

#include <stdint.h>

#include "base/hex.h"

/* The byte that the escape at the front of `in` stands for; -1 when there is none to decode. */
static int escaped_byte(struct belfry_bytes in)
{
    if (in.len < 3 || in.data[0] != '%')
        return -1;
    int high = belfry_hex_digit(in.data[1]);
    int low = belfry_hex_digit(in.data[2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0))
        return -1;
    return high * 16 + low;
}

size_t belfry_percent_decode(struct belfry_bytes in, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < in.len; n++) {
        int byte = escaped_byte(belfry_bytes_of(in.data + i, in.len - i));
        out[n] = byte < 0 ? in.data[i] : (char)byte;
        i += byte < 0 ? 1 : 3;
    }
    out[n] = '\0';
    return n;
}

size_t belfry_percent_encode(struct belfry_bytes in, char *out)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    for (size_t i = 0; i < in.len; i++) {
        uint8_t byte = (uint8_t)in.data[i];
        if (byte >= 0x20 && byte <= 0x7e && byte != '%') {
            out[n++] = in.data[i];
            continue;
        }
        out[n++] = '%';
        out[n++] = hex[byte >> 4];
        out[n++] = hex[byte & 15];
    }
    out[n] = '\0';
    return n;
}
