/* src/replica/older.c: rows are gathered as they come; when there are too many they are sorted, each key's first row is
 * kept, and the upper half goes. */
#include "replica/older.h"

#include <stdlib.h>

#include "replica/rowform.h"

#define ROOM (2 * (size_t)OLDER_MAX)

static int by_key_then_order(const void *a, const void *b)
{
    const struct older_key *x = a, *y = b;
    int order = belfry_bytes_cmp(x->key, y->key);
    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

static void settle(struct older *older)
{
    size_t kept = 0;
    qsort(older->keys, older->n, sizeof(*older->keys), by_key_then_order);
    for (size_t i = 0; i < older->n; i++) {
        if (kept == 0 || !belfry_bytes_equal(older->keys[kept - 1].key, older->keys[i].key))
            older->keys[kept++] = older->keys[i];
    }
    older->n = kept;
    if (kept > OLDER_MAX) {
        older->n = OLDER_MAX;
        older->cut = true;
        older->bound = older->keys[OLDER_MAX].key;
    }
}

static enum belfry_err add(struct older *older, const struct rowform_event *row, uint64_t order)
{
    if (older->n == ROOM)
        settle(older);
    if (older->n == older->cap) {
        size_t cap = older->cap == 0 ? 64 : older->cap * 2;
        struct older_key *keys = realloc(older->keys, cap * sizeof(*keys));
        if (keys == NULL)
            return BELFRY_ERR_NOMEM;
        older->keys = keys;
        older->cap = cap;
    }
    older->keys[older->n++] = (struct older_key){.key = row->key, .kv = row->prev, .order = order};
    return BELFRY_OK;
}

static bool wanted(const struct older *older, struct belfry_bytes key, struct belfry_bytes from,
                   struct belfry_bytes end)
{
    return belfry_bytes_cmp(key, from) >= 0 && (end.len == 0 || belfry_bytes_cmp(key, end) < 0) &&
           (!older->cut || belfry_bytes_cmp(key, older->bound) < 0);
}

static enum belfry_err gather(struct older *older, MDB_cursor *cursor, int64_t rev, struct belfry_bytes from,
                              struct belfry_bytes end)
{
    uint8_t at[ROWFORM_AT];
    rowform_at(rev + 1, 0, at);
    MDB_val key = {.mv_size = sizeof(at), .mv_data = at}, val;
    int rc = mdb_cursor_get(cursor, &key, &val, MDB_SET_RANGE);
    for (uint64_t order = 0; rc == MDB_SUCCESS; order++, rc = mdb_cursor_get(cursor, &key, &val, MDB_NEXT)) {
        struct rowform_event row;
        if (!rowform_event_read(val, &row))
            return BELFRY_ERR_IO;
        if (!wanted(older, row.key, from, end))
            continue;
        enum belfry_err err = add(older, &row, order);
        if (err != BELFRY_OK)
            return err;
    }
    return rc == MDB_NOTFOUND ? BELFRY_OK : env_err(rc);
}

enum belfry_err older_read(struct older *older, const struct env *env, MDB_txn *txn, int64_t rev,
                           struct belfry_bytes from, struct belfry_bytes end)
{
    *older = (struct older){0};
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, env->history, &cursor);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    enum belfry_err err = gather(older, cursor, rev, from, end);
    mdb_cursor_close(cursor);
    if (err == BELFRY_OK && older->n > 0)
        settle(older);
    return err;
}

void older_fini(struct older *older)
{
    free(older->keys);
    *older = (struct older){0};
}
