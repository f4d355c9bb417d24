/* src/server/inbound_wait.h
 *
 * inbound_wait: what the connections of one loop wait for, and whose time is up.
 *
 * A wait has a kind. All waits of a kind last equally long, so each kind is a list in the order of its beginnings, and
 * the first of it is the next whose time is up: nothing is searched, however many connections there are.
 *
 * Thread: owner. Pure; `now` is given.
 * Memory: none of its own.
 */
#ifndef BELFRY_SERVER_INBOUND_WAIT_H
#define BELFRY_SERVER_INBOUND_WAIT_H

#include <stdint.h>

#include "base/list.h"

enum inbound_wait_kind {
    INBOUND_WAIT_GREETING,   /* the head of a balancer, the first bytes, the preface, the head of the first request */
    INBOUND_WAIT_HANDSHAKE,  /* of TLS */
    INBOUND_WAIT_HEAD,       /* of a later request: it is begun */
    INBOUND_WAIT_IDLE,       /* HTTP/1.1 without a request */
    INBOUND_WAIT_IDLE_HTTP2, /* likewise; its time is up only while there are many connections */
    INBOUND_WAIT_LINGER,     /* everything was sent */
    INBOUND_WAIT_UNREAD,     /* output that the peer does not read; its time is up only while memory is short */
    INBOUND_WAIT_PROBE,      /* the next look whether the peer's kernel is there */
    INBOUND_N_WAITS,
    INBOUND_WAIT_NONE
};

struct inbound_waits {
    uint64_t span_ms[INBOUND_N_WAITS]; /* set by inbound_waits_set() alone */
    struct belfry_list lists[INBOUND_N_WAITS];
};

/* One wait of a connection. */
struct inbound_wait {
    enum inbound_wait_kind kind; /* moved by inbound_wait_for() alone */
    uint64_t since_ms;           /* unless it is NONE */
    struct belfry_list node;
};

void inbound_waits_init(struct inbound_waits *waits, const uint64_t span_ms[INBOUND_N_WAITS]);

/* New spans, also for those who wait already. */
void inbound_waits_set(struct inbound_waits *waits, const uint64_t span_ms[INBOUND_N_WAITS]);
void inbound_wait_init(struct inbound_wait *wait);

/* From now on it waits for this, and for nothing else. NONE: for nothing. */
void inbound_wait_for(struct inbound_waits *waits, struct inbound_wait *wait, enum inbound_wait_kind kind,
                      uint64_t now_ms);

/* The wait of this kind that began first, if its time is up; NULL: there is none. */
struct inbound_wait *inbound_waits_due(const struct inbound_waits *waits, enum inbound_wait_kind kind, uint64_t now_ms);

#endif
