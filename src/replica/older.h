/* src/replica/older.h
 *
 * older: what the keys of a range were at an earlier revision S of the window, as far as they have changed since.
 *
 * The first history row of a key above S tells what it was at S: its previous value, or that it was not there. The rest
 * of the range is as the snapshot has it. So no old snapshot is kept open, however long a listing takes.
 *
 * At most OLDER_MAX keys are held, the smallest of the range; `bound` then says up to where they are complete, and one
 * who comes there makes another from `bound` on.
 *
 * Thread: any, inside of env_read_begin() and _end(), which also is how long what is handed out lasts.
 */
#ifndef BELFRY_REPLICA_OLDER_H
#define BELFRY_REPLICA_OLDER_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "replica/env.h"

#define OLDER_MAX 16384

struct older_key {
    struct belfry_bytes key, kv; /* kv empty: it was not there */
    uint64_t order;              /* of its row in history */
};

struct older {
    struct older_key *keys; /* owned; ascending */
    size_t n, cap;
    bool cut;
    struct belfry_bytes bound; /* when cut: what is at or behind it is not told */
};

/* Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM; older_fini() is fine then, too. */
BELFRY_NODISCARD enum belfry_err older_read(struct older *older, const struct env *env, MDB_txn *txn, int64_t rev,
                                            struct belfry_bytes from, struct belfry_bytes end);
void older_fini(struct older *older);

#endif
