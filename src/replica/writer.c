/* src/replica/writer.c */
#include "replica/writer.h"

#include <errno.h>

#include "core/batch.h"
#include "replica/counts.h"
#include "replica/rowform.h"

#define MAP_FULL_PERCENT 90

void writer_attach(struct writer *writer, struct env *env, const struct env_now *now)
{
    writer_abort(writer);
    writer->env = env;
    writer->committed = writer->now = *now;
}

void writer_fini(struct writer *writer)
{
    writer_abort(writer);
    belfry_buf_fini(&writer->prev);
}

static void close_txn(struct writer *writer)
{
    if (writer->rows != NULL)
        mdb_cursor_close(writer->rows);
    if (writer->states != NULL)
        mdb_cursor_close(writer->states);
    if (writer->blocks != NULL)
        mdb_cursor_close(writer->blocks);
    writer->rows = writer->states = writer->blocks = NULL;
}

void writer_abort(struct writer *writer)
{
    if (writer->state == WRITER_CLOSED)
        return;
    close_txn(writer);
    mdb_txn_abort(writer->txn);
    writer->txn = NULL;
    writer->now = writer->committed;
    writer->state = WRITER_CLOSED;
}

/* Every other error of LMDB while it writes means damage: a page or row is missing or has wrong contents. So does
 * MDB_PANIC: after a failed write of a meta page, LMDB refuses all further calls, reads included. And so does a map
 * that is full although the file fills less than half of it: no commit is that large, but a count of pages may be
 * wrong. */
static bool is_of_the_disk(const struct writer *writer, int rc)
{
    if (rc == MDB_MAP_FULL)
        return env_file_bytes(writer->env) > writer->env->map_bytes / 2;
    return rc == MDB_TXN_FULL || rc > 0; /* above 0: errno */
}

enum belfry_err writer_failed(struct writer *writer, int rc)
{
    if (!is_of_the_disk(writer, rc))
        env_note_damage(writer->env);
    writer_abort(writer);
    writer->failed = rc;
    return rc == ENOMEM ? BELFRY_ERR_NOMEM : BELFRY_ERR_IO;
}

enum belfry_err writer_begin(struct writer *writer)
{
    if (writer->state != WRITER_CLOSED)
        return BELFRY_ERR_INVALID;
    int rc = mdb_txn_begin(writer->env->mdb, NULL, 0, &writer->txn);
    if (rc != MDB_SUCCESS) {
        if (!is_of_the_disk(writer, rc))
            env_note_damage(writer->env);
        writer->failed = rc;
        return env_err(rc);
    }
    writer->state = WRITER_OPEN;
    rc = mdb_cursor_open(writer->txn, writer->env->state, &writer->states);
    if (rc == MDB_SUCCESS)
        rc = mdb_cursor_open(writer->txn, writer->env->history, &writer->rows);
    if (rc == MDB_SUCCESS)
        rc = mdb_cursor_open(writer->txn, writer->env->counts, &writer->blocks);
    return rc == MDB_SUCCESS ? BELFRY_OK : writer_failed(writer, rc);
}

/* Puts the cursor on the row and reads it; its check goes to prev_check. */
static int find_state(struct writer *writer, MDB_val stored, MDB_val *val)
{
    int rc = mdb_cursor_get(writer->states, &stored, val, MDB_SET);
    if (rc != MDB_SUCCESS)
        return rc;
    return rowform_open(writer->env->salt, ROWFORM_STATE, stored, val, &writer->prev_check) ? MDB_SUCCESS
                                                                                            : MDB_CORRUPTED;
}

enum belfry_err writer_get(struct writer *writer, struct belfry_bytes key, struct belfry_bytes *kv)
{
    if (writer->state == WRITER_CLOSED)
        return BELFRY_ERR_INVALID;
    if (key.len == 0)
        return BELFRY_ERR_NOT_FOUND;
    uint8_t room[ROWFORM_KEY_MAX + ROWFORM_HASH];
    MDB_val stored = rowform_state_key(writer->env->hash, key, room), val;
    int rc = find_state(writer, stored, &val);
    if (rc == MDB_NOTFOUND)
        return BELFRY_ERR_NOT_FOUND;
    if (rc != MDB_SUCCESS)
        return writer_failed(writer, rc);
    *kv = rowform_bytes(val);
    return BELFRY_OK;
}

/* Copies the value in the state, because the next write may move its page. */
static int take_prev(struct writer *writer, MDB_val stored, bool *found)
{
    MDB_val val;
    belfry_buf_clear(&writer->prev);
    int rc = find_state(writer, stored, &val);
    *found = rc == MDB_SUCCESS;
    if (rc == MDB_NOTFOUND)
        return MDB_SUCCESS;
    if (rc != MDB_SUCCESS)
        return rc;
    return belfry_buf_append(&writer->prev, val.mv_data, val.mv_size) == BELFRY_OK ? MDB_SUCCESS : ENOMEM;
}

static int writer_add_row(struct writer *writer, int64_t rev, uint32_t sub, const struct rowform_event *row)
{
    uint8_t at[ROWFORM_AT];
    rowform_at(rev, sub, at);
    size_t size = rowform_event_size(row);
    MDB_val key = {.mv_size = sizeof(at), .mv_data = at}, val = {.mv_size = size + ROWFORM_CHECK};
    int rc = mdb_cursor_put(writer->rows, &key, &val, MDB_APPEND | MDB_RESERVE);
    if (rc != MDB_SUCCESS)
        return rc;
    rowform_event_write(row, val.mv_data);
    writer->now.newest = rowform_seal(writer->env->salt, ROWFORM_HISTORY, key, val.mv_data, size);
    env_tally_add(&writer->now, ROWFORM_HISTORY, writer->now.newest);
    return MDB_SUCCESS;
}

static int remove_state(struct writer *writer, MDB_val stored)
{
    env_tally_remove(&writer->now, ROWFORM_STATE, writer->prev_check);
    int rc = mdb_cursor_del(writer->states, 0);
    return rc == MDB_SUCCESS ? counts_remove(writer->env, writer->blocks, &writer->now, stored) : rc;
}

/* Moves the state; the cursor stands on the row when it was found. */
static int move_state(struct writer *writer, MDB_val stored, bool found, const struct belfry_wire_event *event)
{
    struct belfry_bytes kv = event->kv.raw;
    if (event->is_delete)
        return found ? remove_state(writer, stored) : MDB_SUCCESS;
    if (found)
        env_tally_remove(&writer->now, ROWFORM_STATE, writer->prev_check);
    MDB_val val = {.mv_size = kv.len + ROWFORM_CHECK};
    int rc = mdb_cursor_put(writer->states, &stored, &val, MDB_RESERVE | (found ? MDB_CURRENT : 0));
    if (rc != MDB_SUCCESS)
        return rc;
    memcpy(val.mv_data, kv.data, kv.len);
    env_tally_add(&writer->now, ROWFORM_STATE,
                  rowform_seal(writer->env->salt, ROWFORM_STATE, stored, val.mv_data, kv.len));
    return found ? MDB_SUCCESS : counts_add(writer->env, writer->blocks, &writer->now, stored);
}

/* The row's previous value is set here: to *before, or to what is in the state. */
static int write_event(struct writer *writer, int64_t rev, uint32_t sub, const struct belfry_wire_event *event,
                       const struct belfry_bytes *before, struct rowform_event *row)
{
    uint8_t room[ROWFORM_KEY_MAX + ROWFORM_HASH];
    MDB_val stored = rowform_state_key(writer->env->hash, event->kv.key, room);
    bool found;
    int rc = take_prev(writer, stored, &found);
    if (rc != MDB_SUCCESS)
        return rc;
    row->prev = before != NULL ? *before : belfry_buf_bytes(&writer->prev);
    row->before = writer->now.newest;
    rc = writer_add_row(writer, rev, sub, row);
    return rc == MDB_SUCCESS ? move_state(writer, stored, found, event) : rc;
}

/* Removes the previous value from an event, as a batch does. This is rare, because previous values are not requested
 * from upstream. */
static int write_bare(struct writer *writer, int64_t rev, uint32_t sub, const struct belfry_wire_event *event,
                      const struct belfry_bytes *before, struct rowform_event *row)
{
    struct batch *batch;
    struct belfry_bytes none = {0};
    if (batch_create(rev, BATCH_EVENTS, 1, batch_event_bytes(event, none), &batch) != BELFRY_OK)
        return ENOMEM;
    batch_add(batch, event, none);
    row->event = batch_bytes(batch, &batch->events[0], false);
    row->key = batch_key(batch, &batch->events[0]);
    int rc = write_event(writer, rev, sub, event, before, row);
    batch_unref(batch);
    return rc;
}

/* Deleting copies pages, too. A map that is completely full could never be trimmed, so we report it as full earlier. */
static bool map_is_full(const struct writer *writer)
{
    return env_used_bytes(writer->env, writer->txn) > writer->env->map_bytes / 100 * MAP_FULL_PERCENT;
}

static bool in_order(const struct writer *writer, int64_t rev, uint32_t sub)
{
    switch (writer->state) {
    case WRITER_CLOSED:
        return false;
    case WRITER_OPEN:
        return rev > writer->now.meta.revision;
    case WRITER_INSIDE:
        return rev == writer->rev && sub > writer->sub;
    }
    return false;
}

static void writer_enter(struct writer *writer, int64_t rev)
{
    if (writer->state == WRITER_INSIDE)
        return;
    writer->state = WRITER_INSIDE;
    writer->rev = rev;
    writer->rev_events = writer->rev_bytes = 0;
}

enum belfry_err writer_apply(struct writer *writer, int64_t rev, uint32_t sub, const struct belfry_wire_event *event,
                             const struct belfry_bytes *before, struct belfry_bytes *prev)
{
    if (event->kv.key.len == 0 || !in_order(writer, rev, sub))
        return BELFRY_ERR_INVALID;
    if (writer->state == WRITER_OPEN && map_is_full(writer))
        return writer_failed(writer, MDB_MAP_FULL);
    struct rowform_event row = {.event = event->raw, .key = event->kv.key, .is_delete = event->is_delete};
    int rc = event->has_prev ? write_bare(writer, rev, sub, event, before, &row)
                             : write_event(writer, rev, sub, event, before, &row);
    if (rc != MDB_SUCCESS)
        return writer_failed(writer, rc);
    writer_enter(writer, rev);
    writer->sub = sub;
    writer->rev_events++;
    writer->rev_bytes += batch_stored_bytes(row.event.len, row.prev.len);
    *prev = row.prev;
    return BELFRY_OK;
}

/* Stored, so that a reader that only names a revision need not count its rows. */
static int note_extent(struct writer *writer)
{
    uint8_t rev[8], size[16];
    rowform_put64(rev, (uint64_t)writer->rev);
    rowform_put64(size, writer->rev_events);
    rowform_put64(size + 8, writer->rev_bytes);
    MDB_val key = {.mv_size = sizeof(rev), .mv_data = rev};
    return env_row_put(writer->env, writer->txn, &writer->now, ROWFORM_EXTENTS, key,
                       belfry_bytes_of(size, sizeof(size)));
}

enum belfry_err writer_advance(struct writer *writer, int64_t rev, const struct belfry_wire_header *header)
{
    bool inside = writer->state == WRITER_INSIDE;
    if (writer->state == WRITER_CLOSED || rev < writer->now.meta.revision || (inside && rev < writer->rev))
        return BELFRY_ERR_INVALID;
    if (inside && writer->rev_bytes > writer->extent_bytes) {
        int rc = note_extent(writer);
        if (rc != MDB_SUCCESS)
            return writer_failed(writer, rc);
    }
    writer->now.meta.revision = rev;
    writer->now.meta.cluster_id = header->cluster_id;
    writer->now.meta.member_id = header->member_id;
    writer->now.meta.raft_term = header->raft_term;
    writer->state = WRITER_OPEN;
    return BELFRY_OK;
}

enum belfry_err writer_commit(struct writer *writer)
{
    if (writer->state != WRITER_OPEN) {
        writer_abort(writer);
        return BELFRY_ERR_INVALID;
    }
    int rc = env_now_store(writer->env, writer->txn, &writer->now);
    if (rc != MDB_SUCCESS)
        return writer_failed(writer, rc);
    close_txn(writer);
    rc = mdb_txn_commit(writer->txn); /* ends the transaction even when it fails */
    writer->txn = NULL;
    writer->state = WRITER_CLOSED;
    if (rc != MDB_SUCCESS) {
        writer->now = writer->committed;
        writer->failed = rc;
        if (!is_of_the_disk(writer, rc))
            env_note_damage(writer->env);
        return rc == ENOMEM ? BELFRY_ERR_NOMEM : BELFRY_ERR_IO;
    }
    writer->committed = writer->now;
    return BELFRY_OK;
}
