/* src/server/h2_server_private.h: what the parts of h2_server share.
 *
 *     h2_server.c           the session of nghttp2, its callbacks, and the connection's life
 *     h2_server_exchange.c  an exchange: what its handler says, and the DATA frames made of it
 *     h2_server_head.c      the head of the request that is being received
 */
#ifndef BELFRY_SERVER_H2_SERVER_PRIVATE_H
#define BELFRY_SERVER_H2_SERVER_PRIVATE_H

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "server/h2_server.h"

/* ---- the head that is being received ---- */

/* Names and values one after the other, each pair behind its two lengths; the array of fields is laid behind them when
 * they are complete, so that a head is one allocation. Header blocks do not interleave: a connection needs one. */
struct h2_head {
    struct belfry_buf buf;
    size_t n_fields;
    size_t list_bytes; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts; over H2_SERVER_HEADER_BYTES nothing is kept */
};

void h2_head_clear(struct h2_head *head);
BELFRY_NODISCARD enum belfry_err h2_head_add(struct h2_head *head, struct belfry_bytes name, struct belfry_bytes value);
bool h2_head_too_large(const struct h2_head *head);

/* What was added, lent until h2_head_clear(). Once. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err h2_head_present(struct h2_head *head, struct exchange_head *out);

/* ---- the connection ---- */

/* What has become of the connection. DOWN is final: nghttp2's state cannot be relied on and is not touched again.
 *
 *     UP --> NOTICED --> PROBED --> SHUT
 *      \________\___________\________\___> ENDING --> DOWN   (and from any to DOWN)
 */
enum h2_server_state {
    H2_SERVER_UP,
    H2_SERVER_NOTICED, /* a GOAWAY that names no stream yet is queued */
    H2_SERVER_PROBED,  /* it was pulled, and a PING after it; its ACK says that the peer knows */
    H2_SERVER_SHUT,    /* the GOAWAY that names the last stream is queued or sent */
    H2_SERVER_ENDING,  /* a GOAWAY with an error is queued or sent; nghttp2 ignores what comes */
    H2_SERVER_DOWN     /* out of memory, flooded, or nghttp2 has given up */
};

struct h2_server {
    /* fixed at creation */
    struct h2_server_opts opts;
    nghttp2_session *session; /* owned */
    /* owner only */
    enum h2_server_state state;
    enum h2_server_fault fault; /* of ENDING */
    enum belfry_err failed;     /* first failure that could not be returned where it happened */
    bool reported;              /* `failed` was returned by pull */
    bool starved;               /* nghttp2 was refused memory */
    bool told;                  /* wants_flush was called and nothing pulled since, or a pull is under way */
    bool greeted;               /* the peer's SETTINGS came */
    bool held;                  /* the socket is full: nobody has room */
    uint64_t now_ms;            /* of the last receive */
    struct h2_head head;
    uint64_t head_since_ms;       /* when it was begun; it is incomplete while there is something in `head` */
    struct belfry_list exchanges; /* of h2_exchange.of_all: every one whose stream is not closed */
    size_t n_exchanges;
    /* of h2_exchange.of_waiting: who found little room and was not told of more, ... */
    struct belfry_list short_of_window; /* ... because the stream's own window is small, */
    struct belfry_list short_of_share;  /* ... because the share of the connection's is, or the socket is full, */
    struct belfry_list due;             /* ... and for whom something has changed since */
    size_t share;                       /* of the connection's window: the least since unhold last looked */
    size_t bytes;                       /* in the buffers of all exchanges */
    struct exchange_memory *memory;     /* never NULL */
    struct exchange_memory own_memory;  /* ... because of this */
    size_t head_bytes;                  /* counted of `head` */
    uint64_t calm_at_ms;                /* the bucket of streams reset early: when it was filled last, ... */
    uint32_t calm;                      /* ... and how much is left, in thousandths of a stream */
    /* while a pull runs */
    struct belfry_buf *out;
    size_t enough;
};

/* For what has no result: kept until receive or pull can report it. `rc` is nghttp2's. */
void h2_server_note(struct h2_server *h2, enum belfry_err err);
void h2_server_note_rc(struct h2_server *h2, ssize_t rc);

/* Calls wants_flush if there is something that the owner does not know of. */
void h2_server_tell(struct h2_server *h2);

/* ---- an exchange ---- */

/* What its handler has said:
 *
 *     NOTHING --> HEAD --> END       exchange_answer() goes there at once
 *          \________\____\__> RESET
 */
enum h2_said {
    H2_SAID_NOTHING,
    H2_SAID_HEAD,
    H2_SAID_END,  /* the body is complete; some of it may wait in `buf` */
    H2_SAID_RESET /* RST_STREAM is queued */
};

struct h2_trailers;

struct h2_exchange {
    struct exchange base; /* first: what a dialect has is a pointer at this */
    struct h2_server *h2;
    int32_t id;
    enum h2_said said;
    bool is_head;   /* HEAD: whatever the body is, it is not sent */
    bool head_sent; /* the response's HEADERS were pulled */
    bool deferred;  /* nghttp2 found nothing to send and asks no more until it is told */
    size_t untaken; /* body bytes that came and were not given back to the stream's window */
    struct belfry_buf buf;
    struct h2_trailers *trailers; /* owned; NULL: none */
    struct belfry_list of_all, of_waiting;
};

/* NULL: no memory. It is in the connection's list until h2_exchange_destroy(). */
struct h2_exchange *h2_exchange_create(struct h2_server *h2, int32_t id);
void h2_exchange_destroy(struct h2_exchange *x);

/* The last event, if the handler has not had its last word. */
void h2_exchange_gone(struct h2_exchange *x);

/* Body bytes came, or their end. */
void h2_exchange_body(struct h2_exchange *x, struct belfry_bytes bytes);
void h2_exchange_body_end(struct h2_exchange *x);

/* Something has changed for the room of this one, if it waits for any. */
void h2_exchange_look_again(struct h2_exchange *x);

/* Tells `writable` if there is enough room now; if not it goes on waiting. It is in no list of those who wait. */
void h2_exchange_offer_room(struct h2_exchange *x);

/* The connection's window, shared out among those who are open (there is one). */
size_t h2_server_share(const struct h2_server *h2);

/* nghttp2's callback for a DATA frame; `source` points at the exchange. */
int h2_exchange_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t len,
                          nghttp2_data_source *source, void *user);

#endif
