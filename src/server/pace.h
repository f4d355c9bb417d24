/* src/server/pace.h
 *
 * pace: until when a peer must have sent the rest of a message that it has begun, or of a request.
 *
 * It has a span, PACE_MS but in tests, from the beginning, and as long again from each PACE_BYTES that have come: a large message on a slow line
 * gets through (6.4 KiB a second are enough), and whoever sends a byte now and then gains nothing.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_SERVER_PACE_H
#define BELFRY_SERVER_PACE_H

#include "base/clock.h"
#include "server/exchange.h"

#define PACE_MS    10000
#define PACE_BYTES EXCHANGE_WINDOW

struct pace {
    uint64_t due_ms; /* BELFRY_NEVER: nothing is waited for */
    size_t came;     /* since due_ms was set */
};

static inline void pace_init(struct pace *pace)
{
    *pace = (struct pace){.due_ms = BELFRY_NEVER};
}

/* The rest is waited for. `n` bytes of it have just come. */
static inline void pace_wait(struct pace *pace, size_t n, uint64_t now_ms, uint64_t span_ms)
{
    pace->came += n;
    if (pace->due_ms != BELFRY_NEVER && pace->came < PACE_BYTES)
        return;
    *pace = (struct pace){.due_ms = now_ms + span_ms};
}

/* It has all the time again: it was not its turn to send. */
static inline void pace_excuse(struct pace *pace, uint64_t now_ms, uint64_t span_ms)
{
    *pace = (struct pace){.due_ms = now_ms + span_ms};
}

#endif
