/* src/replica/page.h
 *
 * page: a page of state given out in key order: the snapshot's rows, or, at an older revision, these with what has
 * changed since put back (older.h).
 *
 * Thread: any, inside of env_read_begin() and _end().
 */
#ifndef BELFRY_REPLICA_PAGE_H
#define BELFRY_REPLICA_PAGE_H

#include <lmdb.h>

#include "core/store.h"
#include "replica/env.h"

/* As store.range() says; of page_at, read->rev is an older revision inside the window.
 * Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM: rows may have been given before; page_at: BELFRY_ERR_COMPACTED. */
BELFRY_NODISCARD enum belfry_err page_now(struct env *env, MDB_txn *txn, const struct store_read *read,
                                          store_row_fn row, void *user, bool *more);
BELFRY_NODISCARD enum belfry_err page_at(struct env *env, MDB_txn *txn, const struct env_now *now,
                                         const struct store_read *read, store_row_fn row, void *user, bool *more);

#endif
