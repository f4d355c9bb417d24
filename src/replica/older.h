/* src/replica/older.h
 *
 * older: what the keys of a range were at an earlier revision S of the window, as far as they have changed since.
 *
 * The first history row of a key above S tells what it was at S: its previous value, or that it was not there. The rest
 * of the range is as the snapshot has it. So no old snapshot is kept open, however long a listing takes.
 *
 * History is in the order of revisions, and a page wants that of keys. To go through all that came since S for each
 * page would cost a list of 100,000 objects, of which it has hundreds, more than the list itself; so an environment keeps
 * an index from keys to rows, of the newest rows: made when the first list at an older revision comes, and extended at
 * both ends by what is missing, up to what was committed and down to the S that is asked for. So each row is looked at
 * once, for all pages of all lists, and in steps of so many rows as the caller has time for.
 *
 * It is bounded: at most OLDER_BYTES, about half a million rows. A state with more than that behind it counts as
 * compacted. When what comes on top does not fit, it is made anew from the newest row down: once in half a million rows, and only
 * if somebody asks.
 *
 * Thread: any, inside of env_read_begin() and _end(), which also is how long what is handed out lasts.
 * Memory: OLDER_BYTES an environment, until nobody has asked for OLDER_IDLE_MS.
 */
#ifndef BELFRY_REPLICA_OLDER_H
#define BELFRY_REPLICA_OLDER_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/treap.h"
#include "replica/rowform.h"

#define OLDER_BYTES   ((size_t)64 << 20)
#define OLDER_IDLE_MS 60000

struct env;
struct env_now;
struct older_chunk;

/* Everything is in it that is at `low` or above, and below `next`: positions as history's keys are. */
struct older {
    struct belfry_treap_node *root; /* of rows, by key and position */
    struct older_chunk *chunks;     /* owned; they hold the rows */
    size_t bytes;
    bool begun;
    uint8_t low[ROWFORM_AT], next[ROWFORM_AT];
    uint64_t used_ms;
};

/* Brings it up to the snapshot and down to what lies above `rev`, looking at no more than `max_rows` rows; 0: all.
 * Errors: BELFRY_ERR_AGAIN (that was not enough: go on with another call), BELFRY_ERR_COMPACTED (there are more rows
 * above `rev` than it holds), BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err older_reach(struct older *older, const struct env *env, MDB_txn *txn,
                                             const struct env_now *now, int64_t rev, size_t max_rows, uint64_t now_ms);

/* Gives its memory back if it was not used for a while. */
void older_rest(struct older *older, uint64_t now_ms);
void older_fini(struct older *older);

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

#endif
