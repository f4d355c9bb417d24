/* src/net/h1.c */
#include "net/h1.h"

#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

#define WHY_BYTES 256

enum coding { CODING_NONE, CODING_CHUNKED, CODING_OTHER };

struct belfry_h1 {
    /* fixed */
    const struct belfry_h2_events *events;
    void (*leaving)(void *user);
    void *user;
    /* owner */
    llhttp_t parser;
    struct belfry_h2_stream *current; /* its request was written and its response has not ended; NULL: none */
    bool is_head;                     /* of the current request */
    bool in_head;                     /* its response's head is not complete: what comes behind the body is trailers */
    bool status_told;                 /* of the head that is being received */
    enum coding coding;               /* its first transfer-encoding */
    struct belfry_buf field;          /* the field that is being received: its name, then its value */
    size_t name_len;
    const char *body_end; /* in what is being parsed: behind the last byte of body; NULL: none yet */
    bool head_ended;      /* in what is being parsed */
    size_t overhead;      /* bytes since the one or the other */
    enum belfry_err err;  /* what a callback of ours found */
    char why[WHY_BYTES];
    BELFRY_OWNER;
};

/* ---- llhttp: 0 goes on, -1 is an error that `err` and `why` tell ---- */

static struct belfry_h1 *h1_of(const llhttp_t *parser)
{
    return parser->data;
}

static int h1_note(struct belfry_h1 *h1, enum belfry_err err, const char *why)
{
    if (h1->current == NULL)
        return -1; /* an event let go of the response */
    if (err == BELFRY_OK)
        return 0;
    h1->err = err;
    snprintf(h1->why, sizeof(h1->why), "%s", why);
    return -1;
}

static int on_field_bytes(llhttp_t *parser, const char *at, size_t len)
{
    struct belfry_h1 *h1 = h1_of(parser);
    if (!h1->in_head)
        return 0;
    enum belfry_err err = belfry_buf_append(&h1->field, at, len);
    return h1_note(h1, err, belfry_strerror((int)err));
}

static int on_name_end(llhttp_t *parser)
{
    struct belfry_h1 *h1 = h1_of(parser);
    h1->name_len = belfry_buf_len(&h1->field);
    for (size_t i = 0; i < h1->name_len; i++) {
        uint8_t *c = &h1->field.data[h1->field.start + i];
        if (*c >= 'A' && *c <= 'Z')
            *c = (uint8_t)(*c - 'A' + 'a');
    }
    return 0;
}

/* Before any field of the head, as in HTTP/2. */
static enum belfry_err h1_tell_status(struct belfry_h1 *h1)
{
    char status[8];
    if (h1->status_told)
        return BELFRY_OK;
    h1->status_told = true;
    int n = snprintf(status, sizeof(status), "%03u", (unsigned)h1->parser.status_code);
    return h1->events->field(h1->current, belfry_bytes_str(":status"), belfry_bytes_of(status, (size_t)n), h1->user);
}

static int on_value_end(llhttp_t *parser)
{
    struct belfry_h1 *h1 = h1_of(parser);
    if (!h1->in_head)
        return 0;
    struct belfry_bytes all = belfry_buf_bytes(&h1->field);
    struct belfry_bytes name = {all.data, h1->name_len};
    struct belfry_bytes value = all.len > 0 ? belfry_bytes_of(all.data + h1->name_len, all.len - h1->name_len) : all;
    while (value.len > 0 && (value.data[value.len - 1] == ' ' || value.data[value.len - 1] == '\t'))
        value.len--;
    /* We asked for no coding: if anything other than "chunked" is named here, the body cannot be read. */
    if (h1->coding == CODING_NONE && belfry_bytes_equal(name, belfry_bytes_str("transfer-encoding")))
        h1->coding = value.len == 7 && strncasecmp(value.data, "chunked", 7) == 0 ? CODING_CHUNKED : CODING_OTHER;
    enum belfry_err err = h1_tell_status(h1);
    if (err == BELFRY_OK && h1->current != NULL)
        err = h1->events->field(h1->current, name, value, h1->user);
    belfry_buf_clear(&h1->field);
    return h1_note(h1, err, belfry_strerror((int)err));
}

/* Returns 1 for a response without a body, since its head may speak of one. */
static int on_head_end(llhttp_t *parser)
{
    struct belfry_h1 *h1 = h1_of(parser);
    int status = parser->status_code;
    bool bodiless = h1->is_head || status < 200 || status == 204 || status == 304;
    parser->upgrade = 0; /* nobody asked for it */
    if (parser->http_major != 1)
        return h1_note(h1, BELFRY_ERR_PROTOCOL, "the response is of another version of HTTP");
    if (status < 100 || status > 599)
        return h1_note(h1, BELFRY_ERR_PROTOCOL, "the response has a status that HTTP does not know");
    if (status == 101)
        return h1_note(h1, BELFRY_ERR_PROTOCOL, "the server switches protocols, which it was not asked for");
    bool is_coded = h1->coding == CODING_OTHER || (h1->coding == CODING_CHUNKED && (parser->flags & F_CHUNKED) == 0);
    if (!bodiless && is_coded)
        return h1_note(h1, BELFRY_ERR_PROTOCOL, "the body is in a transfer coding that was not asked for");
    if (!bodiless && llhttp_should_keep_alive(parser) == 0)
        h1->leaving(h1->user);
    if (status >= 200) {
        h1->head_ended = true;
        h1->in_head = false;
    }
    enum belfry_err err = h1_tell_status(h1);
    if (err == BELFRY_OK && h1->current != NULL)
        err = h1->events->block(h1->current, false, h1->user);
    h1->coding = CODING_NONE;
    h1->status_told = false;
    int failed = h1_note(h1, err, belfry_strerror((int)err));
    return failed != 0 ? failed : bodiless;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct belfry_h1 *h1 = h1_of(parser);
    h1->body_end = at + len;
    enum belfry_err err = h1->events->data(h1->current, belfry_bytes_of(at, len), h1->user);
    return h1_note(h1, err,
                   err == BELFRY_ERR_LIMIT ? "more was read than a held call may keep" : belfry_strerror((int)err));
}

/* Pausing keeps what lies behind the response unread: it belongs to no call. */
static int on_response_end(llhttp_t *parser)
{
    struct belfry_h1 *h1 = h1_of(parser);
    struct belfry_h2_stream *stream = h1->current;
    if (h1->in_head) /* informational: the response is yet to come */
        return 0;
    if (llhttp_should_keep_alive(parser) == 0)
        h1->leaving(h1->user);
    h1->current = NULL;
    belfry_ignore(h1->events->end(stream, h1->user)); /* it only notes the end */
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

/* ---- from beginning to end ---- */

enum belfry_err belfry_h1_create(const struct belfry_h2_events *events, void (*leaving)(void *user), void *user,
                                 struct belfry_h1 **out)
{
    struct belfry_h1 *h1 = calloc(1, sizeof(*h1));
    if (h1 == NULL)
        return BELFRY_ERR_NOMEM;
    h1->events = events;
    h1->leaving = leaving;
    h1->user = user;
    BELFRY_OWNER_INIT(h1);
    *out = h1;
    return BELFRY_OK;
}

void belfry_h1_destroy(struct belfry_h1 *h1)
{
    if (h1 == NULL)
        return;
    BELFRY_OWNER_CHECK(h1);
    belfry_buf_fini(&h1->field);
    free(h1);
}

void belfry_h1_begin(struct belfry_h1 *h1, struct belfry_h2_stream *stream, bool is_head)
{
    BELFRY_OWNER_CHECK(h1);
    h1->current = stream;
    h1->is_head = is_head;
    h1->in_head = true;
    h1->coding = CODING_NONE;
    h1->status_told = false;
    h1->overhead = 0;
    belfry_buf_fini(&h1->field);
    llhttp_init(&h1->parser, HTTP_RESPONSE, &settings);
    h1->parser.data = h1;
}

static enum belfry_err h1_fail(struct belfry_h1 *h1, enum belfry_err err, const char *why)
{
    snprintf(h1->why, sizeof(h1->why), "%s", why);
    return err;
}

static enum belfry_err h1_check_overhead(struct belfry_h1 *h1, struct belfry_bytes bytes)
{
    if (h1->body_end != NULL)
        h1->overhead = (size_t)(bytes.data + bytes.len - h1->body_end);
    else if (h1->head_ended)
        h1->overhead = 0; /* where it ended is not known: the next piece counts */
    else
        h1->overhead += bytes.len;
    if (h1->overhead <= BELFRY_H1_OVERHEAD_BYTES)
        return BELFRY_OK;
    if (h1->in_head)
        return h1_fail(h1, BELFRY_ERR_TOO_LARGE, "response headers over 64 KiB");
    return h1_fail(h1, BELFRY_ERR_PROTOCOL, "chunk extensions or trailers over 64 KiB");
}

static enum belfry_err h1_judge(struct belfry_h1 *h1, llhttp_errno_t code, struct belfry_bytes bytes)
{
    if (code == HPE_OK)
        return h1_check_overhead(h1, bytes);
    if (code == HPE_PAUSED) { /* the response is complete */
        bool all = llhttp_get_error_pos(&h1->parser) == bytes.data + bytes.len;
        return all ? BELFRY_OK : h1_fail(h1, BELFRY_ERR_PROTOCOL, "more came than the response");
    }
    if (h1->current == NULL)
        return BELFRY_OK; /* an event let go of the response: that is the owner's to judge */
    if (h1->err != BELFRY_OK)
        return h1->err;
    const char *reason = llhttp_get_error_reason(&h1->parser);
    snprintf(h1->why, sizeof(h1->why), "what came is not HTTP/1.1: %s", reason != NULL ? reason : "it does not parse");
    return BELFRY_ERR_PROTOCOL;
}

enum belfry_err belfry_h1_receive(struct belfry_h1 *h1, struct belfry_bytes bytes, const char **why)
{
    BELFRY_OWNER_CHECK(h1);
    *why = h1->why;
    if (bytes.len == 0)
        return BELFRY_OK;
    if (h1->current == NULL)
        return h1_fail(h1, BELFRY_ERR_PROTOCOL, "the server spoke without being asked");
    h1->body_end = NULL;
    h1->head_ended = false;
    return h1_judge(h1, llhttp_execute(&h1->parser, bytes.data, bytes.len), bytes);
}

void belfry_h1_finish(struct belfry_h1 *h1)
{
    BELFRY_OWNER_CHECK(h1);
    if (h1->current != NULL)
        (void)llhttp_finish(&h1->parser); /* a response that cannot end here is left as it is */
}

bool belfry_h1_forget(struct belfry_h1 *h1, const struct belfry_h2_stream *stream)
{
    BELFRY_OWNER_CHECK(h1);
    if (h1->current != stream)
        return false;
    h1->current = NULL;
    return true;
}

struct belfry_h2_stream *belfry_h1_current(const struct belfry_h1 *h1)
{
    return h1->current;
}
