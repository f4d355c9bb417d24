/* src/replica/state.c */
#include "replica/state.h"

#include <stdlib.h>

#include "replica/rowform.h"

#define GROUP_ROOM (2 * (size_t)STATE_GROUP)

static bool open_row(struct state_walk *walk)
{
    uint64_t check;
    if (walk->check == STATE_CHECK_ROWS || rowform_is_long(walk->stored)) /* a long key is in the value */
        return rowform_open(walk->salt, ROWFORM_STATE, walk->stored, &walk->val, &check);
    return rowform_trim(&walk->val);
}

static void read_row(struct state_walk *walk, MDB_cursor_op op)
{
    walk->rc = mdb_cursor_get(walk->cursor, &walk->stored, &walk->val, op);
    if (walk->rc == MDB_SUCCESS && !open_row(walk))
        walk->rc = MDB_CORRUPTED;
}

static void state_seek(struct state_walk *walk, struct belfry_bytes key)
{
    if (key.len > ROWFORM_KEY_MAX)
        key.len = ROWFORM_KEY_MAX; /* long keys with this beginning are sorted before they are compared */
    walk->stored = rowform_val(key);
    read_row(walk, key.len == 0 ? MDB_FIRST : MDB_SET_RANGE);
}

static void state_step(struct state_walk *walk)
{
    read_row(walk, MDB_NEXT);
}

enum belfry_err state_walk_init(struct state_walk *walk, const struct env *env, MDB_txn *txn, struct belfry_bytes from,
                                enum state_check check)
{
    *walk = (struct state_walk){.salt = env->salt, .check = check, .from = from};
    int rc = mdb_cursor_open(txn, env->state, &walk->cursor);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    state_seek(walk, from);
    return BELFRY_OK;
}

void state_walk_fini(struct state_walk *walk)
{
    mdb_cursor_close(walk->cursor);
    free(walk->group);
}

static int by_key(const void *a, const void *b)
{
    return belfry_bytes_cmp(((const struct state_row *)a)->key, ((const struct state_row *)b)->key);
}

/* Keeps the smallest of the gathered rows. */
static void cut_group(struct state_walk *walk)
{
    qsort(walk->group, walk->n, sizeof(*walk->group), by_key);
    if (walk->n > STATE_GROUP) {
        walk->n = STATE_GROUP;
        walk->cut = true;
    }
}

static bool same_group(const struct state_walk *walk)
{
    return walk->rc == MDB_SUCCESS && rowform_is_long(walk->stored) &&
           memcmp(walk->stored.mv_data, walk->shared.data, ROWFORM_KEY_MAX) == 0;
}

/* Gathers the rows of the cursor's group that are not below `from`. The cursor ends after the group. */
static enum belfry_err state_gather(struct state_walk *walk)
{
    if (walk->group == NULL)
        walk->group = malloc(GROUP_ROOM * sizeof(*walk->group));
    if (walk->group == NULL)
        return BELFRY_ERR_NOMEM;
    walk->n = walk->given = 0;
    walk->cut = false;
    walk->shared = belfry_bytes_of(walk->stored.mv_data, ROWFORM_KEY_MAX);
    for (; same_group(walk); state_step(walk)) {
        struct state_row row = {.kv = rowform_bytes(walk->val)};
        if (!rowform_key_of(walk->stored, walk->val, &row.key))
            return BELFRY_ERR_IO;
        if (belfry_bytes_cmp(row.key, walk->from) < 0)
            continue;
        if (walk->n == GROUP_ROOM)
            cut_group(walk);
        walk->group[walk->n++] = row;
    }
    cut_group(walk);
    return BELFRY_OK;
}

/* Continues a group that was cut: gathers it again, from the last row that was given. */
static enum belfry_err gather_again(struct state_walk *walk)
{
    struct belfry_bytes last = walk->group[walk->n - 1].key;
    walk->from = last;
    state_seek(walk, walk->shared);
    if (walk->rc == MDB_SUCCESS && !rowform_is_long(walk->stored)) /* the shared bytes alone: given before the group */
        state_step(walk);
    enum belfry_err err = state_gather(walk);
    walk->given = 1; /* the last one itself */
    return err;
}

enum belfry_err state_walk_next(struct state_walk *walk, struct state_row *out)
{
    for (;;) {
        if (walk->given < walk->n) {
            *out = walk->group[walk->given++];
            return BELFRY_OK;
        }
        enum belfry_err err = BELFRY_OK;
        if (walk->cut) {
            err = gather_again(walk);
        } else if (walk->rc != MDB_SUCCESS) {
            return env_err(walk->rc);
        } else if (rowform_is_long(walk->stored)) {
            err = state_gather(walk);
        } else {
            *out = (struct state_row){rowform_bytes(walk->stored), rowform_bytes(walk->val)};
            state_step(walk);
            if (belfry_bytes_cmp(out->key, walk->from) >= 0)
                return BELFRY_OK;
        }
        if (err != BELFRY_OK)
            return err;
    }
}
