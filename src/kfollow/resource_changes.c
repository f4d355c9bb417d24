/* src/kfollow/resource_changes.c */
#include "kfollow/resource_changes.h"

#include <string.h>

#include "base/xxh64.h"
#include "kfollow/resource_audit.h"

struct resource_held resource_held_of(struct belfry_hash_key hash_key, const struct belfry_wire_kv *kv, bool is_delete)
{
    uint64_t bytes = is_delete ? 0 : belfry_hash_int(belfry_xxh64(0, kv->value) | 1);
    return (struct resource_held){.rv = kv->mod_rev,
                                  .hash = belfry_hash_int(resource_hash(hash_key, kv->key, kv->lease) + bytes)};
}

void resource_changes_push(struct resource_changes *changes, struct resource_held change)
{
    if (changes->is_listed) /* what came between that object and the list is not known */
        changes->n = 0;
    changes->is_listed = changes->is_tied = false;
    if (changes->n == RESOURCE_OVERLAP) {
        changes->before_rv = changes->held[0].rv;
        memmove(changes->held, changes->held + 1, --changes->n * sizeof(changes->held[0]));
    }
    changes->held[changes->n++] = change;
}

unsigned resource_changes_begin(const struct resource_changes *changes, bool is_short)
{
    unsigned n = changes->n;
    for (unsigned i = is_short && n > 0 ? n - 1 : 0; i < n; i++) {
        int64_t before = i == 0 ? changes->before_rv : changes->held[i - 1].rv;
        int64_t after = i + 1 == n ? 0 : changes->held[i + 1].rv;
        if (changes->held[i].rv != before && changes->held[i].rv != after)
            return i;
    }
    return n;
}

void resource_changes_list(struct resource_changes *changes, struct resource_held object)
{
    if (changes->n > 0 && object.rv == changes->held[0].rv)
        changes->is_tied = true;
    if (changes->n > 0 && object.rv <= changes->held[0].rv)
        return;
    changes->held[0] = object;
    changes->n = 1;
    changes->is_listed = true;
    changes->is_tied = false;
}

static enum belfry_err hold_batch(struct resource_changes *changes, const struct batch *batch,
                                  struct belfry_hash_key hash_key)
{
    struct belfry_wire_event event;
    enum belfry_err err = batch->kind == BATCH_EVENTS ? BELFRY_OK : BELFRY_ERR_NOT_FOUND;
    for (size_t i = 0; err == BELFRY_OK && i < batch->n_events; i++) {
        err = belfry_scan_event(batch_bytes(batch, &batch->events[i], false), &event);
        if (err == BELFRY_OK)
            resource_changes_push(changes, resource_held_of(hash_key, &event.kv, event.is_delete));
    }
    return err;
}

/* From version `from` on. */
static enum belfry_err read_from(struct resource_changes *changes, const struct ingest *ingest, struct store *store,
                                 struct belfry_hash_key hash_key, int64_t from)
{
    enum belfry_err err = BELFRY_OK;
    *changes = (struct resource_changes){0};
    while (from <= ingest_head(ingest) && err == BELFRY_OK) {
        struct segment *segment;
        int64_t oldest;
        err = store->api->history(store, ingest_past(ingest), from, SEGMENT_BYTES, &segment, &oldest);
        if (err != BELFRY_OK)
            return err;
        for (size_t i = 0; i < segment->n && err == BELFRY_OK; i++)
            err = hold_batch(changes, segment->batches[i], hash_key);
        from = segment->upto + 1;
        segment_unref(segment);
    }
    return err;
}

/* By steps back that grow, because versions have gaps. */
enum belfry_err resource_changes_read(struct resource_changes *changes, const struct ingest *ingest,
                                      struct store *store, struct belfry_hash_key hash_key)
{
    struct store_meta meta;
    struct resource_changes read = {0};
    enum belfry_err err = BELFRY_OK;
    int64_t last = ingest_overlap(ingest);
    store->api->meta(store, &meta);
    for (int64_t step = RESOURCE_OVERLAP; last > 0 && last >= meta.oldest; step *= 4) {
        int64_t from = last - step > meta.oldest ? last - step : meta.oldest;
        err = read_from(&read, ingest, store, hash_key, from);
        if (err != BELFRY_OK || read.n == RESOURCE_OVERLAP || from == meta.oldest)
            break;
    }
    if (err == BELFRY_OK && read.n > 0)
        *changes = read;
    return err == BELFRY_ERR_NOMEM ? err : BELFRY_OK;
}
