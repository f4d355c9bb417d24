/* tests/sim/checker.h
 *
 * checker: judges what watchers are given, against the history. It listens on the wire of a Watch stream: every request
 * that a client sends and every response that reaches it, in order; the rest it works out itself: which watch a message
 * is of, fragments put together, progress for all.
 *
 * A watch is judged as docs/spec/etcd-watch.md 7.2 has it, and more strictly:
 * - created comes first, once, in the order of the requests, with the id that was asked for or the next free one;
 *   nothing comes behind canceled; a refusal is a refusal of something etcd refuses, with etcd's text;
 * - events: exactly those that match range and filters, in the history's order, from the start on, each once, byte for
 *   byte; a revision is never split over two responses; a watch from 0 begins behind the revision that created showed;
 *   header.revision is at or above the last event;
 * - prev_kv: there if asked for, never otherwise; missing only at or below a compaction or a listing;
 * - fragments: only if asked for, back to back, under one header;
 * - progress: only if asked for, never backwards, never beyond what has been given;
 * - compacted: with a revision C that was really compacted and a watch that needs one below C, or C is the revision of
 *   a listing by which somebody learned that the past was rewritten (checker_listed());
 * - a watch lives in one past. It may belong to any past that agrees with all it was given; when a past is forked below
 *   what it was given, it is not of the new one, and all that can still come is more of the old one, or canceled with a
 *   compact_revision. No past that agrees: a violation.
 * - at the end (checker_finish()) every watch of an open stream has all there is in the newest past; every create and
 *   cancel has been answered, and by a tier, if it could, a request for progress.
 *
 * A direct stream (to the model of etcd) gets two liberties that etcd takes: an event at or below created's revision for
 * a watch from 0, and progress for all that overtook the created of a watch it does not speak of.
 *
 * A stream of lines (dialect.h) has one watch, whose created is silent and whose cancel there is none of; a revision comes
 * event by event, and progress that was asked for as the watch's own. With a pin, exactly those events are wanted that
 * have the value, before or after. Each carries its own revision, so that no object is shown under a revision that an
 * earlier state of it had. One that resumes from a revision is given all of it again, or nothing if its client has all
 * of it or the watch wants one event of it; the only event of a revision never comes again. No progress is below it.
 * Besides, its watch may be told compacted at C if revision C - 1 has an event whose previous value may be missing, or if
 * it was given some of a revision below C that has more, though not for this watch; then the stream ends.
 *
 * A watch that was wronged is reported once and then left alone.
 *
 * Thread: owner.
 * Memory: no memory: abort.
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

/* A tier has begun anew from a listing: because the past was rewritten (its watchers are told compact_revision = the
 * listing's revision), or because upstream had compacted over its head, or because it came up cold. Its workers hear of
 * it in their own time: `oldest_past` is the oldest that one of them is still in. If that is older than the last rewritten
 * one, the worker has slept through the rewrite and finds out by this cut, whatever this one is for. */
void checker_listed(struct checker *checker, const struct evlog_cut *cut, uint64_t oldest_past);

/* A tier is behind upstream's compaction, and tells `rev`, the revision after its own head, instead. That
 * excuses nothing if no past was compacted, and no listing told of a rewrite, at `rev` or above. */
void checker_capped(struct checker *checker, int64_t rev);

/* ---- streams ---- */

/* `name` is copied (up to 31 characters) and appears in sentences. Streams with negative explicit watch ids cannot be
 * judged; do not ask for any. */
enum checker_kind { CHECKER_TIER, CHECKER_DIRECT, CHECKER_LINES };
struct checker_stream *checker_stream_open(struct checker *checker, const char *name, enum checker_kind kind);

/* A WatchRequest has been sent. */
void checker_stream_sent(struct checker_stream *stream, struct belfry_bytes request);

/* The next create on this stream of lines resumes from its start revision, of which its client has seen a line or been
 * told progress: has it everything of it? */
void checker_stream_resumes(struct checker_stream *stream, bool has_all);

/* A WatchResponse has been received (a piece of one, if fragmented). False: it was a violation. */
bool checker_stream_received(struct checker_stream *stream, struct belfry_bytes response);

/* The stream ended, by whomever. Its watches are not waited for; half a fragmented response is nothing. */
void checker_stream_close(struct checker_stream *stream);

/* What a client needs to go on elsewhere: the watches of a stream that are neither canceled nor wronged. */
struct checker_watch {
    int64_t id;                         /* -1: not created yet */
    struct belfry_bytes key, range_end; /* as asked */
    int64_t start;                      /* as asked */
    int64_t next;                       /* the first revision that it has not been given; 0: not known yet */
    int64_t events;                     /* given so far */
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

/* Once faults have stopped and all is delivered: whoever is still behind is reported. True: no violation, ever. */
bool checker_finish(struct checker *checker);

/* A violation that another judge has found (memory over its bound, progress of a stale tier). */
void checker_report(struct checker *checker, const char *format, ...) __attribute__((format(printf, 2, 3)));

size_t checker_violations(const struct checker *checker);
const char *checker_violation(const struct checker *checker, size_t i); /* the first 16; NULL beyond */

/* What has been judged, so that a run can insist on having met it. */
struct checker_counts {
    uint64_t streams, watches, from_zero, future, refused, created, responses, events, with_prev, prev_missing;
    uint64_t fragments, reassembled, progress_one, progress_all, canceled, compacted, rewritten;
    uint64_t crossed_forks; /* watches that went on into a new past, rightly */
    uint64_t left_behind;   /* watches that a fork left in an old past */
    uint64_t finished;      /* watches that had everything at the end */
    uint64_t unknown_prev;  /* watches of lines that were lost for want of a previous value */
};
const struct checker_counts *checker_counts(const struct checker *checker);

/* Plants wrong deliveries, one kind at a time, and insists that each is found, and that a right one is not. Returns the
 * number of kinds missed (0: all is well) and tells them on stderr. */
int checker_self_test(void);

#endif
