/* src/follow/listing.c */
#include "follow/listing.h"

#include "base/sim.h"
#include "follow/repeats.h"

#define RANGE_MORE 3 /* field of RangeResponse */

void listing_init(struct listing *listing, struct store *store)
{
    *listing = (struct listing){.store = store};
    belfry_buf_init(&listing->cursor);
}

void listing_fini(struct listing *listing)
{
    belfry_buf_fini(&listing->cursor);
}

static enum belfry_err set_cursor(struct listing *listing, struct belfry_bytes key, struct belfry_bytes behind)
{
    belfry_buf_clear(&listing->cursor);
    enum belfry_err err = belfry_buf_append(&listing->cursor, key.data, key.len);
    return err != BELFRY_OK ? err : belfry_buf_append(&listing->cursor, behind.data, behind.len);
}

enum belfry_err listing_begin(struct listing *listing, struct belfry_bytes key)
{
    *listing = (struct listing){.store = listing->store, .cursor = listing->cursor};
    enum belfry_err err = set_cursor(listing, key, (struct belfry_bytes){"", 0});
    return err != BELFRY_OK ? err : listing->store->api->fresh(listing->store);
}

bool listing_unpin(struct listing *listing)
{
    bool was_pinned = listing->pin != 0;
    listing->pin = 0;
    return was_pinned;
}

void listing_first(struct listing *listing, const struct belfry_wire_header *header)
{
    listing->header = *header;
    listing->first = header->revision;
    listing->reached = header->revision - 1; /* a watch that has sent nothing yet may belong to any past */
}

/* Which revision the page shows: the pinned one, or its header's. */
static enum belfry_err place_page(struct listing *listing, const struct belfry_wire_header *header)
{
    if (header->cluster_id != listing->header.cluster_id)
        return BELFRY_ERR_CLUSTER;
    if (header->revision < listing->first || header->revision < listing->newest)
        return BELFRY_ERR_REWOUND;
    if (listing->pin == 0) {
        listing->mixed = listing->newest != 0;
        listing->pin = listing->newest = header->revision;
        listing->rows = (struct listing_puts){.rev = header->revision};
    }
    return BELFRY_OK;
}

static void count_put(struct listing_puts *puts, const struct belfry_wire_kv *kv)
{
    struct belfry_wire_event event = {.kv = *kv};
    puts->n++;
    puts->sum += digest_of(&event, 1).hash;
}

static enum belfry_err put_rows(struct listing *listing, struct belfry_bytes response, struct belfry_bytes *last)
{
    struct belfry_bytes message;
    size_t at = 0;
    enum belfry_err err;
    while ((err = belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &message)) == BELFRY_OK) {
        struct belfry_wire_kv kv;
        err = belfry_scan_kv(message, &kv);
        if (err == BELFRY_OK)
            err = listing->store->api->put(listing->store, &kv);
        if (err != BELFRY_OK)
            return err;
        if (kv.mod_rev == listing->rows.rev)
            count_put(&listing->rows, &kv);
        *last = kv.key;
    }
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

enum belfry_err listing_page(struct listing *listing, struct belfry_bytes response)
{
    struct belfry_wire_header header;
    struct belfry_bytes last = {0};
    uint64_t more = 0;
    enum belfry_err err = belfry_scan_response_header(response, &header);
    if (err == BELFRY_OK)
        err = belfry_scan_number(response, RANGE_MORE, &more);
    if (err == BELFRY_OK)
        err = place_page(listing, &header);
    if (err == BELFRY_OK)
        err = put_rows(listing, response, &last);
    if (err != BELFRY_OK)
        return err;
    listing->all = more == 0;
    if (listing->all)
        return BELFRY_OK;
    if (last.len == 0)
        return BELFRY_ERR_PROTOCOL; /* more, but not from where */
    return set_cursor(listing, last, (struct belfry_bytes){"", 1});
}

/* Those that the revision has left as they were: pages show no others. */
static enum belfry_err remember_puts(struct listing *listing, const struct ingest_revision *revision)
{
    struct listing_puts *puts = &listing->told[revision->rev % LISTING_TOLD];
    struct repeats repeats = {0};
    enum belfry_err err = repeats_find(&repeats, revision->events, revision->n);
    if (err != BELFRY_OK)
        return err;
    *puts = (struct listing_puts){.rev = revision->rev};
    for (size_t i = 0; i < revision->n; i++)
        if (!revision->events[i].is_delete && !repeats_changed_later(&repeats, i))
            count_put(puts, &revision->events[i].kv);
    repeats_clear(&repeats);
    return BELFRY_OK;
}

enum belfry_err listing_revision(struct listing *listing, const struct ingest_revision *revision)
{
    const struct store_api *api = listing->store->api;
    listing->digest_rev = revision->rev;
    listing->digest = digest_of(revision->events, revision->n);
    if (revision->rev < listing->first) /* the pages contain its result */
        return BELFRY_OK;
    for (size_t i = 0; i < revision->n && revision->rev > listing->first; i++) {
        const struct belfry_wire_event *event = &revision->events[i];
        enum belfry_err err = event->is_delete ? api->remove(listing->store, event->kv.key, event->kv.mod_rev)
                                               : api->put(listing->store, &event->kv);
        if (err != BELFRY_OK)
            return err;
    }
    enum belfry_err err = remember_puts(listing, revision);
    if (err == BELFRY_OK)
        listing_progress(listing, revision->rev);
    return err;
}

void listing_progress(struct listing *listing, int64_t rev)
{
    if (rev > listing->reached)
        listing->reached = rev;
}

int64_t listing_shown(const struct listing *listing)
{
    int64_t shown = listing->first > listing->newest ? listing->first : listing->newest;
    return listing->reached > shown ? listing->reached : shown;
}

bool listing_whole(const struct listing *listing, int64_t *rev)
{
    if (!listing->all)
        return false;
    if (BELFRY_MUTANT(snapshot_at_head)) {
        *rev = listing->newest > listing->reached ? listing->newest : listing->reached;
        return true;
    }
    *rev = listing->reached;
    return listing->reached >= listing->newest;
}

bool listing_agrees(const struct listing *listing)
{
    const struct listing_puts *rows = &listing->rows, *told = &listing->told[rows->rev % LISTING_TOLD];
    if (listing->mixed || listing->reached < rows->rev || told->rev > rows->rev)
        return true; /* nothing can be said */
    if (told->rev < rows->rev)
        return rows->n == 0; /* the watch has passed that revision, and it had no events */
    return told->n == rows->n && told->sum == rows->sum;
}
