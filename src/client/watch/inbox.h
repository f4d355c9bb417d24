/* src/client/watch/inbox.h
 *
 * inbox: what one watch has been sent and has not taken yet, read as whole revisions.
 *
 * Responses go in as they come; groups (all events of one revision) come out. A group may be a part of one response (a
 * replay holds up to 1,000 revisions) or span several (a response cut into fragments). Events are never copied: a group
 * is a stretch of the items that hold it.
 *
 *     item        item (fragment)      item
 *     [r5 r5 r6] [r7 r7 r7]           [r7 r8]
 *      `group´
 *
 * A response whose rest will never come (its stream ended, or its watch let go) is cut: the revision at its end may be
 * incomplete, is dropped, and is asked for again.
 *
 * Thread: owner. Pure.
 * Memory: the responses themselves, by reference; the owner bounds belfry_inbox.bytes.
 */
#ifndef BELFRY_CLIENT_WATCH_INBOX_H
#define BELFRY_CLIENT_WATCH_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/list.h"
#include "wire/scan.h"

struct belfry_inbox_item; /* one response */

struct belfry_inbox {
    struct belfry_list items;
    size_t bytes;   /* of all items */
    bool cut;       /* the rest of the last item's response will not come */
    uint64_t stale; /* events dropped because they are older than what the watch needs */
    /* the group being put together: starts in the first item at from, has been read up to `at` in `item` */
    struct belfry_inbox_item *item; /* NULL: nothing read yet */
    size_t from, at;
    int64_t rev;
    size_t n_events; /* 0: no group begun */
    /* unmerged: events of given_rev handed out in parts already, so that a break does not repeat them */
    int64_t given_rev;
    size_t given, skip;
};

/* All events of one revision, or a part of them (unmerged). Lent until belfry_inbox_take(). */
struct belfry_inbox_group {
    int64_t rev;
    size_t n_events;
    bool part;                             /* more of this revision follows */
    bool last;                             /* nothing more of the same response follows */
    struct belfry_wire_header header;      /* of the response, or of its latest fragment */
    struct belfry_inbox_item *first, *end; /* items; the group ends in `end` at `to` */
    size_t from, to;
};

/* Walks the events of a group. */
struct belfry_inbox_walk {
    const struct belfry_inbox_group *group;
    struct belfry_inbox_item *item;
    size_t at;
};

void belfry_inbox_init(struct belfry_inbox *inbox);
void belfry_inbox_fini(struct belfry_inbox *inbox); /* drops everything */

static inline bool belfry_inbox_empty(const struct belfry_inbox *inbox)
{
    return belfry_list_empty(&inbox->items);
}

/* True while at most one response is held. */
static inline bool belfry_inbox_single(const struct belfry_inbox *inbox)
{
    return inbox->items.next == inbox->items.prev;
}

/* Adds a response with events, taking a reference of its own to `message`. Errors: BELFRY_ERR_NOMEM, nothing changed.
 */
BELFRY_NODISCARD enum belfry_err belfry_inbox_add(struct belfry_inbox *inbox, struct belfry_blob *message,
                                                  const struct belfry_wire_watch *response);

/* True while the last response added is a fragment: more of it must follow. */
bool belfry_inbox_unfinished(const struct belfry_inbox *inbox);

/* The rest of the last response will not come; nothing is added until the inbox has emptied itself. */
void belfry_inbox_cut(struct belfry_inbox *inbox);

/* The next whole group with a revision of at least next_rev; older events are dropped and counted.
 * Errors: BELFRY_ERR_AGAIN (none is complete), BELFRY_ERR_PROTOCOL (an event cannot be read, or revisions go back). */
BELFRY_NODISCARD enum belfry_err belfry_inbox_next(struct belfry_inbox *inbox, int64_t next_rev, bool unmerged,
                                                   struct belfry_inbox_group *out);

/* The group last returned has been taken. */
void belfry_inbox_take(struct belfry_inbox *inbox, const struct belfry_inbox_group *group);

/* Starts and goes on. Errors of next: BELFRY_ERR_AGAIN (no more), BELFRY_ERR_PROTOCOL (the event cannot be read). */
void belfry_inbox_walk(const struct belfry_inbox_group *group, struct belfry_inbox_walk *walk);
BELFRY_NODISCARD enum belfry_err belfry_inbox_walk_next(struct belfry_inbox_walk *walk, struct belfry_wire_event *out);

#endif
