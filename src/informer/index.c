/* src/informer/index.c */
#include "informer/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/owner.h"

struct belfry_index {
    belfry_index_fn fn;
    void *user;
    void (*fini)(void *user);
    struct belfry_treap_node *root; /* belfry_index_entry.node */
    BELFRY_OWNER;
    char name[];
};

struct belfry_index_entry {
    struct belfry_treap_node node;
    struct belfry_index_entry *next; /* of the same object; entries of newer indexes first */
    struct belfry_index *index;
    struct belfry_object *object; /* lent: the entry is removed before the object */
    size_t len;
    char value[];
};

struct belfry_index_values {
    struct belfry_index *index;
    struct belfry_object *object;
    struct belfry_index_entry *list;
    enum belfry_err err;
};

static struct belfry_bytes value_of(const struct belfry_index_entry *entry)
{
    return belfry_bytes_of(entry->value, entry->len);
}

static const struct belfry_index_entry *entry_of(const struct belfry_treap_node *node)
{
    return belfry_container_const(node, struct belfry_index_entry, node);
}

static size_t entry_bytes(const struct belfry_index_entry *entry)
{
    return sizeof(*entry) + entry->len;
}

static int entry_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    int by_value = belfry_bytes_cmp(value_of(entry_of(a)), value_of(entry_of(b)));
    return by_value != 0
               ? by_value
               : belfry_bytes_cmp(belfry_object_key(entry_of(a)->object), belfry_object_key(entry_of(b)->object));
}

enum belfry_err belfry_index_create(const struct belfry_index_spec *spec, struct belfry_index **out)
{
    size_t len = strlen(spec->name) + 1;
    struct belfry_index *index = malloc(sizeof(*index) + len);
    if (index == NULL) {
        if (spec->fini != NULL)
            spec->fini(spec->user);
        return BELFRY_ERR_NOMEM;
    }
    *index = (struct belfry_index){.fn = spec->fn, .user = spec->user, .fini = spec->fini};
    memcpy(index->name, spec->name, len);
    BELFRY_OWNER_INIT(index);
    *out = index;
    return BELFRY_OK;
}

void belfry_index_destroy(struct belfry_index *index)
{
    if (index == NULL)
        return;
    BELFRY_OWNER_CHECK(index);
    if (index->fini != NULL)
        index->fini(index->user);
    free(index);
}

const char *belfry_index_name(const struct belfry_index *index)
{
    return index->name;
}

size_t belfry_index_bytes(const struct belfry_index *index)
{
    return sizeof(*index) + strlen(index->name) + 1;
}

/* ---- entries ---- */

void belfry_index_add(struct belfry_index_values *values, struct belfry_bytes value)
{
    if (values->err != BELFRY_OK)
        return;
    struct belfry_index_entry *entry =
        value.len <= SIZE_MAX - sizeof(*entry) ? malloc(sizeof(*entry) + value.len) : NULL;
    if (entry == NULL) {
        values->err = BELFRY_ERR_NOMEM;
        return;
    }
    *entry = (struct belfry_index_entry){
        .next = values->list, .index = values->index, .object = values->object, .len = value.len};
    if (value.len > 0)
        memcpy(entry->value, value.data, value.len);
    values->list = entry;
}

void belfry_index_fail(struct belfry_index_values *values)
{
    values->err = BELFRY_ERR_NOMEM;
}

enum belfry_err belfry_index_read(struct belfry_index *index, struct belfry_object *object,
                                  struct belfry_index_entry **list)
{
    BELFRY_OWNER_CHECK(index);
    struct belfry_index_values values = {.index = index, .object = object, .list = *list};
    index->fn(object, &values, index->user);
    *list = values.list;
    return values.err;
}

void belfry_index_drop(struct belfry_index_entry *list)
{
    while (list != NULL) {
        struct belfry_index_entry *next = list->next;
        free(list);
        list = next;
    }
}

/* Finds an entry with the same value and key: the order treats both as equal. */
static int seek_twin(const void *entry, const struct belfry_treap_node *node)
{
    return entry_order(&((const struct belfry_index_entry *)entry)->node, node);
}

size_t belfry_index_enter(struct belfry_index_entry *list)
{
    size_t bytes = 0;
    struct belfry_index_entry **at = list == NULL ? NULL : &list->object->entries;
    while (list != NULL) {
        struct belfry_index_entry *entry = list;
        list = entry->next;
        if (belfry_treap_find(entry->index->root, entry, seek_twin) != NULL) {
            free(entry);
            continue;
        }
        belfry_treap_insert(&entry->index->root, &entry->node, entry_order);
        entry->next = *at; /* after the new ones, before older ones: newer indexes come first */
        *at = entry;
        at = &entry->next;
        bytes += entry_bytes(entry);
    }
    return bytes;
}

size_t belfry_index_leave(struct belfry_object *object, const struct belfry_index *only)
{
    size_t bytes = 0;
    struct belfry_index_entry *entry;
    while ((entry = object->entries) != NULL && (only == NULL || entry->index == only)) {
        object->entries = entry->next;
        belfry_treap_remove(&entry->index->root, &entry->node, entry_order);
        bytes += entry_bytes(entry);
        free(entry);
    }
    return bytes;
}

/* ---- looking up ---- */

struct place {
    struct belfry_bytes value, after;
};

/* The place is after every entry up to `after`, so that a walk begins with the next. */
static int entry_seek_after(const void *key, const struct belfry_treap_node *node)
{
    const struct place *place = key;
    int by_value = belfry_bytes_cmp(place->value, value_of(entry_of(node)));
    if (by_value != 0)
        return by_value;
    if (place->after.data == NULL)
        return -1;
    return belfry_bytes_cmp(place->after, belfry_object_key(entry_of(node)->object)) < 0 ? -1 : 1;
}

struct belfry_object *belfry_index_next(const struct belfry_index *index, struct belfry_bytes value,
                                        struct belfry_bytes after)
{
    struct place place = {value, after};
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, index->root, &place, entry_seek_after);
    const struct belfry_treap_node *node = belfry_treap_next(&walk);
    return node != NULL && belfry_bytes_equal(value_of(entry_of(node)), value) ? entry_of(node)->object : NULL;
}
