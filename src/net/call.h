/* src/net/call.h
 *
 * call: one request and its response, on a connection that speaks HTTP/2 or HTTP/1.1, without the socket.
 *
 * Bytes from the peer and `now` go in, bytes for the peer and events come out; a test needs no network. A call is told
 * what the protocol carries: fields, blocks of fields, bytes. What they mean is for the layers above: net/grpc.h makes
 * messages of them, net/fetch.h one head and a body, serve's relay passes them on as they are.
 *
 *     WAITING ------> RUNNING ------> OVER ------> GONE         moved by call_move() in call.c alone
 *     for start,      the head is     the peer is  `closed` was made, or it was cancelled; `gone` follows
 *     for room        on its way      done
 *        \________________\______________^___________^
 *
 * A connection is created before it is known which version it speaks: calls opened until then wait, and go out after
 * belfry_http_start(). HTTP/2 carries as many calls as the peer allows. HTTP/1.1 carries one at a time, without a
 * request body, and the next one when the response ended in good order and the peer keeps the connection.
 *
 *     NEW --start--> OPEN --GOAWAY, Connection: close--> DRAINING --> DEAD      any state may go to DEAD
 *
 * Flow control: HTTP/2's window of the connection is given back as bytes arrive, so that no call can stall another; a
 * call's own when its bytes are taken. A held call takes none: over HTTP/2 at most `window` bytes of it are kept here;
 * over HTTP/1.1 belfry_http_wants_read() says to leave the rest in the socket.
 *
 * Thread: owner. Pure: no clock, no socket.
 * Memory: a call is its owner's; here the request head until it was sent, and the bytes of held calls.
 */
#ifndef BELFRY_NET_CALL_H
#define BELFRY_NET_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "net/h2.h"
#include "net/http_ask.h"
#include "net/http_field.h"

#define BELFRY_HTTP_WAITING_MAX 10000 /* calls over the peer's limit of streams */
#define BELFRY_HTTP_WHY_BYTES   256   /* of a sentence that is made here */

struct belfry_http; /* the connection */
struct belfry_http_call;

enum belfry_http_version { BELFRY_HTTP_1 = 1, BELFRY_HTTP_2 = 2 };

enum belfry_http_state {
    BELFRY_HTTP_NEW,      /* before start */
    BELFRY_HTTP_OPEN,     /* takes new calls */
    BELFRY_HTTP_DRAINING, /* calls that run go on, new ones are refused */
    BELFRY_HTTP_DEAD      /* an error or belfry_http_lost(): every call is over */
};

enum belfry_http_how {
    BELFRY_HTTP_ENDED,   /* the response is complete */
    BELFRY_HTTP_RESET,   /* the peer, or HTTP/2 on its behalf, ended this stream alone */
    BELFRY_HTTP_GOAWAY,  /* the peer takes no more calls, and did not look at this one */
    BELFRY_HTTP_LOST,    /* the connection broke */
    BELFRY_HTTP_EXPIRED, /* its deadline has passed */
    BELFRY_HTTP_BROKEN   /* its owner had no use for what came (belfry_http_call_break()) */
};

/* How a call ended. */
struct belfry_http_end {
    enum belfry_http_how how;
    enum belfry_err
        err; /* BELFRY_OK: ENDED. Else _UNAVAILABLE, _PROTOCOL, _NOMEM, _TOO_LARGE (a header block), _TIMEOUT */
    uint32_t h2_code; /* RESET and GOAWAY: the peer's */
    bool unprocessed; /* certainly not seen by the server's application: safe to send again elsewhere */
    const char *why;  /* lent; "" without a reason or the memory for one */
};

/* What happens to a call. Made from inside receive, tick, lost, destroy and call_hold(false), and from a pull that
 * fails; never from inside call_open. They may open, cancel, break and hold any call; they must not destroy the
 * connection. An error that one returns ends the connection. */
struct belfry_http_events {
    /* One more field, asked for when the head goes out; false: none. Lent for that moment. NULL: none. */
    bool (*late)(struct belfry_http_call *call, uint64_t now_ms, struct belfry_http_field *out);
    /* Fills up to `cap` bytes of the request and returns how many; 0 without *out_end: nothing for now. NULL: the
     * request has no body. Ends no call. */
    size_t (*read)(struct belfry_http_call *call, uint8_t *to, size_t cap, bool *out_end);
    /* One field of a block, held or not; then the end of the block. The first field of a response's head is ":status".
     * A block with a status of 1xx announces another head; one after the head is trailers. `last` ends the response. */
    enum belfry_err (*field)(struct belfry_http_call *call, struct belfry_bytes name, struct belfry_bytes value);
    enum belfry_err (*block)(struct belfry_http_call *call, bool last);
    /* Takes bytes of the body from the front of *in: all, or some if it holds, breaks or cancels the call, or wants the
     * rest told by another call. */
    enum belfry_err (*data)(struct belfry_http_call *call, struct belfry_bytes *in);
    /* belfry_http_call_hold(call, false) was said, and nothing is told yet. May be NULL. */
    void (*released)(struct belfry_http_call *call);
    /* The last event, unless the call is cancelled. */
    void (*closed)(struct belfry_http_call *call, const struct belfry_http_end *end);
    /* After `closed` or cancel, when nothing here stands on the call any more: its memory is the owner's. */
    void (*gone)(struct belfry_http_call *call);
    bool patient;      /* it may be held: then its end is told when it goes on, after what came before it */
    bool owner_window; /* the window is given back by belfry_http_call_taken(), not as data() takes bytes */
};

enum belfry_http_call_state {
    BELFRY_HTTP_CALL_WAITING,
    BELFRY_HTTP_CALL_RUNNING,
    BELFRY_HTTP_CALL_OVER,
    BELFRY_HTTP_CALL_GONE
};

/* Embedded in what the owner keeps for a call. The owner reads `state` and `held`; the rest belongs to call.c. */
struct belfry_http_call {
    /* fixed while it is open */
    struct belfry_http *http;
    const struct belfry_http_events *events;
    uint64_t deadline_ms;
    /* owner only */
    enum belfry_http_call_state state;
    unsigned on_stack;             /* events of this call that are running: it is gone after the last */
    struct belfry_list node;       /* in one list of the connection until GONE */
    struct belfry_list ready_node; /* while read() has bytes again for a stream that had none */
    struct belfry_http_ask *ask;   /* owned; until its HEADERS have left */
    struct belfry_h2_stream stream;
    struct belfry_buf kept; /* bytes that were not taken; at most the window */
    bool held;
    bool telling;               /* an event of the body is running, or the loop around it */
    bool deaf;                  /* no more of the body is told */
    struct belfry_http_end end; /* valid from OVER on */
    char *why;                  /* owned; what end.why points at, or NULL */
};

/* What all calls of a connection have in common, for the layers that send or heed it. */
struct belfry_http_common {
    const char *user_agent;   /* NULL: none */
    const char *via;          /* gRPC: the value of "belfry-via": which tier asks; NULL: none */
    size_t max_message_bytes; /* gRPC: a larger message ends its call with RESOURCE_EXHAUSTED */
};

struct belfry_http_opts {
    const char *scheme;               /* "http" or "https" */
    const char *authority;            /* host:port, for Host or :authority */
    struct belfry_http_common common; /* its strings outlive the connection */
    uint32_t window;                  /* bytes a peer may send of one response before they are taken */
    uint32_t ping_ms; /* HTTP/2: a PING after this long without a byte from the peer, while a call is open; 0: never */
    uint32_t ping_timeout_ms;     /* not a byte in this time after it: the connection is dead */
    bool ping_steadily;           /* ping_ms counts from the PING before, whatever else came */
    bool discreet;                /* what the peer says in a GOAWAY is not repeated to the calls */
    const struct belfry_log *log; /* of GOAWAY and the end; NULL: not logged. Outlives the connection */
};

/* Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID (an authority that HTTP does not allow). */
BELFRY_NODISCARD enum belfry_err belfry_http_create(const struct belfry_http_opts *opts, uint64_t now_ms,
                                                    struct belfry_http **out);
/* Ends every call first, held or not (LOST). NULL is fine. */
void belfry_http_destroy(struct belfry_http *http);

/* The connection is up and speaks this. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_http_start(struct belfry_http *http, enum belfry_http_version version,
                                                   uint64_t now_ms);

/* Bytes came from the peer. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM and others: the connection is then DEAD and
 * its calls have ended; write out what belfry_http_pull() still gives (a GOAWAY) if you can, and close the socket. */
BELFRY_NODISCARD enum belfry_err belfry_http_receive(struct belfry_http *http, struct belfry_bytes bytes,
                                                     uint64_t now_ms);

/* The next bytes for the peer, lent until the next call on the connection; empty when there are none. Whatever is
 * stored in *out counts as sent: the caller writes all of it before it pulls again. Errors: as receive. */
BELFRY_NODISCARD enum belfry_err belfry_http_pull(struct belfry_http *http, uint64_t now_ms, struct belfry_bytes *out);

bool belfry_http_wants_write(struct belfry_http *http);      /* belfry_http_pull() would give bytes */
bool belfry_http_wants_read(const struct belfry_http *http); /* false: leave what the peer sends in the socket */

/* The socket ended. A response of HTTP/1.1 without a length ends with it in good order; other calls end as LOST. */
void belfry_http_lost(struct belfry_http *http, const char *why);

/* Deadlines and PINGs. Errors: BELFRY_ERR_TIMEOUT (the peer does not answer: as receive). */
BELFRY_NODISCARD enum belfry_err belfry_http_tick(struct belfry_http *http, uint64_t now_ms);
uint64_t belfry_http_due(const struct belfry_http *http); /* of the next tick; BELFRY_NEVER when nothing is timed */

enum belfry_http_state belfry_http_state(const struct belfry_http *http);
enum belfry_http_version belfry_http_version(const struct belfry_http *http); /* after start */
const struct belfry_http_common *belfry_http_common(const struct belfry_http *http);
size_t belfry_http_n_calls(const struct belfry_http *http);

/* How many calls could be opened now and go out immediately: HTTP/1.1: 1 or 0; HTTP/2: what the peer allows; before
 * start 0. */
size_t belfry_http_room(const struct belfry_http *http);

/* From DRAINING on: the error code of the peer's GOAWAY; NGHTTP2_NO_ERROR if it left another way. */
uint32_t belfry_http_goaway_code(const struct belfry_http *http);

/* What made receive, pull or tick fail. Lent. */
const char *belfry_http_why(const struct belfry_http *http);

/* Opens a call in the caller's memory; `ask` is owned from here on, also on failure. `deadline_ms`: a point in time;
 * BELFRY_NEVER: none. Errors, after which the call is not open: BELFRY_ERR_UNAVAILABLE (draining or dead),
 * BELFRY_ERR_LIMIT (BELFRY_HTTP_WAITING_MAX calls wait for room). */
BELFRY_NODISCARD enum belfry_err belfry_http_call_open(struct belfry_http *http, struct belfry_http_call *call,
                                                       struct belfry_http_ask *ask, uint64_t deadline_ms,
                                                       const struct belfry_http_events *events);

/* No event follows but `gone`, which may come from inside. HTTP/2: RST_STREAM(CANCEL) if the peer knows of the call.
 * HTTP/1.1: a response under way cannot be skipped, so the connection is DEAD afterwards; calls that waited behind it
 * end, unprocessed, with the next tick, which is due immediately. */
void belfry_http_call_cancel(struct belfry_http_call *call);

/* What came cannot be used: lets go of the peer's part as cancel does, and `closed` will say BROKEN. */
void belfry_http_call_break(struct belfry_http_call *call, enum belfry_err err, const char *why);

/* Of a patient call. true: no data and no end is told. false: what was kept meanwhile is told from inside, in order; an
 * event among it may hold again. */
void belfry_http_call_hold(struct belfry_http_call *call, bool hold);

void belfry_http_call_resume(struct belfry_http_call *call);          /* read() has something again */
void belfry_http_call_taken(struct belfry_http_call *call, size_t n); /* with `owner_window` */

/* Around the owner's own use of a call that its events may end: `gone` waits for the outermost leave. */
void belfry_http_call_enter(struct belfry_http_call *call);
void belfry_http_call_leave(struct belfry_http_call *call);

/* Takes back the head of a call that ended before it was sent, from inside `closed`; NULL: it was sent. */
struct belfry_http_ask *belfry_http_call_take_ask(struct belfry_http_call *call);

#endif
