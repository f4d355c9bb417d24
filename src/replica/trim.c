/* src/replica/trim.c */
#include "replica/trim.h"

#include "base/sim.h"
#include "replica/rowform.h"

#define MAP_TRIM_PERCENT 70

struct trim {
    struct writer *writer;
    const struct trim_budget *budget;
    int64_t aged;   /* revisions up to here are over age */
    int64_t newest; /* revision of the last row: it stays */
    int64_t oldest; /* moves */
    size_t max_rows, removed;
};

static int last_mark(MDB_cursor *marks, int64_t *rev, uint64_t *s)
{
    MDB_val key, val;
    int rc = mdb_cursor_get(marks, &key, &val, MDB_LAST);
    if (rc == MDB_SUCCESS) {
        *rev = rowform_rev(key);
        *s = rowform_get64(val.mv_data);
    }
    return rc;
}

static int add_mark(struct writer *writer, MDB_cursor *marks, uint64_t now_s)
{
    int64_t rev;
    uint64_t s;
    int rc = last_mark(marks, &rev, &s);
    if (rc == MDB_SUCCESS && s > now_s) { /* the marks are of another boot's clock */
        rc = mdb_drop(writer->txn, writer->env->marks, 0);
        if (rc != MDB_SUCCESS)
            return rc;
        rc = MDB_NOTFOUND;
    }
    if (rc == MDB_SUCCESS && (s == now_s || rev == writer->now.revision))
        return MDB_SUCCESS;
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return rc;
    uint8_t at[8], second[8];
    rowform_put64(at, (uint64_t)writer->now.revision);
    rowform_put64(second, now_s);
    MDB_val key = {.mv_size = sizeof(at), .mv_data = at}, val = {.mv_size = sizeof(second), .mv_data = second};
    return mdb_put(writer->txn, writer->env->marks, &key, &val, 0);
}

/* Finds what is over age, and drops the marks that only tell of what is gone. */
static int read_marks(struct trim *trim, MDB_cursor *marks, uint64_t now_s)
{
    MDB_val key, val;
    int rc = mdb_cursor_get(marks, &key, &val, MDB_FIRST);
    for (; rc == MDB_SUCCESS; rc = mdb_cursor_get(marks, &key, &val, MDB_NEXT)) {
        int64_t rev = rowform_rev(key);
        if (now_s - rowform_get64(val.mv_data) <= trim->budget->history_age_s)
            return MDB_SUCCESS;
        trim->aged = rev;
        if (rev < trim->oldest - 1) {
            rc = mdb_cursor_del(marks, 0);
            if (rc != MDB_SUCCESS)
                return rc;
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

static bool over(const struct trim *trim, int64_t rev)
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
    rowform_put64(at, (uint64_t)rev);
    MDB_val key = {.mv_size = sizeof(at), .mv_data = at};
    int rc = mdb_del(writer->txn, writer->env->extents, &key, NULL);
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

/* Removes rows from the front until the budget is kept or max_rows are gone. */
static int remove_rows(struct trim *trim, MDB_cursor *rows)
{
    MDB_val key, val;
    int rc = mdb_cursor_get(rows, &key, &val, MDB_LAST);
    if (rc != MDB_SUCCESS)
        return rc;
    trim->newest = rowform_rev(key);
    rc = mdb_cursor_get(rows, &key, &val, MDB_FIRST);
    for (; rc == MDB_SUCCESS && trim->removed < trim->max_rows; trim->removed++) {
        int64_t rev = rowform_rev(key);
        if (rev >= trim->oldest) {
            if (rev == trim->newest || !over(trim, rev))
                return MDB_SUCCESS;
            trim->oldest = rev + 1;
            rc = drop_extent(trim->writer, rev);
            if (rc != MDB_SUCCESS)
                return rc;
        }
        rc = mdb_cursor_del(rows, 0);
        if (rc == MDB_SUCCESS)
            rc = mdb_cursor_get(rows, &key, &val, MDB_NEXT); /* the row behind the one deleted */
    }
    return rc;
}

enum belfry_err trim_rows(struct writer *writer, const struct trim_budget *budget, uint64_t now_s, size_t max_rows,
                          size_t *n)
{
    if (writer->state != WRITER_OPEN)
        return BELFRY_ERR_INVALID;
    struct trim trim = {.writer = writer, .budget = budget, .oldest = writer->now.oldest, .max_rows = max_rows};
    int rc = judge_age(&trim, now_s);
    if (rc != MDB_SUCCESS)
        return writer_failed(writer, rc);
    rc = remove_rows(&trim, writer->rows);
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND) /* not found: history is empty */
        return writer_failed(writer, rc);
    if (!BELFRY_MUTANT(oldest_not_moved))
        writer->now.oldest = trim.oldest;
    *n = trim.removed;
    return BELFRY_OK;
}
