/* bench/belfry-bench/leases.h
 *
 * leases: leases that are granted at the start, and kept alive by a stream each, once per second.
 *
 *                  granted             no answer within the TTL, or an answer that says so
 *     LEASE_ASKED ----> LEASE_KEPT ------------------------------> LEASE_LOST
 *
 * Streams that end, and connections that are lost, are made again.
 *
 * Thread: owner, that of its poll.
 * Memory: at creation, but for its connections.
 */
#ifndef BENCH_LEASES_H
#define BENCH_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target.h"

#define LEASES_PER_CONN 10
#define LEASES_TTL_S    5

enum lease_state { LEASE_ASKED, LEASE_KEPT, LEASE_LOST };

struct lease {
    uint64_t id;
    enum lease_state state;
    uint64_t kept_ns; /* when it was last confirmed */
};

struct leases;

struct leases_conn {
    struct leases *leases;
    struct h2conn *conn; /* owned */
    struct lease *own;   /* lent: the LEASES_PER_CONN of this connection */
    uint32_t first_call; /* of the streams, in the order of the leases; UINT32_MAX: not opened yet */
    uint32_t granted;    /* answers to the calls before them */
    bool broken;         /* a stream has ended, or the connection was lost */
};

struct leases {
    int poll;
    struct target target;
    size_t n_conns;
    struct leases_conn *conns; /* owned */
    struct lease *all;         /* owned */
    uint64_t due_ns;           /* when all are kept alive again */
    uint64_t cut;              /* times that a connection with its streams had to be made again */
    char why[128];             /* of the last of these */
};

/* Begins to grant `n` of them, a multiple of LEASES_PER_CONN. */
void leases_open(struct leases *leases, int poll, const struct target *target, size_t n);
void leases_close(struct leases *leases);

void leases_tend(struct leases *leases, uint64_t now_ns);

size_t leases_count(const struct leases *leases, enum lease_state state);

#endif
