/* src/replica/fresh.h
 *
 * fresh: a new environment that a listing fills, in whatever order its pages and the events beside them come.
 *
 * Puts and removes wait in memory and go to disk FRESH_BYTES at a time, in transactions of their own. So when the disk
 * is full a put fails, nothing was changed, and the same put can be tried again.
 *
 * Each key is as its highest revision left it: a removed key is remembered until the copy is adopted, so that an older
 * page does not bring it back.
 *
 * Thread: owner (the writer).
 */
#ifndef BELFRY_REPLICA_FRESH_H
#define BELFRY_REPLICA_FRESH_H

#include <stdint.h>

#include "base/buf.h"
#include "core/store.h"
#include "replica/env.h"

#define FRESH_BYTES (1024 * 1024)

struct fresh {
    struct env *env;           /* owned; NULL: none is being built */
    struct env_now now;        /* its tallies, as far as they are on disk */
    struct belfry_buf waiting; /* records: see fresh.c */
};

/* Takes over an empty environment. */
void fresh_begin(struct fresh *fresh, struct env *env);

/* Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM: nothing changed. */
BELFRY_NODISCARD enum belfry_err fresh_put(struct fresh *fresh, const struct belfry_wire_kv *kv);
BELFRY_NODISCARD enum belfry_err fresh_remove(struct fresh *fresh, struct belfry_bytes key, int64_t rev);

/* Writes what waits and the meta, and hands out what is committed then. Errors: as above. */
BELFRY_NODISCARD enum belfry_err fresh_finish(struct fresh *fresh, const struct store_meta *meta, struct env_now *now);

/* Hands the environment over (NULL: there was none), and forgets what waits. */
struct env *fresh_end(struct fresh *fresh);

#endif
