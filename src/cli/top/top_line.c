/* src/cli/top/top_line.c */
#include "cli/top/top_line.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

#define GAP "   "

void top_line_begin(struct top_line *line, size_t columns)
{
    line->len = line->columns = 0;
    line->max = columns == 0 || columns > TOP_LINE ? TOP_LINE : columns;
}

/* The columns that a text takes. */
static size_t width_of(const char *text)
{
    size_t left = strlen(text), columns = 0;
    while (left > 0) {
        uint32_t code;
        size_t n = belfry_utf8_next(text, left, &code), step = n == 0 ? 1 : n;
        columns++;
        text += step;
        left -= step;
    }
    return columns;
}

static void add_bytes(struct top_line *line, const char *text)
{
    size_t left = strlen(text);
    while (left > 0 && line->columns < line->max && line->len + 4 < sizeof(line->text)) {
        uint32_t code;
        size_t n = belfry_utf8_next(text, left, &code), step = n == 0 ? 1 : n;
        if (n > 0 && !belfry_utf8_is_control(code)) {
            memcpy(line->text + line->len, text, step);
            line->len += step;
        } else {
            line->text[line->len++] = '?';
        }
        line->columns++;
        text += step;
        left -= step;
    }
}

static void add_blanks(struct top_line *line, size_t n)
{
    for (; n > 0; n--)
        add_bytes(line, " ");
}

void top_line_add(struct top_line *line, const char *format, ...)
{
    char text[TOP_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    add_bytes(line, text);
}

void top_line_field(struct top_line *line, const char *format, ...)
{
    char text[TOP_LINE];
    size_t gap = line->columns > 0 ? strlen(GAP) : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (line->columns + gap + width_of(text) > line->max)
        return;
    add_blanks(line, gap);
    add_bytes(line, text);
}

void top_line_cell(struct top_line *line, const char *text, size_t width, enum top_align align)
{
    size_t max = line->max, own = width_of(text);
    if (line->columns > 0)
        add_blanks(line, 2);
    size_t from = line->columns;
    line->max = from + width < max ? from + width : max;
    if (align == TOP_RIGHT && own < width)
        add_blanks(line, width - own);
    add_bytes(line, text);
    line->max = max;
    if (line->columns < from + width)
        add_blanks(line, from + width - line->columns);
}

void top_line_end(struct top_line *line, FILE *out, const char *line_end)
{
    while (line->len > 0 && line->text[line->len - 1] == ' ')
        line->len--;
    fwrite(line->text, 1, line->len, out);
    fputs(line_end, out);
}
