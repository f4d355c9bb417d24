/* src/serve/admin/readiness.h
 *
 * readiness: whether a tier should get clients: the one verdict that /readyz, /metrics, the page, belfryctl top and
 * doctor show. It is made of checks, and each is a line of /readyz?verbose and a series of the metric belfry_ready. The
 * tier is ready when all of them hold.
 *
 * Full pools are no check: clients that hold little are still served (pools.h).
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_ADMIN_READINESS_H
#define BELFRY_SERVE_ADMIN_READINESS_H

#include "serve/admin/numbers.h"

#define READINESS_WHY  320                  /* of a sentence, with NUL */
#define READINESS_LINE (READINESS_WHY + 32) /* of a sentence with the name of its check */

enum readiness_check {
    READINESS_UPSTREAM, /* the tier follows upstream and is not stale */
    READINESS_LAG,      /* and was up to date within ready_lag_ms */
    READINESS_REPLICA,  /* the replica can be written */
    READINESS_WORKERS,  /* every worker answers */
    READINESS_RIGHTS,   /* auth is on upstream, if a listener has rights=upstream */
    READINESS_DRAIN,    /* the tier does not drain */
    READINESS_N
};

struct readiness_finding {
    bool holds;
    char why[READINESS_WHY]; /* why it does not; "": it holds */
    const char *hint;        /* what to do about it; "": it holds */
};

#define READINESS_LOSS_MS (60 * 60 * 1000) /* so long is a loss of upstream's data told */

struct readiness {
    bool is_ready;
    struct readiness_finding checks[READINESS_N];
};

void readiness_judge(const struct tier_numbers *numbers, struct readiness *out);

/* What does not keep the tier from being ready, and somebody should look at: upstream began another past, with less in
 * it. False: there is nothing. */
bool readiness_warns(const struct tier_numbers *numbers, struct readiness_finding *out);

const char *readiness_name(enum readiness_check check); /* "upstream", "lag", ... */

/* The sentence of a check that does not hold, with the check's name in front, unless the sentence begins with it:
 *     lag: 9 s behind (limit 5 s)
 *     upstream http://etcd:2379 unreachable (connection refused); data is stale */
void readiness_line(enum readiness_check check, const struct readiness_finding *finding, char out[READINESS_LINE]);

/* What to do about a trouble with upstream; "" for DRIVER_FINE. */
const char *readiness_upstream_hint(enum driver_trouble trouble);

/* As members of an object that is open:
 * "ready":false,"verdict":"not ready","why":"lag: 9 s behind (limit 5 s)","hint":"..",
 * "warnings":[{"name":"upstream","why":"..","hint":".."}],
 * "checks":[{"name":"upstream","ok":true},{"name":"lag","ok":false,"why":"..","hint":".."},...]
 * The verdict is "ready", "not ready" or "draining"; "why" and "hint" are those of the first check that
 * does not hold, or "". */
void readiness_write(struct belfry_json *json, const struct tier_numbers *numbers);

#endif
