/* src/client/why.h
 *
 * why: the sentences that belfry_why() gives: why the last call that failed did so. A session has one, and each thread
 * has one for calls that have no session: belfry_opts_set(), belfry_open().
 *
 * Thread: any, for the thread's own; a session's is its owner's.
 */
#ifndef BELFRY_CLIENT_WHY_H
#define BELFRY_CLIENT_WHY_H

#include <belfry/err.h>

#define BELFRY_WHY_BYTES 512 /* what is longer is cut */

struct belfry;

/* This thread's sentence. */
char *belfry_why_here(void);

/* Notes the sentence in the session (b NULL: for this thread) and returns `err`. `why` NULL or "": belfry_strerror(). */
enum belfry_err belfry_why_note(struct belfry *b, enum belfry_err err, const char *why);

/* The same, if `err` is not BELFRY_OK. */
enum belfry_err belfry_why_unless_ok(struct belfry *b, enum belfry_err err, const char *why);

#endif
