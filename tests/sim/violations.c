/* tests/sim/violations.c */
#include "sim/violations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void violations_add_list(struct violations *violations, const char *format, va_list args)
{
    char text[VIOLATIONS_TEXT_MAX];
    vsnprintf(text, sizeof(text), format, args);
    if (violations->n < VIOLATIONS_KEPT && (violations->kept[violations->n] = strdup(text)) == NULL)
        abort();
    violations->n++;
    if (violations->report != NULL)
        violations->report(violations->user, text);
}

void violations_add(struct violations *violations, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    violations_add_list(violations, format, args);
    va_end(args);
}

void violations_fini(struct violations *violations)
{
    for (size_t i = 0; i < VIOLATIONS_KEPT; i++)
        free(violations->kept[i]);
}
