/* src/serve/etcd/watch_queue.h
 *
 * watch_queue: requests of one stream that wait: creates for the answer about their rights, and what came after them.
 *
 * A client that resumes sends all its creates at once. All of them are asked about together, which makes few questions
 * upstream, and handled in the order in which they came.
 *
 *     UNASKED --asked--> ASKED --granted--> HELD, or FREE (auth is off)        PLAIN: it needs no right
 *        ^                 | `--refused-.    `-right is lost-.
 *        `- no answer came-'             `--------------------`--> REFUSED
 *
 * Thread: owner. Pure.
 * Memory: one allocation per request, with a copy of it; WATCH_QUEUE_MAX of them and WATCH_QUEUE_BYTES, or a single one
 * over that. One more for the reason of a refusal.
 */
#ifndef BELFRY_SERVE_ETCD_WATCH_QUEUE_H
#define BELFRY_SERVE_ETCD_WATCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "wire/scan.h"

#define WATCH_QUEUE_MAX   128          /* as many ranges as one question has: RIGHTS_BATCH */
#define WATCH_QUEUE_BYTES (256 * 1024) /* of requests; no more are added from there on */

enum watch_wait {
    WATCH_WAIT_PLAIN,
    WATCH_WAIT_UNASKED,
    WATCH_WAIT_ASKED,
    WATCH_WAIT_HELD,
    WATCH_WAIT_FREE,
    WATCH_WAIT_REFUSED
};

struct watch_claim;

/* A request that waits. */
struct watch_waiting {
    struct belfry_list node;
    enum watch_wait state;     /* moved by watch_waiting_move_to() alone */
    struct watch_claim *claim; /* ASKED, HELD: the stream's, which sets it; otherwise NULL */
    char *reason;              /* REFUSED: owned; NULL: there was no memory for it */
    struct belfry_bytes message;
    char text[];
};

struct watch_queue {
    struct belfry_list requests;
    size_t n, bytes;
};

void watch_queue_init(struct watch_queue *queue);
void watch_queue_fini(struct watch_queue *queue); /* frees the requests; their claims have been ended */

/* Copies `message`, a WatchRequest that can be scanned, to the end; `state` is PLAIN or UNASKED.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err watch_queue_add(struct watch_queue *queue, struct belfry_bytes message,
                                                 enum watch_wait state, struct watch_waiting **out);
void watch_queue_remove(struct watch_queue *queue, struct watch_waiting *waiting); /* frees it */

void watch_waiting_move_to(struct watch_waiting *waiting, enum watch_wait to);
void watch_waiting_refuse(struct watch_waiting *waiting, const char *reason); /* copies the reason; moves to REFUSED */
void watch_waiting_read(const struct watch_waiting *waiting, struct belfry_wire_watch_request *out); /* lent bytes */

static inline bool watch_queue_is_empty(const struct watch_queue *queue)
{
    return queue->n == 0;
}

/* May one more be added? Not after a request that could not be asked about: the next one could not, either. */
bool watch_queue_has_room(const struct watch_queue *queue);

/* The first request, if it can be handled; otherwise NULL. */
struct watch_waiting *watch_queue_settled(const struct watch_queue *queue);

/* The first request that is to be asked about; NULL: none. */
struct watch_waiting *watch_queue_unasked(const struct watch_queue *queue);

#endif
