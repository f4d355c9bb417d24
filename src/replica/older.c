/* src/replica/older.c */
#include "replica/older.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "replica/env.h"

#define CHUNK_BYTES ((size_t)256 << 10)

/* A row of history: where it is, and of which key. */
struct row {
    struct belfry_treap_node node;
    uint8_t at[ROWFORM_AT];
    uint32_t key_len;
    char key[];
};

struct older_chunk {
    struct older_chunk *before;
    size_t used, size;
    char room[];
};

/* ---- rows ---- */

static const struct row *row_of(const struct belfry_treap_node *node)
{
    return belfry_container_const(node, struct row, node);
}

static struct belfry_bytes key_of(const struct row *row)
{
    return belfry_bytes_of(row->key, row->key_len);
}

static int by_key_and_position(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct row *x = row_of(a), *y = row_of(b);
    int order = belfry_bytes_cmp(key_of(x), key_of(y));
    return order != 0 ? order : memcmp(x->at, y->at, ROWFORM_AT);
}

/* A place in the order: a key's rows at or behind a position. */
struct place {
    struct belfry_bytes key;
    uint8_t at[ROWFORM_AT];
};

static int seek_place(const void *wanted, const struct belfry_treap_node *node)
{
    const struct place *place = wanted;
    int order = belfry_bytes_cmp(place->key, key_of(row_of(node)));
    return order != 0 ? order : memcmp(place->at, row_of(node)->at, ROWFORM_AT);
}

static const struct row *first_at(const struct older *older, const struct place *place)
{
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, older->root, place, seek_place);
    const struct belfry_treap_node *node = belfry_treap_next(&walk);
    return node == NULL ? NULL : row_of(node);
}

/* ---- memory ---- */

static size_t row_size(size_t key_len)
{
    size_t size = sizeof(struct row) + key_len;
    return (size + _Alignof(struct row) - 1) / _Alignof(struct row) * _Alignof(struct row);
}

/* Errors: BELFRY_ERR_LIMIT: there is no more to be had. */
static enum belfry_err add_chunk(struct older *older, size_t at_least)
{
    size_t size = at_least > CHUNK_BYTES ? at_least : CHUNK_BYTES;
    if (older->bytes + size > OLDER_BYTES)
        return BELFRY_ERR_LIMIT;
    struct older_chunk *chunk = malloc(sizeof(*chunk) + size);
    if (chunk == NULL)
        return BELFRY_ERR_NOMEM;
    *chunk = (struct older_chunk){.before = older->chunks, .size = size};
    older->chunks = chunk;
    older->bytes += size;
    return BELFRY_OK;
}

static enum belfry_err add(struct older *older, MDB_val at, MDB_val val)
{
    struct rowform_event event;
    if (at.mv_size != ROWFORM_AT || !rowform_event_read(val, &event))
        return BELFRY_ERR_IO;
    size_t size = row_size(event.key.len);
    if (older->chunks == NULL || older->chunks->size - older->chunks->used < size) {
        enum belfry_err err = add_chunk(older, size);
        if (err != BELFRY_OK)
            return err;
    }
    struct row *row = (struct row *)(void *)(older->chunks->room + older->chunks->used);
    older->chunks->used += size;
    row->key_len = (uint32_t)event.key.len;
    memcpy(row->at, at.mv_data, ROWFORM_AT);
    memcpy(row->key, event.key.data, event.key.len);
    belfry_treap_insert(&older->root, &row->node, by_key_and_position);
    return BELFRY_OK;
}

void older_fini(struct older *older)
{
    while (older->chunks != NULL) {
        struct older_chunk *chunk = older->chunks;
        older->chunks = chunk->before;
        free(chunk);
    }
    *older = (struct older){0};
}

void older_rest(struct older *older, uint64_t now_ms)
{
    if (older->begun && now_ms - older->used_ms > OLDER_IDLE_MS)
        older_fini(older);
}

/* ---- reaching ---- */

/* The position behind this one. */
static void step_behind(MDB_val at, uint8_t out[ROWFORM_AT])
{
    rowform_at(rowform_rev(at), rowform_sub(at), out);
    for (size_t i = ROWFORM_AT; i-- > 0 && ++out[i] == 0;)
        ;
}

/* Empty, at the end of what there is. */
static enum belfry_err begin(struct older *older, MDB_cursor *cursor)
{
    MDB_val at, val;
    older_fini(older);
    int rc = mdb_cursor_get(cursor, &at, &val, MDB_LAST);
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return env_err(rc);
    if (rc == MDB_SUCCESS)
        step_behind(at, older->next);
    memcpy(older->low, older->next, ROWFORM_AT);
    older->begun = true;
    return BELFRY_OK;
}

static enum belfry_err reach_up(struct older *older, MDB_cursor *cursor, size_t *left)
{
    MDB_val at = {.mv_size = ROWFORM_AT, .mv_data = older->next}, val;
    int rc = mdb_cursor_get(cursor, &at, &val, MDB_SET_RANGE);
    for (; rc == MDB_SUCCESS; rc = mdb_cursor_get(cursor, &at, &val, MDB_NEXT)) {
        if ((*left)-- == 0)
            return BELFRY_ERR_AGAIN;
        enum belfry_err err = add(older, at, val);
        if (err != BELFRY_OK)
            return err;
        step_behind(at, older->next);
    }
    return rc == MDB_NOTFOUND ? BELFRY_OK : env_err(rc);
}

/* The cursor is put on the last row below `low`. */
static int seek_below(const struct older *older, MDB_cursor *cursor, MDB_val *at, MDB_val *val)
{
    uint8_t low[ROWFORM_AT];
    memcpy(low, older->low, ROWFORM_AT);
    *at = (MDB_val){.mv_size = ROWFORM_AT, .mv_data = low};
    int rc = mdb_cursor_get(cursor, at, val, MDB_SET_RANGE);
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return rc;
    return mdb_cursor_get(cursor, at, val, rc == MDB_SUCCESS ? MDB_PREV : MDB_LAST);
}

static enum belfry_err reach_down(struct older *older, MDB_cursor *cursor, int64_t rev, size_t *left)
{
    uint8_t goal[ROWFORM_AT];
    MDB_val at, val;
    rowform_at(rev + 1, 0, goal);
    if (memcmp(older->low, goal, ROWFORM_AT) <= 0)
        return BELFRY_OK;
    int rc = seek_below(older, cursor, &at, &val);
    for (; rc == MDB_SUCCESS && rowform_rev(at) > rev; rc = mdb_cursor_get(cursor, &at, &val, MDB_PREV)) {
        if ((*left)-- == 0)
            return BELFRY_ERR_AGAIN;
        enum belfry_err err = add(older, at, val);
        if (err != BELFRY_OK)
            return err == BELFRY_ERR_LIMIT ? BELFRY_ERR_COMPACTED : err;
        memcpy(older->low, at.mv_data, ROWFORM_AT);
    }
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return env_err(rc);
    memcpy(older->low, goal, ROWFORM_AT);
    return BELFRY_OK;
}

enum belfry_err older_reach(struct older *older, MDB_txn *txn, MDB_dbi history, int64_t rev, size_t max_rows,
                            uint64_t now_ms)
{
    MDB_cursor *cursor;
    size_t left = max_rows == 0 ? SIZE_MAX : max_rows;
    int rc = mdb_cursor_open(txn, history, &cursor);
    if (rc != MDB_SUCCESS)
        return env_err(rc);
    enum belfry_err err = older->begun ? reach_up(older, cursor, &left) : begin(older, cursor);
    if (err == BELFRY_ERR_LIMIT)
        err = begin(older, cursor);
    if (err == BELFRY_OK)
        err = reach_down(older, cursor, rev, &left);
    mdb_cursor_close(cursor);
    older->used_ms = now_ms;
    return err;
}

/* ---- walking ---- */

void older_walk_init(struct older_walk *walk, const struct older *older, MDB_txn *txn, MDB_dbi history, int64_t rev,
                     struct belfry_bytes from)
{
    *walk = (struct older_walk){.older = older, .txn = txn, .history = history, .rev = rev, .after = from};
}

/* The next key that has a row above the revision, at the first of these. */
static const struct row *next_row(const struct older_walk *walk)
{
    struct place place = {.key = walk->after};
    if (walk->given)
        memset(place.at, 0xff, ROWFORM_AT); /* behind all that it has */
    const struct row *row = first_at(walk->older, &place);
    while (row != NULL) {
        place.key = key_of(row);
        rowform_at(walk->rev + 1, 0, place.at);
        const struct row *above = memcmp(row->at, place.at, ROWFORM_AT) >= 0 ? row : first_at(walk->older, &place);
        if (above == NULL || belfry_bytes_equal(key_of(above), place.key))
            return above;
        row = above; /* nothing has happened to that one since: the next */
    }
    return NULL;
}

enum belfry_err older_walk_next(struct older_walk *walk, struct older_key *out)
{
    const struct row *row = next_row(walk);
    if (row == NULL)
        return BELFRY_ERR_NOT_FOUND;
    MDB_val at = rowform_val(belfry_bytes_of((const char *)row->at, ROWFORM_AT)), val;
    struct rowform_event event;
    int rc = mdb_get(walk->txn, walk->history, &at, &val);
    if (rc != MDB_SUCCESS || !rowform_event_read(val, &event))
        return BELFRY_ERR_IO; /* rows above `rev` are all there, or it is no revision of the window */
    walk->after = key_of(row);
    walk->given = true;
    *out = (struct older_key){key_of(row), event.prev};
    return BELFRY_OK;
}
