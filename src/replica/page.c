/* src/replica/page.c */
#include "replica/page.h"

#include "base/clock.h"
#include "replica/counts.h"
#include "replica/older.h"
#include "replica/state.h"

struct page {
    const struct page_read *from;
    size_t rows, bytes;
    bool full, more;
};

static bool page_behind(const struct page *page, struct belfry_bytes key)
{
    struct belfry_bytes end = page->from->read->end;
    return end.len > 0 && belfry_bytes_cmp(key, end) >= 0;
}

/* Delivers the row if the page has room for it. False: the page is full. */
static bool page_give(struct page *page, struct belfry_bytes key, struct belfry_bytes kv)
{
    const struct store_read *read = page->from->read;
    bool over = page->rows >= read->max_rows || page->bytes + kv.len > read->max_bytes;
    if (page->full || (page->rows > 0 && over)) {
        page->more = true;
        return false;
    }
    page->rows++;
    page->bytes += kv.len;
    page->full = !page->from->row(key, kv, page->from->user);
    return true;
}

static enum state_check check_of(const struct store_read *read)
{
    return read->measured ? STATE_CHECK_NONE : STATE_CHECK_ROWS;
}

/* The count alone is wanted. */
static bool is_count(const struct store_read *read)
{
    return read->counted && read->max_rows == 0;
}

/* Does the page have every key of its range? */
static bool is_whole(const struct page *page)
{
    return !is_count(page->from->read) && !page->more;
}

static enum belfry_err page_count(const struct page_read *from, uint64_t *out)
{
    return counts_range(from->env, from->txn, from->now, from->read->key, from->read->end, out);
}

static enum belfry_err give_now(struct page *page)
{
    const struct page_read *from = page->from;
    struct state_walk walk;
    enum belfry_err err = state_walk_init(&walk, from->env, from->txn, from->read->key, check_of(from->read));
    if (err != BELFRY_OK)
        return err;
    struct state_row now;
    while ((err = state_walk_next(&walk, &now)) == BELFRY_OK) {
        if (page_behind(page, now.key) || !page_give(page, now.key, now.kv))
            break;
    }
    state_walk_fini(&walk);
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

/* Frees the index of older rows once no list needs it. If it is in use, it is needed. */
static void rest_older(struct env *env)
{
    if (pthread_mutex_trylock(&env->older_mu) != 0)
        return;
    older_rest(&env->older, belfry_clock_ms());
    pthread_mutex_unlock(&env->older_mu);
}

enum belfry_err page_now(const struct page_read *from, struct store_page *out)
{
    struct page page = {.from = from};
    rest_older(from->env);
    enum belfry_err err = is_count(from->read) ? BELFRY_OK : give_now(&page);
    out->more = page.more;
    if (err != BELFRY_OK || !from->read->counted)
        return err;
    out->count = page.rows;
    return is_whole(&page) ? BELFRY_OK : page_count(from, &out->count);
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

static enum belfry_err give_merged(struct page *page)
{
    const struct page_read *from = page->from;
    struct merge merge = {.has_now = false};
    struct state_row row;
    enum belfry_err err = state_walk_init(&merge.state, from->env, from->txn, from->read->key, check_of(from->read));
    if (err != BELFRY_OK)
        return err;
    older_walk_init(&merge.older, &from->env->older, from->env, from->txn, from->read->rev, from->read->key);
    err = step_state(&merge);
    if (err == BELFRY_OK)
        err = step_older(&merge);
    while (err == BELFRY_OK && (err = merge_next(&merge, &row)) == BELFRY_OK) {
        if (page_behind(page, row.key) || (row.kv.len > 0 && !page_give(page, row.key, row.kv)))
            break;
    }
    state_walk_fini(&merge.state);
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

/* As many keys as there are now, less those that have come since, and those that are gone. */
static enum belfry_err page_count_older(const struct page_read *from, uint64_t *out)
{
    const struct store_read *read = from->read;
    uint64_t count;
    int64_t delta;
    enum belfry_err err = older_delta(&from->env->older, read->rev, read->key, read->end, &delta);
    if (err == BELFRY_OK)
        err = page_count(from, &count);
    if (err != BELFRY_OK)
        return err;
    *out = count - (uint64_t)delta;
    return delta > 0 && (uint64_t)delta > count ? BELFRY_ERR_IO : BELFRY_OK;
}

enum belfry_err page_at(const struct page_read *from, struct store_page *out)
{
    const struct store_read *read = from->read;
    struct older *older = &from->env->older;
    struct page page = {.from = from};
    enum belfry_err err =
        older_reach(older, from->env, from->txn, from->now, read->rev, read->max_walk, belfry_clock_ms());
    out->more = err == BELFRY_ERR_AGAIN; /* and no row */
    if (err != BELFRY_OK)
        return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
    if (!is_count(read))
        err = give_merged(&page);
    out->more = page.more;
    if (err != BELFRY_OK || !read->counted)
        return err;
    out->count = page.rows;
    return is_whole(&page) ? BELFRY_OK : page_count_older(from, &out->count);
}
