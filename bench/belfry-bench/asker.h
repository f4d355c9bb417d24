/* bench/belfry-bench/asker.h
 *
 * asker: reads one key again and again, by etcd's API, on a few connections that stay. A connection that is lost fails
 * its reads, and is made again.
 *
 * Thread: owner, that of its poll.
 * Memory: fixed, but for its connections.
 */
#ifndef BENCH_ASKER_H
#define BENCH_ASKER_H

#include <stdbool.h>
#include <stdint.h>

#include "outcome.h"
#include "target.h"

#define ASKER_CONNS 4
#define ASKER_CALLS 1024 /* under way on a connection */

struct asker;

struct asker_seat {
    struct asker *asker;
    struct h2conn *conn; /* owned */
    bool lost;
    uint64_t began_ns[ASKER_CALLS]; /* by the number of a call; 0: none, or it was counted */
};

struct asker {
    int poll;
    struct target target;
    const char *key; /* lent */
    size_t next;     /* the connection of the next read */
    struct outcome outcome;
    struct asker_seat seats[ASKER_CONNS];
};

void asker_open(struct asker *asker, int poll, const struct target *target, const char *key);
void asker_close(struct asker *asker);

/* One more read. */
void asker_ask(struct asker *asker);

bool asker_is_idle(const struct asker *asker); /* no read is under way */

/* Fails what is late, and makes connections again that were lost. */
void asker_tend(struct asker *asker, uint64_t now_ns);

#endif
