/* tests/storm/clock.h
 *
 * clock: the time of a run. It takes the place of the C library's clock_gettime() and time(), for shared libraries,
 * too: time passes only when the run says so, and by LOOK_NS with each look at the clock, so that loops which stop
 * after a while do stop, after the same number of steps in each repetition.
 *
 * Between two runs all clocks are true.
 *
 * Thread: owner. Other threads would make a run that cannot be repeated.
 */
#ifndef BELFRY_STORM_CLOCK_H
#define BELFRY_STORM_CLOCK_H

#include <stdint.h>

void clock_begin(void);
void clock_end(void);
void clock_pass(uint64_t ms);

/* True time, whatever the run thinks. */
uint64_t clock_true_ms(void);
uint64_t clock_cpu_us(void); /* that this thread has used */

#endif
