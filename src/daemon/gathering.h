/* src/daemon/gathering.h
 *
 * gathering: a question to every worker (and ingest), whose answers come one by one, until all are there or
 * GATHERING_MS have passed. A late answer is left out, and freed when it comes.
 *
 * Thread: owner (the front's); see worker_thread.h for what happens elsewhere.
 */
#ifndef BELFRY_DAEMON_GATHERING_H
#define BELFRY_DAEMON_GATHERING_H

#include "daemon/tier_parts.h"
#include "daemon/worker_thread.h"
#include "serve/admin/admin.h"

#define GATHERING_MS   2000
#define GATHERINGS_MAX 64 /* at a time */

struct gatherer; /* the gatherings under way */

struct gatherer_opts {
    uv_loop_t *loop;
    struct mailbox *front;
    struct tier_parts *parts; /* for ingest */
    struct worker_thread *const *workers;
    size_t n_workers;
    /* What the front itself knows, before the numbers are handed out. */
    void (*finish)(struct tier_numbers *numbers, void *user);
    void *user;
};

BELFRY_NODISCARD enum belfry_err gatherer_create(const struct gatherer_opts *opts, struct gatherer **out);

/* Answers gatherings under way with what is there. Late answers are freed when the front's mailbox is closed; the
 * gatherer's memory goes with the last of them. NULL is fine. */
void gatherer_destroy(struct gatherer *gatherer);

BELFRY_NODISCARD enum belfry_err gatherer_numbers(struct gatherer *gatherer, admin_numbers_fn fn, void *fn_user);
BELFRY_NODISCARD enum belfry_err gatherer_scan(struct gatherer *gatherer, const struct watchers_query *query,
                                               admin_scans_fn fn, void *fn_user);
BELFRY_NODISCARD enum belfry_err gatherer_clients(struct gatherer *gatherer, const struct clients_query *query,
                                                  admin_clients_fn fn, void *fn_user);

#endif
