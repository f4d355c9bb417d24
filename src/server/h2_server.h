/* src/server/h2_server.h
 *
 * h2_server: the server side of one HTTP/2 connection, without the socket: bytes in, exchanges, bytes out. nghttp2 does
 * the protocol; DATA frames are made from an exchange's bytes without being copied into nghttp2 (NO_COPY), which also
 * leaves its 16 KiB frame buffer untouched: an idle connection is meant to cost 24 KiB at most after megabytes have
 * gone through it (16 KiB resident, measured with one gRPC call open).
 *
 * What an exchange has written waits in a buffer of its own until it is pulled; when that is empty and over 1 KiB it is
 * freed. exchange_room() is min(EXCHANGE_ROOM, the stream's window, its share of the connection's) less what waits:
 * with S exchanges open the share is the connection's window, or 512 KiB if that is less, / S, but at least 1 KiB, so that
 * what piles up behind a peer that gives no window, or does not read, is bounded by that or by S KiB. While `memory` is used up the share is that least.
 *
 * There may be any number of streams, and what they cost together is bounded by `memory`: an exchange counts as
 * H2_SERVER_EXCHANGE bytes and what its buffer has, the connection as H2_SERVER_CONN. A stream for which there is none is
 * refused with REFUSED_STREAM, which tells a client that it may try again, unless a connection can be ended that holds
 * much of requests that are not whole (intake.h).
 *
 * When a response ends before its request did, RST_STREAM(NO_ERROR) follows. Trailers of a request are ignored. A
 * GOAWAY of the peer changes nothing for the exchanges that are open; one that names a stream of its own, as Go's clients
 * say it when they close, breaks the protocol and ends the connection, but is a goodbye all the same.
 *
 * Floods: PINGs and SETTINGS are answered in the same pull, and while more than 1,000 answers wait unsent nghttp2 ends
 * the connection; a PING is never punished otherwise (Go's clients probe their bandwidth with them). A stream that ends
 * before it was answered, because its peer reset it or made us reset it, counts against a bucket: over 200 a second for
 * 5 s the connection is ended with ENHANCE_YOUR_CALM. SETTINGS that change the window of all streams count as one such
 * stream for every 100 that are open, for nghttp2 looks at each of them. So the connection is ended, too, when over 1,000
 * other frames, and 4 more for each exchange, wait unsent after a receive. A head over H2_SERVER_HEADER_BYTES, as SETTINGS
 * counts them, is answered 431; nghttp2 ends the connection after 8 CONTINUATIONs.
 *
 * Thread: owner. Pure: no socket; `now` is given.
 */
#ifndef BELFRY_SERVER_H2_SERVER_H
#define BELFRY_SERVER_H2_SERVER_H

#include "base/buf.h"
#include "server/exchange.h"

#define H2_SERVER_HEADER_BYTES (64 * 1024)
#define H2_SERVER_CONN         (16 * 1024) /* resident, of an idle connection */
#define H2_SERVER_EXCHANGE     EXCHANGE_COST
#define H2_SERVER_OFFERS       256 /* `writable` said in one call: well under a millisecond */

struct h2_server;

struct h2_server_opts {
    struct exchange_conn *conn; /* lent for its life */
    exchange_begin_fn begin;
    void *user;
    uint32_t max_streams;           /* announced and enforced; 0: no limit, nothing announced */
    struct exchange_memory *memory; /* lent for its life, shared with others; NULL: nobody counts */
    /* Something is to be pulled that was not before, or a failure that pull will return. Called at most once until the
     * next pull, from inside any call but pull and destroy: after a pull, h2_server_wants_write() says whether there is
     * more. */
    void (*wants_flush)(void *user);
    void *flush_user;
};

/* Its SETTINGS wait to be pulled; wants_flush is not called for them before something is received. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err h2_server_create(const struct h2_server_opts *opts, struct h2_server **out);

/* Every exchange is told `gone`. NULL is fine. Not from inside an event. */
void h2_server_destroy(struct h2_server *h2);

/* The way there in steps, for a connection with many exchanges: at most `most` are told `gone`, and nothing but this and
 * destroy is called from then on. True: that were all, and destroy, which still takes long when they were many, may be
 * called by any thread. */
bool h2_server_let_go(struct h2_server *h2, size_t most);

/* Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM: the connection is over; pull once more for the GOAWAY, then destroy.
 * A breach of the protocol that nghttp2 found is reported by the pull that gives its GOAWAY. */
BELFRY_NODISCARD enum belfry_err h2_server_receive(struct h2_server *h2, struct belfry_bytes bytes, uint64_t now_ms);

/* Appends frames to `out` until it holds at least `enough` bytes or all is there. `gone` may come from inside. Errors:
 * as receive; what was appended is still worth writing. */
BELFRY_NODISCARD enum belfry_err h2_server_pull(struct h2_server *h2, size_t enough, struct belfry_buf *out);

bool h2_server_wants_write(const struct h2_server *h2);

/* False: many frames wait to be pulled, and receiving would make them more. It may be called all the same. */
bool h2_server_wants_read(const struct h2_server *h2);

bool h2_server_greeted(const struct h2_server *h2); /* the peer's preface is complete, its SETTINGS included */

/* Since when a request's head is begun and not complete, by the clock of h2_server_receive(); 0: none is. */
uint64_t h2_server_head_since(const struct h2_server *h2);

/* How many exchanges are open. A connection is over when it was shut and this is 0. */
size_t h2_server_open(const struct h2_server *h2);

/* Tells `writable` to those who found little room and have more now, H2_SERVER_OFFERS of them; true: there may be others,
 * so it is to be called again. It looks only at those for whom something has changed. The socket's owner calls it when
 * the socket takes bytes, after a pull, and after a receive; while `held` (the socket is full) nobody has any room. */
bool h2_server_unhold(struct h2_server *h2);
void h2_server_hold(struct h2_server *h2);

/* Begins to shut: GOAWAY(2^31-1, NO_ERROR) and a PING, and at its ACK the GOAWAY that names the last stream. Those that
 * are open go on. */
void h2_server_shut(struct h2_server *h2);

/* Ends it, from inside anything: GOAWAY(ENHANCE_YOUR_CALM) with `why` for a person to read, and nothing that comes is
 * looked at any more. receive and pull say BELFRY_ERR_PROTOCOL, as for other ends. */
void h2_server_expel(struct h2_server *h2, const char *why);

/* Why receive or pull said BELFRY_ERR_PROTOCOL. */
enum h2_server_fault {
    H2_SERVER_BREACH,  /* the peer broke the protocol, floods included */
    H2_SERVER_GOODBYE, /* it broke the protocol by the way it said goodbye */
    H2_SERVER_EXPELLED
};
enum h2_server_fault h2_server_fault(const struct h2_server *h2);

size_t h2_server_bytes(const struct h2_server *h2); /* what waits in buffers of its exchanges */

#endif
