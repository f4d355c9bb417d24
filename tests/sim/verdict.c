/* tests/sim/verdict.c */
#include "sim/verdict.h"

#include <stdarg.h>
#include <stdio.h>

#include "sim/trace.h"

static char text[VERDICT_BYTES];

void verdict_clear(void)
{
    text[0] = '\0';
}

void verdict_fail(const char *format, ...)
{
    if (text[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    TRACE("VIOLATION", "%s", text);
}

bool verdict_failed(void)
{
    return text[0] != '\0';
}

const char *verdict_text(void)
{
    return text;
}
