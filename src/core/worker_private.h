/* src/core/worker_private.h
 *
 * worker_private: what the files of the worker share. One file each: worker.c (the turn), streams.c (requests),
 * output.c (bytes), lines.c (streams of lines), source.c (where batches come from), gather.c (who wants a batch), fanout.c (live), sweep.c
 * (catching up), extent.c (revisions too large for memory), cut.c (a past that ended).
 *
 * Thread: the worker's.
 */
#ifndef BELFRY_CORE_WORKER_PRIVATE_H
#define BELFRY_CORE_WORKER_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/treap.h"
#include "core/interest.h"
#include "core/rest.h"
#include "core/stream_private.h"
#include "core/sweep.h"
#include "core/watcher.h"
#include "core/worker.h"

#define WORKER_OUT_BYTES   (64 * 1024)      /* gathered for one stream before it is written */
#define WORKER_REST_COPY   (16 * 1024)      /* the unsent rest of a message up to this size is a copy */
#define WORKER_FETCHES     16               /* wanted or under way at once */
#define WORKER_PROGRESS_MS (10 * 60 * 1000) /* as in etcd */
#define WORKER_RETRY_MS    10               /* after a fetch that failed */
#define WORKER_QUANTUM     256              /* messages for one stream before the next has its turn */
#define WORKER_UNSTALL     64               /* watchers that wait again when their stream is writable */

/* Who wants a batch: for each node the events, as indices into `picks`. */
struct gather_group {
    struct interest_node *node;
    uint32_t first, n;
    uint32_t order; /* of appearance */
};
#define GATHER_PAIRS_MAX (256 * 1024) /* of (event, node); a batch with more is handed out as an extent is */
struct gather {
    /* what it holds; rev 0: nothing */
    int64_t rev;
    bool too_large;
    unsigned population;
    uint64_t generation;
    struct gather_group *groups;
    size_t n_groups;
    uint32_t *picks;
    /* storage */
    size_t cap_groups, cap_picks, n_pairs, cap_pairs;
    struct gather_pair *pairs;
};

/* The next watcher of each group, smallest id first: a heap. */
struct fanout_head {
    struct watcher *watcher;
    uint32_t group;
};

struct fetch_slot {
    struct worker_fetch fetch;
    enum { FETCH_FREE, FETCH_WANTED, FETCH_SENT } state;
};

struct kept_segment {
    struct segment *segment; /* NULL: free */
    uint64_t used;           /* turn */
};
#define WORKER_SEGMENTS 16

struct worker {
    /* fixed at creation */
    struct worker_opts opts;
    struct belfry_rng rng;

    /* where it is */
    uint64_t past;        /* 0: no past yet */
    int64_t at;           /* P */
    int64_t hand_out;     /* not 0: the batch after P is being handed out; nobody joins those who ride meanwhile */
    uint64_t tell_serial; /* it has been told to riding streams up to this serial */
    uint32_t scan_sub;    /* if it is an extent, its rows have been looked through up to here */
    bool overslept;       /* P fell out of the log; counted once */

    /* of this turn */
    struct evlog_view view;
    uint64_t now, turn;
    size_t work; /* units left */
    bool in_turn;

    struct interest *interest;
    uint64_t generation; /* of the index: moves when a node or a population changes */
    struct gather gather;
    struct fanout_head *heads;
    size_t cap_heads;

    struct belfry_list streams, ready, awaiting, closing;
    struct belfry_list fresh;        /* streams that the batch just absorbed has something for */
    struct belfry_list held;         /* streams that can go on only when P has moved */
    struct belfry_treap_node *ticks; /* streams by the time of their next tick */
    uint64_t serials;
    size_t n_streams, n_parked;
    size_t n_riding_parked; /* watchers of parked streams that are not behind them */
    size_t n_state[WATCHER_STATES];
    size_t n_lines[2][WATCHER_STATES], n_lines_parked[2]; /* of these, those of lines; [1]: the tier's own */

    struct sweep sweep;
    struct belfry_list cutting; /* streams whose watchers are still to be judged by the cut */
    uint64_t sweep_past;        /* the cut that everybody has been judged by */
    struct evlog_cut cut;
    int64_t cut_at;       /* P before it */
    int64_t cut_hand_out; /* what was being handed out then, and to whom it had been told */
    uint64_t cut_tell_serial;
    int64_t gone_below; /* neither upstream nor our window has anything below this, in this past */
    int64_t gone_told;  /* what those who need it are told: upstream's compaction */

    struct fetch_slot fetches[WORKER_FETCHES];
    struct kept_segment segments[WORKER_SEGMENTS];
    size_t segment_bytes;
    uint64_t retry_at; /* BELFRY_NEVER */

    /* output: bytes gathered for `out_stream` */
    uint8_t *out;
    size_t out_len;
    struct stream *out_stream;
    size_t open_at; /* start of the catch-up response at the end of `out`; SIZE_MAX: none */
    int64_t open_id;
    uint32_t open_revs;

    struct response_header header; /* of header_rev */
    int64_t header_rev;            /* 0: none is made */

    bool stale;
    size_t bytes;      /* accounted, but for the index */
    size_t rest_bytes; /* of those, of rests */
    struct worker_stats stats;
};

/* ---- watchers and streams (streams.c) ---- */
static inline void worker_spend(struct worker *worker, size_t units)
{
    worker->work -= units < worker->work ? units : worker->work;
}

/* What failed for want of memory, or of a place, is tried again soon. */
static inline void worker_retry_later(struct worker *worker)
{
    if (worker->now + WORKER_RETRY_MS < worker->retry_at)
        worker->retry_at = worker->now + WORKER_RETRY_MS;
}

static inline struct watcher *watcher_at_place(struct belfry_treap_node *node)
{
    return node == NULL ? NULL : belfry_container(node, struct watcher, place);
}

void watcher_move(struct watcher *watcher, struct worker *worker, enum watcher_state to);
void watcher_detach(struct worker *worker, struct watcher *watcher); /* from wherever its state has it linked */
void watcher_wait(struct worker *worker, struct watcher *watcher, int64_t cursor); /* detached before */
void watcher_ride(struct worker *worker, struct watcher *watcher, int64_t next);   /* detached before */
void watcher_lose(struct worker *worker, struct watcher *watcher, int64_t compact_rev);
void watcher_place(struct worker *worker, struct watcher *watcher,
                   int64_t next); /* detached: ride if it can, or wait */
int64_t watcher_need(const struct worker *worker, const struct watcher *watcher); /* first revision not given */
void stream_move(struct worker *worker, struct stream *stream, enum stream_state to);
void stream_ready(struct worker *worker, struct stream *stream); /* has something to do, if it has room */
void stream_take_down(struct worker *worker);                    /* closing streams, in slices */
void streams_answer_given(struct worker *worker, struct stream *stream, struct answer *answer);
int watcher_seek_id(const void *key, const struct belfry_treap_node *node); /* key: int64_t */
struct watcher *stream_only_watcher(const struct stream *stream);   /* a stream of lines has one; NULL: none (yet) */
void streams_unstall(struct worker *worker, struct stream *stream); /* a few of those who got off wait again */
void ticks_join(struct worker *worker, struct stream *stream);
void ticks_leave(struct worker *worker, struct stream *stream);
void ticks_run(struct worker *worker);
bool stream_has_more(const struct worker *worker, const struct stream *stream);

/* ---- output.c ---- */
enum output_result {
    OUTPUT_GIVEN,
    OUTPUT_NOTHING,
    OUTPUT_MORE, /* the budget ended inside the revision, of lines: give it again */
    OUTPUT_NO_ROOM
};
void output_flush(struct worker *worker);
/* Rest, answers, and what was lost, in this order. True: nothing of it is left, and there is room. */
bool output_pending(struct worker *worker, struct stream *stream);
enum output_result output_events(struct worker *worker, struct watcher *watcher, const struct response_pick *pick,
                                 bool catching_up);
bool output_control(struct worker *worker, struct stream *stream, const struct belfry_wire_watch *watch);
/* Consumes the reference; there is room for at least a byte, and no rest. False: out of memory, not given. */
bool output_line(struct worker *worker, struct stream *stream, struct belfry_blob *line);
void output_drop(struct worker *worker, struct stream *stream);
void output_rest_end(struct worker *worker, struct stream *stream);
void output_account_rest(struct worker *worker, struct stream *stream); /* after what it holds has changed */
struct belfry_wire_header output_header(const struct worker *worker, int64_t rev);

/* ---- lines.c ---- */
enum lines_result {
    LINES_GIVEN,   /* or it is not for him; the stream's place is behind the event */
    LINES_NO_ROOM, /* or no memory */
    LINES_LOST     /* what was before is needed and gone: the watcher is to be lost */
};
enum lines_result lines_event(struct worker *worker, struct watcher *watcher, const struct batch *batch,
                              uint32_t event);
enum output_result lines_events(struct worker *worker, struct watcher *watcher, const struct response_pick *pick);
/* Has a client that resumed from `rev` all of it, because only so many of its events are for it? */
bool lines_has_it(const struct stream *stream, int64_t rev, size_t n_events);
uint32_t lines_place(const struct stream *stream, int64_t rev);                    /* sub of the next event of `rev` */
void lines_pass(struct stream *stream, const struct batch *batch, uint32_t event); /* the place is behind it */
void lines_lose_doomed(struct worker *worker, struct stream *stream);
/* False: no room, or no memory. */
bool lines_progress(struct worker *worker, struct stream *stream);
bool lines_lost(struct worker *worker, struct stream *stream, int64_t compact_rev);

/* ---- source.c ---- */
enum source_result {
    SOURCE_BATCH,
    SOURCE_NONE, /* no batch in [from, *upto] */
    SOURCE_WAIT, /* history is asked for */
    SOURCE_GONE  /* nobody has it: below worker->gone_below */
};
enum source_result source_next(struct worker *worker, int64_t from, int64_t limit, const struct batch **out,
                               int64_t *upto);
/* Event `sub` of `rev`, and some that follow. The rows of one revision may be at hand twice, and differ: slices are our
 * replica's; whole comes from a backfill, which lacks the previous values that upstream has compacted. A response that is
 * measured and then written must read the same rows both times. So it begins with whole, which rest.h then holds to the
 * end; what was begun with slices goes on with slices. */
enum source_prefer { SOURCE_PREFER_SLICES, SOURCE_PREFER_WHOLE };
enum source_result source_slice(struct worker *worker, int64_t rev, uint32_t sub, enum source_prefer prefer,
                                const struct batch **out);
void source_forget(struct worker *worker); /* another past: segments and fetches go */
void source_retry(struct worker *worker);  /* after a fetch that failed, when it is time */

/* ---- gather.c ---- */
/* Who in `population` wants the batch, into worker->gather. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_TOO_LARGE (more than
 * GATHER_PAIRS_MAX: go through it as through an extent). */
enum belfry_err gather_batch(struct worker *worker, const struct batch *batch, unsigned population);
/* Who wants one event; the array is the index's, good until the next call. Errors: BELFRY_ERR_NOMEM. */
enum belfry_err gather_event(struct worker *worker, const struct batch *batch, uint32_t event, unsigned population,
                             struct interest_node ***nodes, size_t *n);
void gather_fini(struct gather *gather);

/* ---- fanout.c ---- */
bool fanout_absorb(struct worker *worker); /* the log's new batches; false: it waits, or there are none */
void fanout_stream(struct worker *worker, struct stream *stream);
int watcher_seek_place(const void *key, const struct belfry_treap_node *node); /* key: struct watcher_place_key */
struct watcher_place_key {
    uint64_t serial;
    int64_t id;
};

/* ---- sweep.c ---- */
bool sweep_start(struct worker *worker);
bool sweep_drive(struct worker *worker); /* true: there is more to drive now */
void sweep_woken(struct worker *worker); /* a segment came */
uint64_t sweep_due(const struct worker *worker);
int sweep_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b);
void sweep_future(struct worker *worker, int64_t upto); /* those who start in (P, upto] ride from now on */

/* ---- extent.c ---- */
enum extent_result { EXTENT_DONE, EXTENT_WAIT, EXTENT_MORE, EXTENT_GONE };
/* Makes solo those of `population` whose range has an event of `rev`: of one stream, or (NULL) for live: of riding
 * streams, for a bus: of all. *sub is how far it is. */
enum extent_result extent_scan(struct worker *worker, int64_t rev, uint32_t *sub, unsigned population,
                               struct stream *stream);
/* Goes on with the stream's solo watchers. False: it waits or has no room. */
bool extent_solo(struct worker *worker, struct stream *stream);
bool extent_feed(struct worker *worker, struct stream *stream); /* slices its rest wants; false: awaited */

/* ---- cut.c ---- */
void cut_begin(struct worker *worker);
bool cut_judge(struct worker *worker);                         /* in slices; true: all are judged */
void cut_stream(struct worker *worker, struct stream *stream); /* this one now */
void cut_gone(struct worker *worker, struct stream *stream);   /* its riders who need what is gone are lost */

#endif
