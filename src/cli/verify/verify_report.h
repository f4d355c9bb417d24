/* src/cli/verify/verify_report.h
 *
 * verify_report: the output of a run of verify: violations as they are found, a status line now and then, and a summary
 * at the end; for people, or as one JSON object.
 *
 * Thread: owner. Memory: the first VERIFY_KEPT violations, in place; the others are counted.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_REPORT_H
#define BELFRY_CLI_VERIFY_VERIFY_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/out/form.h"
#include "cli/verify/verify_judge.h"
#include "cli/verify/verify_watcher.h"

#define VERIFY_KEPT     20
#define VERIFY_KEY_KEPT 256 /* bytes of a key; a longer one is cut */

struct verify_kept {
    enum judge_property property;
    unsigned watcher;
    int64_t rev;
    size_t key_len; /* 0: no key in particular */
    char range[VERIFY_SPEC_TEXT], key[VERIFY_KEY_KEPT], expected[JUDGE_TEXT], came[JUDGE_TEXT];
};

/* Zeroed to begin with, but for the first three. */
struct verify_report {
    FILE *out;
    enum form form; /* FORM_TABLE or FORM_LINES */
    bool terminal;
    bool line_open; /* a line that the next one replaces is on the terminal */
    uint64_t counts[JUDGE_N_PROPERTIES], n_violations;
    size_t n_kept;
    struct verify_kept kept[VERIFY_KEPT];
};

/* The state of a run. */
struct verify_standing {
    const struct verify_numbers *numbers;
    const char *range; /* for people */
    int64_t elapsed_us, first_rev, rev;
    int64_t told_rev;   /* the newest revision of the reference's own watch */
    bool late;          /* that watch was behind the cluster at the end */
    bool cut;           /* a watcher has no connection to the tier now */
    int64_t silent_us;  /* the longest time without an answer from the reference */
    int64_t held_up_us; /* the longest turn of this process: busy, or not scheduled */
    size_t n_watchers, n_caught_up;
    uint64_t n_starts, n_old_starts, n_compacted, n_unclear, n_rewinds;
    uint64_t n_reference_losses, n_tier_losses;
    uint64_t n_written, n_write_failures;
    bool writes;
    bool is_kube;    /* of a resource: versions instead of revisions */
    size_t n_listed; /* is_kube: objects that both sides list alike */
};

/* `range` says what the watcher had asked for. */
void verify_report_violation(struct verify_report *report, const struct judge_violation *violation, const char *range);
void verify_report_line(struct verify_report *report, const struct verify_standing *standing);
void verify_report_sum(struct verify_report *report, const struct verify_standing *standing);

#endif
