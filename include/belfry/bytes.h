/* belfry/bytes.h: a run of bytes that the struct does not own. Keys and values are bytes, not strings: they may contain
 * zeroes and need no terminator. data may be NULL only when len is 0. */
#ifndef BELFRY_BYTES_H
#define BELFRY_BYTES_H

#include <stddef.h>
#include <string.h>

struct belfry_bytes {
    const char *data;
    size_t len;
};

/* The bytes of a C string, without the zero at its end. They point into `text`, which must outlive them. */
static inline struct belfry_bytes belfry_text(const char *text)
{
    struct belfry_bytes bytes = {text, strlen(text)};
    return bytes;
}

#endif
