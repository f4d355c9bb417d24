/* tests/sim/etcd.h
 *
 * etcd: a cluster of one to three members over one history, as its clients see it: Watch streams and Range reads.
 *
 * A write is in the history at once; each member applies it later, compactions included, in the order of the log. A
 * member serves any number of Watch streams and keeps etcd's rules where a client can tell: created answers and cancel
 * acknowledgements wait in one queue, events and progress in another, and the sender picks from either at random;
 * events of an id that was not announced are parked and flushed behind its created, never fragmented; a cancel drops
 * what is still queued of its id; replay takes a few revisions a response under a header that runs ahead; a response
 * that finds the queue full makes a victim of its watcher; manual progress is answered only if every watcher is synced
 * and none starts in the future, and is forgotten otherwise; a compaction cancel has header.revision 0, and blocks
 * manual progress until it is confirmed; prev_kv is missing when it was compacted. When a member goes, the others have
 * a new raft term, which it learns when it is back; a restored cluster begins with the first one again.
 *
 * Nothing happens by itself: etcd_step() lets one thing happen, and requests are taken as they come. Whoever holds a
 * stream or a read ends it; both outlive the member that served them, as broken ones.
 *
 * Thread: owner. Everything random comes from the generator given at creation.
 * Memory: no memory: abort.
 */
#ifndef BELFRY_SIM_ETCD_H
#define BELFRY_SIM_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/err.h"
#include "base/rng.h"
#include "sim/history.h"
#include "wire/scan.h"

#define ETCD_MEMBERS_MAX 3

struct etcd;
struct etcd_stream;
struct etcd_read;

struct etcd_opts {
    unsigned members;      /* 1..ETCD_MEMBERS_MAX */
    size_t fragment_bytes; /* a response of so much or more is cut, for those who asked; etcd: 2 MiB */
    unsigned replay_revs;  /* revisions with a match in a replay response; etcd: 1,000 */
    size_t queue_max;      /* responses in a stream's event queue; etcd: 128 */
    size_t wire_max;       /* messages sent and not received: more, and the sender waits */
};

/* `history` and `rng` are lent until destroy. */
struct etcd *etcd_create(struct history *history, struct belfry_rng *rng, const struct etcd_opts *opts);
void etcd_destroy(struct etcd *etcd); /* streams and reads that are still open are ended too */

/* One random thing happens in one member: a revision or compaction is applied, a leader's snapshot installed, a replay
 * pass, a victim retried, a message put on the wire, a read answered; seldom a tick of periodic progress. False: there
 * was nothing to do: every member has everything, nothing waits but for the receivers of the streams. */
bool etcd_step(struct etcd *etcd);

/* A tick of the periodic progress of every stream. */
void etcd_tick(struct etcd *etcd);

/* ---- the cluster ---- */

unsigned etcd_members(const struct etcd *etcd);
struct history *etcd_history(const struct etcd *etcd);

/* Without quorum nothing can be written, and linearizable reads fail. There is one when more than half of the members
 * are up and not cut off. The writes below return false without it. */
bool etcd_has_quorum(const struct etcd *etcd);
bool etcd_write(struct etcd *etcd);                /* history_write() */
bool etcd_write_huge(struct etcd *etcd);           /* history_write_huge() */
bool etcd_compact(struct etcd *etcd, int64_t rev); /* false also as history_compact() */

/* The member stops (its streams break, reads under way fail) and comes back with what it had applied. */
void etcd_member_stop(struct etcd *etcd, unsigned member);
void etcd_member_start(struct etcd *etcd, unsigned member);
bool etcd_member_is_up(const struct etcd *etcd, unsigned member);

/* Cut off from the others it applies nothing and falls behind, with its streams open and silent; serializable reads
 * go on. Once back it applies what it missed, or installs the leader's snapshot at once. */
void etcd_member_cut_off(struct etcd *etcd, unsigned member, bool cut_off);
bool etcd_member_is_cut_off(const struct etcd *etcd, unsigned member);

int64_t etcd_member_revision(const struct etcd *etcd, unsigned member);
int64_t etcd_member_compacted(const struct etcd *etcd, unsigned member);
struct belfry_wire_header etcd_member_header(const struct etcd *etcd, unsigned member); /* as it answers now */

/* Every member stops, and the whole cluster comes back from a snapshot at `rev`: same cluster id, same member ids, a
 * new past (history_fork()), every member up at `rev`. Streams break, reads under way fail. */
void etcd_restore(struct etcd *etcd, int64_t rev);

/* ---- Watch streams ---- */

/* NULL: the member is down. The caller ends it with etcd_stream_close(). */
struct etcd_stream *etcd_stream_open(struct etcd *etcd, unsigned member);
void etcd_stream_close(struct etcd_stream *stream); /* what is on its way is lost; NULL is fine */

/* The member went away: nothing more comes, requests are lost. Close it. */
bool etcd_stream_is_broken(const struct etcd_stream *stream);

/* Breaks it from outside: a connection lost. */
void etcd_stream_break(struct etcd_stream *stream);

void etcd_stream_request(struct etcd_stream *stream, struct belfry_bytes request); /* a WatchRequest, taken now */

/* The next WatchResponse on the wire, owned by the caller; NULL: none now. */
struct belfry_blob *etcd_stream_receive(struct etcd_stream *stream);
bool etcd_stream_readable(const struct etcd_stream *stream);

unsigned etcd_stream_member(const struct etcd_stream *stream);

/* ---- reads ---- */

struct etcd_range {
    struct belfry_bytes key, range_end; /* copied */
    int64_t limit;                      /* 0: all */
    int64_t revision;                   /* 0: now */
    bool serializable, count_only;      /* a linearizable count_only read is how the revision is asked for */
};

/* Begins a read at a member. Its answer is made in some etcd_step(), so it may be late, and in between anything may
 * happen. A linearizable one is answered by a member that has applied all that was written when it was begun; it may
 * fail for want of a leader (BELFRY_ERR_UNAVAILABLE). The caller ends it with etcd_read_end(), at any time. */
struct etcd_read *etcd_read_begin(struct etcd *etcd, unsigned member, const struct etcd_range *range);
void etcd_read_end(struct etcd_read *read); /* NULL is fine */

/* BELFRY_ERR_AGAIN: not answered yet. BELFRY_OK: *message is a RangeResponse, lent until the end of the read, *header
 * is its header. Otherwise COMPACTED, FUTURE or UNAVAILABLE. */
BELFRY_NODISCARD enum belfry_err etcd_read_poll(const struct etcd_read *read, struct belfry_bytes *message,
                                                struct belfry_wire_header *header);

/* What has happened, so that a run can insist on having met it. */
struct etcd_counts {
    uint64_t live, replays, replay_headers_ahead, fragmented, parked_flushes, compact_cancels, victims,
        dropped_by_cancel, refused_creates, future_creates;
    uint64_t progress_one, progress_all, progress_refused, progress_before_created, progress_skipped;
    uint64_t prev_missing, snapshots, restores, stops, reads, reads_failed, reads_compacted, lagging_headers;
};
const struct etcd_counts *etcd_counts(const struct etcd *etcd);

#endif
