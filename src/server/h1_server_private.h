/* src/server/h1_server_private.h: what the parts of h1_server share.
 *
 *     h1_server.c           the connection: llhttp, whose turn it is, what is kept
 *     h1_server_head.c      the head of the request that is being received
 *     h1_server_response.c  what the handler says, as bytes
 */
#ifndef BELFRY_SERVER_H1_SERVER_PRIVATE_H
#define BELFRY_SERVER_H1_SERVER_PRIVATE_H

#include <llhttp.h>

#include "server/h1_server.h"

/* ---- the head that is being received ---- */

/* A run of bytes in the head's buffer, which moves while it grows. */
struct h1_span {
    uint32_t at, len;
};

struct h1_head_field {
    struct h1_span name, value;
};

struct h1_head {
    struct belfry_buf text; /* method, target, names and values, one after the other */
    struct h1_span method, target;
    struct h1_head_field *fields; /* owned, as are those presented below */
    struct exchange_field *presented;
    size_t n_fields, cap_fields;
    uint32_t open_at; /* where the part that is being received begins */
    enum belfry_err err;
};

void h1_head_clear(struct h1_head *head);

/* Parts in the order of the wire: bytes of one, then what it was. */
BELFRY_NODISCARD enum belfry_err h1_head_add(struct h1_head *head, const char *bytes, size_t len);
void h1_head_end_method(struct h1_head *head);
void h1_head_end_target(struct h1_head *head);
BELFRY_NODISCARD enum belfry_err h1_head_end_name(struct h1_head *head);
void h1_head_end_value(struct h1_head *head);

/* What was added, lent until h1_head_clear(). An absolute target is taken apart. Errors: BELFRY_ERR_NOMEM,
 * BELFRY_ERR_PROTOCOL (more than one Host, or none and `host_needed`). */
BELFRY_NODISCARD enum belfry_err h1_head_present(struct h1_head *head, bool host_needed, struct exchange_head *out);

/* ---- the connection ---- */

/*     HEAD --> BODY --> ANSWERING --> HEAD ...
 *                  \--> DRAINING ---> HEAD       (answered before all of the request was here)
 *     any  --> OVER
 */
enum h1_state {
    H1_HEAD,      /* between requests, or a head is on its way */
    H1_BODY,      /* an exchange is open, and its request not complete */
    H1_ANSWERING, /* an exchange is open, and its request complete */
    H1_DRAINING,  /* the response is complete, the request is not: its rest is dropped */
    H1_OVER       /* nothing is read any more, and nothing said but what is in `out` */
};

enum h1_framing {
    H1_UNSAID,   /* the head of the response was not written */
    H1_CHUNKED,  /* */
    H1_COUNTED,  /* by content-length */
    H1_TO_CLOSE, /* HTTP/1.0: the end of the connection ends it */
    H1_BODILESS, /* HEAD, 204, 304 */
};

struct h1_server {
    /* fixed at creation */
    struct h1_server_opts opts;
    llhttp_t parser;

    enum h1_state state;
    struct exchange x; /* the one that is open in BODY and ANSWERING; `events` NULL once it has ended */
    struct h1_head head;
    size_t head_bytes;     /* of the wire, in this head */
    size_t untaken;        /* of the body */
    size_t drained;        /* bytes of it dropped */
    struct belfry_buf in;  /* came, and was not its turn yet */
    struct belfry_buf out; /* said, and not pulled */
    enum h1_framing framing;
    uint64_t left; /* COUNTED: bytes of the body to come */
    bool keep;     /* another request may follow this one */
    bool is_head, is_http10;
    bool expects;      /* waits for "100 Continue" */
    bool parsing;      /* llhttp is on the stack */
    bool ended_inside; /* the exchange had its last word meanwhile */
    bool input_ended;  /* the peer sends no more */
    bool served;       /* there was a request */
    bool shut;         /* no further request */
    bool asked;        /* wants_flush was called and nothing pulled since */
    bool held;         /* the socket is full */
    bool wants_room;   /* exchange_room() said little */
    bool starved;      /* something said is lost for want of memory: the connection is of no use */
};

extern const struct exchange_ops h1_exchange_ops;

void h1_server_move(struct h1_server *h1, enum h1_state next);

/* Something is there to be pulled. */
void h1_server_tell(struct h1_server *h1);

/* The exchange's last word was said; `clean`: the response is whole, so that another may follow. */
void h1_server_finish(struct h1_server *h1, bool clean);

/* ---- what is said ---- */

void h1_say_continue(struct h1_server *h1);

/* A whole answer to what is not a request. */
void h1_say_refusal(struct h1_server *h1, int status);

#endif
