/* src/cli/verify/verify_prev.h
 *
 * verify_prev: a previous value that a watcher was not given although the reference was, kept until it is known whether
 * a compaction explains that. A copy: by then the event may have left the window.
 *
 * Thread: owner. Memory: fixed; a longer key is cut.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_PREV_H
#define BELFRY_CLI_VERIFY_VERIFY_PREV_H

#include "cli/verify/verify_judge.h"

#define VERIFY_PREV_KEY 256

/* Zeroed to begin with. */
struct verify_prev {
    int64_t rev; /* of the event; 0: there is none */
    unsigned watcher;
    size_t key_len;
    char key[VERIFY_PREV_KEY], expected[VERIFY_TEXT], asked[VERIFY_SPEC_TEXT];
};

/* `spec` is what the watcher had asked for; `event` is as the reference has it. */
void verify_prev_keep(struct verify_prev *prev, const struct verify_spec *spec, const struct verify_event *event);
/* The previous value can still be read. */
void verify_prev_blame(const struct verify_prev *prev, verify_blame_fn blame, void *user);

#endif
