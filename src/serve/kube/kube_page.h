/* src/serve/kube/kube_page.h
 *
 * kube_page: a part of a list, read from the store and rendered. It is read on the reader thread, because pages of the
 * replica may be cold, and comes back as bytes. A list is as many pages as needed, each a short snapshot of its own:
 * the first determines the revision, the others read the state as it was then (decision 0017).
 *
 * The texts of all pages, one after the other, are the body of the response. The first holds the beginning of a list,
 * the last its end with continue and remainingItemCount. With gzip the texts are packed when the first page is larger
 * than KUBE_PACK_BYTES.
 *
 * Reading a page takes at most about KUBE_PAGE_MS of the reader; then the page ends. At an older revision the later
 * rows must be walked first (replica/older.h), KUBE_PAGE_WALK rows at a time: until that is done pages are empty.
 *
 * Thread: the worker's before it is handed over and after it came back; the reader's in between.
 * Memory: a text of KUBE_PAGE_BYTES and one object; rows are read one by one. With gzip also
 *         about 270 KiB from the first packed page to the last (zlib's window and tables).
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_PAGE_H
#define BELFRY_SERVE_KUBE_KUBE_PAGE_H

#include "base/buf.h"
#include "core/store.h"
#include "kube/render.h"
#include "kube/selector.h"
#include "kube/token.h"

#define KUBE_PAGE_BYTES   (256 * 1024)
#define KUBE_PAGE_ROWS    4096
#define KUBE_PAGE_SELECTS 16 /* times as many rows are read with a selector, until the text is that long */
#define KUBE_PAGE_MS      20
#define KUBE_PAGE_WALK    8192
#define KUBE_PACK_BYTES   (128 * 1024) /* docs/spec/kubernetes-watch.md 2.6 */

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
    size_t base;                /* bytes at the front of key that tokens omit */
    bool filter;                /* namespace must be compared, too: kube_resource_key() */
    struct belfry_buf namespace;
    int64_t rev;                     /* the state at this revision; 0: the newest, which then becomes rev */
    int64_t floor;                   /* with rev 0: not older than this, else BELFRY_ERR_AGAIN */
    size_t limit;                    /* objects wanted; SIZE_MAX: all */
    bool gzip;                       /* may be packed */
    struct kube_token_origin origin; /* process: this one, for a token; past: the one that rev is of; 0: not known */

    /* answered */
    enum belfry_err
        err; /* OK, AGAIN (not there yet), COMPACTED (below the window), IO, NOMEM; who carries it: CANCELED */
    struct belfry_buf text;
    bool packed;        /* all text is; said by the first page */
    size_t n;           /* objects in all pages so far */
    bool more;          /* another page is to be read, from `key` on */
    size_t skipped;     /* keys of this page that are no objects */
    size_t undecodable; /* and values */
    int64_t at;         /* as of which revision; AGAIN: how far the store is; COMPACTED: the oldest there is */

    /* its own */
    bool begun;                     /* the beginning of the list is written */
    bool is_led;                    /* with its metadata first */
    uint64_t past;                  /* of the first page that has something: see store_meta */
    struct z_stream_s *gzip_stream; /* owned; NULL: nothing is packed */
};

/* Sets key, end, namespace and filter: the one object, all of the namespace, or (both empty) everything. resource is
 * set.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_page_aim(struct kube_page *page, struct belfry_bytes namespace,
                                               struct belfry_bytes name);

/* Where the range begins: what a continue token says. It is without the prefix of the resource's keys; of a verbatim
 * resource also without the namespace of the list, as in an API server's token, so that one can continue the other's
 * list. Lent. */
struct belfry_bytes kube_page_start(const struct kube_page *page);

/* Makes it begin there instead; false (and nothing has moved): that is not in the range. *err: no memory. */
bool kube_page_skip_to(struct kube_page *page, struct belfry_bytes start, enum belfry_err *err);

/* Reads the next page of it. On the reader thread. The text of the page before must have been taken. After an error
 * there is no text; after AGAIN nothing has moved, and it may be read again. A revision whose past was rewritten
 * since the first page, or since the token that it is from (origin), is COMPACTED. OK with no text and `more`: it takes
 * longer, and nothing is known yet. */
void kube_page_read(struct kube_page *page, struct store *store);

/* How many rows the rest of the range has at page->rev, for remainingItemCount; -1: not told, because that would
 * take longer than the reader has time for, or the rows cannot be read. On the reader thread. */
int64_t kube_page_count_rest(const struct kube_page *page, struct store *store);

void kube_page_fini(struct kube_page *page); /* fine for one that is all zeroes */

#endif
