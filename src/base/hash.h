/* src/base/hash.h: SipHash-1-3, a keyed hash: without the key, a peer cannot choose bytes that collide.
 * Thread: any. */
#ifndef BELFRY_BASE_HASH_H
#define BELFRY_BASE_HASH_H

#include <stdint.h>

#include "base/bytes.h"

struct belfry_hash_key {
    uint64_t k0, k1;
};

/* A key that no peer can guess. */
struct belfry_hash_key belfry_hash_key_draw(void);

uint64_t belfry_hash(struct belfry_hash_key key, struct belfry_bytes bytes);

/* Spreads an integer over 64 bits; for ids that we choose ourselves. */
static inline uint64_t belfry_hash_int(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
