/* src/client/follow.h
 *
 * follow: state first, then changes, as a machine: pages of a listing and revisions of a watch go in; slices of state,
 * filtered changes, vanished keys and "synced" come out.
 *
 *     LISTING --last page--> SYNCING --watch has passed the newest page--> SWEEPING --vanished keys reported--> LIVE
 *        ^                                                                                                      |
 *        `------------- the watch ended: history lost, or the past rewritten ---------------------------------'
 *
 * The watch starts after the first page's revision while the listing still runs, so that no compaction can come between
 * them; its changes are passed on immediately. A page that is compacted away is requested again at a newer revision, so
 * that a long listing under constant compaction continues instead of starting over. This is correct because the follow
 * remembers keys: for each key, the newest revision reported in this epoch. It drops any row or change that is older.
 * When SYNCING ends, everything up to the newest page has passed through the watch, and the state is complete. Keys not
 * seen in this epoch vanished while history was lost; the follow reports them as deletes.
 *
 * Thread: owner. Pure.
 * Memory: one record per key (its bytes and about 48 more), without its value.
 */
#ifndef BELFRY_CLIENT_FOLLOW_H
#define BELFRY_CLIENT_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/watch/inbox.h"

#define BELFRY_FOLLOW_SLICE 128 /* vanished keys reported together */

struct belfry_follow;

struct belfry_follow_opts {
    struct belfry_bytes key, range_end; /* as on the wire; lent for the life of the follow */
    size_t page_bytes;                  /* target size */
    uint64_t seed;                      /* of the hash */
};

BELFRY_NODISCARD enum belfry_err belfry_follow_create(const struct belfry_follow_opts *opts,
                                                      struct belfry_follow **out);
void belfry_follow_destroy(struct belfry_follow *follow); /* NULL is fine */

struct belfry_follow_page {
    struct belfry_bytes key; /* the first key; lent until the page arrives */
    int64_t rev;             /* 0: current */
    int64_t limit;
};

/* The next page to request; false if none. The same until belfry_follow_on_page() or _on_page_error(). */
bool belfry_follow_wants_page(const struct belfry_follow *follow, struct belfry_follow_page *out);

/* A RangeResponse arrived. *mask (n_rows bits, lent until the next call) selects the rows to report as state; *n_kept
 * is their number. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM: rows were noted but not reported: end the follow. */
BELFRY_NODISCARD enum belfry_err belfry_follow_on_page(struct belfry_follow *follow, struct belfry_bytes response,
                                                       const uint8_t **mask, size_t *n_kept);

/* The page is compacted away: it will be requested at a newer revision. */
void belfry_follow_on_page_compacted(struct belfry_follow *follow);

/* Where the watch must start, after the first page; 0: not known yet, or already started. */
int64_t belfry_follow_wants_watch(const struct belfry_follow *follow);
void belfry_follow_watching(struct belfry_follow *follow);

/* The watch delivered a revision. *mask NULL: report all of it; otherwise as for a page.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_PROTOCOL: the memory of keys is incomplete: end the follow. */
BELFRY_NODISCARD enum belfry_err belfry_follow_on_changes(struct belfry_follow *follow,
                                                          const struct belfry_inbox_group *group, const uint8_t **mask,
                                                          size_t *n_kept);

/* The watch has received everything up to `rev`. */
void belfry_follow_on_progress(struct belfry_follow *follow, int64_t rev);

/* The watch ended because history was lost or rewritten: the listing starts again. Do not pass in a page that was
 * requested before. */
void belfry_follow_restart(struct belfry_follow *follow);

/* True in SYNCING: needs a progress of the watch, or a change at or above the newest page. Requesting progress is
 * faster; where that is not possible, the server's periodic progress or the next change does it. */
bool belfry_follow_wants_progress(const struct belfry_follow *follow);

/* In SWEEPING, before any further change goes in: the next slice of vanished keys, lent until the next call; 0 after
 * the last one, when LIVE is reached: report "synced". Errors: BELFRY_ERR_NOMEM. */
bool belfry_follow_sweeping(const struct belfry_follow *follow);
BELFRY_NODISCARD enum belfry_err belfry_follow_sweep(struct belfry_follow *follow, const struct belfry_bytes **keys,
                                                     size_t *n);

bool belfry_follow_live(const struct belfry_follow *follow);
int64_t belfry_follow_rev(const struct belfry_follow *follow); /* LIVE: the state is complete at it */
size_t belfry_follow_n_keys(const struct belfry_follow *follow);

#endif
