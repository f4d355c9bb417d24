/* src/cli/suggest.h
 *
 * suggest: the known word that a mistyped one was probably meant to be.
 *
 * Thread: any. Memory: none; words over SUGGEST_MAX bytes are like nothing.
 */
#ifndef BELFRY_CLI_SUGGEST_H
#define BELFRY_CLI_SUGGEST_H

#include <stddef.h>

#define SUGGEST_MAX 48

/* Letters to add, drop, change or swap with their neighbour to make `b` of `a`. */
size_t suggest_distance(const char *a, const char *b);

/* Keeps in *best whichever of *best (may be NULL) and `candidate` is nearer to `word`, if it is near enough to say. */
void suggest_consider(const char *word, const char *candidate, const char **best);

#endif
