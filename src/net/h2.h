/* src/net/h2.h
 *
 * h2: the client side of one HTTP/2 connection, without the socket; nghttp2 does the protocol.
 *
 * It knows streams, header blocks, bytes and windows, and nothing of gRPC. A stream is embedded in whatever its owner
 * keeps for a request; the connection points at it from belfry_h2_submit() until it is let go: by belfry_h2_finish(),
 * belfry_h2_reset(), or because it closed, which is reported once. After that no event names it and it may be freed.
 *
 * Flow control: the connection's window is given back as bytes arrive, whoever they are for, so that no stream can
 * stall another; a stream's window is given back by belfry_h2_taken().
 *
 * Thread: owner. Pure: no clock, no socket.
 * Memory: nghttp2's state, allocated through malloc() of this process. A response header block is never kept; one over
 * BELFRY_H2_HEADER_BYTES resets its stream. nghttp2's own limits on floods (1,000 unsent PING and SETTINGS answers, 32
 * settings a frame) end the connection.
 */
#ifndef BELFRY_NET_H2_H
#define BELFRY_NET_H2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_H2_HEADER_BYTES      (64 * 1024)        /* names, values and 32 each, as SETTINGS counts them */
#define BELFRY_H2_CONNECTION_WINDOW (16 * 1024 * 1024) /* bytes all streams together may have under way */

struct belfry_h2;

/* One request and its response. */
struct belfry_h2_stream {
    int32_t id;    /* 0 before belfry_h2_submit() and after it was let go */
    bool pulled;   /* its HEADERS have left through belfry_h2_pull() */
    bool deferred; /* read() had nothing: belfry_h2_resume() when there is */
    bool flooded;  /* it was reset because its header block was over BELFRY_H2_HEADER_BYTES */
};

/* What happens, from inside receive; `read` and `pulled` from inside pull, and `closed` from either. They may call
 * submit, resume, finish, reset, taken and ping. An error they return ends the connection. */
struct belfry_h2_events {
    /* One field of a header block, then the end of the block, which may also end the response. */
    enum belfry_err (*field)(struct belfry_h2_stream *stream, struct belfry_bytes name, struct belfry_bytes value,
                             void *user);
    enum belfry_err (*block)(struct belfry_h2_stream *stream, bool last, void *user);
    /* Bytes of the body, and its end when no trailers come. */
    enum belfry_err (*data)(struct belfry_h2_stream *stream, struct belfry_bytes bytes, void *user);
    enum belfry_err (*end)(struct belfry_h2_stream *stream, void *user);
    /* The stream is gone without belfry_h2_finish() or reset(): `code` is an HTTP/2 error code, `why` lent. */
    void (*closed)(struct belfry_h2_stream *stream, uint32_t code, const char *why, void *user);
    /* GOAWAY: no new streams, and those above `last_id` were not looked at. */
    void (*goaway)(int32_t last_id, uint32_t code, struct belfry_bytes debug, void *user);
    /* Fills up to `cap` bytes of the request and returns how many; 0 without *out_end: nothing for now. */
    size_t (*read)(struct belfry_h2_stream *stream, uint8_t *to, size_t cap, bool *out_end, void *user);
    /* Its HEADERS have left through belfry_h2_pull(). May be NULL. */
    void (*pulled)(struct belfry_h2_stream *stream, void *user);
};

/* `window` is the receive window of each stream. `events` outlives the connection. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_h2_create(uint32_t window, const struct belfry_h2_events *events, void *user,
                                                  struct belfry_h2 **out);

/* Forgets every stream without an event. NULL is fine. */
void belfry_h2_destroy(struct belfry_h2 *h2);

/* Bytes came from the peer. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM, what an event returned: the connection is
 * over; belfry_h2_pull() may still give a GOAWAY. */
BELFRY_NODISCARD enum belfry_err belfry_h2_receive(struct belfry_h2 *h2, struct belfry_bytes bytes);

/* Appends what is to be sent to `out`, several frames at once, until it holds at least `enough` bytes or all is there.
 * Errors: as receive; what was appended is still worth writing. */
BELFRY_NODISCARD enum belfry_err belfry_h2_pull(struct belfry_h2 *h2, size_t enough, struct belfry_buf *out);

bool belfry_h2_wants_write(const struct belfry_h2 *h2);

/* A sentence about what made receive or pull fail. Lent. */
const char *belfry_h2_why(const struct belfry_h2 *h2);

/* How many more streams the peer allows now. */
size_t belfry_h2_room(const struct belfry_h2 *h2);

/* Sends a request; its body comes from read(). Errors: BELFRY_ERR_NOMEM; BELFRY_ERR_LIMIT when the connection has used
 * up its stream ids. */
BELFRY_NODISCARD enum belfry_err belfry_h2_submit(struct belfry_h2 *h2, const nghttp2_nv *fields, size_t n,
                                                  struct belfry_h2_stream *stream);

/* The same for a request that has no body: it ends with its headers, and read() is not asked. */
BELFRY_NODISCARD enum belfry_err belfry_h2_submit_bodiless(struct belfry_h2 *h2, const nghttp2_nv *fields, size_t n,
                                                           struct belfry_h2_stream *stream);

/* read() has something again. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_h2_resume(struct belfry_h2 *h2, struct belfry_h2_stream *stream);

/* Lets go of a stream whose response is complete; RST_STREAM(NO_ERROR) if the request is not. Safe when it was let go
 * already, as reset is. When memory runs out in these three, the next receive or pull says so. */
void belfry_h2_finish(struct belfry_h2 *h2, struct belfry_h2_stream *stream);

/* Lets go of a stream with RST_STREAM(code); if its HEADERS were not pulled yet, nothing is sent at all. */
void belfry_h2_reset(struct belfry_h2 *h2, struct belfry_h2_stream *stream, uint32_t code);

/* `n` bytes of the stream's data were taken: the peer may send as many more. */
void belfry_h2_taken(struct belfry_h2 *h2, struct belfry_h2_stream *stream, size_t n);

/* Queues a PING. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_h2_ping(struct belfry_h2 *h2);

/* Queues a GOAWAY(code) after which nothing more is sent. */
void belfry_h2_terminate(struct belfry_h2 *h2, uint32_t code);

/* The socket is gone: nothing is received or sent any more. */
void belfry_h2_abandon(struct belfry_h2 *h2);

#endif
