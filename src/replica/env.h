/* src/replica/env.h
 *
 * env: one LMDB environment: a folder data-N, its tables, and the snapshot that readers take in turn.
 *
 * Flags: NOSYNC, because this is a cache; the order of pages inside the page cache survives SIGKILL, and against more
 * there is the marker. No WRITEMAP: a full disk would be SIGBUS. NOTLS, so that one reader's slot serves whichever
 * thread reads. Read-ahead stays on: what is read cold is history, and that in sequence (300,000 revisions, 221 MB, cold:
 * 0.2 s; without read-ahead 3.3 s).
 *
 * Thread: counted by the replica under its mutex; env_read_begin() and _end() from any thread, one at a time (others
 *         wait); write transactions are the writer's.
 */
#ifndef BELFRY_REPLICA_ENV_H
#define BELFRY_REPLICA_ENV_H

#include <lmdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "core/store.h"
#include "replica/older.h"

struct env {
    /* fixed once open */
    MDB_env *mdb;
    MDB_dbi state, history, marks, extents, gone, meta; /* gone: only while a fresh copy is built */
    struct belfry_hash_key hash;                        /* of long keys; random, in meta */
    uint64_t number;
    size_t map_bytes;
    unsigned page_bytes;
    /* under read_mu */
    pthread_mutex_t read_mu;
    MDB_txn *reader;        /* reset between calls */
    struct older older;     /* for reads at older revisions */
    int64_t earlier_oldest; /* of the mutant oldest_from_earlier */
    /* under the replica's mu */
    unsigned refs;
    uint64_t past;
    bool left; /* another took its place: the folder goes with the last reference */
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

/* LMDB's code as ours: BELFRY_OK, BELFRY_ERR_NOT_FOUND, BELFRY_ERR_NOMEM, and for all else BELFRY_ERR_IO. */
enum belfry_err env_err(int rc);

/* A snapshot. On success env_read_end() follows. Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err env_read_begin(struct env *env, MDB_txn **out);
void env_read_end(struct env *env);

/* The meta of a snapshot or transaction, without `past`. Errors: LMDB's. */
int env_meta_load(const struct env *env, MDB_txn *txn, struct store_meta *out);
int env_meta_store(const struct env *env, MDB_txn *txn, const struct store_meta *meta);

/* Bytes of pages that the table, or all of them, hold. */
size_t env_table_bytes(const struct env *env, MDB_txn *txn, MDB_dbi table);
size_t env_used_bytes(const struct env *env, MDB_txn *txn);
size_t env_rows(MDB_txn *txn, MDB_dbi table);

#endif
