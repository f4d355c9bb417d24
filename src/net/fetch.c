/* src/net/fetch.c */
#include "net/fetch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"

#define FIELD_OVERHEAD 32 /* RFC 9113, 6.5.2 */
#define INFORMATIONAL  16 /* 1xx before a response; one more, and the peer means no response at all */

/* A field in `text` is its lengths and then its bytes. */
struct field_lens {
    uint32_t name, value;
};
static_assert(BELFRY_FETCH_HEAD_BYTES < UINT32_MAX, "lengths fit");

struct belfry_fetch {
    struct belfry_http_call call;
    /* fixed at creation */
    struct belfry_fetch_events events;
    void *user;
    /* the head while it comes in, and until it is told */
    int status; /* 0: none yet, or one that HTTP does not know */
    struct belfry_buf text;
    size_t n_fields;
    struct belfry_http_field *fields; /* owned; pointing into `text` when the head is complete */
    unsigned n_informational;
    bool answered; /* the head is complete */
    bool head_due; /* and not told yet, because the call is held */
    BELFRY_OWNER;
};

static struct belfry_fetch *fetch_of(struct belfry_http_call *call)
{
    return belfry_container(call, struct belfry_fetch, call);
}

struct belfry_bytes belfry_fetch_find(const struct belfry_fetch_head *head, const char *name)
{
    struct belfry_bytes wanted = belfry_bytes_str(name);
    for (size_t i = 0; i < head->n_fields; i++) {
        if (belfry_bytes_equal(head->fields[i].name, wanted))
            return head->fields[i].value;
    }
    return (struct belfry_bytes){0};
}

/* ---- the head ---- */

/* Of three digits: nghttp2 and llhttp see to that. */
static int status_of(struct belfry_bytes value)
{
    int status = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.len != 3 || value.data[i] < '0' || value.data[i] > '9')
            return 0;
        status = status * 10 + (value.data[i] - '0');
    }
    return status;
}

static void forget_head(struct belfry_fetch *fetch)
{
    belfry_buf_fini(&fetch->text);
    free(fetch->fields);
    fetch->fields = NULL;
    fetch->n_fields = 0;
}

static enum belfry_err keep_field(struct belfry_fetch *fetch, struct belfry_bytes name, struct belfry_bytes value)
{
    struct field_lens lens = {(uint32_t)name.len, (uint32_t)value.len};
    size_t used = belfry_buf_len(&fetch->text) + fetch->n_fields * (FIELD_OVERHEAD - sizeof(lens));
    if (fetch->n_fields == BELFRY_FETCH_FIELDS || used > BELFRY_FETCH_HEAD_BYTES ||
        name.len + value.len > BELFRY_FETCH_HEAD_BYTES - used)
        return BELFRY_ERR_TOO_LARGE;
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(&fetch->text, sizeof(lens) + name.len + value.len, &to);
    if (err != BELFRY_OK)
        return err;
    memcpy(to, &lens, sizeof(lens));
    memcpy(to + sizeof(lens), name.data, name.len);
    if (value.len > 0)
        memcpy(to + sizeof(lens) + name.len, value.data, value.len);
    belfry_buf_grown(&fetch->text, sizeof(lens) + name.len + value.len);
    fetch->n_fields++;
    return BELFRY_OK;
}

static enum belfry_err on_field(struct belfry_http_call *call, struct belfry_bytes name, struct belfry_bytes value)
{
    struct belfry_fetch *fetch = fetch_of(call);
    if (fetch->answered)
        return BELFRY_OK;                      /* trailers are dropped */
    if (name.len > 0 && name.data[0] == ':') { /* no other than :status is allowed here */
        fetch->status = status_of(value);
        return BELFRY_OK;
    }
    enum belfry_err err = keep_field(fetch, name, value);
    if (err != BELFRY_ERR_TOO_LARGE)
        return err;
    belfry_http_call_break(call, err, "response headers over 64 KiB or 128 fields");
    return BELFRY_OK;
}

/* The head is complete: its fields, in the text that moves no more. Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err find_fields(struct belfry_fetch *fetch)
{
    fetch->fields = calloc(fetch->n_fields + 1, sizeof(*fetch->fields));
    if (fetch->fields == NULL)
        return BELFRY_ERR_NOMEM;
    const char *at = belfry_buf_bytes(&fetch->text).data;
    for (size_t i = 0; i < fetch->n_fields; i++) {
        struct field_lens lens;
        memcpy(&lens, at, sizeof(lens));
        at += sizeof(lens);
        fetch->fields[i] =
            (struct belfry_http_field){belfry_bytes_of(at, lens.name), belfry_bytes_of(at + lens.name, lens.value)};
        at += lens.name + lens.value;
    }
    return BELFRY_OK;
}

/* It is not kept longer than that. The call does not go while an event of it is running. */
static void tell_head(struct belfry_fetch *fetch)
{
    struct belfry_fetch_head head = {fetch->status, fetch->fields, fetch->n_fields};
    fetch->head_due = false;
    fetch->events.head(fetch, &head, fetch->user);
    forget_head(fetch);
}

static enum belfry_err on_block(struct belfry_http_call *call, bool last)
{
    struct belfry_fetch *fetch = fetch_of(call);
    if (fetch->answered || call->state != BELFRY_HTTP_CALL_RUNNING)
        return BELFRY_OK;
    if (fetch->status / 100 == 1 && !last) {
        forget_head(fetch);
        if (++fetch->n_informational > INFORMATIONAL)
            belfry_http_call_break(call, BELFRY_ERR_PROTOCOL, "informational responses without end");
        return BELFRY_OK;
    }
    if (fetch->status < 200 || fetch->status > 599) {
        belfry_http_call_break(call, BELFRY_ERR_PROTOCOL, "the response has a status that HTTP does not know");
        return BELFRY_OK;
    }
    enum belfry_err err = find_fields(fetch);
    if (err != BELFRY_OK)
        return err;
    fetch->answered = true;
    fetch->head_due = call->held;
    if (!call->held)
        tell_head(fetch);
    return BELFRY_OK;
}

/* ---- the body and the end ---- */

static void on_released(struct belfry_http_call *call)
{
    struct belfry_fetch *fetch = fetch_of(call);
    if (fetch->head_due)
        tell_head(fetch);
}

static enum belfry_err on_data(struct belfry_http_call *call, struct belfry_bytes *in)
{
    struct belfry_fetch *fetch = fetch_of(call);
    struct belfry_bytes bytes = *in;
    *in = (struct belfry_bytes){0};
    fetch->events.body(fetch, bytes, fetch->user);
    return BELFRY_OK;
}

static void on_closed(struct belfry_http_call *call, const struct belfry_http_end *end)
{
    struct belfry_fetch *fetch = fetch_of(call);
    char why[BELFRY_HTTP_WHY_BYTES * 2];
    bool reset = end->how == BELFRY_HTTP_RESET && end->err != BELFRY_ERR_TOO_LARGE;
    snprintf(why, sizeof(why), "%s%s", reset ? "the stream was reset: " : "", end->why);
    if (end->err == BELFRY_OK && !fetch->head_due)
        fetch->events.end(fetch, fetch->user);
    else if (end->err == BELFRY_OK) /* the end of what was never told is none */
        fetch->events.failed(fetch, BELFRY_ERR_UNAVAILABLE, "the connection was closed", false, fetch->user);
    else /* a server that answers has seen it, whatever it says */
        fetch->events.failed(fetch, end->err, why, end->unprocessed && !fetch->answered, fetch->user);
}

static void on_gone(struct belfry_http_call *call)
{
    struct belfry_fetch *fetch = fetch_of(call);
    forget_head(fetch);
    free(fetch);
}

static const struct belfry_http_events call_events = {
    .field = on_field,
    .block = on_block,
    .data = on_data,
    .released = on_released,
    .closed = on_closed,
    .gone = on_gone,
    .patient = true,
};

/* ---- opening ---- */

/* Escaped, as a line of HTTP/1.1 needs it. */
static bool is_escaped(const char *target)
{
    for (const char *c = target; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') /* char may be signed: bytes beyond ASCII are below zero, or above '~' */
            return false;
    }
    return true;
}

/* What belongs to the connection, and what would announce a body. */
static bool is_ours(struct belfry_bytes name)
{
    static const char *const ours[] = {"host",    "user-agent", "connection",        "keep-alive", "proxy-connection",
                                       "upgrade", "te",         "transfer-encoding", "trailer",    "content-length",
                                       "expect"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (name.len == strlen(ours[i]) && strncasecmp(name.data, ours[i], name.len) == 0)
            return true;
    }
    return false;
}

static bool is_allowed(const struct belfry_fetch_request *request)
{
    if (!is_escaped(request->target) || request->n_fields > BELFRY_HTTP_ASK_BYTES / FIELD_OVERHEAD)
        return false;
    for (size_t i = 0; i < request->n_fields; i++) {
        if (is_ours(request->fields[i].name) || !belfry_http_is_value(request->fields[i].value))
            return false;
    }
    return true;
}

static enum belfry_err make_ask(const struct belfry_http *http, const struct belfry_fetch_request *request,
                                struct belfry_http_ask **out)
{
    const char *user_agent = belfry_http_common(http)->user_agent;
    struct belfry_http_field agent = {belfry_bytes_str("user-agent"),
                                      belfry_bytes_str(user_agent != NULL ? user_agent : "")};
    struct belfry_http_ask_opts opts = {.method = belfry_bytes_str(request->method),
                                        .target = belfry_bytes_str(request->target),
                                        .fields = &agent,
                                        .n_fields = user_agent != NULL,
                                        .more = request->fields,
                                        .n_more = request->n_fields};
    return is_allowed(request) ? belfry_http_ask_create(&opts, out) : BELFRY_ERR_INVALID;
}

enum belfry_err belfry_fetch_open(struct belfry_http *http, const struct belfry_fetch_request *request,
                                  const struct belfry_fetch_events *events, void *user, struct belfry_fetch **out)
{
    struct belfry_http_ask *ask;
    struct belfry_fetch *fetch = calloc(1, sizeof(*fetch));
    if (fetch == NULL)
        return BELFRY_ERR_NOMEM;
    fetch->events = *events;
    fetch->user = user;
    enum belfry_err err = make_ask(http, request, &ask);
    if (err == BELFRY_OK)
        err = belfry_http_call_open(http, &fetch->call, ask, BELFRY_NEVER, &call_events);
    if (err != BELFRY_OK) {
        free(fetch);
        return err;
    }
    BELFRY_OWNER_INIT(fetch);
    *out = fetch;
    return BELFRY_OK;
}

void belfry_fetch_cancel(struct belfry_fetch *fetch)
{
    BELFRY_OWNER_CHECK(fetch);
    belfry_http_call_cancel(&fetch->call);
}

void belfry_fetch_hold(struct belfry_fetch *fetch, bool hold)
{
    BELFRY_OWNER_CHECK(fetch);
    belfry_http_call_hold(&fetch->call, hold);
}
