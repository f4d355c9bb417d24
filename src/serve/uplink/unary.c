/* src/serve/uplink/unary.c */
#include "serve/uplink/unary.h"

#include <assert.h>
#include <stdlib.h>

#include "base/owner.h"
#include "net/grpc_frame.h"
#include "net/grpc_head.h"
#include "net/grpc_reply.h"

#define N_OWN 4 /* fields that every question has */

struct unary {
    /* fixed at creation */
    struct uplink_call *call;
    const char *keeps; /* NULL: none */
    unary_fn fn;
    void *user;
    /* owner */
    unsigned pin;
    struct belfry_buf out; /* the question, framed; taken as it is sent */
    struct belfry_grpc_reply reply;
    struct belfry_buf in; /* the answer so far, framed */
    struct belfry_bytes kept;
    char kept_text[UNARY_KEPT];
    bool too_long, starved;
    BELFRY_OWNER;
};

static void free_unary(struct unary *unary)
{
    struct belfry_bytes left = belfry_buf_bytes(&unary->out);
    if (left.len > 0)
        explicit_bzero(unary->out.data + unary->out.start, left.len);
    belfry_buf_fini(&unary->out);
    belfry_buf_fini(&unary->in);
    belfry_grpc_reply_fini(&unary->reply);
    free(unary);
}

/* The answer's one message, if that is what came. */
static struct belfry_bytes body_of(const struct unary *unary)
{
    struct belfry_bytes in = belfry_buf_bytes(&unary->in);
    const uint8_t *p = (const uint8_t *)in.data;
    if (unary->too_long || in.len < BELFRY_GRPC_PREFIX_BYTES || p[0] != 0)
        return (struct belfry_bytes){0};
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (len != in.len - BELFRY_GRPC_PREFIX_BYTES)
        return (struct belfry_bytes){0};
    return belfry_bytes_of(p + BELFRY_GRPC_PREFIX_BYTES, len);
}

static void answer(struct unary *unary, const struct unary_answer *with)
{
    unary->fn(with, unary->user);
    free_unary(unary);
}

/* The response is complete. */
static void conclude(struct unary *unary)
{
    const struct belfry_grpc_reply *reply = &unary->reply;
    uplink_close(unary->call);
    struct unary_answer with = {
        .code = reply->code, .judged = true, .message = "", .body = body_of(unary), .kept = unary->kept};
    if (reply->message != NULL)
        with.message = reply->message;
    if (unary->starved) {
        with = (struct unary_answer){.code = BELFRY_GRPC_UNAVAILABLE, .message = belfry_strerror(BELFRY_ERR_NOMEM)};
    } else if (reply->code < 0 || reply->code_malformed) {
        with.code = reply->code_malformed ? BELFRY_GRPC_UNKNOWN : belfry_grpc_code_of_http(reply->http_status);
        with.judged = false;
    }
    answer(unary, &with);
}

static void unary_keep(struct unary *unary, struct belfry_bytes value)
{
    bool fits = unary->kept.data == NULL && value.len <= UNARY_KEPT;
    unary->kept = belfry_bytes_of(unary->kept_text, fits ? value.len : 0);
    memcpy(unary->kept_text, value.data, unary->kept.len);
}

static void on_field(struct uplink_call *call, struct belfry_bytes name, struct belfry_bytes value, void *user)
{
    struct unary *unary = user;
    (void)call;
    if (unary->keeps != NULL && belfry_bytes_equal(name, belfry_bytes_str(unary->keeps)))
        unary_keep(unary, value);
    if (belfry_grpc_reply_field(&unary->reply, name, value) != BELFRY_OK)
        unary->starved = true;
}

static void on_block(struct uplink_call *call, bool last, void *user)
{
    (void)call;
    if (last)
        conclude(user);
}

static void on_data(struct uplink_call *call, struct belfry_bytes bytes, void *user)
{
    struct unary *unary = user;
    uplink_taken(call, bytes.len);
    unary->too_long = unary->too_long || belfry_buf_len(&unary->in) + bytes.len > UNARY_BYTES;
    if (!unary->too_long && belfry_buf_append(&unary->in, bytes.data, bytes.len) != BELFRY_OK)
        unary->starved = true;
}

static void on_end(struct uplink_call *call, void *user)
{
    (void)call;
    conclude(user);
}

static size_t on_read(struct uplink_call *call, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    struct unary *unary = user;
    struct belfry_bytes left = belfry_buf_bytes(&unary->out);
    (void)call;
    size_t n = left.len < cap ? left.len : cap;
    if (n > 0)
        memcpy(to, left.data, n);
    belfry_buf_take(&unary->out, n);
    *out_end = n == left.len;
    return n;
}

static void on_closed(struct uplink_call *call, const struct uplink_end *end, void *user)
{
    (void)call;
    int code = end->lost ? BELFRY_GRPC_UNAVAILABLE : belfry_grpc_code_of_h2(end->h2_code);
    answer(user, &(struct unary_answer){.code = code, .message = end->why});
}

static const struct uplink_events events = {
    .field = on_field, .block = on_block, .data = on_data, .end = on_end, .read = on_read, .closed = on_closed};

static enum belfry_err open_call(struct unary *unary, const struct unary_opts *opts)
{
    char timeout[BELFRY_GRPC_TIMEOUT_BYTES];
    belfry_grpc_timeout(opts->timeout_ms, timeout);
    struct belfry_http_field fields[N_OWN + UNARY_FIELDS] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str("application/grpc")},
        {belfry_bytes_str("te"), belfry_bytes_str("trailers")},
        {belfry_bytes_str("user-agent"), belfry_bytes_str("belfryd")},
        {belfry_bytes_str("grpc-timeout"), belfry_bytes_str(timeout)}};
    assert(opts->n_fields <= UNARY_FIELDS);
    for (size_t i = 0; i < opts->n_fields; i++)
        fields[N_OWN + i] = opts->fields[i];
    struct uplink_request request = {.path = belfry_bytes_str(opts->path),
                                     .fields = fields,
                                     .n_fields = N_OWN + opts->n_fields,
                                     .caller = opts->caller};
    return uplink_open(opts->uplink, &unary->pin, &request, &events, unary, &unary->call);
}

enum belfry_err unary_open(const struct unary_opts *opts, struct unary **out)
{
    struct unary *unary = calloc(1, sizeof(*unary));
    if (unary == NULL)
        return BELFRY_ERR_NOMEM;
    unary->keeps = opts->keeps;
    unary->fn = opts->fn;
    unary->user = opts->user;
    unary->pin = opts->pin;
    belfry_grpc_reply_init(&unary->reply);
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    belfry_grpc_frame_prefix(prefix, opts->message.len);
    enum belfry_err err = belfry_buf_append(&unary->out, prefix, sizeof(prefix));
    if (err == BELFRY_OK)
        err = belfry_buf_append(&unary->out, opts->message.data, opts->message.len);
    if (err == BELFRY_OK)
        err = open_call(unary, opts);
    if (err != BELFRY_OK) {
        free_unary(unary);
        return err;
    }
    BELFRY_OWNER_INIT(unary);
    *out = unary;
    return BELFRY_OK;
}

void unary_cancel(struct unary *unary)
{
    if (unary == NULL)
        return;
    BELFRY_OWNER_CHECK(unary);
    uplink_close(unary->call);
    free_unary(unary);
}

unsigned unary_pin(const struct unary *unary)
{
    return unary->pin;
}
