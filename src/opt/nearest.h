/* src/opt/nearest.h
 *
 * nearest: the known word that a mistyped one was probably meant to be, for "did you mean".
 *
 * Thread: any. Pure. Memory: none; words over BELFRY_NEAREST_MAX bytes resemble nothing.
 */
#ifndef BELFRY_OPT_NEAREST_H
#define BELFRY_OPT_NEAREST_H

#include <stddef.h>

#define BELFRY_NEAREST_MAX 48

/* Letters to add, drop, change or swap with their neighbour to make `b` of `a`. */
size_t belfry_nearest_distance(const char *a, const char *b);

/* Keeps in *best whichever of *best (may be NULL) and `candidate` is nearer to `word`, if it is near enough to
 * suggest. */
void belfry_nearest_consider(const char *word, const char *candidate, const char **best);

#endif
