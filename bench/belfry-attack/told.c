/* bench/belfry-attack/told.c */
#include "told.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#define SHORT_NUMBER 2 /* digits that stay: codes and statuses are told apart, see below */
#define STATUS       3 /* digits of an HTTP status, which stay at the start of a text */

/* In place. A number in the first word, such as "HTTP 429", stays. */
static void told_simplify(char *text)
{
    char *to = text;
    for (const char *at = text; *at != '\0';) {
        size_t digits = strspn(at, "0123456789");
        if (digits > SHORT_NUMBER && !(digits == STATUS && to - text <= (ptrdiff_t)strlen("HTTP "))) {
            *to++ = '#';
            at += digits;
        } else if (digits > 0) {
            memmove(to, at, digits);
            to += digits;
            at += digits;
        } else {
            *to++ = isprint((unsigned char)*at) && *at != '"' && *at != '\\' ? *at : '.';
            at++;
        }
    }
    *to = '\0';
}

void told_add(struct told *told, const char *format, ...)
{
    char text[TOLD_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    told_simplify(text);
    for (size_t i = 0; i < told->n_rows; i++)
        if (strcmp(told->rows[i].text, text) == 0) {
            told->rows[i].count++;
            return;
        }
    if (told->n_rows == TOLD_ROWS) {
        told->others++;
        return;
    }
    struct told_row *row = &told->rows[told->n_rows++];
    memcpy(row->text, text, sizeof(text));
    row->count = 1;
}

void told_write(const struct told *told, FILE *out)
{
    fputc('{', out);
    for (size_t i = 0; i < told->n_rows; i++)
        fprintf(out, "%s\"%s\": %llu", i > 0 ? ", " : "", told->rows[i].text, (unsigned long long)told->rows[i].count);
    if (told->others > 0)
        fprintf(out, "%s\"others\": %llu", told->n_rows > 0 ? ", " : "", (unsigned long long)told->others);
    fputc('}', out);
}
