/* src/client/callback_batch.c */
#include "client/callback_batch.h"

void belfry_batch_kv(const struct belfry_wire_kv *from, struct belfry_event *to)
{
    *to = (struct belfry_event){.op = BELFRY_PUT,
                                .key = from->key,
                                .value = from->value,
                                .create_rev = from->create_rev,
                                .mod_rev = from->mod_rev,
                                .version = from->version,
                                .lease = from->lease,
                                .raw = from->raw};
}

void belfry_batch_event(const struct belfry_wire_event *from, struct belfry_event *to)
{
    belfry_batch_kv(&from->kv, to);
    to->raw = from->raw;
    if (from->is_delete)
        to->op = BELFRY_DELETE;
    if (!from->has_prev)
        return;
    to->prev = from->prev.value.data != NULL ? from->prev.value : belfry_bytes_of("", 0); /* empty, not unknown */
    to->prev_create_rev = from->prev.create_rev;
    to->prev_mod_rev = from->prev.mod_rev;
    to->prev_version = from->prev.version;
    to->prev_lease = from->prev.lease;
}

void belfry_batch_header(const struct belfry_wire_header *from, struct belfry_header *to)
{
    to->cluster_id = from->cluster_id;
    to->member_id = from->member_id;
    to->raft_term = from->raft_term;
    to->revision = from->revision;
}

/* Reads the next event from any source. An unreadable one ends the walk (all were scanned before). */
static bool read_next(struct belfry_batch_view *view)
{
    struct belfry_wire_event event;
    struct belfry_wire_kv kv;
    struct belfry_bytes bytes;
    switch (view->source) {
    case BELFRY_FROM_NOTHING:
        return false;
    case BELFRY_FROM_GROUP:
        if (belfry_inbox_walk_next(&view->walk, &event) != BELFRY_OK)
            return false;
        belfry_batch_event(&event, &view->event);
        return true;
    case BELFRY_FROM_PAGE:
        if (belfry_scan_field(view->page, BELFRY_RANGE_KVS, &view->at, &bytes) != BELFRY_OK ||
            belfry_scan_kv(bytes, &kv) != BELFRY_OK)
            return false;
        belfry_batch_kv(&kv, &view->event);
        return true;
    case BELFRY_FROM_KEYS:
        if (view->at >= view->n_keys)
            return false;
        view->event =
            (struct belfry_event){.op = BELFRY_DELETE, .key = view->keys[view->at++], .mod_rev = view->batch.rev};
        return true;
    }
    return false;
}

const struct belfry_event *belfry_batch_next(const struct belfry_batch *batch, const struct belfry_event *after)
{
    struct belfry_batch_view *view = (struct belfry_batch_view *)(uintptr_t)batch; /* ours, created non-const */
    if (after == NULL) {
        view->at = view->index = 0;
        if (view->source == BELFRY_FROM_GROUP)
            belfry_inbox_walk(&view->group, &view->walk);
    }
    while (read_next(view)) {
        size_t index = view->index++;
        if (view->mask == NULL || view->mask[index / 8] >> (index % 8) & 1)
            return &view->event;
    }
    return NULL;
}
