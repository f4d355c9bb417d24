/* src/follow/upstream.h
 *
 * upstream: the machine that follows. Answers of upstream's watches and reads go in; the watches and reads that it
 * wants come out; revisions go to ingest in order, each once.
 *
 *              store empty                                    no watch, or it broke: the owner's link resumes it
 *     START ----------------> LISTING ----all pages, and the watch has passed the newest----> LIVE
 *       |                      ^   ^                                                          ^ |
 *       | warm                 |   `-- compacted over our head; breach; cut off; damage ------|-'
 *       `------> JOINING ------'                                                              |
 *                  |  ^  overlap at R equal: near the head                                    |
 *                  |  `---------------------------------------------------------------------->|
 *                  `--far behind--> REPLAYING --- merged up to the live watch ---------------'
 *
 * JOINING: the watch starts at R, the last revision we hold events of. What arrives at R must equal ours and is
 * dropped. If it differs, or is missing although upstream has passed R, the past was rewritten. Without events of ours
 * (a replica opened on the state of a listing) R is the head, and what arrives must have left the state that we have.
 * If R is compacted, the watch starts after our head, and nothing of it is taken before a key of R, read after the
 * watch was created, is found as we left it (key_witness.h); without such a key, only a linearizable read can be
 * asked. In a part of the store without events of ours, nothing need arrive at the head: there, too, nothing is taken
 * before a witness is heard.
 *
 * A resume is a join. The owner's client creates a broken watch again by itself, after the last revision and so
 * without an overlap. So a second created answer closes the watch and joins again at R: one round trip and one
 * revision more per fault, and no special case in the client. (If the client always resumed a revision early it would
 * save the round trip, and every other user of the client would have to drop that revision.)
 *
 * REPLAYING: up to UPSTREAM_WINDOWS watches of UPSTREAM_WINDOW revisions each, 64 MiB together, merged in order; the
 * live watch is the last of them, without an end. A window is complete only by its last event or one above it, or a
 * progress at or above its end. Each overlaps the one before by a revision (replay.h). In a part of the store that is
 * quiet, progress of the live watch ends it, too, once what upstream has shown was found to be ours.
 *
 * Being behind is lag: a header below what we have asks for a linearizable read (a judgement). Only a judgement below
 * ours, another cluster id, or a breach means that the past was rewritten. While REPLAYING, a header below what
 * upstream has shown asks, too: if the judgement is below that, windows wait for revisions that are gone, and we join
 * again.
 *
 * LISTING: a linearizable revision; the watch from there; when that is created, pages, all at the revision of the
 * first; a compacted page is asked for again unpinned. The listing is consistent when the watch has passed the newest
 * page's revision. It is built in the store's fresh copy; the old content serves until ingest_adopt(). If the watch
 * ends or is created again, if pages and watch are of two pasts, or upstream falls behind what it has shown, it starts
 * over (listing.h).
 *
 * Damage: a store with rows that are not what was written is filled by a listing, too, but no cursor is cut off:
 * backfills serve cursors from what upstream still has. That it is the same past must be shown as in JOINING, so the
 * listing's watch begins at R.
 *
 * Stale: UPSTREAM_STALE_MS without an event that was taken or a progress at or above our head; or upstream, a tier,
 * says that it is stale itself (upstream_cut_off()), which it knows after such a silence of its own. After a gap of
 * the clock, what the sockets hold is read before anything is judged: the first tick after a gap only notes it; the
 * first tick after upstream_drained(), or UPSTREAM_TICK_MS later, judges.
 *
 * The owner calls ingest_open() first, and then leaves ingest to this machine, which calls its tick and drained. After
 * every call that gives something in, the owner calls upstream_next() until it returns false.
 *
 * Thread: owner (ingest's). Pure: no socket, no clock; the store behind ingest is called.
 */
#ifndef BELFRY_FOLLOW_UPSTREAM_H
#define BELFRY_FOLLOW_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "follow/ingest.h"

#define UPSTREAM_STALE_MS 5000
#define UPSTREAM_TICK_MS  500  /* a tick is due at least this often */
#define UPSTREAM_GAP_MS   1000 /* a tick this much later than due: the process was stopped */
#define UPSTREAM_PROGRESS_MS                                                                                           \
    800 /* progress is asked for after this much silence: its header has a term (term.h) that
                                      is to be at most a second old */
#define UPSTREAM_WINDOWS      32
#define UPSTREAM_WINDOW       1000
#define UPSTREAM_FAR          4000 /* revisions behind from which a replay is staggered */
#define UPSTREAM_REPLAY_BYTES (64 * 1024 * 1024)
#define UPSTREAM_PAGE         1000 /* keys per page of a listing */

struct upstream;

enum upstream_state { UPSTREAM_START, UPSTREAM_JOINING, UPSTREAM_REPLAYING, UPSTREAM_LISTING, UPSTREAM_LIVE };

struct upstream_opts {
    struct ingest *ingest;
    struct store *store;                /* for the fresh copy of a listing, and R */
    struct belfry_bytes key, range_end; /* the scope, as on the wire; everything: "\0", "\0" */
    int64_t window, far;                /* 0: the defaults above */
    size_t replay_bytes;                /* 0: the default */
    int64_t page;                       /* 0: the default */
    uint64_t seed;                      /* of the jitter: tiers of one upstream need different ones */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err upstream_create(const struct upstream_opts *opts, struct upstream **out);
void upstream_destroy(struct upstream *upstream); /* NULL is fine */

/* ---- what is wanted ---- */

enum upstream_want {
    UPSTREAM_WANT_WATCH,    /* open a watch of the scope from .rev, as .slot, resumed by the owner through faults; no
                               prev_kv, fragments asked for, no progress_notify needed */
    UPSTREAM_WANT_CLOSE,    /* close the watch .slot: nothing of it comes in any more */
    UPSTREAM_WANT_REVISION, /* a linearizable read of upstream's revision; answer with .token */
    UPSTREAM_WANT_PAGE,     /* a page of state: from .key to the end of the scope, .limit keys, at .rev (0: now,
                               linearizable); answer with .token */
    UPSTREAM_WANT_PROGRESS, /* ask for progress on the stream of the watch .slot */
    UPSTREAM_WANT_PAUSE,    /* take nothing more from .slot until it is resumed (disk trouble, replay window full) */
    UPSTREAM_WANT_RESUME
};

struct upstream_action {
    enum upstream_want want;
    unsigned slot; /* 0: the live watch; 1..UPSTREAM_WINDOWS: replay windows */
    int64_t rev, limit;
    uint64_t token;
    struct belfry_bytes key; /* lent until the answer */
};

/* The next action; false: none now. */
bool upstream_next(struct upstream *upstream, uint64_t now_ms, struct upstream_action *out);

/* ---- what comes ---- */

/* A revision of a watch, whole. False: not taken; the owner keeps it and offers it again after UPSTREAM_WANT_RESUME of
 * that slot (the slot is paused). */
bool upstream_on_revision(struct upstream *upstream, unsigned slot, const struct ingest_revision *revision,
                          uint64_t now_ms);

/* Everything up to header->revision has been given on this watch. */
void upstream_on_progress(struct upstream *upstream, unsigned slot, const struct belfry_wire_header *header,
                          uint64_t now_ms);

/* A watch was (re)created on some member: its created answer's header. Says nothing about what was delivered. */
void upstream_on_created(struct upstream *upstream, unsigned slot, const struct belfry_wire_header *header,
                         uint64_t now_ms);

/* The watch ended for good. BELFRY_ERR_COMPACTED: with compact_rev. BELFRY_ERR_REWOUND, BELFRY_ERR_CLUSTER: found by
 * the owner's client. After anything else the machine asks for it again. */
void upstream_on_end(struct upstream *upstream, unsigned slot, enum belfry_err err, int64_t compact_rev,
                     uint64_t now_ms);

/* Answers: a linearizable revision; a page (a RangeResponse); or a failure. BELFRY_ERR_COMPACTED: of a pinned page.
 * BELFRY_ERR_UNAVAILABLE: the connection of the pages was lost since the last one, even while idle; the cluster may
 * have been restored meanwhile, so a listing begins again. Anything else is retried with backoff. */
void upstream_on_read(struct upstream *upstream, uint64_t token, const struct belfry_wire_header *header,
                      uint64_t now_ms);
void upstream_on_page(struct upstream *upstream, uint64_t token, struct belfry_bytes response, uint64_t now_ms);
void upstream_on_read_failed(struct upstream *upstream, uint64_t token, enum belfry_err err, uint64_t now_ms);

/* Where we were when a linearizable read was sent. */
struct upstream_mark {
    uint64_t past;
    int64_t head;
};

/* A linearizable read on the connection of the live watch, sent when we were at `sent`, was answered with this header.
 * True: upstream is at or above that head, so our past is still its own. False: it is not, and a listing begins; or we
 * do not follow live now; or we have another past since, of which the answer says nothing. */
BELFRY_NODISCARD bool upstream_confirm(struct upstream *upstream, const struct upstream_mark *sent,
                                       const struct belfry_wire_header *header, uint64_t now_ms);

/* Reads wait until we have everything up to `rev`, which upstream has and the scope may not: progress is asked for as
 * soon as we follow live, until it reaches that far. May be repeated at will. */
void upstream_reach(struct upstream *upstream, int64_t rev, uint64_t now_ms);

/* All that the sockets held has come in. */
void upstream_drained(struct upstream *upstream, uint64_t now_ms);

/* Upstream itself says that it is stale: so are we, without waiting for a silence of our own. */
void upstream_cut_off(struct upstream *upstream, uint64_t now_ms);

void upstream_tick(struct upstream *upstream, uint64_t now_ms);
uint64_t upstream_due(const struct upstream *upstream);

/* ---- how it stands ---- */

enum upstream_state upstream_state(const struct upstream *upstream);
bool upstream_stale(const struct upstream *upstream); /* as of the last tick or event */
bool upstream_ready(const struct upstream *upstream); /* LIVE and not stale */

/* Since the last join, something of upstream was found to follow what we have: ours is upstream's past. */
bool upstream_proven(const struct upstream *upstream);

struct upstream_stats {
    uint64_t relists_unproven; /* nothing could show that the past was not rewritten */
    uint64_t relists_damaged;  /* because of the store */
    uint64_t rewrites;         /* listings that were adopted as another past than the one before */
    uint64_t revisions, events, overlaps, listings, relists_compacted, relists_rewritten, breaches, judgements, replays,
        windows, pages, pages_repeated, gaps, stale;
};
void upstream_stats(const struct upstream *upstream, struct upstream_stats *out);

#endif
