/* src/server/exchange.h
 *
 * exchange: one request and its response as a dialect sees it. HTTP/1.1 (h1_server.h) and HTTP/2 (h2_server.h) both
 * present it, so that a dialect never knows which.
 *
 * It begins with a head, passed to the connection's begin function, which must set a handler before it returns. One of
 * two things ends it: the handler's last word (exchange_end, exchange_answer or exchange_reset), or the event `gone`.
 * After either no event comes, and the exchange must not be touched.
 *
 * Writing: exchange_room() says how many bytes can be written now without piling up. A handler with more waits for
 * `writable`. Nothing reaches the socket from inside a call: the connection's next flush sends the output of all its
 * exchanges in one write.
 *
 * Reading: the peer may send EXCHANGE_WINDOW bytes of body ahead of what the handler has taken. A handler that cannot
 * use them yet keeps them and takes them later.
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
#include "net/http_field.h"
#include "server/client_address.h"
#include "server/shares.h"

#define EXCHANGE_COST     1024        /* about what an open exchange costs: nghttp2's stream, ours, the handler's */
#define EXCHANGE_WINDOW   (64 * 1024) /* body bytes that may have been received and not taken */
#define EXCHANGE_ROOM     (64 * 1024) /* the most that exchange_room() returns */
#define EXCHANGE_ROOM_LOW (16 * 1024) /* when it returned less, `writable` will come */

struct exchange;

/* A request's head, lent until begin() returns. */
struct exchange_head {
    struct belfry_bytes method, scheme, path, authority; /* path with its query */
    const struct belfry_http_field *fields;              /* without pseudo-headers */
    size_t n_fields;
};

/* The connection of an exchange, as far as dialects need it. */
struct exchange_conn {
    uint64_t id;                    /* unique in the process */
    char peer[CLIENT_ADDRESS_TEXT]; /* `address` as text: "10.3.8.17:51442", "unix" */
    struct client_address address;  /* of the client; behind a balancer, as the balancer names it (proxy_head.h) */
    const char *user; /* the name in the client's certificate, for the life of the connection; NULL: there is none */
    bool tls;
    bool leaving;             /* the peer was told to connect elsewhere (inbound_shut) */
    bool http1;               /* HTTP/1.1 or 1.0 */
    struct shares_conn share; /* what it holds of every pool */
    const void *policy;       /* of its listener; given to inbound_accept() */
    bool probes;              /* HTTP/1.1: its last request asks whether the process lives or is ready */
    unsigned pin;             /* keeps calls of one connection together (serve/uplink/uplink.h); 0: none yet */
    uint64_t watched_past;    /* that of the newest watch by it, for tiers below (serve/reads/reads.h); 0: none yet */
};

/* None comes from inside begin() or a call of exchange_*(). Each may end its exchange. */
struct exchange_events {
    void (*body)(struct exchange *x, struct belfry_bytes bytes, void *user); /* lent; see exchange_taken() */
    void (*body_end)(struct exchange *x, void *user);                        /* the request is complete */
    void (*writable)(struct exchange *x, void *user); /* there is room again after exchange_room() said little */
    void (*gone)(struct exchange *x, void *user); /* the peer cancelled it, or the connection is lost: the last event */
};

/* A new request: sets a handler or has the last word immediately. `user` belongs to the connection's owner. */
typedef void (*exchange_begin_fn)(struct exchange *x, const struct exchange_head *head, void *user);

/* Events for handlers that ignore the request's body, or any other event. */
void exchange_drop_body(struct exchange *x, struct belfry_bytes bytes, void *user);
void exchange_ignore(struct exchange *x, void *user);

void exchange_handle(struct exchange *x, const struct exchange_events *events, void *user);

const struct exchange_conn *exchange_conn(const struct exchange *x);
unsigned *exchange_pin(struct exchange *x);                /* exchange_conn()->pin, to be set */
uint64_t *exchange_watched_past(struct exchange *x);       /* likewise */
void exchange_set_probes(struct exchange *x, bool probes); /* likewise; such a connection makes way last */

/* `n` more bytes of the body were used: the peer may send as many. After the handler's last word all count as used. */
void exchange_taken(struct exchange *x, size_t n);

/* `bytes` are kept for this request, which is not whole (shares.h); 0: it is whole. An exchange begins with
 * EXCHANGE_COST and has 0 when the request's body has ended; between these the handler sets it. */
void exchange_holds(struct exchange *x, size_t bytes);

/* What its connection holds of the pools, for shares_make_room() and shares_count(). It lives as long as the
 * connection: after the last word until the loop's next turn, and to the end of `gone`. */
struct shares_conn *exchange_share(const struct exchange *x);
bool exchange_is_ending(const struct exchange *x); /* its connection is ending: `gone` will come */

/* Sends the head of the response, before anything else. */
void exchange_respond(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n);

/* The response has no end of its own: it goes on until the client has left. With HTTP/1.1, a client that sends no more
 * has left then, and `gone` comes; with any other response it may still wait for the end. */
void exchange_lasts(struct exchange *x);

/* Bytes that can be written now, at most EXCHANGE_ROOM. */
size_t exchange_room(struct exchange *x);

/* Writes a part of the body (copied); after exchange_respond(). It may exceed the room. Without memory the connection
 * is ended, and `gone` comes from the loop; so for the calls below. */
void exchange_write(struct exchange *x, const void *data, size_t len);

/* Writes as much of it as there is room for, and returns how much that was. Asks for room until there is too little, so
 * that `writable` will come if a part is left. */
size_t exchange_pour(struct exchange *x, struct belfry_bytes bytes);

/* The last word: the body ends, with trailers if n > 0 (HTTP/1.1: as trailers of a chunked body). */
void exchange_end(struct exchange *x, const struct belfry_http_field *trailers, size_t n);

/* The last word: a whole response. With an empty body HTTP/2 ends the stream with its headers (gRPC's
 * trailers-only). */
void exchange_answer(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                     struct belfry_bytes body);

/* The last word: RST_STREAM(code); unsent output is dropped. HTTP/1.1 closes the connection. */
void exchange_reset(struct exchange *x, uint32_t h2_code);

/* ---- for h1_server and h2_server ---- */

struct exchange_ops {
    void (*taken)(struct exchange *x, size_t n);
    void (*respond)(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n);
    size_t (*room)(struct exchange *x);
    void (*write)(struct exchange *x, const void *data, size_t len);
    void (*end)(struct exchange *x, const struct belfry_http_field *trailers, size_t n);
    void (*answer)(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                   struct belfry_bytes body);
    void (*reset)(struct exchange *x, uint32_t h2_code);
};

struct exchange { /* embedded by h1_server and h2_server */
    const struct exchange_ops *ops;
    struct exchange_conn *conn;
    const struct exchange_events *events; /* NULL: the handler has had its last word */
    void *user;
    size_t held; /* of conn->share.unfinished */
    bool lasts;
};

/* ---- a head's path and fields ---- */

/* The path without its query, which is stored without its '?'; empty: there is none. Both lent. */
struct belfry_bytes exchange_path(const struct exchange_head *head, struct belfry_bytes *query);

/* The value of the first field of that name; {NULL, 0} when there is none. */
struct belfry_bytes exchange_field(const struct exchange_head *head, const char *name);

#endif
