/* src/net/http.h
 *
 * http: the client's side of one HTTP connection, without the socket: HTTP/1.1 (llhttp) or HTTP/2 (net/h2), the same to
 * whoever asks. Requests have no body.
 *
 * A connection is made before it is known which of the two it speaks: calls opened until then wait, and go out when
 * belfry_http_start() says it. HTTP/1.1 carries one call at a time and is used again when the response ended in good
 * order and the peer lets it; HTTP/2 carries as many as the peer allows.
 *
 *     WAITING (for start, for room) --> SENT --> BODY --> (end or failed: the call is gone)
 *
 * Flow control: a held call gives back no window (HTTP/2), or makes belfry_http_wants_read() false (HTTP/1.1), so that
 * what is undelivered is bounded: at most BELFRY_HTTP_WINDOW a call over HTTP/2; over HTTP/1.1 what was read last.
 *
 * Thread: owner. Pure: no clock, no socket.
 * Memory: a response head of at most BELFRY_HTTP_HEAD_BYTES and BELFRY_HTTP_FIELDS fields, kept until it is told; bodies
 *         are lent as they come, and only what a held call was given is copied.
 */
#ifndef BELFRY_NET_HTTP_H
#define BELFRY_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_HTTP_WINDOW     (256 * 1024) /* bytes a peer may send on one stream of HTTP/2 before we have taken them */
#define BELFRY_HTTP_HEAD_BYTES (64 * 1024)
#define BELFRY_HTTP_FIELDS     128

struct belfry_http;      /* the connection */
struct belfry_http_call; /* one request and its response */

enum belfry_http_version { BELFRY_HTTP_1 = 1, BELFRY_HTTP_2 = 2 };

struct belfry_http_field {
    struct belfry_bytes name, value; /* names in lower case, whatever the peer wrote */
};

struct belfry_http_request {
    const char *method;                     /* "GET" */
    const char *target;                     /* path and query, already escaped */
    const struct belfry_http_field *fields; /* besides host (:authority) and user-agent */
    size_t n_fields;
};

struct belfry_http_head {
    int status; /* 200 to 599; 1xx are not told */
    const struct belfry_http_field *fields;
    size_t n_fields;
};

/* The value of the first field of this name (lower case); empty with data NULL: there is none. */
struct belfry_bytes belfry_http_find(const struct belfry_http_head *head, const char *name);

/* What happens to a call. Made from inside receive, tick, lost, destroy and call_hold(false), and from a pull that
 * fails; never from inside call_open. A callback may open, cancel and hold any call; it must not destroy the connection. */
struct belfry_http_events {
    void (*head)(struct belfry_http_call *call, const struct belfry_http_head *head, void *user); /* once; lent */
    void (*body)(struct belfry_http_call *call, struct belfry_bytes bytes, void *user);           /* lent */
    /* The last callback, one of two; the call is gone when it returns. The response ended as the protocol says. */
    void (*end)(struct belfry_http_call *call, void *user);
    /* It did not. `unprocessed`: certainly not seen by the server: safe to send again elsewhere.
     * BELFRY_ERR_UNAVAILABLE (the connection broke; GOAWAY; reset), _PROTOCOL, _NOMEM, _TOO_LARGE (the head),
     * _TIMEOUT (no answer to a PING), _LIMIT (HTTP/1.1: more was read for a held call than BELFRY_HTTP_WINDOW). */
    void (*failed)(struct belfry_http_call *call, enum belfry_err err, const char *why, bool unprocessed, void *user);
};

struct belfry_http_opts {
    const char *scheme;    /* "http" or "https" */
    const char *authority; /* host:port, for Host or :authority */
    const char *user_agent;
    uint32_t ping_ms; /* HTTP/2: a PING after this long without a byte from the peer, while a call is open; 0: never */
    uint32_t ping_timeout_ms; /* not a byte in this time after it: the connection is dead */
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_http_create(const struct belfry_http_opts *opts, uint64_t now_ms,
                                                    struct belfry_http **out);
/* Ends every call first (failed, UNAVAILABLE). NULL is fine. */
void belfry_http_destroy(struct belfry_http *http);

/* The connection is up and speaks this. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_http_start(struct belfry_http *http, enum belfry_http_version version,
                                                   uint64_t now_ms);

/* The following are as in net/grpc.h. After an error the connection is dead and its calls have failed. */
BELFRY_NODISCARD enum belfry_err belfry_http_receive(struct belfry_http *http, struct belfry_bytes bytes,
                                                     uint64_t now_ms);
BELFRY_NODISCARD enum belfry_err belfry_http_pull(struct belfry_http *http, uint64_t now_ms, struct belfry_bytes *out);
bool belfry_http_wants_write(struct belfry_http *http);
bool belfry_http_wants_read(const struct belfry_http *http); /* false: leave what the peer sends in the socket */
/* The socket ended. A response of HTTP/1.1 without a length ends with it in good order; every other call fails. */
void belfry_http_lost(struct belfry_http *http, const char *why);
BELFRY_NODISCARD enum belfry_err belfry_http_tick(struct belfry_http *http, uint64_t now_ms); /* BELFRY_ERR_TIMEOUT */
uint64_t belfry_http_due(const struct belfry_http *http); /* BELFRY_NEVER when nothing is timed */

enum belfry_http_state {
    BELFRY_HTTP_NEW,      /* before start */
    BELFRY_HTTP_OPEN,     /* takes new calls */
    BELFRY_HTTP_DRAINING, /* GOAWAY, or Connection: close: calls that run go on, new ones are refused */
    BELFRY_HTTP_DEAD
};
enum belfry_http_state belfry_http_state(const struct belfry_http *http);
enum belfry_http_version belfry_http_version(const struct belfry_http *http); /* after start */
size_t belfry_http_n_calls(const struct belfry_http *http);

/* How many calls could be opened now and go out at once: HTTP/1.1: 1 or 0; HTTP/2: what the peer allows; before start 0. */
size_t belfry_http_room(const struct belfry_http *http);

/* Opens a call; everything of `request` is copied as far as needed. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_UNAVAILABLE
 * (draining or dead), BELFRY_ERR_INVALID (a control character in target or fields, or whatever else net/http_ask.h does
 * not let through). */
BELFRY_NODISCARD enum belfry_err belfry_http_call_open(struct belfry_http *http,
                                                       const struct belfry_http_request *request,
                                                       const struct belfry_http_events *events, void *user,
                                                       struct belfry_http_call **out);

/* No callback comes after it and the call is gone, also from inside its own callbacks. HTTP/2: RST_STREAM. HTTP/1.1: a
 * response under way cannot be skipped, so the connection is dead afterwards (DEAD), unless nothing was sent yet; calls
 * that waited behind it fail, unprocessed, with the next tick, which is due at once. */
void belfry_http_call_cancel(struct belfry_http_call *call);

/* true: nothing is told until false is said, a failure neither (but belfry_http_destroy() tells it). What is held back
 * meanwhile is told from inside the call that says false, in order; a callback among it may hold again. */
void belfry_http_call_hold(struct belfry_http_call *call, bool hold);

#endif
