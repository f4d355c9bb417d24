/* src/serve/kube/kube_list.h
 *
 * kube_list: a state that is sent to a client: a LIST, a GET of one object, or the state that a watch begins with.
 *
 *      .-- it need not be the latest --.
 *     NEW                               QUEUED --a place is free--> READING --a page--> WRITING --the last one--> ended
 *      `--> FENCING --upstream's rev. --'  ^                          ^                   | | the page is out
 *                                          | a few ms                 `-------------------|-'
 *                                          `--- PAUSED <-- not there yet (KUBE_WAIT_MS long, then 504)
 *
 * An API server may name a version that the follower of a quiet resource has not seen. A list that waits for it asks
 * the fence first, which proves how far the resource is (PAUSED --> FENCING).
 *
 * A place is for one page; there are KUBE_LISTS. A list that waits for upstream, or for a revision, has no place.
 * Clients take turns, and no client has more than half of the places (lanes.h).
 *
 * A failure (deadline, compacted, no memory) is answered with a Status before the first byte. After it the body is cut
 * off, so that no client takes a part for the whole.
 *
 * A list holds one page and no snapshot. A client that reads slowly costs that page until the list's deadline
 * (KUBE_LIST_MS). When another list would have its place, because all are taken or because it waits on the same
 * connection, a page that is not written after KUBE_STALL_MS ends its list: 50 KB/s are enough.
 *
 * A list is packed with gzip on the reader's thread if the client accepts it and the first page is over 128 KiB
 * (docs/spec/kubernetes-watch.md 2.6). `pretty` is ignored: clients format compact JSON for people themselves.
 *
 * Thread: owner (the worker's).
 * Memory: KUBE_LISTS pages per room (kube_room.h). At most KUBE_LISTS_WAITING lists, and KUBE_LISTS_BYTES of their
 * requests, wait. Each counts as one of SHARES_LISTS (shares.h).
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_LIST_H
#define BELFRY_SERVE_KUBE_KUBE_LIST_H

#include "kube/request.h"
#include "serve/kube/kube_page.h"
#include "serve/kube/kube_room.h"
#include "serve/rights/fence.h"
#include "serve/rights/lanes.h"
#include "server/exchange.h"

#define KUBE_LIST_MS  60000
#define KUBE_WAIT_MS  3000 /* for a revision that we do not have yet */
#define KUBE_STALL_MS 5000 /* for a page, when others wait */

/* Reads a page on the reader thread; `back` comes once, on this thread, never from inside read(). It comes also when
 * the list is gone, and when kube_lists is gone, on any thread. page->err BELFRY_ERR_CANCELED: there is no reader any
 * more. At most KUBE_LISTS pages are away at once. Wired by the daemon. */
struct kube_reader {
    void (*read)(struct kube_reader *reader, struct kube_page *page, void (*back)(struct kube_page *page, void *user),
                 void *user);
};

struct kube_lists; /* those of one worker */

struct kube_lists_opts {
    struct kube_reader *reader;
    struct fence *fence;
    uint64_t (*now)(void *user);
    void *user;
    uint64_t process;       /* for tokens (token.h): the same in all workers, another in another process; not 0 */
    struct kube_room *room; /* shared with other lists of the worker; NULL: one of its own */
};
BELFRY_NODISCARD enum belfry_err kube_lists_create(const struct kube_lists_opts *opts, struct kube_lists **out);
void kube_lists_destroy(struct kube_lists *lists); /* each list ends, with 503 if nothing was sent; NULL is fine */

struct kube_list;
struct kube_list_ask {
    struct exchange *x; /* its handler is set here; a watch: handed back by `done` */
    const struct kube_resource *resource;
    const struct kube_version *version;
    const struct kube_selector *selector; /* may be NULL */
    struct belfry_bytes namespace, name;  /* a name makes ITEMS a list of at most one */
    enum kube_view view;
    enum kube_include include;
    enum kube_page_as as;
    struct kube_list_plan plan;
    struct belfry_bytes continue_token;
    struct identity who;
    bool gzip;
    bool head_only;       /* HEAD: a GET's response without its body */
    uint64_t deadline_ms; /* absolute; 0: KUBE_LIST_MS from now */
    /* For a watch's state (KUBE_PAGE_EVENTS), whose caller has sent the head of the response. Called once: when all of
     * it was written, when it failed (with a lent *status for the stream), or when the exchange is gone
     * (BELFRY_ERR_CANCELED). rev: the state's; 0: none was read. The caller then owns the exchange again, and sets
     * another handler or ends it before it returns. Lists end by themselves. */
    void (*done)(void *user, enum belfry_err err, const struct kube_status *status, int64_t rev);
    void *user;
};
/* Everything is copied or referenced. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (too many wait), BELFRY_ERR_INVALID
 * with *status (a continue token that cannot be read, or of another range): nothing was answered, and the handler is
 * unchanged. *out is for a watch's kube_list_cancel(); a list may end at any time. */
BELFRY_NODISCARD enum belfry_err kube_list_begin(struct kube_lists *lists, const struct kube_list_ask *ask,
                                                 struct kube_list **out, struct kube_status *status);

/* A watch's: `done` does not come. The caller owns the exchange again, and sets another handler or ends it. */
void kube_list_cancel(struct kube_list *list);

/* A watch's, before it is cancelled or from inside `done`: writes the rest of a line that was begun, whatever the room.
 * False: that would be more than EXCHANGE_ROOM, so the line stays incomplete. */
BELFRY_NODISCARD bool kube_list_end_line(struct kube_list *list);

void kube_lists_tick(struct kube_lists *lists,
                     uint64_t now_ms);                   /* ends late lists, and gives places to those that wait */
uint64_t kube_lists_due(const struct kube_lists *lists); /* when to tick; BELFRY_NEVER: nothing waits */

struct kube_lists_stats {
    size_t active, waiting;                                                        /* with a place, and without one */
    uint64_t lists, gets, objects, bytes, expired, timeouts, undecodable, skipped; /* a watch's state is a list */
};
void kube_lists_stats(const struct kube_lists *lists, struct kube_lists_stats *out);

#endif
