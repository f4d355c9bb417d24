/* src/informer/audience.h
 *
 * audience: the handlers of an informer: who is told what, and how far each has been told what was there before it.
 *
 *     REPLAYING --the whole store told--> LIVE --resync due--> RESYNCING --the whole store told again--> LIVE
 *                 (told SYNCED when the store is complete)
 *
 * There are no queues. A handler that came late walks the store by key, a slice a turn: a change at or before its place
 * is told to it, one behind its place is not, because it will walk over it. A resync is the same walk again, of a
 * handler that knows everything: it is told every change.
 *
 * Any callback may add handlers, remove any, itself included, and close the informer: after each call the audience
 * looks whether it still is one.
 *
 * Thread: owner. Pure: the clock is handed in.
 * Memory: a handler's 100 bytes or so; one that walks holds the object it stands at.
 */
#ifndef BELFRY_INFORMER_AUDIENCE_H
#define BELFRY_INFORMER_AUDIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/informer.h>

#include "informer/object_store.h"

#define BELFRY_AUDIENCE_SLICE 128 /* objects told to one handler in one turn of a walk */

struct belfry_audience;

BELFRY_NODISCARD enum belfry_err belfry_audience_create(struct belfry_informer *informer, struct belfry_store *store,
                                                        struct belfry_audience **out);

/* Nobody is told anything any more, and the store is not looked at. Handlers are freed when they are not on the stack.
 * NULL is fine. */
void belfry_audience_destroy(struct belfry_audience *audience);

/* `resync_ms` 0: never. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_audience_add(struct belfry_audience *audience, belfry_news_fn fn, void *user,
                                                     uint32_t resync_ms, uint64_t now_ms, struct belfry_handler **out);
/* belfry_handler_remove() and belfry_handler_synced() are implemented here. */

/* Tells everybody who was there when it was called and stands where it counts. The store has been moved before. False:
 * the audience was destroyed by a callback. *pause is set when one asked for it (never cleared). */
BELFRY_NODISCARD bool belfry_audience_tell(struct belfry_audience *audience, const struct belfry_news *news,
                                           bool *pause);

/* The store is complete (again): those who have been told all of it are told SYNCED, the others when they have. Answers
 * as tell does. */
BELFRY_NODISCARD bool belfry_audience_synced(struct belfry_audience *audience, bool *pause);

/* Walks go on by a slice each, resyncs that are due begin. Until *pause. Answers as tell does. */
BELFRY_NODISCARD bool belfry_audience_turn(struct belfry_audience *audience, uint64_t now_ms, bool *pause);

/* When turn() has something to do; 0: at once; BELFRY_NEVER: nothing. */
uint64_t belfry_audience_due(const struct belfry_audience *audience);

#endif
