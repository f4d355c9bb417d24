/* src/informer/object_store.h
 *
 * store: the objects of an informer, ordered by key, with the indexes over them.
 *
 * A listing anew does not build a second store: belfry_store_begin() makes what is there old, each put makes it current,
 * and belfry_store_sweep() takes out what is still old afterwards, which has vanished.
 *
 * Thread: owner. Pure.
 * Memory: one allocation an object (client/stored_object), one an index entry; all of it counted in belfry_store_bytes().
 */
#ifndef BELFRY_INFORMER_OBJECT_STORE_H
#define BELFRY_INFORMER_OBJECT_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include <belfry/informer.h>

#include "client/stored_object.h"

struct belfry_store;

BELFRY_NODISCARD enum belfry_err belfry_store_create(struct belfry_store **out);
void belfry_store_destroy(struct belfry_store *store); /* NULL is fine; objects that others hold stay */

enum belfry_store_change {
    BELFRY_STORE_ADDED,
    BELFRY_STORE_REPLACED, /* *out_old: one reference to what was there */
    BELFRY_STORE_SAME      /* what is there is the same (belfry_object_same): it stays, and is current */
};

/* Puts `object`, consuming the reference, failure included. Errors: BELFRY_ERR_NOMEM (an index entry): nothing changed. */
BELFRY_NODISCARD enum belfry_err belfry_store_put(struct belfry_store *store, struct belfry_object *object,
                                                  enum belfry_store_change *out_change, struct belfry_object **out_old);

/* Takes an object out; the caller owns the reference. NULL: there was none. */
struct belfry_object *belfry_store_take(struct belfry_store *store, struct belfry_bytes key);

/* Everything that is there is old from now on. */
void belfry_store_begin(struct belfry_store *store);

/* Takes out the next old object, in the order of keys; the caller owns the reference. NULL: none is left. Objects may
 * be put and taken between two calls. The whole sweep is one walk, however often it is interrupted. */
struct belfry_object *belfry_store_sweep(struct belfry_store *store);

struct belfry_object *belfry_store_get(const struct belfry_store *store, struct belfry_bytes key);

/* The first whose key is behind `after` (empty with data NULL: the very first), and begins with `prefix`. */
struct belfry_object *belfry_store_next(const struct belfry_store *store, struct belfry_bytes prefix,
                                        struct belfry_bytes after);

size_t belfry_store_count(const struct belfry_store *store);
size_t belfry_store_bytes(const struct belfry_store *store);        /* all of it */
size_t belfry_store_object_bytes(const struct belfry_store *store); /* keys and values alone */

/* ---- indexes ---- */

#define BELFRY_STORE_INDEXES 16

/* `fini`, if not NULL, is called with `user` when the store goes, or when this fails. Everything there is indexed at once.
 * Errors: as belfry_informer_index(). */
BELFRY_NODISCARD enum belfry_err belfry_store_index(struct belfry_store *store, const char *name, belfry_index_fn fn,
                                                    void *user, void (*fini)(void *user));

/* The first with `value` in the index whose key is behind `after` (as above). NULL: no more, or no such index. */
struct belfry_object *belfry_store_by(const struct belfry_store *store, const char *name, struct belfry_bytes value,
                                      struct belfry_bytes after);

#endif
