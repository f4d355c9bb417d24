/* bench/belfry-bench/closing.h
 *
 * closing: what a server does when all its watchers leave at once: how long newcomers wait meanwhile, and when it has
 * given back the memory that those who left had cost. One newcomer after the other connects, creates a watch and
 * leaves.
 *
 * Thread: owner, that of the swarm's poll.
 */
#ifndef BENCH_CLOSING_H
#define BENCH_CLOSING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "swarm.h"

struct closing_opts {
    pid_t pid;                         /* 0: its memory is not known */
    uint64_t before_bytes, full_bytes; /* of anonymous memory: before the swarm came, and when it was there */
    uint64_t wait_ns;                  /* for the memory */
    uint64_t deadline_ns;              /* for a newcomer */
};

struct closing_result {
    double first_ms;     /* from the beginning of the closing until the first newcomer had its watch */
    double longest_ms;   /* the longest that a newcomer waited for its watch, that one included */
    bool given_back;     /* nine tenths of the memory, or all but 8 MiB */
    double back_s;       /* until that is so, or the wait was over */
    uint64_t kept_bytes; /* over before_bytes, at the end */
    double cpu_s;        /* the server's, for all of it */
};

/* Closes the swarm. Dies when a newcomer is not served at the deadline. */
void closing_run(struct swarm *swarm, const struct closing_opts *opts, struct closing_result *result);

/* Whether nine tenths of what was full are gone, or all but 8 MiB. */
bool closing_is_back(uint64_t before_bytes, uint64_t full_bytes, uint64_t now_bytes);

#endif
