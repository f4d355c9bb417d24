/* src/replica/chain.h
 *
 * chain: a cursor on the rows of history that hands out no row it has not checked.
 *
 * A row's own check shows that it is what was written under its key. The chain shows that no row is missing between
 * two: each row holds the check of the row before it, and meta holds those of both ends (the last row that was trimmed,
 * and the newest). So a gap, a page of another tree, and an outdated page are noticed at the first row that does not
 * follow.
 *
 * Thread: as its transaction.
 */
#ifndef BELFRY_REPLICA_CHAIN_H
#define BELFRY_REPLICA_CHAIN_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "replica/env.h"

struct chain {
    uint64_t salt;
    const struct env_now *now; /* lent; of the same snapshot or transaction */
    MDB_cursor *cursor;        /* lent */
    int rc; /* MDB_SUCCESS: it is on a row; MDB_NOTFOUND: beyond an end; else LMDB's, MDB_CORRUPTED: damaged */
    /* of the row that it is on; lent until the transaction writes or ends */
    MDB_val at;
    struct rowform_event row;
    uint64_t check;
};

void chain_init(struct chain *chain, const struct env *env, const struct env_now *now, MDB_cursor *cursor);

/* Where to; then `rc` says whether there is a row. */
void chain_seek(struct chain *chain, const uint8_t at[ROWFORM_AT]); /* the first that is not below */
void chain_first(struct chain *chain);
void chain_last(struct chain *chain);
void chain_next(struct chain *chain); /* only from a row, or from one that was deleted under the cursor */
void chain_prev(struct chain *chain);

static inline bool chain_is_damaged(const struct chain *chain)
{
    return chain->rc != MDB_SUCCESS && chain->rc != MDB_NOTFOUND;
}

#endif
