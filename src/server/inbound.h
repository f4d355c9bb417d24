/* src/server/inbound.h
 *
 * inbound: the accepted connections of one loop: sockets, TLS, which protocol is spoken, and when to write.
 *
 *     SNIFFING (plain: the first bytes) or HANDSHAKE (TLS: ALPN) --> HTTP1 | HTTP2 --> CLOSING --> gone
 *
 * Plain: a connection that begins like "PRI * HTTP/2.0" is HTTP/2 with prior knowledge, any other HTTP/1.1. TLS: ALPN h2
 * or http/1.1; none: HTTP/1.1.
 *
 * Output: whoever wrote is in the list of those to be flushed; inbound_flush() pulls from each and writes once. Output
 * buffers are the group's, lent to a connection while it has something unsent, so that an idle one has none. A socket that
 * is full holds its exchanges (no room) until it takes bytes again. SO_SNDBUF is set; the kernel doubles it, and that
 * is what is accounted.
 *
 * Dead peers: SO_KEEPALIVE finds those that are idle. With data unacknowledged or a closed window, TCP_INFO is asked
 * every 15 s, and a connection whose peer's kernel acknowledged nothing for INBOUND_DEAD_MS is ended. A peer that only
 * does not read is alive, and parked. (TCP_USER_TIMEOUT would end those too.)
 *
 * A connection that has not said what it speaks, or not finished its handshake or its first request's head, within
 * INBOUND_GREET_MS is closed (HTTP/2: its preface, with SETTINGS, is enough); so is one on which the head of a later request
 * is begun and not complete for as long. An HTTP/1.1 connection without a request for INBOUND_IDLE_MS likewise.
 *
 * Nobody has the loop for long: what is read at a time is less when it took long, and a connection is not read while many
 * frames wait for it to be written.
 *
 * Memory is bounded by memory_max: connections, exchanges and what waits in buffers, as they are counted (about what they
 * cost). Over it the connection that holds most of requests that are not whole is ended (intake.h); when none holds much, a
 * new stream of HTTP/2 is refused with REFUSED_STREAM and a new connection closed. The socket of a
 * connection that ends is closed at once; when it had many exchanges they are told `gone` in steps, as inbound_flush() is
 * called.
 *
 * Thread: owner (the loop's). No callback comes from inside inbound_accept(). inbound_destroy() not from inside an event.
 * Memory: an idle connection has no buffer. Nothing is allocated for what the socket takes; what it does not take, at most
 *         64 KiB and a frame, is copied into a buffer that lives until it is sent.
 */
#ifndef BELFRY_SERVER_INBOUND_H
#define BELFRY_SERVER_INBOUND_H

#include <uv.h>

#include "base/log.h"
#include "net/tls.h"
#include "server/exchange.h"

#define INBOUND_SNDBUF   (64 * 1024)
#define INBOUND_DEAD_MS  60000
#define INBOUND_GREET_MS 10000
#define INBOUND_IDLE_MS  300000
#define INBOUND_FLUSH    256 /* connections written to in one flush, which ends before that after a millisecond */

struct inbound_group;

struct inbound_opts {
    uv_loop_t *loop;
    exchange_begin_fn begin;
    void *user;
    uint32_t max_streams; /* of an HTTP/2 connection; 0: no limit */
    size_t memory_max;    /* 0: no limit */
    int sndbuf;           /* 0: INBOUND_SNDBUF */
    /* Times, for tests; 0: those above; 2 s that a connection lingers when all was said; 15 s between probes */
    uint32_t greet_ms, idle_ms, dead_ms, linger_ms, probe_ms;
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err inbound_create(const struct inbound_opts *opts, struct inbound_group **out);

/* Closes every connection (its exchanges are told `gone`); handles finish closing on the loop. NULL is fine. */
void inbound_destroy(struct inbound_group *group);

/* Takes over a connected socket (closed on failure). `tls` NULL: plain. `peer` names it. `policy` becomes
 * exchange_conn.policy. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_IO, BELFRY_ERR_TLS, BELFRY_ERR_LIMIT (memory_max). */
BELFRY_NODISCARD enum belfry_err inbound_accept(struct inbound_group *group, int fd, const char *peer,
                                                struct belfry_tls *tls, const void *policy, uint64_t now_ms);

/* Writes what waits, at most once a connection, to at most INBOUND_FLUSH of them and for about a millisecond. To be called before the loop blocks; true: some have more to write (or
 * said more when they were told `writable`), so it is to be called again before the loop blocks. */
bool inbound_flush(struct inbound_group *group, uint64_t now_ms);

/* Tells at most `most` more connections to leave, the oldest first, up to the one with the number `newest`: GOAWAY;
 * HTTP/1.1: closed after the request that runs. exchange_conn.leaving is set, and each closes when its last exchange has
 * ended. Later connections are served as before; after INBOUND_ALL they are told to leave when they are accepted. True:
 * there are more. A peer connects elsewhere immediately: telling peers over a time spares the servers they go to. */
#define INBOUND_ALL UINT64_MAX
bool inbound_shut(struct inbound_group *group, uint64_t newest, size_t most);

uint64_t inbound_newest(const struct inbound_group *group);    /* the number of the last connection; the first has 1 */
size_t inbound_connections(const struct inbound_group *group); /* now */

struct inbound_stats {
    size_t connections, http1, http2, tls; /* now */
    size_t bytes;                          /* what counts against memory_max */
    size_t kernel_bytes;                   /* send buffers as accounted: connections x (2 x sndbuf) when held, else 0 */
    uint64_t refused_streams, refused_connections; /* for want of memory */
    uint64_t ended_largest; /* connections that held most of requests that are not whole when a pool was full */
    uint64_t ended_late;    /* connections whose greeting, or a request's head, did not come in time */
    /* refused_floods: HTTP/2 connections ended for breaking the protocol, floods included */
    uint64_t accepted, closed, dead, refused_floods, bytes_in, bytes_out, writes;
};

void inbound_stats(const struct inbound_group *group, struct inbound_stats *out);

#endif
