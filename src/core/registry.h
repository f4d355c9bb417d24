/* src/core/registry.h
 *
 * registry: the streams and watchers of a worker, and where each of them is. A watcher is linked in exactly one place,
 * which its state names (watcher.h): every move from one to another is a function here. The worker's position P is here
 * too, because it decides where a watcher belongs.
 *
 * Thread: the worker's.
 * Memory: streams, watchers and answers are accounted in `bytes`.
 */
#ifndef BELFRY_CORE_REGISTRY_H
#define BELFRY_CORE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/treap.h"
#include "core/interest.h"
#include "core/output.h"
#include "core/stream.h"
#include "core/turn.h"
#include "core/waiting.h"
#include "core/watcher.h"

#define REGISTRY_BUSES 5 /* populations 1 to 5 */

/* P, and the batch after it while it is handed out. */
struct position {
    uint64_t past;        /* 0: none yet */
    int64_t at;           /* P */
    int64_t hand_out;     /* 0, or the revision that is being handed out: no watcher may start riding */
    uint64_t tell_serial; /* riding streams up to this serial have received hand_out */
};

/* A bus of the sweep: its place is the cursor of all watchers on it. */
struct registry_bus {
    int64_t at; /* the next batch it looks at has at least this revision; 0: it is not driving */
    size_t riders;
};

struct registry {
    /* fixed at creation; lent */
    struct turn *turn;
    struct interest *interest;
    struct output *output;
    uint64_t progress_ms;
    struct belfry_rng rng;

    struct position p;
    uint64_t rewritten;     /* the latest past, up to P's, in which all older watchers were lost; 0: none */
    struct position before; /* P when the past ended, for streams that the cut has not judged yet */

    struct belfry_list streams, closing;
    struct belfry_list ready;                      /* streams that have something to do, and room */
    struct belfry_list awaiting;                   /* streams that can continue when a segment comes */
    struct waiting waiting;                        /* WAITING watchers */
    struct belfry_treap_node *ticks;               /* streams by the time of their next periodic progress */
    struct registry_bus buses[REGISTRY_BUSES + 1]; /* by population; [0] is not used */

    bool stale; /* the tier is behind upstream: no progress is sent */
    uint64_t serials;
    size_t bytes;
    size_t n_streams, n_parked, n_parked_peak;
    size_t n_riding_parked; /* watchers that ride on parked streams */
    size_t n_state[WATCHER_STATES];
    size_t n_lines[LINES_FAMILIES][WATCHER_STATES], n_lines_parked[LINES_FAMILIES]; /* of these, on streams of lines */
    uint64_t n_parks, n_unparks;
};

void registry_init(struct registry *registry, struct turn *turn, struct interest *interest, struct output *output);

/* ---- watchers ---- */

/* Adds a watcher to the stream, in no place yet: watcher_place() it. It takes over the caller's count of `node`, unless
 * it fails. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err watcher_add(struct registry *registry, struct stream *stream, int64_t id,
                                             uint8_t flags, struct interest_node *node, struct watcher **out);
void watcher_detach(struct registry *registry, struct watcher *watcher); /* from the place that its state names */
void watcher_forget(struct registry *registry, struct watcher *watcher); /* detached before; frees it */

/* All of these take a watcher that is detached. */
void watcher_wait(struct registry *registry, struct watcher *watcher, int64_t cursor);
void watcher_ride(struct registry *registry, struct watcher *watcher, int64_t next);
void watcher_place(struct registry *registry, struct watcher *watcher, int64_t next); /* it rides if it can, or waits */

/* All of these detach the watcher first. */
BELFRY_NODISCARD enum belfry_err watcher_board(struct registry *registry, struct watcher *watcher,
                                               unsigned bus); /* BELFRY_ERR_NOMEM: it still waits */
void watcher_stall(struct registry *registry, struct watcher *watcher, int64_t next); /* its stream takes no more */
void watcher_solo(struct registry *registry, struct watcher *watcher, int64_t rev);   /* rev is sent to it in slices */
void watcher_lose(struct registry *registry, struct watcher *watcher, int64_t compact_rev);
void watcher_end(struct registry *registry, struct watcher *watcher); /* its loss was sent */

/* The first revision that it has not been given. */
int64_t watcher_need(const struct registry *registry, const struct watcher *watcher);
bool watcher_is_over(const struct watcher *watcher); /* LOST or ENDED */

/* Waiting watchers that start in (P, upto] ride from now on. */
void registry_ride_future(struct registry *registry, int64_t upto);

/* ---- streams ---- */

/* An open stream of this worker that can take nothing yet. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err registry_open(struct registry *registry, void *user, const struct lines *lines,
                                               uint64_t now_ms, struct stream **out);
void registry_close(struct registry *registry, struct stream *stream); /* its watchers are taken down later */
void registry_take_down(struct registry *registry); /* closing streams and their watchers, within the turn's budget */
void registry_move_stream(struct stream *stream, enum stream_state to);

/* The watchers of a stream are ordered by id. */
struct watcher *stream_find(const struct stream *stream, int64_t id);       /* NULL: it is not there */
struct watcher *stream_first_from(const struct stream *stream, int64_t id); /* the smallest id of at least `id`; NULL */
struct watcher *stream_only_watcher(const struct stream *stream);           /* of a stream of lines; NULL: none */
void stream_seek(const struct stream *stream, int64_t id, struct belfry_treap_walk *walk); /* over `by_id` */

/* Loses the riders that need a revision below `below`. */
void stream_lose_gone(struct registry *registry, struct stream *stream, int64_t below, int64_t compact_rev);

/* Drops the rest of a message, and forgets whose extent it was. */
void stream_drop_rest(struct registry *registry, struct stream *stream);

/* It has something to do: it is ready, or parked if it has no room. */
void registry_ready(struct registry *registry, struct stream *stream);
void registry_unpark(struct registry *registry, struct stream *stream);
bool registry_has_more(const struct registry *registry, const struct stream *stream); /* to do, if it had room */
void registry_ready_if_more(struct registry *registry, struct stream *stream);
void registry_await(struct registry *registry, struct stream *stream); /* a segment, or the next retry */

/* Some of the stalled watchers wait again: a little room serves only a few. */
void registry_unstall(struct registry *registry, struct stream *stream);

/* Answers are sent in the order in which they are added. A stream of lines is silent: nothing is added. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err answer_add(struct registry *registry, struct stream *stream, const struct answer *like,
                                            const char *reason, size_t reason_len);
void answer_remove(struct registry *registry, struct stream *stream, struct answer *answer);

/* ---- timers of periodic progress ---- */

void registry_set_period(struct registry *registry, struct stream *stream, uint64_t period_ms);
void registry_tick(struct registry *registry); /* streams whose timer is due become ready, with `ticking` set */
uint64_t registry_due(const struct registry *registry);

#endif
