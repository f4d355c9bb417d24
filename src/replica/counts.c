/* src/replica/counts.c */
#include "replica/counts.h"

#include <string.h>

#include "replica/rowform.h"

#define BLOCK_KEY (1 + ROWFORM_KEY_MAX + ROWFORM_HASH)
#define NEAR      64 /* rows: a range of no more is counted row by row */

/* Bits of the hash that are 0 at a boundary of a level, besides those of the levels below. More boundaries of level 1
 * make counting quicker, and put rows of counts on more pages that a commit must write. */
static const unsigned level_bits[COUNTS_LEVELS] = {6, 5, 5};

/* A row of counts, as it is on disk. */
struct block {
    MDB_val key; /* level and boundary */
    uint64_t rows, check;
};

static const MDB_val no_key = {.mv_size = 0, .mv_data = NULL};

/* How many levels `stored` is a boundary of. Long keys are hashed with another key, so the two do not depend on each
 * other. */
static unsigned boundary_levels(const struct env *env, MDB_val stored)
{
    struct belfry_hash_key key = {env->hash.k0, ~env->hash.k1};
    uint64_t hash = belfry_hash(key, rowform_bytes(stored));
    unsigned levels = 0;
    for (; levels < COUNTS_LEVELS && (hash & ((1u << level_bits[levels]) - 1)) == 0; levels++)
        hash >>= level_bits[levels];
    return levels;
}

/* ---- rows of counts ---- */

static MDB_val block_key(unsigned level, MDB_val boundary, uint8_t room[BLOCK_KEY])
{
    room[0] = (uint8_t)level;
    if (boundary.mv_size > 0)
        memcpy(room + 1, boundary.mv_data, boundary.mv_size);
    return (MDB_val){.mv_size = 1 + boundary.mv_size, .mv_data = room};
}

static MDB_val block_boundary(const struct block *block)
{
    return (MDB_val){.mv_size = block->key.mv_size - 1, .mv_data = (uint8_t *)block->key.mv_data + 1};
}

static bool block_is_of(const struct block *block, unsigned level)
{
    return *(const uint8_t *)block->key.mv_data == level;
}

/* Moves the cursor and reads its row, of whichever level that is. */
static int block_read(const struct env *env, MDB_cursor *blocks, MDB_val key, MDB_cursor_op op, struct block *out)
{
    MDB_val val;
    int rc = mdb_cursor_get(blocks, &key, &val, op);
    if (rc != MDB_SUCCESS)
        return rc;
    if (key.mv_size == 0 || !rowform_open(env->salt, ROWFORM_COUNTS, key, &val, &out->check) || val.mv_size != 8)
        return MDB_CORRUPTED;
    out->key = key;
    out->rows = rowform_get64(val.mv_data);
    return MDB_SUCCESS;
}

/* Writes the row that the cursor is on (MDB_CURRENT), or a new one (MDB_NOOVERWRITE). */
static int block_write(const struct env *env, MDB_cursor *blocks, struct env_now *now, MDB_val key, uint64_t rows,
                       unsigned flags)
{
    uint8_t row[8 + ROWFORM_CHECK];
    MDB_val val = {.mv_size = sizeof(row), .mv_data = row};
    rowform_put64(row, rows);
    uint64_t check = rowform_seal(env->salt, ROWFORM_COUNTS, key, row, 8);
    int rc = mdb_cursor_put(blocks, &key, &val, flags);
    if (rc == MDB_SUCCESS)
        env_tally_add(now, ROWFORM_COUNTS, check);
    return rc;
}

static int block_rewrite(const struct env *env, MDB_cursor *blocks, struct env_now *now, const struct block *block,
                         uint64_t rows)
{
    env_tally_remove(now, ROWFORM_COUNTS, block->check);
    return block_write(env, blocks, now, block->key, rows, MDB_CURRENT);
}

/* Reads the last block that begins before `stored`; the cursor stays on it. *next is the boundary of the block after
 * it; without bytes: there is none. MDB_NOTFOUND: state was empty until now. */
static int block_before(const struct env *env, MDB_cursor *blocks, unsigned level, MDB_val stored, struct block *out,
                        MDB_val *next)
{
    uint8_t room[BLOCK_KEY];
    *next = no_key;
    int rc = block_read(env, blocks, block_key(level, stored, room), MDB_SET_RANGE, out);
    if (rc == MDB_SUCCESS && block_is_of(out, level))
        *next = block_boundary(out);
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return rc;
    rc = block_read(env, blocks, no_key, rc == MDB_SUCCESS ? MDB_PREV : MDB_LAST, out);
    return rc == MDB_SUCCESS && !block_is_of(out, level) ? MDB_NOTFOUND : rc;
}

/* ---- sums ---- */

static bool is_before(MDB_val stored, MDB_val end)
{
    return end.mv_size == 0 || belfry_bytes_cmp(rowform_bytes(stored), rowform_bytes(end)) < 0;
}

/* Adds the rows of state in [from, end), at most `most`; an `end` without bytes: to the very end. Values are not read:
 * one may have a megabyte. */
static int sum_rows(const struct env *env, MDB_txn *txn, MDB_val from, MDB_val end, uint64_t most, uint64_t *sum)
{
    MDB_cursor *cursor;
    MDB_val val;
    int rc = mdb_cursor_open(txn, env->state, &cursor);
    if (rc != MDB_SUCCESS)
        return rc;
    rc = mdb_cursor_get(cursor, &from, &val, from.mv_size == 0 ? MDB_FIRST : MDB_SET_RANGE);
    for (; rc == MDB_SUCCESS && most > 0 && is_before(from, end); most--) {
        (*sum)++;
        rc = mdb_cursor_get(cursor, &from, &val, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

/* Adds the blocks of a level from the boundary `from` on that end at or before `end`; without bytes: all. *last is the
 * boundary of the block after them, which `end` is in. */
static int sum_blocks(const struct env *env, MDB_cursor *blocks, unsigned level, MDB_val from, MDB_val end,
                      uint64_t *sum, MDB_val *last)
{
    uint8_t room[BLOCK_KEY];
    struct block block, next = {.rows = 0};
    *last = from;
    int rc = block_read(env, blocks, block_key(level, from, room), MDB_SET_KEY, &block);
    if (rc == MDB_NOTFOUND) /* only state that never had a row has no blocks */
        return from.mv_size == 0 ? MDB_SUCCESS : MDB_CORRUPTED;
    while (rc == MDB_SUCCESS) {
        *last = block_boundary(&block);
        rc = block_read(env, blocks, no_key, MDB_NEXT, &next);
        if (rc == MDB_SUCCESS && !block_is_of(&next, level))
            rc = MDB_NOTFOUND;
        if (end.mv_size > 0 && (rc != MDB_SUCCESS || is_before(end, block_boundary(&next))))
            break;
        *sum += block.rows;
        block = next;
    }
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

/* ---- the writer ---- */

/* The first block of a level, when state gets its first row. */
static int write_first(const struct env *env, MDB_cursor *blocks, struct env_now *now, unsigned level, uint64_t rows)
{
    uint8_t room[BLOCK_KEY];
    if (now->tallies[ROWFORM_STATE].rows != 1)
        return MDB_CORRUPTED; /* there was a first block */
    return block_write(env, blocks, now, block_key(level, no_key, room), rows, MDB_NOOVERWRITE);
}

static int block_grow(const struct env *env, MDB_cursor *blocks, struct env_now *now, unsigned level, MDB_val stored)
{
    struct block block;
    MDB_val next;
    int rc = block_before(env, blocks, level, stored, &block, &next);
    if (rc == MDB_NOTFOUND)
        return write_first(env, blocks, now, level, 1);
    return rc == MDB_SUCCESS ? block_rewrite(env, blocks, now, &block, block.rows + 1) : rc;
}

static int block_shrink(const struct env *env, MDB_cursor *blocks, struct env_now *now, unsigned level, MDB_val stored)
{
    struct block block;
    MDB_val next;
    int rc = block_before(env, blocks, level, stored, &block, &next);
    if (rc == MDB_NOTFOUND || (rc == MDB_SUCCESS && block.rows == 0))
        return MDB_CORRUPTED;
    return rc == MDB_SUCCESS ? block_rewrite(env, blocks, now, &block, block.rows - 1) : rc;
}

/* The rows of the block that is to begin at `stored`, which state has by now, and so has the level below. */
static int tail_of(const struct env *env, MDB_cursor *blocks, unsigned level, MDB_val stored, MDB_val next,
                   uint64_t *out)
{
    MDB_val last;
    *out = 0;
    if (level == 1)
        return sum_rows(env, mdb_cursor_txn(blocks), stored, next, UINT64_MAX, out);
    return sum_blocks(env, blocks, level - 1, stored, next, out, &last);
}

/* Divides the block that `stored` is in: it is a new boundary. */
static int block_divide(const struct env *env, MDB_cursor *blocks, struct env_now *now, unsigned level, MDB_val stored)
{
    uint8_t room[BLOCK_KEY];
    struct block block;
    MDB_val next;
    uint64_t tail;
    int rc = block_before(env, blocks, level, stored, &block, &next);
    if (rc == MDB_NOTFOUND) {
        rc = write_first(env, blocks, now, level, 0);
        return rc == MDB_SUCCESS ? block_write(env, blocks, now, block_key(level, stored, room), 1, MDB_NOOVERWRITE)
                                 : rc;
    }
    if (rc == MDB_SUCCESS)
        rc = tail_of(env, blocks, level, stored, next, &tail);
    if (rc == MDB_SUCCESS)
        rc = block_before(env, blocks, level, stored, &block, &next); /* the cursor has moved */
    if (rc != MDB_SUCCESS)
        return rc;
    if (tail == 0 || tail - 1 > block.rows)
        return MDB_CORRUPTED;
    rc = block_rewrite(env, blocks, now, &block, block.rows - (tail - 1));
    return rc == MDB_SUCCESS ? block_write(env, blocks, now, block_key(level, stored, room), tail, MDB_NOOVERWRITE)
                             : rc;
}

/* Joins the block that begins at `stored` with the one before it. */
static int block_join(const struct env *env, MDB_cursor *blocks, struct env_now *now, unsigned level, MDB_val stored)
{
    uint8_t room[BLOCK_KEY];
    struct block block, before;
    MDB_val next;
    int rc = block_read(env, blocks, block_key(level, stored, room), MDB_SET_KEY, &block);
    if (rc == MDB_NOTFOUND || (rc == MDB_SUCCESS && block.rows == 0))
        return MDB_CORRUPTED;
    if (rc == MDB_SUCCESS)
        rc = mdb_cursor_del(blocks, 0);
    if (rc != MDB_SUCCESS)
        return rc;
    env_tally_remove(now, ROWFORM_COUNTS, block.check);
    rc = block_before(env, blocks, level, stored, &before, &next);
    if (rc == MDB_NOTFOUND)
        return MDB_CORRUPTED;
    return rc == MDB_SUCCESS ? block_rewrite(env, blocks, now, &before, before.rows + block.rows - 1) : rc;
}

int counts_add(const struct env *env, MDB_cursor *blocks, struct env_now *now, MDB_val stored)
{
    unsigned levels = boundary_levels(env, stored);
    int rc = MDB_SUCCESS;
    for (unsigned level = 1; level <= COUNTS_LEVELS && rc == MDB_SUCCESS; level++)
        rc = level <= levels ? block_divide(env, blocks, now, level, stored)
                             : block_grow(env, blocks, now, level, stored);
    return rc;
}

int counts_remove(const struct env *env, MDB_cursor *blocks, struct env_now *now, MDB_val stored)
{
    unsigned levels = boundary_levels(env, stored);
    int rc = MDB_SUCCESS;
    for (unsigned level = 1; level <= COUNTS_LEVELS && rc == MDB_SUCCESS; level++)
        rc = level <= levels ? block_join(env, blocks, now, level, stored)
                             : block_shrink(env, blocks, now, level, stored);
    return rc;
}

/* ---- the reader ---- */

/* Adds the rows that are stored before `end`. */
static int sum_stored(const struct env *env, MDB_txn *txn, MDB_val end, uint64_t *sum)
{
    MDB_cursor *blocks;
    MDB_val from = no_key;
    int rc = mdb_cursor_open(txn, env->counts, &blocks);
    if (rc != MDB_SUCCESS)
        return rc;
    for (unsigned level = COUNTS_LEVELS; level > 0 && rc == MDB_SUCCESS; level--)
        rc = sum_blocks(env, blocks, level, from, end, sum, &from);
    if (rc == MDB_SUCCESS)
        rc = sum_rows(env, txn, from, end, UINT64_MAX, sum);
    mdb_cursor_close(blocks);
    return rc;
}

/* Adds the keys below `key` that share its first ROWFORM_KEY_MAX bytes: the order of their rows is another. */
static int sum_group(const struct env *env, MDB_txn *txn, struct belfry_bytes key, uint64_t *sum)
{
    struct belfry_bytes shared = belfry_bytes_of(key.data, ROWFORM_KEY_MAX), whole;
    MDB_val stored = rowform_val(shared), val;
    MDB_cursor *cursor;
    uint64_t check;
    int rc = mdb_cursor_open(txn, env->state, &cursor);
    if (rc != MDB_SUCCESS)
        return rc;
    rc = mdb_cursor_get(cursor, &stored, &val, MDB_SET_RANGE);
    while (rc == MDB_SUCCESS && belfry_bytes_begins(rowform_bytes(stored), shared)) {
        if (!rowform_open(env->salt, ROWFORM_STATE, stored, &val, &check) || !rowform_key_of(stored, val, &whole)) {
            rc = MDB_CORRUPTED;
            break;
        }
        *sum += belfry_bytes_cmp(whole, key) < 0;
        rc = mdb_cursor_get(cursor, &stored, &val, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

static int count_below(const struct env *env, MDB_txn *txn, struct belfry_bytes key, uint64_t *out)
{
    *out = 0;
    if (key.len == 0)
        return MDB_SUCCESS;
    if (key.len <= ROWFORM_KEY_MAX)
        return sum_stored(env, txn, rowform_val(key), out);
    int rc = sum_stored(env, txn, rowform_val(belfry_bytes_of(key.data, ROWFORM_KEY_MAX)), out);
    return rc == MDB_SUCCESS ? sum_group(env, txn, key, out) : rc;
}

/* True: the range is counted, or LMDB has failed. */
static bool count_near(const struct env *env, MDB_txn *txn, struct belfry_bytes key, struct belfry_bytes end,
                       uint64_t *out, int *rc)
{
    *out = 0;
    if (key.len > ROWFORM_KEY_MAX || end.len > ROWFORM_KEY_MAX)
        return false;
    *rc = sum_rows(env, txn, rowform_val(key), rowform_val(end), NEAR + 1, out);
    return *rc != MDB_SUCCESS || *out <= NEAR;
}

enum belfry_err counts_range(const struct env *env, MDB_txn *txn, const struct env_now *now, struct belfry_bytes key,
                             struct belfry_bytes end, uint64_t *out)
{
    uint64_t below_key, below_end = now->tallies[ROWFORM_STATE].rows;
    int rc;
    if (end.len > 0 && belfry_bytes_cmp(key, end) >= 0) {
        *out = 0;
        return BELFRY_OK;
    }
    if (count_near(env, txn, key, end, out, &rc))
        return env_err(rc);
    rc = count_below(env, txn, key, &below_key);
    if (rc == MDB_SUCCESS && end.len > 0)
        rc = count_below(env, txn, end, &below_end);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    *out = below_end - below_key;
    return below_end >= below_key ? BELFRY_OK : BELFRY_ERR_IO;
}
