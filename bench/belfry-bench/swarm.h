/* bench/belfry-bench/swarm.h
 *
 * swarm: the watchers of a run: connections x streams x watches, and what they have received. Of objects, over
 * HTTP/1.1, a connection has one watch.
 *
 * A connection that is lost is a fault, unless swarm_reconnect() says that the server will be back.
 *
 * Thread: owner, that of its poll.
 * Memory: about 1 KiB a stream, 25 bytes a watcher.
 */
#ifndef BENCH_SWARM_H
#define BENCH_SWARM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/rng.h"
#include "bound.h"
#include "credentials.h"
#include "histogram.h"
#include "load.h"
#include "tally.h"
#include "target.h"

#define SWARM_NONE     SIZE_MAX /* no connection */
#define SWARM_CREATING 256

struct swarm_opts {
    struct target target;
    struct load load;
    size_t n_conns, n_streams, n_watches; /* streams of a connection, watches of a stream */
    size_t n_creating;                    /* creates of a stream without an answer; 0: SWARM_CREATING */
    int64_t start_revision;               /* 0: from now on */
    const char *selector_field;           /* of a distinct load of objects */
    struct bound bound;                   /* of opening */
    /* Lent; NULL: connections show nothing. For watches of etcd's API. With both, a connection has a token at first,
     * and logs in when it comes back. */
    const struct credentials *tokens, *logins;
};

struct seat;

struct swarm {
    struct swarm_opts opts; /* n_conns: as many as were opened */
    int poll;
    struct seat *seats; /* owned; one a connection */
    size_t n_watchers, n_created;
    enum bound_hit bound_hit; /* why there are fewer than were asked for */
    uint64_t logins;          /* that were answered with a token */
    uint64_t resumed;         /* watches that the server ended, and that were opened again where they were */
    struct tally tally;
    struct histogram latency; /* ns from put to delivery */
    size_t unmeasured;        /* the connection whose latency does not count, or SWARM_NONE */
    char fault[256];          /* what broke it; "" if nothing has */
    /* since swarm_reconnect() */
    bool reconnects;
    struct belfry_rng rng;
    struct belfry_list away; /* seats that wait to connect again */
    uint64_t due_ns;         /* when the first of them does; UINT64_MAX: nobody waits */
    size_t n_left;           /* connections that had all their watches and were lost, once or more often */
    uint64_t refusals;       /* times that one was lost before it had them */
    char refusal[128];       /* why, the last time */
};

/* Connects everybody, or as many as the bound allows and at least one, and creates all their watches; dies when that is
 * not done at `deadline_ns`. */
void swarm_open(struct swarm *swarm, int poll, const struct swarm_opts *opts, uint64_t deadline_ns);
void swarm_close(struct swarm *swarm);

/* From here on a connection that is lost is made again as libbelfry does it: at once, then after waits with jitter that
 * grow from 50 ms to 3 s, each watch from behind the last revision that it has seen. For watches of etcd's API. The
 * owner calls swarm_tend() in every turn. `seed`: of the jitter. */
void swarm_reconnect(struct swarm *swarm, uint64_t seed);

/* Connects those again whose wait is over. Returns the ms until the next is due, 1000 at most. */
int swarm_tend(struct swarm *swarm);

/* Whether every watch is there, and every connection has been lost since swarm_reconnect(). */
bool swarm_is_back(const struct swarm *swarm);

/* Bytes that the connection with the fewest has read. */
uint64_t swarm_least_bytes(const struct swarm *swarm);

/* The connection reads no more, or again. */
void swarm_pause(struct swarm *swarm, size_t conn);
void swarm_resume(struct swarm *swarm, size_t conn);

/* Starts to count anew, but for `resumed`. */
void swarm_restart(struct swarm *swarm);

#endif
