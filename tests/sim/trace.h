/* tests/sim/trace.h
 *
 * trace: what happened, in lines a person can read. Off by default: a run that fails is run again from its seed with
 * the trace on, and the last part of it is shown.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_TRACE_H
#define BELFRY_SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum trace_mode { TRACE_OFF, TRACE_KEEP, TRACE_PRINT };

extern enum trace_mode trace_mode; /* of this run; looked at before anything is formatted */

void trace_start(enum trace_mode mode, const uint64_t *now_ms); /* `now_ms` is read for every line */
__attribute__((format(printf, 2, 3))) void trace_line(const char *who, const char *format, ...);
void trace_dump(FILE *to); /* the last part of what was kept */

#define TRACE(who, ...)                                                                                                \
    do {                                                                                                               \
        if (trace_mode != TRACE_OFF)                                                                                   \
            trace_line(who, __VA_ARGS__);                                                                              \
    } while (0)

#endif
