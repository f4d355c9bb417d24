/* tests/sim/checker.h
 *
 * checker: judges what watchers are sent, against the history. It reads the wire of a Watch stream: every request that
 * a client sends and every response that reaches it, in order. It finds out itself which watch a message belongs to,
 * joins fragments, and applies progress for all watches. judge/ compares events and progress with one past of the
 * history.
 *
 * A watch is judged as docs/spec/etcd-watch.md 7.2 has it, and more strictly:
 * - created comes first, once, in the order of the requests, with the id that was asked for or the next free one;
 *   nothing comes after canceled; a refusal is one that etcd would give, with etcd's text;
 * - events: exactly those that match range and filters, in the history's order, from the start on, each once, byte for
 *   byte. A revision is never split over two responses. A watch from 0 begins after the revision that created showed.
 *   header.revision is at or above the last event;
 * - prev_kv: present if asked for, never otherwise; missing only at or below a compaction or a listing;
 * - fragments: only if asked for, back to back, under one header;
 * - progress: only if asked for, never backwards, never beyond what has been sent;
 * - compacted: at a revision C that was compacted, for a watch that needs a revision below C; or C is the revision of a
 *   listing by which a tier learned that the past was rewritten (checker_listed());
 * - a watch lives in one past. It may belong to any past that agrees with all that it was sent. When a past is forked
 *   below what it was sent, it cannot be of the new one: only more of the old past may come, or canceled with a
 *   compact_revision. If no past agrees, that is a violation;
 * - at the end (checker_finish()) every watch of an open stream has everything of the newest past. Every create and
 *   cancel has been answered; so has a request for progress, if a tier could answer it.
 *
 * A direct stream (to the model of etcd) may do two things that etcd does: send an event at or below created's revision
 * to a watch from 0, and send progress for all before the created of a watch that was asked for later.
 *
 * A stream of lines (dialect.h) differs:
 * - it has one watch, without created and without cancel; requested progress comes as the watch's own;
 * - a revision comes event by event. Each line carries the revision of its event, so that no object is shown under the
 *   revision of an earlier state;
 * - with a pin, exactly those events are wanted that have the value, before or after;
 * - a watch that resumes from a revision is sent all of it again; or nothing of it, if its client has all of it or the
 *   watch wants one event of it. The only event of a revision never comes again. No progress is below it;
 * - the watch may be told compacted at C, too, if revision C - 1 has an event whose previous value may be missing, or
 *   if a revision below C was sent in part and has more events, even if not for this watch. Then the stream ends.
 *
 * A stream of pages has a message for each revision (dialect.h). It is a stream of lines, too, but: a message that is
 * not the last of its revision is a fragment, and the last may have no event; a watch never resumes inside a revision;
 * pins are of keys. It may be told compacted between two fragments: then what came of the revision counts as not sent.
 *
 * A violation of a watch is reported once; then the watch is ignored.
 *
 * Thread: owner.
 * Memory: aborts without memory.
 */
#ifndef BELFRY_SIM_CHECKER_H
#define BELFRY_SIM_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "core/evlog.h"
#include "sim/history.h"

struct checker;
struct checker_stream;

struct checker_opts {
    void *user;
    void (*violation)(void *user, const char *sentence); /* NULL: only counted and kept */
    void (*trace)(void *user, const char *line);         /* every request and response of every stream; NULL: none */
};

/* `history` is lent until destroy; forks and compactions are seen in it. */
struct checker *checker_create(const struct history *history, const struct checker_opts *opts);
void checker_destroy(struct checker *checker); /* streams too; NULL is fine */

/* A tier has listed upstream: because the past was rewritten (its watchers receive compact_revision = the listing's
 * revision), because upstream had compacted revisions that it lacked, or because it started cold. Its workers learn of
 * it later: `oldest_past` is the oldest past that one of them is still in. If that is older than the last rewritten
 * one, the worker slept through the rewrite and learns of it by this cut, whatever the reason of this cut. */
void checker_listed(struct checker *checker, const struct evlog_cut *cut, uint64_t oldest_past);

/* A tier is behind upstream's compaction, and tells `rev`, the revision after its own head, instead. That
 * excuses nothing if no past was compacted, and no listing told of a rewrite, at `rev` or above. */
void checker_capped(struct checker *checker, int64_t rev);

/* ---- streams ---- */

/* `name` is copied (up to 31 characters) and appears in sentences. Streams with negative explicit watch ids cannot be
 * judged; do not ask for any. */
enum checker_kind { CHECKER_TIER, CHECKER_DIRECT, CHECKER_LINES, CHECKER_PAGES };
static inline bool checker_is_of_lines(enum checker_kind kind)
{
    return kind == CHECKER_LINES || kind == CHECKER_PAGES;
}

struct checker_stream *checker_stream_open(struct checker *checker, const char *name, enum checker_kind kind);

/* Rights are asked for on this stream: creates may be refused, and watches canceled, for want of a right. guard.h
 * judges whether rightly. */
void checker_stream_is_guarded(struct checker_stream *stream);

/* Its messages were translated and written anew: their events say the same, in bytes of their own. */
void checker_stream_is_translated(struct checker_stream *stream);

/* A WatchRequest has been sent. */
void checker_stream_sent(struct checker_stream *stream, struct belfry_bytes request);

/* The next create on this stream of lines resumes from its start revision, of which its client has seen a line or
 * progress. has_all: it has seen everything of it. */
void checker_stream_resumes(struct checker_stream *stream, bool has_all);

/* A WatchResponse has been received (a piece of one, if fragmented). False: it was a violation. */
bool checker_stream_received(struct checker_stream *stream, struct belfry_bytes response);

/* The stream ended. Its watches need not be complete; a partial fragmented response is ignored. */
void checker_stream_close(struct checker_stream *stream);

/* What a client needs to resume elsewhere: the watches of a stream that are neither canceled nor wronged. */
struct checker_watch {
    int64_t id;                         /* -1: not created yet */
    struct belfry_bytes key, range_end; /* as asked */
    int64_t start;                      /* as asked */
    int64_t next;                       /* the first revision that it has not been sent; 0: not known yet */
    int64_t events;                     /* sent so far */
    bool created, cancel_sent;
    bool prev_kv, progress_notify, fragment, no_put, no_delete;
    /* of lines */
    unsigned pin;
    bool resumed, has_all; /* as asked, and as checker_stream_resumes() said */
    int64_t shown;         /* the revision that its last line carried; 0: none has come */
};
size_t checker_stream_watches(const struct checker_stream *stream);
struct checker_watch checker_stream_watch(const struct checker_stream *stream, size_t i); /* lent till the next call */

/* ---- verdict ---- */

/* When faults have stopped and all is delivered: reports watches that are still behind. True: no violation, ever. */
bool checker_finish(struct checker *checker);

/* A violation found elsewhere (memory over its bound, progress of a stale tier). */
void checker_report(struct checker *checker, const char *format, ...) __attribute__((format(printf, 2, 3)));

size_t checker_violations(const struct checker *checker);
const char *checker_violation(const struct checker *checker, size_t i); /* the first 16; NULL beyond */

/* What has been judged, so that a run can require that it happened. */
struct checker_counts {
    uint64_t streams, watches, from_zero, future, refused, created, responses, events, with_prev, prev_missing;
    uint64_t fragments, reassembled, progress_one, progress_all, canceled, compacted, rewritten;
    uint64_t crossed_forks; /* watches that rightly continued in a new past */
    uint64_t left_behind;   /* watches that a fork left in an old past */
    uint64_t finished;      /* watches that had everything at the end */
    uint64_t unknown_prev;  /* watches of lines that were lost because a previous value was missing */
};
const struct checker_counts *checker_counts(const struct checker *checker);

/* Plants wrong deliveries, one kind at a time, and checks that each is found, and that right ones pass. Returns the
 * number of kinds that were missed, and names them on stderr. */
int checker_self_test(void);

#endif
