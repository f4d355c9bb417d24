/* src/informer/audience.h
 *
 * audience: the handlers of an informer, and how much of the store each has received.
 *
 *     REPLAYING --whole store reported--> LIVE --resync due--> RESYNCING --whole store reported again--> LIVE
 *                 (SYNCED when the store is complete)
 *
 * There are no queues. A handler that was added late walks the store by key, one slice per turn. It receives a change
 * of a key at or before its place; a later key's change is skipped, because the walk will reach it. A resync is the
 * same walk by a handler that already knows everything, so it receives every change.
 *
 * Any callback may add handlers, remove any handler, itself included, and close the informer: after each callback the
 * audience checks whether it still exists.
 *
 * Thread: owner. Pure: the caller passes the time.
 * Memory: about 100 bytes per handler; a walking handler also holds the object at its place.
 */
#ifndef BELFRY_INFORMER_AUDIENCE_H
#define BELFRY_INFORMER_AUDIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/informer.h>

#include "informer/object_store.h"

#define BELFRY_AUDIENCE_SLICE 128 /* objects reported to one handler in one turn of a walk */

struct belfry_audience;

BELFRY_NODISCARD enum belfry_err belfry_audience_create(struct belfry_informer *informer, struct belfry_store *store,
                                                        struct belfry_audience **out);

/* No handler is called any more, and the store is not used. Handlers are freed when they are not on the stack. NULL is
 * fine. */
void belfry_audience_destroy(struct belfry_audience *audience);

/* `resync_ms` 0: never. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_audience_add(struct belfry_audience *audience, belfry_news_fn fn, void *user,
                                                     uint32_t resync_ms, uint64_t now_ms, struct belfry_handler **out);
/* belfry_handler_remove() and belfry_handler_synced() are implemented here. */

/* Calls every handler that existed at the call; a REPLAYING one only if it has passed the key. The store has
 * been changed already.
 * False: a callback destroyed the audience. *pause is set if a handler requested a pause (never cleared). */
BELFRY_NODISCARD bool belfry_audience_tell(struct belfry_audience *audience, const struct belfry_news *news,
                                           bool *pause);

/* The store is complete (again): handlers that have received all of it receive SYNCED; the others do when they have.
 * Returns the same as tell. */
BELFRY_NODISCARD bool belfry_audience_synced(struct belfry_audience *audience, bool *pause);

/* Advances each walk by a slice and starts resyncs that are due, until *pause. Returns the same as tell. */
BELFRY_NODISCARD bool belfry_audience_turn(struct belfry_audience *audience, uint64_t now_ms, bool *pause);

/* When turn() has work; 0: now; BELFRY_NEVER: none. */
uint64_t belfry_audience_due(const struct belfry_audience *audience);

#endif
