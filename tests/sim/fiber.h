/* tests/sim/fiber.h
 *
 * fiber: a function on a stack of its own that can stop anywhere and go on later. A simulated thread runs on one.
 *
 * The function is a step: when it has returned, the next run calls it again.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_FIBER_H
#define BELFRY_SIM_FIBER_H

#include <stdbool.h>

struct fiber;

struct fiber *fiber_create(void (*step)(void *arg), void *arg); /* aborts when out of memory */
void fiber_destroy(struct fiber *fiber);                        /* outside of a step; NULL is fine */

/* Runs until the step ends (true) or pauses (false). */
bool fiber_run(struct fiber *fiber);

/* From inside a step: back to who called fiber_run(). */
void fiber_pause(void);

#endif
