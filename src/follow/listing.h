/* src/follow/listing.h
 *
 * listing: the state of upstream, read page by page into the store's fresh copy, while a watch delivers what changes.
 *
 *     first          reached      newest
 *     | page  page  page  | page    page     pages: at one revision; once that is compacted, at what is newest then
 *     |--- watch -------->|                  events go into the copy immediately: the newer wins
 *
 * The watch comes first, and the first page is asked for when the watch is there: a past that is rewritten breaks the
 * watch, so pages and watch are of one past as long as the watch holds. It starts at `first`, a revision that was read
 * linearizably, or before it; what came up to `first` is in the pages already, but the digest of the newest revision
 * makes the first overlap comparable.
 *
 * That holds when both are of one cluster. A watch through another tier may still be in a past that the cluster has
 * left. So the rows of the revision that the pages were read at must be the PUTs that the watch gives for it. (Not
 * compared: what the revision deletes; and pages of two revisions, of which neither shows all rows.)
 *
 * The copy is the state of no revision until every page is read and the watch has given everything up to the newest
 * page's revision; then it is the state at `reached`.
 *
 * A page may be older than what the watch has given for its keys. So the store's remove() must hold against a put of an
 * older mod_revision that comes after it.
 *
 * Thread: owner. Pure, given a store.
 */
#ifndef BELFRY_FOLLOW_LISTING_H
#define BELFRY_FOLLOW_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "follow/digest.h"
#include "follow/ingest.h"

#define LISTING_TOLD 1024 /* revisions of the watch that are remembered, for a page that comes later than they do */

/* The KeyValues that one revision has put, and not deleted again, in any order. */
struct listing_puts {
    int64_t rev;
    uint64_t n, sum;
};

struct listing {
    struct store *store;
    struct belfry_buf cursor;               /* the key the next page begins with */
    int64_t pin;                            /* the next page is read at this revision; 0: now */
    int64_t first;                          /* the watch starts here; 0: not known yet */
    int64_t newest;                         /* revision of the newest page; 0: none has come */
    int64_t reached;                        /* the watch has given everything up to here */
    bool all;                               /* the last page has come */
    bool mixed;                             /* pages are of more than one revision */
    struct listing_puts rows;               /* of the revision the pages were read at, as they show it */
    struct listing_puts told[LISTING_TOLD]; /* as the watch gives it: by revision modulo LISTING_TOLD */
    int64_t digest_rev;                     /* newest revision the watch gave events of; 0: none */
    struct digest digest;
    struct belfry_wire_header header; /* of the newest page: the ids */
};

void listing_init(struct listing *listing, struct store *store);
void listing_fini(struct listing *listing);

/* Starts over with an empty copy. Errors: the store's, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err listing_begin(struct listing *listing, struct belfry_bytes key);

/* Upstream is at `header->revision`, linearizably: what the watch starts at. */
void listing_first(struct listing *listing, const struct belfry_wire_header *header);

/* The page asked for is compacted: asked for again as of now. False: it was as of now. */
bool listing_unpin(struct listing *listing);

/* A RangeResponse. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_CLUSTER, BELFRY_ERR_REWOUND (pages that cannot be of one
 * past), the store's: start over. */
BELFRY_NODISCARD enum belfry_err listing_page(struct listing *listing, struct belfry_bytes response);

/* A revision of the watch. Errors: the store's: start over. */
BELFRY_NODISCARD enum belfry_err listing_revision(struct listing *listing, const struct ingest_revision *revision);
void listing_progress(struct listing *listing, int64_t rev);

/* The highest revision that upstream has shown it. */
int64_t listing_shown(const struct listing *listing);

/* True: the copy is the state at *rev. */
bool listing_whole(const struct listing *listing, int64_t *rev);

/* False: pages and watch are of two pasts. Of a whole one. */
bool listing_agrees(const struct listing *listing);

#endif
