/* src/cli/verify/verify_reference.h
 *
 * verify_reference: the trusted side: one watch of the whole range, passed to the judge, and reads that show the
 * revision of the cluster.
 *
 *   ASKING --revision--> FOLLOWING --rewound--> ASKING
 *                        FOLLOWING --compacted--> FOLLOWING, from there on: a gap, reported to the judge
 *
 * Thread: owner. Memory: none of its own; the session is lent, and is closed first.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_REFERENCE_H
#define BELFRY_CLI_VERIFY_VERIFY_REFERENCE_H

#include <stdbool.h>

#include "cli/verify/verify_env.h"

/* The report mentions a silence longer than this, and lateness is excused; sooner when max_lag is short. */
#define VERIFY_SILENT_US (3 * SECOND_US)

enum verify_reference_state { VERIFY_ASKING, VERIFY_FOLLOWING };

/* Zeroed to begin with, but for the first two. */
struct verify_reference {
    struct verify_env *env;
    struct belfry *b;
    enum verify_reference_state state;
    int64_t first_revision; /* of the cluster when the run began */
    int64_t revision;       /* of the cluster at the last answer */
    bool under_way;         /* a request for it is */
    int64_t asked_us, answered_us;
    int64_t silent_us; /* the longest time without an answer, up to the last answer */
    uint64_t n_rewinds;
};

/* Once per second: asks for the cluster's revision, for progress of the watch, and for what the judge wants to know. */
void verify_reference_turn(struct verify_reference *reference, int64_t now_us);

/* Does the cluster answer? While it does not, lateness is no violation. */
bool verify_reference_answers(const struct verify_reference *reference, int64_t now_us);
/* The longest time without an answer, in microseconds. */
int64_t verify_reference_silence(const struct verify_reference *reference, int64_t now_us);

/* The newest known revision. */
int64_t verify_reference_newest(const struct verify_reference *reference);

/* Reads at revision `rev`; the reply's error is BELFRY_ERR_COMPACTED if it is gone. Returns an error of the library. */
BELFRY_NODISCARD int verify_reference_probe(struct verify_reference *reference, int64_t rev, belfry_reply_fn fn,
                                            void *user);

#endif
