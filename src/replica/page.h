/* src/replica/page.h
 *
 * page: a page of state given out in key order: the snapshot's rows, or, at an older revision, these with what has
 * changed since put back (older.h).
 *
 * Thread: page_now() any, inside of env_read_begin() and _end(); page_at() locked, by env->older_mu.
 */
#ifndef BELFRY_REPLICA_PAGE_H
#define BELFRY_REPLICA_PAGE_H

#include <lmdb.h>

#include "core/store.h"
#include "replica/env.h"

/* What is read, where, and who receives the rows. All of it is lent for the call. */
struct page_read {
    struct env *env;
    MDB_txn *txn;
    const struct env_now *now; /* of txn */
    const struct store_read *read;
    store_row_fn row;
    void *user;
};

/* As store.range() says, but for meta and revision, which the caller knows. Of page_at, read->rev is an older revision
 * inside the window.
 * Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM: rows may have been given before; page_at: BELFRY_ERR_COMPACTED. */
BELFRY_NODISCARD enum belfry_err page_now(const struct page_read *from, struct store_page *out);
BELFRY_NODISCARD enum belfry_err page_at(const struct page_read *from, struct store_page *out);

#endif
