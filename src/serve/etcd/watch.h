/* src/serve/etcd/watch.h
 *
 * watch: etcd's Watch over gRPC: passes the requests of a stream to the core, one after another, and its output back.
 *
 *     OPEN --create, auth on--> ASKING --answers--> OPEN       later requests wait in order
 *       |                          |
 *       `--------- deadline, drain, stale, broken, bad request, peer gone -----------> gone
 *
 * It keeps the rules of docs/spec/etcd-watch.md 3. The core does ids, refusals and order; here are rights (permit.h),
 * hasleader, grpc-timeout, and the end of a stream: always 14, because clients do not resume after 0 or 1 (4.5 there).
 *
 *     not ready at its beginning      14 "belfry: not ready: REASON"    hasleader and stale: 14 "etcdserver: no leader"
 *     becomes stale, hasleader        14 "etcdserver: no leader"
 *     drain, broken, over the limit   14 "belfry: ..."
 *     deadline                        4  "context deadline exceeded"
 *     a request that cannot be read   13 "grpc: failed to unmarshal the received message: ..."
 *     a body that ends inside one     13 "unexpected EOF"
 *     half a request for PACE_MS      14 "belfry: the request was not complete in time" (pace.h)
 *     a message over 2 MiB            8  "grpc: received message larger than max (N vs. 2097152)"
 *     an encoding that is not gzip    12 "grpc: Decompressor is not installed for grpc-encoding ..."
 *     upstream cannot be asked        14 and the reason, if no watch runs yet; otherwise the stream is parked
 *     the token is not known any more 14 "belfry: the token is not valid any more; log in again"
 *
 * A watch that loses its right is cancelled with etcd's own reason.
 *
 * Half-closing the request side does not end the stream.
 *
 * A turn of the worker handles a bounded number of requests (WATCH_TURN_REQUESTS, unpacked bytes counted). If there are
 * more, clients take turns, and in its turn the connections of a client do (lanes.h).
 *
 * Thread: owner (the worker's).
 * Memory: a stream is one small allocation and has no buffer while it is idle. Requests that cannot be handled yet are
 * kept: at most EXCHANGE_WINDOW, one incomplete message (2 MiB) and a queue (WATCH_QUEUE_BYTES, or one request) per
 * stream. Together they count as SHARES_REQUESTS (shares.h); when there is no room, the stream that grows is ended.
 * Watchers count as SHARES_WATCHERS, and what they, the stream and their rights hold as SHARES_WATCH_BYTES. A watcher
 * for which there is no room is answered as created and canceled, with the reason. A stream may wait for its first
 * request forever: SHARES_MEMORY bounds how many do.
 */
#ifndef BELFRY_SERVE_ETCD_WATCH_H
#define BELFRY_SERVE_ETCD_WATCH_H

#include "core/worker.h"
#include "serve/etcd/tiers_below.h"
#include "serve/rights/permit.h"
#include "server/exchange.h"

#define WATCH_INSIDE_MS     60000 /* inside one message for so long while memory is over the limit: ended */
#define WATCH_QUANTUM       256   /* requests of one stream at a time */
#define WATCH_TURN_REQUESTS 512   /* requests of all between two calls of watch_after_turn(): about 2 ms */
#define WATCH_UNPACK_BYTES  2048  /* unpacking so many bytes costs as much as one request */
#define WATCH_TURN_ENDS     256   /* streams that one call ends because their time has come */
#define WATCH_QUEUE_MAX     128   /* requests of a stream that wait; as many ranges as one question has: RIGHTS_BATCH */
#define WATCH_QUEUE_BYTES   (256 * 1024) /* of these; no more are added from there on */

struct watch_service; /* the watch streams of one worker */

struct watch_service_opts {
    struct permit *permit;
    uint64_t (*now)(void *user); /* ms, the clock of every now_ms here */
    uint64_t seed;
    struct belfry_bytes scope; /* a prefix that is followed; a range outside of it is refused. Empty: everything */
    size_t memory_max;         /* of worker_stats.bytes; above it slow streams are ended; 0: no bound */
    uint64_t message_ms;       /* for the rest of a message (pace.h); 0: PACE_MS */
    uint64_t unread_ms;        /* 0: WATCH_INSIDE_MS */
    void (*work)(void *user);  /* the core has work: a turn is due soon. Called from inside any call */
    void *user;
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err watch_create(const struct watch_service_opts *opts, struct watch_service **out);
void watch_destroy(struct watch_service *service); /* every stream ends with 14; before its worker; NULL is fine */

/* As in the options. A message that is being received has the time that it began with. */
void watch_set_times(struct watch_service *service, uint64_t message_ms, uint64_t unread_ms);

/* The worker it fills from; worker_opts.write is watch_write. Set once, before the first stream. */
void watch_set_worker(struct watch_service *service, struct worker *worker);
void watch_write(void *stream_user, const uint8_t *data, size_t len);

/* Takes over an exchange whose path is Watch/Watch. */
void watch_begin(struct watch_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms);

/* After each worker_turn(): tells the core about room, handles requests, and ends streams that are broken, too long
 * inside one message, or whose time has come. Bounded: the rest is due immediately. */
void watch_after_turn(struct watch_service *service, uint64_t now_ms);
uint64_t watch_due(const struct watch_service *service); /* when to call it even if nothing happens */

/* True while streams learn, some in each call of watch_after_turn(), what has changed for all of them. The core takes
 * no turn then: it could deliver to a stream that has not learnt yet that auth is on. */
bool watch_is_going_round(const struct watch_service *service);

/* How the tier stands with upstream; WATCH_NOT_READY at first. Clients that are refused receive `reason` (copied).
 * Streams that must end do so in the next calls of watch_after_turn(), which are due immediately; so with
 * watch_drain(). */
enum watch_standing { WATCH_NOT_READY, WATCH_READY, WATCH_STALE };
void watch_stand(struct watch_service *service, enum watch_standing standing, const char *reason);

/* Ends every stream whose connection was told to leave, with 14, at a random time within drain_ms, and refuses new ones
 * there. Streams of other connections are served as before. A later call may shorten the time. */
void watch_drain(struct watch_service *service, uint64_t now_ms, uint64_t drain_ms);

/* ---- numbers ---- */

enum watch_close {
    WATCH_CLOSE_PEER,
    WATCH_CLOSE_DEADLINE,
    WATCH_CLOSE_NO_LEADER,
    WATCH_CLOSE_NOT_READY,
    WATCH_CLOSE_DRAIN,
    WATCH_CLOSE_BROKEN,
    WATCH_CLOSE_SLOW,
    WATCH_CLOSE_BAD_REQUEST,
    WATCH_CLOSE_MEMORY,
    WATCH_CLOSE_UPSTREAM,
    WATCH_CLOSE_LATE,
    WATCH_CLOSE_RIGHTS,
    WATCH_CLOSES
};
const char *watch_close_name(enum watch_close why); /* "peer", "deadline", ...: metric labels */

struct watch_stats {
    size_t streams, asking;
    size_t inside;     /* in the middle of a message */
    size_t held_bytes; /* of requests received and not handled */
    size_t held_peak;  /* the most of them since creation */
    uint64_t opened;   /* including those refused immediately; streams = opened - all that closed */
    uint64_t closed[WATCH_CLOSES];
    uint64_t requests, creates, cancels, progress;
    uint64_t refused;       /* creates, for lack of rights, */
    uint64_t refused_share; /* because their client has its share, or a pool is full, */
    uint64_t refused_scope; /* of a range that is not followed, */
    uint64_t refused_id;    /* with an id that cannot be used */
    uint64_t expelled;      /* watches that ran */
};
void watch_stats(const struct watch_service *service, struct watch_stats *out);

/* The raft term has risen: tiers below hear of it now, and not when they next ask. */
void watch_tell_tiers(struct watch_service *service);

/* The tiers below that have a stream here, for the caller to free(); NULL: none, or no memory. */
struct tree_below *watch_tiers(const struct watch_service *service);

/* One stream, for /debug/watchers. Lent until the service is next called or receives an event. */
struct watch_view {
    const struct stream *stream;
    const struct exchange_conn *conn;
    const struct identity *who;
    const char *client; /* user-agent, cut to 63 bytes */
    uint64_t opened_ms, sent_bytes;
};

/* The stream after number `after`, in the order of opening (0: the first); false: no more. Numbers are never reused,
 * so a walk may pause between two calls. */
bool watch_next(struct watch_service *service, uint64_t after, uint64_t *number, struct watch_view *out);

#endif
