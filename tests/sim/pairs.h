/* tests/sim/pairs.h
 *
 * pairs: which two paths a run has taken near each other, and when first.
 *
 * Most paths are taken in every run; faults hide where two rare ones meet. The pair (a, b) is taken when b is taken at
 * most PAIRS_NEAR looks after a, or in the same look. The world looks every PAIRS_STEPS steps.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_PAIRS_H
#define BELFRY_SIM_PAIRS_H

#include <stdint.h>

#include "sim/cover.h"

#define PAIRS_STEPS 32
#define PAIRS_NEAR  4
#define PAIRS       (COVER_END_ * COVER_END_)

/* Of this run: when each pair was taken first, as the number of the step plus one; 0: it was not. Pair a * COVER_END_ +
 * b. */
extern uint32_t pairs_first[PAIRS];

void pairs_start(void);         /* A run begins. */
void pairs_look(uint64_t step); /* What was taken since the last look? */

#endif
