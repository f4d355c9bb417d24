/* src/server/h2_server.h
 *
 * h2_server: the server side of one HTTP/2 connection, without the socket: bytes in, exchanges, bytes out. nghttp2 does
 * the protocol. DATA frames are made from an exchange's bytes without copying them into nghttp2 (NO_COPY), which also
 * leaves its 16 KiB frame buffer untouched: after megabytes of traffic an idle connection costs 24 KiB at most (16 KiB
 * resident, measured with one gRPC call open).
 *
 * Output: the bytes that an exchange has written wait in its buffer until they are pulled; an empty buffer over 1 KiB
 * is freed. exchange_room() is the smallest of EXCHANGE_ROOM, the stream's window and the exchange's share of the
 * connection's window, less the bytes that wait. With S exchanges open the share is the connection's window, or 512
 * KiB if that is less, divided by S, but at least 1 KiB. While its client may hold no more memory it is 1 KiB. So a
 * peer that gives no window, or does not read, can pile up at most 512 KiB or S KiB.
 *
 * Memory: any number of streams may be open. What they cost counts as SHARES_MEMORY (shares.h): H2_SERVER_EXCHANGE
 * bytes and the buffer per exchange, H2_SERVER_CONN per connection. A stream for which there is no room is refused with
 * REFUSED_STREAM, after which a client may try again.
 *
 * When a response ends before its request did, RST_STREAM(NO_ERROR) follows. Trailers of a request are ignored. A
 * GOAWAY of the peer changes nothing for the exchanges that are open. A GOAWAY that names a stream of the peer's own,
 * as Go's clients send it when they close, breaks the protocol and ends the connection, but counts as a goodbye.
 *
 * A PING while exchanges are open is answered with what is sent next (h2_server_owes_pong()). A second one does not
 * wait, nor does the answer to the first then.
 *
 * Floods:
 * - PINGs and SETTINGS are answered in the next pull. While more than 1,000 answers wait unsent the connection is ended
 *   with ENHANCE_YOUR_CALM. PINGs have no other limit: Go's clients measure their bandwidth with them.
 * - A stream that ends before it was answered, because its peer reset it or made us reset it, counts against a bucket:
 *   over 200 per second for 5 s end the connection with ENHANCE_YOUR_CALM.
 * - SETTINGS that change the window of all streams count as one such stream for every 100 that are open, because
 *   nghttp2 visits each of them.
 * - The connection is ended when after a receive over 1,000 other frames, and 4 more per exchange, wait unsent.
 * - A head over H2_SERVER_HEADER_BYTES, as SETTINGS counts them, is answered 431. After 8 CONTINUATIONs the
 *   connection is ended with ENHANCE_YOUR_CALM.
 * - A byte of a packed head can stand for a field of 4 KiB. One call of h2_server_receive() unpacks H2_SERVER_TURN
 *   bytes of heads, as SETTINGS counts them, and keeps the rest of its input for the next call
 *   (h2_server_is_behind()). A head that is refused for want of memory is unpacked at once, so that nothing of it is
 *   kept: 64 KiB of input take about 4 ms.
 *
 * Thread: owner. Pure: no socket; `now` is given.
 */
#ifndef BELFRY_SERVER_H2_SERVER_H
#define BELFRY_SERVER_H2_SERVER_H

#include "base/buf.h"
#include "server/exchange.h"

#define H2_SERVER_HEADER_BYTES (64 * 1024)
#define H2_SERVER_TURN         (128 * 1024) /* of unpacked heads: about half a millisecond */
#define H2_SERVER_CONN         (16 * 1024)  /* resident, of an idle connection */
#define H2_SERVER_EXCHANGE     EXCHANGE_COST
#define H2_SERVER_OFFERS       256 /* `writable` events in one call: well under a millisecond */

struct h2_server;

struct h2_server_opts {
    struct exchange_conn *conn; /* lent for its life */
    exchange_begin_fn begin;
    void *user;
    uint32_t max_streams; /* announced and enforced; 0: no limit, nothing announced */
    /* Bytes are to be pulled, or a failure that pull will return. Called at most once until the next pull, from inside
     * any call but pull and destroy. After a pull, h2_server_wants_write() says whether there is more. */
    void (*wants_flush)(void *user);
    void *flush_user;
};

/* SETTINGS wait to be pulled; wants_flush is not called for them before something is received. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err h2_server_create(const struct h2_server_opts *opts, struct h2_server **out);

/* Every exchange receives `gone`. NULL is fine. Not from inside an event. */
void h2_server_destroy(struct h2_server *h2);

/* The same in steps, for a connection with many exchanges: at most `most` receive `gone`. From then on only this and
 * destroy may be called. True: no exchange is left, and destroy, which takes long after many exchanges, may be called
 * by any thread. */
bool h2_server_let_go(struct h2_server *h2, size_t most);

/* Takes all bytes: they are used or kept. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM: the connection is over; pull
 * once more for the GOAWAY, then destroy.
 * The pull that yields the GOAWAY reports a breach that nghttp2 found. */
BELFRY_NODISCARD enum belfry_err h2_server_receive(struct h2_server *h2, struct belfry_bytes bytes, uint64_t now_ms);

/* Input is kept that took too long for one call: do not read more, and call h2_server_receive() without bytes after
 * other connections had their turn. */
bool h2_server_is_behind(const struct h2_server *h2);

/* Appends frames to `out` until it holds at least `enough` bytes or there are no more. `gone` may come from inside.
 * Errors: as receive; the bytes that were appended are still to be written. */
BELFRY_NODISCARD enum belfry_err h2_server_pull(struct h2_server *h2, size_t enough, struct belfry_buf *out);

bool h2_server_wants_write(const struct h2_server *h2);

/* A PING is to be answered, which no pull was asked for yet. The next pull answers it in any case; pay: and now that
 * pull is asked for. */
bool h2_server_owes_pong(const struct h2_server *h2);
void h2_server_pay_pong(struct h2_server *h2);

/* False: many frames wait to be pulled, or input is kept, so reading should pause. h2_server_receive() may still be
 * called. */
bool h2_server_wants_read(const struct h2_server *h2);

bool h2_server_greeted(const struct h2_server *h2); /* the peer's preface is complete, its SETTINGS included */

/* When the head or the trailers of a request began that are not complete, by the clock of h2_server_receive(); 0: there
 * are none. */
uint64_t h2_server_head_since(const struct h2_server *h2);

/* How many exchanges are open. A connection is over when it was shut and this is 0. */
size_t h2_server_open(const struct h2_server *h2);

/* Sends `writable` to at most H2_SERVER_OFFERS exchanges that found little room and have more now; true: there may be
 * others, so call it again. It visits only exchanges whose room may have changed. The socket's owner calls it when the
 * socket takes bytes, after a pull, and after a receive. While held (the socket is full) no exchange has room. */
bool h2_server_unhold(struct h2_server *h2);
void h2_server_hold(struct h2_server *h2);

/* Begins to shut: GOAWAY(2^31-1, NO_ERROR) and a PING, and at its ACK the GOAWAY that names the last stream. Open
 * exchanges go on. */
void h2_server_shut(struct h2_server *h2);

/* Ends the connection, from inside any call: GOAWAY(ENHANCE_YOUR_CALM) with `why` for a person to read. Later input is
 * ignored. receive and pull return BELFRY_ERR_PROTOCOL, as for other ends. */
void h2_server_expel(struct h2_server *h2, const char *why);

/* Why receive or pull returned BELFRY_ERR_PROTOCOL. */
enum h2_server_fault {
    H2_SERVER_BREACH,  /* the peer broke the protocol, floods included */
    H2_SERVER_GOODBYE, /* the peer said goodbye in a way that breaks the protocol */
    H2_SERVER_EXPELLED
};
enum h2_server_fault h2_server_fault(const struct h2_server *h2);

size_t h2_server_bytes(const struct h2_server *h2); /* that wait in the buffers of its exchanges */

#endif
