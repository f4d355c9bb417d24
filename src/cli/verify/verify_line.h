/* src/cli/verify/verify_line.h
 *
 * verify_line: a connection to the tier, and those faults on it that no watcher is shown, because the library mends them:
 * events that come again, or too early, are dropped; a response that goes back in itself is asked for anew; progress is
 * given behind events that came just after it.
 *
 * Thread: owner. Memory: none of its own; who opened the session closes it.
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
    bool quiet;                     /* nothing was to be read at the last look: what is due has not been sent */
    bool cut;                       /* there is no connection, as watchers on it were told */
    uint64_t n_unreadable, n_early; /* responses; progress */
    uint64_t n_stale_told, n_unreadable_told, n_early_told;
};

/* From now on the faults are counted. The line stays where it is while the session lives. */
void verify_line_listen(struct verify_line *line);

/* Blames what has been counted since the last look; `rev` is where the cluster is. */
void verify_line_look(struct verify_line *line, int64_t rev, judge_blame_fn blame, void *user);

#endif
