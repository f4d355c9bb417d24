/* src/base/xxh64.c: written from the specification of XXH64 (xxHash fast digest algorithm, Collet, version 0.1.1): four
 * lanes of eight bytes each, folded into one, then the remaining bytes, then an avalanche. */
#include "base/xxh64.h"

#define PRIME_1 11400714785074694791u
#define PRIME_2 14029467366897019727u
#define PRIME_3 1609587929392839161u
#define PRIME_4 9650029242287828579u
#define PRIME_5 2870177450012600261u
#define STRIPE  32

static uint64_t rotl(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t read64(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static uint32_t read32(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

static uint64_t mix(uint64_t lane, uint64_t word)
{
    return rotl(lane + word * PRIME_2, 31) * PRIME_1;
}

static uint64_t fold(uint64_t hash, uint64_t lane)
{
    return (hash ^ mix(0, lane)) * PRIME_1 + PRIME_4;
}

static uint64_t hash_stripes(uint64_t seed, const char *p, const char *end)
{
    uint64_t a = seed + PRIME_1 + PRIME_2, b = seed + PRIME_2, c = seed, d = seed - PRIME_1;
    for (; p != end; p += STRIPE) {
        a = mix(a, read64(p));
        b = mix(b, read64(p + 8));
        c = mix(c, read64(p + 16));
        d = mix(d, read64(p + 24));
    }
    uint64_t hash = rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18);
    return fold(fold(fold(fold(hash, a), b), c), d);
}

static uint64_t hash_rest(uint64_t hash, const char *p, const char *end)
{
    for (; end - p >= 8; p += 8)
        hash = rotl(hash ^ mix(0, read64(p)), 27) * PRIME_1 + PRIME_4;
    if (end - p >= 4) {
        hash = rotl(hash ^ read32(p) * PRIME_1, 23) * PRIME_2 + PRIME_3;
        p += 4;
    }
    for (; p != end; p++)
        hash = rotl(hash ^ (unsigned char)*p * PRIME_5, 11) * PRIME_1;
    return hash;
}

uint64_t belfry_xxh64(uint64_t seed, struct belfry_bytes bytes)
{
    const char *p = bytes.len > 0 ? bytes.data : "", *end = p + bytes.len;
    const char *stripes = p + bytes.len / STRIPE * STRIPE;
    uint64_t hash = stripes != p ? hash_stripes(seed, p, stripes) : seed + PRIME_5;
    hash = hash_rest(hash + bytes.len, stripes, end);
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}
