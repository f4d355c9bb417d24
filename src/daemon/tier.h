/* src/daemon/tier.h
 *
 * tier: the threads of a belfryd. Workers serve clients; what they serve, and how upstream is followed, are the tier's
 * parts (tier_parts.h). Wiring only.
 *
 * Thread: owner (the front's). Answers come by the front's mailbox.
 */
#ifndef BELFRY_DAEMON_TIER_H
#define BELFRY_DAEMON_TIER_H

#include "daemon/config.h"
#include "serve/admin/admin.h"
#include "server/inbound.h"
#include "thread/mail.h"

struct tier;

struct tier_opts {
    const struct config *config; /* lent */
    uv_loop_t *loop;             /* the front's */
    struct mailbox *front;
    struct limits *limits;   /* lent */
    struct hosts *hosts;     /* by which it may be asked over plain HTTP; lent */
    struct tickets *tickets; /* lent */
    const struct belfry_log *log;
};

/* Opens the replica and starts the threads. On failure a sentence is stored in why.
 * Errors: BELFRY_ERR_IO, BELFRY_ERR_TLS, BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err tier_start(const struct tier_opts *opts, struct tier **out, char *why, size_t why_len);

/* Stops every thread. NULL is fine. */
void tier_stop(struct tier *tier);

/* To be called after tier_stop(), and after the front's mailbox was closed. NULL is fine. */
void tier_destroy(struct tier *tier);

/* Gives an accepted connection to the worker with the least to do, which refuses it when there are as many as the limit
 * on descriptors allows. */
void tier_accept(struct tier *tier, const struct inbound_arrival *arrival);

/* Sends the clients that are there now away over drain_ms; newcomers are served. tier_farewell(): sends all away
 * immediately. tier_busy(): connections that are still there. */
void tier_drain(struct tier *tier, uint64_t drain_ms);
void tier_farewell(struct tier *tier);
size_t tier_busy(const struct tier *tier);

/* Questions to every worker, for admin_opts; user is the tier. The answer has what came within about 2 s, scans of
 * watchers within 10 s. Errors: BELFRY_ERR_LIMIT (64 are under way), BELFRY_ERR_NOMEM. */
enum belfry_err tier_collect(admin_numbers_fn fn, void *fn_user, void *user);
enum belfry_err tier_scan(const struct watchers_query *query, admin_scans_fn fn, void *fn_user, void *user);
enum belfry_err tier_clients(const struct clients_query *query, admin_clients_fn fn, void *fn_user, void *user);

/* A tail of the log, which the caller destroys before the tier. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err tier_open_tail(struct tier *tier, struct tail **out);

/* Filled in by the front, for numbers. expires_s: when the first certificate of a listener ends. */
void tier_note_admin(struct tier *tier, struct inbound_group *inbound, const struct admin *admin);
void tier_note_listeners(struct tier *tier, const struct listener_stats *stats, int64_t expires_s);

/* May listeners with rights=upstream serve? PERMIT_AUTH_ON also when there is none. */
enum permit_auth tier_guard(const struct tier *tier);

/* Does it follow upstream now, and may every listener serve? `reason` says why not. HOPELESS: it never will follow with
 * this configuration; a log line says why. */
enum tier_state { TIER_NOT_READY, TIER_READY, TIER_HOPELESS };
enum tier_state tier_look(struct tier *tier, char *reason, size_t reason_len);

#endif
