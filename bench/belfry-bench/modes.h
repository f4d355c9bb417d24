/* bench/belfry-bench/modes.h: what can be measured; each returns the exit code of the program: 1 when an event was lost
 * or doubled. Thread: the main one. */
#ifndef BENCH_MODES_H
#define BENCH_MODES_H

#include "plan.h"

int fanout_run(const struct plan *plan);
int idle_run(const struct plan *plan);
int million_run(const struct plan *plan);
int replay_run(const struct plan *plan);
int stall_run(const struct plan *plan);
int storm_run(const struct plan *plan);
int resume_run(const struct plan *plan);
int put_run(const struct plan *plan);
int read_run(const struct plan *plan);
int listwatch_run(const struct plan *plan);
int list_run(const struct plan *plan);
int writecost_run(const struct plan *plan);
int handshake_run(const struct plan *plan);
int bare_run(const struct plan *plan);
int healthy_run(const struct plan *plan);

#define N_MODES 16
extern const struct mode modes[N_MODES];

/* The whole table, for --help and completion: options, and the modes as commands. */
const struct belfry_opt_table *modes_table(void);

#endif
