/* src/server/h2_server.c
 *
 * Calls of a handler only queue: nghttp2 runs no callback from inside, so a handler may call anything from any event,
 * for any exchange of the connection.
 */
#include "server/h2_server.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/owner.h"
#include "net/h2_mem.h"
#include "server/fields.h"

#define DEFLATE_TABLE  256  /* bytes: the fields that gRPC responses repeat fit */
#define FIELD_OVERHEAD 32   /* that each field of a head counts for, besides its bytes: RFC 9113, 6.5.2 */
#define CALM_STREAMS   1000 /* streams that may end unanswered in a burst, ... */
#define CALM_RATE      200  /* ... and more per second; per millisecond as many thousandths of a stream */
#define CALM_FULL      (CALM_STREAMS * 1000u)
#define CALM_MOST      100  /* streams that one event counts for at most */
#define CALM_WINDOWS   100  /* a change of this many streams' windows costs as much as one stream reset early */
#define QUEUE_READ     500  /* with more frames unsent, DATA apart, the connection is not read */
#define QUEUE_FRAMES   1000 /* frames other than DATA that may wait unsent, ... */
#define QUEUE_EACH     4    /* ... and more for each exchange: HEADERS, trailers, WINDOW_UPDATE, RST_STREAM */
#define UNLIMITED      ((uint64_t)1 << 32)
#define FRAME_HEAD     9
#define KEEP_BYTES     1024         /* an empty buffer up to this is kept: most deliveries then allocate nothing */
#define SHARED_MOST    (512 * 1024) /* of the connection's window: a peer may offer more and not read it */
#define SHARE_LEAST    1024         /* of the connection's window: room that every exchange has */
#define FEW_FIELDS     16           /* response fields that need no allocation */

/* NGHTTP2_ERR_TOO_MANY_CONTINUATIONS, which headers before 1.61 have only with a distribution's updates. */
#define ERR_TOO_MANY_CONTINUATIONS (-905)

static const uint8_t probe[8] = {'s', 'h', 'u', 't', 'd', 'o', 'w', 'n'};

/* The life of the connection. DOWN is final: nghttp2's state may be inconsistent, so it is only freed.
 *
 *     UP --> NOTICED --> PROBED --> SHUT
 *      \________\___________\________\___> ENDING --> DOWN   (and from any to DOWN)
 */
enum h2_server_state {
    H2_SERVER_UP,
    H2_SERVER_NOTICED, /* a GOAWAY that names no stream yet is queued */
    H2_SERVER_PROBED,  /* it was pulled, and a PING after it, whose ACK shows that the peer has read it */
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
    bool flooded;               /* nghttp2 gave up because of a flood, and sends no GOAWAY itself */
    bool told;                  /* wants_flush was called and nothing pulled since, or a pull is under way */
    bool greeted;               /* the peer's SETTINGS came */
    bool held;                  /* the socket is full: no exchange has room */
    bool owes_pong;             /* a PING was not answered yet: */
    uint8_t pong[8];
    uint64_t now_ms;          /* of the last receive */
    struct {                  /* the head that is received: header blocks do not interleave, so a connection has one */
        struct fields fields; /* of a request; of one over H2_SERVER_HEADER_BYTES nothing is kept */
        size_t bytes;         /* as SETTINGS counts them */
        bool is_open;         /* it was begun and is not complete; those refused do not count */
        uint64_t since_ms;    /* when it was begun */
    } head;
    struct belfry_list exchanges; /* of h2_exchange.of_all: every one whose stream is not closed */
    size_t n_exchanges;
    /* of h2_exchange.of_waiting: exchanges that found little room and wait for `writable`, ... */
    struct belfry_list short_of_window; /* ... because the stream's own window is small, */
    struct belfry_list short_of_share;  /* ... because the share of the connection's is, or the socket is full, */
    struct belfry_list due;             /* ... and those whose room may have grown since */
    size_t share;                       /* of the connection's window: the smallest since the last unhold */
    size_t bytes;                       /* in the buffers of all exchanges */
    size_t counted;                     /* bytes of SHARES_MEMORY, without its exchanges' */
    size_t unpacked;                    /* bytes of heads, of this receive */
    bool behind;                        /* a receive unpacked enough; nghttp2 goes on with `rest`, or without bytes */
    struct belfry_buf rest;             /* input that is kept */
    uint32_t calm;       /* a bucket: what is left for streams that end unanswered, in thousandths of a stream */
    uint64_t calm_at_ms; /* when it was filled last */
    /* while a pull runs */
    struct belfry_buf *out;
    size_t enough;
    BELFRY_OWNER;
};

/* What the handler of an exchange has said:
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

/* Fields as nghttp2 takes them, which outlive those that they were copied from. One allocation. */
struct h2_fields {
    size_t n;
    nghttp2_nv list[]; /* their bytes follow */
};

struct h2_exchange {
    struct exchange base; /* first: a dialect's pointer is to this */
    struct h2_server *h2;
    int32_t id;
    enum h2_said said;
    bool is_head;   /* the method is HEAD: no body is sent */
    bool head_sent; /* the response's HEADERS were pulled */
    bool deferred;  /* nghttp2 found nothing to send and waits for nghttp2_session_resume_data() */
    size_t untaken; /* body bytes received and not returned to the stream's window */
    struct belfry_buf buf;
    struct h2_fields *trailers; /* owned; NULL: none */
    struct belfry_list of_all, of_waiting;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- states and failures ---- */

static void h2_move_to(struct h2_server *h2, enum h2_server_state state)
{
    assert(state > h2->state);
    h2->state = state;
}

/* Running out of memory while packing headers makes nghttp2 end the connection as if the peer were to blame. */
static enum belfry_err end_reason(const struct h2_server *h2)
{
    return h2->starved ? BELFRY_ERR_NOMEM : BELFRY_ERR_PROTOCOL;
}

/* For calls without a result: receive or pull reports it. */
static void note_failure(struct h2_server *h2, enum belfry_err err)
{
    if (h2->failed == BELFRY_OK)
        h2->failed = err;
}

static void note_rc(struct h2_server *h2, ssize_t rc)
{
    if (rc < 0)
        note_failure(h2, rc == NGHTTP2_ERR_NOMEM ? BELFRY_ERR_NOMEM : end_reason(h2));
}

static void h2_ask_for_flush(struct h2_server *h2)
{
    if (h2->told || !h2_server_wants_write(h2))
        return;
    h2->told = true;
    h2->opts.wants_flush(h2->opts.flush_user);
}

/* What receive and pull return: a failure of nghttp2 (rc), one noted on the way, or the end of the connection. */
static enum belfry_err h2_outcome(struct h2_server *h2, ssize_t rc)
{
    note_rc(h2, rc);
    if (h2->failed != BELFRY_OK) {
        if (h2->state != H2_SERVER_DOWN)
            h2_move_to(h2, H2_SERVER_DOWN);
        return h2->failed;
    }
    return h2->state == H2_SERVER_ENDING ? end_reason(h2) : BELFRY_OK;
}

static void h2_terminate(struct h2_server *h2, uint32_t code)
{
    if (h2->state >= H2_SERVER_ENDING)
        return;
    h2_move_to(h2, H2_SERVER_ENDING);
    note_rc(h2, nghttp2_session_terminate_session(h2->session, code));
}

/* Streams end unanswered, or cost as much: such streams cost us more than their peer (rapid resets). They are taken out
 * of a bucket that fills with time; when it has not enough for them the connection is ended. */
static void spend_calm(struct h2_server *h2, size_t streams)
{
    uint64_t elapsed_ms = h2->now_ms - h2->calm_at_ms;
    uint64_t gained = elapsed_ms < CALM_FULL / CALM_RATE ? elapsed_ms * CALM_RATE : CALM_FULL;
    h2->calm = gained < CALM_FULL - h2->calm ? h2->calm + (uint32_t)gained : CALM_FULL;
    h2->calm_at_ms = h2->now_ms;

    uint32_t cost = (uint32_t)smaller(streams, CALM_MOST) * 1000;
    if (h2->calm < cost)
        h2_terminate(h2, NGHTTP2_ENHANCE_YOUR_CALM);
    else
        h2->calm -= cost;
}

/* ---- an exchange ---- */

static struct h2_exchange *h2_exchange_of(struct exchange *x)
{
    return (struct h2_exchange *)(void *)x;
}

static bool is_down(const struct h2_exchange *x)
{
    return x->h2->state == H2_SERVER_DOWN;
}

static void count_memory(struct h2_server *h2, size_t before, size_t after)
{
    if (before != after)
        shares_count(&h2->opts.conn->share, SHARES_MEMORY, before, after);
}

static void count_own(struct h2_server *h2, size_t bytes)
{
    count_memory(h2, h2->counted, bytes);
    h2->counted = bytes;
}

static void free_buf(struct h2_exchange *x)
{
    count_memory(x->h2, x->buf.cap, 0);
    belfry_buf_fini(&x->buf);
}

static void drop_buf(struct h2_exchange *x)
{
    x->h2->bytes -= belfry_buf_len(&x->buf);
    free_buf(x);
}

/* ---- room ---- */

static size_t window_share(const struct h2_server *h2)
{
    if (!shares_has(&h2->opts.conn->share, SHARES_MEMORY, 1))
        return SHARE_LEAST;
    int32_t window = nghttp2_session_get_remote_window_size(h2->session);
    size_t shared = smaller(window > 0 ? (size_t)window : 0, SHARED_MOST), share = shared / h2->n_exchanges;
    return share > SHARE_LEAST ? share : SHARE_LEAST;
}

/* Stores in *out_wait the list in which to wait for more: of the smaller of the two limits, the stream's own window or
 * the share, because only that one can raise the room. */
static size_t room_now(const struct h2_exchange *x, struct belfry_list **out_wait)
{
    struct h2_server *h2 = x->h2;
    *out_wait = &h2->short_of_share;
    if (h2->held || h2->state >= H2_SERVER_ENDING)
        return 0;
    int32_t own = nghttp2_session_get_stream_remote_window_size(h2->session, x->id);
    size_t window = own > 0 ? (size_t)own : 0, share = window_share(h2), most = smaller(share, EXCHANGE_ROOM);
    h2->share = smaller(h2->share, share); /* unhold offers room when the share exceeds this */
    if (window <= most) {
        *out_wait = &h2->short_of_window;
        most = window;
    }
    size_t waits = belfry_buf_len(&x->buf);
    return most > waits ? most - waits : 0;
}

static void wait_for_room_in(struct h2_exchange *x, struct belfry_list *list)
{
    belfry_list_remove(&x->of_waiting);
    belfry_list_append(list, &x->of_waiting);
}

/* The room of this exchange may have grown, if it waits for any. */
static void exchange_look_again(struct h2_exchange *x)
{
    if (!belfry_list_empty(&x->of_waiting))
        wait_for_room_in(x, &x->h2->due);
}

/* ---- what is sent ---- */

/* A field whose bytes are lent. nghttp2 does not write there. */
static nghttp2_nv h2_field(struct belfry_bytes name, struct belfry_bytes value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.data,
                        .value = (uint8_t *)(uintptr_t)value.data,
                        .namelen = name.len,
                        .valuelen = value.len};
}

static struct belfry_bytes bytes_copy(char **at, struct belfry_bytes bytes)
{
    char *to = *at;
    if (bytes.len > 0)
        memcpy(to, bytes.data, bytes.len);
    *at = to + bytes.len;
    return belfry_bytes_of(to, bytes.len);
}

/* NULL: no memory. Ended with free(). */
static struct h2_fields *h2_fields_copy(const struct belfry_http_field *fields, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += fields[i].name.len + fields[i].value.len;
    struct h2_fields *copy = malloc(sizeof(*copy) + n * sizeof(copy->list[0]) + bytes);
    if (copy == NULL)
        return NULL;
    copy->n = n;
    char *at = (char *)(copy->list + n);
    for (size_t i = 0; i < n; i++) {
        struct belfry_bytes name = bytes_copy(&at, fields[i].name);
        copy->list[i] = h2_field(name, bytes_copy(&at, fields[i].value));
    }
    return copy;
}

/* The last of the body is about to be framed: the trailers follow it. */
static int queue_trailers(struct h2_exchange *x, uint32_t *flags)
{
    if (x->trailers == NULL)
        return 0;
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    int rc = nghttp2_submit_trailer(x->h2->session, x->id, x->trailers->list, x->trailers->n);
    free(x->trailers);
    x->trailers = NULL;
    return rc;
}

/* Says how much of the buffer becomes the next DATA frame; nghttp2 then calls on_send_data() for the bytes. */
static ssize_t on_data_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap, uint32_t *flags,
                            nghttp2_data_source *source, void *user)
{
    (void)session, (void)id, (void)buf, (void)user;
    struct h2_exchange *x = source->ptr;
    size_t waits = belfry_buf_len(&x->buf);
    x->deferred = waits == 0 && x->said != H2_SAID_END;
    if (x->deferred)
        return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (waits > cap)
        return (ssize_t)cap;
    if (x->said == H2_SAID_END) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (queue_trailers(x, flags) != 0) {
            note_failure(x->h2, BELFRY_ERR_NOMEM);
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
    }
    return (ssize_t)waits;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t len,
                        nghttp2_data_source *source, void *user)
{
    (void)session, (void)frame, (void)user;
    struct h2_exchange *x = source->ptr;
    struct h2_server *h2 = x->h2;
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(h2->out, FRAME_HEAD + len, &to);
    if (err != BELFRY_OK) {
        note_failure(h2, err);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    memcpy(to, head, FRAME_HEAD);
    if (len > 0)
        memcpy(to + FRAME_HEAD, belfry_buf_bytes(&x->buf).data, len);
    belfry_buf_grown(h2->out, FRAME_HEAD + len);
    belfry_buf_take(&x->buf, len);
    h2->bytes -= len;
    if (belfry_buf_len(&x->buf) == 0 && x->buf.cap > KEEP_BYTES)
        free_buf(x);
    exchange_look_again(x);
    /* Checked after the frame: one that was begun could not be taken back when its stream is reset meanwhile. */
    return belfry_buf_len(h2->out) < h2->enough ? 0 : NGHTTP2_ERR_PAUSE;
}

static void submit_head(struct h2_exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                        const nghttp2_data_provider *body)
{
    nghttp2_nv few[FEW_FIELDS], *all = few;
    if (n >= FEW_FIELDS) {
        all = calloc(n + 1, sizeof(*all));
        if (all == NULL) {
            note_failure(x->h2, BELFRY_ERR_NOMEM);
            return;
        }
    }
    char text[16];
    snprintf(text, sizeof(text), "%03d", status);
    all[0] = h2_field(belfry_bytes_str(":status"), belfry_bytes_str(text));
    for (size_t i = 0; i < n; i++)
        all[i + 1] = h2_field(fields[i].name, fields[i].value);
    note_rc(x->h2, nghttp2_submit_response(x->h2->session, x->id, all, n + 1, body));
    if (all != few)
        free(all);
}

static void submit_head_and_body(struct h2_exchange *x, int status, const struct belfry_http_field *fields, size_t n)
{
    nghttp2_data_provider body = {.source.ptr = x, .read_callback = on_data_read};
    submit_head(x, status, fields, n, &body);
}

/* There is something to send again. */
static void exchange_wake(struct h2_exchange *x)
{
    if (x->deferred) {
        x->deferred = false;
        /* a stream that is about to close is no error */
        if (nghttp2_session_resume_data(x->h2->session, x->id) == NGHTTP2_ERR_NOMEM)
            note_failure(x->h2, BELFRY_ERR_NOMEM);
    }
    h2_ask_for_flush(x->h2);
}

static void exchange_append(struct h2_exchange *x, const void *data, size_t len)
{
    size_t before = x->buf.cap;
    enum belfry_err err = belfry_buf_append(&x->buf, data, len);
    count_memory(x->h2, before, x->buf.cap);
    if (err == BELFRY_OK)
        x->h2->bytes += len;
    else
        note_failure(x->h2, err);
}

static void return_window(struct h2_exchange *x, size_t n)
{
    n = n < x->untaken ? n : x->untaken;
    x->untaken -= n;
    if (n > 0 && !is_down(x))
        note_rc(x->h2, nghttp2_session_consume_stream(x->h2->session, x->id, n));
}

/* What all last words have in common. */
static void exchange_last_word(struct h2_exchange *x, enum h2_said said)
{
    x->said = said;
    belfry_list_remove(&x->of_waiting);
    if (x->base.held > 0)
        exchange_holds(&x->base, H2_SERVER_EXCHANGE); /* the handler keeps nothing, and the request is not whole */
    return_window(x, x->untaken);
}

/* ---- the operations ---- */

static void h2_exchange_taken(struct exchange *x, size_t n)
{
    return_window(h2_exchange_of(x), n);
    h2_ask_for_flush(h2_exchange_of(x)->h2);
}

static void h2_exchange_respond(struct exchange *base, int status, const struct belfry_http_field *fields, size_t n)
{
    struct h2_exchange *x = h2_exchange_of(base);
    assert(x->said == H2_SAID_NOTHING);
    x->said = H2_SAID_HEAD;
    if (is_down(x))
        return;
    submit_head_and_body(x, status, fields, n);
    h2_ask_for_flush(x->h2);
}

static size_t h2_exchange_room(struct exchange *base)
{
    struct h2_exchange *x = h2_exchange_of(base);
    struct belfry_list *list;
    size_t room = room_now(x, &list);
    if (room < EXCHANGE_ROOM_LOW)
        wait_for_room_in(x, list);
    return room;
}

static void h2_exchange_write(struct exchange *base, const void *data, size_t len)
{
    struct h2_exchange *x = h2_exchange_of(base);
    assert(x->said == H2_SAID_HEAD);
    if (is_down(x) || x->is_head)
        return;
    exchange_append(x, data, len);
    exchange_wake(x);
}

static void h2_exchange_end(struct exchange *base, const struct belfry_http_field *trailers, size_t n)
{
    struct h2_exchange *x = h2_exchange_of(base);
    assert(x->said == H2_SAID_HEAD);
    exchange_last_word(x, H2_SAID_END);
    if (is_down(x))
        return;
    if (n > 0) {
        x->trailers = h2_fields_copy(trailers, n);
        if (x->trailers == NULL)
            note_failure(x->h2, BELFRY_ERR_NOMEM);
    }
    exchange_wake(x);
}

static void h2_exchange_answer(struct exchange *base, int status, const struct belfry_http_field *fields, size_t n,
                               struct belfry_bytes body)
{
    struct h2_exchange *x = h2_exchange_of(base);
    assert(x->said == H2_SAID_NOTHING);
    exchange_last_word(x, H2_SAID_END);
    if (is_down(x))
        return;
    if (body.len == 0 || x->is_head) {
        submit_head(x, status, fields, n, NULL);
    } else {
        submit_head_and_body(x, status, fields, n);
        exchange_append(x, body.data, body.len);
    }
    h2_ask_for_flush(x->h2);
}

static void h2_exchange_reset(struct exchange *base, uint32_t h2_code)
{
    struct h2_exchange *x = h2_exchange_of(base);
    exchange_last_word(x, H2_SAID_RESET);
    drop_buf(x);
    if (is_down(x))
        return;
    note_rc(x->h2, nghttp2_submit_rst_stream(x->h2->session, NGHTTP2_FLAG_NONE, x->id, h2_code));
    h2_ask_for_flush(x->h2);
}

static const struct exchange_ops h2_exchange_ops = {.taken = h2_exchange_taken,
                                                    .respond = h2_exchange_respond,
                                                    .room = h2_exchange_room,
                                                    .write = h2_exchange_write,
                                                    .end = h2_exchange_end,
                                                    .answer = h2_exchange_answer,
                                                    .reset = h2_exchange_reset};

static void h2_exchange_destroy(struct h2_exchange *x)
{
    belfry_list_remove(&x->of_all);
    belfry_list_remove(&x->of_waiting);
    x->h2->n_exchanges--;
    count_memory(x->h2, H2_SERVER_EXCHANGE, 0);
    exchange_holds(&x->base, 0);
    drop_buf(x);
    free(x->trailers);
    free(x);
}

static void h2_exchange_gone(struct h2_exchange *x)
{
    const struct exchange_events *events = x->base.events;
    if (events == NULL)
        return;
    x->base.events = NULL;
    belfry_list_remove(&x->of_waiting);
    events->gone(&x->base, x->base.user);
}

static void h2_exchange_body(struct h2_exchange *x, struct belfry_bytes bytes)
{
    x->untaken += bytes.len;
    if (x->base.events != NULL)
        x->base.events->body(&x->base, bytes, x->base.user);
    else
        return_window(x, x->untaken);
}

static void h2_exchange_body_end(struct h2_exchange *x)
{
    exchange_holds(&x->base, 0);
    if (x->base.events != NULL)
        x->base.events->body_end(&x->base, x->base.user);
}

static void h2_exchange_offer_room(struct h2_exchange *x)
{
    struct belfry_list *list;
    size_t room = room_now(x, &list);
    if (room < EXCHANGE_ROOM_LOW && (room == 0 || belfry_buf_len(&x->buf) > 0))
        wait_for_room_in(x, list);
    else
        x->base.events->writable(&x->base, x->base.user);
}

/* ---- from nghttp2: a request's head becomes an exchange ----
 *
 * nghttp2 reports a head in three steps: it begins, each of its fields, it is complete. A request without room is
 * refused at the first, before a byte of it is kept; one whose head is too large at the last. nghttp2 itself resets
 * malformed requests (on_invalid_frame). Without memory the connection ends.
 */

static struct h2_exchange *exchange_by_id(struct h2_server *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2->session, id);
}

static bool begins_request(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static void h2_head_clear(struct h2_server *h2)
{
    fields_fini(&h2->head.fields);
    h2->head.bytes = 0;
    h2->head.is_open = false;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_server *h2 = user;
    h2_head_clear(h2);
    h2->head.since_ms = h2->now_ms;
    h2->head.is_open =
        !begins_request(frame) || shares_make_room(&h2->opts.conn->share, SHARES_MEMORY, H2_SERVER_EXCHANGE);
    if (h2->head.is_open)
        return 0;
    note_rc(h2, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM));
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* its head is still decoded: later ones depend on it */
}

/* Keeps a field of a request; of trailers no handler wants the fields. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    (void)session, (void)flags;
    struct h2_server *h2 = user;
    size_t bytes = name_len + value_len + FIELD_OVERHEAD;

    if (begins_request(frame)) {
        h2->head.bytes += bytes;
        enum belfry_err err = BELFRY_OK;
        if (h2->head.bytes > H2_SERVER_HEADER_BYTES)
            fields_fini(&h2->head.fields);
        else
            err = fields_add(&h2->head.fields, belfry_bytes_of(name, name_len), belfry_bytes_of(value, value_len));
        if (err != BELFRY_OK) {
            note_failure(h2, err);
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
    }

    h2->unpacked += bytes;
    h2->behind = h2->unpacked >= H2_SERVER_TURN;
    return h2->behind ? NGHTTP2_ERR_PAUSE : 0;
}

/* The head is complete, and nghttp2 has found it well-formed. Returns what on_frame_recv() returns. */
static int h2_begin_exchange(struct h2_server *h2, int32_t id)
{
    struct h2_exchange *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        note_failure(h2, BELFRY_ERR_NOMEM);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }

    /* from now on the stream is an exchange of the connection, and counts */
    x->base.ops = &h2_exchange_ops;
    x->base.conn = h2->opts.conn;
    x->h2 = h2;
    x->id = id;
    belfry_list_init(&x->of_all);
    belfry_list_init(&x->of_waiting);
    belfry_list_append(&h2->exchanges, &x->of_all);
    h2->n_exchanges++;
    count_memory(h2, 0, H2_SERVER_EXCHANGE);
    exchange_holds(&x->base, H2_SERVER_EXCHANGE);
    nghttp2_session_set_stream_user_data(h2->session, id, x);

    /* of a head that is too large nothing was kept: no handler sees it */
    if (h2->head.bytes > H2_SERVER_HEADER_BYTES) {
        exchange_answer(&x->base, 431, NULL, 0, (struct belfry_bytes){0});
        return 0;
    }

    /* the handler takes it, or has the last word immediately */
    struct exchange_head head = fields_head(&h2->head.fields);
    x->is_head = belfry_bytes_equal(head.method, belfry_bytes_str("HEAD"));
    h2->opts.begin(&x->base, &head, h2->opts.user);
    assert(x->base.events != NULL || x->said >= H2_SAID_END);
    return 0;
}

/* ---- from nghttp2: other frames received ---- */

static int submit_pong(struct h2_server *h2, const uint8_t opaque[8])
{
    int rc = nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_ACK, opaque);
    h2->flooded = h2->flooded || rc == NGHTTP2_ERR_FLOODED;
    return rc;
}

static int submit_owed_pong(struct h2_server *h2)
{
    if (!h2->owes_pong)
        return 0;
    h2->owes_pong = false;
    return submit_pong(h2, h2->pong);
}

static int on_ping(struct h2_server *h2, const uint8_t opaque[8])
{
    if (!h2->owes_pong) {
        h2->owes_pong = true;
        memcpy(h2->pong, opaque, sizeof(h2->pong));
        return 0;
    }
    int rc = submit_owed_pong(h2);
    return rc != 0 ? rc : submit_pong(h2, opaque);
}

static void settings_changed(struct h2_server *h2, const nghttp2_settings *settings)
{
    h2->greeted = true; /* nghttp2 takes no other frame before them */
    for (size_t i = 0; i < settings->niv; i++) {
        if (settings->iv[i].settings_id != NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
            continue;
        belfry_list_move_all(&h2->due, &h2->short_of_window);
        spend_calm(h2, h2->n_exchanges / CALM_WINDOWS); /* nghttp2 looks at every stream */
    }
}

/* A frame is complete. */
static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct h2_server *h2 = user;
    int32_t id = frame->hd.stream_id;
    uint8_t flags = frame->hd.flags;
    struct h2_exchange *x;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (begins_request(frame) && h2_begin_exchange(h2, id) != 0)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        h2_head_clear(h2); /* trailers, too */
        break;
    case NGHTTP2_DATA:
        break;
    case NGHTTP2_PING:
        if ((flags & NGHTTP2_FLAG_ACK) == 0)
            return on_ping(h2, frame->ping.opaque_data);
        if (h2->state == H2_SERVER_PROBED && memcmp(frame->ping.opaque_data, probe, sizeof(probe)) == 0) {
            h2_move_to(h2, H2_SERVER_SHUT);
            int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);
            note_rc(h2, nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0));
        }
        return 0;
    case NGHTTP2_WINDOW_UPDATE:
        x = id != 0 ? exchange_by_id(h2, id) : NULL; /* unhold looks at the connection's own window */
        if (x != NULL)
            exchange_look_again(x);
        return 0;
    case NGHTTP2_SETTINGS:
        settings_changed(h2, &frame->settings);
        return 0;
    default:
        return 0;
    }

    /* HEADERS, trailers and DATA may end the request */
    x = (flags & NGHTTP2_FLAG_END_STREAM) != 0 ? exchange_by_id(h2, id) : NULL;
    if (x != NULL)
        h2_exchange_body_end(x);
    return 0;
}

/* nghttp2 resets a malformed request: the rest of its head is not waited for. It also takes Go's goodbye for a breach:
 * a GOAWAY must name a stream of the receiver's, here never more than 0, and Go's clients name one of their own. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int why, void *user)
{
    (void)session, (void)why;
    struct h2_server *h2 = user;
    if (frame->hd.type == NGHTTP2_HEADERS)
        h2_head_clear(h2);
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code == NGHTTP2_NO_ERROR)
        h2->fault = H2_SERVER_GOODBYE;
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                         void *user)
{
    (void)flags;
    struct h2_server *h2 = user;
    /* Returned immediately, so that no exchange can stall another. */
    note_rc(h2, nghttp2_session_consume_connection(session, len));
    struct h2_exchange *x = exchange_by_id(h2, id);
    if (x != NULL)
        h2_exchange_body(x, belfry_bytes_of(data, len));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    (void)session, (void)code;
    struct h2_server *h2 = user;
    struct h2_exchange *x = exchange_by_id(h2, id);
    if (x == NULL)
        return 0;
    if (!x->head_sent && x->said != H2_SAID_RESET)
        spend_calm(h2, 1); /* its peer reset it unanswered, or made us reset it */
    h2_exchange_gone(x);
    h2_exchange_destroy(x);
    return 0;
}

/* ---- from nghttp2: frames sent ---- */

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags, void *user)
{
    (void)session, (void)flags;
    struct h2_server *h2 = user;
    if (belfry_buf_len(h2->out) >= h2->enough)
        return NGHTTP2_ERR_WOULDBLOCK;
    enum belfry_err err = belfry_buf_append(h2->out, data, len);
    if (err == BELFRY_OK)
        return (ssize_t)len;
    note_failure(h2, err);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void goaway_sent(struct h2_server *h2, uint32_t code)
{
    if (code != NGHTTP2_NO_ERROR) {
        if (h2->state < H2_SERVER_ENDING)
            h2_move_to(h2, H2_SERVER_ENDING); /* nghttp2 ends the connection */
    } else if (h2->state == H2_SERVER_NOTICED) {
        /* not earlier: nghttp2 sends a PING ahead of all other frames */
        h2_move_to(h2, H2_SERVER_PROBED);
        note_rc(h2, nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, probe));
    }
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_server *h2 = user;
    int32_t id = frame->hd.stream_id;
    uint8_t type = frame->hd.type;
    if (type == NGHTTP2_GOAWAY)
        goaway_sent(h2, frame->goaway.error_code);
    if (type != NGHTTP2_HEADERS && type != NGHTTP2_DATA)
        return 0;

    struct h2_exchange *x = type == NGHTTP2_HEADERS ? exchange_by_id(h2, id) : NULL;
    if (x != NULL)
        x->head_sent = true;

    /* the response is complete: the rest of an incomplete request is refused (RFC 9113, 8.1), as gRPC servers do */
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && nghttp2_session_get_stream_remote_close(session, id) == 0)
        note_rc(h2, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR));
    return 0;
}

/* nghttp2 packs header blocks of at most 64 KiB. A stream whose HEADERS are larger would never end: it is reset. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int why, void *user)
{
    struct h2_server *h2 = user;
    int32_t id = frame->hd.stream_id;
    bool closing = why == NGHTTP2_ERR_STREAM_CLOSING || why == NGHTTP2_ERR_STREAM_CLOSED ||
                   why == NGHTTP2_ERR_STREAM_SHUT_WR || why == NGHTTP2_ERR_SESSION_CLOSING;
    if (frame->hd.type == NGHTTP2_HEADERS && !closing && exchange_by_id(h2, id) != NULL)
        note_rc(h2, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR));
    return 0;
}

/* ---- create and destroy ---- */

static enum belfry_err session_create(struct h2_server *h2)
{
    nghttp2_mem mem = belfry_h2_mem(&h2->starved);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int rc = nghttp2_session_callbacks_new(&callbacks);
    if (rc == 0)
        rc = nghttp2_option_new(&option);
    if (rc == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
        nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);

        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_auto_ping_ack(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_max_deflate_dynamic_table_size(option, DEFLATE_TABLE);
        /* nghttp2's own limit, 33 per second, would count every reset, also of watches that were served and then
         * cancelled. */
        nghttp2_option_set_stream_reset_rate_limit(option, UNLIMITED, UNLIMITED);

        rc = nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &mem);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return rc == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

/* HEADER_TABLE_SIZE keeps its default: 0 would save 1.5 KiB per connection, but some clients ignore it and would
 * fail. */
static enum belfry_err submit_settings(struct h2_server *h2)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_SERVER_HEADER_BYTES},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h2->opts.max_streams},
    };
    size_t n = h2->opts.max_streams > 0 ? 2 : 1;
    int rc = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, n);
    return rc == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

enum belfry_err h2_server_create(const struct h2_server_opts *opts, struct h2_server **out)
{
    struct h2_server *h2 = calloc(1, sizeof(*h2));
    if (h2 == NULL)
        return BELFRY_ERR_NOMEM;
    h2->opts = *opts;
    h2->calm = CALM_FULL;
    belfry_list_init(&h2->exchanges);
    belfry_list_init(&h2->short_of_window);
    belfry_list_init(&h2->short_of_share);
    belfry_list_init(&h2->due);
    count_own(h2, H2_SERVER_CONN);
    enum belfry_err err = session_create(h2);
    if (err == BELFRY_OK)
        err = submit_settings(h2);
    if (err != BELFRY_OK) {
        h2_server_destroy(h2);
        return err;
    }
    BELFRY_OWNER_INIT(h2);
    *out = h2;
    return BELFRY_OK;
}

bool h2_server_let_go(struct h2_server *h2, size_t most)
{
    BELFRY_OWNER_CHECK(h2);
    h2->told = true; /* nothing is pulled any more */
    if (h2->state != H2_SERVER_DOWN)
        h2_move_to(h2, H2_SERVER_DOWN);
    /* A handler that hears `gone` may end another exchange, which stays in the list. */
    for (; most > 0 && !belfry_list_empty(&h2->exchanges); most--) {
        struct h2_exchange *x = belfry_container(h2->exchanges.next, struct h2_exchange, of_all);
        h2_exchange_gone(x);
        h2_exchange_destroy(x);
    }
    if (!belfry_list_empty(&h2->exchanges))
        return false;
    count_own(h2, 0);      /* the connection may be gone before this is destroyed */
    BELFRY_OWNER_PASS(h2); /* to whichever thread frees it */
    return true;
}

void h2_server_destroy(struct h2_server *h2)
{
    if (h2 == NULL)
        return;
    BELFRY_OWNER_CHECK(h2);
    h2_server_let_go(h2, SIZE_MAX);
    nghttp2_session_del(h2->session);
    belfry_buf_fini(&h2->rest);
    h2_head_clear(h2);
    free(h2);
}

/* ---- bytes in, bytes out ---- */

/* Passes bytes to nghttp2 until it has unpacked enough of heads; keeps the rest. */
static ssize_t receive_some(struct h2_server *h2, struct belfry_bytes bytes)
{
    bool kept = belfry_buf_len(&h2->rest) > 0;
    if (kept) {
        if (belfry_buf_append(&h2->rest, bytes.data, bytes.len) != BELFRY_OK)
            return NGHTTP2_ERR_NOMEM;
        bytes = belfry_buf_bytes(&h2->rest);
    }
    h2->unpacked = 0;
    h2->behind = false;
    const char *data = bytes.len > 0 ? bytes.data : "";
    ssize_t n = nghttp2_session_mem_recv(h2->session, (const uint8_t *)data, bytes.len);
    if (n < 0 || !h2->behind) { /* without a pause it takes all, or ends the connection */
        belfry_buf_fini(&h2->rest);
        return n;
    }
    if (kept)
        belfry_buf_take(&h2->rest, (size_t)n);
    else if (belfry_buf_append(&h2->rest, bytes.data + n, bytes.len - (size_t)n) != BELFRY_OK)
        return NGHTTP2_ERR_NOMEM;
    return n;
}

enum belfry_err h2_server_receive(struct h2_server *h2, struct belfry_bytes bytes, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(h2);
    ssize_t rc = 0;
    h2->now_ms = now_ms;
    if (h2->state < H2_SERVER_ENDING) {
        rc = receive_some(h2, bytes);
        h2->flooded = h2->flooded || rc == NGHTTP2_ERR_FLOODED || rc == ERR_TOO_MANY_CONTINUATIONS;
        if (rc >= 0 && h2->n_exchanges == 0) /* nothing will be sent that a pong could wait for */
            rc = submit_owed_pong(h2);
        /* nghttp2 bounds the PINGs and SETTINGS that it has to answer, but not the resets that malformed requests
         * cause */
        if (nghttp2_session_get_outbound_queue_size(h2->session) > QUEUE_FRAMES + QUEUE_EACH * h2->n_exchanges)
            h2_terminate(h2, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    count_own(h2, H2_SERVER_CONN + fields_bytes(&h2->head.fields) + h2->rest.cap);
    enum belfry_err err = h2_outcome(h2, rc);
    h2_ask_for_flush(h2);
    return err;
}

/* By hand: nghttp2's state may be inconsistent. All that it has written are whole frames, so one can follow. */
static void put_flood_goaway(const struct h2_server *h2, struct belfry_buf *out)
{
    static const char why[] = "belfry: a flood of frames";
    uint32_t last = (uint32_t)nghttp2_session_get_last_proc_stream_id(h2->session);
    uint8_t frame[FRAME_HEAD + 8] = {0, 0, 8 + sizeof(why) - 1, NGHTTP2_GOAWAY};
    for (unsigned i = 0; i < 4; i++)
        frame[FRAME_HEAD + i] = (uint8_t)(last >> (24 - 8 * i));
    frame[FRAME_HEAD + 7] = NGHTTP2_ENHANCE_YOUR_CALM;
    if (belfry_buf_append(out, frame, sizeof(frame)) == BELFRY_OK)
        belfry_ignore(belfry_buf_append(out, why, sizeof(why) - 1)); /* the connection ends in any case */
}

enum belfry_err h2_server_pull(struct h2_server *h2, size_t enough, struct belfry_buf *out)
{
    BELFRY_OWNER_CHECK(h2);
    int rc = 0;
    if (h2->flooded && !h2->reported)
        put_flood_goaway(h2, out);
    if (h2->failed == BELFRY_OK && belfry_buf_len(out) < enough) {
        h2->told = true; /* the caller asks h2_server_wants_write() afterwards */
        h2->out = out;
        h2->enough = enough;
        rc = submit_owed_pong(h2);
        rc = rc != 0 ? rc : nghttp2_session_send(h2->session);
        h2->out = NULL;
    }
    h2->told = false;
    enum belfry_err err = h2_outcome(h2, rc);
    h2->reported = err != BELFRY_OK;
    return err;
}

bool h2_server_wants_write(const struct h2_server *h2)
{
    if (h2->failed != BELFRY_OK)
        return !h2->reported;
    return nghttp2_session_want_write(h2->session) != 0;
}

bool h2_server_owes_pong(const struct h2_server *h2)
{
    return h2->owes_pong;
}

void h2_server_pay_pong(struct h2_server *h2)
{
    BELFRY_OWNER_CHECK(h2);
    note_rc(h2, submit_owed_pong(h2));
    h2_ask_for_flush(h2);
}

bool h2_server_is_behind(const struct h2_server *h2)
{
    return h2->behind && h2->state < H2_SERVER_ENDING;
}

bool h2_server_wants_read(const struct h2_server *h2)
{
    if (h2->state == H2_SERVER_DOWN)
        return true;
    return !h2_server_is_behind(h2) && nghttp2_session_get_outbound_queue_size(h2->session) <= QUEUE_READ;
}

bool h2_server_greeted(const struct h2_server *h2)
{
    return h2->greeted;
}

uint64_t h2_server_head_since(const struct h2_server *h2)
{
    return h2->head.is_open ? h2->head.since_ms : 0;
}

/* Two GOAWAYs: nghttp2_session_terminate_session() sends one without a text, so one with the text goes first. */
void h2_server_expel(struct h2_server *h2, const char *why)
{
    BELFRY_OWNER_CHECK(h2);
    if (h2->state >= H2_SERVER_ENDING)
        return;
    int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);
    note_rc(h2, nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_ENHANCE_YOUR_CALM,
                                      (const uint8_t *)why, strlen(why)));
    h2_terminate(h2, NGHTTP2_ENHANCE_YOUR_CALM);
    h2->fault = H2_SERVER_EXPELLED;
    h2_ask_for_flush(h2);
}

enum h2_server_fault h2_server_fault(const struct h2_server *h2)
{
    return h2->fault;
}

size_t h2_server_open(const struct h2_server *h2)
{
    return h2->n_exchanges;
}

size_t h2_server_bytes(const struct h2_server *h2)
{
    return h2->bytes;
}

void h2_server_hold(struct h2_server *h2)
{
    BELFRY_OWNER_CHECK(h2);
    h2->held = true;
}

bool h2_server_unhold(struct h2_server *h2)
{
    BELFRY_OWNER_CHECK(h2);
    /* Exchanges that wait for a larger share are due if it has grown. */
    size_t share = h2->n_exchanges > 0 ? window_share(h2) : 0;
    if (h2->held || share > h2->share)
        belfry_list_move_all(&h2->due, &h2->short_of_share);
    h2->held = false;
    h2->share = share;

    /* An exchange that finds little room again inside `writable` waits until something changes. */
    struct belfry_list *node;
    for (int n = 0; n < H2_SERVER_OFFERS && (node = belfry_list_pop(&h2->due)) != NULL; n++)
        h2_exchange_offer_room(belfry_container(node, struct h2_exchange, of_waiting));
    return !belfry_list_empty(&h2->due);
}

void h2_server_shut(struct h2_server *h2)
{
    BELFRY_OWNER_CHECK(h2);
    if (h2->state != H2_SERVER_UP)
        return;
    h2_move_to(h2, H2_SERVER_NOTICED);
    note_rc(h2, nghttp2_submit_shutdown_notice(h2->session));
    h2_ask_for_flush(h2);
}
