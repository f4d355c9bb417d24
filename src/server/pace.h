/* src/server/pace.h
 *
 * pace: the deadline for the rest of a message, or of a request, that a peer has begun to send.
 *
 * The deadline is one span (PACE_MS, less in tests) after the beginning, and one span after each further PACE_BYTES.
 * So a large message on a slow line gets through (6.4 KiB per second are enough), and single bytes do not extend the
 * deadline.
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
    uint64_t due_ms; /* BELFRY_NEVER: nothing is expected */
    size_t came;     /* bytes received since due_ms was set */
};

static inline void pace_init(struct pace *pace)
{
    *pace = (struct pace){.due_ms = BELFRY_NEVER};
}

/* The rest is expected. `n` bytes of it were just received. */
static inline void pace_wait(struct pace *pace, size_t n, uint64_t now_ms, uint64_t span_ms)
{
    pace->came += n;
    if (pace->due_ms != BELFRY_NEVER && pace->came < PACE_BYTES)
        return;
    *pace = (struct pace){.due_ms = now_ms + span_ms};
}

/* Starts a full span: the peer was not able to send. */
static inline void pace_excuse(struct pace *pace, uint64_t now_ms, uint64_t span_ms)
{
    *pace = (struct pace){.due_ms = now_ms + span_ms};
}

#endif
