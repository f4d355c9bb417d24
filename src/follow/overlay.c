/* src/follow/overlay.c */
#include "follow/overlay.h"

#include <stdlib.h>

#include "base/list.h"

struct overlay_key {
    struct belfry_treap_node by_key;
    struct belfry_bytes key, kv; /* in a batch; kv empty: deleted */
};

static struct overlay_key *key_of(struct belfry_treap_node *node)
{
    return belfry_container(node, struct overlay_key, by_key);
}

static int seek_key(const void *key, const struct belfry_treap_node *node)
{
    const struct belfry_bytes *wanted = key;
    return belfry_bytes_cmp(*wanted, belfry_container_const(node, struct overlay_key, by_key)->key);
}

static int order_key(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    return seek_key(&belfry_container_const(a, struct overlay_key, by_key)->key, b);
}

static enum belfry_err add_event(struct overlay *overlay, const struct belfry_wire_event *event)
{
    struct belfry_treap_node *node = belfry_treap_find(overlay->root, &event->kv.key, seek_key);
    struct overlay_key *entry = node != NULL ? key_of(node) : calloc(1, sizeof(*entry));
    if (entry == NULL)
        return BELFRY_ERR_NOMEM;
    entry->kv = event->is_delete ? (struct belfry_bytes){0} : event->kv.raw;
    if (node != NULL)
        return BELFRY_OK;
    entry->key = event->kv.key;
    belfry_treap_insert(&overlay->root, &entry->by_key, order_key);
    overlay->bytes += sizeof(*entry);
    return BELFRY_OK;
}

enum belfry_err overlay_add(struct overlay *overlay, const struct batch *batch)
{
    for (uint32_t i = 0; i < batch->n_events; i++) {
        struct belfry_wire_event event;
        enum belfry_err err = belfry_scan_event(batch_bytes(batch, &batch->events[i], false), &event);
        if (err == BELFRY_OK)
            err = add_event(overlay, &event);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

bool overlay_find(const struct overlay *overlay, struct belfry_bytes key, struct belfry_bytes *kv)
{
    struct belfry_treap_node *node = belfry_treap_find(overlay->root, &key, seek_key);
    if (node != NULL)
        *kv = key_of(node)->kv;
    return node != NULL;
}

void overlay_clear(struct overlay *overlay)
{
    for (struct belfry_treap_node *node; (node = belfry_treap_first(overlay->root)) != NULL;) {
        belfry_treap_remove(&overlay->root, node, order_key);
        free(key_of(node));
    }
    overlay->bytes = 0;
}
