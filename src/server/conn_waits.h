/* src/server/conn_waits.h
 *
 * conn_waits: what one connection waits for: which of the time limits of inbound.h apply as it goes on. inbound_wait.h
 * says whose time is up.
 *
 * Thread: owner. Pure; `now` is given.
 * Memory: fixed; connections embed it.
 */
#ifndef BELFRY_SERVER_CONN_WAITS_H
#define BELFRY_SERVER_CONN_WAITS_H

#include <stdbool.h>

#include "server/inbound_wait.h"

struct conn_waits {
    struct inbound_waits *waits;
    struct inbound_wait peer;   /* for the peer's next bytes: of any kind but the next two */
    struct inbound_wait unread; /* UNREAD */
    struct inbound_wait probe;  /* PROBE */
    uint64_t unread_from;       /* UNREAD: how many bytes had been sent when it began */
    uint64_t head_since_ms;     /* HEAD, of HTTP/2: when that head began */
};

void conn_waits_init(struct conn_waits *mine, struct inbound_waits *waits);
void conn_waits_end(struct conn_waits *mine); /* no limit applies any more */

/* The peer's next bytes are waited for as this. NONE: they are not. */
void conn_waits_expect(struct conn_waits *mine, enum inbound_wait_kind kind, uint64_t now_ms);

static inline bool conn_waits_expects(const struct conn_waits *mine, enum inbound_wait_kind kind)
{
    return mine->peer.kind == kind;
}

/* HTTP/1.1 after an event: is a head begun; or is there no request, and nothing to send? */
void conn_waits_http1(struct conn_waits *mine, bool in_head, bool idle, uint64_t now_ms);

/* HTTP/2 without a request, and nothing to send. `leaving`: its peer was told to leave. */
void conn_waits_http2_idle(struct conn_waits *mine, bool leaving, uint64_t now_ms);

/* HTTP/2 after bytes were received: when the head that is not complete began; 0: there is none. The time of each head
 * runs from its first byte: bytes that trickle in do not extend it. */
void conn_waits_http2_head(struct conn_waits *mine, uint64_t since_ms, uint64_t now_ms);

/* Output waits for the peer, and so many bytes were sent so far. The peer has time again with each PACE_BYTES that it
 * takes. */
void conn_waits_unread(struct conn_waits *mine, uint64_t sent, uint64_t now_ms);

/* No output waits for the peer. */
static inline void conn_waits_all_read(struct conn_waits *mine)
{
    if (mine->unread.kind != INBOUND_WAIT_NONE)
        inbound_wait_for(mine->waits, &mine->unread, INBOUND_WAIT_NONE, 0);
}

/* The connection is to be probed, if that is not planned. */
static inline void conn_waits_probe_later(struct conn_waits *mine, uint64_t now_ms)
{
    if (mine->probe.kind == INBOUND_WAIT_NONE)
        inbound_wait_for(mine->waits, &mine->probe, INBOUND_WAIT_PROBE, now_ms);
}

#endif
