/* src/replica/counts.h
 *
 * counts: how many rows of state a range has, without a walk over all of them.
 *
 * LMDB's trees do not count their rows. So the table `counts` divides state into blocks, on three levels, and has one
 * row per block. Each block begins at a boundary and ends before the next one of its level:
 *
 *     level 3    |                            65210                             ...
 *     level 2    |                    2103                     |            1950 ...
 *     level 1    |  61  |   70   | 55 |     64     |    ...    |   67   | 12 | ...
 *     state      ||||||||||||||||||||||||||||||||||||||||||||||||||||||||||||||| ...
 *
 * A key is a boundary of level 1 if 6 bits of a keyed hash of it are 0, of level 2, too, if 5 more are, and of level 3
 * if all 16 are. So the table depends on the keys of state alone, not on the order in which they came: a block is
 * divided when its new boundary is put, and joined with the one before it when its boundary is deleted. No block is
 * measured or balanced. A peer does not know the hash's key, which the environment drew, so it cannot choose keys that
 * make large blocks.
 *
 * The first block of each level begins at the empty key, which no row has. It is made with the first row of state, and
 * it is the only one that may have no rows.
 *
 * To count the rows below a key is to add up blocks of level 3, then of 2 and of 1, then rows: about 140 steps among
 * 1,000,000 keys, 200 among 10,000,000. To create or delete a key changes one row per level. An update changes none.
 *
 * Blocks are of keys as they are stored. Long keys with equal beginnings are stored in another order than theirs
 * (rowform.h). Where a range begins or ends among them, their group is read whole, as a page of it is (state.h).
 *
 * Thread: counts_add() and _remove() owner (the writer); counts_range() any, inside of a snapshot.
 */
#ifndef BELFRY_REPLICA_COUNTS_H
#define BELFRY_REPLICA_COUNTS_H

#include <lmdb.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "replica/env.h"

#define COUNTS_LEVELS 3

/* The row `stored` has just been added to, or removed from, the state of the cursor's transaction. The cursor is one on
 * env->counts. `now` follows.
 * Errors: LMDB's; MDB_CORRUPTED: damaged. The transaction must be aborted. */
BELFRY_NODISCARD int counts_add(const struct env *env, MDB_cursor *blocks, struct env_now *now, MDB_val stored);
BELFRY_NODISCARD int counts_remove(const struct env *env, MDB_cursor *blocks, struct env_now *now, MDB_val stored);

/* How many keys are in [key, end); an empty end: to the very end. `now` is the snapshot's.
 * Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err counts_range(const struct env *env, MDB_txn *txn, const struct env_now *now,
                                              struct belfry_bytes key, struct belfry_bytes end, uint64_t *out);

#endif
