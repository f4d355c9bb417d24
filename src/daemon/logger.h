/* src/daemon/logger.h
 *
 * logger: log lines of all threads to stderr, one write(2) each: ts= level= event= and then what the line says. Under
 * journald (JOURNAL_STREAM) ts is left out and the level goes before the line as <N>. logfmt or JSON.
 *
 * At most 10 lines per second of one event are written; the rest is held back. When the second is over, the next line,
 * logger_tick() or the end writes a line "held_back=N". At most 64 events are counted at a time; others are not
 * limited.
 *
 * `text` of a line is key=value pairs already (belfry_logf); the JSON form splits them: values in double quotes may
 * hold spaces, and whole numbers that are not in quotes become numbers. What is no pair becomes "msg". Bytes that could
 * forge a line or a terminal's escape are replaced. A line is under PIPE_BUF bytes, so that writes of several threads,
 * or processes, do not mix.
 *
 * Thread: any; create and destroy: owner.
 * Memory: reserved at creation; a line allocates nothing.
 */
#ifndef BELFRY_DAEMON_LOGGER_H
#define BELFRY_DAEMON_LOGGER_H

#include <stdint.h>

#include "base/log.h"
#include "daemon/config.h"
#include "serve/admin/log_lines.h"

struct logger;

BELFRY_NODISCARD enum belfry_err logger_create(enum belfry_log_level level, enum config_format format, int fd,
                                               struct logger **out);
void logger_destroy(struct logger *logger);
const struct belfry_log *logger_log(const struct logger *logger);

/* The newest warnings and errors among the lines that were written; for the life of the logger. */
struct log_lines *logger_lines(struct logger *logger);

/* Which lines are logged from now on. */
void logger_set_level(struct logger *logger, enum belfry_log_level level);

/* Logs what was held back in seconds that are over; due once per second. */
void logger_tick(struct logger *logger);

/* For tests: ms since 1970 from elsewhere. Before the first line. */
typedef uint64_t (*logger_clock_fn)(void *user);
void logger_set_clock(struct logger *logger, logger_clock_fn clock, void *user);

#endif
