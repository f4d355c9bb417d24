/* src/follow/backfill.h
 *
 * backfill: history that our window has lost, read from upstream in segments, for watchers that are behind.
 *
 * A request names a revision; a backfill is one watch upstream from there, with prev_kv, that yields a segment
 * whenever SEGMENT_BYTES have come or it has reached its end. The end is in the middle of the window, as the last
 * request knew it, but at most BACKFILL_BEYOND revisions into it: the window moves on meanwhile, so a watcher released
 * at the window's edge would fall out of it again. A backfill has reached X only by an event above X or a progress at
 * or above X: the header.revision of an event response runs ahead, and that of a created answer says nothing. There
 * are at most BACKFILLS at a time; equal requests share one; a backfill reads ahead of its requests. It ends if its
 * next segment is not requested within BACKFILL_IDLE_MS, or BACKFILL_YIELD_MS while other requests wait.
 *
 * Clients take turns. A backfill counts for the client whose request it began with, whoever else it serves. A client
 * gets one more while it has fewer than are free, so it leaves one to others. When all are taken and a client waits
 * that has none, a backfill that has yielded a segment ends: the second of a client immediately, any after
 * BACKFILL_TURN_MS. Requests that it served wait for their client's next turn. Requests are bounded in the same way: a
 * client may have as many as are free. What is nobody's (client 0) is for all, and is not held back.
 *
 * The proof. Upstream may have been restored from a backup since the window was filled, and a backfill would then read
 * events that never were in our past. So a segment is handed out only when it is proven: by a second watch, opened at
 * the newest revision that we hold events of, that gives exactly these events. It must be created after the backfill's
 * own watch, and before upstream loses that. No watch outlives a restore (etcd's streams break, a tier cancels), so
 * one proof is good for everything that the backfill has given and will give, up to the head that we had then. What we
 * received since may be of another past, so the backfill ends there, and the next one needs its own proof. A proof
 * costs a round trip at the beginning, while the first segment comes.
 *
 * What is not proven is kept back. If upstream loses the watch first, the stretch is read again, after a proof that is
 * then held open; this watch, too, ends at the head of its proof. While there is nothing to compare with
 * (ingest_overlap() is 0), everything is kept back. When the proof fails, requests wait for the cut that must follow;
 * if none does, they are tried again.
 *
 * A compaction is believed on the same terms, because a tier that has not noticed a restore yet reports compactions of
 * the past that ended. If a watch ends as compacted before it is proven, it is opened once more while a successful
 * proof is held open; then its answer counts.
 *
 * All watches of a backfill are to be on one stream: the proof is of the server that the stream leads to.
 *
 * Thread: owner (ingest's). Pure; ingest, and the store behind it, are read.
 * Memory: a backfill holds at most one segment being built and two finished; then its watch is paused.
 */
#ifndef BELFRY_FOLLOW_BACKFILL_H
#define BELFRY_FOLLOW_BACKFILL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/segment.h"
#include "follow/ingest.h"

#define BACKFILLS         4 /* watches at a time: the last slot is the one that proves */
#define BACKFILL_IDLE_MS  10000
#define BACKFILL_YIELD_MS 1000
#define BACKFILL_TURN_MS  2000
#define BACKFILL_BEYOND   20000
#define BACKFILL_SLOT     64 /* slots are BACKFILL_SLOT + 0..3, apart from upstream.h's */

struct backfill;

/* `seed`: of the jitter; tiers of one upstream need different ones. */
BELFRY_NODISCARD enum belfry_err backfill_create(size_t segment_bytes, uint64_t seed, struct backfill **out);
void backfill_destroy(struct backfill *backfill); /* NULL is fine */

/* Proves pasts by what `ingest` holds. Without it (tests) everything that comes is believed. */
void backfill_prove_by(struct backfill *backfill, struct ingest *ingest);

/* The history of `past` from `from`; the window begins at `oldest` (above from). */
struct backfill_ask {
    uint64_t client; /* for whom: worker_fetch.client */
    uint64_t past;
    int64_t from, oldest;
    uint64_t token; /* of the answer */
};

/* Requests it. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (1,024 requests wait, or as many of this client as leave room
 * for others: ask again later). */
BELFRY_NODISCARD enum belfry_err backfill_request(struct backfill *backfill, const struct backfill_ask *ask,
                                                  uint64_t now_ms);

/* A new past begins: drops what is under way of another and answers it with BELFRY_ERR_CANCELED. Requests of the new
 * past, which may have come before this, are served now. */
void backfill_cut(struct backfill *backfill, uint64_t past, uint64_t now_ms);

/* Watches wanted, as upstream_next() does: WATCH (with prev_kv), CLOSE, PAUSE, RESUME, PROGRESS. */
struct upstream_action;
bool backfill_next(struct backfill *backfill, uint64_t now_ms, struct upstream_action *out);

/* What comes; as in upstream.h. */
bool backfill_on_revision(struct backfill *backfill, unsigned slot, const struct ingest_revision *revision,
                          uint64_t now_ms);
void backfill_on_progress(struct backfill *backfill, unsigned slot, const struct belfry_wire_header *header,
                          uint64_t now_ms);
void backfill_on_created(struct backfill *backfill, unsigned slot, const struct belfry_wire_header *header,
                         uint64_t now_ms);
void backfill_on_end(struct backfill *backfill, unsigned slot, enum belfry_err err, int64_t compact_rev,
                     uint64_t now_ms);

/* Upstream no longer has the watch (BELFRY_MUX_LOST). Call it immediately, also for a paused watch. */
void backfill_on_lost(struct backfill *backfill, unsigned slot, uint64_t now_ms);
void backfill_tick(struct backfill *backfill, uint64_t now_ms);
uint64_t backfill_due(const struct backfill *backfill);

/* Answers, one per request. BELFRY_OK: a segment of [from, ...], one reference handed over. BELFRY_ERR_COMPACTED:
 * with compact_rev. BELFRY_ERR_CANCELED: ask again if it is still needed. False: none. */
struct backfill_answer {
    uint64_t token;
    enum belfry_err err;
    struct segment *segment;
    int64_t compact_rev;
    bool local; /* upstream was not asked */
};
bool backfill_answer(struct backfill *backfill, struct backfill_answer *out);

#endif
