/* src/daemon/tls_memory.c */
#include "daemon/tls_memory.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sanitizer.h"

#define NONE UINT16_MAX
static_assert(TLS_MEMORY_BLOCKS < NONE, "a block has a number of 16 bits");
static_assert(TLS_MEMORY_BLOCK % 4096 == 0, "blocks are pages");

/* Fixed by tls_memory_reserve(). */
static char *range; /* NULL: there is none */

/* Under mu: blocks that no thread keeps. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static uint16_t next_free[TLS_MEMORY_BLOCKS];
static uint16_t first_free = NONE;
static size_t n_used; /* blocks from here on were never taken */

static _Thread_local struct {
    uint16_t blocks[TLS_MEMORY_KEPT];
    unsigned n;
} kept;

bool tls_memory_has(const void *block)
{
    uintptr_t from = (uintptr_t)range, at = (uintptr_t)block;
    return range != NULL && at >= from && at - from < (size_t)TLS_MEMORY_BLOCKS * TLS_MEMORY_BLOCK;
}

static uint16_t take_shared(void)
{
    pthread_mutex_lock(&mu);
    uint16_t number = first_free;
    if (number != NONE)
        first_free = next_free[number];
    else if (n_used < TLS_MEMORY_BLOCKS)
        number = (uint16_t)n_used++;
    pthread_mutex_unlock(&mu);
    return number;
}

static void give_back(uint16_t number)
{
    madvise(range + (size_t)number * TLS_MEMORY_BLOCK, TLS_MEMORY_BLOCK, MADV_DONTNEED);
    pthread_mutex_lock(&mu);
    next_free[number] = first_free;
    first_free = number;
    pthread_mutex_unlock(&mu);
}

void *tls_memory_alloc(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    if (size == 0)
        return NULL;
    if (size < TLS_MEMORY_LEAST || size > TLS_MEMORY_BLOCK || range == NULL)
        return malloc(size);
    uint16_t number = kept.n > 0 ? kept.blocks[--kept.n] : take_shared();
    return number != NONE ? range + (size_t)number * TLS_MEMORY_BLOCK : malloc(size);
}

void tls_memory_free(void *block, const char *file, int line)
{
    (void)file, (void)line;
    if (!tls_memory_has(block)) {
        free(block);
        return;
    }
    uint16_t number = (uint16_t)((size_t)((char *)block - range) / TLS_MEMORY_BLOCK);
    if (kept.n < TLS_MEMORY_KEPT)
        kept.blocks[kept.n++] = number;
    else
        give_back(number);
}

void *tls_memory_realloc(void *block, size_t size, const char *file, int line)
{
    if (block == NULL)
        return tls_memory_alloc(size, file, line);
    if (size == 0) {
        tls_memory_free(block, file, line);
        return NULL;
    }
    if (!tls_memory_has(block))
        return realloc(block, size);
    if (size <= TLS_MEMORY_BLOCK)
        return block;
    void *larger = malloc(size);
    if (larger != NULL) {
        memcpy(larger, block, TLS_MEMORY_BLOCK);
        tls_memory_free(block, file, line);
    }
    return larger;
}

/* Addresses only: a page costs memory when it is written to. */
void tls_memory_reserve(void)
{
    void *got = mmap(NULL, (size_t)TLS_MEMORY_BLOCKS * TLS_MEMORY_BLOCK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    range = got != MAP_FAILED ? got : NULL;
}

void tls_memory_begin(void)
{
    if (BELFRY_HAS_SANITIZER)
        return;
    tls_memory_reserve();
    if (range != NULL)
        (void)CRYPTO_set_mem_functions(tls_memory_alloc, tls_memory_realloc,
                                       tls_memory_free); /* or all stays as it is */
}
