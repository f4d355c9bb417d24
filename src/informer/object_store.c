/* src/informer/object_store.c */
#include "informer/object_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/owner.h"
#include "informer/index.h"

struct belfry_store {
    struct belfry_treap_node *root; /* belfry_object.node; one reference each */
    size_t n_objects, n_old;        /* n_old: not seen since the last begin */
    size_t bytes, object_bytes;
    uint32_t epoch;              /* of the current listing; objects of another epoch are old */
    struct belfry_object *swept; /* one reference: the last object swept; nothing before it is old. NULL: none */
    struct belfry_index *indexes[BELFRY_STORE_INDEXES]; /* owned */
    size_t n_indexes;
    BELFRY_OWNER;
};

static struct belfry_object *object_of(struct belfry_treap_node *node)
{
    return node == NULL ? NULL : belfry_container(node, struct belfry_object, node);
}

static struct belfry_bytes key_of(const struct belfry_treap_node *node)
{
    return belfry_object_key(belfry_container_const(node, struct belfry_object, node));
}

static int object_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    return belfry_bytes_cmp(key_of(a), key_of(b));
}

static int object_seek(const void *key, const struct belfry_treap_node *node)
{
    return belfry_bytes_cmp(*(const struct belfry_bytes *)key, key_of(node));
}

/* Like seek, but a walk begins after the key instead of at it. */
static int object_seek_after(const void *key, const struct belfry_treap_node *node)
{
    return object_seek(key, node) < 0 ? -1 : 1;
}

enum belfry_err belfry_store_create(struct belfry_store **out)
{
    struct belfry_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return BELFRY_ERR_NOMEM;
    store->bytes = sizeof(*store);
    BELFRY_OWNER_INIT(store);
    *out = store;
    return BELFRY_OK;
}

/* ---- put and remove ---- */

static bool is_old(const struct belfry_store *store, const struct belfry_object *object)
{
    return object->epoch != store->epoch;
}

static void store_insert(struct belfry_store *store, struct belfry_object *object, struct belfry_index_entry *entries)
{
    belfry_treap_insert(&store->root, &object->node, object_order);
    object->epoch = store->epoch;
    store->n_objects++;
    store->bytes += belfry_object_bytes(object) + belfry_index_enter(entries);
    store->object_bytes += object->key_len + object->value_len;
}

/* Removes `object`; the caller owns the reference. */
static struct belfry_object *store_remove(struct belfry_store *store, struct belfry_object *object)
{
    belfry_treap_remove(&store->root, &object->node, object_order);
    store->n_objects--;
    store->n_old -= is_old(store, object);
    store->bytes -= belfry_object_bytes(object) + belfry_index_leave(object, NULL);
    store->object_bytes -= object->key_len + object->value_len;
    return object;
}

static enum belfry_err read_values(struct belfry_store *store, struct belfry_object *object,
                                   struct belfry_index_entry **out)
{
    struct belfry_index_entry *list = NULL;
    for (size_t i = 0; i < store->n_indexes; i++) {
        if (belfry_index_read(store->indexes[i], object, &list) != BELFRY_OK) {
            belfry_index_drop(list);
            return BELFRY_ERR_NOMEM;
        }
    }
    *out = list;
    return BELFRY_OK;
}

enum belfry_err belfry_store_put(struct belfry_store *store, struct belfry_object *object,
                                 enum belfry_store_change *out_change, struct belfry_object **out_old)
{
    BELFRY_OWNER_CHECK(store);
    struct belfry_object *old = belfry_store_get(store, belfry_object_key(object));
    if (old != NULL && belfry_object_same(old, object)) {
        store->n_old -= is_old(store, old);
        old->epoch = store->epoch;
        belfry_object_unref(object);
        *out_change = BELFRY_STORE_SAME;
        return BELFRY_OK;
    }
    struct belfry_index_entry *entries;
    if (read_values(store, object, &entries) != BELFRY_OK) {
        belfry_object_unref(object);
        return BELFRY_ERR_NOMEM;
    }
    if (old != NULL)
        *out_old = store_remove(store, old);
    store_insert(store, object, entries);
    *out_change = old != NULL ? BELFRY_STORE_REPLACED : BELFRY_STORE_ADDED;
    return BELFRY_OK;
}

struct belfry_object *belfry_store_take(struct belfry_store *store, struct belfry_bytes key)
{
    BELFRY_OWNER_CHECK(store);
    struct belfry_object *object = belfry_store_get(store, key);
    return object == NULL ? NULL : store_remove(store, object);
}

static void end_sweep(struct belfry_store *store)
{
    belfry_object_unref(store->swept);
    store->swept = NULL;
}

void belfry_store_begin(struct belfry_store *store)
{
    BELFRY_OWNER_CHECK(store);
    end_sweep(store);
    store->epoch++;
    store->n_old = store->n_objects;
}

struct belfry_object *belfry_store_sweep(struct belfry_store *store)
{
    BELFRY_OWNER_CHECK(store);
    struct belfry_object *object = NULL;
    if (store->n_old > 0) {
        struct belfry_treap_walk walk;
        struct belfry_bytes behind = {0};
        if (store->swept != NULL)
            behind = belfry_object_key(store->swept);
        belfry_treap_walk(&walk, store->root, store->swept == NULL ? NULL : &behind, object_seek_after);
        do
            object = object_of(belfry_treap_next(&walk));
        while (!is_old(store, object)); /* n_old > 0, so there is one */
    }
    end_sweep(store);
    if (object != NULL)
        store->swept = belfry_object_ref(store_remove(store, object));
    return object;
}

void belfry_store_destroy(struct belfry_store *store)
{
    if (store == NULL)
        return;
    BELFRY_OWNER_CHECK(store);
    struct belfry_object *object;
    while ((object = object_of(belfry_treap_first(store->root))) != NULL)
        belfry_object_unref(store_remove(store, object));
    end_sweep(store);
    for (size_t i = 0; i < store->n_indexes; i++)
        belfry_index_destroy(store->indexes[i]);
    free(store);
}

/* ---- reading ---- */

struct belfry_object *belfry_store_get(const struct belfry_store *store, struct belfry_bytes key)
{
    return object_of(belfry_treap_find(store->root, &key, object_seek));
}

struct belfry_object *belfry_store_next(const struct belfry_store *store, struct belfry_bytes prefix,
                                        struct belfry_bytes after)
{
    struct belfry_treap_walk walk;
    if (after.data != NULL && belfry_bytes_cmp(after, prefix) >= 0)
        belfry_treap_walk(&walk, store->root, &after, object_seek_after);
    else
        belfry_treap_walk(&walk, store->root, &prefix, object_seek);
    struct belfry_object *object = object_of(belfry_treap_next(&walk));
    return object != NULL && belfry_bytes_begins(belfry_object_key(object), prefix) ? object : NULL;
}

size_t belfry_store_count(const struct belfry_store *store)
{
    return store->n_objects;
}

size_t belfry_store_bytes(const struct belfry_store *store)
{
    return store->bytes;
}

size_t belfry_store_object_bytes(const struct belfry_store *store)
{
    return store->object_bytes;
}

/* ---- indexes ---- */

static struct belfry_index *find_index(const struct belfry_store *store, const char *name)
{
    for (size_t i = 0; i < store->n_indexes; i++) {
        if (strcmp(belfry_index_name(store->indexes[i]), name) == 0)
            return store->indexes[i];
    }
    return NULL;
}

/* Removes everything from the newest index. */
static void empty_index(struct belfry_store *store, const struct belfry_index *index)
{
    struct belfry_treap_walk walk;
    struct belfry_object *object;
    belfry_treap_walk(&walk, store->root, NULL, NULL);
    while ((object = object_of(belfry_treap_next(&walk))) != NULL)
        store->bytes -= belfry_index_leave(object, index);
}

static enum belfry_err fill_index(struct belfry_store *store, struct belfry_index *index)
{
    struct belfry_treap_walk walk;
    struct belfry_object *object;
    belfry_treap_walk(&walk, store->root, NULL, NULL);
    while ((object = object_of(belfry_treap_next(&walk))) != NULL) {
        struct belfry_index_entry *list = NULL;
        if (belfry_index_read(index, object, &list) != BELFRY_OK) {
            belfry_index_drop(list);
            empty_index(store, index);
            return BELFRY_ERR_NOMEM;
        }
        store->bytes += belfry_index_enter(list);
    }
    return BELFRY_OK;
}

enum belfry_err belfry_store_index(struct belfry_store *store, const char *name, belfry_index_fn fn, void *user,
                                   void (*fini)(void *user))
{
    BELFRY_OWNER_CHECK(store);
    struct belfry_index_spec spec = {.name = name, .fn = fn, .user = user, .fini = fini};
    struct belfry_index *index;
    bool taken = find_index(store, name) != NULL;
    if (taken || store->n_indexes == BELFRY_STORE_INDEXES) {
        if (fini != NULL)
            fini(user);
        return taken ? BELFRY_ERR_INVALID : BELFRY_ERR_LIMIT;
    }
    enum belfry_err err = belfry_index_create(&spec, &index);
    if (err != BELFRY_OK)
        return err;
    err = fill_index(store, index);
    if (err != BELFRY_OK) {
        belfry_index_destroy(index);
        return err;
    }
    store->indexes[store->n_indexes++] = index;
    store->bytes += belfry_index_bytes(index);
    return BELFRY_OK;
}

struct belfry_object *belfry_store_by(const struct belfry_store *store, const char *name, struct belfry_bytes value,
                                      struct belfry_bytes after)
{
    const struct belfry_index *index = find_index(store, name);
    return index == NULL ? NULL : belfry_index_next(index, value, after);
}
