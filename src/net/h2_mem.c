/* src/net/h2_mem.c */
#include "net/h2_mem.h"

#include <stdlib.h>

static void *noted(bool *starved, void *ptr)
{
    if (ptr == NULL)
        *starved = true;
    return ptr;
}

static void *mem_malloc(size_t size, void *user)
{
    return noted(user, malloc(size));
}

static void mem_free(void *ptr, void *user)
{
    (void)user;
    free(ptr);
}

static void *mem_calloc(size_t n, size_t size, void *user)
{
    return noted(user, calloc(n, size));
}

static void *mem_realloc(void *ptr, size_t size, void *user)
{
    return noted(user, realloc(ptr, size));
}

nghttp2_mem belfry_h2_mem(bool *starved)
{
    return (nghttp2_mem){starved, mem_malloc, mem_free, mem_calloc, mem_realloc};
}
