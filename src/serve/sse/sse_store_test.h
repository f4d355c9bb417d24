/* src/serve/sse/sse_store_test.h: for suites of Server-Sent Events: a store that a test fills, with every revision
 * since `oldest`. It can be read, and allocates nothing. */
#ifndef BELFRY_SERVE_SSE_SSE_STORE_TEST_H
#define BELFRY_SERVE_SSE_SSE_STORE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"
#include "core/store.h"
#include "wire/write.h"

#define FAKESTORE_ROWS 16384

/* What a key has been since a revision; lent texts. */
struct fakestore_row {
    const char *key, *value; /* NULL: deleted */
    int64_t rev;
};

struct fakestore {
    struct store store;
    struct fakestore_row rows[FAKESTORE_ROWS]; /* by key, then by revision */
    size_t n_rows;
    int64_t rev, oldest; /* rev 0: empty */
    uint64_t past, cluster_id;
    enum belfry_err err; /* of the next read */
    size_t idle;         /* so many reads find no row within max_walk */
    size_t reads, given;
};

/* The KeyValue of a row. */
static inline struct belfry_bytes fakestore_kv(const struct fakestore_row *row)
{
    static uint8_t raw[4 << 20];
    struct belfry_wire_event wire = {.kv = {.key = belfry_bytes_str(row->key), .value = belfry_bytes_str(row->value)}},
                             scanned;
    wire.kv.mod_rev = row->rev;
    uint8_t *end = belfry_write_event(&wire, raw);
    assert_true(end < raw + sizeof(raw));
    assert_int_equal(belfry_scan_event(belfry_bytes_of(raw, (size_t)(end - raw)), &scanned), BELFRY_OK);
    return scanned.kv.raw;
}

static inline bool fakestore_is_shown(const struct fakestore *fake, size_t i, int64_t rev)
{
    const struct fakestore_row *row = &fake->rows[i], *next = &fake->rows[i + 1];
    bool is_last = i + 1 == fake->n_rows || strcmp(next->key, row->key) != 0 || next->rev > rev;
    return row->rev <= rev && is_last && row->value != NULL;
}

static inline enum belfry_err fakestore_check(struct fakestore *fake, const struct store_read *read)
{
    enum belfry_err err = fake->err;
    fake->err = BELFRY_OK;
    fake->reads++;
    if (err != BELFRY_OK)
        return err;
    if (read->rev != 0 && read->rev < fake->oldest)
        return BELFRY_ERR_COMPACTED;
    return read->rev > fake->rev ? BELFRY_ERR_AGAIN : BELFRY_OK;
}

static inline enum belfry_err fakestore_range(struct store *store, const struct store_read *read, store_row_fn fn,
                                              void *user, struct store_page *out)
{
    struct fakestore *fake = belfry_container(store, struct fakestore, store);
    int64_t at = read->rev == 0 ? fake->rev : read->rev;
    enum belfry_err err = fakestore_check(fake, read);
    if (err != BELFRY_OK)
        return err;
    struct store_page page = {.at = at};
    page.meta = (struct store_meta){.cluster_id = fake->cluster_id, .revision = fake->rev, .past = fake->past};
    size_t rows = 0, bytes = 0;
    if (fake->idle > 0) {
        fake->idle--;
        page.more = true;
    }
    for (size_t i = 0; i < fake->n_rows && !page.more; i++) {
        struct belfry_bytes key = belfry_bytes_str(fake->rows[i].key);
        if (belfry_bytes_cmp(key, read->key) < 0 || (read->end.len > 0 && belfry_bytes_cmp(key, read->end) >= 0) ||
            !fakestore_is_shown(fake, i, at))
            continue;
        page.more = rows == read->max_rows || (rows > 0 && bytes >= read->max_bytes);
        if (page.more)
            break;
        struct belfry_bytes kv = fakestore_kv(&fake->rows[i]);
        rows++;
        bytes += kv.len;
        fake->given++;
        page.more = !fn(key, kv, user);
    }
    *out = page;
    return BELFRY_OK;
}

static inline void fakestore_init(struct fakestore *fake, int64_t rev, uint64_t cluster_id)
{
    static const struct store_api api = {.range = fakestore_range};
    *fake = (struct fakestore){.store = {.api = &api}, .rev = rev, .oldest = rev, .past = 1, .cluster_id = cluster_id};
}

static inline void fakestore_put(struct fakestore *fake, int64_t rev, const char *key, const char *value)
{
    size_t i = fake->n_rows;
    assert_true(fake->n_rows < FAKESTORE_ROWS - 1);
    for (; i > 0 && strcmp(fake->rows[i - 1].key, key) > 0; i--)
        fake->rows[i] = fake->rows[i - 1];
    fake->rows[i] = (struct fakestore_row){.key = key, .value = value, .rev = rev};
    fake->n_rows++;
}

#endif
