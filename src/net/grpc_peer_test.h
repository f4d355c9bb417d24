/* src/net/grpc_peer_test.h
 *
 * The other end for the suites of net/grpc.h: a server made of nghttp2, told by the test what to say, and the wire
 * between the two, which can cut what it carries anywhere. Everything is static: each suite has its own copy.
 */
#ifndef BELFRY_NET_GRPC_PEER_TEST_H
#define BELFRY_NET_GRPC_PEER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "net/grpc.h"

#define N_STREAMS   64 /* streams that the peer remembers, by (id - 1) / 2 */
#define MAX_MESSAGE (8 * 1024 * 1024)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

/* ---- the peer ---- */

struct peer_stream {
    char *head;                /* "name: value\n" of every request field; "" before any */
    uint8_t *data;             /* request body */
    size_t head_len, data_len; /* from the C library: the suites count what our own code holds */
    bool ended, closed;
    uint32_t reset; /* code of the RST_STREAM that came; UINT32_MAX: none */
    uint8_t *reply; /* response body yet to be sent */
    size_t reply_len, reply_at;
    bool reply_end;             /* after `reply` comes the end ... */
    const char *code, *message; /* ... with these trailers, unless code is NULL */
};

struct peer {
    nghttp2_session *session;
    struct peer_stream streams[N_STREAMS];
    size_t n_requests, n_pings, n_goaways;
    uint32_t goaway_code;
};

static struct peer_stream *peer_stream(struct peer *peer, int32_t id)
{
    assert_true(id > 0 && (id - 1) / 2 < N_STREAMS);
    return &peer->streams[(id - 1) / 2];
}

/* Plain realloc, out of reach of the allocator that refuses. */
void *__real_realloc(void *ptr, size_t size);
void __real_free(void *ptr);

/* What is reserved for `len` bytes and a NUL: a power of two, so that it need not be remembered. */
static size_t reserved_for(size_t len)
{
    size_t power = 64;
    while (power < len + 1)
        power *= 2;
    return power;
}

static void grow(uint8_t **data, size_t *len, const void *more, size_t n)
{
    if (*data == NULL || reserved_for(*len + n) != reserved_for(*len))
        *data = __real_realloc(*data, reserved_for(*len + n));
    assert_non_null(*data);
    if (n > 0)
        memcpy(*data + *len, more, n);
    *len += n;
    (*data)[*len] = '\0';
}

static int peer_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                          const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    (void)session;
    (void)flags;
    struct peer_stream *s = peer_stream(user, frame->hd.stream_id);
    uint8_t *head = (uint8_t *)s->head;
    grow(&head, &s->head_len, name, name_len);
    grow(&head, &s->head_len, ": ", 2);
    grow(&head, &s->head_len, value, value_len);
    grow(&head, &s->head_len, "\n", 1);
    s->head = (char *)head;
    return 0;
}

static int peer_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                        void *user)
{
    (void)session;
    (void)flags;
    struct peer_stream *s = peer_stream(user, id);
    grow(&s->data, &s->data_len, data, len);
    return 0;
}

static int peer_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct peer *peer = user;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
        peer->n_pings++;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        peer->n_goaways++;
        peer->goaway_code = frame->goaway.error_code;
    }
    if (frame->hd.type == NGHTTP2_HEADERS)
        peer->n_requests++;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        peer_stream(peer, frame->hd.stream_id)->reset = frame->rst_stream.error_code;
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        peer_stream(peer, frame->hd.stream_id)->ended = true;
    return 0;
}

static int peer_on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    (void)session;
    (void)code;
    peer_stream(user, id)->closed = true;
    return 0;
}

static void peer_init_with(struct peer *peer, const nghttp2_settings_entry *settings, size_t n_settings)
{
    *peer = (struct peer){0};
    for (size_t i = 0; i < N_STREAMS; i++)
        peer->streams[i].reset = UINT32_MAX;
    nghttp2_session_callbacks *callbacks;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, peer_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, peer_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, peer_on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, peer_on_close);
    assert_int_equal(nghttp2_session_server_new(&peer->session, callbacks, peer), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(peer->session, 0, settings, n_settings), 0);
}

static void peer_fini(struct peer *peer)
{
    nghttp2_session_del(peer->session);
    for (size_t i = 0; i < N_STREAMS; i++) {
        __real_free(peer->streams[i].head);
        __real_free(peer->streams[i].data);
        __real_free(peer->streams[i].reply);
    }
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

static ssize_t peer_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    (void)source;
    struct peer_stream *s = peer_stream(user, id);
    size_t n = s->reply_len - s->reply_at < cap ? s->reply_len - s->reply_at : cap;
    if (n > 0)
        memcpy(to, s->reply + s->reply_at, n);
    s->reply_at += n;
    if (s->reply_at < s->reply_len)
        return (ssize_t)n;
    if (!s->reply_end)
        return n == 0 ? NGHTTP2_ERR_DEFERRED : (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (s->code != NULL) {
        nghttp2_nv nv[] = {field("grpc-status", s->code), field("grpc-message", s->message != NULL ? s->message : "")};
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, id, nv, s->message != NULL ? 2 : 1);
    }
    return (ssize_t)n;
}

/* Response headers, with a body to come from peer_send() and peer_end(). */
static void peer_respond(struct peer *peer, int32_t id, const nghttp2_nv *nv, size_t n)
{
    nghttp2_data_provider body = {.read_callback = peer_read};
    assert_int_equal(nghttp2_submit_response(peer->session, id, nv, n, &body), 0);
}

static void peer_respond_grpc(struct peer *peer, int32_t id)
{
    nghttp2_nv nv[] = {field(":status", "200"), field("content-type", "application/grpc")};
    peer_respond(peer, id, nv, 2);
}

/* Headers that are the whole response. */
static void peer_respond_only(struct peer *peer, int32_t id, const nghttp2_nv *nv, size_t n)
{
    assert_int_equal(nghttp2_submit_response(peer->session, id, nv, n, NULL), 0);
}

static void peer_send(struct peer *peer, int32_t id, const void *data, size_t len)
{
    struct peer_stream *s = peer_stream(peer, id);
    grow(&s->reply, &s->reply_len, data, len);
    nghttp2_session_resume_data(peer->session, id);
}

/* One message, framed. */
static void peer_message(struct peer *peer, int32_t id, uint8_t flag, const void *data, size_t len)
{
    uint8_t prefix[5] = {flag, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    peer_send(peer, id, prefix, 5);
    peer_send(peer, id, data, len);
}

/* The end of the body: with trailers, or without if `code` is NULL. */
static void peer_end(struct peer *peer, int32_t id, const char *code, const char *message)
{
    struct peer_stream *s = peer_stream(peer, id);
    s->reply_end = true;
    s->code = code;
    s->message = message;
    nghttp2_session_resume_data(peer->session, id);
}

static bool peer_has_field(struct peer *peer, int32_t id, const char *line)
{
    const char *head = peer_stream(peer, id)->head;
    return head != NULL && strstr(head, line) != NULL;
}

/* ---- what a call saw ---- */

struct seen {
    size_t n_messages, n_bytes, n_closed;
    char first[64]; /* of the first message */
    char last[64];
    int code;
    char message[512];
    bool from_server, unprocessed;
    /* what to do from inside the callbacks; may be NULL */
    void (*on_message)(struct belfry_grpc_call *call, struct seen *seen);
    void (*on_closed)(struct belfry_grpc_call *call, struct seen *seen);
};

static void keep_text(char to[64], struct belfry_bytes bytes)
{
    size_t n = bytes.len < 63 ? bytes.len : 63;
    if (n > 0)
        memcpy(to, bytes.data, n);
    to[n] = '\0';
}

static void saw_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    struct seen *seen = user;
    assert_int_equal(seen->n_closed, 0);
    if (seen->n_messages++ == 0)
        keep_text(seen->first, belfry_blob_bytes(message));
    keep_text(seen->last, belfry_blob_bytes(message));
    seen->n_bytes += belfry_blob_len(message);
    if (seen->on_message != NULL)
        seen->on_message(call, seen);
}

static void saw_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct seen *seen = user;
    assert_int_equal(seen->n_closed++, 0);
    seen->code = status->code;
    snprintf(seen->message, sizeof(seen->message), "%s", status->message);
    seen->from_server = status->from_server;
    seen->unprocessed = status->unprocessed;
    if (seen->on_closed != NULL)
        seen->on_closed(call, seen);
}

static const struct belfry_grpc_events seen_events = {saw_message, saw_closed};

/* ---- both, and the wire ---- */

enum cuts { WHOLE, SINGLE_BYTES, RANDOM_CUTS };

struct pair {
    struct peer peer;
    struct belfry_http *grpc;
    uint64_t now_ms;
    enum cuts cuts;
    struct belfry_rng rng;
};

static const struct belfry_grpc_opts pair_opts = {.scheme = "http",
                                                  .authority = "127.0.0.1:2379",
                                                  .user_agent = "belfry-test/1",
                                                  .max_message_bytes = MAX_MESSAGE,
                                                  .keepalive_ms = 10000,
                                                  .keepalive_timeout_ms = 3000};

static void pair_init_with(struct pair *pair, const nghttp2_settings_entry *settings, size_t n_settings)
{
    *pair = (struct pair){.now_ms = 1000};
    peer_init_with(&pair->peer, settings, n_settings);
    assert_int_equal(belfry_grpc_connect(&pair_opts, pair->now_ms, &pair->grpc), BELFRY_OK);
}

static void pair_init(struct pair *pair)
{
    pair_init_with(pair, NULL, 0);
}

static void pair_fini(struct pair *pair)
{
    belfry_http_destroy(pair->grpc);
    peer_fini(&pair->peer);
}

static size_t cut(struct pair *pair, size_t len)
{
    if (pair->cuts == WHOLE || len <= 1)
        return len;
    if (pair->cuts == SINGLE_BYTES)
        return 1;
    size_t n = 1 + (size_t)belfry_rng_below(&pair->rng, belfry_rng_below(&pair->rng, 4) == 0 ? len : 16);
    return n < len ? n : len;
}

static enum belfry_err to_us(struct pair *pair, const void *data, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = cut(pair, len - at);
        /* A copy of its own, so that reading past a cut is seen. */
        uint8_t *piece = malloc(n);
        if (piece == NULL)
            return BELFRY_ERR_NOMEM;
        memcpy(piece, (const uint8_t *)data + at, n);
        enum belfry_err err = belfry_http_receive(pair->grpc, belfry_bytes_of(piece, n), pair->now_ms);
        free(piece);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

static enum belfry_err pull_once(struct pair *pair, size_t *out_n)
{
    struct belfry_bytes out;
    enum belfry_err err = belfry_http_pull(pair->grpc, pair->now_ms, &out);
    if (err != BELFRY_OK)
        return err;
    assert_true(nghttp2_session_mem_recv(pair->peer.session, (const uint8_t *)out.data, out.len) == (ssize_t)out.len);
    *out_n = out.len;
    return BELFRY_OK;
}

/* Everything we want to send reaches the peer. */
static enum belfry_err pump_out(struct pair *pair)
{
    for (;;) {
        bool wanted = belfry_http_wants_write(pair->grpc);
        size_t n = 0;
        enum belfry_err err = pull_once(pair, &n);
        if (err != BELFRY_OK)
            return err;
        if (!wanted)
            assert_int_equal(n, 0);
        if (n == 0)
            return BELFRY_OK;
    }
}

/* Carries bytes both ways until neither has any. */
static enum belfry_err pump(struct pair *pair)
{
    for (;;) {
        enum belfry_err err = pump_out(pair);
        if (err != BELFRY_OK)
            return err;
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(pair->peer.session, &data);
        assert_true(n >= 0);
        if (n == 0)
            return BELFRY_OK;
        err = to_us(pair, data, (size_t)n);
        if (err != BELFRY_OK)
            return err;
    }
}

#define assert_pumps(pair) assert_int_equal(pump(pair), BELFRY_OK)

/* Opens a call with no deadline. */
static struct belfry_grpc_call *open_call(struct pair *pair, struct seen *seen)
{
    struct belfry_grpc_call_opts opts = {.path = "/etcdserverpb.KV/Range", .deadline_ms = BELFRY_NEVER};
    struct belfry_grpc_call *call = NULL;
    assert_int_equal(belfry_grpc_call_open(pair->grpc, &opts, &seen_events, seen, &call), BELFRY_OK);
    return call;
}

/* A call with one request message, half-closed, that has reached the peer. */
static struct belfry_grpc_call *start_unary(struct pair *pair, struct seen *seen)
{
    struct belfry_grpc_call *call = open_call(pair, seen);
    assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("ask")), BELFRY_OK);
    belfry_grpc_call_half_close(call);
    assert_pumps(pair);
    return call;
}

/* Raw bytes of one HTTP/2 frame from the peer, for what no honest server sends. */
static enum belfry_err raw_frame(struct pair *pair, uint8_t type, uint8_t flags, int32_t id, const void *payload,
                                 size_t len)
{
    uint8_t head[9] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
                       (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    enum belfry_err err = to_us(pair, head, sizeof(head));
    return err == BELFRY_OK && len > 0 ? to_us(pair, payload, len) : err;
}

#pragma GCC diagnostic pop

#endif
