/* tests/sim/verdict.h: the first thing that went wrong in a run. Thread: the one thread of the simulator. */
#ifndef BELFRY_SIM_VERDICT_H
#define BELFRY_SIM_VERDICT_H

#include <stdbool.h>

#define VERDICT_BYTES 1024

void verdict_clear(void);
__attribute__((format(printf, 1, 2))) void verdict_fail(const char *format, ...); /* the first one counts */
bool verdict_failed(void);
const char *verdict_text(void);

#endif
