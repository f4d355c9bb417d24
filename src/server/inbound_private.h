/* src/server/inbound_private.h: what the parts of inbound share.
 *
 *     inbound.c        the group: who is there, whose turn it is, whose time is up
 *     inbound_conn.c   a connection: its states, its socket, TLS
 *     inbound_leave.c  what is left of one with many exchanges when it has ended
 *     inbound_probe.c  whether a peer is there
 */
#ifndef BELFRY_SERVER_INBOUND_PRIVATE_H
#define BELFRY_SERVER_INBOUND_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "net/tls_conn.h"
#include "server/h1_server.h"
#include "server/h2_server.h"
#include "server/inbound.h"
#include "server/inbound_probe.h"

#define INBOUND_SNIFF "PRI * HTTP/2.0" /* RFC 9113, 3.4; no method of HTTP/1.1 begins like that */

/* Whose time is limited. Each list has one span, so that the first in it is the next to be over. */
enum inbound_wait {
    INBOUND_WAIT_GREET,
    INBOUND_WAIT_HEAD, /* of a later request: it is begun */
    INBOUND_WAIT_IDLE,
    INBOUND_WAIT_LINGER,
    INBOUND_N_WAITS,
    INBOUND_WAIT_NONE
};

struct inbound_group {
    /* fixed at creation */
    struct inbound_opts opts; /* with the defaults in it */
    uint64_t span_ms[INBOUND_N_WAITS];

    uv_timer_t timer;
    uint64_t tick_at_ms; /* when the timer was last heard of */
    size_t n_handles;    /* of connections and the timer, not closed yet; the last one frees the group */
    bool shut, destroyed;
    struct belfry_list conns;    /* in the order of their numbers */
    struct belfry_list shutting; /* those of them that were told to leave are here instead */
    struct belfry_list dirty, waits[INBOUND_N_WAITS], probed, leaving;
    struct belfry_list expelled; /* of in_expelled: to be flushed once more, or closed */
    struct belfry_list prompt;   /* of in_dirty, too: those who asked something, and are written to first */
    struct intake intake;
    struct exchange_memory memory;
    size_t n_http1, n_http2, n_tls, n_blocked;
    struct inbound_stats stats; /* its counters */
    struct belfry_buf output;   /* what is pulled goes through it, and stays only when a socket is full */
    uint8_t *input, *plain;     /* what is read, and decrypted; owned */
};

/*     SNIFFING  \                                 LINGERING: all was said and sent; what the peer still sends is
 *                 > HTTP1 | HTTP2 --> LINGERING              dropped, for closing at once could reset the
 *     HANDSHAKE /         |              |                   connection before the peer has read the end
 *         \_______________|______________|______> CLOSING: the handle's last callback frees
 */
enum inbound_state {
    INBOUND_SNIFFING,
    INBOUND_HANDSHAKE,
    INBOUND_HTTP1,
    INBOUND_HTTP2,
    INBOUND_LINGERING,
    INBOUND_CLOSING
};

struct inbound_conn {
    struct inbound_group *group;
    struct exchange_conn info;
    uv_poll_t poll;
    int fd;
    uint64_t number; /* the how many-th that its group accepted */
    int read_bytes;  /* at a time */
    enum inbound_state state;
    enum inbound_wait wait;
    int watched;      /* what poll watches for */
    bool blocked;     /* the socket is full */
    bool input_ended; /* the peer sends no more */
    bool last;        /* what is unsent is the last: the protocol was broken */
    uint8_t n_sniffed;
    char sniffed[sizeof(INBOUND_SNIFF) - 1];
    struct h1_server *h1; /* HTTP1 only */
    struct h2_server *h2; /* HTTP2 only */
    struct belfry_tls_conn *tls;
    struct h2_server *left; /* owned; it has ended, and some of its exchanges were not told yet */
    size_t n_left;          /* how many there were */
    unsigned holds;         /* of `poll`, and of `left`: the last one frees */
    size_t counted;         /* of the group's memory; what HTTP/2 needs is counted by itself */
    struct belfry_buf rest; /* plain: pulled and not sent. TLS keeps its own */
    struct belfry_list in_group, in_dirty, in_wait, in_probed, in_leaving, in_expelled;
    uint64_t head_since_ms; /* of the head that is waited for (INBOUND_WAIT_HEAD) */
    uint64_t deadline_ms;   /* of `wait` */
    uint64_t probe_at_ms;   /* while in the list of those probed */
    struct inbound_probe probe;
};

/* Consumes `fd`. Errors: as inbound_accept(). */
BELFRY_NODISCARD enum belfry_err inbound_conn_open(struct inbound_group *group, int fd, const char *peer,
                                                   struct belfry_tls *tls, const void *policy, uint64_t now_ms);

/* At once; exchanges are told `gone`. Not from inside an event. */
void inbound_conn_close(struct inbound_conn *c);

/* It holds most of what is not whole: from inside anything. */
void inbound_conn_expel(struct inbound_conn *c);
void inbound_conn_finish_expelled(struct inbound_conn *c, uint64_t now_ms);

/* One pull and one write. */
void inbound_conn_flush(struct inbound_conn *c, uint64_t now_ms);

void inbound_conn_shut(struct inbound_conn *c); /* it ends with its last exchange */
void inbound_conn_time_is_up(struct inbound_conn *c, uint64_t now_ms);
void inbound_conn_release(struct inbound_conn *c); /* one of its holds */

/* Ends an HTTP/2 server: its exchanges are told `gone`, some of them later. */
void inbound_leave(struct inbound_conn *c, struct h2_server *h2);
bool inbound_leave_some(struct inbound_group *group); /* true: there are more */

/* The group's. A connection waits for one thing at a time. */
void inbound_wait(struct inbound_conn *c, enum inbound_wait what, uint64_t now_ms);
void inbound_wait_probe(struct inbound_conn *c, uint64_t now_ms);
void inbound_release(struct inbound_group *group);

#endif
