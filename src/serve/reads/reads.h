/* src/serve/reads/reads.h
 *
 * reads: which requests this tier answers from its own copy of the store, and when.
 *
 *     RIGHTS --granted--> POINT --the store has what upstream had--> TURN --> the store --> answered
 *        |                  ^ `----- serializable: not needed ------->^           | |
 *        |                  `----------------- another past ----------|-----------' |
 *        |                                                            `-- FUTURE <--' above it
 *        `-- refused, with etcd's status                                  everything else: to be relayed
 *
 * A serializable read is answered with what the store has now. A linearizable one waits until the store has whatever
 * upstream had when it was asked, after the read came (points.h). When upstream cannot be asked, a read ends as in an
 * etcd without a leader: with hasleader 14 immediately, otherwise 14 after READS_WAIT_MS.
 *
 * A request at a revision is answered from the window. One above the store: 11, when it is known that upstream has not
 * reached it; a serializable one waits for READS_FUTURE_MS first. One below the window is to be relayed, and so is
 * everything else that cannot be answered as etcd would (read_request.h), and everything while the tier is not ready.
 * A Txn that reads alone is one read, of one revision (txn_answer.h); one that writes is relayed, and is no read.
 *
 * Answers take at most a millisecond of a turn of the loop, or one answer. Reads for which there is no time wait, and
 * clients take turns (lanes.h).
 *
 * A large answer, and every answer to RangeStream, comes in parts (range_slices.h). Each is read when the one before
 * was sent, and has a turn of its own. When a part cannot be read, because the read's revision has left the window
 * meanwhile, the read ends with 14.
 *
 * RangeStream is answered whether upstream has it or not. What is not for us is relayed, as everything else: an etcd
 * without RangeStream answers 12.
 *
 * The leases in answers with keys_only depend on the version of upstream's etcd (judge/etcd_version.h). While it is not
 * known, a read that would show one is relayed; but a RangeStream shows none, as every etcd that has it.
 *
 * Thread: owner (the worker's). No answer comes from inside reads_open() or read_next().
 * Memory: a copy of the request for each; the caller counts calls and bytes (shares.h).
 */
#ifndef BELFRY_SERVE_READS_READS_H
#define BELFRY_SERVE_READS_READS_H

#include "base/buf.h"
#include "core/store.h"
#include "follow/term.h"
#include "serve/reads/points.h"
#include "serve/reads/range_answer.h"
#include "serve/rights/permit.h"

#define READS_WAIT_MS   7000 /* as etcd: 5 s, and two election timeouts */
#define READS_FUTURE_MS 1000

struct reads;

struct reads_opts {
    struct store *store; /* this and the next three outlive it */
    struct permit *permit;
    struct points *points;     /* NULL: linearizable reads are to be relayed */
    const struct term *term;   /* of answers; NULL: as in the identity */
    struct belfry_bytes scope; /* a prefix; empty: everything. Lent */
    uv_loop_t *loop;
};
BELFRY_NODISCARD enum belfry_err reads_create(const struct reads_opts *opts, struct reads **out);
void reads_destroy(struct reads *reads); /* after the last read; NULL is fine */

enum reads_standing { READS_NOT_READY, READS_READY, READS_STALE };

/* How the tier stands, and in whose place it answers. */
void reads_stand(struct reads *reads, enum reads_standing standing, const struct range_upstream *upstream);

/* In which past the watches of this worker are, and the latest up to it that began as a rewritten one (worker.h). */
void reads_see_past(struct reads *reads, uint64_t past, uint64_t rewritten);

/* Once in a turn of the loop: answers those that wait for a turn, as long as there is time. */
void reads_turn(struct reads *reads);
bool reads_wait(const struct reads *reads); /* does one wait for the next turn? */

enum reads_verdict {
    READS_RELAY,   /* it is not for us */
    READS_REPLIED, /* with status 0 */
    READS_PART,    /* the read goes on: read_next() */
    READS_FAILED,  /* with another status; perhaps after parts */
    READS_WAITS    /* of reads_open(): it will be answered later */
};

struct reads_answer {
    enum reads_verdict verdict;
    struct belfry_buf response; /* REPLIED: messages, each behind gRPC's prefix, or what parts have left of them;
                                   PART: a part of them. The callee takes it, or frees it */
    int code;                   /* FAILED; the message is lent */
    const char *message;
};

/* The read is gone when it returns, unless this is a part. */
typedef void (*reads_fn)(struct reads_answer *answer, void *user);

enum reads_method { READS_NONE, READS_RANGE, READS_RANGE_STREAM, READS_TXN };

struct reads_request {
    enum reads_method method; /* not NONE */
    const struct identity *who;
    struct belfry_bytes body; /* with gRPC's prefix */
    bool hasleader;
    bool serializable; /* whatever the request says */
    bool relays;       /* it is to be relayed */
    bool is_point;     /* a tier below asks how far we are (READPOINT_FIELD): never relayed, it ends with 9 instead */
    uint64_t watched; /* of it: the past in which that tier's watch began. If the past was rewritten since, it ends with
                          14: the tier has yet to hear of that on its watch, and would take our revision for its own */
};

/* NONE: requests of this path are not for us. */
enum reads_method reads_method(struct belfry_bytes path);

struct read;

/* Everything is copied. *answer: WAITS, and *out is answered later; or it is answered, and *out is NULL.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err reads_open(struct reads *reads, const struct reads_request *request, uint64_t now_ms,
                                            reads_fn fn, void *user, struct read **out, struct reads_answer *answer);
void read_cancel(struct read *read); /* no answer will come; NULL is fine */

/* After a part: the caller has room for about so many bytes more. */
void read_next(struct read *read, size_t room);

enum reads_consistency { READS_LINEARIZABLE, READS_SERIALIZABLE, READS_CONSISTENCIES };

struct reads_stats {
    uint64_t replica[READS_CONSISTENCIES];  /* answered here */
    uint64_t upstream[READS_CONSISTENCIES]; /* not for us: relayed */
    uint64_t stale;                         /* of replica: while the tier was stale */
    uint64_t failed;
    uint64_t parts; /* of answers in parts */
};
void reads_stats(const struct reads *reads, struct reads_stats *out);

#endif
