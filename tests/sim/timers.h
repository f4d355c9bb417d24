/* tests/sim/timers.h
 *
 * timers: the timers of a worker's loop by the simulator's clock. Here are libuv's functions for them, and the few
 * others that the machines call; a uv_loop_t of the simulator is a struct timers.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_TIMERS_H
#define BELFRY_SIM_TIMERS_H

#include <uv.h>

#include "sim/sched.h"

#define TIMERS_MAX 4

struct timers {
    struct sched *sched;
    struct timer {
        uv_timer_t *handle;
        uint64_t due_ms; /* BELFRY_NEVER: it does not run */
        uv_timer_cb fn;
    } all[TIMERS_MAX];
    size_t n;
};

void timers_init(struct timers *timers, struct sched *sched);
uv_loop_t *timers_loop(struct timers *timers);

void timers_run(struct timers *timers, uint64_t now_ms);
uint64_t timers_due(const struct timers *timers);

#endif
