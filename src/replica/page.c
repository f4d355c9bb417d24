/* src/replica/page.c */
#include "replica/page.h"

#include "replica/older.h"
#include "replica/state.h"

struct page {
    const struct store_read *read;
    store_row_fn row;
    void *user;
    size_t rows, bytes;
    bool full, more;
};

static bool behind(const struct page *page, struct belfry_bytes key)
{
    return page->read->end.len > 0 && belfry_bytes_cmp(key, page->read->end) >= 0;
}

/* Gives the row, or finds that the page has no room for it. False: the page is done. */
static bool give(struct page *page, struct belfry_bytes key, struct belfry_bytes kv)
{
    bool over = page->rows >= page->read->max_rows || page->bytes + kv.len > page->read->max_bytes;
    if (page->full || (page->rows > 0 && over)) {
        page->more = true;
        return false;
    }
    page->rows++;
    page->bytes += kv.len;
    page->full = !page->row(key, kv, page->user);
    return true;
}

enum belfry_err page_now(const struct env *env, MDB_txn *txn, const struct store_read *read, store_row_fn row,
                         void *user, bool *more)
{
    struct page page = {.read = read, .row = row, .user = user};
    struct state_walk walk;
    enum belfry_err err = state_walk_init(&walk, env, txn, read->key);
    if (err != BELFRY_OK)
        return err;
    struct state_row now;
    while ((err = state_walk_next(&walk, &now)) == BELFRY_OK) {
        if (behind(&page, now.key) || !give(&page, now.key, now.kv))
            break;
    }
    state_walk_fini(&walk);
    *more = page.more;
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

/* What the two sources say about the smallest key of both. */
struct merge {
    struct state_walk walk;
    struct state_row now;
    bool has_now;
    const struct older *older;
    size_t i;
};

static enum belfry_err merge_step(struct merge *merge)
{
    enum belfry_err err = state_walk_next(&merge->walk, &merge->now);
    merge->has_now = err == BELFRY_OK;
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

/* The next key; kv empty: it was not there then. Errors: BELFRY_ERR_NOT_FOUND (no more). */
static enum belfry_err merge_next(struct merge *merge, struct state_row *out)
{
    const struct older_key *old = merge->i < merge->older->n ? &merge->older->keys[merge->i] : NULL;
    if (old == NULL && !merge->has_now)
        return BELFRY_ERR_NOT_FOUND;
    int order = old == NULL ? -1 : !merge->has_now ? 1 : belfry_bytes_cmp(merge->now.key, old->key);
    *out = merge->now;
    if (order >= 0) {
        *out = (struct state_row){old->key, old->kv};
        merge->i++;
    }
    return order <= 0 ? merge_step(merge) : BELFRY_OK;
}

/* Gives rows from `from` up to where `older` is complete. *done: the page is. */
static enum belfry_err give_merged(struct page *page, const struct env *env, MDB_txn *txn, const struct older *older,
                                   struct belfry_bytes from, bool *done)
{
    struct merge merge = {.older = older};
    enum belfry_err err = state_walk_init(&merge.walk, env, txn, from);
    if (err != BELFRY_OK)
        return err;
    err = merge_step(&merge);
    struct state_row was;
    *done = true;
    while (err == BELFRY_OK && (err = merge_next(&merge, &was)) == BELFRY_OK) {
        if (older->cut && belfry_bytes_cmp(was.key, older->bound) >= 0) {
            *done = false;
            break;
        }
        if (behind(page, was.key) || (was.kv.len > 0 && !give(page, was.key, was.kv)))
            break;
    }
    if (err == BELFRY_ERR_NOT_FOUND) {
        *done = !older->cut;
        err = BELFRY_OK;
    }
    state_walk_fini(&merge.walk);
    return err;
}

enum belfry_err page_at(const struct env *env, MDB_txn *txn, const struct store_read *read, int64_t rev,
                        store_row_fn row, void *user, bool *more)
{
    struct page page = {.read = read, .row = row, .user = user};
    struct belfry_bytes from = read->key;
    bool done = false;
    while (!done) {
        struct older older;
        enum belfry_err err = older_read(&older, env, txn, rev, from, read->end);
        if (err == BELFRY_OK)
            err = give_merged(&page, env, txn, &older, from, &done);
        from = older.bound; /* it points into the snapshot */
        older_fini(&older);
        if (err != BELFRY_OK)
            return err;
    }
    *more = page.more;
    return BELFRY_OK;
}
