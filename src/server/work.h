/* src/server/work.h
 *
 * work: what a client makes the tier do, per second, over about the last WORK_MS; and about how much CPU that costs.
 *
 * Time is cut into windows of WORK_MS. What is done counts to the window that runs. A rate is made of that window and
 * of the part of the window before that is not older than WORK_MS. So a client that stops is at 0 after two windows at
 * most, and counting takes an addition and a compare.
 *
 * The CPU is an estimate, for the comparison of clients: nothing measures what a delivery costs each of its receivers.
 * Each connection, handshake, system call on a socket, request, upstream call and byte has a price in ns (work.c).
 * Deliveries count by the writes and bytes that carry them.
 *
 * Thread: owner. Pure.
 * Memory: none.
 */
#ifndef BELFRY_SERVER_WORK_H
#define BELFRY_SERVER_WORK_H

#include <stdint.h>

#define WORK_MS 10000

enum work_kind {
    WORK_IO, /* reads from sockets, and writes */
    WORK_BYTES_IN,
    WORK_BYTES_OUT,
    WORK_REQUESTS,
    WORK_CALLS, /* that are relayed */
    WORK_CONNECTIONS,
    WORK_HANDSHAKES, /* of TLS, good or not */
    WORK_N
};

/* All zero: nothing was done. */
struct work {
    uint64_t window; /* the number of the window that `now` counts */
    uint64_t now[WORK_N], before[WORK_N];
};

struct work_rates {
    double per_s[WORK_N];
};

void work_add(struct work *work, enum work_kind kind, uint64_t n, uint64_t now_ms);
struct work_rates work_rates(const struct work *work, uint64_t now_ms);

/* What of a second of one core such rates take: 0.5 is half a core. */
double work_cost(const struct work_rates *rates);

#endif
