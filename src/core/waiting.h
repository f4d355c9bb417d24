/* src/core/waiting.h
 *
 * waiting: the watchers of a worker that wait, by client and cursor.
 *
 * There are WAITING_QUEUES. A client whose first watcher waits gets a queue of its own if one is empty; otherwise it
 * shares the shortest. So when many clients wait, those with few watchers share queues, and one with very many is left
 * to itself. A queue is ordered by cursor; so is the whole, by looking at each queue that is not empty.
 *
 * Queues are for taking turns (sweep.h). Each remembers where the last one to serve it ended, and continues there: so
 * watchers that come back to old cursors again and again do not hold up others of their client.
 *
 * Thread: the worker's.
 * Memory: fixed; linked through the watchers.
 */
#ifndef BELFRY_CORE_WAITING_H
#define BELFRY_CORE_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/treap.h"

#define WAITING_QUEUES 16

struct watcher;

struct waiting_queue {
    uint64_t client; /* who began it */
    struct belfry_treap_node *watchers;
    size_t n;
    int64_t resume_at; /* it is served from here on; 0 when it was empty */
};

struct waiting {
    struct waiting_queue queues[WAITING_QUEUES]; /* all zero: nobody waits */
    size_t n;
};

/* Its `next` and stream do not change while it is there. */
void waiting_add(struct waiting *waiting, struct watcher *watcher);
void waiting_remove(struct waiting *waiting, struct watcher *watcher);

/* The watcher with the smallest cursor of at least `cursor`; NULL: none. */
struct watcher *waiting_from(const struct waiting *waiting, int64_t cursor);
struct watcher *waiting_queue_from(const struct waiting_queue *queue, int64_t cursor);

#endif
