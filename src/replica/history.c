/* src/replica/history.c: the rows of a revision are counted, then copied. Most revisions have one row, and few have
 * more than HELD. Up to HELD rows are read once; for a larger revision the cursor returns to the first row. */
#include "replica/history.h"

#include "base/sim.h"
#include "replica/chain.h"
#include "replica/rowform.h"

#define HELD 64 /* rows remembered while a revision is counted */

/* The part of a revision that was counted. */
struct revision {
    int64_t rev;
    uint32_t first_sub;
    size_t n, bytes;
    struct rowform_event rows[HELD]; /* the first of them */
};

struct walk {
    const struct history_read *read;
    MDB_cursor *cursor;
    struct chain chain; /* on the next row; its `rc` says whether there is one */
};

static void history_seek(struct walk *walk, int64_t rev, uint32_t sub)
{
    uint8_t at[ROWFORM_AT];
    rowform_at(rev, sub, at);
    chain_seek(&walk->chain, at);
}

static void history_next_row(struct walk *walk)
{
    chain_next(&walk->chain);
}

static bool at_row_of(const struct walk *walk, int64_t rev)
{
    return walk->chain.rc == MDB_SUCCESS && rowform_rev(walk->chain.at) == rev;
}

static bool at_row(const struct walk *walk)
{
    return walk->chain.rc == MDB_SUCCESS && rowform_rev(walk->chain.at) <= walk->read->now->meta.revision;
}

static void prev_from_state(const struct walk *walk, struct rowform_event *row)
{
    uint8_t room[ROWFORM_KEY_MAX + ROWFORM_HASH];
    uint64_t check;
    MDB_val key = rowform_state_key(walk->read->env->hash, row->key, room), val;
    int rc = env_row_get(walk->read->env, walk->read->txn, ROWFORM_STATE, key, &val, &check);
    row->prev = rc == MDB_SUCCESS ? rowform_bytes(val) : (struct belfry_bytes){0};
}

static struct rowform_event row_at(const struct walk *walk)
{
    struct rowform_event row = walk->chain.row;
    if (BELFRY_MUTANT(prev_from_state))
        prev_from_state(walk, &row);
    return row;
}

/* Counts rows from the cursor on, of one revision, until they are over max_bytes (the first is counted in any case).
 * The cursor then stands on the first row that was not counted. */
static void history_count(struct walk *walk, size_t max_bytes, struct revision *revision)
{
    revision->rev = rowform_rev(walk->chain.at);
    revision->first_sub = rowform_sub(walk->chain.at);
    revision->n = revision->bytes = 0;
    for (; at_row_of(walk, revision->rev); history_next_row(walk)) {
        struct rowform_event row = row_at(walk);
        size_t bytes = batch_stored_bytes(row.event.len, row.prev.len);
        if (revision->n > 0 && revision->bytes + bytes > max_bytes)
            return;
        if (revision->n < HELD)
            revision->rows[revision->n] = row;
        revision->n++;
        revision->bytes += bytes;
    }
}

static void history_add_row(struct batch *batch, const struct rowform_event *row)
{
    batch_add_stored(batch, row->event, row->prev, row->key, row->is_delete);
}

/* Fills in what was counted; the cursor ends where it was. */
static void history_fill(struct walk *walk, const struct revision *revision, struct batch *batch)
{
    if (revision->n <= HELD) {
        for (size_t i = 0; i < revision->n; i++)
            history_add_row(batch, &revision->rows[i]);
        return;
    }
    history_seek(walk, revision->rev, revision->first_sub);
    for (size_t i = 0; i < revision->n && at_row_of(walk, revision->rev); i++) {
        struct rowform_event row = row_at(walk);
        history_add_row(batch, &row);
        history_next_row(walk);
    }
}

static enum belfry_err make_events(struct walk *walk, const struct revision *revision, enum batch_kind kind,
                                   struct batch **out)
{
    struct batch *batch;
    enum belfry_err err = batch_create(revision->rev, kind, (uint32_t)revision->n, revision->bytes, &batch);
    if (err != BELFRY_OK)
        return err;
    history_fill(walk, revision, batch);
    if (batch->n_events != revision->n) {
        batch_unref(batch);
        return BELFRY_ERR_IO;
    }
    *out = batch;
    return BELFRY_OK;
}

/* The size that the writer noted. A revision written before the bound was lowered has none, so it is counted. Errors:
 * LMDB's. */
static int extent_size(struct walk *walk, int64_t rev, uint64_t *events, uint64_t *bytes)
{
    uint8_t at[8];
    uint64_t check;
    rowform_put64(at, (uint64_t)rev);
    MDB_val key = {.mv_size = sizeof(at), .mv_data = at}, val;
    int rc = env_row_get(walk->read->env, walk->read->txn, ROWFORM_EXTENTS, key, &val, &check);
    if (rc == MDB_SUCCESS && val.mv_size == 16) {
        *events = rowform_get64(val.mv_data);
        *bytes = rowform_get64((const uint8_t *)val.mv_data + 8);
        return MDB_SUCCESS;
    }
    if (rc != MDB_NOTFOUND)
        return rc == MDB_SUCCESS ? MDB_CORRUPTED : rc;
    *events = *bytes = 0;
    for (history_seek(walk, rev, 0); at_row_of(walk, rev); history_next_row(walk)) {
        struct rowform_event row = row_at(walk);
        (*events)++;
        *bytes += batch_stored_bytes(row.event.len, row.prev.len);
    }
    return chain_is_damaged(&walk->chain) ? walk->chain.rc : MDB_SUCCESS;
}

static enum belfry_err make_extent(struct walk *walk, int64_t rev, struct batch **out)
{
    uint64_t events, bytes;
    int rc = extent_size(walk, rev, &events, &bytes);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    struct batch *batch;
    enum belfry_err err = batch_create(rev, BATCH_EXTENT, 0, 0, &batch);
    if (err != BELFRY_OK)
        return err;
    batch_set_extent(batch, events, bytes);
    history_seek(walk, rev + 1, 0);
    *out = batch;
    return BELFRY_OK;
}

static enum belfry_err make_batch(struct walk *walk, struct revision *revision, struct batch **out)
{
    size_t most = walk->read->extent_bytes;
    history_count(walk, most, revision);
    if (chain_is_damaged(&walk->chain))
        return BELFRY_ERR_IO;
    bool extent = revision->bytes > most || at_row_of(walk, revision->rev);
    return extent ? make_extent(walk, revision->rev, out) : make_events(walk, revision, BATCH_EVENTS, out);
}

static enum belfry_err history_collect(struct walk *walk, struct segment_builder *builder, size_t max_bytes,
                                       int64_t *upto)
{
    struct revision revision;
    *upto = walk->read->now->meta.revision;
    while (at_row(walk)) {
        struct batch *batch;
        enum belfry_err err = make_batch(walk, &revision, &batch);
        if (err == BELFRY_OK)
            err = segment_add(builder, batch);
        if (err != BELFRY_OK)
            return err;
        if (builder->bytes >= max_bytes && at_row(walk)) {
            *upto = revision.rev;
            return BELFRY_OK;
        }
    }
    return chain_is_damaged(&walk->chain) ? BELFRY_ERR_IO : BELFRY_OK;
}

enum belfry_err history_segment(const struct history_read *read, int64_t from, size_t max_bytes, struct segment **out)
{
    struct walk walk = {.read = read};
    int rc = mdb_cursor_open(read->txn, read->env->history, &walk.cursor);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    chain_init(&walk.chain, read->env, read->now, walk.cursor);
    struct segment_builder builder;
    segment_begin(&builder);
    history_seek(&walk, from, 0);
    int64_t upto;
    enum belfry_err err = history_collect(&walk, &builder, max_bytes, &upto);
    mdb_cursor_close(walk.cursor);
    if (err != BELFRY_OK) {
        segment_abort(&builder);
        return err;
    }
    return segment_finish(&builder, read->past, from, upto, out);
}

static enum belfry_err make_slice(struct walk *walk, int64_t rev, uint32_t sub, size_t max_bytes, struct batch **out)
{
    history_seek(walk, rev, sub);
    if (!at_row_of(walk, rev))
        return chain_is_damaged(&walk->chain) ? BELFRY_ERR_IO : BELFRY_ERR_INVALID;
    struct revision revision;
    history_count(walk, max_bytes, &revision);
    if (chain_is_damaged(&walk->chain))
        return BELFRY_ERR_IO;
    bool more = at_row_of(walk, rev);
    enum belfry_err err = make_events(walk, &revision, BATCH_SLICE, out);
    if (err == BELFRY_OK)
        batch_set_slice(*out, revision.first_sub, more);
    return err;
}

enum belfry_err history_slice(const struct history_read *read, int64_t rev, uint32_t sub, size_t max_bytes,
                              struct segment **out)
{
    struct walk walk = {.read = read};
    int rc = mdb_cursor_open(read->txn, read->env->history, &walk.cursor);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    chain_init(&walk.chain, read->env, read->now, walk.cursor);
    struct batch *batch;
    enum belfry_err err = make_slice(&walk, rev, sub, max_bytes, &batch);
    mdb_cursor_close(walk.cursor);
    if (err != BELFRY_OK)
        return err;
    struct segment_builder builder;
    segment_begin(&builder);
    err = segment_add(&builder, batch);
    if (err == BELFRY_OK)
        return segment_finish(&builder, read->past, rev, rev, out);
    segment_abort(&builder);
    return err;
}
