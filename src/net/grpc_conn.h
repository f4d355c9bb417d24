/* src/net/grpc_conn.h
 *
 * grpc_conn: the inside of net/grpc.h, shared by grpc.c (the connection) and grpc_call.c (its calls) and nobody else.
 *
 * A call goes through these states, moved by move() in grpc_call.c alone:
 *
 *     WAITING ----> RUNNING ----> CLOSING ----> GONE
 *        \_____________\______________^___________^
 *
 * and is in one list of the connection as long as it is not GONE: `waiting`, `running` (RUNNING, and CLOSING while it
 * is held with messages undelivered) or `ended` (CLOSING with nothing left but its last callback). All `closed`
 * callbacks are made by belfry_grpc_flush(), so that nothing above it on the stack stands on a call that may disappear.
 *
 * Thread: owner.
 */
#ifndef BELFRY_NET_GRPC_CONN_H
#define BELFRY_NET_GRPC_CONN_H

#include "base/buf.h"
#include "base/list.h"
#include "net/grpc.h"
#include "net/grpc_frame.h"
#include "net/grpc_head.h"
#include "net/grpc_reply.h"
#include "net/h2.h"

#define BELFRY_GRPC_WAITING_MAX 10000 /* calls over the peer's stream limit */
#define BELFRY_GRPC_WHY_BYTES   256   /* of a sentence that is made up here */

struct belfry_grpc {
    /* fixed at creation */
    struct belfry_h2 *h2; /* owned */
    struct belfry_grpc_origin origin;
    uint32_t keepalive_ms, keepalive_timeout_ms;
    size_t max_message_bytes;
    const struct belfry_log *log; /* may be NULL */
    /* owner only */
    enum belfry_grpc_state state;
    enum belfry_err failed; /* found where it could not be returned; the next receive, pull or tick ends it all */
    struct belfry_list waiting, running, ended; /* of struct belfry_grpc_call, by node */
    struct belfry_list ready;                   /* calls with new bytes for a stream that had none, by ready_node */
    size_t n_calls, n_waiting;
    uint64_t next_deadline_ms;          /* no call's deadline is earlier; it may belong to one that has gone */
    uint64_t ping_ms;                   /* when the last PING was queued, or the connection created */
    bool ping_unanswered;               /* and not a byte has come since */
    struct belfry_buf out;              /* what pull lends */
    size_t lent;                        /* bytes of it that the last pull gave away */
    char goaway[BELFRY_GRPC_WHY_BYTES]; /* what the peer's GOAWAY said; "" when there was none */
};

enum belfry_call_state { BELFRY_CALL_WAITING, BELFRY_CALL_RUNNING, BELFRY_CALL_CLOSING, BELFRY_CALL_GONE };

struct belfry_grpc_call {
    /* fixed at creation */
    struct belfry_grpc *grpc;
    struct belfry_grpc_events events;
    void *user;
    uint64_t deadline_ms;
    size_t max_message_bytes;
    /* owner only */
    enum belfry_call_state state;
    unsigned on_stack;       /* callbacks of this call that are running: it is freed after the last */
    struct belfry_list node; /* in one of the connection's lists, until GONE */
    /* to the peer */
    struct belfry_grpc_head *head; /* owned; while WAITING */
    struct belfry_h2_stream stream;
    struct belfry_buf queued; /* framed messages that were not pulled */
    bool half_closed;
    struct belfry_list ready_node;
    /* from the peer */
    struct belfry_grpc_reply reply;
    struct belfry_grpc_frame frame;
    struct belfry_buf undelivered; /* came while held; at most BELFRY_GRPC_WINDOW */
    bool held;
    bool delivering; /* a message callback is running, or the loop around it */
    /* how it ended; valid from CLOSING on */
    struct belfry_grpc_status status; /* message: points to `text`, reply.message or something static */
    char *text;                       /* owned; may be NULL */
};

/* What h2 calls; its user is the connection. */
extern const struct belfry_h2_events belfry_grpc_h2_events;

/* Ends a call from our side: what waits is dropped and `closed` is due. `why` is copied. */
void belfry_grpc_call_abort(struct belfry_grpc_call *call, int code, const char *why, bool unprocessed);

/* Hands a waiting call to h2. Errors: as belfry_h2_submit(). */
BELFRY_NODISCARD enum belfry_err belfry_grpc_call_submit(struct belfry_grpc_call *call, uint64_t now_ms);

/* Makes the callbacks that are due. */
void belfry_grpc_flush(struct belfry_grpc *grpc);

/* GOAWAY came. */
void belfry_grpc_goaway(struct belfry_grpc *grpc, int32_t last_id, uint32_t code, struct belfry_bytes debug);

#endif
