/* src/informer/index.h
 *
 * index: finds the objects of a store by values that a function derives from them.
 *
 * An entry is one value of one object. It is in the index, ordered by value and then by the object's key, and in the
 * object's list of entries, so that removing an object also removes its entries.
 *
 * Thread: owner. Pure.
 * Memory: one allocation per entry: 48 bytes and the value.
 */
#ifndef BELFRY_INFORMER_INDEX_H
#define BELFRY_INFORMER_INDEX_H

#include <stddef.h>

#include <belfry/informer.h>

#include "client/stored_object.h"

struct belfry_index;

struct belfry_index_spec {
    const char *name; /* copied */
    belfry_index_fn fn;
    void *user;
    void (*fini)(void *user); /* called when the index is destroyed or cannot be created; may be NULL */
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_index_create(const struct belfry_index_spec *spec, struct belfry_index **out);
void belfry_index_destroy(struct belfry_index *index); /* must be empty. NULL is fine */

const char *belfry_index_name(const struct belfry_index *index);
size_t belfry_index_bytes(const struct belfry_index *index); /* without its entries */

/* Calls the function for `object`; adds the entries at the front of *list, not yet to the index.
 * Errors: BELFRY_ERR_NOMEM: *list is incomplete; call belfry_index_drop(). */
BELFRY_NODISCARD enum belfry_err belfry_index_read(struct belfry_index *index, struct belfry_object *object,
                                                   struct belfry_index_entry **list);
void belfry_index_drop(struct belfry_index_entry *list);

/* Adds entries of one object to their index; a repeated value counts once. Returns the bytes they use. */
size_t belfry_index_enter(struct belfry_index_entry *list);

/* Removes the entries of `object` from all indexes (`only` NULL) or from the newest one. Returns their bytes. */
size_t belfry_index_leave(struct belfry_object *object, const struct belfry_index *only);

/* The first object with `value` whose key is after `after` (data NULL: the first of all). NULL: no more. */
struct belfry_object *belfry_index_next(const struct belfry_index *index, struct belfry_bytes value,
                                        struct belfry_bytes after);

/* For our own index functions: memory ran out while they looked for values. */
void belfry_index_fail(struct belfry_index_values *values);

#endif
