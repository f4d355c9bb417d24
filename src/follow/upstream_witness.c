/* src/follow/upstream_witness.c: upstream has compacted the overlap away, and nothing that we lack. What can still be
 * compared is one key of our last revision with events, read as it was at the compaction: it must be as we left it.
 *
 * Where the compaction is at our head or before it, nothing can have touched that key since. Where it is at the revision
 * after our head, the key may have been changed just there, and then it proves nothing; nor does a replica without
 * events, or one whose last event was a delete. Of the whole store we then list anew, as if the past had been rewritten:
 * that it was not cannot be shown. A part of it that is seldom written to is compacted over all the time: there we go on.
 * The watch begins at the compaction, so that whatever upstream has from there to our head and we have not is found, and
 * every event that follows is still checked against our state. It is created before the key is asked for, and nothing of it
 * is taken before the answer: no watch outlives a restore, so the answer is good for all that this one gives. */
#include "follow/upstream_private.h"

static void unproven(struct upstream *up, int64_t compact_rev, uint64_t join_at)
{
    if (compact_rev <= ingest_head(up->ingest) || !ingest_is_whole(up->ingest)) {
        upstream_join_behind(up, compact_rev, join_at);
        return;
    }
    up->stats.relists_unproven++;
    upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "nothing is left upstream to compare our last revision with");
}

/* The events of `rev`, as the store has them; of very many the first. */
static enum belfry_err last_events(struct upstream *up, int64_t rev, struct segment **out)
{
    uint64_t past = ingest_past(up->ingest);
    int64_t oldest;
    ingest_drained(up->ingest, up->now); /* readers see commits only */
    enum belfry_err err = up->store->api->history(up->store, past, rev, 1, out, &oldest);
    if (err == BELFRY_OK && (*out)->n > 0 && (*out)->batches[0]->kind == BATCH_EXTENT) {
        segment_unref(*out);
        err = up->store->api->slice(up->store, past, rev, 0, 1, out, &oldest);
    }
    return err;
}

/* A put if there is one: it has more to tell. */
static enum belfry_err remember(struct upstream *up, const struct batch *batch)
{
    struct belfry_wire_event event;
    size_t at = 0;
    while (at + 1 < batch->n_events && batch->events[at].is_delete)
        at++;
    enum belfry_err err = belfry_scan_event(batch_bytes(batch, &batch->events[at], false), &event);
    belfry_buf_clear(&up->witness_key);
    belfry_buf_clear(&up->witness_kv);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&up->witness_key, event.kv.key.data, event.kv.key.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&up->witness_kv, event.kv.raw.data, event.kv.raw.len);
    up->witness_deleted = batch->events[at].is_delete;
    return err;
}

/* BELFRY_ERR_NOT_FOUND: we hold nothing to compare with. Other errors pass. */
static enum belfry_err find_witness(struct upstream *up)
{
    int64_t rev = ingest_overlap(up->ingest);
    struct segment *segment;
    if (rev == 0)
        return BELFRY_ERR_NOT_FOUND;
    enum belfry_err err = last_events(up, rev, &segment);
    if (err != BELFRY_OK)
        return err;
    bool known = segment->n > 0 && segment->batches[0]->rev == rev && segment->batches[0]->n_events > 0;
    err = known ? remember(up, segment->batches[0]) : BELFRY_ERR_NOT_FOUND;
    segment_unref(segment);
    return err;
}

void upstream_call_witness(struct upstream *up, int64_t compact_rev)
{
    enum belfry_err err = find_witness(up);
    if (err == BELFRY_ERR_NOT_FOUND) {
        unproven(up, compact_rev, upstream_retry_at(up));
        return;
    }
    if (err != BELFRY_OK) { /* no memory, or the disk: the same watch will be told the same */
        upstream_join(up, upstream_retry_at(up));
        return;
    }
    upstream_join_behind(up, compact_rev, up->now);
    up->witness_at = compact_rev;
    up->vouching = true;
}

bool upstream_ask_witness(struct upstream *up, struct upstream_action *out)
{
    if (!question_is_due(&up->witness, up->now))
        return false;
    up->witness.token = ++up->last_token;
    *out = (struct upstream_action){.want = UPSTREAM_WANT_PAGE,
                                    .rev = up->witness_at,
                                    .limit = 1,
                                    .token = up->witness.token,
                                    .key = belfry_buf_bytes(&up->witness_key)};
    return true;
}

enum testimony { SAME, OTHER, NOTHING };

/* What does that which the page begins with tell of what we hold? */
static enum testimony hear(const struct upstream *up, struct belfry_bytes response)
{
    struct belfry_wire_kv kv = {0};
    struct belfry_bytes row;
    size_t at = 0;
    bool beyond = up->witness_at > ingest_head(up->ingest);
    bool there = belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row) == BELFRY_OK &&
                 belfry_scan_kv(row, &kv) == BELFRY_OK &&
                 belfry_bytes_equal(kv.key, belfry_buf_bytes(&up->witness_key));
    if (beyond && (!there || kv.mod_rev == up->witness_at))
        return NOTHING;
    if (up->witness_deleted)
        return there ? OTHER : NOTHING;
    return there && belfry_bytes_equal(row, belfry_buf_bytes(&up->witness_kv)) ? SAME : OTHER;
}

void upstream_hear_witness(struct upstream *up, struct belfry_bytes response)
{
    question_forget(&up->witness);
    if (up->state != UPSTREAM_JOINING)
        return;
    switch (hear(up, response)) {
    case SAME:
        up->vouching = false;
        upstream_joined(up, &up->replay.lanes[0]);
        break;
    case OTHER:
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "a key of our last revision is another there");
        break;
    case NOTHING:
        unproven(up, up->witness_at, up->now);
        break;
    }
}

void upstream_witness_failed(struct upstream *up, enum belfry_err err)
{
    question_forget(&up->witness);
    if (err == BELFRY_ERR_COMPACTED && up->witness_at > ingest_head(up->ingest))
        unproven(up, up->witness_at, up->now); /* a read does not say where it is compacted now, and we do not guess */
    else if (err == BELFRY_ERR_COMPACTED) /* further than we were told; a tier may go on telling what it knew once */
        upstream_join_behind(up, ingest_head(up->ingest) + 1, upstream_retry_at(up));
    else if (err == BELFRY_ERR_FUTURE)
        upstream_join(up, upstream_retry_at(up)); /* set back since we were told */
    else
        question_ask(&up->witness, upstream_retry_at(up));
}
