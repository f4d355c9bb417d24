/* src/serve/relay/relay_observed.h
 *
 * relay_observed: how long a call may go on whose response may tell of changes for ever.
 *
 * etcd judges the right to observe an election when the call begins, and then no more. So such a call ends within a
 * period of rights, unless auth is off: a client that repeats it is judged again.
 *
 * Thread: owner. Pure; `now` is given.
 * Memory: fixed; calls embed it.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_OBSERVED_H
#define BELFRY_SERVE_RELAY_RELAY_OBSERVED_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/rights/permit.h"

#define RELAY_OBSERVED_LOOK_MS 100 /* until the next look, while it is not known whether auth is on */

struct relay_observed {
    uint64_t right_ms; /* when upstream judged the right, or auth was known to be off */
    uint64_t look_ms;  /* when to look at that again; BELFRY_NEVER: the call is of another kind */
};

void relay_observed_init(struct relay_observed *observed);

/* The call is of this kind, and upstream judges its right about now. */
void relay_observed_begin(struct relay_observed *observed, uint64_t now_ms, uint64_t period_ms);

/* It is time to look, and auth is as said. True: the call must end. */
bool relay_observed_is_over(struct relay_observed *observed, enum permit_auth auth, uint64_t now_ms,
                            uint64_t period_ms);

#endif
