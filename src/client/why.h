/* src/client/why.h
 *
 * why: the sentences of belfry_why(): the reason of the last failed call. A session has one; each thread has one for
 * calls without a session: belfry_opts_set(), belfry_open().
 *
 * Thread: any for the thread's own sentence; owner for a session's.
 */
#ifndef BELFRY_CLIENT_WHY_H
#define BELFRY_CLIENT_WHY_H

#include <belfry/err.h>

#define BELFRY_WHY_BYTES 512 /* longer sentences are truncated */

struct belfry;

/* This thread's sentence. */
char *belfry_why_here(void);

/* Stores the sentence in the session (b NULL: this thread) and returns `err`. `why` NULL or "": belfry_strerror(). */
enum belfry_err belfry_why_note(struct belfry *b, enum belfry_err err, const char *why);

/* The same, if `err` is not BELFRY_OK. */
enum belfry_err belfry_why_unless_ok(struct belfry *b, enum belfry_err err, const char *why);

#endif
