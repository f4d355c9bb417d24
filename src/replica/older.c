/* src/replica/older.c */
#include "replica/older.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "replica/chain.h"
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

static enum belfry_err add(struct older *older, const struct chain *chain)
{
    struct belfry_bytes key = chain->row.key;
    size_t size = row_size(key.len);
    if (older->chunks == NULL || older->chunks->size - older->chunks->used < size) {
        enum belfry_err err = add_chunk(older, size);
        if (err != BELFRY_OK)
            return err;
    }
    struct row *row = (struct row *)(void *)(older->chunks->room + older->chunks->used);
    older->chunks->used += size;
    row->key_len = (uint32_t)key.len;
    memcpy(row->at, chain->at.mv_data, ROWFORM_AT);
    memcpy(row->key, key.data, key.len);
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
static enum belfry_err begin(struct older *older, struct chain *chain)
{
    older_fini(older);
    chain_last(chain);
    if (chain_is_damaged(chain))
        return env_err(chain->rc);
    if (chain->rc == MDB_SUCCESS)
        step_behind(chain->at, older->next);
    memcpy(older->low, older->next, ROWFORM_AT);
    older->begun = true;
    return BELFRY_OK;
}

static enum belfry_err reach_up(struct older *older, struct chain *chain, size_t *left)
{
    uint8_t from[ROWFORM_AT];
    memcpy(from, older->next, ROWFORM_AT);
    for (chain_seek(chain, from); chain->rc == MDB_SUCCESS; chain_next(chain)) {
        if ((*left)-- == 0)
            return BELFRY_ERR_AGAIN;
        enum belfry_err err = add(older, chain);
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

static enum belfry_err reach_down(struct older *older, struct chain *chain, int64_t rev, size_t *left)
{
    uint8_t goal[ROWFORM_AT];
    rowform_at(rev + 1, 0, goal);
    if (memcmp(older->low, goal, ROWFORM_AT) <= 0)
        return BELFRY_OK;
    for (seek_below(older, chain); chain->rc == MDB_SUCCESS && rowform_rev(chain->at) > rev; chain_prev(chain)) {
        if ((*left)-- == 0)
            return BELFRY_ERR_AGAIN;
        enum belfry_err err = add(older, chain);
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
    enum belfry_err err = older->begun ? reach_up(older, &chain, &left) : begin(older, &chain);
    if (err == BELFRY_ERR_LIMIT)
        err = begin(older, &chain);
    if (err == BELFRY_OK)
        err = reach_down(older, &chain, rev, &left);
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
    uint64_t check;
    int rc = env_row_get(walk->env, walk->txn, ROWFORM_HISTORY, at, &val, &check);
    if (rc != MDB_SUCCESS || !rowform_event_read(val, &event))
        return BELFRY_ERR_IO; /* rows above `rev` are all there, or it is no revision of the window */
    walk->after = key_of(row);
    walk->given = true;
    *out = (struct older_key){key_of(row), event.prev};
    return BELFRY_OK;
}
