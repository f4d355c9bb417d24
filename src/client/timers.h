/* src/client/timers.h
 *
 * timers: any number of points in time behind one timer of the loop, linked through their owners.
 *
 * Thread: owner. Pure: who owns the set reads the clock and the loop.
 */
#ifndef BELFRY_CLIENT_TIMERS_H
#define BELFRY_CLIENT_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/treap.h"

struct belfry_timer {
    struct belfry_treap_node node; /* in timers.root while it is set */
    uint64_t due_ms;               /* BELFRY_NEVER: not set */
    uint64_t number;               /* of its setting: those of one time fire in the order they were set */
    void (*fn)(struct belfry_timer *timer);
};

struct belfry_timers { /* all zeroes: none is set */
    struct belfry_treap_node *root;
    uint64_t n_set;     /* settings so far */
    uint64_t firing_ms; /* while some fire: the time they fire at */
};

static inline void belfry_timer_init(struct belfry_timer *timer, void (*fn)(struct belfry_timer *timer))
{
    *timer = (struct belfry_timer){.due_ms = BELFRY_NEVER, .fn = fn};
}

/* Sets it, or sets it anew. BELFRY_NEVER stops it. */
void belfry_timers_set(struct belfry_timers *timers, struct belfry_timer *timer, uint64_t due_ms);

/* Calls those that are due, the earliest first; each is not set any more when it is called. A timer set by one of them
 * to now or before waits for the next call, so that this one ends and everybody has a turn. */
void belfry_timers_fire(struct belfry_timers *timers, uint64_t now_ms);

uint64_t belfry_timers_due(const struct belfry_timers *timers); /* BELFRY_NEVER: none is set */

#endif
