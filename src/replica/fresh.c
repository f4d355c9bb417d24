/* src/replica/fresh.c
 *
 *     record   | struct record | key, when it is a removal, or the KeyValue |
 */
#include "replica/fresh.h"

#include <assert.h>

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
}

struct env *fresh_end(struct fresh *fresh)
{
    struct env *env = fresh->env;
    fresh->env = NULL;
    belfry_buf_fini(&fresh->waiting);
    belfry_buf_init(&fresh->waiting);
    return env;
}

/* The revision that the key was last written or removed at, as far as is known; 0: never. */
static int known_rev(const struct env *env, MDB_txn *txn, MDB_val stored, int64_t *out)
{
    MDB_val val;
    struct belfry_wire_kv kv;
    *out = 0;
    int rc = mdb_get(txn, env->state, &stored, &val);
    if (rc == MDB_SUCCESS) {
        if (belfry_scan_kv(rowform_bytes(val), &kv) != BELFRY_OK)
            return MDB_CORRUPTED;
        *out = kv.mod_rev;
        return MDB_SUCCESS;
    }
    if (rc == MDB_NOTFOUND)
        rc = mdb_get(txn, env->gone, &stored, &val);
    if (rc == MDB_SUCCESS)
        *out = (int64_t)rowform_get64(val.mv_data);
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

static int write_put(const struct env *env, MDB_txn *txn, MDB_val stored, struct belfry_bytes kv)
{
    MDB_val val = rowform_val(kv);
    int rc = mdb_del(txn, env->gone, &stored, NULL);
    return rc == MDB_SUCCESS || rc == MDB_NOTFOUND ? mdb_put(txn, env->state, &stored, &val, 0) : rc;
}

static int write_removal(const struct env *env, MDB_txn *txn, MDB_val stored, int64_t rev)
{
    uint8_t at[8];
    rowform_put64(at, (uint64_t)rev);
    MDB_val val = {.mv_size = sizeof(at), .mv_data = at};
    int rc = mdb_del(txn, env->state, &stored, NULL);
    return rc == MDB_SUCCESS || rc == MDB_NOTFOUND ? mdb_put(txn, env->gone, &stored, &val, 0) : rc;
}

static int write_record(const struct env *env, MDB_txn *txn, const struct record *record, const char *bytes)
{
    uint8_t room[ROWFORM_KEY_MAX + ROWFORM_HASH];
    struct belfry_bytes key = belfry_bytes_of(bytes + record->key_at, record->key_len);
    MDB_val stored = rowform_state_key(env->hash, key, room);
    int64_t known;
    int rc = known_rev(env, txn, stored, &known);
    if (rc != MDB_SUCCESS || known > record->rev)
        return rc;
    if (record->removed)
        return write_removal(env, txn, stored, record->rev);
    return write_put(env, txn, stored, belfry_bytes_of(bytes, record->len));
}

static int write_waiting(struct fresh *fresh, MDB_txn *txn)
{
    struct belfry_bytes waiting = belfry_buf_bytes(&fresh->waiting);
    for (size_t at = 0; at < waiting.len;) {
        struct record record;
        memcpy(&record, waiting.data + at, sizeof(record));
        at += sizeof(record);
        int rc = write_record(fresh->env, txn, &record, waiting.data + at);
        if (rc != MDB_SUCCESS)
            return rc;
        at += record.len;
    }
    return MDB_SUCCESS;
}

/* With `meta`: the copy is whole. */
static enum belfry_err flush(struct fresh *fresh, const struct store_meta *meta)
{
    const struct env *env = fresh->env;
    MDB_txn *txn;
    int rc = mdb_txn_begin(env->mdb, NULL, 0, &txn);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    rc = write_waiting(fresh, txn);
    if (rc == MDB_SUCCESS && meta != NULL)
        rc = mdb_drop(txn, env->gone, 0);
    if (rc == MDB_SUCCESS && meta != NULL)
        rc = env_meta_store(env, txn, meta);
    if (rc == MDB_SUCCESS)
        rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    if (rc == MDB_SUCCESS)
        belfry_buf_clear(&fresh->waiting);
    return rc == MDB_NOTFOUND ? BELFRY_ERR_IO : env_err(rc);
}

static enum belfry_err add(struct fresh *fresh, const struct record *record, struct belfry_bytes bytes)
{
    size_t len = sizeof(*record) + bytes.len;
    if (fresh->env == NULL || record->key_len == 0)
        return BELFRY_ERR_INVALID;
    enum belfry_err err = BELFRY_OK;
    if (belfry_buf_len(&fresh->waiting) >= FRESH_BYTES)
        err = flush(fresh, NULL);
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
    return add(fresh, &record, kv->raw);
}

enum belfry_err fresh_remove(struct fresh *fresh, struct belfry_bytes key, int64_t rev)
{
    return add(fresh, &(struct record){.rev = rev, .len = key.len, .key_len = key.len, .removed = true}, key);
}

enum belfry_err fresh_finish(struct fresh *fresh, const struct store_meta *meta)
{
    return fresh->env == NULL ? BELFRY_ERR_INVALID : flush(fresh, meta);
}
