/* src/client/watch/mux.h
 *
 * mux: many watches on one Watch stream, held through faults of servers and connections. The watch machine of the
 * client.
 *
 * Messages and `now` go in; requests to send and actions (give this batch, this watch has ended) come out. The mux
 * opens no stream itself: it says when it wants one (belfry_mux_wants_stream), its owner reports when one is up or
 * down, and the mux creates every watch again from its own place, pipelined. A watch is a revision: `next_rev`, the
 * first not given yet.
 *
 *   NEED_REV --belfry_mux_revision--> WAITING --create sent--> CREATING --created--> OPEN
 *                                        ^  ^                     |                   |  paused, over its bound:
 *                                        |  `----- stream down ---+-------------------+  cancelled upstream
 *                                        |                                            v
 *                                        `------ resumed and inbox drained ------- PARKED
 *   any --> ENDING (what is in the inbox is still given, then the end) --> freed
 *   any --> REMOVED (by its own action's callback; freed by belfry_mux_taken)
 *
 * What the server knows of a watch is a subscription (sub), which lives as long as the stream. Created answers come in
 * the order of the creates, so a sub is matched to its created answer by order, and from then on by id. A removed
 * watch leaves its sub behind as an orphan, which drops what still comes until the server has confirmed the cancel.
 *
 * The first create of a stream goes alone. A server that names its cluster in the answer is an etcd and answers in
 * order: the rest is pipelined. Others (kine answers in any order) get one create at a time.
 *
 * Thread: owner. Pure.
 * Memory: a watch that is not paused holds at most the fragments of one revision, bounded by max_revision_bytes; a
 * paused one at most pause_bytes and one response. Creates are sent while fewer than 1,024 (or 1 MiB) are unanswered.
 */
#ifndef BELFRY_CLIENT_WATCH_MUX_H
#define BELFRY_CLIENT_WATCH_MUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/buf.h"
#include "base/log.h"
#include "client/watch/inbox.h"

#define BELFRY_MUX_CREATE_TIMEOUT_MS 20000 /* a create unanswered for this long: the stream is broken */
#define BELFRY_MUX_PROGRESS_MS       1000  /* between requests for progress, and before one is repeated */
#define BELFRY_MUX_ORPHANS           1024  /* ids we never asked for that a server may use before its stream is reset */
#define BELFRY_MUX_RECREATES         3 /* times a watch cancelled without a reason is created again without any news */

struct belfry_mux;
struct belfry_mux_watch;

struct belfry_mux_opts {
    size_t max_revision_bytes; /* a revision whose fragments are more than this ends its watch */
    bool in_order;             /* the server is known to answer creates in their order: no need to find out */
    uint32_t progress_gap_ms;  /* between requests for progress; this and the next: 0: BELFRY_MUX_PROGRESS_MS */
    uint32_t progress_wait_ms; /* for an answer; then the request is repeated */
    const struct belfry_log *log;
};

/* What to watch. Bytes are copied. */
struct belfry_mux_spec {
    struct belfry_bytes key, range_end; /* as on the wire */
    int64_t rev;                        /* first revision wanted; 0: what is written from now on */
    bool prev_kv, progress_notify, no_put, no_delete;
    bool created_notify; /* BELFRY_MUX_CREATED, once */
    bool lost_notify;    /* BELFRY_MUX_LOST, each time */
    bool fragment;       /* the server may split a large response, where belfry_mux_in_pieces() asks for it */
    bool unmerged;       /* hand a revision out in the parts it comes in */
    size_t pause_bytes;
};

enum belfry_mux_verdict {
    BELFRY_MUX_MORE,
    BELFRY_MUX_PAUSE, /* taken; nothing more until it is resumed */
    BELFRY_MUX_KEEP,  /* not taken: the same action comes again when it is resumed */
    BELFRY_MUX_STOP   /* as belfry_mux_remove() */
};

enum belfry_mux_act {
    BELFRY_MUX_EVENTS,   /* .group */
    BELFRY_MUX_PROGRESS, /* everything up to .rev has been given */
    BELFRY_MUX_CREATED,  /* the server has it; it starts at .rev + 1. Before its first events */
    BELFRY_MUX_LOST,     /* the server no longer has it: the stream is down, or the watch was cancelled or parked. Given
                        immediately, also to a paused watch, and before what is left in its inbox */
    BELFRY_MUX_END       /* .err, .why, .rev = compact revision; belfry_mux_taken() frees the watch */
};

struct belfry_mux_action {
    enum belfry_mux_act act;
    struct belfry_mux_watch *watch;
    int64_t rev;
    struct belfry_inbox_group group;
    struct belfry_wire_header header; /* of the response it came in; zeroes for an end of our own */
    enum belfry_err err;
    const char *why;
};

/* Numbers since creation. */
struct belfry_mux_stats {
    uint64_t creates, resumes, parked, stale_events;
};

BELFRY_NODISCARD enum belfry_err belfry_mux_create(const struct belfry_mux_opts *opts, struct belfry_mux **out);

/* Frees every watch without an action. NULL is fine. */
void belfry_mux_destroy(struct belfry_mux *mux);

/* Adds a watch. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_mux_add(struct belfry_mux *mux, const struct belfry_mux_spec *spec, void *user,
                                                struct belfry_mux_watch **out);

/* Removes a watch, at any time, also between belfry_mux_next() and belfry_mux_taken(). No further action comes for it.
 * The server receives a cancel. */
void belfry_mux_remove(struct belfry_mux *mux, struct belfry_mux_watch *watch);

/* Nothing more for this watch until it is resumed. */
void belfry_mux_pause(struct belfry_mux *mux, struct belfry_mux_watch *watch);
void belfry_mux_resume(struct belfry_mux *mux, struct belfry_mux_watch *watch);

void *belfry_mux_user(const struct belfry_mux_watch *watch);
int64_t belfry_mux_next_rev(const struct belfry_mux_watch *watch); /* 0: not known yet */
bool belfry_mux_paused(const struct belfry_mux_watch *watch);

/* The next watch; `after` NULL gives the first. Removed watches are left out. */
struct belfry_mux_watch *belfry_mux_each(const struct belfry_mux *mux, const struct belfry_mux_watch *after);
size_t belfry_mux_count(const struct belfry_mux *mux);

/* A key that one of the watches may read; false when there is no watch. */
bool belfry_mux_any_key(const struct belfry_mux *mux, struct belfry_bytes *key);

/* ---- the start of a watch from now on ---- */

/* True while a watch needs the store's revision: read it linearizably, with the key in `out` (one that the watch itself
 * may read), and call belfry_mux_revision(). A read that began before a watch was added does not count for it, so the
 * caller passes back the `generation` of the moment the read began. */
struct belfry_mux_read {
    struct belfry_bytes key; /* lent until the watch goes away */
    uint64_t generation;     /* good for every watch up to this one */
    uint64_t asker;          /* the watch whose key it is */
};
bool belfry_mux_wants_revision(const struct belfry_mux *mux, struct belfry_mux_read *out);
void belfry_mux_revision(struct belfry_mux *mux, uint64_t generation, int64_t rev);

/* The read was refused for good: the watch whose key was used ends, if it is still there. */
void belfry_mux_revision_refused(struct belfry_mux *mux, uint64_t asker, enum belfry_err err, const char *why);

/* ---- the stream ---- */

bool belfry_mux_wants_stream(const struct belfry_mux *mux);
void belfry_mux_stream_up(struct belfry_mux *mux, uint64_t now_ms);
void belfry_mux_stream_down(struct belfry_mux *mux);

/* Appends the next request (a WatchRequest) to `out`. Errors: BELFRY_ERR_AGAIN (nothing to send), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_mux_pull(struct belfry_mux *mux, uint64_t now_ms, struct belfry_buf *out);

/* A WatchResponse came. Take all actions before the next one.
 * Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM (end the stream and say so with belfry_mux_stream_down()),
 *         BELFRY_ERR_AUTH (a create was refused for its token: likewise, and log in again before the next stream). */
BELFRY_NODISCARD enum belfry_err belfry_mux_message(struct belfry_mux *mux, struct belfry_blob *message,
                                                    uint64_t now_ms);

/* The watch that the next created answer is for; NULL: none is awaited, or its watch has gone. For owners who look at
 * created answers themselves, before they hand them in. */
struct belfry_mux_watch *belfry_mux_creating(const struct belfry_mux *mux);

/* Ends every watch with `err` and `why`. */
void belfry_mux_fail(struct belfry_mux *mux, enum belfry_err err, const char *why);

/* Fresh credentials did not help: from now on, until the next success, a refused create ends its watch. */
void belfry_mux_auth_is_final(struct belfry_mux *mux, bool final);

/* Asks for progress, immediately or as soon as progress_gap_ms have passed since the last request. If progress
 * is not trusted (below), the request waits for a stream on which it is. */
void belfry_mux_request_progress(struct belfry_mux *mux, uint64_t now_ms);
bool belfry_mux_wants_progress(const struct belfry_mux *mux);

/* Does the server of the stream send answers to progress requests after the events they cover? True by default: an
 * owner that does not know its server says false before each stream, and true once it knows. Without trust no progress
 * is requested, and answers that come anyway (id -1) are dropped: from an etcd before 3.4.25 or 3.5.8 they would skip
 * events (etcd#15220). Progress with the id of a watch is not affected. */
void belfry_mux_trust_progress(struct belfry_mux *mux, bool trusted);

/* Do creates from now on ask for large responses in pieces, for watches that allow it? True by default. */
void belfry_mux_in_pieces(struct belfry_mux *mux, bool pieces);

/* Errors: BELFRY_ERR_TIMEOUT (a create is not answered: end the stream). */
BELFRY_NODISCARD enum belfry_err belfry_mux_tick(struct belfry_mux *mux, uint64_t now_ms);
uint64_t belfry_mux_due(const struct belfry_mux *mux);

/* ---- what comes out ---- */

/* The next action; BELFRY_ERR_AGAIN when there is none. After acting on it (callbacks may call anything above but
 * belfry_mux_next, belfry_mux_message and belfry_mux_destroy) say belfry_mux_taken().
 * Errors besides: BELFRY_ERR_PROTOCOL (an event cannot be read: end the stream). */
BELFRY_NODISCARD enum belfry_err belfry_mux_next(struct belfry_mux *mux, struct belfry_mux_action *out);
void belfry_mux_taken(struct belfry_mux *mux, enum belfry_mux_verdict verdict);

/* ---- a member that is behind ---- */

/* True when a server showed a revision below what was seen before (`*seen`): lag, unless a linearizable read, begun
 * now, says less than that too. */
bool belfry_mux_suspects(const struct belfry_mux *mux, int64_t *seen);

/* The answer. Below what was seen: the past was rewritten, and every watch that had begun ends with
 * BELFRY_ERR_REWOUND. */
void belfry_mux_judge(struct belfry_mux *mux, int64_t seen, int64_t linearizable);

/* The past was rewritten, as other evidence shows; the cluster is at `revision`. Ends the same watches. */
void belfry_mux_rewound(struct belfry_mux *mux, int64_t revision, const char *why);

/* The highest revision any server has shown; other responses of the session can raise it too. */
void belfry_mux_saw(struct belfry_mux *mux, int64_t revision);

struct belfry_mux_stats belfry_mux_stats(const struct belfry_mux *mux);
size_t belfry_mux_held_bytes(const struct belfry_mux *mux); /* in inboxes now */

#endif
