/* src/json/json_alc.c */
#include "json/json_alc.h"

#include <stdlib.h>

static void *take(void *user, size_t size)
{
    (void)user;
    return malloc(size);
}

static void *retake(void *user, void *ptr, size_t old_size, size_t size)
{
    (void)user;
    (void)old_size;
    return realloc(ptr, size);
}

static void give(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

const yyjson_alc belfry_json_alc = {take, retake, give, NULL};
