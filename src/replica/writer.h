/* src/replica/writer.h
 *
 * writer: the write transaction of an environment: state, history and meta moved together.
 *
 *     CLOSED --begin--> OPEN --apply--> INSIDE (a revision) --advance--> OPEN --commit--> CLOSED
 *                         \---------------- abort, or any error of a write ----------------^
 *
 * An LMDB transaction with an error can only be aborted. So every error of a write ends it, with nothing changed; the
 * caller applies again what it had applied since begin.
 *
 * Thread: owner (the writer).
 */
#ifndef BELFRY_REPLICA_WRITER_H
#define BELFRY_REPLICA_WRITER_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/store.h"
#include "replica/env.h"

enum writer_state { WRITER_CLOSED, WRITER_OPEN, WRITER_INSIDE };

struct writer {
    struct env *env; /* lent: the replica's current one */
    size_t extent_bytes;
    enum writer_state state;
    struct env_now committed, now;
    /* while not CLOSED */
    MDB_txn *txn;
    MDB_cursor *states, *rows, *blocks; /* kept over the transaction: a history row is appended without a search */
    /* while INSIDE */
    int64_t rev;
    uint32_t sub;                   /* of the last event */
    uint64_t rev_events, rev_bytes; /* of the revision so far, as batches count */
    /* lent out until the next write */
    struct belfry_buf prev;
    uint64_t prev_check;
    int failed; /* LMDB's code of the last error that ended a transaction; 0: none yet */
};

/* Goes on with `env`, where `now` is committed. What was open in another is aborted. */
void writer_attach(struct writer *writer, struct env *env, const struct env_now *now);
void writer_fini(struct writer *writer);

/* As in core/store.h. BELFRY_ERR_INVALID: called out of order; what was open is as it was, but for commit. */
BELFRY_NODISCARD enum belfry_err writer_begin(struct writer *writer);
BELFRY_NODISCARD enum belfry_err writer_get(struct writer *writer, struct belfry_bytes key, struct belfry_bytes *kv);
BELFRY_NODISCARD enum belfry_err writer_apply(struct writer *writer, int64_t rev, uint32_t sub,
                                              const struct belfry_wire_event *event, const struct belfry_bytes *before,
                                              struct belfry_bytes *prev);
BELFRY_NODISCARD enum belfry_err writer_advance(struct writer *writer, int64_t rev,
                                                const struct belfry_wire_header *header);
BELFRY_NODISCARD enum belfry_err writer_commit(struct writer *writer);
void writer_abort(struct writer *writer); /* also when CLOSED */

/* Ends the transaction because LMDB said `rc`; gives the error to return. */
enum belfry_err writer_failed(struct writer *writer, int rc);

#endif
