/* src/serve/admin/text.c */
#include "serve/admin/text.h"

#include <stdarg.h>
#include <stdio.h>

void text_say(struct text *text, const char *format, ...)
{
    char line[TEXT_LINE];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (text->err == BELFRY_OK)
        text->err = belfry_buf_append(text->buf, line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
}
