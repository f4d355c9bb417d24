/* tests/storm/chance.c */
#define OPENSSL_SUPPRESS_DEPRECATED /* its successor takes a provider of algorithms, for the same effect */
#include "storm/chance.h"

#include <openssl/rand.h>
#include <string.h>
#include <sys/random.h>

#include "base/rng.h"
#include "storm/verdict.h"

static struct belfry_rng rng;

static void draw(void *to, size_t len)
{
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t drawn = belfry_rng_next(&rng);
        memcpy((char *)to + at, &drawn, len - at < sizeof(drawn) ? len - at : sizeof(drawn));
    }
}

static int on_bytes(unsigned char *to, int len)
{
    draw(to, (size_t)len);
    return 1;
}

static int on_status(void)
{
    return 1;
}

void chance_begin(uint64_t seed)
{
    static const RAND_METHOD method = {.bytes = on_bytes, .pseudorand = on_bytes, .status = on_status};
    rng.state = seed;
    verdict_must(RAND_set_rand_method(&method) == 1, "OpenSSL's generator");
}

/* In the place of libc's, for shared libraries, too. */
__attribute__((visibility("default"))) ssize_t getrandom(void *to, size_t len, unsigned flags)
{
    (void)flags;
    draw(to, len);
    return (ssize_t)len;
}
