/* src/base/xxh64.h: XXH64, a fast 64-bit hash against accidental damage. It has no secret key: where a peer chooses the
 * bytes and must not find collisions, use hash.h. Thread: any. */
#ifndef BELFRY_BASE_XXH64_H
#define BELFRY_BASE_XXH64_H

#include <stdint.h>

#include "base/bytes.h"

/* Follows the specification on machines of either byte order. */
uint64_t belfry_xxh64(uint64_t seed, struct belfry_bytes bytes);

#endif
