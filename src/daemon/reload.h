/* src/daemon/reload.h
 *
 * reload: the configuration is read again while belfryd runs (SIGHUP), and what can change without a restart changes.
 *
 * Everything is read as at the start: flags stay above the environment, and the environment above the file. Settings
 * that are applied are in one table in reload.c: each has its key and a function that applies it. The log then has a
 * line `reloaded` that says what changed, and a line `restart_needed` that names the settings that the file has changed
 * and that are applied at a start only. If anything is wrong, nothing changes, and `reload_failed` says why.
 *
 * Thread: owner (the front's). What is applied is handed to other threads by the parts that have it.
 * Memory: the last configuration that was read.
 */
#ifndef BELFRY_DAEMON_RELOAD_H
#define BELFRY_DAEMON_RELOAD_H

#include "base/owner.h"
#include "daemon/config.h"
#include "daemon/limits.h"
#include "daemon/logger.h"
#include "serve/sse/tickets.h"

struct reload_opts {
    int argc; /* of main() */
    char **argv;
    const struct config *config; /* what belfryd was started with; lent */
    struct logger *logger;
    struct limits *limits;
    struct hosts *hosts; /* shows names of the configuration until reload_fini() */
    struct tickets *tickets;
};

struct reload {
    struct reload_opts opts;
    struct config last; /* the last one that was read; empty: that of opts counts */
    bool is_read;
    BELFRY_OWNER;
};

void reload_init(struct reload *reload, const struct reload_opts *opts);
void reload_fini(struct reload *reload); /* when nobody uses opts.hosts any more */

/* Reads, compares, applies and logs. */
void reload_run(struct reload *reload);

#endif
