/* src/net/grpc.h
 *
 * grpc: calls of gRPC: messages framed over a call of net/call.h, which always speaks HTTP/2.
 *
 * The connection is a struct belfry_http of belfry_grpc_connect(). It carries any number of calls: unary,
 * client-streaming and bidirectional are all "open, send, half-close, receive". A call's window is given back as its
 * messages are put together.
 *
 * Thread: owner. Pure: no clock, no socket; unchecked: the connection of its calls is (call.h).
 * Memory: a call buffers at most one stream window (BELFRY_GRPC_WINDOW) of undelivered bytes plus one message of at
 * most max_message_bytes, grown only as its bytes really arrive.
 */
#ifndef BELFRY_NET_GRPC_H
#define BELFRY_NET_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "net/call.h"

#define BELFRY_GRPC_WINDOW (1024 * 1024) /* bytes a peer may send on one stream before we have taken them */

/* The codes of the gRPC protocol. */
enum belfry_grpc_code {
    BELFRY_GRPC_OK = 0,
    BELFRY_GRPC_CANCELLED = 1,
    BELFRY_GRPC_UNKNOWN = 2,
    BELFRY_GRPC_INVALID_ARGUMENT = 3,
    BELFRY_GRPC_DEADLINE_EXCEEDED = 4,
    BELFRY_GRPC_NOT_FOUND = 5,
    BELFRY_GRPC_ALREADY_EXISTS = 6,
    BELFRY_GRPC_PERMISSION_DENIED = 7,
    BELFRY_GRPC_RESOURCE_EXHAUSTED = 8,
    BELFRY_GRPC_FAILED_PRECONDITION = 9,
    BELFRY_GRPC_ABORTED = 10,
    BELFRY_GRPC_OUT_OF_RANGE = 11,
    BELFRY_GRPC_UNIMPLEMENTED = 12,
    BELFRY_GRPC_INTERNAL = 13,
    BELFRY_GRPC_UNAVAILABLE = 14,
    BELFRY_GRPC_DATA_LOSS = 15,
    BELFRY_GRPC_UNAUTHENTICATED = 16
};

struct belfry_grpc_call;

/* How a call ended. */
struct belfry_grpc_status {
    int code;            /* of the server, or what the way it ended maps to */
    const char *message; /* percent-decoded, may hold any byte but NUL; "" when there was none. Lent for the callback */
    bool from_server; /* a grpc-status was received; otherwise made up from HTTP status, RST_STREAM, GOAWAY or loss */
    bool too_large;   /* a message was over max_message_bytes, the call's or the connection's: we ended the call */
    bool unprocessed; /* certainly not seen by the server's application: safe to send again elsewhere */
};

struct belfry_grpc_opts {
    const char *scheme;    /* "http" or "https" */
    const char *authority; /* host:port */
    const char *user_agent;
    const char *via;               /* the value of "belfry-via" on every call: which tier asks; NULL: none. Lent */
    uint32_t keepalive_ms;         /* a PING after this long without one, only while a call is open; at least 10,000 */
    uint32_t keepalive_timeout_ms; /* no ACK, and not a byte of any kind, in this time: the connection is dead */
    size_t max_message_bytes;      /* a larger message ends its call with RESOURCE_EXHAUSTED */
    const struct belfry_log *log;  /* may be NULL; outlives the connection */
};

/* What happens to a call, from where the events of net/call.h come; never from inside call_open or send.
 * A callback may open, send on, cancel and hold any call of the connection; it must not destroy the connection. */
struct belfry_grpc_events {
    /* One whole message, decompressed. The blob is lent: take a reference to keep it. */
    void (*message)(struct belfry_grpc_call *call, struct belfry_blob *message, void *user);
    /* The last callback of a call; the call is gone when it returns. */
    void (*closed)(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user);
};

/* How gRPC needs a connection, for belfry_http_create(); it is to be started with HTTP/2. */
struct belfry_http_opts belfry_grpc_http_opts(const struct belfry_grpc_opts *opts);

/* Makes a connection as gRPC needs it, started; the caller ends *out with belfry_http_destroy(). What it is given
 * outlives it. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID (keepalive under 10 s, or a timeout of 0). */
BELFRY_NODISCARD enum belfry_err belfry_grpc_connect(const struct belfry_grpc_opts *opts, uint64_t now_ms,
                                                     struct belfry_http **out);

struct belfry_grpc_call_opts {
    const char *path;                         /* "/etcdserverpb.KV/Range" */
    const struct belfry_http_field *metadata; /* names in lower case; of names ending in -bin the value is base64 */
    size_t n_metadata;
    uint64_t deadline_ms; /* a point in time; BELFRY_NEVER: none. Sent as grpc-timeout and kept here too */
};

/* Opens a call; nothing is sent before the connection is pulled, and no response headers are waited for.
 * Errors: BELFRY_ERR_UNAVAILABLE (draining or dead), BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (the peer's stream limit is
 * reached and 10,000 calls wait for it), BELFRY_ERR_INVALID (path or metadata that HTTP/2 does not allow, a grpc- name,
 * or more than 48 KiB of it). */
BELFRY_NODISCARD enum belfry_err belfry_grpc_call_open(struct belfry_http *http,
                                                       const struct belfry_grpc_call_opts *opts,
                                                       const struct belfry_grpc_events *events, void *user,
                                                       struct belfry_grpc_call **out);

/* Queues one message (copied), uncompressed; dropped when the peer has ended the call and `closed` is yet to come.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID (half-closed already, or 4 GiB); the call unharmed. */
BELFRY_NODISCARD enum belfry_err belfry_grpc_call_send(struct belfry_grpc_call *call, struct belfry_bytes message);

/* Of messages that begin from now on, if less than the connection's max_message_bytes; 0: that. */
void belfry_grpc_call_limit(struct belfry_grpc_call *call, size_t max_message_bytes);

/* Bytes queued by belfry_grpc_call_send() and not pulled yet: for callers that must bound what they queue. */
size_t belfry_grpc_call_queued(const struct belfry_grpc_call *call);

/* No more messages from us. */
void belfry_grpc_call_half_close(struct belfry_grpc_call *call);

/* RST_STREAM(CANCEL) if the peer knows of the call; no further callback; the call is gone. */
void belfry_grpc_call_cancel(struct belfry_grpc_call *call);

#endif
