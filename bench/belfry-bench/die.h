/* bench/belfry-bench/die.h
 *
 * die: how a measurement ends that cannot be finished. A load generator has nothing to save: it says one line and exits
 * with 1, and the kernel takes back the rest.
 *
 * Thread: any.
 */
#ifndef BENCH_DIE_H
#define BENCH_DIE_H

#include "base/err.h"

_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);

/* `memory`, which is not NULL. */
void *must_have(void *memory);

void must(enum belfry_err err, const char *what);

#endif
