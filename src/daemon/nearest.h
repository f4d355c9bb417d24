/* src/daemon/nearest.h: the known name that a mistyped one was probably meant to be. (belfryctl has its own: it lives
 * on the public headers alone.) Thread: any. Memory: none. */
#ifndef BELFRY_DAEMON_NEAREST_H
#define BELFRY_DAEMON_NEAREST_H

#define NEAREST_MAX 48 /* longer words are like nothing */

/* Keeps in *best whichever of *best (may be NULL) and `candidate` is nearer to `word`, if it is near enough to say. */
void nearest_consider(const char *word, const char *candidate, const char **best);

#endif
