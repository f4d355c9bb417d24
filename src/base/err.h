/* src/base/err.h: the project's errors (the table is public: belfry/err.h), and helpers for our own code. */
#ifndef BELFRY_BASE_ERR_H
#define BELFRY_BASE_ERR_H

#include <belfry/err.h>

/* Spells out that an error is ignored; say why beside the call. */
static inline void belfry_ignore(enum belfry_err err)
{
    (void)err;
}

#endif
