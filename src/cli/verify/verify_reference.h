/* src/cli/verify/verify_reference.h
 *
 * verify_reference: the side that is believed: one watch of the whole range, told to the judge, and reads that say where
 * the cluster is.
 *
 *   ASKING --revision--> FOLLOWING --rewound--> ASKING
 *                        FOLLOWING --compacted--> FOLLOWING, from there on: a gap, which the judge is told of
 *
 * Thread: owner. Memory: none of its own; the session is lent, and is closed before this goes.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_REFERENCE_H
#define BELFRY_CLI_VERIFY_VERIFY_REFERENCE_H

#include <stdbool.h>

#include "cli/verify/verify_env.h"

#define VERIFY_SILENT_US                                                                                               \
    (3 * SECOND_US) /* no answer for so long is worth a word, and an excuse; less where max_lag is short */

enum verify_reference_state { VERIFY_ASKING, VERIFY_FOLLOWING };

/* Zeroed to begin with, but for the first two. */
struct verify_reference {
    struct verify_env *env;
    struct belfry *b;
    enum verify_reference_state state;
    int64_t first_revision; /* where the cluster was when the run began */
    int64_t revision;       /* where the cluster was when it was last asked */
    bool under_way;         /* that question is */
    int64_t asked_us, answered_us;
    int64_t silent_us; /* the longest that it did not answer, up to the last answer */
    uint64_t n_rewinds;
};

/* Does what is due: asks once a second where the cluster is, how far the watch is, and what the judge would know. */
void verify_reference_turn(struct verify_reference *reference, int64_t now_us);

/* Does the cluster answer? While it does not, nobody can be blamed for being late. */
bool verify_reference_answers(const struct verify_reference *reference, int64_t now_us);
/* The longest that it did not answer, in microseconds. */
int64_t verify_reference_silence(const struct verify_reference *reference, int64_t now_us);

/* The newest revision that is known here. */
int64_t verify_reference_newest(const struct verify_reference *reference);

/* Can revision `rev` still be had? The reply's error is BELFRY_ERR_COMPACTED when not. Returns an error of the library. */
BELFRY_NODISCARD int verify_reference_probe(struct verify_reference *reference, int64_t rev, belfry_reply_fn fn,
                                            void *user);

#endif
