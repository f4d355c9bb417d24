/* src/cli/verify/verify_compare.h
 *
 * verify_compare: a revision that a watcher was given, beside the same revision of the reference.
 *
 * Thread: owner. Pure. Memory: none.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_COMPARE_H
#define BELFRY_CLI_VERIFY_VERIFY_COMPARE_H

#include <belfry/belfry.h>

#include "cli/verify/verify_rev.h"
#include "cli/verify/verify_violation.h"

struct verify_compare {
    struct belfry_range range; /* of the watcher; the reference may have more */
    verify_blame_fn blame;     /* .watcher is left 0 */
    void *user;
    /* counted up */
    uint64_t n_events;                   /* found in both */
    uint64_t n_prev_same, n_prev_absent; /* prev_kv: both have it, or only the reference, which a compaction excuses */
    const struct verify_event *prev_absent; /* the last of the latter, as the reference has it; NULL: none */
};

/* How many events of `due` the range has. */
size_t verify_compare_count(const struct verify_compare *compare, const struct verify_rev *due);

/* Blames every difference. Events outside the range, or of another revision, are left out on both sides: they are
 * blamed without a reference. Returns whether all that was due has come. */
bool verify_compare_revs(struct verify_compare *compare, const struct verify_rev *due, const struct verify_rev *given);

#endif
