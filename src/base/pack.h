/* src/base/pack.h: copying several texts into one allocation, one after the other. Thread: any. */
#ifndef BELFRY_BASE_PACK_H
#define BELFRY_BASE_PACK_H

#include "base/bytes.h"

/* Copies `bytes` to *to and advances *to. {NULL, 0} stays {NULL, 0}. */
static inline struct belfry_bytes belfry_pack(char **to, struct belfry_bytes bytes)
{
    if (bytes.data == NULL)
        return bytes;
    struct belfry_bytes copy = {*to, bytes.len};
    memcpy(*to, bytes.data, bytes.len);
    *to += bytes.len;
    return copy;
}

#endif
