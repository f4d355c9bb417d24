/* src/replica/chain.c */
#include "replica/chain.h"

void chain_init(struct chain *chain, const struct env *env, const struct env_now *now, MDB_cursor *cursor)
{
    *chain = (struct chain){.salt = env->salt, .now = now, .cursor = cursor, .rc = MDB_NOTFOUND};
}

/* Moves the cursor and reads the row that it is on then. */
static void chain_step(struct chain *chain, MDB_cursor_op op)
{
    MDB_val val;
    chain->rc = mdb_cursor_get(chain->cursor, &chain->at, &val, op);
    if (chain->rc == MDB_SUCCESS && (chain->at.mv_size != ROWFORM_AT ||
                                     !rowform_open(chain->salt, ROWFORM_HISTORY, chain->at, &val, &chain->check) ||
                                     !rowform_event_read(val, &chain->row)))
        chain->rc = MDB_CORRUPTED;
}

/* The value here must equal the copy stored elsewhere. */
static void chain_require(struct chain *chain, uint64_t here, uint64_t there)
{
    if (here != there)
        chain->rc = MDB_CORRUPTED;
}

void chain_first(struct chain *chain)
{
    chain_step(chain, MDB_FIRST);
    if (chain->rc == MDB_SUCCESS)
        chain_require(chain, chain->row.before, chain->now->trimmed);
    else if (chain->rc == MDB_NOTFOUND)
        chain_require(chain, chain->now->newest, chain->now->trimmed);
}

void chain_last(struct chain *chain)
{
    chain_step(chain, MDB_LAST);
    if (chain->rc == MDB_SUCCESS)
        chain_require(chain, chain->check, chain->now->newest);
    else if (chain->rc == MDB_NOTFOUND)
        chain_require(chain, chain->now->newest, chain->now->trimmed);
}

void chain_next(struct chain *chain)
{
    uint64_t check = chain->check;
    chain_step(chain, MDB_NEXT);
    if (chain->rc == MDB_SUCCESS)
        chain_require(chain, chain->row.before, check);
    else if (chain->rc == MDB_NOTFOUND)
        chain_require(chain, check, chain->now->newest);
}

void chain_prev(struct chain *chain)
{
    uint64_t before = chain->row.before;
    chain_step(chain, MDB_PREV);
    if (chain->rc == MDB_SUCCESS)
        chain_require(chain, chain->check, before);
    else if (chain->rc == MDB_NOTFOUND)
        chain_require(chain, before, chain->now->trimmed);
}

/* After the last row: is it really the last one? */
static void seek_end(struct chain *chain)
{
    chain_last(chain);
    if (chain->rc == MDB_SUCCESS)
        chain->rc = MDB_NOTFOUND;
}

/* The row must continue the chain, so the row before it is read for its check. */
void chain_seek(struct chain *chain, const uint8_t at[ROWFORM_AT])
{
    chain->at = rowform_val(belfry_bytes_of(at, ROWFORM_AT));
    chain_step(chain, MDB_SET_RANGE);
    if (chain->rc == MDB_NOTFOUND)
        seek_end(chain);
    else if (chain->rc == MDB_SUCCESS) {
        MDB_val before, val;
        int rc = mdb_cursor_get(chain->cursor, &before, &val, MDB_PREV);
        if (rc == MDB_NOTFOUND) { /* the cursor has not moved */
            chain_require(chain, chain->row.before, chain->now->trimmed);
            return;
        }
        if (rc != MDB_SUCCESS) {
            chain->rc = rc;
            return;
        }
        chain_require(chain, chain->row.before, rowform_check_of(val));
        rc = mdb_cursor_get(chain->cursor, &before, &val, MDB_NEXT);
        if (rc != MDB_SUCCESS && chain->rc == MDB_SUCCESS)
            chain->rc = rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc;
    }
}
