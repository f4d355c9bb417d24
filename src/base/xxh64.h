/* src/base/xxh64.h: XXH64, a fast hash against accidents: 64 bits, no key that could stay secret. Where a peer chooses
 * the bytes and must not find two that collide, use hash.h. Thread: any. */
#ifndef BELFRY_BASE_XXH64_H
#define BELFRY_BASE_XXH64_H

#include <stdint.h>

#include "base/bytes.h"

/* As the algorithm's specification has it, on machines of either byte order. */
uint64_t belfry_xxh64(uint64_t seed, struct belfry_bytes bytes);

#endif
