/* src/server/h2_calm.h
 *
 * h2_calm: how many streams a peer may have that end unanswered: a bucket that fills with time. Such streams cost us
 * more than their peer (rapid resets).
 *
 * Thread: owner. Pure; `now` is given.
 * Memory: fixed.
 */
#ifndef BELFRY_SERVER_H2_CALM_H
#define BELFRY_SERVER_H2_CALM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define H2_CALM_STREAMS 1000 /* in a burst, ... */
#define H2_CALM_RATE    200  /* ... and more per second */
#define H2_CALM_MOST    100  /* that one event costs at most */

struct h2_calm {
    uint64_t at_ms; /* when it was filled last */
    uint32_t left;  /* thousandths of a stream */
};

void h2_calm_init(struct h2_calm *calm); /* full */

/* Takes out what `streams` cost. False: there is not enough left. */
bool h2_calm_spend(struct h2_calm *calm, size_t streams, uint64_t now_ms);

#endif
