/* src/serve/kube/catalog_feed.h
 *
 * catalog_feed: updates the catalog while definitions change in etcd (resources with crds-under).
 *
 * It has a watcher of its own on each of these prefixes, in the core like every other. The events are not read: each
 * means that the reader must read the prefixes again, at a revision not older than the event.
 *
 *     IDLE --an event, or a watcher was lost--> READING --the catalog--> IDLE
 *                                                 | not that far yet, or the disk failed: again after a while
 *
 * A reading is as many tasks of the reader as needed (definitions.h), so that other tasks run between them. The first
 * reading begins immediately. The next waits CATALOG_FEED_SETTLE_MS, and CATALOG_FEED_SHARE times as long as the last
 * reading took, so that a thousand definitions written one by one are read a few times and not a thousand.
 *
 * Thread: owner (its worker's); the catalog is made on the reader's and published from there.
 */
#ifndef BELFRY_SERVE_KUBE_CATALOG_FEED_H
#define BELFRY_SERVE_KUBE_CATALOG_FEED_H

#include "core/worker.h"
#include "follow/history_reader.h"
#include "serve/kube/definitions.h"
#include "thread/thread.h"

#define CATALOG_FEED_SETTLE_MS 100
#define CATALOG_FEED_SHARE     4 /* of five moments of the reader, it has one at most */

struct catalog_feed;

struct catalog_feed_opts {
    struct definitions *definitions;          /* lent */
    const struct definition_sources *sources; /* its prefixes */
    struct history_reader *const *history;
    struct thread *thread; /* the worker's: for the way back */
    struct worker *worker;
    /* On the reader's thread: one reference is handed over in any case. Errors: BELFRY_ERR_NOMEM: again later. */
    enum belfry_err (*publish)(struct kube_catalog *catalog, void *user);
    void *user;
    const struct belfry_log *log;
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err catalog_feed_create(const struct catalog_feed_opts *opts, struct catalog_feed **out);

/* Before its worker. A reading that is under way ends by itself. NULL is fine. */
void catalog_feed_destroy(struct catalog_feed *feed);

/* After each worker_turn(): opens watchers that are not open, has the prefixes read if that is due. */
void catalog_feed_after_turn(struct catalog_feed *feed, uint64_t now_ms);
uint64_t catalog_feed_due(const struct catalog_feed *feed); /* BELFRY_NEVER: when something happens */

#endif
