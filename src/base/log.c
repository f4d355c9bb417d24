/* src/base/log.c */
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>

void belfry_logf(const struct belfry_log *log, enum belfry_log_level level, const char *event, const char *format, ...)
{
    if (log == NULL || log->line == NULL || level > atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    char text[BELFRY_LOG_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log->line(level, event, text, log->user);
}
