/* src/replica/env.h
 *
 * env: one LMDB environment: a folder data-N, its tables, and the snapshots of its readers.
 *
 * Flags. NOSYNC, because this is a cache: what is in the page cache survives SIGKILL, and the marker covers the rest.
 * No WRITEMAP: a full disk would be SIGBUS. NOTLS, so that a reader's slot serves any thread. Read-ahead stays on:
 * cold reads are of history, in sequence (300,000 revisions, 221 MB, cold: 0.2 s; without read-ahead 3.3 s).
 *
 * A snapshot is a read transaction of LMDB. Those that are not used wait in a stack for the next read, which renews
 * one: that takes no lock of LMDB's and allocates nothing.
 *
 * Thread: counted by the replica under its mutex; env_read_begin() and _end() from any thread, ENV_READERS at a time
 *         (others wait); write transactions are the writer's.
 */
#ifndef BELFRY_REPLICA_ENV_H
#define BELFRY_REPLICA_ENV_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "core/store.h"
#include "replica/older.h"
#include "replica/rowform.h"

#define ENV_READERS 640 /* snapshots at a time: more than two for each thread (a view, and an older page beside it) */

/* How many rows a table has, and the sum of their checks: equal for equal sets of rows, in whatever order they came. */
struct env_tally {
    uint64_t rows, sum;
};

/* What every commit moves, in meta. */
struct env_now {
    struct store_meta meta; /* without `past` */
    struct env_tally tallies[ROWFORM_COUNTED];
    uint64_t trimmed, newest; /* history's ends: checks of the last row that was trimmed, and of the newest; 0: none */
};

static inline void env_tally_add(struct env_now *now, enum rowform_table table, uint64_t check)
{
    now->tallies[table].rows++;
    now->tallies[table].sum += check;
}

static inline void env_tally_remove(struct env_now *now, enum rowform_table table, uint64_t check)
{
    now->tallies[table].rows--;
    now->tallies[table].sum -= check;
}

struct env {
    /* fixed once open */
    MDB_env *mdb;
    MDB_dbi state, history, marks, extents, counts, gone, meta; /* gone: only while a fresh copy is built */
    struct belfry_hash_key hash; /* of long keys, and of boundaries (counts.h); random, in meta */
    uint64_t salt;               /* of checks; likewise */
    uint64_t number;
    size_t map_bytes;
    unsigned page_bytes;
    /* under read_mu */
    pthread_mutex_t read_mu;
    pthread_cond_t read_ended;
    MDB_txn *idle[ENV_READERS]; /* the first n_idle, reset */
    unsigned n_idle, n_readers; /* n_readers: idle or in use */
    /* under older_mu */
    pthread_mutex_t older_mu; /* taken before the snapshot that is read: the index is never ahead of it */
    struct older older;       /* for reads at older revisions */
    /* any thread; relaxed */
    _Atomic int64_t earlier_oldest; /* of the mutant oldest_from_earlier */
    /* under the replica's mu */
    unsigned refs;
    uint64_t past;
    bool left; /* another took its place: the folder goes with the last reference */
    /* any thread; relaxed: it says that something is wrong, not what may be read */
    _Atomic uint64_t damages;
};

/* Why an environment cannot be had. */
enum env_fault {
    ENV_FAULT_NONE,
    ENV_FAULT_DISK, /* no space, or errors */
    ENV_FAULT_MEMORY,
    ENV_FAULT_CONTENT /* not ours, of another version or scope, or damaged: discard it */
};

/* Opens or makes the environment in `path`. */
BELFRY_NODISCARD enum env_fault env_open(const char *path, uint64_t number, size_t map_bytes, const char *scope,
                                         struct env **out);
void env_close(struct env *env); /* NULL is fine */

/* Something in it is not what was written. */
static inline void env_note_damage(struct env *env)
{
    atomic_fetch_add_explicit(&env->damages, 1, memory_order_relaxed);
}

/* LMDB's code as ours: BELFRY_OK, BELFRY_ERR_NOT_FOUND, BELFRY_ERR_NOMEM, and for all else BELFRY_ERR_IO. */
enum belfry_err env_err(int rc);

/* A snapshot. On success env_read_end() follows. Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err env_read_begin(struct env *env, MDB_txn **out);
void env_read_end(struct env *env, MDB_txn *txn);

/* Moves it to the last commit. Errors: as above; env_read_end() follows all the same. */
BELFRY_NODISCARD enum belfry_err env_read_renew(MDB_txn *txn);

/* Of a snapshot or transaction. Errors: LMDB's; MDB_CORRUPTED: damaged. */
int env_now_load(const struct env *env, MDB_txn *txn, struct env_now *out);
int env_now_store(const struct env *env, MDB_txn *txn, const struct env_now *now);

/* Any row, its check taken off and handed out. Errors: LMDB's; MDB_CORRUPTED: damaged. */
int env_row_get(const struct env *env, MDB_txn *txn, enum rowform_table table, MDB_val key, MDB_val *out,
                uint64_t *check);

/* A new row of at most ENV_ROW_MAX bytes, counted in `now`. Errors: LMDB's. */
#define ENV_ROW_MAX 16
int env_row_put(const struct env *env, MDB_txn *txn, struct env_now *now, enum rowform_table table, MDB_val key,
                struct belfry_bytes value);

/* Reads rows of meta that were found without LMDB (audit.h). False: not one of ours. */
bool env_salt_read(MDB_val key, MDB_val form, uint64_t *salt);
bool env_now_read(uint64_t salt, MDB_val key, MDB_val now, struct env_now *out);

/* Bytes of pages that the table, or all of them, hold. */
size_t env_table_bytes(const struct env *env, MDB_txn *txn, MDB_dbi table);
size_t env_used_bytes(const struct env *env, MDB_txn *txn);
size_t env_file_bytes(const struct env *env); /* up to the last page that a commit has used */
size_t env_rows(MDB_txn *txn, MDB_dbi table);

#endif
