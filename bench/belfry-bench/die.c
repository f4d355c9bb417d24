/* bench/belfry-bench/die.c */
#include "die.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("belfry-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void *must_have(void *memory)
{
    if (memory == NULL)
        die("out of memory");
    return memory;
}

void must(enum belfry_err err, const char *what)
{
    if (err != BELFRY_OK)
        die("%s: %s", what, belfry_errname(err));
}
