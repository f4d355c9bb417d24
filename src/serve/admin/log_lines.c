/* src/serve/admin/log_lines.c */
#include "serve/admin/log_lines.h"

#include <stdio.h>

#include "json/json.h"

enum belfry_err log_lines_init(struct log_lines *lines)
{
    *lines = (struct log_lines){0};
    return pthread_mutex_init(&lines->mu, NULL) == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

void log_lines_fini(struct log_lines *lines)
{
    pthread_mutex_destroy(&lines->mu);
}

void log_lines_add(struct log_lines *lines, uint64_t time_ms, enum belfry_log_level level, const char *event,
                   const char *text)
{
    if (level > BELFRY_LOG_WARN)
        return;
    pthread_mutex_lock(&lines->mu);
    struct log_line *line = &lines->lines[lines->next++ % LOG_LINES];
    line->time_ms = time_ms;
    line->level = level;
    snprintf(line->event, sizeof(line->event), "%s", event);
    snprintf(line->text, sizeof(line->text), "%s", text);
    pthread_mutex_unlock(&lines->mu);
}

uint64_t log_lines_next(struct log_lines *lines)
{
    pthread_mutex_lock(&lines->mu);
    uint64_t next = lines->next;
    pthread_mutex_unlock(&lines->mu);
    return next;
}

/* False: the line has left. */
static bool copy_line(struct log_lines *lines, uint64_t number, struct log_line *out)
{
    pthread_mutex_lock(&lines->mu);
    bool is_there = lines->next - number <= LOG_LINES;
    if (is_there)
        *out = lines->lines[number % LOG_LINES];
    pthread_mutex_unlock(&lines->mu);
    return is_there;
}

enum belfry_err log_lines_write(struct log_lines *lines, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    uint64_t next = log_lines_next(lines);
    struct log_line line;
    belfry_json_open(&json, NULL, '{');
    belfry_json_uint(&json, "kept", LOG_LINES);
    belfry_json_uint(&json, "next", next);
    belfry_json_open(&json, "lines", '[');
    for (uint64_t i = 1; i <= next && copy_line(lines, next - i, &line); i++) {
        belfry_json_open(&json, NULL, '{');
        belfry_json_uint(&json, "number", next - i);
        belfry_json_uint(&json, "time_ms", line.time_ms);
        belfry_json_str(&json, "level", line.level == BELFRY_LOG_ERROR ? "error" : "warn");
        belfry_json_str(&json, "event", line.event);
        belfry_json_str(&json, "text", line.text);
        belfry_json_close(&json, '}');
    }
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}
