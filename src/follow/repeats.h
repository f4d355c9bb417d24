/* src/follow/repeats.h
 *
 * repeats: the events of a revision whose key an earlier event of the same revision has changed.
 *
 * etcd refuses a Txn that puts a key twice, or puts and deletes it. It does not notice this when the delete has no end
 * ("all keys from this one on"), or is in a Txn inside of it that follows another with the put. So a revision may put a
 * key and delete it, or the other way around, any number of times. Each event is delivered, in order. What was there
 * before an event is then not what was there before the revision; etcd gives the latter as prev_kv, and nothing for a
 * PUT that creates its key.
 *
 * Nearly all revisions have one event, or the ascending keys of a range delete. Those are seen at once to have none.
 *
 * Thread: owner (ingest's). Pure.
 * Memory: a repeat for each such event, and what the owner keeps of it; while they are searched, a pointer for each
 * event.
 */
#ifndef BELFRY_FOLLOW_REPEATS_H
#define BELFRY_FOLLOW_REPEATS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/blob.h"
#include "base/err.h"
#include "wire/scan.h"

struct repeat {
    size_t at;                  /* the event */
    size_t last;                /* the one before it with the same key */
    struct belfry_blob *before; /* owned: the KeyValue before the revision; NULL: none, or not set */
};

/* One of zeroes is empty. */
struct repeats {
    struct repeat *list; /* in the order of their events */
    size_t *lasts;       /* their `last`s, in order */
    size_t n;
    size_t bytes; /* of all `before`s */
};

/* Those of a revision, instead of what it had. Errors: BELFRY_ERR_NOMEM (it is empty). */
BELFRY_NODISCARD enum belfry_err repeats_find(struct repeats *repeats, const struct belfry_wire_event *events,
                                              size_t n);
void repeats_clear(struct repeats *repeats);

/* Sets its `before`, a copy. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err repeats_keep(struct repeats *repeats, struct repeat *repeat,
                                              struct belfry_bytes before);

/* Of event `at`; NULL: it is the first of its key. */
struct repeat *repeats_of(const struct repeats *repeats, size_t at);

/* Does a later event change the key of event `at`? */
bool repeats_changed_later(const struct repeats *repeats, size_t at);

#endif
