/* src/core/fanout.h
 *
 * fanout: live delivery. A new batch finds the streams that want it; each of them then walks from its own position up
 * to P and gives every revision to its watchers in the order of their ids. A batch is handed out over as many turns as
 * it takes. Progress is here too, because it tells a stream's position.
 *
 * Thread: the worker's.
 * Memory: one entry for each node that wants a batch.
 */
#ifndef BELFRY_CORE_FANOUT_H
#define BELFRY_CORE_FANOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/delivery.h"
#include "core/gather.h"

struct fanout {
    /* fixed at creation; lent */
    struct turn *turn;
    struct source *source;
    struct registry *registry;
    struct position *p; /* the registry's */
    struct gather *gather;
    struct delivery *delivery;

    struct fanout_head *heads; /* owned */
    size_t cap_heads;
    struct belfry_list fresh; /* streams that want the batch just absorbed */
    struct belfry_list held;  /* streams that can continue only when P has moved */
    uint32_t scan_sub;        /* if the batch being handed out is an extent, it is scanned up to here */
    bool overslept;           /* P fell out of the log; counted once */
    /* since creation */
    uint64_t n_batches, n_extents, n_overslept, n_progress;
};

void fanout_init(struct fanout *fanout, struct delivery *delivery, struct gather *gather);
void fanout_fini(struct fanout *fanout);

/* Takes new batches of the log, within the budget. True: there is more to do now. */
bool fanout_absorb(struct fanout *fanout);

/* Serves streams that are ready, each for a quantum of work, in turns. */
void fanout_serve(struct fanout *fanout);

/* Another past: nothing is being handed out. */
void fanout_begin_past(struct fanout *fanout);

#endif
