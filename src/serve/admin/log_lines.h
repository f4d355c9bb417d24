/* src/serve/admin/log_lines.h
 *
 * log_lines: the newest log lines of level warn and error, for /debug/log and the page.
 *
 * Thread: any; init and fini: its owner. The lock is held for the copy of a line.
 * Memory: its own, LOG_LINES times about 700 bytes; a line allocates nothing. A restart forgets all of it.
 */
#ifndef BELFRY_SERVE_ADMIN_LOG_LINES_H
#define BELFRY_SERVE_ADMIN_LOG_LINES_H

#include <pthread.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/log.h"

#define LOG_LINES       64
#define LOG_LINES_EVENT 48

struct log_line {
    uint64_t time_ms; /* Unix time */
    enum belfry_log_level level;
    char event[LOG_LINES_EVENT];
    char text[BELFRY_LOG_TEXT];
};

struct log_lines {
    /* under mu */
    pthread_mutex_t mu;
    uint64_t next; /* number of the next line; the newest LOG_LINES below it are there */
    struct log_line lines[LOG_LINES];
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err log_lines_init(struct log_lines *lines);
void log_lines_fini(struct log_lines *lines);

/* Keeps a line; one of another level than warn and error is ignored. What is too long is cut. */
void log_lines_add(struct log_lines *lines, uint64_t time_ms, enum belfry_log_level level, const char *event,
                   const char *text);

uint64_t log_lines_next(struct log_lines *lines); /* how many there were */

/* As one JSON object and a newline, the newest line first; "next" is how many there were since the start:
 * {"kept":64,"next":N,"lines":[{"number":N,"time_ms":N,"level":"warn","event":"..","text":".."},...]}
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err log_lines_write(struct log_lines *lines, struct belfry_buf *out);

#endif
