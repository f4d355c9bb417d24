/* src/replica/older_index.h
 *
 * older_index: from keys to the positions of their rows in history, for older.h.
 *
 * Thread: locked, as older.h.
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

/* A row of history: its position, its key, and by how many it changed the number of keys. */
struct older_row {
    struct belfry_treap_node node;
    struct older_row *earlier; /* of a row that changed that number: the next earlier such row */
    int delta;                 /* 1: it created its key; -1: it deleted it; 0: it changed a value */
    uint8_t at[ROWFORM_AT];
    uint32_t key_len;
    char key[];
};

/* One of zeroes is empty. */
struct older_index {
    struct belfry_treap_node *root;    /* of rows, by key and position */
    struct older_chunk *chunks;        /* owned; they hold the rows */
    struct older_row *newest, *oldest; /* of the rows with a delta, by position; NULL: none */
    size_t bytes;
};

enum older_side { OLDER_ABOVE, OLDER_BELOW }; /* of all rows that the index has */

static inline struct belfry_bytes older_row_key(const struct older_row *row)
{
    return belfry_bytes_of(row->key, row->key_len);
}

/* Frees all rows: the index is empty. */
void older_index_fini(struct older_index *index);

/* Adds a row. Errors: BELFRY_ERR_LIMIT (it would be over OLDER_BYTES), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err older_index_add(struct older_index *index, const struct rowform_event *event,
                                                 const uint8_t at[ROWFORM_AT], enum older_side side);

/* The first row that is not before this key and position; NULL: none. */
const struct older_row *older_index_first(const struct older_index *index, struct belfry_bytes key,
                                          const uint8_t at[ROWFORM_AT]);

#endif
