/* src/serve/admin/admin.h
 *
 * admin: the endpoints of the admin address.
 *
 *     /livez               200 "ok" while the front's loop turns
 *     /readyz[?verbose]    200 or 503; verbose: one line a check: [+]upstream ok, [-]lag: 12 s behind (limit 5 s) ...
 *     /metrics             Prometheus text; names and help from one table, which docs/metrics.md is made from
 *     /debug/watchers      watchers.h
 *     /debug/upstream      the follower's status as JSON
 *     /debug/tree          the tiers above and below (tree.h) as JSON; ?format=text for people
 *     /debug/numbers       all of tier_numbers as JSON: what belfryctl top reads
 *     /                    a list of the above, for people
 *
 * Ready: the tier follows upstream, is not stale, lags at most ready-lag, writes its replica, every worker answers, and
 * it does not drain.
 * GET and HEAD only. An answer larger than the room goes out as the peer takes it. At most ADMIN_COLLECTS questions to
 * the workers at once, and ADMIN_UNSENT answers that are not sent yet: 503 beyond.
 *
 * Thread: owner (the front's loop). What workers know is asked for with opts.collect and opts.scan, and comes later.
 */
#ifndef BELFRY_SERVE_ADMIN_ADMIN_H
#define BELFRY_SERVE_ADMIN_ADMIN_H

#include "serve/admin/numbers.h"
#include "serve/admin/watchers.h"
#include "server/exchange.h"
#include "server/hosts.h"

#define ADMIN_COLLECTS 16
#define ADMIN_UNSENT   64

struct admin;

typedef void (*admin_numbers_fn)(const struct tier_numbers *numbers, void *user); /* lent */
/* Finished scans, the callee's to destroy; n may be less than the number of workers when one did not answer. */
typedef void (*admin_scans_fn)(struct watchers_scan **scans, size_t n, void *user);

struct admin_opts {
    /* Each answers exactly once, later, within about 2 s. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (too many under way):
     * no answer. */
    enum belfry_err (*collect)(admin_numbers_fn fn, void *fn_user, void *user);
    enum belfry_err (*scan)(const struct watchers_query *query, admin_scans_fn fn, void *fn_user, void *user);
    void *user;
    uint64_t ready_lag_ms;
    const struct hosts *hosts; /* lent; NULL: every name is allowed */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err admin_create(const struct admin_opts *opts, struct admin **out);
void admin_destroy(struct admin *admin); /* answers that still come are taken and dropped; NULL is fine */

/* exchange_begin_fn; user is the admin. */
void admin_begin(struct exchange *x, const struct exchange_head *head, void *user);

#endif
