/* src/base/log.h
 *
 * log: the library's log hook. The library never prints: it calls the hook that its owner set, if any.
 *
 * A line is an event name and key=value text: event "link_lost", text `endpoint=http://... why="connection refused"`.
 * error: someone must act. warn: degraded, going on. info: lifecycle. debug: the rest.
 *
 * Thread: the hook is called on the thread that logs.
 */
#ifndef BELFRY_BASE_LOG_H
#define BELFRY_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum belfry_log_level { BELFRY_LOG_ERROR, BELFRY_LOG_WARN, BELFRY_LOG_INFO, BELFRY_LOG_DEBUG };

typedef void (*belfry_log_line_fn)(enum belfry_log_level level, const char *event, const char *text, void *user);

struct belfry_log {
    belfry_log_line_fn line; /* NULL: silent */
    void *user;
    /* Lines above this level are not formatted. It may change at any time: relaxed, it publishes nothing. */
    _Atomic enum belfry_log_level level;
};

/* Thins out lines that a peer can cause repeatedly: true for the n-th time, from 1 on, if n is 1, 2, 4, 8, ... */
static inline bool belfry_log_is_due(uint64_t n)
{
    return (n & (n - 1)) == 0;
}

#define BELFRY_LOG_TEXT 640 /* bytes per line, with NUL: room for nine tier names of the longest kind */

/* Formats one line of less than BELFRY_LOG_TEXT bytes, cutting the rest, and calls the hook. `log` may be NULL.
 * Whatever the arguments hold, the text has the pairs that the format names: in a value that the format puts in quotes,
 * quotes and backslashes of arguments are escaped with a backslash; an argument that is a whole value without quotes
 * gets them when it has blanks, quotes or "=". A value that is cut is closed. */
__attribute__((format(printf, 4, 5))) void belfry_logf(const struct belfry_log *log, enum belfry_log_level level,
                                                       const char *event, const char *format, ...);

#endif
