/* src/informer/index.h
 *
 * index: finds the objects of a store by the values that a function says they have.
 *
 * An entry stands for one value of one object. It is in the index's order (by value, then by the object's key) and in
 * the object's list of entries, so that an object takes its entries along when it goes.
 *
 * Thread: owner. Pure.
 * Memory: one allocation an entry: 48 bytes and the value.
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
    void (*fini)(void *user); /* called when the index goes, or when it cannot be created; NULL: nothing to do */
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_index_create(const struct belfry_index_spec *spec, struct belfry_index **out);
void belfry_index_destroy(struct belfry_index *index); /* nothing is in it any more. NULL is fine */

const char *belfry_index_name(const struct belfry_index *index);
size_t belfry_index_bytes(const struct belfry_index *index); /* without its entries */

/* Asks for the values of `object`; the entries go in front of *list and are in no index yet.
 * Errors: BELFRY_ERR_NOMEM: some are in the list, belfry_index_drop() it. */
BELFRY_NODISCARD enum belfry_err belfry_index_read(struct belfry_index *index, struct belfry_object *object,
                                                   struct belfry_index_entry **list);
void belfry_index_drop(struct belfry_index_entry *list);

/* Puts entries in place, all of one object; a value said twice counts once. Returns the bytes they take. */
size_t belfry_index_enter(struct belfry_index_entry *list);

/* Takes the entries of `object` out of all indexes (`only` NULL) or out of the newest one. Returns their bytes. */
size_t belfry_index_leave(struct belfry_object *object, const struct belfry_index *only);

/* The first object with `value` whose key is behind `after` (data NULL: the very first). NULL: no more. */
struct belfry_object *belfry_index_next(const struct belfry_index *index, struct belfry_bytes value,
                                        struct belfry_bytes after);

/* For index functions of our own: memory ended while they looked for values. */
void belfry_index_fail(struct belfry_index_values *values);

#endif
