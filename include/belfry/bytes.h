/* belfry/bytes.h: a run of bytes that somebody else owns. Keys and values are bytes, not strings: they may hold
 * zeroes and need no terminator. data may be NULL only when len is 0. */
#ifndef BELFRY_BYTES_H
#define BELFRY_BYTES_H

#include <stddef.h>

struct belfry_bytes {
    const char *data;
    size_t len;
};

#endif
