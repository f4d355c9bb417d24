/* tests/storm/mutant.h
 *
 * mutant: days of normal use (day.h) with one thing wrong: a limit that is too low, a wait that is too short, a client
 * in too much haste, a tier that loses the past, upstream that falls silent, memory that leaks. And storms (run.h) with
 * an API server that does one thing wrong (apiserver.h), which clients see as if the tier had done it. Each must be
 * found; otherwise a run that finds nothing says nothing.
 *
 * Thread: owner. Each runs in a process of its own.
 */
#ifndef BELFRY_STORM_MUTANT_H
#define BELFRY_STORM_MUTANT_H

#include <stdint.h>

/* Says for each how it was found. Returns how many were not, or not as they should be. */
unsigned mutants_run_days(uint64_t seed);
unsigned mutants_run_storms(uint64_t seed);

#endif
