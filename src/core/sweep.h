/* src/core/sweep.h
 *
 * sweep: how watchers that are behind catch up, together.
 *
 * Watchers that are behind wait, ordered by cursor. A bus drives forward through history, batch by batch, from the
 * smallest cursor that no bus serves. When it reaches a waiting watcher's cursor, that watcher boards; from then on the
 * bus's place is its cursor, so no watcher is touched for a revision that it does not want. Each batch is looked up
 * once in the interest index, in the bus's own population. A watcher whose stream takes no more gets off at that
 * revision (STALLED) and waits again when the stream is writable. A bus in history ends where the log begins, and its
 * riders wait for the bus that drives there; that one ends at P, and its riders ride live. So a million watchers that
 * resume at the same time read history once, and a watcher that is a million revisions behind does not delay one that
 * is ten behind.
 *
 * Buses in history are shared by clients. Watchers wait in a queue for each client (waiting.h), and queues take turns
 * when a bus is free. A client, unless it is nobody (0), has fewer buses than are free: two of the four at most. A bus
 * that has driven its client for a while (SWEEP_SLICE_MS), or is the second of its client, gives way where it would
 * have to wait for history, if all buses drive and a client waits that has none: its riders wait there for their next
 * turn. So does a bus whose history has not come in that time: from a backfill, while upstream is away, it may take
 * hours. Inside an extent only such a bus gives way. Watchers of any client that wait where a bus passes board it,
 * except at an extent that the bus has begun to scan. So history is still read once for all that are near each other.
 *
 *     history                                        | log                          P
 *     ------ bus 2 ---->        -------- bus 3 ----> |   ------- bus 1 -----------> | riding
 *        ^ waiting    ^ waiting    ^       ^         |     ^
 *
 * The catch-up response of a lone watcher grows by whole revisions while it is still in our buffer, up to
 * response_bytes and response_revs; its header shows P, ahead of its events, as etcd's replay does.
 *
 * Thread: the worker's.
 */
#ifndef BELFRY_CORE_SWEEP_H
#define BELFRY_CORE_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/delivery.h"
#include "core/gather.h"

#define SWEEP_LOG_BUS  1              /* population of the bus in the log */
#define SWEEP_BUSES    REGISTRY_BUSES /* one in the log, the others in history */
#define SWEEP_SLICE_MS 1000

struct sweep_bus {
    unsigned number;            /* its population */
    struct registry_bus *place; /* the registry's: revision and riders */
    /* inside the batch at its place: how far it is, while the index has not changed since */
    size_t mid_group;
    struct interest_place mid;
    uint64_t mid_generation; /* 0: at its start */
    bool scanning;           /* the batch is an extent, scanned up to scan_sub; meanwhile no watcher boards */
    uint32_t scan_sub;
    uint64_t awaiting_since; /* ms; history was asked for. 0: it does not wait */
    bool woken;              /* a segment came: try again */
    /* in history */
    uint64_t client;    /* for whom it drives */
    int64_t started_at; /* its first place */
    uint64_t started_ms;
};

struct sweep {
    /* fixed at creation; lent */
    struct turn *turn;
    struct source *source;
    struct registry *registry;
    const struct position *p; /* the registry's */
    struct gather *gather;
    struct delivery *delivery;

    struct sweep_bus buses[SWEEP_BUSES + 1]; /* by population; [0] is not used */
    size_t last_queue;                       /* of waiting.h, that had a turn */
    uint64_t n_handovers;
};

void sweep_init(struct sweep *sweep, struct delivery *delivery, struct gather *gather);
void sweep_begin_past(struct sweep *sweep); /* no watcher is on a bus: they stop */

/* Starts buses where watchers wait and no bus drives. True: one has started. */
bool sweep_start(struct sweep *sweep);
bool sweep_drive(struct sweep *sweep); /* true: there is more to drive now */
void sweep_wake(struct sweep *sweep);  /* a segment came, or it is time to retry */

/* When a bus has waited for so long that another may start ahead of it; BELFRY_NEVER. */
uint64_t sweep_due(const struct sweep *sweep);

#endif
