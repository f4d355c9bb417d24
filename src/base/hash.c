/* src/base/hash.c: SipHash with one compression and three finalisation rounds (Aumasson, Bernstein 2012). */
#include "base/hash.h"

#include <sys/random.h>

#include "base/clock.h"

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotl(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 = rotl(s->v2, 32);
}

static void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

struct belfry_hash_key belfry_hash_key_draw(void)
{
    struct belfry_hash_key key;
    if (getrandom(&key, sizeof(key), 0) != sizeof(key)) /* a kernel without it: the best that is left */
        key = (struct belfry_hash_key){belfry_clock_ns(), (uint64_t)(uintptr_t)&key};
    return key;
}

uint64_t belfry_hash(struct belfry_hash_key key, struct belfry_bytes bytes)
{
    struct sip s = {key.k0 ^ 0x736f6d6570736575u, key.k1 ^ 0x646f72616e646f6du, key.k0 ^ 0x6c7967656e657261u,
                    key.k1 ^ 0x7465646279746573u};
    const unsigned char *p = (const unsigned char *)bytes.data;
    size_t whole = bytes.len / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word = 0;
        for (int b = 7; b >= 0; b--)
            word = word << 8 | p[i + (size_t)b];
        sip_word(&s, word);
    }
    uint64_t last = (uint64_t)bytes.len << 56;
    for (size_t i = whole; i < bytes.len; i++)
        last |= (uint64_t)p[i] << (8 * (i - whole));
    sip_word(&s, last);
    s.v2 ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
