/* src/replica/state.h
 *
 * state: the rows of a snapshot in the order of their whole keys.
 *
 * LMDB's order is that of the keys, except for long keys with equal first bytes (rowform.h). Such a group is gathered
 * and sorted when it is reached, at most STATE_GROUP rows at a time: of a larger group the smallest rows are taken, and
 * it is read again for the rest.
 *
 * Thread: any, inside of env_read_begin() and _end(), which is also how long the results are valid.
 */
#ifndef BELFRY_REPLICA_STATE_H
#define BELFRY_REPLICA_STATE_H

#include <lmdb.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "replica/env.h"

#define STATE_GROUP 1024

struct state_row {
    struct belfry_bytes key, kv;
};

/* NONE: of rows with short keys only the lengths are looked at. Half of what reading a row of 256 bytes costs is its
 * check. */
enum state_check { STATE_CHECK_ROWS, STATE_CHECK_NONE };

struct state_walk {
    uint64_t salt;
    enum state_check check;
    MDB_cursor *cursor;
    int rc; /* LMDB's word on the row that the cursor is on, or MDB_CORRUPTED: it is not what was written */
    MDB_val stored, val;
    struct belfry_bytes from; /* lent by the caller; rows below are left out */
    struct state_row *group;  /* owned; room for 2 * STATE_GROUP; NULL: no group was met yet */
    size_t n, given;
    bool cut;                   /* the group has more than what is gathered */
    struct belfry_bytes shared; /* of a group that is cut: its first bytes, to find it again */
};

/* Starts at the first row that is not below `from`. Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM; then there is nothing to
 * end. */
BELFRY_NODISCARD enum belfry_err state_walk_init(struct state_walk *walk, const struct env *env, MDB_txn *txn,
                                                 struct belfry_bytes from, enum state_check check);
void state_walk_fini(struct state_walk *walk);

/* Errors: BELFRY_ERR_NOT_FOUND (no more), BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err state_walk_next(struct state_walk *walk, struct state_row *out);

#endif
