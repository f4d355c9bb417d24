/* src/daemon/logline.h
 *
 * logline: one line of the log as bytes, logfmt or JSON. `text` is key=value pairs as belfry_logf() writes them: in a
 * value in double quotes, quotes and backslashes have a backslash before them. What is no pair becomes "msg".
 *
 * Thread: any. Memory: none; a text that belfry_logf() would have cut is cut, the line stays whole.
 */
#ifndef BELFRY_DAEMON_LOGLINE_H
#define BELFRY_DAEMON_LOGLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define LOGLINE_MAX   4096 /* belfry_logf() gives 639 bytes, which JSON makes 3,834 of at worst */
#define LOGLINE_EVENT 48

struct logline_form {
    bool json;
    bool journal; /* <N> before the line, and no time */
};

/* Writes the line, its end included, and returns its length. */
size_t logline_format(const struct logline_form *form, uint64_t now_ms, enum belfry_log_level level, const char *event,
                      const char *text, char out[LOGLINE_MAX]);

#endif
