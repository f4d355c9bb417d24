/* src/replica/page.c */
#include "replica/page.h"

#include "base/clock.h"
#include "replica/older.h"
#include "replica/state.h"

struct page {
    const struct store_read *read;
    store_row_fn row;
    void *user;
    size_t rows, bytes;
    bool full, more;
};

static bool page_behind(const struct page *page, struct belfry_bytes key)
{
    return page->read->end.len > 0 && belfry_bytes_cmp(key, page->read->end) >= 0;
}

/* Delivers the row if the page has room for it. False: the page is full. */
static bool page_give(struct page *page, struct belfry_bytes key, struct belfry_bytes kv)
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

enum belfry_err page_now(struct env *env, MDB_txn *txn, const struct store_read *read, store_row_fn row, void *user,
                         bool *more)
{
    struct page page = {.read = read, .row = row, .user = user};
    struct state_walk walk;
    older_rest(&env->older, belfry_clock_ms());
    enum belfry_err err = state_walk_init(&walk, env, txn, read->key);
    if (err != BELFRY_OK)
        return err;
    struct state_row now;
    while ((err = state_walk_next(&walk, &now)) == BELFRY_OK) {
        if (page_behind(&page, now.key) || !page_give(&page, now.key, now.kv))
            break;
    }
    state_walk_fini(&walk);
    *more = page.more;
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

/* Merges the two sources at the smallest key of both. */
struct merge {
    struct state_walk state;
    struct older_walk older;
    struct state_row now;
    struct older_key was;
    bool has_now, has_was;
};

static enum belfry_err step_state(struct merge *merge)
{
    enum belfry_err err = state_walk_next(&merge->state, &merge->now);
    merge->has_now = err == BELFRY_OK;
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

static enum belfry_err step_older(struct merge *merge)
{
    enum belfry_err err = older_walk_next(&merge->older, &merge->was);
    merge->has_was = err == BELFRY_OK;
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

/* The next key; kv empty: it was not there then. Errors: BELFRY_ERR_NOT_FOUND (no more). */
static enum belfry_err merge_next(struct merge *merge, struct state_row *out)
{
    if (!merge->has_was && !merge->has_now)
        return BELFRY_ERR_NOT_FOUND;
    int order = !merge->has_was ? -1 : !merge->has_now ? 1 : belfry_bytes_cmp(merge->now.key, merge->was.key);
    *out = order < 0 ? merge->now : (struct state_row){merge->was.key, merge->was.kv};
    enum belfry_err err = order <= 0 ? step_state(merge) : BELFRY_OK;
    return err == BELFRY_OK && order >= 0 ? step_older(merge) : err;
}

static enum belfry_err give_merged(struct page *page, struct merge *merge)
{
    struct state_row row;
    enum belfry_err err = step_state(merge);
    if (err == BELFRY_OK)
        err = step_older(merge);
    while (err == BELFRY_OK && (err = merge_next(merge, &row)) == BELFRY_OK) {
        if (page_behind(page, row.key) || (row.kv.len > 0 && !page_give(page, row.key, row.kv)))
            break;
    }
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

enum belfry_err page_at(struct env *env, MDB_txn *txn, const struct env_now *now, const struct store_read *read,
                        store_row_fn row, void *user, bool *more)
{
    struct page page = {.read = read, .row = row, .user = user};
    struct merge merge = {.has_now = false};
    enum belfry_err err = older_reach(&env->older, env, txn, now, read->rev, read->max_walk, belfry_clock_ms());
    *more = err == BELFRY_ERR_AGAIN; /* and no row */
    if (err != BELFRY_OK)
        return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
    err = state_walk_init(&merge.state, env, txn, read->key);
    if (err != BELFRY_OK)
        return err;
    older_walk_init(&merge.older, &env->older, env, txn, read->rev, read->key);
    err = give_merged(&page, &merge);
    state_walk_fini(&merge.state);
    *more = page.more;
    return err;
}
