/* src/core/worker.h
 *
 * worker: the streams and watchers of one thread, and how they receive the log. The heart of the tier.
 *
 * A worker has one position P: the last revision handed to all its streams. In a turn it takes the next batches of the
 * log, finds the streams that have a watcher for them, and gives each what it can take, from that stream's own position
 * on. A stream without an event is not touched: it rides, and its position is P. Watchers and streams have no queues: a
 * stream that takes no bytes is parked at its position, a number, and continues from there when it is writable again;
 * the batches in between are in the log, or in history.
 *
 * Catching up is the sweep's (sweep.h). Revisions that have left the log are requested with worker_wants_fetch() and
 * come back as segments; the owner reads them from the store, or has them backfilled from upstream.
 *
 * All bytes are written by opts.write (for streams of lines: by their dialect's), only from inside worker_turn(), and
 * never more for a stream than stream_writable() allowed. The function must not call back into the worker.
 *
 * Thread: owner, which is the thread of the first call after worker_create().
 * Memory: everything is accounted (worker_stats.bytes). Above opts.memory_max history that was read for watchers behind
 * is no longer kept for the next of them. New streams and watchers are refused when the rest is above it, without
 * half-sent messages: those are of streams that are slow, which the owner ends. What a client may hold is the owner's
 * affair (stream_bytes()).
 */
#ifndef BELFRY_CORE_WORKER_H
#define BELFRY_CORE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/evlog.h"
#include "core/key_range.h"
#include "core/lines.h"
#include "core/response.h"
#include "core/segment.h"

#define STREAM_ANSWERS_MAX 1024 /* created and cancel answers that wait; at this number, requests are not read */

struct worker;
struct stream;

/* What several workers of one thread use together. Each counts as it was at the end of its last turn. */
struct worker_memory {
    size_t bytes;
    size_t rest_bytes; /* of them, for half-sent messages */
};

struct worker_opts {
    struct evlog *log;
    unsigned number; /* in the log */
    struct response_identity identity;
    uint64_t seed;
    size_t fragment_bytes;        /* a response of this size or more is cut, for watchers that asked; 2 MiB */
    size_t response_bytes;        /* a catch-up response ends at the first revision boundary after this; 1 MiB */
    uint32_t response_revs;       /* or this; 1,000 */
    size_t segment_bytes;         /* of segments kept; 8 MiB */
    size_t memory_max;            /* 0: no bound */
    struct worker_memory *memory; /* memory_max is for all workers with this one; NULL: for this one alone. Lent */
    uint64_t progress_ms;         /* between periodic progress of a stream; up to a tenth is added; 0: ten minutes */
    void (*write)(void *stream_user, const uint8_t *data, size_t len);
    lines_attribute_fn attribute; /* of events, for watchers that pin one; NULL: none does */
    void *attribute_user;
};

BELFRY_NODISCARD enum belfry_err worker_create(const struct worker_opts *opts, struct worker **out);
void worker_destroy(struct worker *worker); /* ends every stream; NULL is fine */

/* One turn of at most about max_work units (a message written, a batch looked at and a watcher visited are one each).
 * True: there is more to do now; look at the sockets and come back. */
bool worker_turn(struct worker *worker, uint64_t now_ms, size_t max_work);

size_t worker_spent(const struct worker *worker); /* units of its last turn */

/* Has it streams that can go on, or that were closed, since its last turn? The log is not looked at. For owners of many
 * workers, which give turns only to those that have something to do. */
bool worker_wants_turn(const struct worker *worker);

/* When the next turn is needed even if nothing happens; BELFRY_NEVER. */
uint64_t worker_due(const struct worker *worker);

int64_t worker_position(const struct worker *worker); /* P; 0: the log has no past yet, nothing can be served */
uint64_t worker_past(const struct worker *worker);    /* of P; older than the log's until the next turn */

/* The latest past, up to that one, which began as a rewritten one: watchers of an older one are lost. 0: none did. */
uint64_t worker_rewritten(const struct worker *worker);

/* Has the log a change of several events at `rev`? Between turns. */
bool worker_has_parts(const struct worker *worker, int64_t rev);

/* No progress of any kind while stale. */
void worker_set_stale(struct worker *worker, bool stale);
void worker_set_identity(struct worker *worker, const struct response_identity *identity);

/* ---- history ---- */

/* Hands out each wanted fetch once; false: none. */
bool worker_wants_fetch(struct worker *worker, struct worker_fetch *out);

/* The answer. BELFRY_OK: a segment, one reference of which is consumed; it begins at or before `from` and has it.
 * BELFRY_ERR_COMPACTED: upstream has nothing below compact_rev and our window nothing below `oldest`: watchers that
 * need a revision below both are canceled with compact_rev. Anything else (a disk that fails, a past that ended): a
 * later turn asks again if it is still needed. */
void worker_fetched(struct worker *worker, const struct worker_fetch *fetch, enum belfry_err err,
                    struct segment *segment, int64_t compact_rev, int64_t oldest);

/* ---- streams ---- */

/* Opens a stream. It can take nothing until stream_writable(). Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT. */
BELFRY_NODISCARD enum belfry_err stream_open(struct worker *worker, void *user, uint64_t now_ms, struct stream **out);

/* A stream of lines (lines.h): one watcher, by one stream_create(), which is never answered: a request that etcd would
 * refuse is BELFRY_ERR_INVALID. `lines` is lent for the life of the stream. Errors: as above. */
BELFRY_NODISCARD enum belfry_err stream_open_lines(struct worker *worker, void *user, const struct lines *lines,
                                                   uint64_t now_ms, struct stream **out);

/* Whose the stream is, before its first watcher: a number that all streams of a client have in common, on every worker.
 * Clients take turns when history is read for those who are behind (sweep.h). 0, as it begins: nobody's. */
void stream_set_client(struct stream *stream, uint64_t client);

/* Its watcher is lost: once nothing is pending, its client knows, and the owner ends the stream. Of lines only. */
bool stream_ended(const struct stream *stream);
size_t stream_watchers(const struct stream *stream); /* those that have not ended */

/* What it holds for its client: itself and its watchers, each with its ranges as if no other watcher shared them.
 * Messages that are half sent and answers that wait are not in it. */
size_t stream_bytes(const struct stream *stream);

/* From now on a stream of lines receives progress every period_ms, up to a tenth more, if its watcher is created with
 * WATCHER_PROGRESS, whether or not it received events meanwhile. 0: the worker's period. */
void stream_set_progress(struct worker *worker, struct stream *stream, uint64_t period_ms);

/* The owner must not use the stream after this; its watchers are taken down over the next turns. */
void stream_close(struct worker *worker, struct stream *stream);

/* It can take `room` bytes now (in all, not in addition). */
void stream_writable(struct worker *worker, struct stream *stream, size_t room);

/* False while STREAM_ANSWERS_MAX answers wait: leave its requests unread. */
bool stream_wants_requests(const struct stream *stream);

/* Has it messages that are not sent yet? For owners that close a stream once it is silent. */
bool stream_pending(const struct stream *stream);

/* A begun message cannot be finished (its rows are gone): the owner ends the stream. */
bool stream_broken(const struct stream *stream);

/* A message has been begun and not ended since `since_ms`; 0: none. What it pins is in *bytes. */
uint64_t stream_inside_since(const struct stream *stream, size_t *bytes);

/* What became of a create request that was answered. */
struct stream_created {
    bool is_there; /* false: it was refused */
    int64_t id;
};

struct stream_create {
    struct belfry_bytes key, range_end; /* as on the wire */
    int64_t start_rev;
    int64_t watch_id; /* 0: the smallest that was not used yet */
    uint8_t flags; /* enum watcher_flags without ACTIVE; of lines: PROGRESS, and of lines by event NO_PUT, NO_DELETE */
    struct belfry_bytes pin_name, pin_value; /* of lines: the attribute and value that it wants; an empty name: none */
    const struct range *ranges; /* of lines: it wants the keys of these n_ranges, which `key` and `range_end` have all;
                                   then it pins nothing. NULL: of `key` and `range_end` */
    size_t n_ranges;
    bool resumed; /* of lines: the client has lines of start_rev, perhaps not all: it receives them again (lines.h) */
    struct stream_created *out; /* NULL: not wanted */
};

/* A create request. The answer goes out on the stream, in the order of the requests: created, or created and canceled
 * with etcd's own text.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (over memory_max, or too many answers wait): not answered, end the stream
 * or refuse it as the dialect does. BELFRY_ERR_AGAIN: no past yet (worker_position() is 0). */
BELFRY_NODISCARD enum belfry_err stream_create(struct worker *worker, struct stream *stream,
                                               const struct stream_create *create);

/* What stream_bytes() grows by when the watcher is created, for owners that ask for room first; 0: it will be
 * refused. */
size_t stream_create_bytes(const struct stream_create *create);
#define STREAM_BYTES 512 /* at least what a stream without a watcher holds */

/* Refuses a create request (rights), in its place among the answers. `reason` is copied. */
BELFRY_NODISCARD enum belfry_err stream_refuse(struct worker *worker, struct stream *stream, const char *reason);

/* A cancel request: acknowledged; an unknown id gets no answer. Errors: as above. */
BELFRY_NODISCARD enum belfry_err stream_cancel(struct worker *worker, struct stream *stream, int64_t watch_id);

/* Cancels a watcher that has lost its right, with `reason` (copied). The rest of a message that was begun goes out: if
 * stream_inside_since() says that there is one, end the stream instead. Errors: as above. */
BELFRY_NODISCARD enum belfry_err stream_expel(struct worker *worker, struct stream *stream, int64_t watch_id,
                                              const char *reason);

/* A progress request: answered, once however often it was asked, as soon as every watcher of the stream has everything
 * up to the stream's position. Without watchers it is forgotten, as in etcd. */
void stream_progress(struct worker *worker, struct stream *stream);

/* Periodic progress out of turn, to every watcher that asked for it: what headers say besides the revision has changed.
 */
void stream_tick(struct worker *worker, struct stream *stream);

/* ---- numbers, and views for people ---- */

enum watcher_standing { WATCHER_SYNCED, WATCHER_CATCHING_UP, WATCHER_PARKED };

struct watcher_view {
    int64_t id;
    struct range range; /* lent until the next call on the worker */
    uint8_t flags;      /* enum watcher_flags */
    bool ended;         /* it is canceled: only its id is still taken */
    enum watcher_standing standing;
    int64_t next; /* the first revision that it has not received */
};

/* The watcher of the stream with the smallest id above `after_id`, in O(log watchers of the stream); false: no more.
 * Not from inside a turn. */
bool stream_watcher(const struct worker *worker, const struct stream *stream, int64_t after_id,
                    struct watcher_view *out);

struct worker_standings {
    size_t synced, catching_up, parked; /* enum watcher_standing */
};

struct worker_stats {
    size_t streams, watchers, nodes;
    size_t riding, waiting, boarded, stalled, solo; /* watchers by state */
    size_t parked;                                  /* streams that have something and no room */
    size_t riding_parked;                           /* of riding: those on such streams */
    struct worker_standings lines[LINES_FAMILIES];  /* of all these: of streams of lines */
    size_t bytes;                                   /* accounted */
    size_t shared_bytes;                            /* of all workers with the same worker_memory; otherwise its own */
    size_t rest_bytes;                              /* of those, for half-sent messages */
    size_t parked_peak, rest_bytes_peak;            /* the largest since creation */
    uint64_t batches, deliveries, written;          /* since creation; written: bytes */
    uint64_t fetches, rows_swept;
    uint64_t handovers, parks, unparks, overslept, cuts, extents, fragments, packed, compacted, progress;
};
void worker_stats(const struct worker *worker, struct worker_stats *out);

#endif
