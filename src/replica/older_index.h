/* src/replica/older_index.h
 *
 * older_index: from keys to the positions of their rows in history, for older.h.
 *
 * Thread: any, inside of env_read_begin() and _end().
 * Memory: at most OLDER_BYTES, in chunks that are freed together.
 */
#ifndef BELFRY_REPLICA_OLDER_INDEX_H
#define BELFRY_REPLICA_OLDER_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/treap.h"
#include "replica/rowform.h"

#define OLDER_BYTES ((size_t)64 << 20)

struct older_chunk;

/* A row of history: its position and its key. */
struct older_row {
    struct belfry_treap_node node;
    uint8_t at[ROWFORM_AT];
    uint32_t key_len;
    char key[];
};

/* One of zeroes is empty. */
struct older_index {
    struct belfry_treap_node *root; /* of rows, by key and position */
    struct older_chunk *chunks;     /* owned; they hold the rows */
    size_t bytes;
};

static inline struct belfry_bytes older_row_key(const struct older_row *row)
{
    return belfry_bytes_of(row->key, row->key_len);
}

/* Frees all rows: the index is empty. */
void older_index_fini(struct older_index *index);

/* Adds a row. Errors: BELFRY_ERR_LIMIT (it would be over OLDER_BYTES), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err older_index_add(struct older_index *index, struct belfry_bytes key,
                                                 const uint8_t at[ROWFORM_AT]);

/* The first row that is not before this key and position; NULL: none. */
const struct older_row *older_index_first(const struct older_index *index, struct belfry_bytes key,
                                          const uint8_t at[ROWFORM_AT]);

#endif
