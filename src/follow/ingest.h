/* src/follow/ingest.h
 *
 * ingest: one revision from upstream into the store and the log, checked. The only writer of both.
 *
 * Every event is checked against the state it replaces: the revision is the one after the last (whole scope); a PUT of
 * version v finds v - 1 and the same create_revision; a DELETE finds its key. A revision may change a key more than
 * once (repeats.h). A breach changes nothing and is reported: upstream and we have diverged, and only a listing helps.
 *
 * The order: applied to the open transaction, appended to the log, the workers are woken (the owner's part); committed
 * when the upstream socket is drained, at the latest COMMIT_MS or COMMIT_BYTES later. An uncommitted batch never leaves
 * the log. A revision over extent_bytes is committed before the log shows its extent: readers need the rows.
 *
 * Disk trouble: a failed write aborts the open transaction, and with it revisions that are already published. Ingest
 * holds a reference to each batch since the last commit, and applies them again from there, after trimming, until the
 * disk takes them; it tries with a backoff. Meanwhile new revisions are checked against those batches (overlay.h) and
 * what is committed, published, and held too: delivery goes on from memory. It ends when what is held would be more
 * than the log may have (evlog_opts.max_bytes), or at an extent: then ingest_is_stuck(), and revisions are refused. A
 * disk that is nearly full takes some commits and not others. So trouble is over only after no write has failed for
 * INGEST_CALM_MS, and for longer if it comes back soon:
 *
 *     WELL --a write fails--> FAILING --all is committed--> CALMING --no failure for a while--> WELL
 *                                ^---------a write fails-------'
 *
 * The newest revision with events is remembered by its digest, so that an overlap can be compared without reading.
 *
 * Thread: owner (ingest's). Pure, given a store. ingest_open() also calls functions of the store's reader: call it
 * before there is a reader thread.
 */
#ifndef BELFRY_FOLLOW_INGEST_H
#define BELFRY_FOLLOW_INGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "core/evlog.h"
#include "core/store.h"
#include "follow/digest.h"
#include "wire/scan.h"

#define INGEST_COMMIT_MS    5
#define INGEST_COMMIT_BYTES (1024 * 1024)
#define INGEST_EXTENT_BYTES (16 * 1024 * 1024)
#define INGEST_CALM_MS      2000
#define INGEST_CALM_MAX_MS  15000

struct ingest;

struct ingest_opts {
    struct store *store;
    struct evlog *evlog;
    size_t extent_bytes; /* a revision over this is an extent in the log; 0: INGEST_EXTENT_BYTES */
    size_t repeat_bytes; /* previous values that are copied of a revision which changes keys again, at most; beyond that
                            it is a breach; 0: INGEST_EXTENT_BYTES */
    size_t trim_rows;    /* rows to trim per commit, at most */
    bool whole_scope;
    const struct belfry_log *log;
};

/* A whole revision as it came. */
struct ingest_revision {
    int64_t rev;
    const struct belfry_wire_event *events; /* lent */
    size_t n;
    struct belfry_wire_header header;
};

BELFRY_NODISCARD enum belfry_err ingest_create(const struct ingest_opts *opts, struct ingest **out);
void ingest_destroy(struct ingest *ingest); /* what is not committed is lost; NULL is fine */

/* Starts the log's first past from what the store has (a warm open); false: the store is empty, list first. */
BELFRY_NODISCARD enum belfry_err ingest_open(struct ingest *ingest, bool *warm);

/* Applies and publishes. Errors: BELFRY_ERR_REWOUND (a breach: nothing changed; ingest_why() says what),
 * BELFRY_ERR_AGAIN (stuck, a log full of uncommitted batches, or one whose places a sleeping worker keeps: nothing
 * changed, offer it again after ingest_tick()), BELFRY_ERR_NOMEM (likewise). */
BELFRY_NODISCARD enum belfry_err ingest_revision(struct ingest *ingest, const struct ingest_revision *revision,
                                                 uint64_t now_ms);

/* The scope saw nothing up to `rev` (a progress). Whole scope: only remembered, when it is the head. */
BELFRY_NODISCARD enum belfry_err ingest_advance(struct ingest *ingest, int64_t rev,
                                                const struct belfry_wire_header *header, uint64_t now_ms);

/* What is known of a key without its bytes. */
struct ingest_found {
    int64_t create_rev, mod_rev, version, lease;
    uint64_t value; /* XXH64 of the value */
};

/* The key as of the head. Errors: BELFRY_ERR_NOT_FOUND; BELFRY_ERR_AGAIN, BELFRY_ERR_NOMEM (the state cannot be read
 * now). */
BELFRY_NODISCARD enum belfry_err ingest_find(struct ingest *ingest, struct belfry_bytes key, uint64_t now_ms,
                                             struct ingest_found *out);

/* The upstream socket is drained: commit now if anything is open. */
void ingest_drained(struct ingest *ingest, uint64_t now_ms);

/* Commits when it is time, retries after disk trouble, trims. */
void ingest_tick(struct ingest *ingest, uint64_t now_ms);
uint64_t ingest_due(const struct ingest *ingest);

int64_t ingest_head(const struct ingest *ingest);         /* published */
int64_t ingest_committed(const struct ingest *ingest);    /* committed */
bool ingest_in_trouble(const struct ingest *ingest);      /* a write failed, and it is not over (above) */
bool ingest_is_stuck(const struct ingest *ingest);        /* and nothing more can be held: revisions are refused */
const char *ingest_why(const struct ingest *ingest);      /* of the last breach; never NULL */
const char *ingest_disk_why(const struct ingest *ingest); /* of the last trouble; never NULL */

bool ingest_is_whole(const struct ingest *ingest); /* of the whole store, in which every revision has events */

/* The number of the past: another number, another history. */
uint64_t ingest_past(const struct ingest *ingest);

/* Where an overlapping watch begins: the newest revision that we hold events of. The state of a listing has none: then
 * it is the head, which can be compared with the state. 0: none (the head of a part of the store need not have
 * events). */
int64_t ingest_overlap(const struct ingest *ingest);
bool ingest_overlap_digest(const struct ingest *ingest, struct digest *out); /* false: only the state knows */

/* Compares an overlap with ours: same types, keys, KeyValues; or with the state: every PUT is in it, no DELETE is.
 * BELFRY_OK: equal; its events are known from now on. BELFRY_ERR_REWOUND: they differ. BELFRY_ERR_NOT_FOUND: it is not
 * the revision to compare, so nothing is known. BELFRY_ERR_AGAIN, BELFRY_ERR_NOMEM: the state cannot be read now. */
BELFRY_NODISCARD enum belfry_err ingest_compare(struct ingest *ingest, const struct ingest_revision *revision,
                                                uint64_t now_ms);

/* The state includes `rev`, whose events were seen although they are not in history (a listing's watch saw them). */
void ingest_set_overlap(struct ingest *ingest, int64_t rev, struct digest digest);

/* A listing is complete in the store's fresh copy at `rev`: adopt it and cut the log. Errors: BELFRY_ERR_AGAIN (nothing
 * changed). When the log has no memory for the cut it is made by a later ingest_tick(), and ingest is in trouble until
 * then. */
BELFRY_NODISCARD enum belfry_err ingest_adopt(struct ingest *ingest, int64_t rev,
                                              const struct belfry_wire_header *header, enum evlog_cut_why why,
                                              int64_t compact_rev);

#endif
