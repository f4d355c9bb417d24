/* src/base/log.c */
#include "base/log.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define CLOSING 2 /* a quote and NUL always fit */

struct log_text {
    char at[BELFRY_LOG_TEXT];
    size_t len;
    bool is_cut;
};

/* Nothing follows what was cut. */
static void log_text_put(struct log_text *text, const char *bytes, size_t len)
{
    text->is_cut = text->is_cut || text->len + len + CLOSING > sizeof(text->at);
    if (text->is_cut)
        return;
    memcpy(text->at + text->len, bytes, len);
    text->len += len;
}

static void log_text_put_argument(struct log_text *text, const char *bytes, size_t len, bool is_quoted)
{
    for (size_t i = 0; i < len && !text->is_cut; i++) {
        bool is_escaped = is_quoted && (bytes[i] == '"' || bytes[i] == '\\');
        char pair[2] = {'\\', bytes[i]};
        log_text_put(text, is_escaped ? pair : &bytes[i], is_escaped ? 2 : 1);
    }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* How many bytes the first `len` bytes of the format become. */
static size_t printed_len(const char *format, size_t len, va_list args)
{
    char prefix[2 * BELFRY_LOG_TEXT];
    va_list copy;
    assert(len < sizeof(prefix));
    memcpy(prefix, format, len);
    prefix[len] = '\0';
    va_copy(copy, args);
    int n = vsnprintf(NULL, 0, prefix, copy);
    va_end(copy);
    return n > 0 ? (size_t)n : 0;
}
#pragma GCC diagnostic pop

/* A reader takes such a value for the end of the pair, or for another one. */
static bool needs_quotes(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (strchr(" \"=", bytes[i]) != NULL || (unsigned char)bytes[i] < ' ')
            return true;
    return false;
}

/* The format says where values begin and end; `whole` is what it printed. An argument can end no value: in quotes its
 * quotes and backslashes are escaped, and as a value without quotes it gets them when it needs them. */
static void log_text_write(struct log_text *text, const char *format, const char *whole, va_list args)
{
    bool is_open = false; /* a quote */
    size_t whole_len = strlen(whole);
    for (size_t i = 0; format[i] != '\0' && !text->is_cut;) {
        if (format[i] != '%' || format[i + 1] == '%') {
            log_text_put(text, &format[i], 1);
            is_open = is_open != (format[i] == '"' && !text->is_cut);
            i += format[i] == '%' ? 2 : 1;
            continue;
        }
        size_t end = i + strcspn(format + i, "diouxXeEfFgGaAcsp") + 1;
        size_t from = printed_len(format, i, args), to = printed_len(format, end, args);
        from = from < whole_len ? from : whole_len;
        to = to < whole_len ? to : whole_len;
        bool is_value = i > 0 && format[i - 1] == '=' && (format[end] == ' ' || format[end] == '\0');
        bool adds_quotes = !is_open && is_value && needs_quotes(whole + from, to - from);
        if (adds_quotes) {
            log_text_put(text, "\"", 1);
            is_open = !text->is_cut;
        }
        log_text_put_argument(text, whole + from, to - from, is_open);
        if (adds_quotes && !text->is_cut) {
            log_text_put(text, "\"", 1);
            is_open = text->is_cut;
        }
        i = end;
    }
    if (is_open && text->is_cut)
        text->at[text->len++] = '"';
    text->at[text->len] = '\0';
}

void belfry_logf(const struct belfry_log *log, enum belfry_log_level level, const char *event, const char *format, ...)
{
    if (log == NULL || log->line == NULL || level > atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    char whole[2 * BELFRY_LOG_TEXT];
    struct log_text text = {.len = 0};
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    vsnprintf(whole, sizeof(whole), format, args);
    log_text_write(&text, format, whole, again);
    va_end(again);
    va_end(args);
    log->line(level, event, text.at, log->user);
}
