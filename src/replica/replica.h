/* src/replica/replica.h
 *
 * replica: the store on disk, in LMDB (core/store.h says what it does; this, how it is opened).
 *
 *     DIR/lock              flock: one process
 *     DIR/marker            `dirty BOOT-ID data-N` before the first write, `clean data-N` after a full sync
 *     DIR/deaths            one digit: lives in a row that died with this replica
 *     DIR/data-N/data.mdb   one environment; the newest N that the marker names is the one
 *
 *     state     key -> KeyValue                   a key over 480 bytes: its first 480 and a 128-bit hash; the whole one
 *                                                 is in the KeyValue
 *     history   (revision, sub), big endian -> Event bytes, and the KeyValue before
 *     marks     revision -> second of CLOCK_BOOTTIME, for trimming by age
 *     extents   revision -> events, bytes         of revisions that are read in slices
 *     counts    level, key -> rows                how many keys the block of state has that begins there (counts.h)
 *     meta      cluster id, member id, term, revision, oldest, scope, format version; how many rows each table has, and
 *               the sum of their checks
 *
 * It is a cache: nothing is synced but the marker. A marker that says dirty under another boot (or an unknown one)
 * means that the page cache was lost with writes in it: the content is discarded. After SIGKILL the boot is the same
 * and what was committed is there: a warm open.
 *
 * A file is not trusted: before LMDB opens it, audit.h reads it, after a clean close without the rows of history, after
 * any other end everything. A file that does not pass is discarded, and so is one with which two processes in a row
 * died: then the store is empty, and follow lists.
 *
 * Every row has a check, verified whenever it is read, and rows of history are chained (chain.h). A row that does not
 * pass is not handed out: the call fails, damaged() is true from then on, and follow lists.
 *
 * Transactions: every error of a write ends the open transaction, with nothing changed since its begin. apply, advance,
 * trim and get need one; put, remove and adopt do not: a fresh copy has its own. When the disk or the map is full, the
 * next trim discards history even under its budget, so that writing can go on.
 *
 * Thread: the writer's functions of the store on one thread, the reader's from any, at the same time. Reads of state at
 *         older revisions take turns. A row function must not call the reader's functions.
 */
#ifndef BELFRY_REPLICA_REPLICA_H
#define BELFRY_REPLICA_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "core/store.h"

struct replica_opts {
    const char *dir; /* made if it is missing, 0700 */
    size_t history_bytes;
    uint64_t history_age_s;
    size_t map_bytes;    /* 0: twice history_bytes, and 8 GiB for state; fixed for the life of an environment */
    size_t extent_bytes; /* a revision over this is read as an extent */
    const char *boot_id; /* NULL: the kernel's */
    const char *scope;   /* written into meta; a replica of another scope is discarded */
    bool audit_here;     /* in this process instead of a child: for tests that have threads, or open thousands */
    const struct belfry_log *log;
};

/* Before the process has other threads, or with audit_here.
 * Errors: BELFRY_ERR_IO (the folder cannot be used; *why, to be freed, says what to do), BELFRY_ERR_LIMIT (another
 * process has it), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err replica_open(const struct replica_opts *opts, struct store **out, char **why);

/* `clean`: sync and mark, so that the next open is warm after a reboot too. NULL is fine. */
enum replica_close { REPLICA_CLOSE_DIRTY, REPLICA_CLOSE_CLEAN };
void replica_close(struct store *store, enum replica_close how);

/* The start is over: what ends this life from here on is not held against the replica, unless it is a fault. */
void replica_serves(struct store *store);

/* This life ends with a fault (SIGSEGV and the like), perhaps the replica's. Safe in a signal handler. */
void replica_faulted(const struct store *store);

struct replica_stats {
    uint64_t state_rows, history_rows;
    size_t history_bytes, used_bytes, map_bytes;
    uint64_t commits, trimmed, io_errors;
    uint64_t damages; /* found: a replica that was discarded, or whose rows are not what was written */
};
void replica_stats(struct store *store, struct replica_stats *out);

#endif
