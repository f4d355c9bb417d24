/* src/serve/admin/readiness.h
 *
 * readiness: whether a tier should get clients, one check at a time. Each is a line of /readyz?verbose and a series of
 * the metric belfry_ready. The tier is ready when all of them hold.
 *
 * Full pools are no check: clients that hold little are still served (pools.h).
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_ADMIN_READINESS_H
#define BELFRY_SERVE_ADMIN_READINESS_H

#include "serve/admin/numbers.h"

#define READINESS_WHY 320 /* of a sentence, with NUL */

enum readiness_check {
    READINESS_UPSTREAM, /* the tier follows upstream and is not stale */
    READINESS_LAG,      /* and was up to date within ready_lag_ms */
    READINESS_REPLICA,  /* the replica can be written */
    READINESS_WORKERS,  /* every worker answers */
    READINESS_RIGHTS,   /* auth is on upstream, if a listener has rights=upstream */
    READINESS_DRAIN,    /* the tier does not drain */
    READINESS_N
};

const char *readiness_name(enum readiness_check check); /* "upstream", "lag", ... */

/* False: the check does not hold, and `why` says why; otherwise `why` is not to be read. */
bool readiness_holds(const struct tier_numbers *numbers, enum readiness_check check, char why[READINESS_WHY]);

#endif
