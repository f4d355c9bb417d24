/* src/serve/admin/admin.h
 *
 * admin: the endpoints of the admin address.
 *
 *     /livez               200 "ok" while the front's loop runs
 *     /readyz[?verbose]    200 or 503; verbose: one line per check: [+]upstream ok, [-]lag: 12 s behind (limit 5 s) ...
 *                          and [!]pools: memory is full: ..., with which it stays ready (pools.h)
 *     /metrics             Prometheus text; names and help from one table, which docs/metrics.md is made from
 *     /debug/watchers      watchers.h
 *     /debug/clients       clients.h
 *     /debug/upstream      the follower's status as JSON
 *     /debug/tree          the tiers above and below (tree.h) as JSON; ?format=text for people
 *     /debug/numbers       all of tier_numbers as JSON: what belfryctl top reads
 *     /debug/hour          the last hour (hour.h)
 *     /debug/log           the newest warnings and errors (log_lines.h)
 *     /debug/tail?prefix=  changes of keys as they are published (tail.h); 403 where it is off
 *     /events              what open pages receive every second
 *     /                    the page (src/serve/admin/page) for clients that accept HTML; for others a list of the above
 *
 * Ready: the tier follows upstream, is not stale, lags at most ready-lag, writes its replica, every worker answers, and
 * it does not drain.
 * GET and HEAD only. The address serves whoever reaches it, so what requests cost is bounded, and /readyz stays right:
 * - Pages that are made from numbers share one question to the workers, and its answer is written once for all that
 *   asked for the same page. A request that comes meanwhile waits for the next question. /readyz has a question of its
 *   own.
 * - Beyond ADMIN_SCANS concurrent scans (/debug/watchers, /debug/clients) the answer is 503.
 * - A large answer is written as fast as the peer reads it. What is not written yet counts as memory of its client
 *   (server/shares.h); beyond its share the answer is 503. Files of the page are not copied.
 * - All open pages share one question per second, and one message as server-sent events: numbers and tree (the
 *   documents of /debug/numbers, without its workers, and /debug/tree), hour (a new sample) and log (how many lines
 *   there were). A page whose connection has no room for all of it misses the message. After ADMIN_VIEWER_MISSES in a
 *   row its response is reset, and the browser connects again. So a page that is not read holds at most EXCHANGE_ROOM
 *   bytes.
 * daemon/front.c sets the limits of connections, streams, memory and time.
 *
 * Thread: owner (the front's loop). opts.collect, opts.scan and opts.clients ask the workers; they answer later.
 */
#ifndef BELFRY_SERVE_ADMIN_ADMIN_H
#define BELFRY_SERVE_ADMIN_ADMIN_H

#include "serve/admin/clients.h"
#include "serve/admin/log_lines.h"
#include "serve/admin/numbers.h"
#include "serve/admin/tail.h"
#include "serve/admin/watchers.h"
#include "server/cors.h"
#include "server/exchange.h"
#include "server/hosts.h"

#define ADMIN_SCANS         16
#define ADMIN_VIEWERS       32 /* open pages */
#define ADMIN_VIEWER_MISSES 30

struct admin;

typedef void (*admin_numbers_fn)(const struct tier_numbers *numbers, void *user); /* lent */
/* Finished scans, which the callee destroys; n is less than the number of workers if one did not answer. */
typedef void (*admin_scans_fn)(struct watchers_scan **scans, size_t n, void *user);
typedef void (*admin_clients_fn)(struct clients_scan **scans, size_t n, void *user); /* likewise */

struct admin_opts {
    /* Each answers exactly once, later, within about 2 s; after an error there is no answer. Errors: BELFRY_ERR_NOMEM,
     * BELFRY_ERR_LIMIT (too many under way). */
    enum belfry_err (*collect)(admin_numbers_fn fn, void *fn_user, void *user);
    enum belfry_err (*scan)(const struct watchers_query *query, admin_scans_fn fn, void *fn_user, void *user);
    enum belfry_err (*clients)(const struct clients_query *query, admin_clients_fn fn, void *fn_user, void *user);
    void *user;
    struct hosts *hosts;      /* lent; NULL: every name is allowed */
    struct cors_origins cors; /* lent: web pages that may ask */
    struct log_lines *lines;  /* lent; NULL: none are kept */
    struct tail *tail;        /* lent; NULL: it is off */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err admin_create(const struct admin_opts *opts, struct admin **out);
void admin_destroy(struct admin *admin);                 /* drops answers that still come; NULL is fine */
uint64_t admin_refused_pages(const struct admin *admin); /* requests of web pages of other sites (cors.h), so far */

/* exchange_begin_fn; user is the admin. */
void admin_begin(struct exchange *x, const struct exchange_head *head, void *user);

/* A turn of the tail, and a question for a sample for the hour and the pages, if one is due. To be called several times
 * per second. */
void admin_tick(struct admin *admin, uint64_t now_ms);

#endif
