/* src/core/batch.h
 *
 * batch: all events of one revision, immutable, in one allocation.
 *
 * An event is kept as the bytes that came from upstream, without a prev_kv, and directly behind them the prev_kv field
 * as it would follow in the same message. So an event goes downstream as one run of bytes, with the previous value or
 * without, and is never encoded again:
 *
 *     | Event: type, kv           | 1a len KeyValue (what was there before) |
 *     `-------- len -------------´ `---------------- prev_len -------------´
 *
 * An extent stands for a revision too large for memory: it has no events; its rows are in the replica. A slice is a
 * part of such a revision as it was read back. An advance says that nothing happened in the scope up to `rev`.
 *
 * Thread: any, once shared. The last unref may happen on any thread.
 */
#ifndef BELFRY_CORE_BATCH_H
#define BELFRY_CORE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "wire/scan.h"

enum batch_kind { BATCH_EVENTS, BATCH_ADVANCE, BATCH_EXTENT, BATCH_SLICE };

struct batch_event {
    uint32_t at;              /* offset of the event's bytes in the batch */
    uint32_t len, prev_len;   /* prev_len 0: the key did not exist before, or its value is unknown */
    uint32_t key_at, key_len; /* key_at counts from the start of the batch's bytes too */
    uint32_t is_delete : 1;
    uint32_t put_before : 31; /* the place of the newest put before it in this batch that can have its key, counted from
                                 1; 0: there is none. From that put on to older ones */
};

struct batch {
    int64_t rev;
    enum batch_kind kind;
    uint32_t n_events;
    uint32_t first_sub;     /* of a slice: sub of its first event; 0 otherwise */
    bool more;              /* of a slice: the revision has further events */
    uint64_t extent_events; /* of an extent */
    uint64_t extent_bytes;
    size_t bytes;        /* what the allocation holds, for accounts */
    const uint8_t *data; /* events' bytes */
    const struct batch_event *events;
};

/* A batch with room for n_events events of data_bytes bytes in all, which batch_add() then fills while the creator
 * holds the only reference. data_bytes for an event: batch_event_bytes(). Errors: BELFRY_ERR_NOMEM,
 * BELFRY_ERR_TOO_LARGE (4 GiB or more: make an extent). */
BELFRY_NODISCARD enum belfry_err batch_create(int64_t rev, enum batch_kind kind, uint32_t n_events, size_t data_bytes,
                                              struct batch **out);
size_t batch_event_bytes(const struct belfry_wire_event *event, struct belfry_bytes prev_kv);

/* Appends an event as scanned; a prev_kv inside it is left out, and `prev_kv` (a KeyValue; empty: none) put behind. */
void batch_add(struct batch *batch, const struct belfry_wire_event *event, struct belfry_bytes prev_kv);

/* Appends an event that is stored as a batch has it: the bytes without prev_kv, the KeyValue before, its key. */
void batch_add_stored(struct batch *batch, struct belfry_bytes event, struct belfry_bytes prev_kv,
                      struct belfry_bytes key, bool is_delete);
size_t batch_stored_bytes(size_t event_len, size_t prev_kv_len);

/* Fields of a slice or an extent, before sharing. */
void batch_set_slice(struct batch *batch, uint32_t first_sub, bool more);
void batch_set_extent(struct batch *batch, uint64_t n_events, uint64_t bytes);

struct batch *batch_ref(const struct batch *batch);
void batch_unref(const struct batch *batch); /* NULL is fine */

static inline struct belfry_bytes batch_key(const struct batch *batch, const struct batch_event *event)
{
    return belfry_bytes_of(batch->data + event->key_at, event->key_len);
}

static inline struct belfry_bytes batch_bytes(const struct batch *batch, const struct batch_event *event, bool prev_kv)
{
    return belfry_bytes_of(batch->data + event->at, event->len + (prev_kv ? event->prev_len : 0));
}

/* The KeyValue before, without its field head; empty: none. */
struct belfry_bytes batch_prev_kv(const struct batch *batch, const struct batch_event *event);

/* The put of the same revision whose value this one deletes (decision 0070); NULL: there is none in this batch. etcd's
 * prev_kv is what was there before the revision. (It refuses a revision that puts a key twice without deleting it
 * between.) */
const struct batch_event *batch_put_before(const struct batch *batch, const struct batch_event *event);

/* May there have been another value than is known, right before this event? (Backfilled from an upstream that has
 * compacted it; deleted in the revision that created it, or in a later slice than the first: an earlier one may have
 * put it.) */
bool batch_prev_lost(const struct batch *batch, const struct batch_event *event);

#endif
