/* src/serve/sse/sse_stream.h
 *
 * sse_stream: a stream of Server-Sent Events, from its request to the end of its body. To the core it is a stream of
 * lines, one for each revision (core/lines.h), like every other stream: parked when it is slow, never killed, resumed
 * from history, backfilled from upstream.
 *
 *     NEW --auth is on--> ASKING --granted--.      .--- snapshot ---> STATE --all written--.
 *      `------------------------------------+------+                                       +--> LIVE --> ended
 *                                           |      `--- from a revision, or from now ------'      |
 *                    an id above what we have `--> FENCING --upstream has it--'                   |
 *                                             ^-------- lost: compacted, or another past ---------'
 *
 * The head of the response is sent when the rights are known, because a browser gives up for good on any status but
 * 200. What may pass (overload, not ready, a drain) is 200, with a `retry:` that grows with the number of streams, and
 * the end.
 *
 * A stream that is lost (its revision was compacted, or the past was rewritten) is not ended: the client is told
 * `event: reset`, and receives the state anew (snapshot=1), or goes on from now. An id that upstream has never reached,
 * or that is of another cluster, is lost, too.
 *
 * A stream that was opened with a ticket receives `event: ticket` with the next one when 4/5 of its time are over,
 * while it may receive changes and has room. The last one of a chain has no next (ticket.h).
 *
 * A stream that has been silent for SSE_BEAT_MS says SSE_HEARTBEAT, so that proxies keep it: no silence is longer than
 * two and a half of these.
 *
 * Thread: owner (the worker's).
 * Memory: a stream is one small allocation, its exchange and the core's stream; idle it has no buffer. What it holds
 * counts as SHARES_WATCH_BYTES (shares.h): one for which there is no room is told to come again. While all of them and
 * the core hold more than memory_max, one that stays inside a message for unread_ms is cut off.
 */
#ifndef BELFRY_SERVE_SSE_SSE_STREAM_H
#define BELFRY_SERVE_SSE_SSE_STREAM_H

#include "core/store.h"
#include "core/worker.h"
#include "serve/rights/fence.h"
#include "serve/rights/permit.h"
#include "serve/sse/sse_query.h"
#include "serve/sse/tickets.h"
#include "server/exchange.h"

#define SSE_BEAT_MS      12000
#define SSE_PROGRESS_MS  60000
#define SSE_INSIDE_MS    60000       /* inside one message for so long while memory is over the limit: cut off */
#define SSE_STATE_TURN   1           /* ms that the states of all streams may take in one turn */
#define SSE_STATE_BYTES  (16 * 1024) /* of one step of a state, and one row more */
#define SSE_STATE_ROWS   256
#define SSE_STATE_WALK   2048 /* rows of history that one step looks at */
#define SSE_RETRY_MS     1000 /* at least; as much is added at random, and 5 ms for each stream */
#define SSE_RETRY_MAX_MS 60000

struct sse_streams; /* those of one worker */

struct sse_streams_opts {
    struct permit *permit;
    struct fence *fence;
    struct store *store;
    uint64_t (*now)(void *user);
    void (*work)(void *user); /* the core has something to do */
    void *user;
    uint64_t seed;
    size_t memory_max;  /* of worker_stats.bytes and sse_stats.bytes: above it slow streams are ended; 0: no bound */
    uint64_t unread_ms; /* 0: SSE_INSIDE_MS */
    struct tickets *tickets; /* outlives it; NULL: none */
    int64_t (*now_s)(void);  /* Unix time; NULL: the machine's */
    const struct belfry_log *log;
};

int64_t sse_unix_s(const struct sse_streams_opts *opts);

BELFRY_NODISCARD enum belfry_err sse_streams_create(const struct sse_streams_opts *opts, struct sse_streams **out);
void sse_streams_destroy(struct sse_streams *streams);                             /* every stream ends; NULL is fine */
void sse_streams_set_unread_time(struct sse_streams *streams, uint64_t unread_ms); /* as in the options */
void sse_streams_set_worker(struct sse_streams *streams, struct worker *worker);
void sse_streams_set_cluster(struct sse_streams *streams, uint64_t cluster_id); /* that ids are of */

/* Streams of connections that were told to leave end within drain_ms. */
void sse_streams_drain(struct sse_streams *streams, uint64_t now_ms, uint64_t drain_ms);

struct sse_ask {
    const struct sse_query *query; /* lent */
    const struct identity *who;    /* lent */
    const struct ticket *ticket;   /* that `who` came with; NULL: none. Lent */
    bool has_id;                   /* a header's wins over the query's */
    struct sse_id id;
    const char *client;                     /* user-agent */
    const struct belfry_http_field *fields; /* of the head of the response, besides what every stream has; lent */
    size_t n_fields;
};

/* Makes a stream of a request, or answers it. */
void sse_stream_open(struct sse_streams *streams, struct exchange *x, const struct sse_ask *ask, uint64_t now_ms);

/* Answers a request that can be served later: 200, retry, and the end. `why`: one line that is added as a comment, for
 * people; NULL: none. */
void sse_answer_later(struct sse_streams *streams, struct exchange *x, const struct belfry_http_field *fields,
                      size_t n_fields, const char *why);

/* After each worker_turn(). Bounded: the rest is due immediately. */
void sse_streams_after_turn(struct sse_streams *streams, uint64_t now_ms);
uint64_t sse_streams_due(const struct sse_streams *streams);
bool sse_streams_are_going_round(const struct sse_streams *streams); /* as watch_is_going_round() */

struct sse_stats {
    size_t streams;
    size_t bytes;              /* of streams */
    uint64_t opened, messages; /* messages: of revisions */
    uint64_t snapshots, resets;
    uint64_t later;    /* answered with retry alone: not ready, draining, or no room */
    uint64_t refused;  /* 400, 401, 403 */
    uint64_t expelled; /* for lack of rights, while they ran */
    uint64_t slow;     /* cut off inside a message while memory was over the limit */
    uint64_t forms_made, forms_shared;
};
void sse_streams_stats(const struct sse_streams *streams, struct sse_stats *out);

/* One stream, for /debug/watchers. Lent until the service is next called or receives an event. */
struct sse_stream_view {
    const struct stream *stream; /* NULL: it is not live */
    const struct exchange_conn *conn;
    const struct identity *who;
    const char *client; /* user-agent, cut to 63 bytes */
    struct sse_ranges ranges;
    uint64_t opened_ms, sent_bytes;
};

/* As watch_next() in watch.h. */
bool sse_streams_next(const struct sse_streams *streams, uint64_t after, uint64_t *number, struct sse_stream_view *out);

#endif
