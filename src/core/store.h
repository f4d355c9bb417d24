/* src/core/store.h
 *
 * store: the local copy as the core and follow use it: state, history and a few marks, at one revision. The replica
 * (LMDB) is one implementation of this table of functions, the simulator's model another.
 *
 * The writer's functions come from one thread and see their own uncommitted writes. The reader's come from another and
 * see whole commits only, each call one short snapshot; `oldest` and `past` are looked at in the snapshot that is read.
 * A view is one snapshot for several reads.
 *
 * State is key -> KeyValue. History is (revision, sub) -> Event, and the previous KeyValue. Rows, revision and oldest
 * change in one transaction.
 *
 * Errors everywhere: BELFRY_ERR_IO (the disk is full or fails: the transaction is aborted, nothing was changed; trim
 * and try again), BELFRY_ERR_NOMEM.
 */
#ifndef BELFRY_CORE_STORE_H
#define BELFRY_CORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/segment.h"
#include "wire/scan.h"

struct store_meta {
    uint64_t cluster_id, member_id, raft_term;
    int64_t revision; /* the state's; 0: empty, never filled */
    int64_t oldest;   /* history holds every revision in [oldest, revision]; revision + 1: none */
    uint64_t past;    /* of the process, not kept on disk: see evlog.h */
};

/* One row of state, lent. `from` is where a next page would go on. */
typedef bool (*store_row_fn)(struct belfry_bytes key, struct belfry_bytes kv, void *user); /* false: stop */

struct store_view;

struct store_read {
    struct store_view *view;      /* NULL: a snapshot of its own */
    struct belfry_bytes key, end; /* [key, end); an empty end: to the very end */
    int64_t rev;                  /* the state as it was then; 0: as of the snapshot */
    size_t max_rows, max_bytes;   /* at least one row is given */
    size_t max_walk; /* rows of history that are looked at on the way to an older revision; 0: all. Where that is not
                        enough no row is given and `more` is true: go on with the same read */
    bool counted;    /* count the keys of the whole range, too; with max_rows 0 that alone: no row is given */
    bool measured;   /* only the lengths of rows are looked at: what is in them need not be checked */
};

/* What one read has found, all of it in one snapshot. */
struct store_page {
    struct store_meta meta; /* the snapshot's */
    int64_t at;             /* the revision of the rows: read->rev, or the snapshot's */
    bool more;              /* rows were left; where the count alone was wanted: max_walk was not enough */
    uint64_t count;         /* keys in [key, end) at that revision, if read->counted; of no use if `more` and no row */
};

struct store;

struct store_api {
    /* ---- the writer ---- */

    /* As the writer sees it now. */
    void (*meta)(struct store *store, struct store_meta *out);

    enum belfry_err (*begin)(struct store *store);

    /* The KeyValue of `key`, lent until the next write. Errors: BELFRY_ERR_NOT_FOUND. */
    enum belfry_err (*get)(struct store *store, struct belfry_bytes key, struct belfry_bytes *kv);

    /* Applies one event of revision `rev`: moves the state and adds the history row, with the KeyValue that was there
     * before, handed out in *prev (empty: none), lent until the next write. It is read from the state here, unless the
     * caller knows it: *before, if before is not NULL (empty: none). A revision that changes a key again needs that.
     * A DELETE finds its key. `event` is as scanned; what is stored of it is without prev_kv. */
    enum belfry_err (*apply)(struct store *store, int64_t rev, uint32_t sub, const struct belfry_wire_event *event,
                             const struct belfry_bytes *before, struct belfry_bytes *prev);

    /* Everything of `rev` is applied (or nothing of the scope happened up to it). The header's ids are remembered. */
    enum belfry_err (*advance)(struct store *store, int64_t rev, const struct belfry_wire_header *header);

    /* Removes up to max_rows history rows that are over the budget of bytes or age, whole revisions only, and moves
     * `oldest` in the same transaction; returns how many rows in *n. */
    enum belfry_err (*trim)(struct store *store, uint64_t now_s, size_t max_rows, size_t *n);

    enum belfry_err (*commit)(struct store *store);
    void (*abort)(struct store *store);

    /* The reason of the last BELFRY_ERR_IO, for people: "disk full: /var/cache/belfry". May be NULL. */
    const char *(*why)(struct store *store);

    /* A new empty copy beside the current one, to be filled by put() and advance(); readers go on with the old one.
     * One at a time: an unfinished one is dropped first. adopt() makes it the store's content, under `past`, with no
     * history: oldest is revision + 1. */
    enum belfry_err (*fresh)(struct store *store);
    enum belfry_err (*put)(struct store *store, const struct belfry_wire_kv *kv); /* into the fresh copy; a newer
                                                                                    mod_revision that is there wins */
    enum belfry_err (*remove)(struct store *store, struct belfry_bytes key, int64_t rev); /* from the fresh copy, unless
                                                                                    it was written above `rev` */
    enum belfry_err (*adopt)(struct store *store, int64_t rev, const struct belfry_wire_header *header, uint64_t past);

    /* The current content goes on under a new past's number (at start). */
    void (*set_past)(struct store *store, uint64_t past);

    /* ---- the reader ---- */

    /* As of the last commit. */
    void (*snapshot)(struct store *store, struct store_meta *out);

    /* History of `past` from revision `from` on, as a segment of about max_bytes that ends at a revision boundary. A
     * revision over extent_bytes is a BATCH_EXTENT in it.
     * Errors: BELFRY_ERR_AGAIN (not committed yet), BELFRY_ERR_NOT_FOUND (older than history: *oldest says what is
     * there), BELFRY_ERR_CANCELED (another past by now). */
    enum belfry_err (*history)(struct store *store, uint64_t past, int64_t from, size_t max_bytes, struct segment **out,
                               int64_t *oldest);

    /* A slice of the revision `rev` from `sub` on. Errors: as above. */
    enum belfry_err (*slice)(struct store *store, uint64_t past, int64_t rev, uint32_t sub, size_t max_bytes,
                             struct segment **out, int64_t *oldest);

    /* State in key order, also as of an older revision inside the window. *out is written on success, after the last
     * row. Errors: BELFRY_ERR_COMPACTED (read->rev is below the window, or too much has come since to find out what was
     * there), BELFRY_ERR_AGAIN (above the last commit). */
    enum belfry_err (*range)(struct store *store, const struct store_read *read, store_row_fn row, void *user,
                             struct store_page *out);

    /* One snapshot for several ranges, all on one thread: each is as it would have been at *meta, whatever is committed
     * meanwhile. It keeps space on the disk from being used again, so it is to be short. Ends with view_end().
     * One at a time on each thread. */
    enum belfry_err (*view_begin)(struct store *store, struct store_view **out, struct store_meta *meta);
    void (*view_end)(struct store *store, struct store_view *view);

    /* ---- the writer, again ---- */

    /* Does the store hold something that was not written to it? The read or write that found it has failed with
     * BELFRY_ERR_IO. Rows that were not read yet may be wrong too: only a fresh copy helps. */
    bool (*damaged)(struct store *store);
};

struct store {
    const struct store_api *api;
};

#endif
