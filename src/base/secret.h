/* src/base/secret.h: text that must not stay in memory after it is freed. Thread: any. */
#ifndef BELFRY_BASE_SECRET_H
#define BELFRY_BASE_SECRET_H

#include <stdlib.h>
#include <string.h>

/* Wipes a string, then frees it. NULL is fine, as for free(). */
static inline void belfry_secret_free(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

#endif
