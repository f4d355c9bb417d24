/* src/core/keyhash.h
 *
 * keyhash: the hash of a key and, in the same pass, of any of its prefixes.
 *
 * A polynomial over the field of 2^61 - 1 at a secret point, seven bytes per step; what is left over at the length
 * asked for goes in as one last step, with a bit above it, and does not disturb the pass. Two different runs of at most
 * n bytes collide with a probability of about n / 7 in 2^61, even if an attacker chose them, as long as the point is
 * secret.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_CORE_KEYHASH_H
#define BELFRY_CORE_KEYHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/rng.h"

#define KEYHASH_PRIME (((uint64_t)1 << 61) - 1)
#define KEYHASH_STEP  7

__extension__ typedef unsigned __int128 keyhash_wide;

struct keyhash_secret {
    uint64_t point; /* in [2, prime) */
    uint64_t salt;
};

/* A pass over a key. Lengths are asked for in ascending order. */
struct keyhash {
    const struct keyhash_secret *secret;
    struct belfry_bytes key;
    uint64_t sum;
    size_t at; /* bytes in the sum, a multiple of the step */
};

static inline struct keyhash_secret keyhash_secret(uint64_t seed)
{
    struct belfry_rng rng = {seed};
    uint64_t point = belfry_rng_below(&rng, KEYHASH_PRIME - 2) + 2;
    return (struct keyhash_secret){point, belfry_rng_next(&rng)};
}

static inline uint64_t keyhash_step(const struct keyhash_secret *secret, uint64_t sum, uint64_t block)
{
    keyhash_wide product = (keyhash_wide)sum * secret->point + block;
    uint64_t folded = (uint64_t)(product & KEYHASH_PRIME) + (uint64_t)(product >> 61);
    return folded >= KEYHASH_PRIME ? folded - KEYHASH_PRIME : folded;
}

static inline void keyhash_begin(struct keyhash *hash, const struct keyhash_secret *secret, struct belfry_bytes key)
{
    *hash = (struct keyhash){.secret = secret, .key = key, .sum = 1}; /* from 0, leading zeroes would not count */
}

/* Up to seven bytes as a number: only equal runs on this machine need to agree. */
static inline uint64_t keyhash_load(const struct keyhash *hash, size_t n)
{
    uint64_t block = 0;
    if (hash->key.len - hash->at >= sizeof(block)) {
        memcpy(&block, hash->key.data + hash->at, sizeof(block));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        block = __builtin_bswap64(block);
#endif
        return block & (((uint64_t)1 << 8 * n) - 1);
    }
    for (size_t i = 0; i < n; i++)
        block |= (uint64_t)(uint8_t)hash->key.data[hash->at + i] << 8 * i;
    return block;
}

/* The hash of the first `len` bytes; len is at most the key's and at least that of the call before. `kind`, below 8,
 * makes different hashes of the same bytes. */
static inline uint64_t keyhash_at(struct keyhash *hash, size_t len, unsigned kind)
{
    for (; len - hash->at >= KEYHASH_STEP; hash->at += KEYHASH_STEP)
        hash->sum = keyhash_step(hash->secret, hash->sum, keyhash_load(hash, KEYHASH_STEP));
    size_t left = len - hash->at;
    uint64_t last = keyhash_step(hash->secret, hash->sum, keyhash_load(hash, left) | (uint64_t)1 << 8 * left);
    struct belfry_rng mix = {(last | (uint64_t)kind << 61) ^ hash->secret->salt}; /* all bits into the low ones */
    return belfry_rng_next(&mix);
}

#endif
