/* src/informer/object_store.h
 *
 * store: the objects of an informer, ordered by key, with the indexes over them.
 *
 * A new listing does not build a second store: belfry_store_begin() marks all objects old, each put makes one current,
 * and belfry_store_sweep() then removes the objects that are still old, because they have vanished.
 *
 * Thread: owner. Pure.
 * Memory: one allocation per object (client/stored_object) and per index entry; belfry_store_bytes() counts all of it.
 */
#ifndef BELFRY_INFORMER_OBJECT_STORE_H
#define BELFRY_INFORMER_OBJECT_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include <belfry/informer.h>

#include "client/stored_object.h"

struct belfry_store;

BELFRY_NODISCARD enum belfry_err belfry_store_create(struct belfry_store **out);
void belfry_store_destroy(struct belfry_store *store); /* NULL is fine; held objects stay */

enum belfry_store_change {
    BELFRY_STORE_ADDED,
    BELFRY_STORE_REPLACED, /* *out_old: one reference to the previous object */
    BELFRY_STORE_SAME      /* the present object is equal (belfry_object_same): it stays and becomes current */
};

/* Puts `object`, consuming the reference, also on failure. Errors: BELFRY_ERR_NOMEM (an index entry): no change. */
BELFRY_NODISCARD enum belfry_err belfry_store_put(struct belfry_store *store, struct belfry_object *object,
                                                  enum belfry_store_change *out_change, struct belfry_object **out_old);

/* Removes an object; the caller owns the reference. NULL: there was none. */
struct belfry_object *belfry_store_take(struct belfry_store *store, struct belfry_bytes key);

/* Marks all objects old. */
void belfry_store_begin(struct belfry_store *store);

/* Removes the next old object, in key order; the caller owns the reference. NULL: none is left. Objects may be put and
 * taken between two calls. The whole sweep is one walk, however often it is interrupted. */
struct belfry_object *belfry_store_sweep(struct belfry_store *store);

struct belfry_object *belfry_store_get(const struct belfry_store *store, struct belfry_bytes key);

/* The first object whose key is after `after` (data NULL: the first of all) and begins with `prefix`. */
struct belfry_object *belfry_store_next(const struct belfry_store *store, struct belfry_bytes prefix,
                                        struct belfry_bytes after);

size_t belfry_store_count(const struct belfry_store *store);
size_t belfry_store_bytes(const struct belfry_store *store);        /* total memory */
size_t belfry_store_object_bytes(const struct belfry_store *store); /* keys and values only */

/* ---- indexes ---- */

#define BELFRY_STORE_INDEXES 16

/* `fini`, if not NULL, is called with `user` when the store is destroyed or this fails. Indexes all objects
 * immediately.
 * Errors: as belfry_informer_index(). */
BELFRY_NODISCARD enum belfry_err belfry_store_index(struct belfry_store *store, const char *name, belfry_index_fn fn,
                                                    void *user, void (*fini)(void *user));

/* The first object with `value` in the index whose key is after `after` (as above). NULL: no more, or no such index. */
struct belfry_object *belfry_store_by(const struct belfry_store *store, const char *name, struct belfry_bytes value,
                                      struct belfry_bytes after);

#endif
