/* src/server/inbound_conn.h
 *
 * inbound_conn: one accepted connection, from its first bytes to its end. inbound.h says what it does; the group of
 * inbound.c accepts connections, and says when one is flushed, checked, probed or ended.
 *
 * Thread: owner (the loop's).
 * Memory: inbound.h. A connection frees itself when its handle is closed and its exchanges are gone. The structs are
 *         open to inbound.c, and to no other file.
 */
#ifndef BELFRY_SERVER_INBOUND_CONN_H
#define BELFRY_SERVER_INBOUND_CONN_H

#include "base/buf.h"
#include "server/conn_waits.h"
#include "server/h1_server.h"
#include "server/h2_server.h"
#include "server/h2_teardown.h"
#include "server/inbound.h"
#include "server/inbound_probe.h"
#include "server/inbound_round.h"
#include "server/inbound_sniff.h"
#include "server/inbound_socket.h"
#include "server/proxy_head.h"

#define INBOUND_CONN_INPUT  (64 * 1024) /* bytes per read, at most */
#define INBOUND_CONN_PLAIN  (16 * 1024) /* of one TLS record */
#define INBOUND_CONN_OUTPUT (64 * 1024) /* that one pull yields, about */

/* What the connections of one loop share. */
struct inbound_conns {
    /* fixed at creation */
    const struct inbound_opts *opts;                  /* with the defaults in it */
    void (*handle_closed)(struct inbound_conns *all); /* once for each of n_handles */
    /* owner */
    size_t n_handles;           /* of connections, and of the owner of this, that are not closed */
    uint64_t reading_ns;        /* spent on reads since the last flush */
    bool shut;                  /* new connections are told to leave */
    struct belfry_list staying; /* in the order of their numbers */
    struct belfry_list leaving; /* connections that were told to leave are here instead */
    size_t n_leaving;
    struct belfry_list prompt;   /* connections that sent a request, and have something to write: written first */
    struct belfry_list dirty;    /* other connections with something to write */
    struct belfry_list expelled; /* to be flushed once more, or closed */
    struct belfry_list put_off;  /* connections with input, which are read after the others */
    uv_check_t put_off_check;
    uv_idle_t put_off_idle;   /* active while there are any, so that the loop does not block */
    struct belfry_list pongs; /* connections that owe an answer to a PING; the first that is due first */
    uv_timer_t pongs_timer;
    struct inbound_round certified; /* connections with TLS, whose certificates are checked */
    struct conn_wait_lists waits;
    struct h2_teardown teardown;
    struct shares shares;
    struct inbound_traffic traffic;
    size_t n_http1, n_http2, n_tls;
    uint64_t n_begun;           /* requests so far */
    struct belfry_list refused; /* connections that are refused, and wait for their peers; the first came first */
    size_t n_refused;
    struct inbound_stats stats; /* its counters */
    struct belfry_buf output;   /* all output passes through it */
    uint8_t *input, *plain;     /* bytes read, and decrypted; owned */
};

/* PROXY_HEAD, from a balancer, comes before the first two:
 *     SNIFFING  \                                 LINGERING: everything was sent. Input is dropped for a while:
 *                 > HTTP1 | HTTP2 --> LINGERING              closing immediately could reset the connection before
 *     HANDSHAKE /         |              |                   the peer has read the end
 *         \_______________|______________|______> CLOSING: the handle's last callback frees
 * A connection that is refused goes from SNIFFING, or at the end of HANDSHAKE, to LINGERING with its answer.
 */
enum inbound_state {
    INBOUND_PROXY_HEAD,
    INBOUND_SNIFFING,
    INBOUND_HANDSHAKE,
    INBOUND_HTTP1,
    INBOUND_HTTP2,
    INBOUND_LINGERING,
    INBOUND_CLOSING
};

struct inbound_conn {
    struct inbound_conns *all;
    struct exchange_conn info; /* whose connection it is, for one */
    char *user;                /* info's; owned */
    struct inbound_socket socket;
    struct belfry_tls *tls; /* lent; NULL: plain */
    uv_poll_t poll;
    uint64_t number;          /* the first that was accepted has 1 */
    enum inbound_state state; /* moved by conn_move_to() alone */
    struct conn_waits waits;
    int watched;                   /* events that `poll` waits for */
    bool input_ended;              /* the peer sends no more */
    bool last;                     /* the protocol was broken: what is unsent is the last */
    bool refused;                  /* there is no room for it: it is answered so (refusal.h), and counts for nothing */
    struct proxy_head *proxy_head; /* PROXY_HEAD only; owned */
    struct inbound_sniff sniff;    /* SNIFFING */
    size_t read_bytes;             /* of the next read, at most */
    struct h1_server *h1;          /* HTTP1 only; owned */
    struct h2_server *h2;          /* HTTP2 only; owned */
    struct h2_teardown_item teardown; /* of HTTP/2, when it has ended */
    uint64_t asked_ms;                /* when it was accepted, or its last request began */
    unsigned holds;                   /* of `poll`, and of `teardown`: the last one frees */
    size_t counted;                   /* of SHARES_MEMORY; HTTP/2 counts its own */
    struct inbound_probe probe;
    uint64_t pong_due_ms; /* when it is in `pongs` */
    struct belfry_list in_all, in_dirty, in_certified, in_expelled, in_put_off, in_pongs, in_refused;
};

/* Starts the handles that connections of `all` share, and closes them: then nothing is read or answered any more. */
void inbound_conns_open_handles(struct inbound_conns *all);
void inbound_conns_close_handles(struct inbound_conns *all);

/* As inbound_accept(). */
BELFRY_NODISCARD enum belfry_err inbound_conn_accept(struct inbound_conns *all, const struct inbound_arrival *arrival,
                                                     uint64_t now_ms);

/* Immediate; exchanges receive `gone`. Not from inside an event. */
void inbound_conn_close(struct inbound_conn *c);

/* Ends the output, and waits for the peer to close. */
void inbound_conn_linger(struct inbound_conn *c, uint64_t now_ms);

/* One pull and one write. */
void inbound_conn_flush(struct inbound_conn *c, uint64_t now_ms);

/* Ends it; HTTP/2 peers read the reason in a GOAWAY, if their socket takes it. Not from inside an event. */
void inbound_conn_expel(struct inbound_conn *c, const char *why, uint64_t now_ms);
void inbound_conn_finish_expelled(struct inbound_conn *c, uint64_t now_ms); /* h2_server_expel() was called */

/* Tells the peer to connect elsewhere: peers reconnect if they need to. */
void inbound_conn_tell_to_leave(struct inbound_conn *c);

void inbound_conn_log(const struct inbound_conn *c, enum belfry_log_level level, const char *event, const char *why);

#endif
