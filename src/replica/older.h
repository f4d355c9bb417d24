/* src/replica/older.h
 *
 * older: what the keys of a range were at an earlier revision S of the window, as far as they have changed since.
 *
 * The first history row of a key above S says what the key was at S: its previous value, or that it did not exist. The
 * rest of the range is as the snapshot has it. So no old snapshot is kept open, however long a listing takes.
 *
 * History is in the order of revisions, but a page needs the order of keys. To read all history since S for each page
 * would cost a list of 100,000 objects, which has hundreds of pages, more than the list itself. So an environment
 * keeps an index from keys to the newest rows (older_index.h). The first list at an older revision makes it; each list
 * extends it at both ends: up to what was committed, and down to its S. So each row is read once for all pages of all
 * lists, in steps of as many rows as the caller has time for.
 *
 * The index is bounded: at most OLDER_BYTES, about half a million rows. A revision with more rows above it counts as
 * compacted. When newer rows do not fit, the index is built again from the newest row down: once in half a million
 * rows, and only if a list needs it.
 *
 * Thread: locked, by env->older_mu, inside of a snapshot that was taken under it. Results are valid as long as that.
 * Memory: OLDER_BYTES per environment, until no list has used it for OLDER_IDLE_MS.
 */
#ifndef BELFRY_REPLICA_OLDER_H
#define BELFRY_REPLICA_OLDER_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "replica/older_index.h"

#define OLDER_IDLE_MS 60000

struct env;
struct env_now;

/* The index has every row from `low` on and below `next`: positions as history's keys are. */
struct older {
    struct older_index index;
    bool begun;
    uint8_t low[ROWFORM_AT], next[ROWFORM_AT];
    uint64_t used_ms;
};

/* Brings it up to the snapshot and down to what lies above `rev`, looking at no more than `max_rows` rows; 0: all.
 * Errors: BELFRY_ERR_AGAIN (that was not enough: go on with another call), BELFRY_ERR_COMPACTED (there are more rows
 * above `rev` than it holds), BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err older_reach(struct older *older, const struct env *env, MDB_txn *txn,
                                             const struct env_now *now, int64_t rev, size_t max_rows, uint64_t now_ms);

/* Frees the index if it was not used for OLDER_IDLE_MS. */
void older_rest(struct older *older, uint64_t now_ms);

/* Keys in order. */
struct older_walk {
    const struct older *older;
    const struct env *env;
    MDB_txn *txn;
    int64_t rev;
    struct belfry_bytes after; /* the next one is at it or, once one was given, behind it */
    bool given;
};

struct older_key {
    struct belfry_bytes key, kv; /* kv empty: it was not there */
};

/* After older_reach() with the same `rev`; from the first key that is not below `from`, which is lent. */
void older_walk_init(struct older_walk *walk, const struct older *older, const struct env *env, MDB_txn *txn,
                     int64_t rev, struct belfry_bytes from);

/* Errors: BELFRY_ERR_NOT_FOUND (no more), BELFRY_ERR_IO. */
BELFRY_NODISCARD enum belfry_err older_walk_next(struct older_walk *walk, struct older_key *out);

/* How many keys more [key, end) has in the snapshot than it had at `rev`; an empty end: to the very end. After
 * older_reach() with the same `rev`. Looks at every row above `rev` that created or deleted a key, wherever the key is.
 * Errors: BELFRY_ERR_COMPACTED (these are more than OLDER_COUNTED: about 1 ms). */
#define OLDER_COUNTED 65536
BELFRY_NODISCARD enum belfry_err older_delta(const struct older *older, int64_t rev, struct belfry_bytes key,
                                             struct belfry_bytes end, int64_t *out);

#endif
