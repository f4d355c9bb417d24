/* src/replica/older_index.c */
#include "replica/older_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define CHUNK_BYTES ((size_t)256 << 10)

struct older_chunk {
    struct older_chunk *before;
    size_t used, size;
    char room[];
};

void older_index_fini(struct older_index *index)
{
    while (index->chunks != NULL) {
        struct older_chunk *chunk = index->chunks;
        index->chunks = chunk->before;
        free(chunk);
    }
    *index = (struct older_index){0};
}

static const struct older_row *row_of(const struct belfry_treap_node *node)
{
    return belfry_container_const(node, struct older_row, node);
}

static int row_compare(struct belfry_bytes key, const uint8_t *at, const struct older_row *row)
{
    int order = belfry_bytes_cmp(key, older_row_key(row));
    return order != 0 ? order : memcmp(at, row->at, ROWFORM_AT);
}

static int row_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    return row_compare(older_row_key(row_of(a)), row_of(a)->at, row_of(b));
}

/* A delete finds its key, even if that has no previous value: the same revision may have created it. */
static int delta_of(const struct rowform_event *event)
{
    if (event->is_delete)
        return -1;
    return event->prev.len > 0 ? 0 : 1;
}

static void older_index_link(struct older_index *index, struct older_row *row, enum older_side side)
{
    if (index->newest == NULL) {
        index->newest = index->oldest = row;
        return;
    }
    switch (side) {
    case OLDER_ABOVE:
        row->earlier = index->newest;
        index->newest = row;
        return;
    case OLDER_BELOW:
        index->oldest->earlier = row;
        index->oldest = row;
        return;
    }
}

enum belfry_err older_index_add(struct older_index *index, const struct rowform_event *event,
                                const uint8_t at[ROWFORM_AT], enum older_side side)
{
    struct belfry_bytes key = event->key;
    const size_t align = _Alignof(struct older_row);
    size_t size = (sizeof(struct older_row) + key.len + align - 1) / align * align;
    if (index->chunks == NULL || index->chunks->size - index->chunks->used < size) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        if (index->bytes + room > OLDER_BYTES)
            return BELFRY_ERR_LIMIT;
        struct older_chunk *chunk = malloc(sizeof(*chunk) + room);
        if (chunk == NULL)
            return BELFRY_ERR_NOMEM;
        *chunk = (struct older_chunk){.before = index->chunks, .size = room};
        index->chunks = chunk;
        index->bytes += room;
    }
    struct older_row *row = (struct older_row *)(void *)(index->chunks->room + index->chunks->used);
    index->chunks->used += size;
    row->earlier = NULL;
    row->delta = delta_of(event);
    row->key_len = (uint32_t)key.len;
    memcpy(row->at, at, ROWFORM_AT);
    memcpy(row->key, key.data, key.len);
    belfry_treap_insert(&index->root, &row->node, row_order);
    if (row->delta != 0)
        older_index_link(index, row, side);
    return BELFRY_OK;
}

struct place {
    struct belfry_bytes key;
    const uint8_t *at;
};

static int place_order(const void *wanted, const struct belfry_treap_node *node)
{
    const struct place *place = wanted;
    return row_compare(place->key, place->at, row_of(node));
}

const struct older_row *older_index_first(const struct older_index *index, struct belfry_bytes key,
                                          const uint8_t at[ROWFORM_AT])
{
    struct place place = {key, at};
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, index->root, &place, place_order);
    const struct belfry_treap_node *node = belfry_treap_next(&walk);
    return node == NULL ? NULL : row_of(node);
}
