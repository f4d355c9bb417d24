/* src/server/h1_server_response.c */
#include <assert.h>
#include <stdio.h>

#include "server/h1_server_private.h"

#define CHUNK_HEAD 20 /* bytes that hold the length of any chunk and its line end */

static struct h1_server *server_of(struct exchange *x)
{
    return (struct h1_server *)((char *)x - offsetof(struct h1_server, x));
}

static void say(struct h1_server *h1, const char *data, size_t len)
{
    if (h1->starved || belfry_buf_append(&h1->out, data, len) != BELFRY_OK)
        h1->starved = true;
}

static void say_text(struct h1_server *h1, const char *text)
{
    say(h1, text, strlen(text));
}

/* What a handler passes on from somebody else must not end its line. */
static void say_value(struct h1_server *h1, struct belfry_bytes value)
{
    uint8_t *to;
    if (h1->starved || belfry_buf_reserve(&h1->out, value.len, &to) != BELFRY_OK) {
        h1->starved = true;
        return;
    }
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        to[i] = (uint8_t)(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
    }
    belfry_buf_grown(&h1->out, value.len);
}

static void say_fields(struct h1_server *h1, const struct exchange_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        say_value(h1, fields[i].name);
        say_text(h1, ": ");
        say_value(h1, fields[i].value);
        say_text(h1, "\r\n");
    }
}

/* Those that we or what stands above us may say; to any other a client has its own words. */
static const char *reason(int status)
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
    snprintf(line, sizeof(line), "HTTP/1.1 %d %s\r\n", status, reason(status));
    say_text(h1, line);
}

static void say_length(struct h1_server *h1, uint64_t len)
{
    char line[48];
    snprintf(line, sizeof(line), "content-length: %llu\r\n", (unsigned long long)len);
    say_text(h1, line);
}

void h1_say_continue(struct h1_server *h1)
{
    h1->expects = false;
    say_text(h1, "HTTP/1.1 100 Continue\r\n\r\n");
    h1_server_tell(h1);
}

void h1_say_refusal(struct h1_server *h1, int status)
{
    say_status(h1, status);
    say_text(h1, "content-length: 0\r\nconnection: close\r\n\r\n");
    h1_server_tell(h1);
}

/* A client that waits for 100 and gets an answer may send its body or not: no telling what comes next. */
static void decide_keep(struct h1_server *h1)
{
    if (h1->expects || h1->shut || h1->framing == H1_TO_CLOSE)
        h1->keep = false;
}

static void say_connection(struct h1_server *h1)
{
    if (!h1->keep)
        say_text(h1, "connection: close\r\n");
    else if (h1->is_http10)
        say_text(h1, "connection: keep-alive\r\n");
}

static bool has_no_body(const struct h1_server *h1, int status)
{
    return h1->is_head || status == 204 || status == 304;
}

/* A length that cannot be read is taken for none, and the field goes out as it is: a handler's mistake, not a peer's. */
static bool given_length(const struct exchange_field *fields, size_t n, uint64_t *out)
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

static void exchange_respond_h1(struct exchange *x, int status, const struct exchange_field *fields, size_t n)
{
    struct h1_server *h1 = server_of(x);
    assert(h1->framing == H1_UNSAID);
    if (given_length(fields, n, &h1->left))
        h1->framing = H1_COUNTED;
    else
        h1->framing = h1->is_http10 ? H1_TO_CLOSE : H1_CHUNKED;
    bool chunked = h1->framing == H1_CHUNKED && status != 204 && status != 304;
    if (has_no_body(h1, status))
        h1->framing = H1_BODILESS;
    decide_keep(h1);
    say_status(h1, status);
    say_fields(h1, fields, n);
    if (chunked)
        say_text(h1, "transfer-encoding: chunked\r\n");
    say_connection(h1);
    say_text(h1, "\r\n");
    h1_server_tell(h1);
}

static size_t exchange_room_h1(struct exchange *x)
{
    struct h1_server *h1 = server_of(x);
    size_t waits = belfry_buf_len(&h1->out);
    size_t room = h1->held || waits >= EXCHANGE_ROOM ? 0 : EXCHANGE_ROOM - waits;
    if (room < EXCHANGE_ROOM_LOW)
        h1->wants_room = true;
    return room;
}

/* One reservation for a chunk's length, bytes and end. */
static void say_chunk(struct h1_server *h1, const void *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *to;
    if (h1->starved || belfry_buf_reserve(&h1->out, len + CHUNK_HEAD + 2, &to) != BELFRY_OK) {
        h1->starved = true;
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

static void exchange_write_h1(struct exchange *x, const void *data, size_t len)
{
    struct h1_server *h1 = server_of(x);
    assert(h1->framing != H1_UNSAID);
    switch (h1->framing) {
    case H1_UNSAID:
    case H1_BODILESS:
        return;
    case H1_CHUNKED:
        say_chunk(h1, data, len);
        break;
    case H1_COUNTED:
        if (len > h1->left) /* more than was promised would be read as the next response */
            len = (size_t)h1->left;
        h1->left -= len;
        say(h1, data, len);
        break;
    case H1_TO_CLOSE:
        say(h1, data, len);
        break;
    }
    h1_server_tell(h1);
}

static void exchange_end_h1(struct exchange *x, const struct exchange_field *trailers, size_t n)
{
    struct h1_server *h1 = server_of(x);
    assert(h1->framing != H1_UNSAID);
    if (h1->framing == H1_CHUNKED) {
        say_text(h1, "0\r\n");
        say_fields(h1, trailers, n);
        say_text(h1, "\r\n");
    }
    h1_server_finish(h1, h1->framing != H1_COUNTED || h1->left == 0);
}

static void exchange_answer_h1(struct exchange *x, int status, const struct exchange_field *fields, size_t n,
                               struct belfry_bytes body)
{
    struct h1_server *h1 = server_of(x);
    assert(h1->framing == H1_UNSAID);
    h1->framing = has_no_body(h1, status) ? H1_BODILESS : H1_COUNTED;
    decide_keep(h1);
    say_status(h1, status);
    say_fields(h1, fields, n);
    if (status != 204 && status != 304)
        say_length(h1, body.len);
    say_connection(h1);
    say_text(h1, "\r\n");
    if (h1->framing == H1_COUNTED)
        say(h1, body.data, body.len);
    h1_server_finish(h1, true);
}

static void exchange_reset_h1(struct exchange *x, uint32_t h2_code)
{
    struct h1_server *h1 = server_of(x);
    (void)h2_code;
    belfry_buf_fini(&h1->out); /* of this response alone: the next begins when the last was pulled */
    h1_server_finish(h1, false);
}

static void exchange_taken_h1(struct exchange *x, size_t n)
{
    struct h1_server *h1 = server_of(x);
    assert(n <= h1->untaken);
    bool stood = h1->untaken >= EXCHANGE_WINDOW || belfry_buf_len(&h1->in) > 0;
    h1->untaken -= n;
    if (stood)
        h1_server_tell(h1); /* what is kept, or not read yet, goes on when the owner comes by */
}

const struct exchange_ops h1_exchange_ops = {
    .taken = exchange_taken_h1,
    .respond = exchange_respond_h1,
    .room = exchange_room_h1,
    .write = exchange_write_h1,
    .end = exchange_end_h1,
    .answer = exchange_answer_h1,
    .reset = exchange_reset_h1,
};
