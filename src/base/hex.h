/* src/base/hex.h: hexadecimal digits, as percent escapes have them. Thread: any. */
#ifndef BELFRY_BASE_HEX_H
#define BELFRY_BASE_HEX_H

/* -1 when `c` is no hexadecimal digit. */
static inline int belfry_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

#endif
