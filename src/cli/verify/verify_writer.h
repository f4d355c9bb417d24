/* src/cli/verify/verify_writer.h
 *
 * verify_writer: own writes at a steady rate, so that an idle cluster can be verified: puts, deletes and transactions
 * of a few keys below a prefix, which are deleted at the end.
 *
 * Thread: owner. Memory: none; the session is lent, and is closed first.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_WRITER_H
#define BELFRY_CLI_VERIFY_VERIFY_WRITER_H

#include <stdbool.h>

#include "cli/verify/verify_env.h"

#define VERIFY_WRITER_RATE_MAX 10000
#define VERIFY_WRITER_PREFIX   256 /* bytes, with the terminator */

/* WRITING --end--> ENDING --nothing is under way--> DELETING: its own keys */
enum verify_writer_state { VERIFY_WRITING, VERIFY_ENDING, VERIFY_DELETING };

/* Zeroed to begin with, but for the first four. */
struct verify_writer {
    struct verify_env *env;
    struct belfry *b;
    int64_t rate;                       /* per second; 0: none */
    const char *prefix;                 /* shorter than VERIFY_WRITER_PREFIX */
    int64_t next_us;                    /* when the next is due */
    uint64_t n_begun, n_done, n_failed; /* failed: rejected, or of unknown outcome */
    enum verify_writer_state state;
    bool wrote;   /* something, or a write of unknown outcome */
    bool deleted; /* DELETING: its keys are gone */
};

/* Does the range have all keys that the writer uses below `prefix`? */
bool verify_writer_fits(const char *prefix, const struct belfry_range *range);

void verify_writer_turn(struct verify_writer *writer, int64_t now_us);
/* Stops writing, then deletes the keys. */
void verify_writer_end(struct verify_writer *writer);
bool verify_writer_idle(const struct verify_writer *writer); /* nothing is under way */
bool verify_writer_left(const struct verify_writer *writer); /* keys of its own may remain */

#endif
