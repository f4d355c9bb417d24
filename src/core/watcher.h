/* src/core/watcher.h
 *
 * watcher: a range, filters and options, belonging to one stream.
 *
 *              start behind its stream's position            start at or above
 *     created ----------------------------------> WAITING   -----------------> RIDING
 *                                                 |    ^                        ^   |
 *                          a bus reaches `next`   v    | the bus ends           |   | its range has an event of a
 *                                                BOARDED ----- at P ------------'   | revision too large for memory
 *                                                 |    |                            |
 *                  its stream takes no more bytes v    `----------> SOLO <----------'
 *                                                STALLED              |
 *                                                 `--- writable ----> WAITING <-- its revision is out
 *     any --> LOST: canceled with a compact revision, not sent yet --sent--> ENDED: the id stays taken until the
 *                                                                            client cancels it
 *
 * A watcher that starts in the future waits, too: it rides when P reaches its start. `next` is the one number a watcher
 * holds: RIDING, it receives nothing below (the point of hand-over); BOARDED, where it boarded; LOST, the compact
 * revision; otherwise its cursor.
 *
 * Thread: its worker's.
 * Memory: one allocation of sizeof(struct watcher): one process holds a million of them, so weigh each field.
 */
#ifndef BELFRY_CORE_WATCHER_H
#define BELFRY_CORE_WATCHER_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/treap.h"

struct interest_node;
struct stream;

enum watcher_state {
    WATCHER_RIDING,
    WATCHER_WAITING,
    WATCHER_BOARDED,
    WATCHER_STALLED,
    WATCHER_SOLO,
    WATCHER_LOST,
    WATCHER_ENDED
};
#define WATCHER_STATES 7

enum watcher_flags {
    WATCHER_PREV_KV = 1,
    WATCHER_NO_PUT = 2,
    WATCHER_NO_DELETE = 4,
    WATCHER_PROGRESS = 8,
    WATCHER_FRAGMENT = 16,
    WATCHER_ACTIVE = 32 /* received events since the last tick of its stream's progress timer */
};

struct watcher {
    union {
        struct belfry_treap_node place; /* RIDING, BOARDED: in a population of its node; WAITING: among those waiting */
        struct belfry_list link;        /* STALLED, SOLO, LOST: of its stream */
    };
    struct belfry_treap_node by_id; /* of its stream */
    struct interest_node *node;
    struct stream *stream;
    int64_t id;
    int64_t next;
    uint8_t state; /* enum watcher_state; moved by the registry alone */
    uint8_t flags;
    uint8_t bus;   /* BOARDED: its population */
    uint8_t queue; /* WAITING: of waiting.h */
};

/* With a node that costs so much alone: what malloc() takes for both. */
static inline size_t watcher_cost(size_t node_cost)
{
    return (sizeof(struct watcher) + 8 + 15) / 16 * 16 + node_cost;
}

static inline struct watcher *watcher_at_place(struct belfry_treap_node *node)
{
    return node == NULL ? NULL : belfry_container(node, struct watcher, place);
}

#endif
