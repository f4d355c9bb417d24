/* src/replica/history.h
 *
 * history: rows of a snapshot read back as segments.
 *
 * Thread: any, inside of env_read_begin() and _end(). What is handed out is copied.
 */
#ifndef BELFRY_REPLICA_HISTORY_H
#define BELFRY_REPLICA_HISTORY_H

#include <lmdb.h>
#include <stdint.h>

#include "core/segment.h"
#include "replica/env.h"

struct history_read {
    struct env *env;
    MDB_txn *txn;
    const struct env_now *now; /* lent; of the snapshot */
    uint64_t past;
    size_t extent_bytes;
};

/* As in core/store.h; `from` and `rev` are inside the window. Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM, and of a slice
 * BELFRY_ERR_INVALID (the revision has no event at or behind `sub`). */
BELFRY_NODISCARD enum belfry_err history_segment(const struct history_read *read, int64_t from, size_t max_bytes,
                                                 struct segment **out);
BELFRY_NODISCARD enum belfry_err history_slice(const struct history_read *read, int64_t rev, uint32_t sub,
                                               size_t max_bytes, struct segment **out);

#endif
