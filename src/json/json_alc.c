/* src/json/json_alc.c */
#include "json/json_alc.h"

#include <stdlib.h>

static void *alc_malloc(void *user, size_t size)
{
    (void)user;
    return malloc(size);
}

static void *alc_realloc(void *user, void *ptr, size_t old_size, size_t size)
{
    (void)user;
    (void)old_size;
    return realloc(ptr, size);
}

static void alc_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

const yyjson_alc belfry_json_alc = {alc_malloc, alc_realloc, alc_free, NULL};
