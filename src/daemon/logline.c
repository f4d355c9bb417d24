/* src/daemon/logline.c */
#include "daemon/logline.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"

#define END_ROOM 4 /* what closes a line always fits */
#define TS_LEN   32

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const int journal_levels[] = {3, 4, 6, 7}; /* syslog(3) */

struct line {
    char *at;
    size_t len;
};

static void logline_put(struct line *line, const char *data, size_t len)
{
    if (len > LOGLINE_MAX - END_ROOM - line->len)
        return;
    memcpy(line->at + line->len, data, len);
    line->len += len;
}

__attribute__((format(printf, 2, 3))) static void putf(struct line *line, const char *format, ...)
{
    char piece[128];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(piece, sizeof(piece), format, args);
    va_end(args);
    logline_put(line, piece, (size_t)len < sizeof(piece) ? (size_t)len : sizeof(piece) - 1);
}

static void write_ts(uint64_t now_ms, char out[TS_LEN])
{
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, TS_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, TS_LEN - n, ".%03uZ", (unsigned)(now_ms % 1000));
}

/* ---- logfmt ---- */

static void format_logfmt(struct line *line, const char *ts, const char *level, const char *event, const char *text)
{
    if (ts != NULL)
        putf(line, "ts=%s ", ts);
    putf(line, "level=%s event=%.*s", level, LOGLINE_EVENT - 1, event);
    if (*text != '\0')
        logline_put(line, " ", 1);
    for (; *text != '\0'; text++)
        logline_put(line, (unsigned char)*text < 0x20 || *text == 0x7f ? "?" : text, 1);
}

/* ---- JSON ---- */

static void put_char(struct line *line, const char *at, size_t n, uint32_t code)
{
    if (n == 0)
        logline_put(line, "\\ufffd", 6);
    else if (code == '"' || code == '\\') {
        char pair[2] = {'\\', (char)code};
        logline_put(line, pair, 2);
    } else if (code < 0x20 || code == 0x7f)
        putf(line, "\\u%04x", (unsigned)code);
    else
        logline_put(line, at, n);
}

enum escapes { ESCAPES_NONE, ESCAPES_BACKSLASH };

/* With ESCAPES_BACKSLASH, a backslash before a quote or another one is not part of the text. */
static void put_string(struct line *line, const char *text, size_t len, enum escapes escapes)
{
    logline_put(line, "\"", 1);
    while (len > 0) {
        uint32_t code = 0;
        if (escapes == ESCAPES_BACKSLASH && len > 1 && text[0] == '\\' && (text[1] == '"' || text[1] == '\\')) {
            text++;
            len--;
        }
        size_t n = belfry_utf8_next(text, len, &code), used = n == 0 ? 1 : n;
        put_char(line, text, n, code);
        text += used;
        len -= used;
    }
    logline_put(line, "\"", 1);
}

/* A whole number as JSON writes it, and as every reader of JSON keeps it: up to 15 digits. */
static bool is_number(const char *text, size_t len)
{
    size_t sign = len > 0 && text[0] == '-';
    size_t n_digits = strspn(text + sign, "0123456789");
    return n_digits > 0 && n_digits <= 15 && sign + n_digits == len && (text[sign] != '0' || (n_digits == 1 && !sign));
}

/* The bytes of a value in quotes, the closing one included. */
static size_t quoted_len(const char *text)
{
    for (size_t i = 1; text[i] != '\0'; i++) {
        if (text[i] == '"')
            return i + 1;
        i += text[i] == '\\' && text[i + 1] != '\0';
    }
    return strlen(text); /* cut */
}

/* The value of a pair; returns its bytes in `text`. */
static size_t put_value(struct line *line, const char *text)
{
    if (*text != '"') {
        size_t len = strcspn(text, " ");
        if (is_number(text, len))
            logline_put(line, text, len);
        else
            put_string(line, text, len, ESCAPES_NONE);
        return len;
    }
    size_t len = quoted_len(text);
    bool closed = len > 1 && text[len - 1] == '"';
    put_string(line, text + 1, len - 1 - closed, ESCAPES_BACKSLASH);
    return len;
}

static void put_name(struct line *line, const char *text, size_t len)
{
    logline_put(line, ",", 1);
    put_string(line, text, len, ESCAPES_NONE);
    logline_put(line, ":", 1);
}

static void put_pairs(struct line *line, const char *text)
{
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        size_t len = strcspn(text, "= ");
        if (text[len] != '=' || len == 0) {
            put_name(line, "msg", 3);
            put_string(line, text, strlen(text), ESCAPES_NONE);
            return;
        }
        put_name(line, text, len);
        text += len + 1;
        text += put_value(line, text);
    }
}

static void format_json(struct line *line, const char *ts, const char *level, const char *event, const char *text)
{
    logline_put(line, "{", 1);
    if (ts != NULL)
        putf(line, "\"ts\":\"%s\",", ts);
    putf(line, "\"level\":\"%s\",\"event\":", level);
    put_string(line, event, strnlen(event, LOGLINE_EVENT - 1), ESCAPES_NONE);
    put_pairs(line, text);
    line->at[line->len++] = '}';
}

size_t logline_format(const struct logline_form *form, uint64_t now_ms, enum belfry_log_level level, const char *event,
                      const char *text, char out[LOGLINE_MAX])
{
    struct line line = {.at = out};
    char ts[TS_LEN], bounded[BELFRY_LOG_TEXT];
    snprintf(bounded, sizeof(bounded), "%s", text);
    write_ts(now_ms, ts);
    if (form->journal)
        putf(&line, "<%d>", journal_levels[level]);
    (form->json ? format_json : format_logfmt)(&line, form->journal ? NULL : ts, level_names[level], event, bounded);
    line.at[line.len++] = '\n';
    return line.len;
}
