/* src/net/http1.c
 *
 * One call at a time: its request is written when the response before it has ended. llhttp reads the response; a held
 * call does not stop it, since what was read is bounded by belfry_http_wants_read().
 *
 * What is not body (heads, chunk sizes and their extensions, trailers) may come to BELFRY_HTTP_HEAD_BYTES in one stretch;
 * a peer that sends more is not answering. What of a head is kept has the bounds of net/http_answer.h besides.
 */
#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/http_private.h"

struct belfry_http1 {
    struct belfry_http *http; /* fixed */
    llhttp_t parser;
    struct belfry_http_call *current; /* its request was written and its response has not ended; NULL: none */
    const char *body_end;             /* in what is being parsed: behind the last byte of body; NULL: none yet */
    bool head_ended;                  /* in what is being parsed */
    size_t overhead;                  /* bytes since the one or the other */
    enum belfry_err err;              /* what a callback of ours found */
    char why[BELFRY_HTTP_WHY_BYTES];
};

/* ---- llhttp: 0 goes on, -1 is an error that `err` and `why` tell ---- */

static struct belfry_http1 *http1_of(const llhttp_t *parser)
{
    return parser->data;
}

static int note(struct belfry_http1 *h1, enum belfry_err err, const char *why)
{
    if (err == BELFRY_OK)
        return 0;
    h1->err = err;
    snprintf(h1->why, sizeof(h1->why), "%s", why);
    return -1;
}

static int note_head(struct belfry_http1 *h1, enum belfry_err err)
{
    return note(h1, err,
                err == BELFRY_ERR_TOO_LARGE ? "response headers over 64 KiB or 128 fields" : belfry_strerror((int)err));
}

/* The fields behind a chunked body (trailers) are nobody's: only before the head is complete they are kept. */
static bool in_head(const struct belfry_http1 *h1)
{
    return h1->current->state == BELFRY_HTTP_CALL_SENT;
}

static int on_field_bytes(llhttp_t *parser, const char *at, size_t len)
{
    struct belfry_http1 *h1 = http1_of(parser);
    return in_head(h1) ? note_head(h1, belfry_http_answer_add(&h1->current->answer, at, len)) : 0;
}

static int on_name_end(llhttp_t *parser)
{
    struct belfry_http1 *h1 = http1_of(parser);
    return in_head(h1) ? note_head(h1, belfry_http_answer_end_name(&h1->current->answer)) : 0;
}

static int on_value_end(llhttp_t *parser)
{
    struct belfry_http1 *h1 = http1_of(parser);
    if (in_head(h1))
        belfry_http_answer_end_value(&h1->current->answer);
    return 0;
}

/* We asked for no coding: whatever else than "chunked" is named here, the body could not be read. */
static bool is_coded(const struct belfry_http1 *h1, const struct belfry_http_head *head)
{
    struct belfry_bytes coding = belfry_http_find(head, "transfer-encoding");
    if (coding.data == NULL)
        return false;
    return coding.len != 7 || strncasecmp(coding.data, "chunked", 7) != 0 || (h1->parser.flags & F_CHUNKED) == 0;
}

static const char *fault_of(const struct belfry_http1 *h1)
{
    int status = h1->parser.status_code;
    if (h1->parser.http_major != 1)
        return "the response is of another version of HTTP";
    if (status < 100 || status > 599)
        return "the response has a status that HTTP does not know";
    if (status == 101)
        return "the server switches protocols, which it was not asked for";
    return h1->current->n_informational > BELFRY_HTTP_INFORMATIONAL ? "informational responses without end" : NULL;
}

/* A response without a body is told apart here (1), since its head may speak of one. */
static int on_head_end(llhttp_t *parser)
{
    struct belfry_http1 *h1 = http1_of(parser);
    struct belfry_http_call *call = h1->current;
    int status = parser->status_code;
    parser->upgrade = 0; /* nobody asked for it */
    const char *fault = fault_of(h1);
    if (fault != NULL)
        return note(h1, BELFRY_ERR_PROTOCOL, fault);
    if (status < 200)
        return 1;
    call->answer.status = status;
    enum belfry_err err = belfry_http_answer_present(&call->answer, &call->head);
    if (err != BELFRY_OK)
        return note_head(h1, err);
    bool bodiless = call->is_head || status == 204 || status == 304;
    if (!bodiless && is_coded(h1, &call->head))
        return note(h1, BELFRY_ERR_PROTOCOL, "the body is in a transfer coding that was not asked for");
    if (!bodiless && llhttp_should_keep_alive(parser) == 0)
        belfry_http_drain(h1->http, "the server closes the connection after this response");
    h1->head_ended = true;
    belfry_http_call_head(call);
    return h1->current == NULL ? -1 : bodiless; /* NULL: cancelled by its callback */
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct belfry_http1 *h1 = http1_of(parser);
    h1->body_end = at + len;
    enum belfry_err err = belfry_http_call_body(h1->current, belfry_bytes_of(at, len));
    if (h1->current == NULL)
        return -1;
    return note(h1, err,
                err == BELFRY_ERR_LIMIT ? "more was read than a held call may keep" : belfry_strerror((int)err));
}

/* Pausing keeps what lies behind the response unread: it belongs to no call. */
static int on_response_end(llhttp_t *parser)
{
    struct belfry_http1 *h1 = http1_of(parser);
    struct belfry_http_call *call = h1->current;
    if (call->state == BELFRY_HTTP_CALL_SENT) { /* informational: the response is yet to come */
        belfry_http_answer_clear(&call->answer);
        call->n_informational++;
        return 0;
    }
    if (llhttp_should_keep_alive(parser) == 0)
        belfry_http_drain(h1->http, "the server closes the connection after this response");
    h1->current = NULL;
    belfry_http_call_end(call);
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_field_bytes,
    .on_header_field_complete = on_name_end,
    .on_header_value = on_field_bytes,
    .on_header_value_complete = on_value_end,
    .on_headers_complete = on_head_end,
    .on_body = on_body,
    .on_message_complete = on_response_end,
};

enum belfry_err belfry_http1_create(struct belfry_http *http, struct belfry_http1 **out)
{
    struct belfry_http1 *h1 = calloc(1, sizeof(*h1));
    if (h1 == NULL)
        return BELFRY_ERR_NOMEM;
    h1->http = http;
    *out = h1;
    return BELFRY_OK;
}

void belfry_http1_destroy(struct belfry_http1 *h1)
{
    free(h1);
}

/* ---- bytes ---- */

static enum belfry_err fail(struct belfry_http1 *h1, enum belfry_err err, const char *why)
{
    snprintf(h1->why, sizeof(h1->why), "%s", why);
    return err;
}

static enum belfry_err check_overhead(struct belfry_http1 *h1, struct belfry_bytes bytes)
{
    if (h1->body_end != NULL)
        h1->overhead = (size_t)(bytes.data + bytes.len - h1->body_end);
    else if (h1->head_ended)
        h1->overhead = 0; /* nobody knows where it ended: the next piece counts */
    else
        h1->overhead += bytes.len;
    if (h1->overhead <= BELFRY_HTTP_HEAD_BYTES)
        return BELFRY_OK;
    if (in_head(h1))
        return fail(h1, BELFRY_ERR_TOO_LARGE, "response headers over 64 KiB");
    return fail(h1, BELFRY_ERR_PROTOCOL, "chunk extensions or trailers over 64 KiB");
}

static enum belfry_err judge(struct belfry_http1 *h1, llhttp_errno_t code, struct belfry_bytes bytes)
{
    if (code == HPE_OK)
        return check_overhead(h1, bytes);
    if (code == HPE_PAUSED) { /* the response is complete */
        bool all = llhttp_get_error_pos(&h1->parser) == bytes.data + bytes.len;
        return all ? BELFRY_OK : fail(h1, BELFRY_ERR_PROTOCOL, "more came than the response");
    }
    if (h1->current == NULL)
        return BELFRY_OK; /* a callback cancelled the call: the connection is dead without this being an error */
    if (h1->err != BELFRY_OK)
        return h1->err;
    const char *reason = llhttp_get_error_reason(&h1->parser);
    snprintf(h1->why, sizeof(h1->why), "what came is not HTTP/1.1: %s", reason != NULL ? reason : "it does not parse");
    return BELFRY_ERR_PROTOCOL;
}

enum belfry_err belfry_http1_receive(struct belfry_http1 *h1, struct belfry_bytes bytes, const char **why)
{
    *why = h1->why;
    if (bytes.len == 0)
        return BELFRY_OK;
    if (h1->current == NULL)
        return fail(h1, BELFRY_ERR_PROTOCOL, "the server spoke without being asked");
    h1->body_end = NULL;
    h1->head_ended = false;
    return judge(h1, llhttp_execute(&h1->parser, bytes.data, bytes.len), bytes);
}

enum belfry_err belfry_http1_pull(struct belfry_http1 *h1)
{
    if (h1->current != NULL || belfry_list_empty(&h1->http->waiting))
        return BELFRY_OK;
    struct belfry_http_call *call = belfry_container(h1->http->waiting.next, struct belfry_http_call, node);
    enum belfry_err err = belfry_http_ask_write(call->ask, &h1->http->out);
    if (err != BELFRY_OK)
        return err;
    belfry_http_call_sent(call);
    h1->current = call;
    h1->overhead = 0;
    llhttp_init(&h1->parser, HTTP_RESPONSE, &settings);
    h1->parser.data = h1;
    return BELFRY_OK;
}

bool belfry_http1_wants_read(const struct belfry_http1 *h1)
{
    return h1->current == NULL || !h1->current->held;
}

bool belfry_http1_is_busy(const struct belfry_http1 *h1)
{
    return h1->current != NULL;
}

void belfry_http1_finish(struct belfry_http1 *h1)
{
    if (h1->current != NULL)
        (void)llhttp_finish(&h1->parser); /* a response that cannot end here is left as it is */
}

bool belfry_http1_forget(struct belfry_http1 *h1, const struct belfry_http_call *call)
{
    if (h1->current != call)
        return true;
    h1->current = NULL;
    return false;
}
