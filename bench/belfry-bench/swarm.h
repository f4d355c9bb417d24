/* bench/belfry-bench/swarm.h
 *
 * swarm: the watchers of a run: connections x streams x watches, and what they have received. Of objects, over HTTP/1.1,
 * a connection has one watch.
 *
 * Thread: owner, that of its poll.
 * Memory: about 1 KiB a stream, 25 bytes a watcher.
 */
#ifndef BENCH_SWARM_H
#define BENCH_SWARM_H

#include <stdint.h>

#include "histogram.h"
#include "load.h"
#include "tally.h"
#include "target.h"

#define SWARM_NONE SIZE_MAX /* no connection */

struct swarm_opts {
    struct target target;
    struct load load;
    size_t n_conns, n_streams, n_watches; /* streams of a connection, watches of a stream */
    int64_t start_revision;               /* 0: from now on */
    const char *selector_field;           /* of a distinct load of objects */
};

struct seat;

struct swarm {
    struct swarm_opts opts;
    int poll;
    struct seat *seats; /* owned; one a connection */
    size_t n_watchers, n_created;
    uint64_t resumed; /* watches of objects that the server ended, and that were opened again where they were */
    struct tally tally;
    struct histogram latency; /* ns from put to delivery */
    size_t unmeasured;        /* the connection whose latency does not count, or SWARM_NONE */
    char fault[256];          /* what broke it; "" if nothing has */
};

/* Connects everybody and creates all the watches; dies when that is not done at `deadline_ns`. */
void swarm_open(struct swarm *swarm, int poll, const struct swarm_opts *opts, uint64_t deadline_ns);
void swarm_close(struct swarm *swarm);

/* Bytes that the connection with the fewest has read. */
uint64_t swarm_least_bytes(const struct swarm *swarm);

/* The connection reads no more, or again. */
void swarm_pause(struct swarm *swarm, size_t conn);
void swarm_resume(struct swarm *swarm, size_t conn);

/* Starts to count anew, but for `resumed`. */
void swarm_restart(struct swarm *swarm);

#endif
