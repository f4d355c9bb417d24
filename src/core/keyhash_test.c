/* src/core/keyhash_test.c */
#include "core/keyhash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEED 3u

static uint64_t hash_alone(const struct keyhash_secret *secret, const char *data, size_t len, unsigned kind)
{
    struct keyhash hash;
    keyhash_begin(&hash, secret, belfry_bytes_of(data, len));
    return keyhash_at(&hash, len, kind);
}

static void prefix_of_a_key_has_the_hash_it_has_alone(void **state)
{
    (void)state;
    struct keyhash_secret secret = keyhash_secret(SEED);
    struct belfry_rng rng = {SEED};
    for (size_t len = 0; len < 100; len++) {
        char *key = malloc(len + 1); /* exact blocks, so that a sanitizer sees a read behind the end */
        for (size_t i = 0; i < len; i++)
            key[i] = (char)belfry_rng_next(&rng);
        struct keyhash pass;
        keyhash_begin(&pass, &secret, belfry_bytes_of(key, len));
        for (size_t at = 0; at <= len; at += 1 + belfry_rng_below(&rng, 9)) {
            char *alone = malloc(at + 1);
            memcpy(alone, key, at);
            assert_true(keyhash_at(&pass, at, 1) == hash_alone(&secret, alone, at, 1));
            free(alone);
        }
        free(key);
    }
}

static void lengths_kinds_and_secrets_make_different_hashes(void **state)
{
    (void)state;
    struct keyhash_secret secret = keyhash_secret(SEED), other = keyhash_secret(SEED + 1);
    static const char zeroes[64];
    uint64_t seen[2 * sizeof(zeroes)];
    size_t n = 0;
    for (size_t len = 0; len < sizeof(zeroes); len++) {
        for (unsigned kind = 0; kind < 2; kind++) {
            uint64_t hash = hash_alone(&secret, zeroes, len, kind);
            assert_true(hash != hash_alone(&other, zeroes, len, kind));
            for (size_t i = 0; i < n; i++)
                assert_true(seen[i] != hash);
            seen[n++] = hash;
        }
    }
}

/* Keys that differ in a few low bits of one byte fall into all buckets. */
static void low_bits_are_spread(void **state)
{
    (void)state;
    struct keyhash_secret secret = keyhash_secret(SEED);
    unsigned buckets[64] = {0};
    for (unsigned i = 0; i < 6400; i++) {
        char key[16] = "/registry/0000";
        for (unsigned digit = 0, left = i; digit < 4; digit++, left /= 10)
            key[13 - digit] = (char)('0' + left % 10);
        buckets[hash_alone(&secret, key, 14, 0) % 64]++;
    }
    for (size_t i = 0; i < 64; i++)
        assert_in_range(buckets[i], 50, 160); /* 100 on average, a deviation is 10 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefix_of_a_key_has_the_hash_it_has_alone),
        cmocka_unit_test(lengths_kinds_and_secrets_make_different_hashes),
        cmocka_unit_test(low_bits_are_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
