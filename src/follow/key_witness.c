/* src/follow/key_witness.c */
#include "follow/key_witness.h"

#include "core/segment.h"

#define PUTS_TRIED 16
#define WALK_ROWS  1000
#define WALK_BYTES (1024 * 1024)

void key_witness_fini(struct key_witness *witness)
{
    belfry_buf_fini(&witness->key);
    belfry_buf_fini(&witness->kv);
}

/* The events of `rev`, as the store has them; of very many the first. */
static enum belfry_err read_revision(struct store *store, uint64_t past, int64_t rev, struct segment **out)
{
    int64_t oldest;
    enum belfry_err err = store->api->history(store, past, rev, 1, out, &oldest);
    if (err == BELFRY_OK && (*out)->n > 0 && (*out)->batches[0]->kind == BATCH_EXTENT) {
        segment_unref(*out);
        err = store->api->slice(store, past, rev, 0, 1, out, &oldest);
    }
    return err;
}

/* Does a later event of the revision change the key of this one (repeats.h)? */
static bool is_changed_later(const struct batch *batch, size_t at)
{
    struct belfry_bytes key = batch_key(batch, &batch->events[at]);
    for (size_t i = at + 1; i < batch->n_events; i++)
        if (belfry_bytes_equal(batch_key(batch, &batch->events[i]), key))
            return true;
    return false;
}

/* The last put that the revision has left as it was; without one its last event. A put can prove more than a delete. A
 * revision may delete all that it has put, so not all puts are looked at. */
static size_t best_event(const struct batch *batch)
{
    int tries = PUTS_TRIED;
    for (size_t at = batch->n_events; at-- > 0 && tries > 0;) {
        if (batch->events[at].is_delete)
            continue;
        if (!is_changed_later(batch, at))
            return at;
        tries--;
    }
    return batch->n_events - 1;
}

static enum belfry_err key_witness_take(struct key_witness *witness, const struct batch *batch)
{
    struct belfry_wire_event event;
    size_t at = best_event(batch);
    enum belfry_err err = belfry_scan_event(batch_bytes(batch, &batch->events[at], false), &event);
    belfry_buf_clear(&witness->key);
    belfry_buf_clear(&witness->kv);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&witness->key, event.kv.key.data, event.kv.key.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&witness->kv, event.kv.raw.data, event.kv.raw.len);
    witness->deleted = batch->events[at].is_delete;
    return err;
}

/* Takes a key of the events of `rev`. */
static enum belfry_err find_event(struct key_witness *witness, struct store *store, const struct ingest *ingest,
                                  int64_t rev)
{
    struct segment *segment;
    if (rev == 0)
        return BELFRY_ERR_NOT_FOUND;
    enum belfry_err err = read_revision(store, ingest_past(ingest), rev, &segment);
    if (err != BELFRY_OK)
        return err;
    const struct batch *batch = segment->n > 0 ? segment->batches[0] : NULL;
    bool known = batch != NULL && batch->rev == rev && batch->n_events > 0 && !batch->more;
    err = known ? key_witness_take(witness, batch) : BELFRY_ERR_NOT_FOUND;
    segment_unref(segment);
    return err;
}

struct newest_walk {
    struct key_witness *witness;
    struct belfry_buf next; /* where the next page begins */
    int64_t mod_rev;        /* of the newest row so far; 0: none */
    enum belfry_err err;
};

static enum belfry_err newest_row(struct newest_walk *walk, struct belfry_bytes key, struct belfry_bytes raw)
{
    struct key_witness *witness = walk->witness;
    struct belfry_wire_kv kv;
    enum belfry_err err = belfry_scan_kv(raw, &kv);
    belfry_buf_clear(&walk->next);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&walk->next, key.data, key.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&walk->next, "", 1);
    if (err != BELFRY_OK || kv.mod_rev <= walk->mod_rev)
        return err;
    walk->mod_rev = kv.mod_rev;
    belfry_buf_clear(&witness->key);
    belfry_buf_clear(&witness->kv);
    err = belfry_buf_append(&witness->key, key.data, key.len);
    return err != BELFRY_OK ? err : belfry_buf_append(&witness->kv, raw.data, raw.len);
}

static bool on_newest_row(struct belfry_bytes key, struct belfry_bytes raw, void *user)
{
    struct newest_walk *walk = user;
    walk->err = newest_row(walk, key, raw);
    return walk->err == BELFRY_OK;
}

/* Takes the newest row of the state. */
static enum belfry_err find_row(struct key_witness *witness, struct store *store, const struct ingest *ingest)
{
    struct newest_walk walk = {.witness = witness};
    struct store_page page = {.more = true};
    int64_t overlap = ingest_overlap(ingest);
    if (ingest_committed(ingest) < overlap)
        return BELFRY_ERR_AGAIN; /* a store in trouble lacks the newest */
    witness->deleted = false;
    while (page.more && walk.err == BELFRY_OK) {
        struct store_read read = {.key = belfry_buf_bytes(&walk.next), .max_rows = WALK_ROWS, .max_bytes = WALK_BYTES};
        enum belfry_err err = store->api->range(store, &read, on_newest_row, &walk, &page);
        walk.err = walk.err == BELFRY_OK ? err : walk.err;
    }
    belfry_buf_fini(&walk.next);
    if (walk.err == BELFRY_OK && walk.mod_rev == 0)
        return BELFRY_ERR_NOT_FOUND;
    witness->row_past = walk.err == BELFRY_OK ? ingest_past(ingest) : 0;
    witness->row_overlap = overlap;
    return walk.err;
}

enum belfry_err key_witness_find(struct key_witness *witness, struct store *store, struct ingest *ingest, int64_t at,
                                 uint64_t now_ms)
{
    ingest_drained(ingest, now_ms);
    witness->at = at;
    if (witness->row_past != 0 && witness->row_past == ingest_past(ingest) &&
        witness->row_overlap == ingest_overlap(ingest))
        return BELFRY_OK;
    witness->row_past = 0; /* the event is taken into the same place */
    enum belfry_err err = find_event(witness, store, ingest, ingest_overlap(ingest));
    return err != BELFRY_ERR_NOT_FOUND || ingest_is_whole(ingest) ? err : find_row(witness, store, ingest);
}

enum key_verdict key_witness_judge(const struct key_witness *witness, struct belfry_bytes response, int64_t head)
{
    struct belfry_wire_kv kv = {0};
    struct belfry_bytes row;
    size_t at = 0;
    bool there = belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row) == BELFRY_OK &&
                 belfry_scan_kv(row, &kv) == BELFRY_OK && belfry_bytes_equal(kv.key, belfry_buf_bytes(&witness->key));
    if (witness->at > head && (!there || kv.mod_rev == witness->at))
        return KEY_UNKNOWN;
    if (witness->deleted)
        return there ? KEY_OTHER : KEY_UNKNOWN;
    return there && belfry_bytes_equal(row, belfry_buf_bytes(&witness->kv)) ? KEY_SAME : KEY_OTHER;
}
