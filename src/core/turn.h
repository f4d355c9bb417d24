/* src/core/turn.h
 *
 * turn: what a worker may do now: the part of the log that it sees, the time, and how much work is left. The objects of
 * a worker share one; worker.c begins it.
 *
 * Thread: the worker's.
 */
#ifndef BELFRY_CORE_TURN_H
#define BELFRY_CORE_TURN_H

#include <stddef.h>
#include <stdint.h>

#include "core/evlog.h"

#define TURN_RETRY_MS 10

struct turn {
    struct evlog_view view; /* valid inside a turn */
    uint64_t now;           /* ms */
    uint64_t number;
    size_t work;       /* units left; worker.h says what a unit is */
    uint64_t retry_at; /* ms; BELFRY_NEVER: nothing failed */
};

static inline void turn_spend(struct turn *turn, size_t units)
{
    turn->work -= units < turn->work ? units : turn->work;
}

/* Streams and buses that wait try again at that time, or before. */
static inline void turn_retry_at(struct turn *turn, uint64_t at)
{
    if (at < turn->retry_at)
        turn->retry_at = at;
}

/* Something failed for lack of memory: it is tried again in TURN_RETRY_MS. */
static inline void turn_retry_later(struct turn *turn)
{
    turn_retry_at(turn, turn->now + TURN_RETRY_MS);
}

#endif
