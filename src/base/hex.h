/* src/base/hex.h: hexadecimal digits, as in percent escapes. Thread: any. */
#ifndef BELFRY_BASE_HEX_H
#define BELFRY_BASE_HEX_H

/* The value of a digit; -1 if `c` is not one. */
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
