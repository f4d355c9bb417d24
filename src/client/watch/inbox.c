/* src/client/watch/inbox.c */
#include "client/watch/inbox.h"

#include <assert.h>
#include <stdlib.h>

#include "base/sim.h"

struct belfry_inbox_item {
    struct belfry_list node;
    struct belfry_blob *message; /* one reference */
    struct belfry_wire_header header;
    bool fragment; /* the next item continues the same response */
};

static struct belfry_inbox_item *item_of(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_inbox_item, node);
}

static struct belfry_inbox_item *first_item(const struct belfry_inbox *inbox)
{
    return belfry_list_empty(&inbox->items) ? NULL : item_of(inbox->items.next);
}

static struct belfry_inbox_item *item_after(const struct belfry_inbox *inbox, struct belfry_inbox_item *item)
{
    return item->node.next == &inbox->items ? NULL : item_of(item->node.next);
}

static void drop_first(struct belfry_inbox *inbox)
{
    struct belfry_inbox_item *item = item_of(belfry_list_pop(&inbox->items));
    inbox->bytes -= belfry_blob_len(item->message);
    belfry_blob_unref(item->message);
    free(item);
}

static void inbox_restart(struct belfry_inbox *inbox)
{
    inbox->item = NULL;
    inbox->from = inbox->at = 0;
    inbox->n_events = 0;
}

static void drop_all(struct belfry_inbox *inbox)
{
    while (!belfry_list_empty(&inbox->items))
        drop_first(inbox);
    inbox_restart(inbox);
    inbox->cut = false;
    inbox->skip = inbox->given; /* parts handed out come again with the revision's first events */
}

void belfry_inbox_init(struct belfry_inbox *inbox)
{
    *inbox = (struct belfry_inbox){0};
    belfry_list_init(&inbox->items);
}

void belfry_inbox_fini(struct belfry_inbox *inbox)
{
    drop_all(inbox);
}

enum belfry_err belfry_inbox_add(struct belfry_inbox *inbox, struct belfry_blob *message,
                                 const struct belfry_wire_watch *response)
{
    assert(!inbox->cut);
    struct belfry_inbox_item *item = malloc(sizeof(*item));
    if (item == NULL)
        return BELFRY_ERR_NOMEM;
    item->message = belfry_blob_ref(message);
    item->header = response->header;
    item->fragment = response->fragment;
    inbox->bytes += belfry_blob_len(message);
    belfry_list_append(&inbox->items, &item->node);
    return BELFRY_OK;
}

bool belfry_inbox_unfinished(const struct belfry_inbox *inbox)
{
    return !belfry_list_empty(&inbox->items) && item_of(inbox->items.prev)->fragment;
}

void belfry_inbox_cut(struct belfry_inbox *inbox)
{
    if (belfry_inbox_empty(inbox))
        drop_all(inbox);
    else
        inbox->cut = true;
}

/* Is this event one that the watch has had already? */
static bool is_stale(struct belfry_inbox *inbox, int64_t rev, int64_t next_rev)
{
    if (rev < next_rev) {
        inbox->stale++;
        return true;
    }
    if (inbox->skip > 0 && rev == inbox->given_rev) {
        inbox->skip--;
        return true;
    }
    return false;
}

static enum belfry_err inbox_complete(const struct belfry_inbox *inbox, bool part, bool last,
                                      struct belfry_inbox_group *out)
{
    *out = (struct belfry_inbox_group){.rev = inbox->rev,
                                       .n_events = inbox->n_events,
                                       .part = part,
                                       .last = last,
                                       .header = inbox->item->header,
                                       .first = first_item(inbox),
                                       .end = inbox->item,
                                       .from = inbox->from,
                                       .to = inbox->at};
    return BELFRY_OK;
}

/* The revision of the first event of an item; items without events are not added. */
static enum belfry_err first_rev(const struct belfry_inbox_item *item, int64_t *out)
{
    size_t at = 0;
    struct belfry_bytes event;
    enum belfry_err err = belfry_scan_field(belfry_blob_bytes(item->message), BELFRY_WATCH_EVENTS, &at, &event);
    return err != BELFRY_OK ? BELFRY_ERR_PROTOCOL : belfry_scan_event_rev(event, out);
}

/* The end of an item was read. AGAIN: go on reading, or wait if there is nothing more (*out_wait). */
static enum belfry_err at_item_end(struct belfry_inbox *inbox, bool unmerged, struct belfry_inbox_group *out,
                                   bool *out_wait)
{
    struct belfry_inbox_item *item = inbox->item, *next = item_after(inbox, item);
    *out_wait = false;
    if (inbox->n_events == 0) {
        bool cut = inbox->cut && next == NULL;
        drop_first(inbox);
        inbox_restart(inbox);
        if (cut)
            drop_all(inbox);
        return BELFRY_ERR_AGAIN;
    }
    if (!item->fragment)
        return inbox_complete(inbox, false, true, out);
    if (next == NULL) {
        if (inbox->cut && BELFRY_MUTANT(fragments_kept))
            return inbox_complete(inbox, false, true, out);
        if (inbox->cut)
            drop_all(inbox);
        *out_wait = true;
        return BELFRY_ERR_AGAIN;
    }
    if (unmerged) {
        int64_t rev;
        enum belfry_err err = first_rev(next, &rev);
        return err != BELFRY_OK ? err : inbox_complete(inbox, rev == inbox->rev, false, out);
    }
    inbox->item = next;
    inbox->at = 0;
    return BELFRY_ERR_AGAIN;
}

enum belfry_err belfry_inbox_next(struct belfry_inbox *inbox, int64_t next_rev, bool unmerged,
                                  struct belfry_inbox_group *out)
{
    for (;;) {
        if (inbox->item == NULL && (inbox->item = first_item(inbox)) == NULL)
            return BELFRY_ERR_AGAIN;
        size_t at = inbox->at;
        struct belfry_bytes event;
        enum belfry_err err =
            belfry_scan_field(belfry_blob_bytes(inbox->item->message), BELFRY_WATCH_EVENTS, &at, &event);
        if (err == BELFRY_ERR_AGAIN) {
            bool wait;
            err = at_item_end(inbox, unmerged, out, &wait);
            if (err != BELFRY_ERR_AGAIN || wait)
                return err;
            continue;
        }
        int64_t rev;
        if (err != BELFRY_OK || (err = belfry_scan_event_rev(event, &rev)) != BELFRY_OK)
            return err;
        if (inbox->n_events > 0 && rev != inbox->rev)
            return rev < inbox->rev ? BELFRY_ERR_PROTOCOL : inbox_complete(inbox, false, false, out);
        if (inbox->n_events == 0) {
            if (is_stale(inbox, rev, next_rev)) {
                inbox->at = at;
                continue;
            }
            inbox->from = inbox->at;
            inbox->rev = rev;
        }
        inbox->n_events++;
        inbox->at = at;
    }
}

void belfry_inbox_take(struct belfry_inbox *inbox, const struct belfry_inbox_group *group)
{
    inbox->given = group->part ? (inbox->given_rev == group->rev ? inbox->given : 0) + group->n_events : 0;
    inbox->given_rev = group->rev;
    inbox->skip = 0; /* a revision that came back with fewer events must not cost a later one its own */
    while (first_item(inbox) != group->end)
        drop_first(inbox);
    inbox->n_events = 0;
    if (group->last || group->part) {
        /* nothing is left in the item: let its message go now, not when the next one comes */
        drop_first(inbox);
        inbox_restart(inbox);
        if (inbox->cut && belfry_inbox_empty(inbox))
            drop_all(inbox);
    }
}

void belfry_inbox_walk(const struct belfry_inbox_group *group, struct belfry_inbox_walk *walk)
{
    *walk = (struct belfry_inbox_walk){.group = group, .item = group->first, .at = group->from};
}

enum belfry_err belfry_inbox_walk_next(struct belfry_inbox_walk *walk, struct belfry_wire_event *out)
{
    const struct belfry_inbox_group *group = walk->group;
    for (;;) {
        struct belfry_bytes bytes = belfry_blob_bytes(walk->item->message), event;
        if (walk->item == group->end)
            bytes.len = group->to;
        enum belfry_err err = belfry_scan_field(bytes, BELFRY_WATCH_EVENTS, &walk->at, &event);
        if (err == BELFRY_OK)
            return belfry_scan_event(event, out);
        if (err != BELFRY_ERR_AGAIN || walk->item == group->end)
            return err;
        walk->item = item_of(walk->item->node.next);
        walk->at = 0;
    }
}
