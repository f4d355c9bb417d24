/* src/cli/verify/verify_window.h
 *
 * verify_window: the newest revisions of the reference, in order.
 *
 * A place is the number of revisions that were added before: [first, next) are held. The window does not bound itself:
 * its owner drops the oldest, after it has counted what that means for each case.
 *
 * Thread: owner. Memory: the revisions; verify_window_fini() frees them.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_WINDOW_H
#define BELFRY_CLI_VERIFY_VERIFY_WINDOW_H

#include <stdint.h>

#include "judge/judge_rev.h"

/* Zeroed to begin with. */
struct verify_window {
    struct judge_rev **slots; /* owned, and what they point at; a place p is at p & (n_slots - 1) */
    size_t n_slots;           /* a power of two, or 0 */
    uint64_t first, next;     /* places */
    size_t bytes;             /* of all revisions held */
};

/* Consumes `rev`, on failure too. It must be newer than all that are held. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err verify_window_add(struct verify_window *window, struct judge_rev *rev);

/* NULL: not held. */
const struct judge_rev *verify_window_at(const struct verify_window *window, uint64_t place);

/* The place of the first that is of revision `rev` or newer; next when there is none. */
uint64_t verify_window_find(const struct verify_window *window, int64_t rev);

/* Drops the oldest, if there is one. */
void verify_window_drop(struct verify_window *window);
void verify_window_fini(struct verify_window *window);

#endif
