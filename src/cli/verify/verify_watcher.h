/* src/cli/verify/verify_watcher.h
 *
 * verify_watcher: one client of the tier. It watches a range from a revision on, is judged, leaves, and comes back with
 * another range or from another revision. The first one of a run stays from beginning to end.
 *
 *   RESTING --due--> WATCHING --leaves, or is given up--> RESTING
 *                    WATCHING --compacted--> DOUBTING --the reference agrees--> RESTING
 *                                            DOUBTING --it does not--> REWINDING
 *                    WATCHING --rewound----> REWINDING --the reference agrees, or a violation--> RESTING
 *
 * A revision that comes before the reference has it pauses the watch, so a watcher holds one revision at most.
 *
 * Thread: owner. Memory: its range and its case; the line is lent; its session is closed before
 * verify_watcher_fini().
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_WATCHER_H
#define BELFRY_CLI_VERIFY_VERIFY_WATCHER_H

#include "cli/verify/verify_line.h"
#include "cli/verify/verify_range.h"
#include "cli/verify/verify_reference.h"

enum verify_role {
    VERIFY_STAYS, /* the whole range, from now on, for the whole run */
    VERIFY_NOW,   /* the whole range, from now on */
    VERIFY_OLD,   /* the whole range, from an older revision on */
    VERIFY_PART   /* some of the range, from an older revision on */
};
enum verify_watcher_state { VERIFY_RESTING, VERIFY_WATCHING, VERIFY_DOUBTING, VERIFY_REWINDING };

/* Zeroed to begin with, but for the first five. */
struct verify_watcher {
    struct verify_env *env;
    struct verify_reference *reference;
    struct verify_line *line;
    unsigned number; /* from 1 */
    enum verify_role role;
    enum verify_watcher_state state;
    int64_t due_us; /* RESTING: opens; WATCHING: leaves; REWINDING: reports a violation. INT64_MAX: not known yet */
    struct verify_range range;
    struct verify_spec spec;
    struct verify_case *judged; /* but for RESTING */
    struct belfry_watch *watch; /* WATCHING */
    bool paused, caught_up, told_cluster;
    int64_t compact_rev; /* DOUBTING, REWINDING: as it came; 0: rewound */
    uint64_t n_rewinds;  /* of the reference when the watch opened */
    uint64_t n_told[2];  /* rewinds that came and the reference agreed to: [0] as rewinds, [1] as compactions */
};

/* Does what is due. `stays`: watchers neither leave nor come any more. */
void verify_watcher_turn(struct verify_watcher *watcher, int64_t now_us, bool stays);
/* Has been sent all up to `rev` that the reference has told, or does not watch. */
bool verify_watcher_done(struct verify_watcher *watcher, int64_t rev);
bool verify_watcher_cut(const struct verify_watcher *watcher); /* it watches without a connection */
void verify_watcher_fini(struct verify_watcher *watcher);

#endif
