/* src/replica/older.c */
#include "replica/older.h"

#include <string.h>

#include "replica/chain.h"
#include "replica/env.h"

void older_rest(struct older *older, uint64_t now_ms)
{
    if (!older->begun || now_ms - older->used_ms <= OLDER_IDLE_MS)
        return;
    older_index_fini(&older->index);
    older->begun = false;
}

/* ---- reaching ---- */

/* The position after this one. */
static void step_behind(MDB_val at, uint8_t out[ROWFORM_AT])
{
    rowform_at(rowform_rev(at), rowform_sub(at), out);
    for (size_t i = ROWFORM_AT; i-- > 0 && ++out[i] == 0;)
        ;
}

/* Empty, at the end of what there is. */
static enum belfry_err older_begin(struct older *older, struct chain *chain)
{
    older_index_fini(&older->index);
    *older = (struct older){0};
    chain_last(chain);
    if (chain_is_damaged(chain))
        return env_err(chain->rc);
    if (chain->rc == MDB_SUCCESS)
        step_behind(chain->at, older->next);
    memcpy(older->low, older->next, ROWFORM_AT);
    older->begun = true;
    return BELFRY_OK;
}

static enum belfry_err older_reach_up(struct older *older, struct chain *chain, size_t *left)
{
    uint8_t from[ROWFORM_AT];
    memcpy(from, older->next, ROWFORM_AT);
    for (chain_seek(chain, from); chain->rc == MDB_SUCCESS; chain_next(chain)) {
        if ((*left)-- == 0)
            return BELFRY_ERR_AGAIN;
        enum belfry_err err = older_index_add(&older->index, &chain->row, chain->at.mv_data, OLDER_ABOVE);
        if (err != BELFRY_OK)
            return err;
        step_behind(chain->at, older->next);
    }
    return chain->rc == MDB_NOTFOUND ? BELFRY_OK : env_err(chain->rc);
}

/* To the last row below `low`. */
static void seek_below(const struct older *older, struct chain *chain)
{
    uint8_t low[ROWFORM_AT];
    memcpy(low, older->low, ROWFORM_AT);
    chain_seek(chain, low);
    if (chain->rc == MDB_SUCCESS)
        chain_prev(chain);
    else if (chain->rc == MDB_NOTFOUND)
        chain_last(chain);
}

static enum belfry_err older_reach_down(struct older *older, struct chain *chain, int64_t rev, size_t *left)
{
    uint8_t goal[ROWFORM_AT];
    rowform_at(rev + 1, 0, goal);
    if (memcmp(older->low, goal, ROWFORM_AT) <= 0)
        return BELFRY_OK;
    for (seek_below(older, chain); chain->rc == MDB_SUCCESS && rowform_rev(chain->at) > rev; chain_prev(chain)) {
        if ((*left)-- == 0)
            return BELFRY_ERR_AGAIN;
        enum belfry_err err = older_index_add(&older->index, &chain->row, chain->at.mv_data, OLDER_BELOW);
        if (err != BELFRY_OK)
            return err == BELFRY_ERR_LIMIT ? BELFRY_ERR_COMPACTED : err;
        memcpy(older->low, chain->at.mv_data, ROWFORM_AT);
    }
    if (chain_is_damaged(chain))
        return env_err(chain->rc);
    memcpy(older->low, goal, ROWFORM_AT);
    return BELFRY_OK;
}

enum belfry_err older_reach(struct older *older, const struct env *env, MDB_txn *txn, const struct env_now *now,
                            int64_t rev, size_t max_rows, uint64_t now_ms)
{
    MDB_cursor *cursor;
    struct chain chain;
    size_t left = max_rows == 0 ? SIZE_MAX : max_rows;
    int rc = mdb_cursor_open(txn, env->history, &cursor);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    chain_init(&chain, env, now, cursor);
    enum belfry_err err = older->begun ? older_reach_up(older, &chain, &left) : older_begin(older, &chain);
    if (err == BELFRY_ERR_LIMIT)
        err = older_begin(older, &chain);
    if (err == BELFRY_OK)
        err = older_reach_down(older, &chain, rev, &left);
    mdb_cursor_close(cursor);
    older->used_ms = now_ms;
    return err;
}

/* ---- walking ---- */

void older_walk_init(struct older_walk *walk, const struct older *older, const struct env *env, MDB_txn *txn,
                     int64_t rev, struct belfry_bytes from)
{
    *walk = (struct older_walk){.older = older, .env = env, .txn = txn, .rev = rev, .after = from};
}

/* The next key that has a row above the revision, at the first of these. */
static const struct older_row *older_walk_row(const struct older_walk *walk)
{
    const struct older_index *index = &walk->older->index;
    uint8_t at[ROWFORM_AT] = {0}, goal[ROWFORM_AT];
    rowform_at(walk->rev + 1, 0, goal);
    if (walk->given)
        memset(at, 0xff, ROWFORM_AT); /* behind all that it has */
    const struct older_row *row = older_index_first(index, walk->after, at);
    while (row != NULL) {
        const struct older_row *above =
            memcmp(row->at, goal, ROWFORM_AT) >= 0 ? row : older_index_first(index, older_row_key(row), goal);
        if (above == NULL || belfry_bytes_equal(older_row_key(above), older_row_key(row)))
            return above;
        row = above; /* the key has not changed since */
    }
    return NULL;
}

enum belfry_err older_walk_next(struct older_walk *walk, struct older_key *out)
{
    const struct older_row *row = older_walk_row(walk);
    if (row == NULL)
        return BELFRY_ERR_NOT_FOUND;
    MDB_val at = rowform_val(belfry_bytes_of((const char *)row->at, ROWFORM_AT)), val;
    struct rowform_event event;
    uint64_t check;
    int rc = env_row_get(walk->env, walk->txn, ROWFORM_HISTORY, at, &val, &check);
    if (rc != MDB_SUCCESS || !rowform_event_read(val, &event))
        return BELFRY_ERR_IO; /* rows above `rev` are all there, or it is no revision of the window */
    walk->after = older_row_key(row);
    walk->given = true;
    *out = (struct older_key){older_row_key(row), event.prev};
    return BELFRY_OK;
}

/* ---- counting ---- */

enum belfry_err older_delta(const struct older *older, int64_t rev, struct belfry_bytes key, struct belfry_bytes end,
                            int64_t *out)
{
    uint8_t goal[ROWFORM_AT];
    size_t looked = 0;
    rowform_at(rev + 1, 0, goal);
    *out = 0;
    for (const struct older_row *row = older->index.newest; row != NULL; row = row->earlier) {
        if (memcmp(row->at, goal, ROWFORM_AT) < 0)
            break;
        if (++looked > OLDER_COUNTED)
            return BELFRY_ERR_COMPACTED;
        struct belfry_bytes changed = older_row_key(row);
        if (belfry_bytes_cmp(changed, key) >= 0 && (end.len == 0 || belfry_bytes_cmp(changed, end) < 0))
            *out += row->delta;
    }
    return BELFRY_OK;
}
