/* src/server/h1_server.c */
#include "server/h1_server.h"

#include <assert.h>
#include <stdlib.h>

#include "server/h1_server_private.h"

#define KEPT_BYTES  2048         /* an output buffer up to this stays with an open response: many deliveries fit */
#define DRAIN_BYTES (256 * 1024) /* of a request that was answered already; over this, closing is cheaper */

void h1_server_move(struct h1_server *h1, enum h1_state next)
{
    static const unsigned char allowed[] = {
        [H1_HEAD] = 1 << H1_BODY | 1 << H1_OVER,
        [H1_BODY] = 1 << H1_ANSWERING | 1 << H1_DRAINING | 1 << H1_OVER,
        [H1_ANSWERING] = 1 << H1_HEAD | 1 << H1_OVER,
        [H1_DRAINING] = 1 << H1_HEAD | 1 << H1_OVER,
        [H1_OVER] = 0,
    };
    assert((allowed[h1->state] & 1 << next) != 0);
    (void)allowed;
    h1->state = next;
    if (next == H1_HEAD || next == H1_OVER) {
        h1_head_clear(&h1->head);
        h1->head_bytes = 0;
    }
    if (next == H1_OVER)
        belfry_buf_fini(&h1->in);
}

void h1_server_tell(struct h1_server *h1)
{
    if (h1->asked)
        return;
    h1->asked = true;
    h1->opts.wants_flush(h1->opts.flush_user);
}

static void tell_gone(struct h1_server *h1)
{
    const struct exchange_events *events = h1->x.events;
    h1->x.events = NULL;
    if (events != NULL)
        events->gone(&h1->x, h1->x.user);
}

/* ---- the end of an exchange ---- */

/* Where it goes from the exchange's last word; not while llhttp is on the stack. */
static void after_response(struct h1_server *h1)
{
    h1->ended_inside = false;
    if (!h1->keep)
        h1_server_move(h1, H1_OVER);
    else if (h1->state == H1_BODY)
        h1_server_move(h1, H1_DRAINING);
    else
        h1_server_move(h1, H1_HEAD);
}

void h1_server_finish(struct h1_server *h1, bool clean)
{
    if (!clean)
        h1->keep = false;
    h1->wants_room = false;
    h1->untaken = 0;
    h1->ended_inside = true;
    if (!h1->parsing)
        after_response(h1);
    h1_server_tell(h1);
}

/* ---- llhttp: 0 goes on, -1 is an error, and the head's own error is told apart by `head.err` ---- */

static struct h1_server *server_of(llhttp_t *parser)
{
    return parser->data;
}

static int note(struct h1_server *h1, enum belfry_err err)
{
    if (err == BELFRY_OK)
        return 0;
    h1->head.err = err;
    return -1;
}

static int on_head_bytes(llhttp_t *parser, const char *at, size_t len)
{
    struct h1_server *h1 = server_of(parser);
    return h1->state == H1_HEAD ? note(h1, h1_head_add(&h1->head, at, len)) : 0; /* else a trailer: nobody asks */
}

static int on_method_end(llhttp_t *parser)
{
    h1_head_end_method(&server_of(parser)->head);
    return 0;
}

static int on_target_end(llhttp_t *parser)
{
    h1_head_end_target(&server_of(parser)->head);
    return 0;
}

static int on_name_end(llhttp_t *parser)
{
    struct h1_server *h1 = server_of(parser);
    return h1->state == H1_HEAD ? note(h1, h1_head_end_name(&h1->head)) : 0;
}

static int on_value_end(llhttp_t *parser)
{
    struct h1_server *h1 = server_of(parser);
    if (h1->state == H1_HEAD)
        h1_head_end_value(&h1->head);
    return 0;
}

static bool expects_continue(const struct exchange_head *head)
{
    struct belfry_bytes expect = exchange_field(head, "expect");
    return expect.len == 12 && strncasecmp(expect.data, "100-continue", 12) == 0;
}

static void begin(struct h1_server *h1, const struct exchange_head *head)
{
    h1->x = (struct exchange){.ops = &h1_exchange_ops, .conn = h1->opts.conn};
    h1->framing = H1_UNSAID;
    h1->untaken = h1->drained = 0;
    h1->is_head = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
    h1->keep = llhttp_should_keep_alive(&h1->parser) != 0 && !h1->shut;
    h1->expects = !h1->is_http10 && expects_continue(head);
    h1->served = true;
    h1_server_move(h1, H1_BODY);
    h1->opts.begin(&h1->x, head, h1->opts.user);
    assert(h1->x.events != NULL || h1->ended_inside);
    if (h1->expects && h1->x.events != NULL && h1->framing == H1_UNSAID)
        h1_say_continue(h1);
    h1_head_clear(&h1->head);
}

static int on_head_end(llhttp_t *parser)
{
    struct h1_server *h1 = server_of(parser);
    struct exchange_head head;
    parser->upgrade = 0; /* we go on in HTTP/1.1, which RFC 9110, 7.8 allows */
    if (parser->http_major != 1)
        return note(h1, BELFRY_ERR_UNSUPPORTED);
    h1->is_http10 = parser->http_minor == 0;
    enum belfry_err err = h1_head_present(&h1->head, !h1->is_http10, &head);
    if (err != BELFRY_OK)
        return note(h1, err);
    head.scheme = belfry_bytes_str(h1->opts.conn->tls ? "https" : "http");
    begin(h1, &head);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct h1_server *h1 = server_of(parser);
    if (h1->x.events == NULL) {
        h1->drained += len;
        return 0;
    }
    h1->untaken += len;
    h1->x.events->body(&h1->x, belfry_bytes_of(at, len), h1->x.user);
    return 0;
}

/* Pausing keeps what is pipelined behind unread. */
static int on_request_end(llhttp_t *parser)
{
    struct h1_server *h1 = server_of(parser);
    if (h1->state == H1_BODY)
        h1_server_move(h1, H1_ANSWERING);
    else
        h1_server_move(h1, H1_HEAD); /* it was drained */
    if (h1->x.events != NULL)
        h1->x.events->body_end(&h1->x, h1->x.user);
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_method = on_head_bytes,
    .on_method_complete = on_method_end,
    .on_url = on_head_bytes,
    .on_url_complete = on_target_end,
    .on_header_field = on_head_bytes,
    .on_header_field_complete = on_name_end,
    .on_header_value = on_head_bytes,
    .on_header_value_complete = on_value_end,
    .on_headers_complete = on_head_end,
    .on_body = on_body,
    .on_message_complete = on_request_end,
};

/* ---- bytes in ---- */

/* It is not HTTP. The peer is told so, unless that would end up inside a response or behind one. */
static enum belfry_err refuse(struct h1_server *h1, int status)
{
    bool silent = h1->state == H1_DRAINING || (h1->state != H1_HEAD && h1->framing != H1_UNSAID);
    tell_gone(h1);
    h1_server_move(h1, H1_OVER);
    if (!silent)
        h1_say_refusal(h1, status);
    h1_server_tell(h1);
    return BELFRY_ERR_PROTOCOL;
}

static enum belfry_err parse_failed(struct h1_server *h1)
{
    switch (h1->head.err) {
    case BELFRY_ERR_NOMEM:
        h1->starved = true;
        h1_server_tell(h1);
        return BELFRY_ERR_NOMEM;
    case BELFRY_ERR_TOO_LARGE:
        return refuse(h1, 431);
    case BELFRY_ERR_UNSUPPORTED:
        return refuse(h1, 505);
    default:
        return refuse(h1, 400);
    }
}

/* How many bytes may be looked at now: 0 while somebody else has to go first. */
static size_t allowance(const struct h1_server *h1)
{
    switch (h1->state) {
    case H1_HEAD: /* what was said to the last request goes out before the next is looked at */
        return belfry_buf_len(&h1->out) > 0 && h1->head_bytes == 0 ? 0 : H1_SERVER_HEAD_BYTES - h1->head_bytes;
    case H1_BODY:
        return h1->untaken >= EXCHANGE_WINDOW ? 0 : EXCHANGE_WINDOW - h1->untaken;
    case H1_DRAINING:
        return DRAIN_BYTES;
    case H1_ANSWERING:
    case H1_OVER:
        break;
    }
    return 0;
}

/* Gives llhttp a piece; *out_n says how much of it was used. */
static enum belfry_err parse(struct h1_server *h1, struct belfry_bytes piece, size_t *out_n)
{
    bool in_head = h1->state == H1_HEAD;
    h1->parsing = true;
    llhttp_errno_t code = llhttp_execute(&h1->parser, piece.data, piece.len);
    h1->parsing = false;
    *out_n = piece.len;
    if (code == HPE_PAUSED) {
        *out_n = (size_t)(llhttp_get_error_pos(&h1->parser) - piece.data);
        llhttp_resume(&h1->parser);
    }
    if (h1->ended_inside)
        after_response(h1);
    if (code != HPE_OK && code != HPE_PAUSED)
        return h1->state == H1_OVER ? BELFRY_OK : parse_failed(h1);
    if (in_head && h1->state == H1_HEAD && code == HPE_OK)
        h1->head_bytes += *out_n;
    if (h1->state == H1_HEAD && h1->head_bytes >= H1_SERVER_HEAD_BYTES)
        return refuse(h1, 431);
    if (h1->state == H1_DRAINING && h1->drained > DRAIN_BYTES)
        h1_server_move(h1, H1_OVER);
    return BELFRY_OK;
}

/* As far as it goes; what is left of `bytes` is left there. */
static enum belfry_err consume(struct h1_server *h1, struct belfry_bytes *bytes)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t may; err == BELFRY_OK && bytes->len > 0 && (may = allowance(h1)) > 0;) {
        size_t n, len = bytes->len < may ? bytes->len : may;
        err = parse(h1, belfry_bytes_of(bytes->data, len), &n);
        *bytes = belfry_bytes_of(bytes->data + n, bytes->len - n);
    }
    if (h1->state == H1_OVER)
        bytes->len = 0;
    return err;
}

/* Between requests, whoever is shut is over (but may have its first); and what a peer began that sends no more cannot be completed. */
static void conclude(struct h1_server *h1)
{
    bool between = h1->state == H1_HEAD && h1->head_bytes == 0 && h1->served;
    bool cut = h1->state != H1_ANSWERING && h1->input_ended;
    if (belfry_buf_len(&h1->in) > 0 || h1->state == H1_OVER || !(cut || (between && h1->shut)))
        return;
    tell_gone(h1);
    h1_server_move(h1, H1_OVER);
    h1_server_tell(h1);
}

/* What was kept: the buffer is taken out meanwhile, for it is freed when the connection is over. */
static enum belfry_err consume_kept(struct h1_server *h1)
{
    if (belfry_buf_len(&h1->in) == 0 || allowance(h1) == 0)
        return BELFRY_OK;
    struct belfry_buf kept = h1->in;
    belfry_buf_init(&h1->in);
    struct belfry_bytes bytes = belfry_buf_bytes(&kept);
    enum belfry_err err = consume(h1, &bytes);
    if (bytes.len == 0) {
        belfry_buf_fini(&kept);
    } else {
        belfry_buf_take(&kept, belfry_buf_len(&kept) - bytes.len);
        h1->in = kept;
    }
    return err;
}

enum belfry_err h1_server_receive(struct h1_server *h1, struct belfry_bytes bytes)
{
    enum belfry_err err = h1->starved ? BELFRY_ERR_NOMEM : consume_kept(h1);
    if (err == BELFRY_OK && belfry_buf_len(&h1->in) == 0)
        err = consume(h1, &bytes);
    if (err == BELFRY_OK && h1->state != H1_OVER)
        err = belfry_buf_append(&h1->in, bytes.data, bytes.len);
    if (err == BELFRY_ERR_NOMEM)
        h1->starved = true;
    return err;
}

bool h1_server_wants_read(const struct h1_server *h1)
{
    if (h1->input_ended || h1->state == H1_OVER || belfry_buf_len(&h1->in) > 0)
        return false;
    return h1->state != H1_BODY || h1->untaken < EXCHANGE_WINDOW;
}

void h1_server_input_ended(struct h1_server *h1)
{
    h1->input_ended = true;
    conclude(h1);
}

/* ---- bytes out ---- */

enum belfry_err h1_server_pull(struct h1_server *h1, size_t enough, struct belfry_buf *out)
{
    h1->asked = false;
    if (h1->starved)
        return BELFRY_ERR_NOMEM;
    size_t there = belfry_buf_len(out), waits = belfry_buf_len(&h1->out);
    size_t n = there >= enough ? 0 : enough - there < waits ? enough - there : waits;
    enum belfry_err err = belfry_buf_append(out, belfry_buf_bytes(&h1->out).data, n);
    if (err != BELFRY_OK)
        return err;
    belfry_buf_take(&h1->out, n);
    bool open = h1->state == H1_BODY || h1->state == H1_ANSWERING;
    if (belfry_buf_len(&h1->out) == 0 && (!open || h1->out.cap > KEPT_BYTES))
        belfry_buf_fini(&h1->out);
    return BELFRY_OK;
}

bool h1_server_wants_write(const struct h1_server *h1)
{
    return belfry_buf_len(&h1->out) > 0 || h1->starved;
}

bool h1_server_over(const struct h1_server *h1)
{
    return h1->state == H1_OVER && belfry_buf_len(&h1->out) == 0;
}

void h1_server_hold(struct h1_server *h1)
{
    h1->held = true;
}

void h1_server_unhold(struct h1_server *h1)
{
    h1->held = false;
    if (h1->starved)
        return;
    belfry_ignore(consume_kept(h1)); /* what it returns is remembered, and the next pull says so */
    conclude(h1);
    if (h1->x.events == NULL || !h1->wants_room || belfry_buf_len(&h1->out) > EXCHANGE_ROOM - EXCHANGE_ROOM_LOW)
        return;
    h1->wants_room = false;
    h1->x.events->writable(&h1->x, h1->x.user);
}

void h1_server_shut(struct h1_server *h1)
{
    h1->shut = true; /* a response whose head is not said yet will say so */
    conclude(h1);
}

bool h1_server_in_head(const struct h1_server *h1)
{
    return h1->state == H1_HEAD && h1->head_bytes > 0;
}

size_t h1_server_open(const struct h1_server *h1)
{
    return h1->x.events != NULL ? 1 : 0;
}

size_t h1_server_bytes(const struct h1_server *h1)
{
    return belfry_buf_len(&h1->out) + belfry_buf_len(&h1->in) + belfry_buf_len(&h1->head.text);
}

/* ---- create and destroy ---- */

enum belfry_err h1_server_create(const struct h1_server_opts *opts, struct h1_server **out)
{
    struct h1_server *h1 = calloc(1, sizeof(*h1));
    if (h1 == NULL)
        return BELFRY_ERR_NOMEM;
    h1->opts = *opts;
    llhttp_init(&h1->parser, HTTP_REQUEST, &settings);
    h1->parser.data = h1;
    *out = h1;
    return BELFRY_OK;
}

void h1_server_destroy(struct h1_server *h1)
{
    if (h1 == NULL)
        return;
    h1->asked = true; /* nobody will pull */
    tell_gone(h1);
    h1_head_clear(&h1->head);
    belfry_buf_fini(&h1->in);
    belfry_buf_fini(&h1->out);
    free(h1);
}
