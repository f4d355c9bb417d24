/* src/serve/kube_list.h
 *
 * kube_list: a state on its way to a client: a LIST, a GET of one object, or what a watch begins with.
 *
 *     FENCING --upstream's revision--> READING <--the last page is out--> WRITING --the last page--> ended
 *        |                              |  ^ not there yet: again in a few ms, up to 3 s: 504
 *        `---- deadline, peer gone, drain, compacted: before the first byte a Status; behind it the body is cut off
 *
 * It holds no snapshot and one page. A client that reads slowly costs that page until the list's deadline
 * (KUBE_LIST_MS): then a body that was begun is cut off, so that nobody takes a part for the whole.
 *
 * gzip when asked and the first page is over 128 KiB (kubernetes-watch.md 2.6), on the reader's thread.
 *
 * Thread: owner (the worker's).
 * Memory: KUBE_LISTS at once in a worker; others wait in order, with their deadline.
 */
#ifndef BELFRY_SERVE_KUBE_LIST_H
#define BELFRY_SERVE_KUBE_LIST_H

#include "kube/request.h"
#include "net/exchange.h"
#include "serve/fence.h"
#include "serve/kube_page.h"

#define KUBE_LISTS   64
#define KUBE_LIST_MS 60000
#define KUBE_WAIT_MS 3000 /* for a revision that we do not have yet */

/* Has a page read on the reader thread; `back` comes on this thread. Wired by the daemon. A page that is away when its
 * list is gone is still the owner's: back() comes all the same, once. */
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
};
BELFRY_NODISCARD enum belfry_err kube_lists_create(const struct kube_lists_opts *opts, struct kube_lists **out);
void kube_lists_destroy(struct kube_lists *lists); /* each is ended; NULL is fine */

struct kube_list;
struct kube_list_ask {
    struct exchange *x; /* its handler is set here; a watch: handed back by `done` */
    const struct kube_resource *resource;
    const struct kube_version *version;
    const struct kube_selector *selector; /* may be NULL */
    struct belfry_bytes namespace, name;
    enum kube_view view;
    enum kube_include include;
    enum kube_page_as as;
    struct kube_list_plan plan;
    struct belfry_bytes continue_token;
    struct permit_who who;
    bool gzip;
    uint64_t deadline_ms; /* absolute; 0: KUBE_LIST_MS from now */
    /* A watch's state (KUBE_PAGE_EVENTS): called once when all of it has been written, or it failed before the head of
     * the response was sent (status filled) or after (status 410 or 504 to be told in the stream). When the exchange is
     * gone: err BELFRY_ERR_CANCELED. rev: the state's. Not for lists, which end by themselves. */
    void (*done)(void *user, enum belfry_err err, const struct kube_status *status, int64_t rev);
    void *user;
};
/* Everything is copied or referenced. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (too many wait), BELFRY_ERR_INVALID
 * with *status (a continue token that cannot be read): nothing was answered. */
BELFRY_NODISCARD enum belfry_err kube_list_begin(struct kube_lists *lists, const struct kube_list_ask *ask,
                                                 struct kube_list **out, struct kube_status *status);
void kube_list_cancel(struct kube_list *list); /* a watch's: `done` does not come; the exchange is the caller's again */

void kube_lists_tick(struct kube_lists *lists, uint64_t now_ms); /* deadlines, and who waits */
uint64_t kube_lists_due(const struct kube_lists *lists);

struct kube_lists_stats {
    size_t active, waiting;
    uint64_t lists, gets, objects, bytes, expired, timeouts, undecodable, skipped;
};
void kube_lists_stats(const struct kube_lists *lists, struct kube_lists_stats *out);

#endif
