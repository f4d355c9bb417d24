/* src/server/exchange.h
 *
 * exchange: one request and its response as a dialect sees it. HTTP/1.1 (h1_server.h) and HTTP/2 (h2_server.h) both
 * present it, so that a dialect never knows which.
 *
 * It begins with a head, handed to the connection's begin function, which sets a handler (it must, before it returns).
 * From then on exactly one of two things ends it: the handler's last word (exchange_end, exchange_answer or
 * exchange_reset), after which no event comes and the exchange must not be touched; or `gone`, after which likewise.
 *
 * Writing: exchange_room() says how much is taken now without piling up. Whoever has more than that waits for
 * `writable`. Nothing reaches the socket from inside a call: what was written goes out when the connection is flushed,
 * in one write for all exchanges of it.
 *
 * Reading: the peer may send EXCHANGE_WINDOW bytes of body ahead of what the handler has taken; a handler that is held
 * up keeps those few and takes them later.
 *
 * Thread: owner (the loop of its connection).
 */
#ifndef BELFRY_SERVER_EXCHANGE_H
#define BELFRY_SERVER_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "server/intake.h"

#define EXCHANGE_COST     1024 /* what an open exchange counts as, about: nghttp2's stream, ours, a handler's few things */
#define EXCHANGE_WINDOW   (64 * 1024) /* body bytes that may have come and are not taken */
#define EXCHANGE_ROOM     (64 * 1024) /* the most that exchange_room() says */
#define EXCHANGE_ROOM_LOW (16 * 1024) /* under this, `writable` will come */

struct exchange;

struct exchange_field {
    struct belfry_bytes name, value; /* names are in lower case */
};

/* What is asked. Everything is lent until begin() returns. */
struct exchange_head {
    struct belfry_bytes method, scheme, path, authority; /* path with its query */
    const struct exchange_field *fields;                 /* without pseudo-headers */
    size_t n_fields;
};

/* Its connection, as far as dialects care. */
struct exchange_conn {
    uint64_t id;   /* unique in the process */
    char peer[64]; /* "10.3.8.17:51442", "unix" */
    char user[64]; /* common name of the client's certificate; "" when there is none */
    bool tls;
    bool leaving;              /* the peer has been told to connect elsewhere (inbound_shut) */
    bool http1;                /* HTTP/1.1 or 1.0 */
    struct intake_conn intake; /* its share of what is held of requests that are not whole */
    const void *policy;        /* of its listener; given to inbound_accept() */
    unsigned pin;              /* for who keeps calls of one connection together (serve/uplink/uplink.h); 0: none yet */
};

/* None comes from inside begin() or a call of exchange_*(). Each may end its exchange. */
struct exchange_events {
    void (*body)(struct exchange *x, struct belfry_bytes bytes, void *user); /* lent; see exchange_taken() */
    void (*body_end)(struct exchange *x, void *user);                        /* the request is complete */
    void (*writable)(struct exchange *x, void *user); /* there is room again after exchange_room() said little */
    void (*gone)(struct exchange *x, void *user);     /* the peer gave it up, or the connection is lost: the last one */
};

/* A new request: sets a handler or has the last word at once. `user` is of the connection's owner. */
typedef void (*exchange_begin_fn)(struct exchange *x, const struct exchange_head *head, void *user);

/* Handlers for who does not care: a body that nobody asked for is taken and dropped; any other event is nothing. */
void exchange_drop_body(struct exchange *x, struct belfry_bytes bytes, void *user);
void exchange_ignore(struct exchange *x, void *user);

void exchange_handle(struct exchange *x, const struct exchange_events *events, void *user);

const struct exchange_conn *exchange_conn(const struct exchange *x);
unsigned *exchange_pin(struct exchange *x); /* exchange_conn()->pin, to be set */

/* `n` more bytes of the body were used: the peer may send as many. All that has come counts as used when the handler
 * has had its last word. */
void exchange_taken(struct exchange *x, size_t n);

/* `bytes` are kept for this request, which is not whole; 0: it is in good order. An exchange begins with EXCHANGE_COST, and
 * has 0 when the request's body has ended; between these it is the handler's to say. */
void exchange_holds(struct exchange *x, size_t bytes);

/* Is there room in a pool that may have `max` when `used` of it are used, this exchange's needs included? If not, the
 * connection that holds most of requests that are not whole is ended (intake.h), and there is. False: that is the
 * exchange's own connection, or no connection holds much: the handler finds room elsewhere, or ends the exchange. */
bool exchange_has_room(struct exchange *x, size_t used, size_t max);
bool exchange_is_ending(const struct exchange *x); /* its connection is: to hear it, wait for `gone` */

/* Sends the head of the response, before anything else. */
void exchange_respond(struct exchange *x, int status, const struct exchange_field *fields, size_t n);

/* Bytes that can be written now, at most EXCHANGE_ROOM. */
size_t exchange_room(struct exchange *x);

/* Writes a part of the body (copied); after exchange_respond(). It is taken whatever the room is; when there is no
 * memory for it the connection is ended, and `gone` comes from the loop, as for all that follows here. */
void exchange_write(struct exchange *x, const void *data, size_t len);

/* The last word: the body ends, with trailers if n > 0 (HTTP/1.1: as trailers of a chunked body). */
void exchange_end(struct exchange *x, const struct exchange_field *trailers, size_t n);

/* The last word, said at once: a whole response. Body may be empty; for HTTP/2 headers alone then end the stream
 * (gRPC's trailers-only). */
void exchange_answer(struct exchange *x, int status, const struct exchange_field *fields, size_t n,
                     struct belfry_bytes body);

/* The last word: RST_STREAM(code), whatever was not sent is dropped; HTTP/1.1 closes the connection. */
void exchange_reset(struct exchange *x, uint32_t h2_code);

/* ---- for those who present it ---- */

struct exchange_ops {
    void (*taken)(struct exchange *x, size_t n);
    void (*respond)(struct exchange *x, int status, const struct exchange_field *fields, size_t n);
    size_t (*room)(struct exchange *x);
    void (*write)(struct exchange *x, const void *data, size_t len);
    void (*end)(struct exchange *x, const struct exchange_field *trailers, size_t n);
    void (*answer)(struct exchange *x, int status, const struct exchange_field *fields, size_t n,
                   struct belfry_bytes body);
    void (*reset)(struct exchange *x, uint32_t h2_code);
};

/* What the connections of one owner cost together, about, and the most that they may: over it there are no new ones, and
 * nobody has more room than the least. */
struct exchange_memory {
    size_t used, max; /* max 0: no bound */
    uint64_t refused; /* exchanges that were not begun */
};

static inline bool exchange_memory_has(const struct exchange_memory *memory, size_t n)
{
    return memory->max == 0 || (memory->used < memory->max && n <= memory->max - memory->used);
}

/* What cost `before` costs `after`. */
static inline void exchange_memory_count(struct exchange_memory *memory, size_t before, size_t after)
{
    memory->used += after - before; /* may wrap on its way, and comes out right */
}

struct exchange { /* embedded by h1_server's and h2_server's own */
    const struct exchange_ops *ops;
    struct exchange_conn *conn;
    const struct exchange_events *events; /* NULL: the handler has had its last word */
    void *user;
    size_t held; /* of conn->intake */
};

/* ---- a head's path and fields ---- */

/* The path without its query, which is stored without its '?'; empty: there is none. Both lent. */
struct belfry_bytes exchange_path(const struct exchange_head *head, struct belfry_bytes *query);

/* The value of the first field of that name; {NULL, 0} when there is none. */
struct belfry_bytes exchange_field(const struct exchange_head *head, const char *name);

#endif
