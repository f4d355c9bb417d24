/* bench/belfry-bench/round.h
 *
 * round: one measured load: puts by a putter, until the swarm has received all of them. Paced: the next put only when
 * everybody has the last, so that every socket is written to for every revision. Burst: as many as the putter may have
 * under way, so that writes carry several events. Rate: so many a second.
 *
 * Thread: owner, that of the poll that putter and swarm share.
 */
#ifndef BENCH_ROUND_H
#define BENCH_ROUND_H

#include <stdint.h>
#include <sys/types.h>

#include "putter.h"
#include "swarm.h"

enum pace { PACE_PACED, PACE_BURST, PACE_RATE };

struct round_opts {
    enum pace pace;
    double rate; /* puts a second, with PACE_RATE */
    size_t n_puts;
    pid_t pid, write_pid; /* whose CPU is measured; 0: nobody's */
    uint64_t deadline_ns;
    size_t stalled;             /* the connection that does not read until `stall_ns` have passed, or SWARM_NONE */
    const char *before, *after; /* commands for the shell around what is measured; NULL: none */
    uint64_t stall_ns;          /* the puts have been made by then, or the last of them are not part of the stall */
};

struct round_result {
    double wall_s;
    uint64_t wanted, deliveries, lost, doubled;
    double cpu_s, write_cpu_s;
    double client_cpu_s;
    uint64_t anon_before, anon_stalled, anon_after; /* bytes of pid; anon_stalled: just before reading again */
};

/* Counts from zero: restarts both. What is lost or doubled is said on stderr; what breaks the load dies. */
void round_run(struct swarm *swarm, struct putter *putter, const struct round_opts *opts, struct round_result *result);

/* For the shell; NULL is fine. Dies when it fails. */
void round_command(const char *command);

/* Lets connections work until then: what is due comes, pings are answered. */
void round_idle(int poll, uint64_t ns);

#endif
