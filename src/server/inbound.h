/* src/server/inbound.h
 *
 * inbound: the accepted connections of one loop: sockets, TLS, the choice of protocol, and when to write.
 *
 *     SNIFFING (plain: the first bytes) or HANDSHAKE (TLS: ALPN) --> HTTP1 | HTTP2 --> CLOSING --> gone
 *
 * From a balancer that the listener trusts a head of the PROXY protocol comes first (PROXY_HEAD), before TLS too; from
 * then on the connection has the address that the head names. A connection of a balancer that begins otherwise is
 * closed. A head from any other source is not read as one: it is no HTTP.
 *
 * Plain: a connection that begins like "PRI * HTTP/2.0" is HTTP/2 with prior knowledge, any other HTTP/1.1. TLS: ALPN
 * h2 or http/1.1; none: HTTP/1.1.
 *
 * Output: connections with output are in a list; inbound_flush() pulls from each and writes once. All output passes
 * through one buffer of the group, so an idle connection has none. While a socket is full its exchanges have no room.
 * SO_SNDBUF is set; the kernel doubles it, and the doubled value is accounted.
 *
 * Dead peers: SO_KEEPALIVE finds those that are idle. With data unacknowledged or a closed window, TCP_INFO is read
 * every 15 s, and a connection whose peer's kernel acknowledged nothing for INBOUND_DEAD_MS is ended. A peer that only
 * does not read is alive, and parked. (TCP_USER_TIMEOUT would end those too.)
 *
 * Time limits:
 * - greet_ms for the handshake of TLS, and again for the first bytes and the head of the first request (HTTP/2: its
 *   preface, with SETTINGS, is enough);
 * - the same for the head of each later request, from its first byte;
 * - idle_ms for a connection without a request. HTTP/2 connections are asked to leave (GOAWAY NO_ERROR) only while
 *   there are more than half of the limit, those that were idle longest first, until half are left;
 * - unread_ms for a peer that does not read, from its last PACE_BYTES on, only while three quarters of SHARES_MEMORY
 *   are used. It does not read if the socket is full, or if the output of several streams waits for its window.
 *
 * Client certificates: each connection with TLS is checked again in every half of check_ms (belfry_tls_conn_recheck()),
 * one after another, so that the work and the ends are spread over that time. A connection whose certificate has
 * expired, was revoked, or is of an authority that was removed is ended: HTTP/2 with a GOAWAY that says why.
 *
 * Fairness: reads become smaller when handling them takes long, and a connection is not read while many frames wait to
 * be written to it. A connection whose input took half a millisecond in a turn of the loop is put off: the next turns
 * read from it after the others. When all reads of a turn took 4 ms, the rest are put off. So whatever bytes cost
 * (packed heads, packed messages, requests) a turn is short, and a client that sends little is read in each.
 *
 * Shares: each connection counts to its client (shares.h): the name in its certificate, otherwise its address. Its cost
 * is SHARES_CONNECTIONS and SHARES_MEMORY: connections, exchanges and buffers, as counted (about what they cost). For
 * want of room a new HTTP/2 stream is refused with REFUSED_STREAM, and a new connection is answered as refusal.h says.
 * A connection that yields to others is ended: HTTP/2 with a GOAWAY that says why.
 *
 * No peer that reads is reset: a connection that belfryd ends is shut for output, and its input is read and dropped for
 * linger_ms. Exceptions: connections whose output is not read while memory is short, peers that send nothing whole in
 * greet_ms, refused connections over refused_most at a time, and memory that cannot be had.
 *
 * Many exchanges receive `gone` in steps, as inbound_flush() is called (h2_teardown.h).
 *
 * Thread: owner (the loop's). No callback comes from inside inbound_accept(), unless newcomers_first is set: then it
 * may read requests of other connections. inbound_destroy() not from inside an event.
 * Memory: an idle connection has no buffer. Bytes that the socket does not take, at most 64 KiB and a frame, are copied
 *         into a buffer that lives until they are sent.
 */
#ifndef BELFRY_SERVER_INBOUND_H
#define BELFRY_SERVER_INBOUND_H

#include <uv.h>

#include "base/log.h"
#include "net/tls.h"
#include "server/exchange.h"
#include "server/shares_alarm.h"

#define INBOUND_SNDBUF    (64 * 1024)
#define INBOUND_DEAD_MS   60000
#define INBOUND_GREET_MS  10000
#define INBOUND_IDLE_MS   300000
#define INBOUND_UNREAD_MS 60000
#define INBOUND_CHECK_MS  10000
#define INBOUND_REFUSED   256 /* connections */
#define INBOUND_FLUSH     256 /* connections written to in one flush, which ends before that after a millisecond */

struct inbound_group;

struct inbound_opts {
    uv_loop_t *loop;
    exchange_begin_fn begin;
    void *user;
    uint32_t max_streams;        /* of an HTTP/2 connection; 0: no limit */
    struct shares_limits limits; /* zero: none */
    uint64_t seed;               /* of the hash that clients are found by */
    /* Is the user of a certificate a tier below, by the listener's policy? NULL: none is. */
    bool (*is_tier)(const void *policy, const char *user);
    /* A new connection without room ends another: of its client, or of any if its client has none, the one that waits
     * longest without a request; if all have one, the one whose request came first. Before that, it is read: a request
     * that has arrived is not lost. For groups of few connections: it looks at all of them. */
    bool newcomers_first;
    size_t refused_most;    /* connections that wait to be refused; the first of them makes way. 0: INBOUND_REFUSED */
    const char *pools_hint; /* in the log, when a pool is full; NULL: the setting that makes it larger */
    int sndbuf;             /* 0: INBOUND_SNDBUF */
    /* Times; 0: those above, 2 s for linger_ms (after everything was sent) and 15 s for probe_ms */
    uint64_t greet_ms, idle_ms, unread_ms, dead_ms, linger_ms, probe_ms;
    uint64_t check_ms; /* within which a certificate that is no longer good ends its connection; 0: INBOUND_CHECK_MS */
    int64_t (*unix_s)(void); /* the time that certificates are judged by; NULL: time(2) */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err inbound_create(const struct inbound_opts *opts, struct inbound_group **out);

/* Closes every connection (exchanges receive `gone`); handles finish closing on the loop. NULL is fine. */
void inbound_destroy(struct inbound_group *group);

/* A connected socket, and what its listener says about it. What is lent outlives the group. */
struct inbound_arrival {
    int fd;
    struct client_address peer;
    struct belfry_tls *tls;                /* lent; NULL: plain */
    const void *policy;                    /* becomes exchange_conn.policy */
    const struct client_networks *proxies; /* lent: balancers that name their clients; NULL: none */
    bool refused;                          /* the process has no place for it, whatever the group has */
};

/* Takes over the socket (closed on failure).
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_IO, BELFRY_ERR_TLS, BELFRY_ERR_LIMIT (no room for one more of its
 * client: the peer is told so, and the socket closed soon). */
BELFRY_NODISCARD enum belfry_err inbound_accept(struct inbound_group *group, const struct inbound_arrival *arrival,
                                                uint64_t now_ms);

/* Writes pending output: once per connection, to at most INBOUND_FLUSH of them, for about a millisecond. To be called
 * before the loop blocks; true: there is more to write, so call it again before the loop blocks. */
bool inbound_flush(struct inbound_group *group, uint64_t now_ms);

/* Tells at most `most` more connections to leave, the oldest first, up to the one with the number `newest`: GOAWAY, or
 * for HTTP/1.1 a close after the request that runs. exchange_conn.leaving is set, and each closes when its last
 * exchange has ended. Later connections are served as before; after INBOUND_ALL they are told to leave when they are
 * accepted. True: there are more. Peers reconnect elsewhere immediately, so spread the calls over time to spare those
 * servers. */
#define INBOUND_ALL UINT64_MAX
bool inbound_shut(struct inbound_group *group, uint64_t newest, size_t most);

uint64_t inbound_newest(const struct inbound_group *group);    /* the number of the last connection; the first has 1 */
size_t inbound_connections(const struct inbound_group *group); /* now */

struct inbound_stats {
    size_t connections, http1, http2, tls; /* now */
    size_t refused;                        /* of these, connections that are being refused */
    size_t bytes;                          /* of SHARES_MEMORY */
    size_t kernel_bytes;                   /* send buffers as accounted: connections x (2 x sndbuf) when held, else 0 */
    uint64_t refused_streams, refused_connections; /* for lack of memory */
    uint64_t ended_largest;                        /* connections that yielded to others */
    uint64_t ended_for_newcomers;                  /* connections that made way (newcomers_first) */
    uint64_t ended_certificates;                   /* connections whose client certificate is no longer good */
    uint64_t full_handshakes, resumed_handshakes;  /* those that succeeded */
    uint64_t refused_handshakes;                   /* TLS handshakes that failed, for whatever reason */
    uint64_t refused_heads;                        /* connections of balancers without a head, or with a wrong one */
    /* connections whose time was up, by what they waited for */
    uint64_t ended_greetings, ended_handshakes, ended_heads, ended_idle, ended_unread;
    /* refused_floods: HTTP/2 connections ended for breaking the protocol, floods included */
    uint64_t accepted, closed, dead, refused_floods, bytes_in, bytes_out, writes;
};

void inbound_stats(const struct inbound_group *group, struct inbound_stats *out);

struct shares *inbound_shares(struct inbound_group *group);                  /* to be looked at and walked over */
const struct shares_alarm *inbound_alarm(const struct inbound_group *group); /* looks at the shares every tick */
void inbound_set_limits(struct inbound_group *group, const struct shares_limits *limits);

/* New times, also for connections that wait already; as in the options. */
struct inbound_times {
    uint64_t greet_ms, idle_ms, unread_ms;
};
void inbound_set_times(struct inbound_group *group, const struct inbound_times *times);

#endif
