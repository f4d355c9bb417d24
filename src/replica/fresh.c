/* src/replica/fresh.c
 *
 *     record   | struct record | key, when it is a removal, or the KeyValue |
 */
#include "replica/fresh.h"

#include <assert.h>

#include "replica/counts.h"
#include "replica/rowform.h"

struct record {
    int64_t rev;
    size_t len;             /* of what follows */
    size_t key_at, key_len; /* in it */
    bool removed;
};

void fresh_begin(struct fresh *fresh, struct env *env)
{
    assert(fresh->env == NULL);
    fresh->env = env;
    fresh->now = (struct env_now){0};
}

struct env *fresh_end(struct fresh *fresh)
{
    struct env *env = fresh->env;
    fresh->env = NULL;
    belfry_buf_fini(&fresh->waiting);
    belfry_buf_init(&fresh->waiting);
    return env;
}

/* What is known of a key. */
struct known {
    int64_t rev; /* that it was last written or removed at; 0: never */
    bool there;
    uint64_t check; /* of its row, when it is there */
};

static int fresh_look_up(const struct env *env, MDB_txn *txn, MDB_val stored, struct known *out)
{
    MDB_val val;
    struct belfry_wire_kv kv;
    *out = (struct known){0};
    int rc = env_row_get(env, txn, ROWFORM_STATE, stored, &val, &out->check);
    if (rc == MDB_SUCCESS) {
        if (belfry_scan_kv(rowform_bytes(val), &kv) != BELFRY_OK)
            return MDB_CORRUPTED;
        out->rev = kv.mod_rev;
        out->there = true;
        return MDB_SUCCESS;
    }
    if (rc == MDB_NOTFOUND)
        rc = mdb_get(txn, env->gone, &stored, &val);
    if (rc == MDB_SUCCESS)
        out->rev = (int64_t)rowform_get64(val.mv_data);
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

static int write_put(struct fresh *fresh, MDB_cursor *blocks, MDB_val stored, struct belfry_bytes kv, bool found)
{
    const struct env *env = fresh->env;
    MDB_txn *txn = mdb_cursor_txn(blocks);
    int rc = mdb_del(txn, env->gone, &stored, NULL);
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return rc;
    MDB_val val = {.mv_size = kv.len + ROWFORM_CHECK};
    rc = mdb_put(txn, env->state, &stored, &val, MDB_RESERVE);
    if (rc != MDB_SUCCESS)
        return rc;
    memcpy(val.mv_data, kv.data, kv.len);
    env_tally_add(&fresh->now, ROWFORM_STATE, rowform_seal(env->salt, ROWFORM_STATE, stored, val.mv_data, kv.len));
    return found ? MDB_SUCCESS : counts_add(env, blocks, &fresh->now, stored);
}

static int write_removal(struct fresh *fresh, MDB_cursor *blocks, MDB_val stored, int64_t rev, bool found)
{
    const struct env *env = fresh->env;
    MDB_txn *txn = mdb_cursor_txn(blocks);
    uint8_t at[8];
    rowform_put64(at, (uint64_t)rev);
    MDB_val val = {.mv_size = sizeof(at), .mv_data = at};
    int rc = found ? mdb_del(txn, env->state, &stored, NULL) : MDB_SUCCESS;
    if (rc == MDB_SUCCESS && found)
        rc = counts_remove(env, blocks, &fresh->now, stored);
    return rc == MDB_SUCCESS ? mdb_put(txn, env->gone, &stored, &val, 0) : rc;
}

static int write_record(struct fresh *fresh, MDB_cursor *blocks, const struct record *record, const char *bytes)
{
    uint8_t room[ROWFORM_KEY_MAX + ROWFORM_HASH];
    struct belfry_bytes key = belfry_bytes_of(bytes + record->key_at, record->key_len);
    MDB_val stored = rowform_state_key(fresh->env->hash, key, room);
    struct known known;
    int rc = fresh_look_up(fresh->env, mdb_cursor_txn(blocks), stored, &known);
    if (rc != MDB_SUCCESS || known.rev > record->rev)
        return rc;
    if (known.there)
        env_tally_remove(&fresh->now, ROWFORM_STATE, known.check);
    if (record->removed)
        return write_removal(fresh, blocks, stored, record->rev, known.there);
    return write_put(fresh, blocks, stored, belfry_bytes_of(bytes, record->len), known.there);
}

static int write_waiting(struct fresh *fresh, MDB_cursor *blocks)
{
    struct belfry_bytes waiting = belfry_buf_bytes(&fresh->waiting);
    for (size_t at = 0; at < waiting.len;) {
        struct record record;
        memcpy(&record, waiting.data + at, sizeof(record));
        at += sizeof(record);
        int rc = write_record(fresh, blocks, &record, waiting.data + at);
        if (rc != MDB_SUCCESS)
            return rc;
        at += record.len;
    }
    return MDB_SUCCESS;
}

/* With `meta`: the copy is whole. */
static int write_all(struct fresh *fresh, MDB_txn *txn, const struct store_meta *meta)
{
    MDB_cursor *blocks;
    int rc = mdb_cursor_open(txn, fresh->env->counts, &blocks);
    if (rc != MDB_SUCCESS)
        return rc;
    rc = write_waiting(fresh, blocks);
    mdb_cursor_close(blocks);
    if (rc != MDB_SUCCESS || meta == NULL)
        return rc;
    fresh->now.meta = *meta;
    rc = mdb_drop(txn, fresh->env->gone, 0);
    return rc == MDB_SUCCESS ? env_now_store(fresh->env, txn, &fresh->now) : rc;
}

static enum belfry_err fresh_flush(struct fresh *fresh, const struct store_meta *meta)
{
    MDB_txn *txn;
    struct env_now before = fresh->now;
    int rc = mdb_txn_begin(fresh->env->mdb, NULL, 0, &txn);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    rc = write_all(fresh, txn, meta);
    if (rc == MDB_SUCCESS)
        rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    if (rc == MDB_SUCCESS)
        belfry_buf_clear(&fresh->waiting);
    else
        fresh->now = before;
    return rc == MDB_NOTFOUND ? BELFRY_ERR_IO : env_err(rc);
}

static enum belfry_err fresh_add(struct fresh *fresh, const struct record *record, struct belfry_bytes bytes)
{
    size_t len = sizeof(*record) + bytes.len;
    if (fresh->env == NULL || record->key_len == 0)
        return BELFRY_ERR_INVALID;
    enum belfry_err err = BELFRY_OK;
    if (belfry_buf_len(&fresh->waiting) >= FRESH_BYTES)
        err = fresh_flush(fresh, NULL);
    uint8_t *to;
    if (err == BELFRY_OK)
        err = belfry_buf_reserve(&fresh->waiting, len, &to);
    if (err != BELFRY_OK)
        return err;
    memcpy(to, record, sizeof(*record));
    memcpy(to + sizeof(*record), bytes.data, bytes.len);
    belfry_buf_grown(&fresh->waiting, len);
    return BELFRY_OK;
}

enum belfry_err fresh_put(struct fresh *fresh, const struct belfry_wire_kv *kv)
{
    struct record record = {.rev = kv->mod_rev, .len = kv->raw.len, .key_len = kv->key.len};
    record.key_at = kv->key.len > 0 ? (size_t)(kv->key.data - kv->raw.data) : 0;
    return fresh_add(fresh, &record, kv->raw);
}

enum belfry_err fresh_remove(struct fresh *fresh, struct belfry_bytes key, int64_t rev)
{
    return fresh_add(fresh, &(struct record){.rev = rev, .len = key.len, .key_len = key.len, .removed = true}, key);
}

enum belfry_err fresh_finish(struct fresh *fresh, const struct store_meta *meta, struct env_now *now)
{
    enum belfry_err err = fresh->env == NULL ? BELFRY_ERR_INVALID : fresh_flush(fresh, meta);
    if (err == BELFRY_OK)
        *now = fresh->now;
    return err;
}
