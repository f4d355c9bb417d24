/* tests/sim/trace.c */
#include "sim/trace.h"

#include <stdarg.h>
#include <string.h>

#define LINES 400
#define LINE  240

enum trace_mode trace_mode;

static const uint64_t *now;
static char lines[LINES][LINE];
static size_t n_lines;

void trace_start(enum trace_mode mode, const uint64_t *now_ms)
{
    trace_mode = mode;
    now = now_ms;
    n_lines = 0;
}

void trace_line(const char *who, const char *format, ...)
{
    char *line = lines[n_lines++ % LINES];
    int at = snprintf(line, LINE, "%8llu %-10s ", (unsigned long long)*now, who);
    va_list args;
    va_start(args, format);
    vsnprintf(line + at, LINE - (size_t)at, format, args);
    va_end(args);
    if (trace_mode == TRACE_PRINT)
        printf("%s\n", line);
}

void trace_dump(FILE *to)
{
    size_t from = n_lines > LINES ? n_lines - LINES : 0;
    for (size_t i = from; i < n_lines; i++)
        fprintf(to, "%s\n", lines[i % LINES]);
}
