/* src/serve/kube_page.h
 *
 * kube_page: a stretch of a list, read from the store and rendered. It travels to the reader thread, where pages of the
 * replica may be cold, and comes back as bytes; a list is as many of them as it takes, each a short snapshot of its own:
 * the first says at which revision it is, the others read the state as it was then (design.md section 7).
 *
 * Thread: owned by whoever has it: the worker's before it is handed over and after it came back.
 * Memory: at most KUBE_PAGE_BYTES of rows and about as many of text, plus one object.
 */
#ifndef BELFRY_SERVE_KUBE_PAGE_H
#define BELFRY_SERVE_KUBE_PAGE_H

#include "base/buf.h"
#include "core/store.h"
#include "kube/render.h"
#include "kube/selector.h"

#define KUBE_PAGE_BYTES (256 * 1024)
#define KUBE_PAGE_ROWS  4096

/* How its objects are written: items of a list (comma before each but the first of the list), the one object, or the
 * ADDED lines of a watch. */
enum kube_page_as { KUBE_PAGE_ITEMS, KUBE_PAGE_OBJECT, KUBE_PAGE_EVENTS };

struct kube_page {
    /* asked: fixed while it is away. The page holds its own references and bytes. */
    struct kube_resource *resource;
    const struct kube_version *version; /* of resource */
    struct kube_selector *selector;     /* NULL: everything */
    enum kube_view view;
    enum kube_include include;
    enum kube_page_as as;
    struct belfry_buf key, end; /* what is left of the range: moves on with each page */
    bool filter;                /* namespace must be compared, too: kube_resource_key() */
    struct belfry_buf namespace;
    int64_t rev;   /* the state at this revision; 0: the newest, which then becomes rev */
    int64_t floor; /* with rev 0: not older than this, else BELFRY_ERR_AGAIN */
    size_t limit;  /* objects wanted; SIZE_MAX: all */

    /* answered */
    enum belfry_err err; /* OK, AGAIN (not there yet), COMPACTED (below the window), IO, NOMEM */
    struct belfry_buf text;
    size_t n;       /* objects in all pages so far */
    bool more;      /* there may be more, from `key` on */
    size_t skipped; /* keys that are no objects */
    size_t undecodable;
    int64_t at; /* as of which revision; AGAIN: how far the store is; COMPACTED: the oldest there is */
};

/* Reads the next page of it. On the reader thread. The text of the page before must have been taken. */
void kube_page_read(struct kube_page *page, struct store *store);

/* How many rows the rest of the range has at page->rev, for remainingItemCount; -1: more than KUBE_COUNT_MAX, not told.
 * On the reader thread. */
#define KUBE_COUNT_MAX 100000
int64_t kube_page_count_rest(const struct kube_page *page, struct store *store);

void kube_page_fini(struct kube_page *page);

#endif
