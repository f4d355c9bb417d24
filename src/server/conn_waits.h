/* src/server/conn_waits.h
 *
 * conn_waits: what the connections of one loop wait for, and whose time is up. A connection may wait for three things:
 * its peer's next bytes, its peer to read, and the next look at its peer's kernel; struct conn_waits says which of the
 * time limits of inbound.h apply as it goes on.
 *
 * A wait has a kind. All waits of a kind last equally long, so each kind is a list in the order of its beginnings, and
 * the first of it is the next whose time is up: nothing is searched, however many connections there are.
 *
 * Thread: owner. Pure; `now` is given.
 * Memory: fixed; connections embed theirs.
 */
#ifndef BELFRY_SERVER_CONN_WAITS_H
#define BELFRY_SERVER_CONN_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* ---- waits of all connections, by kind ---- */

enum conn_wait_kind {
    CONN_WAIT_GREETING,   /* the head of a balancer, the first bytes, the preface, the head of the first request */
    CONN_WAIT_HANDSHAKE,  /* of TLS */
    CONN_WAIT_HEAD,       /* of a later request: it is begun */
    CONN_WAIT_IDLE,       /* HTTP/1.1 without a request */
    CONN_WAIT_IDLE_HTTP2, /* likewise; its time is up only while there are many connections */
    CONN_WAIT_LINGER,     /* everything was sent */
    CONN_WAIT_UNREAD,     /* output that the peer does not read; its time is up only while memory is short */
    CONN_WAIT_PROBE,      /* the next look whether the peer's kernel is there */
    CONN_N_WAITS,
    CONN_WAIT_NONE
};

struct conn_wait_lists {
    uint64_t span_ms[CONN_N_WAITS]; /* set by conn_wait_lists_set() alone */
    struct belfry_list of_kind[CONN_N_WAITS];
};

/* One wait of a connection. */
struct conn_wait {
    enum conn_wait_kind kind; /* moved by conn_wait_for() alone */
    uint64_t since_ms;        /* unless it is NONE */
    struct belfry_list node;
};

void conn_wait_lists_init(struct conn_wait_lists *lists, const uint64_t span_ms[CONN_N_WAITS]);

/* New spans, also for those who wait already. */
void conn_wait_lists_set(struct conn_wait_lists *lists, const uint64_t span_ms[CONN_N_WAITS]);
void conn_wait_init(struct conn_wait *wait);

/* From now on it waits for this, and for nothing else. NONE: for nothing. */
void conn_wait_for(struct conn_wait_lists *lists, struct conn_wait *wait, enum conn_wait_kind kind, uint64_t now_ms);

/* The wait of this kind that began first, if its time is up; NULL: there is none. */
struct conn_wait *conn_wait_lists_due(const struct conn_wait_lists *lists, enum conn_wait_kind kind, uint64_t now_ms);

/* ---- those of one connection ---- */

struct conn_waits {
    struct conn_wait_lists *lists;
    struct conn_wait peer;   /* for the peer's next bytes: of any kind but the next two */
    struct conn_wait unread; /* UNREAD */
    struct conn_wait probe;  /* PROBE */
    uint64_t unread_from;    /* UNREAD: how many bytes had been sent when it began */
    uint64_t head_since_ms;  /* HEAD, of HTTP/2: when that head began */
};

void conn_waits_init(struct conn_waits *mine, struct conn_wait_lists *lists);
void conn_waits_end(struct conn_waits *mine); /* no limit applies any more */

/* The peer's next bytes are waited for as this. NONE: they are not. */
void conn_waits_expect(struct conn_waits *mine, enum conn_wait_kind kind, uint64_t now_ms);

static inline bool conn_waits_expects(const struct conn_waits *mine, enum conn_wait_kind kind)
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
    if (mine->unread.kind != CONN_WAIT_NONE)
        conn_wait_for(mine->lists, &mine->unread, CONN_WAIT_NONE, 0);
}

/* The connection is to be probed, if that is not planned. */
static inline void conn_waits_probe_later(struct conn_waits *mine, uint64_t now_ms)
{
    if (mine->probe.kind == CONN_WAIT_NONE)
        conn_wait_for(mine->lists, &mine->probe, CONN_WAIT_PROBE, now_ms);
}

#endif
