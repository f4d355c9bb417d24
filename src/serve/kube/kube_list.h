/* src/serve/kube/kube_list.h
 *
 * kube_list: a state on its way to a client: a LIST, a GET of one object, or what a watch begins with.
 *
 *      .-- it need not be the latest --.
 *     NEW                               QUEUED --a place is free--> READING --a page--> WRITING --the last one--> ended
 *      `--> FENCING --upstream's rev. --'  ^                          ^                   | | the page is out
 *                                          | a few ms                 `-------------------|-'
 *                                          `--- PAUSED <-- not there yet (KUBE_WAIT_MS long, then 504)
 *
 * A place is for a page, of which there are KUBE_LISTS: who waits for upstream, or for a revision, has none.
 *
 * Deadline, peer gone, compacted, no memory: before the first byte a Status; behind it the body is cut off, so that
 * nobody takes a part for the whole.
 *
 * It holds no snapshot and one page. A client that reads slowly costs that page until the list's deadline
 * (KUBE_LIST_MS); when all places are taken and others wait for one, a page that is not out after KUBE_STALL_MS is the
 * end of its list: 50 KB/s are enough.
 *
 * A list is packed with gzip on the reader's thread if the client accepts it and the first page is over 128 KiB
 * (docs/spec/kubernetes-watch.md 2.6). `pretty` is ignored: clients format compact JSON for people themselves.
 *
 * Thread: owner (the worker's).
 * Memory: KUBE_LISTS pages at once in a worker; others wait in order, with their deadline, KUBE_LISTS_WAITING of them
 * and KUBE_LISTS_BYTES of what they asked.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_LIST_H
#define BELFRY_SERVE_KUBE_KUBE_LIST_H

#include "kube/request.h"
#include "serve/kube/kube_page.h"
#include "serve/rights/fence.h"
#include "server/exchange.h"

#define KUBE_LISTS         64 /* at once, pages that are still away for a list that is gone included */
#define KUBE_LISTS_WAITING 10000
#define KUBE_LISTS_BYTES   (32 * 1024 * 1024)
#define KUBE_LIST_MS       60000
#define KUBE_WAIT_MS       3000 /* for a revision that we do not have yet */
#define KUBE_STALL_MS      5000 /* for a page, when others wait */

/* Has a page read on the reader thread; `back` comes on this thread, never from inside read(). Wired by the daemon. A
 * page that is away when its list is gone is still the owner's: back() comes all the same, once; when kube_lists is
 * gone, too, on any thread. page->err BELFRY_ERR_CANCELED: there is no reader any more. At most KUBE_LISTS are away
 * at once. */
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
    uint64_t process; /* for tokens (token.h): the same in all workers, another in another process; not 0 */
};
BELFRY_NODISCARD enum belfry_err kube_lists_create(const struct kube_lists_opts *opts, struct kube_lists **out);
void kube_lists_destroy(struct kube_lists *lists); /* each is ended, with 503 where that can be said; NULL is fine */

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
    struct permit_who who;
    bool gzip;
    bool head_only;       /* HEAD: what a GET would say before its body */
    uint64_t deadline_ms; /* absolute; 0: KUBE_LIST_MS from now */
    /* A watch's state (KUBE_PAGE_EVENTS), whose caller has sent the head of the response: called once when all of it
     * has been written, or it failed (status filled: to be told in the stream; lent), or the exchange is gone: err
     * BELFRY_ERR_CANCELED. rev: the state's; 0: none was read. From then on the exchange is the caller's, who sets
     * another handler before he returns, or ends it. Not for lists, which end by themselves. */
    void (*done)(void *user, enum belfry_err err, const struct kube_status *status, int64_t rev);
    void *user;
};
/* Everything is copied or referenced. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (too many wait), BELFRY_ERR_INVALID
 * with *status (a continue token that cannot be read, or of another range): nothing was answered, and the handler is
 * as it was. *out is for kube_list_cancel(): a list's may end at any time. */
BELFRY_NODISCARD enum belfry_err kube_list_begin(struct kube_lists *lists, const struct kube_list_ask *ask,
                                                 struct kube_list **out, struct kube_status *status);

/* A watch's: `done` does not come; the exchange is the caller's again, who sets another handler or ends it at once. */
void kube_list_cancel(struct kube_list *list);

/* A watch's, before it is cancelled or from inside `done`: what is missing of a line that has been begun is written,
 * whatever the room is. False: that would be more than EXCHANGE_ROOM, so that half a line is all there will be. */
BELFRY_NODISCARD bool kube_list_end_line(struct kube_list *list);

void kube_lists_tick(struct kube_lists *lists, uint64_t now_ms); /* deadlines, and who waits */
uint64_t kube_lists_due(const struct kube_lists *lists);         /* when to tick; BELFRY_NEVER: nothing waits */

struct kube_lists_stats {
    size_t active, waiting;                                                        /* with a place, and without */
    uint64_t lists, gets, objects, bytes, expired, timeouts, undecodable, skipped; /* a watch's state is a list */
};
void kube_lists_stats(const struct kube_lists *lists, struct kube_lists_stats *out);

#endif
