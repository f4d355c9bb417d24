/* src/net/http_private.h: the inside of net/http.h, shared by its parts and nobody else.
 *
 *     http.c       the connection: its state, what is common to both versions, PING
 *     http_call.c  calls: their states, what they are told, holding
 *     http1.c      HTTP/1.1 by llhttp
 *     http2.c      HTTP/2 by net/h2
 *
 * A call goes through these states, moved by move() in http_call.c alone:
 *
 *     WAITING ---> SENT ---> BODY ---> OVER ---> GONE
 *        \___________\__________\________^_________^
 *
 * and is in one list of the connection as long as it is not GONE: `waiting`; `running` (SENT, BODY, and OVER while it is
 * held); or `ended` (OVER with nothing left but its last callback). Those last callbacks are made by
 * belfry_http_flush(), so that nothing above it on the stack stands on a call that may disappear.
 *
 * Thread: owner.
 */
#ifndef BELFRY_NET_HTTP_PRIVATE_H
#define BELFRY_NET_HTTP_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "net/h2.h"
#include "net/http.h"
#include "net/http_answer.h"
#include "net/http_ask.h"

#define BELFRY_HTTP_WHY_BYTES     256 /* of a sentence that is made up here */
#define BELFRY_HTTP_INFORMATIONAL 16  /* 1xx before a response; one more, and the peer means no response at all */

struct belfry_http1;

struct belfry_http {
    /* fixed at creation */
    struct belfry_http_origin origin;
    uint32_t ping_ms, ping_timeout_ms;
    /* fixed at start */
    enum belfry_http_version version;
    struct belfry_http1 *h1; /* owned; one of the two */
    struct belfry_h2 *h2;
    /* owner only */
    enum belfry_http_state state;
    struct belfry_list waiting, running, ended; /* of struct belfry_http_call, by node */
    size_t n_calls, n_waiting;
    uint64_t heard_ms;                   /* when the last byte of the peer came, or the connection was up */
    uint64_t pinged_ms;                  /* when the last PING was queued */
    bool ping_unanswered;                /* and not a byte has come since */
    struct belfry_buf out;               /* what pull lends */
    size_t lent;                         /* bytes of it that the last pull gave away */
    char leaving[BELFRY_HTTP_WHY_BYTES]; /* why the peer takes no more calls; "" while it does */
};

enum belfry_http_call_state {
    BELFRY_HTTP_CALL_WAITING,
    BELFRY_HTTP_CALL_SENT,
    BELFRY_HTTP_CALL_BODY, /* the head is complete */
    BELFRY_HTTP_CALL_OVER, /* as the peer is concerned */
    BELFRY_HTTP_CALL_GONE
};

struct belfry_http_call {
    /* fixed at creation */
    struct belfry_http *http;
    struct belfry_http_events events;
    void *user;
    bool is_head; /* the method HEAD: its response has no body, whatever its head says */
    /* owner only */
    enum belfry_http_call_state state;
    unsigned on_stack;              /* callbacks of this call that are running: it is freed after the last */
    struct belfry_list node;        /* in one of the connection's lists, until GONE */
    struct belfry_http_ask *ask;    /* owned; while WAITING */
    struct belfry_h2_stream stream; /* HTTP/2 */
    /* from the peer */
    unsigned n_informational;
    struct belfry_http_answer answer; /* until it is told */
    struct belfry_http_head head;     /* points into it; valid while head_due */
    bool head_due;
    struct belfry_buf undelivered; /* came while held; at most BELFRY_HTTP_WINDOW */
    bool held;
    bool delivering; /* what waits is being told */
    /* how it ended; valid from OVER on */
    enum belfry_err err; /* BELFRY_OK: in good order */
    char *why;           /* owned; may be NULL */
    bool unprocessed;
};

/* ---- http_call.c ---- */

/* The request goes out now. */
void belfry_http_call_sent(struct belfry_http_call *call);

/* `head` is presented: it is told, or kept. The call may be gone afterwards: whoever looks at it then stands between
 * enter() and leave(). */
void belfry_http_call_head(struct belfry_http_call *call);

/* Bytes of the body: told, or kept, in which case the peer gets no window for them. The same holds.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (more than the window). */
BELFRY_NODISCARD enum belfry_err belfry_http_call_body(struct belfry_http_call *call, struct belfry_bytes bytes);

/* It is over; told by the next belfry_http_flush(), or when it is no longer held. `why` is copied. */
void belfry_http_call_end(struct belfry_http_call *call);
void belfry_http_call_fail(struct belfry_http_call *call, enum belfry_err err, const char *why, bool unprocessed);

/* As fail, but held or not, and whatever waits to be told is dropped. */
void belfry_http_call_force(struct belfry_http_call *call, const char *why);

/* Nothing of it has been given to the socket. */
bool belfry_http_call_is_unsent(const struct belfry_http_call *call);

/* While a callback may be made: the call stays allocated until the matching leave(). */
void belfry_http_call_enter(struct belfry_http_call *call);
void belfry_http_call_leave(struct belfry_http_call *call);

/* Makes the last callbacks that are due. */
void belfry_http_flush(struct belfry_http *http);

/* ---- http.c ---- */

/* OPEN -> DRAINING: those that wait have failed, unprocessed. `why` is copied. */
void belfry_http_drain(struct belfry_http *http, const char *why);

/* -> DEAD: every call has failed; those that were sent with `err`. Makes no callback. */
void belfry_http_die(struct belfry_http *http, enum belfry_err err, const char *why);

/* ---- http1.c ---- */

BELFRY_NODISCARD enum belfry_err belfry_http1_create(struct belfry_http *http, struct belfry_http1 **out);
void belfry_http1_destroy(struct belfry_http1 *h1);

/* Errors: BELFRY_ERR_PROTOCOL, _NOMEM, _TOO_LARGE, _LIMIT; *why says it, lent. */
BELFRY_NODISCARD enum belfry_err belfry_http1_receive(struct belfry_http1 *h1, struct belfry_bytes bytes,
                                                      const char **why);
/* Writes the request whose turn it is. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_http1_pull(struct belfry_http1 *h1);
bool belfry_http1_wants_read(const struct belfry_http1 *h1);
bool belfry_http1_is_busy(const struct belfry_http1 *h1);
/* The peer sends no more: the end of a response that has no other. */
void belfry_http1_finish(struct belfry_http1 *h1);
/* The call takes nothing more. Whether the connection can go on without it. */
bool belfry_http1_forget(struct belfry_http1 *h1, const struct belfry_http_call *call);

/* ---- http2.c ---- */

/* What h2 calls; its user is the connection. */
extern const struct belfry_h2_events belfry_http2_events;

/* Hands calls that wait to h2, as far as the peer has room. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_PROTOCOL. */
BELFRY_NODISCARD enum belfry_err belfry_http2_submit(struct belfry_http *http);

#endif
