/* src/follow/readpoint.h
 *
 * readpoint: the revision that upstream has reached, for reads that must not return less than what was written before
 * they began.
 *
 * One linearizable read at a time goes upstream: the count of one key, of which only the header matters. It answers all
 * who asked before it was sent, and none who came later, because it may be older than what they may have seen. So any
 * number of readers costs upstream one small question at a time. It goes on the connection that carries the live
 * watch: another one may already reach a cluster that was restored from a backup.
 *
 *     WAITING --question sent--> ASKED --revision R--> REACHING --R is committed to the store--> told
 *        ^  |                      |                      |
 *        |  `-- we replay, or      `-- not allowed: told  |
 *        |      are blind: told                           |
 *        `---- no good answer -----'-- another past, or --'
 *                                      another connection
 *
 * Upstream's revision may be that of a write outside our scope, which the watch does not bring. So progress is asked
 * for when R is above our head (upstream_reach()). Where progress cannot be believed, nothing is promised:
 * BELFRY_ERR_AGAIN.
 *
 * Nothing is asked before this connection has shown that our past is upstream's (readpoint_place.live). An answer below
 * what we had when the question was sent says that the past was rewritten (upstream_confirm()).
 *
 * When a question was shared by READPOINT_CROWD reads or more, the next one is sent READPOINT_GAP_MS after its answer:
 * until then those who were answered have asked again. So many readers wait a little longer than one does, and upstream
 * has at most 250 questions per second. A worker whose reads wait for its time counts as so many (points.h).
 *
 * The question has the field READPOINT_FIELD. A tier above answers such a question for itself, and never relays it
 * (serve/reads/reads.h): one whose past was rewritten, and which lists, would give the revision of a past that its
 * watch does not have yet. It ends the question with FAILED_PRECONDITION instead, and those who wait are told to relay.
 *
 * There is no time limit here: who asks has one.
 *
 * Thread: owner (the stream's). `told` comes from readpoint_pump() and readpoint_fini() alone.
 */
#ifndef BELFRY_FOLLOW_READPOINT_H
#define BELFRY_FOLLOW_READPOINT_H

#include <stdatomic.h>

#include "base/list.h"
#include "client/auth.h"
#include "client/stream.h"
#include "follow/term.h"
#include "follow/upstream.h"

/* Embedded in what asks, which owns it again when it is told. Until it is sent, more reads may join it: whoever finds
 * `sent` false adds to `n`, on any thread. */
struct readpoint_ask {
    struct belfry_list node;
    _Atomic size_t n;  /* reads for which it asks */
    _Atomic bool sent; /* the question was sent, or is about to be */
    void (*told)(struct readpoint_ask *ask);
    /* the answer */
    enum belfry_err
        err;       /* BELFRY_OK; BELFRY_ERR_DENIED: upstream does not answer this tier now; BELFRY_ERR_AGAIN: we replay
                            and are far behind, or are blind; BELFRY_ERR_CANCELED: nothing is followed any more */
    int64_t rev;   /* the store has at least this one, which upstream had after it was asked */
    uint64_t past; /* of which that is */
};

#define READPOINT_FIELD "belfry-point" /* of the request; its value does not matter */

#define READPOINT_CROWD  8 /* reads that share a question: there are many */
#define READPOINT_GAP_MS 4 /* then, from its answer to the next */

/* Where this tier is. */
struct readpoint_place {
    bool live;     /* it follows live, and what the connection has sent is shown to follow what we have */
    bool replays;  /* it is far behind; this or the next: whoever asks is told so */
    bool is_blind; /* its scope is a part of the store, and this server must not be asked for progress */
    uint64_t past;
    int64_t head, committed;
};

struct readpoint_stats {
    uint64_t questions, failed; /* sent upstream; without a good answer */
};

struct readpoint_opts {
    struct belfry_stream *stream;
    struct belfry_calls *calls; /* by which the tier logs in */
    struct belfry_auth *auth;
    struct upstream *upstream;
    struct term *term;       /* hears of every answer */
    struct belfry_bytes key; /* one that the tier may read */
};

struct readpoint {
    struct readpoint_opts opts; /* fixed at creation */
    /* owner */
    struct belfry_list waiting, asked; /* of readpoint_ask.node */
    size_t n_asked;                    /* reads */
    struct belfry_list reaching;       /* in the order of their revisions */
    struct belfry_grpc_call *call;     /* NULL: none is under way */
    struct upstream_mark mark;         /* where we were when it was sent */
    uint64_t connects;                 /* then */
    bool understood;                   /* `header` is valid */
    struct belfry_wire_header header;
    uint64_t next_ms; /* the next question, not before */
    bool is_live;     /* readpoint_place.live, when pumped last */
    bool wants_token;
    bool is_denied; /* upstream has just said so */
    bool closing;
    struct readpoint_stats stats;
};

/* What `opts` names is lent until readpoint_fini(). */
void readpoint_init(struct readpoint *point, const struct readpoint_opts *opts);
void readpoint_fini(struct readpoint *point); /* one of zeroes is fine; before the stream goes */

void readpoint_add(struct readpoint *point, struct readpoint_ask *ask);

/* Sends a question if one is needed and possible, and tells those whose revision is there. To be called once in a turn
 * of the loop, after commits. */
void readpoint_pump(struct readpoint *point, const struct readpoint_place *place, uint64_t now_ms);
uint64_t readpoint_due(const struct readpoint *point); /* when to pump, if the place does not change; BELFRY_NEVER */

#endif
