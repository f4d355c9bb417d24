/* src/serve/kfront/krelay.h
 *
 * krelay: requests that the API server answers, passed on as they came, and its answers on the way back.
 *
 * A request carries the credential of its client and no other (krelay_head.h). Both bodies stream, each at the pace of
 * the slower side: what is not passed on is not taken from the sender. So a client that stands still holds one window
 * of its own answer, and nobody else's.
 *
 * A request waits for a turn, so that thousands that begin at once do not hold up everybody's (relay_turns.h). It has
 * the turn until its answer begins. A request that may last for ever (a watch, a log, a proxy) has it for
 * KRELAY_OPENING_MS at most, and waits for it as long as it takes.
 *
 * How a request ends that has no answer of the API server:
 *
 *     503, Retry-After     the API server cannot be reached, or was lost before its answer began, and a repetition does
 *                          no harm: the request reads, or was certainly not processed
 *     504                  it was lost before its answer began, and the request may have been carried out; or the
 *                          answer did not begin in KRELAY_HEAD_MS; or the client did not send its request in time
 *                          (pace.h)
 *     429, Retry-After     too many requests are under way, or their bytes are too many
 *     cut                  anything that happens after the answer has begun: its end is never made up
 *
 * A request that was certainly not processed (GOAWAY, REFUSED_STREAM) is sent again, KRELAY_REPEATS times in
 * KRELAY_REPEAT_MS, if it is whole and its body is short: such a body (KRELAY_KEPT_BYTES) is kept until the answer
 * begins. API servers send GOAWAY at random, to spread their clients, and since 1.29 after every request that they
 * answer with 401; other clients' requests share that connection. Nothing else is sent twice.
 *
 * Discovery and OpenAPI: krelay_docs.h. Selectors that the tier does not know: kfront_fields.h.
 *
 * Thread: owner (the loop's). Destroyed before uplink.
 * Memory: as serve/relay/relay.h: a request holds its head, at most EXCHANGE_WINDOW of its body and UPLINK_WINDOW of
 *         its answer, which count as SHARES_CALLS and SHARES_CALL_BYTES. An answer of which the client reads nothing
 *         for `unread_ms` is cut if one of these pools, or of upstream's connections, is nearly used up.
 */
#ifndef BELFRY_SERVE_KFRONT_KRELAY_H
#define BELFRY_SERVE_KFRONT_KRELAY_H

#include "serve/kfront/kfront_judge.h"
#include "serve/uplink/uplink.h"

#define KRELAY_TURNS      128
#define KRELAY_OPENINGS   32
#define KRELAY_OPENING_MS 1000
#define KRELAY_TURN_MS    10000
#define KRELAY_HEAD_MS    90000 /* the API server itself gives up after 60 s */
#define KRELAY_REPEAT_MS  2000
#define KRELAY_REPEATS    8
#define KRELAY_KEPT_BYTES (EXCHANGE_WINDOW / 2)
#define KRELAY_UNREAD_MS  60000

struct krelay;

struct krelay_opts {
    struct uplink *uplink;
    struct kfront_fields *fields; /* lent: counts the selectors that are answered; NULL: nothing does */
    uint64_t pace_ms;             /* 0: PACE_MS */
    uint64_t turn_ms;             /* 0: KRELAY_TURN_MS */
    uint64_t head_ms;             /* 0: KRELAY_HEAD_MS */
    uint64_t unread_ms;           /* 0: KRELAY_UNREAD_MS */
};

BELFRY_NODISCARD enum belfry_err krelay_create(const struct krelay_opts *opts, struct krelay **out);
void krelay_destroy(struct krelay *krelay); /* what is under way is cut; NULL is fine */

/* Takes over an exchange that was judged KFRONT_PASS: sets a handler, or answers it. */
void krelay_begin(struct krelay *krelay, struct exchange *x, const struct exchange_head *head,
                  const struct kfront_judgement *judged);

/* As in the options. */
void krelay_set_pace(struct krelay *krelay, uint64_t pace_ms);
void krelay_set_unread_time(struct krelay *krelay, uint64_t unread_ms);

/* Ends everything that is under way, at the end of a drain: 503, or a cut. */
void krelay_end_all(struct krelay *krelay, const char *why);

struct krelay_stats {
    size_t running, held_bytes, held_peak;
    size_t documents, document_bytes; /* copies */
    uint64_t passed[KFRONT_KINDS];
    uint64_t copies_sent; /* answers that are copies of documents */
    uint64_t repeated;    /* requests that were sent again */
    uint64_t refused;     /* for lack of a turn or of room */
    uint64_t failed;      /* the API server was lost, or not reached, or did not answer in time */
    uint64_t cut;         /* answers that were cut because the API server was lost */
    uint64_t late;        /* requests that were not complete in time */
    uint64_t unread;      /* answers that were cut because their client did not read */
    uint64_t over_memory; /* ended because there was no room for their bytes */
    uint64_t bytes_up, bytes_down;
};
void krelay_stats(const struct krelay *krelay, struct krelay_stats *out);

#endif
