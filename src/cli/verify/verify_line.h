/* src/cli/verify/verify_line.h
 *
 * verify_line: a connection to the tier, and the faults on it that watchers cannot see because the library repairs
 * them:
 * - it drops events that come again, or too early;
 * - it requests a response again whose revisions go back;
 * - it delivers progress after events that came just after it.
 *
 * Thread: owner. Memory: none of its own; the caller opens and closes the session.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_LINE_H
#define BELFRY_CLI_VERIFY_VERIFY_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/belfry.h>

#include "judge/judge.h"

/* Zeroed to begin with. */
struct verify_line {
    struct belfry *b;
    unsigned watcher;               /* the first on it */
    bool debug;                     /* the library's log goes on to standard error */
    bool quiet;                     /* the socket was empty at the last look: what is due has not arrived */
    bool cut;                       /* there is no connection, as its watchers have been notified */
    uint64_t n_unreadable, n_early; /* responses; progress */
    uint64_t n_stale_told, n_unreadable_told, n_early_told;
};

/* Counts the faults from now on. The line must not move while the session lives. */
void verify_line_listen(struct verify_line *line);

/* Reports what has been counted since the last look; `rev` is the revision of the cluster. */
void verify_line_look(struct verify_line *line, int64_t rev, judge_blame_fn blame, void *user);

#endif
