/* src/serve/relay/txn_deletes.h
 *
 * txn_deletes: from which key on a Txn has deleted everything, as its operations are read one after the other.
 *
 * A Txn has two branches, one of which is carried out, and Txns in them have branches again. Each Txn that is open has
 * a level, the outermost 0. `branches` has a bit for each level: which of the two is being read there. What the other
 * branch of an open Txn deletes does not count. When a Txn is complete, it is not known which of its branches etcd will
 * carry out. So the keys that either of them deletes count as deleted, in the branch of the outer Txn that it is in.
 *
 *     level 0   success   delete from "m" on          lowest[0][0] is "m"
 *     level 1      success   delete from "c" on       lowest[1][0] is "c"
 *                  failure   put "d"                  lowest[1][1] is none: only what is from "m" on is deleted
 *     level 0   success   put "d"                     lowest[0][0] is "c": it is deleted
 *
 * Of keys, TXN_KEY_BYTES are kept. Longer keys that begin alike count as the same one.
 *
 * Thread: owner. Pure; unchecked: a part of its guard.
 * Memory: its own and txn_deletes_bytes(), at most about 55 KB: a key for each branch of each level.
 */
#ifndef BELFRY_SERVE_RELAY_TXN_DELETES_H
#define BELFRY_SERVE_RELAY_TXN_DELETES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TXN_LEVELS    50
#define TXN_KEY_BYTES 512

/* A key whose bytes come in pieces. */
struct txn_key {
    size_t len;
    uint8_t bytes[TXN_KEY_BYTES];
};

static inline void txn_key_clear(struct txn_key *key)
{
    key->len = 0;
}

void txn_key_append(struct txn_key *key, const uint8_t *bytes, size_t n);

struct txn_deletes {
    struct txn_key *lowest[TXN_LEVELS][2]; /* owned; NULL: nothing is deleted from a key on */
    size_t n_keys;                         /* that are not NULL */
};

static inline void txn_deletes_init(struct txn_deletes *deletes)
{
    *deletes = (struct txn_deletes){0};
}

void txn_deletes_fini(struct txn_deletes *deletes);

/* Bytes that it holds besides its own. */
static inline size_t txn_deletes_bytes(const struct txn_deletes *deletes)
{
    return deletes->n_keys * sizeof(struct txn_key);
}

/* The innermost Txn, of this level, deletes everything from the key on. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err txn_deletes_add(struct txn_deletes *deletes, unsigned level, uint64_t branches,
                                                 const struct txn_key *key);

/* Is the key deleted, where the innermost Txn, of this level, is being read? */
bool txn_deletes_has(const struct txn_deletes *deletes, unsigned level, uint64_t branches, const struct txn_key *key);

/* The innermost Txn, of this level, which is not 0, is complete. */
void txn_deletes_close(struct txn_deletes *deletes, unsigned level, uint64_t branches);

#endif
