/* src/follow/upstream_witness.c: upstream has compacted the overlap away and nothing more (at the revision after our last
 * one). What can still be compared is one key of our last revision, read as it was at the compaction: it must be as we
 * left it, or have been changed just there, once: then its version tells. A key that was deleted just there tells
 * nothing; what follows is still checked against our state, event by event. */
#include "follow/upstream_private.h"

/* The first event of `rev`, as the store has it. */
static enum belfry_err first_event(struct upstream *up, int64_t rev, struct segment **out)
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

static enum belfry_err remember(struct upstream *up, const struct batch *batch)
{
    struct belfry_wire_event event;
    enum belfry_err err = belfry_scan_event(batch_bytes(batch, &batch->events[0], false), &event);
    belfry_buf_clear(&up->witness_key);
    belfry_buf_clear(&up->witness_kv);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&up->witness_key, event.kv.key.data, event.kv.key.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&up->witness_kv, event.kv.raw.data, event.kv.raw.len);
    up->witness_deleted = batch->events[0].is_delete;
    return err;
}

bool upstream_call_witness(struct upstream *up, int64_t compact_rev)
{
    int64_t rev = ingest_overlap(up->ingest);
    struct segment *segment;
    if (rev == 0 || first_event(up, rev, &segment) != BELFRY_OK)
        return false;
    bool known = segment->n > 0 && segment->batches[0]->rev == rev && segment->batches[0]->n_events > 0 &&
                 remember(up, segment->batches[0]) == BELFRY_OK;
    segment_unref(segment);
    if (!known)
        return false;
    upstream_move(up, UPSTREAM_JOINING);
    replay_close_all(&up->replay);
    question_forget(&up->pages);
    up->witness_at = compact_rev;
    question_ask(&up->witness, up->now);
    return true;
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

/* Can what we hold have become this by one change? */
static bool follows(const struct upstream *up, const struct belfry_wire_kv *kv)
{
    struct belfry_wire_kv ours;
    if (kv->mod_rev != up->witness_at)
        return false;
    if (up->witness_deleted)
        return kv->create_rev == up->witness_at && kv->version == 1;
    return belfry_scan_kv(belfry_buf_bytes(&up->witness_kv), &ours) == BELFRY_OK && kv->create_rev == ours.create_rev &&
           kv->version == ours.version + 1;
}

/* Does what the page begins with agree with what we hold? */
static bool agrees(const struct upstream *up, struct belfry_bytes response)
{
    struct belfry_wire_kv kv = {0};
    struct belfry_bytes row;
    size_t at = 0;
    bool there = belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row) == BELFRY_OK &&
                 belfry_scan_kv(row, &kv) == BELFRY_OK &&
                 belfry_bytes_equal(kv.key, belfry_buf_bytes(&up->witness_key));
    bool same = there && !up->witness_deleted && belfry_bytes_equal(row, belfry_buf_bytes(&up->witness_kv));
    return !there || same || follows(up, &kv);
}

void upstream_hear_witness(struct upstream *up, struct belfry_bytes response)
{
    question_forget(&up->witness);
    if (up->state != UPSTREAM_JOINING)
        return;
    if (agrees(up, response))
        upstream_join(up, false, up->now);
    else
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "a key of our last revision is another there");
}

void upstream_witness_failed(struct upstream *up, enum belfry_err err)
{
    question_forget(&up->witness);
    if (err == BELFRY_ERR_COMPACTED)
        upstream_join(up, true, upstream_retry_at(up)); /* by now it is compacted further: the watch will say so */
    else
        question_ask(&up->witness, upstream_retry_at(up));
}
