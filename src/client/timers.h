/* src/client/timers.h
 *
 * timers: any number of timers behind one timer of the loop, linked through their owners.
 *
 * Thread: owner. Pure: the owner of the set reads the clock and the loop.
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
    uint64_t number;               /* counts settings: timers of the same time fire in the order they were set */
    void (*fn)(struct belfry_timer *timer);
};

struct belfry_timers { /* all zeroes: no timer is set */
    struct belfry_treap_node *root;
    uint64_t n_set;     /* number of settings so far */
    uint64_t firing_ms; /* while timers fire: their time */
};

static inline void belfry_timer_init(struct belfry_timer *timer, void (*fn)(struct belfry_timer *timer))
{
    *timer = (struct belfry_timer){.due_ms = BELFRY_NEVER, .fn = fn};
}

/* Sets or changes a timer. BELFRY_NEVER stops it. */
void belfry_timers_set(struct belfry_timers *timers, struct belfry_timer *timer, uint64_t due_ms);

/* Calls the timers that are due, the earliest first; each is unset when it is called. A timer that one of them sets to
 * now or earlier waits for the next call, so that this call ends. */
void belfry_timers_fire(struct belfry_timers *timers, uint64_t now_ms);

uint64_t belfry_timers_due(const struct belfry_timers *timers); /* BELFRY_NEVER: no timer is set */

#endif
