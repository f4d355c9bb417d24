/* src/server/h1_server.c */
#include "server/h1_server.h"

#include <assert.h>
#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "server/fields.h"

#define FIELDS_MAX  256          /* of a request: more than Apache and nginx allow */
#define KEPT_BYTES  2048         /* an output buffer up to this size stays with an open response: many deliveries fit */
#define DRAIN_BYTES (256 * 1024) /* of a request that was answered already; for more, closing is cheaper */
#define CHUNK_HEAD  20           /* bytes that hold the length of any chunk and its line end */

/*     HEAD --> BODY --> ANSWERING --> HEAD ...
 *                  \--> DRAINING ---> HEAD       (answered before the whole request had come)
 *     any  --> OVER
 */
enum h1_state {
    H1_HEAD,      /* between requests, or a head is being received */
    H1_BODY,      /* an exchange is open, and its request not complete */
    H1_ANSWERING, /* an exchange is open, and its request complete */
    H1_DRAINING,  /* the response is complete, the request is not: its rest is dropped */
    H1_OVER       /* nothing more is read; only what is in `out` is still sent */
};

/* Whether llhttp is on the stack. An exchange that ends inside moves the state only when llhttp has returned.
 *
 *     OUTSIDE --> PARSING --> ENDED --> OUTSIDE
 *                     \________________^
 */
enum h1_turn { H1_OUTSIDE, H1_PARSING, H1_ENDED };

enum h1_framing {
    H1_UNSAID,   /* the head of the response was not written */
    H1_CHUNKED,  /* */
    H1_COUNTED,  /* by content-length */
    H1_TO_CLOSE, /* HTTP/1.0: the end of the connection ends it */
    H1_BODILESS, /* HEAD, 204, 304 */
};

/* The request that is open, and its response. */
struct h1_request {
    enum h1_framing framing;
    uint64_t left;  /* COUNTED: bytes of the response's body that are still to come */
    size_t untaken; /* bytes of the request's body that the handler has not taken */
    size_t drained; /* bytes of it that were dropped */
    bool keep;      /* another request may follow */
    bool is_head;   /* the method is HEAD */
    bool is_http10;
    bool expects;    /* the client waits for "100 Continue" */
    bool wants_room; /* exchange_room() said little: `writable` is due when there is more */
};

struct h1_server {
    /* fixed at creation */
    struct h1_server_opts opts;
    llhttp_t parser;

    enum h1_state state; /* moved by h1_move_to() alone */
    enum h1_turn turn;
    struct exchange x; /* the one that is open in BODY and ANSWERING; `events` NULL once it has ended */
    struct h1_request request;
    struct fields head;     /* the one that is being received */
    size_t head_bytes;      /* of it, on the wire */
    enum belfry_err failed; /* why a head was refused; BELFRY_ERR_NOMEM: output is lost, so the connection is useless */
    struct belfry_buf in;   /* received before its turn */
    struct belfry_buf out;  /* to be pulled */
    bool input_ended;       /* the peer sends no more */
    bool served;            /* there was a request */
    bool shut;              /* no further request */
    bool asked;             /* wants_flush was called and nothing pulled since */
    bool held;              /* the socket is full */
    BELFRY_OWNER;
};

static struct h1_server *server_of(struct exchange *x)
{
    return (struct h1_server *)((char *)x - offsetof(struct h1_server, x));
}

static bool is_starved(const struct h1_server *h1)
{
    return h1->failed == BELFRY_ERR_NOMEM;
}

static void h1_move_to(struct h1_server *h1, enum h1_state next)
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
        fields_fini(&h1->head);
        h1->head_bytes = 0;
    }
    if (next == H1_OVER)
        belfry_buf_fini(&h1->in);
}

/* Something is there to be pulled. */
static void h1_ask_for_flush(struct h1_server *h1)
{
    if (h1->asked)
        return;
    h1->asked = true;
    h1->opts.wants_flush(h1->opts.flush_user);
}

/* ---- what is said ---- */

static void say(struct h1_server *h1, const char *data, size_t len)
{
    if (is_starved(h1) || belfry_buf_append(&h1->out, data, len) != BELFRY_OK)
        h1->failed = BELFRY_ERR_NOMEM;
}

static void say_text(struct h1_server *h1, const char *text)
{
    say(h1, text, strlen(text));
}

/* A value that a handler passes on from elsewhere must not end its line. */
static void say_value(struct h1_server *h1, struct belfry_bytes value)
{
    uint8_t *to;
    if (is_starved(h1) || belfry_buf_reserve(&h1->out, value.len, &to) != BELFRY_OK) {
        h1->failed = BELFRY_ERR_NOMEM;
        return;
    }
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        to[i] = (uint8_t)(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
    }
    belfry_buf_grown(&h1->out, value.len);
}

static void say_fields(struct h1_server *h1, const struct belfry_http_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        say_value(h1, fields[i].name);
        say_text(h1, ": ");
        say_value(h1, fields[i].value);
        say_text(h1, "\r\n");
    }
}

/* The statuses that we or upstream may send; for any other a client has a text of its own. */
static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "";
}

static void say_status(struct h1_server *h1, int status)
{
    char line[96];
    snprintf(line, sizeof(line), "HTTP/1.1 %d %s\r\n", status, status_text(status));
    say_text(h1, line);
}

/* One reservation for a chunk's length, bytes and end. */
static void say_chunk(struct h1_server *h1, const void *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *to;
    if (is_starved(h1) || belfry_buf_reserve(&h1->out, len + CHUNK_HEAD + 2, &to) != BELFRY_OK) {
        h1->failed = BELFRY_ERR_NOMEM;
        return;
    }
    unsigned shift = 60;
    while (shift > 0 && ((uint64_t)len >> shift) == 0)
        shift -= 4;
    size_t n = 0;
    for (;; shift -= 4) {
        to[n++] = (uint8_t)digits[((uint64_t)len >> shift) & 15];
        if (shift == 0)
            break;
    }
    to[n++] = '\r', to[n++] = '\n';
    memcpy(to + n, data, len);
    n += len;
    to[n++] = '\r', to[n++] = '\n';
    belfry_buf_grown(&h1->out, n);
}

/* ---- the end of an exchange ---- */

static void tell_gone(struct h1_server *h1)
{
    const struct exchange_events *events = h1->x.events;
    h1->x.events = NULL;
    if (events != NULL)
        events->gone(&h1->x, h1->x.user);
}

/* Moves on from the end of the response; not while llhttp is on the stack. */
static void after_response(struct h1_server *h1)
{
    h1->turn = H1_OUTSIDE;
    if (!h1->request.keep)
        h1_move_to(h1, H1_OVER);
    else if (h1->state == H1_BODY)
        h1_move_to(h1, H1_DRAINING);
    else
        h1_move_to(h1, H1_HEAD);
}

static void response_ended(struct h1_server *h1)
{
    h1->request.wants_room = false;
    h1->request.untaken = 0;
    if (h1->turn == H1_OUTSIDE)
        after_response(h1);
    else
        h1->turn = H1_ENDED;
    h1_ask_for_flush(h1);
}

/* ---- the operations of an exchange ---- */

static bool has_no_body(const struct h1_server *h1, int status)
{
    return h1->request.is_head || status == 204 || status == 304;
}

/* A length that cannot be read counts as none, and the field goes out as it is: a handler's mistake, not a peer's. */
static bool given_length(const struct belfry_http_field *fields, size_t n, uint64_t *out)
{
    struct exchange_head head = {.fields = fields, .n_fields = n};
    struct belfry_bytes text = exchange_field(&head, "content-length");
    uint64_t value = 0;
    if (text.len == 0 || text.len > 18)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out = value;
    return true;
}

/* The head of a response, once its framing is known. `framing_line` may be "". */
static void say_head(struct h1_server *h1, int status, const struct belfry_http_field *fields, size_t n,
                     const char *framing_line)
{
    struct h1_request *request = &h1->request;
    /* A client that waits for "100 Continue" and receives an answer may still send its body: what follows is
     * unknown. */
    if (request->expects || h1->shut || request->framing == H1_TO_CLOSE)
        request->keep = false;
    say_status(h1, status);
    say_fields(h1, fields, n);
    say_text(h1, framing_line);
    if (!request->keep)
        say_text(h1, "connection: close\r\n");
    else if (request->is_http10)
        say_text(h1, "connection: keep-alive\r\n");
    say_text(h1, "\r\n");
}

static void h1_exchange_respond(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n)
{
    struct h1_server *h1 = server_of(x);
    struct h1_request *request = &h1->request;
    assert(request->framing == H1_UNSAID);
    if (given_length(fields, n, &request->left))
        request->framing = H1_COUNTED;
    else
        request->framing = request->is_http10 ? H1_TO_CLOSE : H1_CHUNKED;
    bool chunked = request->framing == H1_CHUNKED && status != 204 && status != 304;
    if (has_no_body(h1, status))
        request->framing = H1_BODILESS;
    say_head(h1, status, fields, n, chunked ? "transfer-encoding: chunked\r\n" : "");
    h1_ask_for_flush(h1);
}

static size_t h1_exchange_room(struct exchange *x)
{
    struct h1_server *h1 = server_of(x);
    size_t waits = belfry_buf_len(&h1->out);
    size_t room = h1->held || waits >= EXCHANGE_ROOM ? 0 : EXCHANGE_ROOM - waits;
    if (room < EXCHANGE_ROOM_LOW)
        h1->request.wants_room = true;
    return room;
}

static void h1_exchange_write(struct exchange *x, const void *data, size_t len)
{
    struct h1_server *h1 = server_of(x);
    struct h1_request *request = &h1->request;
    assert(request->framing != H1_UNSAID);
    switch (request->framing) {
    case H1_UNSAID:
    case H1_BODILESS:
        return;
    case H1_CHUNKED:
        say_chunk(h1, data, len);
        break;
    case H1_COUNTED:
        if (len > request->left) /* the client would read the excess as the next response */
            len = (size_t)request->left;
        request->left -= len;
        say(h1, data, len);
        break;
    case H1_TO_CLOSE:
        say(h1, data, len);
        break;
    }
    h1_ask_for_flush(h1);
}

static void h1_exchange_end(struct exchange *x, const struct belfry_http_field *trailers, size_t n)
{
    struct h1_server *h1 = server_of(x);
    struct h1_request *request = &h1->request;
    assert(request->framing != H1_UNSAID);
    if (request->framing == H1_CHUNKED) {
        say_text(h1, "0\r\n");
        say_fields(h1, trailers, n);
        say_text(h1, "\r\n");
    }
    if (request->framing == H1_COUNTED && request->left > 0) /* the body is shorter than its content-length */
        request->keep = false;
    response_ended(h1);
}

static void h1_exchange_answer(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                               struct belfry_bytes body)
{
    struct h1_server *h1 = server_of(x);
    char length[48] = "";
    assert(h1->request.framing == H1_UNSAID);
    h1->request.framing = has_no_body(h1, status) ? H1_BODILESS : H1_COUNTED;
    if (status != 204 && status != 304)
        snprintf(length, sizeof(length), "content-length: %zu\r\n", body.len);
    say_head(h1, status, fields, n, length);
    if (h1->request.framing == H1_COUNTED)
        say(h1, body.data, body.len);
    response_ended(h1);
}

static void h1_exchange_reset(struct exchange *x, uint32_t h2_code)
{
    struct h1_server *h1 = server_of(x);
    (void)h2_code;
    belfry_buf_fini(&h1->out); /* it holds this response alone: the next begins when the last was pulled */
    h1->request.keep = false;
    response_ended(h1);
}

static void h1_exchange_taken(struct exchange *x, size_t n)
{
    struct h1_server *h1 = server_of(x);
    assert(n <= h1->request.untaken);
    bool stood = h1->request.untaken >= EXCHANGE_WINDOW || belfry_buf_len(&h1->in) > 0;
    h1->request.untaken -= n;
    if (stood)
        h1_ask_for_flush(h1); /* the owner's next flush reads on */
}

static const struct exchange_ops h1_exchange_ops = {
    .taken = h1_exchange_taken,
    .respond = h1_exchange_respond,
    .room = h1_exchange_room,
    .write = h1_exchange_write,
    .end = h1_exchange_end,
    .answer = h1_exchange_answer,
    .reset = h1_exchange_reset,
};

/* ---- the head of a request ---- */

/* "http://host/path" (RFC 9112, 3.2.2): its host takes precedence over the Host field. */
static void split_absolute_target(struct exchange_head *head)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(schemes[i]);
        if (head->path.len < n || strncasecmp(head->path.data, schemes[i], n) != 0)
            continue;
        const char *host = head->path.data + n, *end = head->path.data + head->path.len, *slash = host;
        while (slash < end && *slash != '/' && *slash != '?')
            slash++;
        head->authority = belfry_bytes_of(host, (size_t)(slash - host));
        head->path = slash < end ? belfry_bytes_of(slash, (size_t)(end - slash)) : belfry_bytes_str("/");
    }
}

/* HTTP/1.1 has exactly one Host, HTTP/1.0 at most one. */
static bool has_valid_host(const struct exchange_head *head, bool is_http10)
{
    size_t n_hosts = 0;
    for (size_t i = 0; i < head->n_fields; i++)
        n_hosts += belfry_bytes_equal(head->fields[i].name, belfry_bytes_str("host"));
    return n_hosts == 1 || (n_hosts == 0 && is_http10);
}

static void h1_begin_exchange(struct h1_server *h1, const struct exchange_head *head, bool is_http10)
{
    struct belfry_bytes expect = exchange_field(head, "expect");
    bool expects = expect.len == 12 && strncasecmp(expect.data, "100-continue", 12) == 0;
    h1->x = (struct exchange){.ops = &h1_exchange_ops, .conn = h1->opts.conn};
    h1->request = (struct h1_request){.is_head = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD")),
                                      .is_http10 = is_http10,
                                      .keep = llhttp_should_keep_alive(&h1->parser) != 0 && !h1->shut,
                                      .expects = expects && !is_http10};
    h1->served = true;
    h1_move_to(h1, H1_BODY);
    h1->opts.begin(&h1->x, head, h1->opts.user);
    assert(h1->x.events != NULL || h1->turn == H1_ENDED);
    if (h1->request.expects && h1->x.events != NULL && h1->request.framing == H1_UNSAID) {
        h1->request.expects = false;
        say_text(h1, "HTTP/1.1 100 Continue\r\n\r\n");
        h1_ask_for_flush(h1);
    }
    fields_fini(&h1->head);
}

/* ---- llhttp: a callback returns 0 to go on, and -1 for the error in `failed` ---- */

static int parser_result(struct h1_server *h1, enum belfry_err err)
{
    if (err == BELFRY_OK)
        return 0;
    if (!is_starved(h1))
        h1->failed = err;
    return -1;
}

/* The target is kept as HTTP/2 would send it. llhttp knows the method by itself. */
static int on_method_end(llhttp_t *parser)
{
    struct h1_server *h1 = parser->data;
    enum belfry_err err = fields_text(&h1->head, belfry_bytes_str(":path"));
    return parser_result(h1, err != BELFRY_OK ? err : fields_end_name(&h1->head));
}

static int on_head_bytes(llhttp_t *parser, const char *at, size_t len)
{
    struct h1_server *h1 = parser->data;
    if (h1->state != H1_HEAD) /* a trailer: no handler wants it */
        return 0;
    return parser_result(h1, fields_text(&h1->head, belfry_bytes_of(at, len)));
}

static int on_name_end(llhttp_t *parser)
{
    struct h1_server *h1 = parser->data;
    if (h1->state != H1_HEAD)
        return 0;
    return parser_result(h1, h1->head.n > FIELDS_MAX ? BELFRY_ERR_TOO_LARGE : fields_end_name(&h1->head));
}

static int on_value_end(llhttp_t *parser)
{
    struct h1_server *h1 = parser->data;
    if (h1->state == H1_HEAD)
        fields_end_value(&h1->head);
    return 0;
}

static int on_head_end(llhttp_t *parser)
{
    struct h1_server *h1 = parser->data;
    bool is_http10 = parser->http_minor == 0;
    parser->upgrade = 0; /* the connection stays HTTP/1.1, which RFC 9110, 7.8 allows */
    if (parser->http_major != 1)
        return parser_result(h1, BELFRY_ERR_UNSUPPORTED);
    struct exchange_head head = fields_head(&h1->head);
    bool is_framed_wrongly = is_http10 && exchange_field(&head, "transfer-encoding").data != NULL; /* RFC 9112, 6.1 */
    if (is_framed_wrongly || !has_valid_host(&head, is_http10))
        return parser_result(h1, BELFRY_ERR_PROTOCOL);
    head.method = belfry_bytes_str(llhttp_method_name(llhttp_get_method(parser)));
    head.scheme = belfry_bytes_str(h1->opts.conn->tls ? "https" : "http");
    split_absolute_target(&head);
    h1_begin_exchange(h1, &head, is_http10);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct h1_server *h1 = parser->data;
    if (h1->x.events == NULL) {
        h1->request.drained += len;
        return 0;
    }
    h1->request.untaken += len;
    h1->x.events->body(&h1->x, belfry_bytes_of(at, len), h1->x.user);
    return 0;
}

/* Pausing keeps pipelined requests unread. */
static int on_request_end(llhttp_t *parser)
{
    struct h1_server *h1 = parser->data;
    h1_move_to(h1, h1->state == H1_BODY ? H1_ANSWERING : H1_HEAD);
    if (h1->x.events != NULL)
        h1->x.events->body_end(&h1->x, h1->x.user);
    return HPE_PAUSED;
}

static const llhttp_settings_t parser_settings = {
    .on_method_complete = on_method_end,
    .on_url = on_head_bytes,
    .on_url_complete = on_value_end,
    .on_header_field = on_head_bytes,
    .on_header_field_complete = on_name_end,
    .on_header_value = on_head_bytes,
    .on_header_value_complete = on_value_end,
    .on_headers_complete = on_head_end,
    .on_body = on_body,
    .on_message_complete = on_request_end,
};

/* ---- bytes in ---- */

/* The peer did not send HTTP. It receives the status, unless that would end up inside a response or after one. */
static enum belfry_err refuse_request(struct h1_server *h1, int status)
{
    bool silent = h1->state == H1_DRAINING || (h1->state != H1_HEAD && h1->request.framing != H1_UNSAID);
    tell_gone(h1);
    h1_move_to(h1, H1_OVER);
    if (!silent) {
        say_status(h1, status);
        say_text(h1, "content-length: 0\r\nconnection: close\r\n\r\n");
    }
    h1_ask_for_flush(h1);
    return BELFRY_ERR_PROTOCOL;
}

static enum belfry_err parse_failed(struct h1_server *h1)
{
    switch (h1->failed) {
    case BELFRY_ERR_NOMEM:
        h1_ask_for_flush(h1);
        return BELFRY_ERR_NOMEM;
    case BELFRY_ERR_TOO_LARGE:
        return refuse_request(h1, 431);
    case BELFRY_ERR_UNSUPPORTED:
        return refuse_request(h1, 505);
    default:
        return refuse_request(h1, 400);
    }
}

/* It is shut, and between two requests: there is no next one. */
static bool has_had_last(const struct h1_server *h1)
{
    return h1->shut && h1->state == H1_HEAD && h1->head_bytes == 0 && h1->served;
}

/* How many bytes may be parsed now; 0 while something else comes first. */
static size_t parse_allowance(const struct h1_server *h1)
{
    switch (h1->state) {
    case H1_HEAD: /* the last response goes out before the next request is parsed */
        if (h1->head_bytes == 0 && (belfry_buf_len(&h1->out) > 0 || has_had_last(h1)))
            return 0;
        return H1_SERVER_HEAD_BYTES - h1->head_bytes;
    case H1_BODY:
        return h1->request.untaken >= EXCHANGE_WINDOW ? 0 : EXCHANGE_WINDOW - h1->request.untaken;
    case H1_DRAINING:
        return DRAIN_BYTES;
    case H1_ANSWERING:
    case H1_OVER:
        break;
    }
    return 0;
}

/* Gives llhttp a piece and stores how much of it was used. */
static enum belfry_err parse_piece(struct h1_server *h1, struct belfry_bytes piece, size_t *out_n)
{
    bool in_head = h1->state == H1_HEAD;
    h1->turn = H1_PARSING;
    llhttp_errno_t code = llhttp_execute(&h1->parser, piece.data, piece.len);
    *out_n = piece.len;
    if (code == HPE_PAUSED) {
        *out_n = (size_t)(llhttp_get_error_pos(&h1->parser) - piece.data);
        llhttp_resume(&h1->parser);
    }
    if (h1->turn == H1_ENDED)
        after_response(h1);
    h1->turn = H1_OUTSIDE;
    if (code != HPE_OK && code != HPE_PAUSED)
        return h1->state == H1_OVER ? BELFRY_OK : parse_failed(h1);
    if (in_head && h1->state == H1_HEAD && code == HPE_OK)
        h1->head_bytes += *out_n;
    if (h1->state == H1_HEAD && h1->head_bytes >= H1_SERVER_HEAD_BYTES)
        return refuse_request(h1, 431);
    if (h1->state == H1_DRAINING && h1->request.drained > DRAIN_BYTES)
        h1_move_to(h1, H1_OVER);
    return BELFRY_OK;
}

/* Parses as much of *bytes as may be parsed, and leaves the rest there. */
static enum belfry_err consume(struct h1_server *h1, struct belfry_bytes *bytes)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t may; err == BELFRY_OK && bytes->len > 0 && (may = parse_allowance(h1)) > 0;) {
        size_t n, len = bytes->len < may ? bytes->len : may;
        err = parse_piece(h1, belfry_bytes_of(bytes->data, len), &n);
        *bytes = belfry_bytes_of(bytes->data + n, bytes->len - n);
    }
    if (h1->state == H1_OVER)
        bytes->len = 0;
    return err;
}

/* The same for what was kept. The buffer is taken out meanwhile, because the state OVER frees it. */
static enum belfry_err consume_kept(struct h1_server *h1)
{
    if (belfry_buf_len(&h1->in) == 0 || parse_allowance(h1) == 0)
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

/* Ends a connection on which nothing can follow: it is shut and between two requests (a connection may still have its
 * first; requests that were pipelined are dropped), or the peer sends no more, and its request is incomplete or the
 * response lasts until it leaves. */
static void end_if_done(struct h1_server *h1)
{
    bool waits = h1->state == H1_ANSWERING && !(h1->x.events != NULL && h1->x.lasts);
    bool cut = !waits && h1->input_ended && belfry_buf_len(&h1->in) == 0;
    if (h1->state == H1_OVER || !(cut || has_had_last(h1)))
        return;
    tell_gone(h1);
    h1_move_to(h1, H1_OVER);
    h1_ask_for_flush(h1);
}

enum belfry_err h1_server_receive(struct h1_server *h1, struct belfry_bytes bytes)
{
    BELFRY_OWNER_CHECK(h1);
    enum belfry_err err = is_starved(h1) ? BELFRY_ERR_NOMEM : consume_kept(h1);
    if (err == BELFRY_OK && belfry_buf_len(&h1->in) == 0)
        err = consume(h1, &bytes);
    if (err == BELFRY_OK && h1->state != H1_OVER)
        err = belfry_buf_append(&h1->in, bytes.data, bytes.len);
    if (err == BELFRY_ERR_NOMEM)
        h1->failed = err;
    return err;
}

bool h1_server_wants_read(const struct h1_server *h1)
{
    if (h1->input_ended || h1->state == H1_OVER || belfry_buf_len(&h1->in) > 0)
        return false;
    return h1->state != H1_BODY || h1->request.untaken < EXCHANGE_WINDOW;
}

void h1_server_input_ended(struct h1_server *h1)
{
    BELFRY_OWNER_CHECK(h1);
    h1->input_ended = true;
    end_if_done(h1);
}

/* ---- bytes out ---- */

enum belfry_err h1_server_pull(struct h1_server *h1, size_t enough, struct belfry_buf *out)
{
    BELFRY_OWNER_CHECK(h1);
    h1->asked = false;
    if (is_starved(h1))
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
    return belfry_buf_len(&h1->out) > 0 || is_starved(h1);
}

bool h1_server_over(const struct h1_server *h1)
{
    return h1->state == H1_OVER && belfry_buf_len(&h1->out) == 0;
}

void h1_server_hold(struct h1_server *h1)
{
    BELFRY_OWNER_CHECK(h1);
    h1->held = true;
}

void h1_server_unhold(struct h1_server *h1)
{
    BELFRY_OWNER_CHECK(h1);
    h1->held = false;
    if (is_starved(h1))
        return;
    belfry_ignore(consume_kept(h1)); /* the next pull returns the error */
    end_if_done(h1);
    bool has_room = belfry_buf_len(&h1->out) <= EXCHANGE_ROOM - EXCHANGE_ROOM_LOW;
    if (h1->x.events == NULL || !h1->request.wants_room || !has_room)
        return;
    h1->request.wants_room = false;
    h1->x.events->writable(&h1->x, h1->x.user);
}

void h1_server_shut(struct h1_server *h1)
{
    BELFRY_OWNER_CHECK(h1);
    h1->shut = true; /* a response without its head yet will say so */
    end_if_done(h1);
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
    llhttp_init(&h1->parser, HTTP_REQUEST, &parser_settings);
    h1->parser.data = h1;
    BELFRY_OWNER_INIT(h1);
    *out = h1;
    return BELFRY_OK;
}

void h1_server_destroy(struct h1_server *h1)
{
    if (h1 == NULL)
        return;
    BELFRY_OWNER_CHECK(h1);
    h1->asked = true; /* nothing is pulled any more */
    tell_gone(h1);
    fields_fini(&h1->head);
    belfry_buf_fini(&h1->in);
    belfry_buf_fini(&h1->out);
    free(h1);
}
