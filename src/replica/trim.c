/* src/replica/trim.c */
#include "replica/trim.h"

#include "base/sim.h"
#include "replica/chain.h"
#include "replica/rowform.h"

#define MAP_TRIM_PERCENT 70

struct trim {
    struct writer *writer;
    const struct trim_budget *budget;
    int64_t aged;   /* revisions up to this one are too old */
    int64_t newest; /* revision of the last row, which is never removed */
    int64_t oldest; /* moves */
    size_t max_rows, removed;
};

struct mark {
    int64_t rev;
    uint64_t s, check;
};

static int read_mark(const struct writer *writer, MDB_cursor *marks, MDB_cursor_op op, struct mark *out)
{
    MDB_val key, val;
    int rc = mdb_cursor_get(marks, &key, &val, op);
    if (rc != MDB_SUCCESS)
        return rc;
    if (key.mv_size != 8 || !rowform_open(writer->env->salt, ROWFORM_MARKS, key, &val, &out->check) || val.mv_size != 8)
        return MDB_CORRUPTED;
    out->rev = rowform_rev(key);
    out->s = rowform_get64(val.mv_data);
    return MDB_SUCCESS;
}

static int add_mark(struct writer *writer, MDB_cursor *marks, uint64_t now_s)
{
    struct mark last;
    int rc = read_mark(writer, marks, MDB_LAST, &last);
    if (rc == MDB_SUCCESS && last.s > now_s) { /* the marks were made by the clock of another boot */
        rc = mdb_drop(writer->txn, writer->env->marks, 0);
        if (rc != MDB_SUCCESS)
            return rc;
        writer->now.tallies[ROWFORM_MARKS] = (struct env_tally){0};
        rc = MDB_NOTFOUND;
    }
    if (rc == MDB_SUCCESS && (last.s == now_s || last.rev == writer->now.meta.revision))
        return MDB_SUCCESS;
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return rc;
    uint8_t at[8], second[8];
    rowform_put64(at, (uint64_t)writer->now.meta.revision);
    rowform_put64(second, now_s);
    MDB_val key = {.mv_size = sizeof(at), .mv_data = at};
    return env_row_put(writer->env, writer->txn, &writer->now, ROWFORM_MARKS, key,
                       belfry_bytes_of(second, sizeof(second)));
}

/* Finds revisions that are too old, and drops marks of revisions that no longer exist. */
static int read_marks(struct trim *trim, MDB_cursor *marks, uint64_t now_s)
{
    struct writer *writer = trim->writer;
    struct mark mark;
    int rc = read_mark(writer, marks, MDB_FIRST, &mark);
    for (; rc == MDB_SUCCESS; rc = read_mark(writer, marks, MDB_NEXT, &mark)) {
        if (now_s - mark.s <= trim->budget->history_age_s)
            return MDB_SUCCESS;
        trim->aged = mark.rev;
        if (mark.rev < trim->oldest - 1) {
            rc = mdb_cursor_del(marks, 0);
            if (rc != MDB_SUCCESS)
                return rc;
            env_tally_remove(&writer->now, ROWFORM_MARKS, mark.check);
        }
    }
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

static int judge_age(struct trim *trim, uint64_t now_s)
{
    struct writer *writer = trim->writer;
    MDB_cursor *marks;
    int rc = mdb_cursor_open(writer->txn, writer->env->marks, &marks);
    if (rc != MDB_SUCCESS)
        return rc;
    rc = add_mark(writer, marks, now_s);
    if (rc == MDB_SUCCESS)
        rc = read_marks(trim, marks, now_s);
    mdb_cursor_close(marks);
    return rc;
}

static bool trim_is_over(const struct trim *trim, int64_t rev)
{
    const struct env *env = trim->writer->env;
    MDB_txn *txn = trim->writer->txn;
    return trim->budget->squeeze || rev <= trim->aged ||
           env_table_bytes(env, txn, env->history) > trim->budget->history_bytes ||
           env_used_bytes(env, txn) > env->map_bytes / 100 * MAP_TRIM_PERCENT;
}

static int drop_extent(struct writer *writer, int64_t rev)
{
    uint8_t at[8];
    uint64_t check;
    rowform_put64(at, (uint64_t)rev);
    MDB_val key = {.mv_size = sizeof(at), .mv_data = at}, val;
    int rc = env_row_get(writer->env, writer->txn, ROWFORM_EXTENTS, key, &val, &check);
    if (rc != MDB_SUCCESS)
        return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
    env_tally_remove(&writer->now, ROWFORM_EXTENTS, check);
    return mdb_del(writer->txn, writer->env->extents, &key, NULL);
}

/* Removes the first row, which the chain is on, and moves to the next one. */
static int remove_row(struct writer *writer, struct chain *chain)
{
    int rc = mdb_cursor_del(chain->cursor, 0);
    if (rc != MDB_SUCCESS)
        return rc;
    writer->now.trimmed = chain->check;
    env_tally_remove(&writer->now, ROWFORM_HISTORY, chain->check);
    chain_next(chain);
    return chain->rc;
}

/* Removes the oldest rows until the rest fits the budget, or max_rows are removed. */
static int remove_rows(struct trim *trim, struct chain *chain)
{
    chain_last(chain);
    if (chain->rc != MDB_SUCCESS)
        return chain->rc;
    trim->newest = rowform_rev(chain->at);
    chain_first(chain);
    int rc = chain->rc;
    for (; rc == MDB_SUCCESS && trim->removed < trim->max_rows; trim->removed++) {
        int64_t rev = rowform_rev(chain->at);
        if (rev >= trim->oldest) {
            if (rev == trim->newest || !trim_is_over(trim, rev))
                return MDB_SUCCESS;
            trim->oldest = rev + 1;
            rc = drop_extent(trim->writer, rev);
            if (rc != MDB_SUCCESS)
                return rc;
        }
        rc = remove_row(trim->writer, chain);
    }
    return rc;
}

enum belfry_err trim_rows(struct writer *writer, const struct trim_budget *budget, uint64_t now_s, size_t max_rows,
                          size_t *n)
{
    if (writer->state != WRITER_OPEN)
        return BELFRY_ERR_INVALID;
    struct trim trim = {.writer = writer, .budget = budget, .oldest = writer->now.meta.oldest, .max_rows = max_rows};
    int rc = judge_age(&trim, now_s);
    if (rc != MDB_SUCCESS)
        return writer_failed(writer, rc);
    struct chain chain;
    chain_init(&chain, writer->env, &writer->now, writer->rows);
    rc = remove_rows(&trim, &chain);
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND) /* not found: history is empty */
        return writer_failed(writer, rc);
    if (!BELFRY_MUTANT(oldest_not_moved))
        writer->now.meta.oldest = trim.oldest;
    *n = trim.removed;
    return BELFRY_OK;
}
