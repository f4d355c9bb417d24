/* src/client/follow.h
 *
 * follow: state first, then changes, as a machine: pages of a listing and what a watch gives go in; slices of state,
 * filtered changes, vanished keys and "synced" come out.
 *
 *     LISTING --last page--> SYNCING --the watch has passed the newest page--> SWEEPING --all vanished told--> LIVE
 *        ^                                                                                                      |
 *        `------------- the watch ended: history lost, or the past rewritten ---------------------------------'
 *
 * The watch starts behind the first page's revision while the listing still runs, so no compaction can come between;
 * its changes are given as they come. A page that is compacted away is asked for again at a newer revision: a long
 * listing under constant compaction goes on instead of starting over. What makes that right is the memory of keys: for
 * each key the newest revision told in this epoch, so that a row or a change older than what was told is dropped, from
 * whichever side it comes. At SYNCING everything up to the newest page has passed through the watch, and the state is
 * whole. Keys not seen in this epoch have vanished while history was lost: they are told as deletes.
 *
 * Thread: owner. Pure.
 * Memory: one record a key (its bytes and about 48 more), not its value.
 */
#ifndef BELFRY_CLIENT_FOLLOW_H
#define BELFRY_CLIENT_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/watch/inbox.h"

#define BELFRY_FOLLOW_SLICE 128 /* vanished keys told at once */

struct belfry_follow;

struct belfry_follow_opts {
    struct belfry_bytes key, range_end; /* as on the wire; lent for the life of the follow */
    size_t page_bytes;                  /* aimed at */
    uint64_t seed;                      /* of the hash */
};

BELFRY_NODISCARD enum belfry_err belfry_follow_create(const struct belfry_follow_opts *opts,
                                                      struct belfry_follow **out);
void belfry_follow_destroy(struct belfry_follow *follow); /* NULL is fine */

struct belfry_follow_page {
    struct belfry_bytes key; /* from here; lent until the page comes */
    int64_t rev;             /* 0: now */
    int64_t limit;
};

/* The next page to ask for; false when none is wanted. The same until belfry_follow_on_page() or _on_page_error(). */
bool belfry_follow_wants_page(const struct belfry_follow *follow, struct belfry_follow_page *out);

/* A RangeResponse came. *mask (n_rows bits, lent until the next call) says which rows are to be told as state; *n_kept
 * how many. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM: some rows were noted and none told: the follow must end. */
BELFRY_NODISCARD enum belfry_err belfry_follow_on_page(struct belfry_follow *follow, struct belfry_bytes response,
                                                       const uint8_t **mask, size_t *n_kept);

/* The page is compacted away: it will be asked for at a newer revision. */
void belfry_follow_on_page_compacted(struct belfry_follow *follow);

/* Where the watch must start, once the first page has come; 0: not yet, or it has started. */
int64_t belfry_follow_wants_watch(const struct belfry_follow *follow);
void belfry_follow_watching(struct belfry_follow *follow);

/* The watch gave a revision. *mask NULL: tell all of it; otherwise as for a page.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_PROTOCOL: the key memory cannot be kept, the follow must end. */
BELFRY_NODISCARD enum belfry_err belfry_follow_on_changes(struct belfry_follow *follow,
                                                          const struct belfry_inbox_group *group, const uint8_t **mask,
                                                          size_t *n_kept);

/* The watch has everything up to `rev`. */
void belfry_follow_on_progress(struct belfry_follow *follow, int64_t rev);

/* The watch is gone for lost history or a rewritten past: the listing starts anew. A page that was asked for before
 * must not be given any more. */
void belfry_follow_restart(struct belfry_follow *follow);

/* True in SYNCING: a progress of the watch, or a change at or above the newest page, is needed to go on. Asking for
 * progress is faster; where that cannot be done, the server's periodic progress or the next change comes. */
bool belfry_follow_wants_progress(const struct belfry_follow *follow);

/* In SWEEPING, before any further change goes in: the next slice of vanished keys, lent until the next call; 0 when all
 * have been told, and LIVE is reached: time to say "synced". Errors: BELFRY_ERR_NOMEM. */
bool belfry_follow_sweeping(const struct belfry_follow *follow);
BELFRY_NODISCARD enum belfry_err belfry_follow_sweep(struct belfry_follow *follow, const struct belfry_bytes **keys,
                                                     size_t *n);

bool belfry_follow_live(const struct belfry_follow *follow);
int64_t belfry_follow_rev(const struct belfry_follow *follow); /* the state told is whole at this revision, when LIVE */
size_t belfry_follow_n_keys(const struct belfry_follow *follow);

#endif
