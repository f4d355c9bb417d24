/* fuzz/grpc.c: what a server says on one call: header fields, message bytes, trailers, resets.
 *
 * The input is a list of steps that an honest HTTP/2 server, made of nghttp2, turns into frames, so that the fuzzer
 * spends itself on gRPC and not on HPACK. Byte streams that are no HTTP/2 are fuzz/h2.c's.
 *
 *     step = kind (1 byte), length (1 byte), that many bytes
 *
 * What came out is checked against what went in: no message without its bytes, one end, a code that exists.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/grpc.h"

#define MESSAGE_MAX (256 * 1024)
#define N_FIELDS    16

enum kind {
    FIELD,   /* "name\0value", into the header block that is being put together */
    HEADERS, /* the block goes as response headers (or 1xx), body to follow */
    LAST,    /* the block goes and ends the stream */
    BODY,    /* bytes as they are */
    MESSAGE, /* one frame: the first byte is the flag */
    REPEAT,  /* the body bytes so far once more: long messages from short inputs */
    RESET,   /* RST_STREAM, code in the first byte */
    HOLD,    /* ... or release, or wait and tick, by the first byte */
    N_KINDS
};

struct fuzz {
    struct belfry_http *grpc;
    struct belfry_grpc_call *call; /* NULL when it has ended */
    nghttp2_session *server;
    struct belfry_buf body; /* not sent yet */
    bool body_ended;        /* no more DATA may be asked for */
    bool responded;
    nghttp2_nv fields[N_FIELDS];
    size_t n_fields;
    uint64_t now_ms;
    size_t n_closed;
};

static struct fuzz fuzz;

static void expect(bool truth)
{
    if (!truth)
        abort();
}

static void on_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    (void)user;
    expect(call == fuzz.call && belfry_blob_len(message) <= MESSAGE_MAX);
}

static void on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    (void)user;
    expect(call == fuzz.call && fuzz.n_closed++ == 0);
    expect(status->code >= 0 && status->code <= 16);
    expect(strlen(status->message) < 256 * 1024);
    fuzz.call = NULL;
}

static ssize_t server_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                           nghttp2_data_source *source, void *user)
{
    (void)session, (void)id, (void)source, (void)user;
    size_t n = belfry_buf_len(&fuzz.body) < cap ? belfry_buf_len(&fuzz.body) : cap;
    if (n > 0)
        memcpy(to, belfry_buf_bytes(&fuzz.body).data, n);
    belfry_buf_take(&fuzz.body, n);
    if (fuzz.body_ended && belfry_buf_len(&fuzz.body) == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    else if (n == 0)
        return NGHTTP2_ERR_DEFERRED;
    return (ssize_t)n;
}

/* Carries bytes both ways until neither has any. */
static void pump(void)
{
    for (ssize_t n = 1; n > 0;) {
        struct belfry_bytes out = {NULL, 1};
        while (out.len > 0 && belfry_http_pull(fuzz.grpc, fuzz.now_ms, &out) == BELFRY_OK)
            expect(nghttp2_session_mem_recv(fuzz.server, (const uint8_t *)out.data, out.len) == (ssize_t)out.len);
        const uint8_t *data;
        n = nghttp2_session_mem_send(fuzz.server, &data);
        for (ssize_t at = 0, piece; at < n; at += piece) {
            piece = n - at < 1000 ? n - at : 1000;
            belfry_ignore(belfry_http_receive(fuzz.grpc, belfry_bytes_of(data + at, (size_t)piece), fuzz.now_ms));
        }
    }
}

static void add_field(struct belfry_bytes in)
{
    const char *end = in.len > 0 ? memchr(in.data, '\0', in.len) : NULL;
    if (end == NULL || fuzz.n_fields == N_FIELDS)
        return;
    size_t name_len = (size_t)(end - in.data);
    fuzz.fields[fuzz.n_fields++] = (nghttp2_nv){(uint8_t *)(uintptr_t)in.data, (uint8_t *)(uintptr_t)(end + 1),
                                                name_len, in.len - name_len - 1, NGHTTP2_NV_FLAG_NONE};
}

static bool is_informational(void)
{
    return fuzz.n_fields > 0 && fuzz.fields[0].valuelen == 3 && fuzz.fields[0].value[0] == '1';
}

static void send_block(bool last)
{
    uint8_t flags = last ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
    if (!fuzz.responded && !last && !is_informational()) {
        nghttp2_data_provider body = {.read_callback = server_read};
        fuzz.responded = nghttp2_submit_response(fuzz.server, 1, fuzz.fields, fuzz.n_fields, &body) == 0;
    } else {
        fuzz.body_ended = fuzz.body_ended || last;
        nghttp2_session_resume_data(fuzz.server, 1);
        pump();
        (void)!nghttp2_submit_headers(fuzz.server, flags, 1, NULL, fuzz.fields, fuzz.n_fields, NULL);
    }
    fuzz.n_fields = 0;
}

static void add_body(struct belfry_bytes bytes)
{
    if (belfry_buf_len(&fuzz.body) + bytes.len <= 2 * MESSAGE_MAX)
        expect(belfry_buf_append(&fuzz.body, bytes.data, bytes.len) == BELFRY_OK);
}

static void add_message(struct belfry_bytes in)
{
    if (in.len == 0)
        return;
    char prefix[5] = {in.data[0], 0, 0, 0, (char)(in.len - 1)};
    add_body(belfry_bytes_of(prefix, 5));
    add_body(belfry_bytes_of(in.data + 1, in.len - 1));
}

static void repeat_body(void)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&fuzz.body);
    if (bytes.len == 0 || bytes.len > MESSAGE_MAX)
        return;
    uint8_t *to;
    expect(belfry_buf_reserve(&fuzz.body, bytes.len, &to) == BELFRY_OK);
    memcpy(to, belfry_buf_bytes(&fuzz.body).data, bytes.len); /* it may have moved */
    belfry_buf_grown(&fuzz.body, bytes.len);
}

static void act_on_call(uint8_t what)
{
    if (fuzz.call != NULL && what % 4 == 2)
        belfry_grpc_call_half_close(fuzz.call);
    fuzz.now_ms += what;
    belfry_ignore(belfry_http_tick(fuzz.grpc, fuzz.now_ms));
}

static void step(enum kind kind, struct belfry_bytes in)
{
    switch (kind) {
    case FIELD:
        add_field(in);
        return;
    case HEADERS:
    case LAST:
        send_block(kind == LAST);
        break;
    case BODY:
        add_body(in);
        break;
    case MESSAGE:
        add_message(in);
        break;
    case REPEAT:
        repeat_body();
        break;
    case RESET:
        (void)!nghttp2_submit_rst_stream(fuzz.server, 0, 1, in.len > 0 ? (uint8_t)in.data[0] : 0);
        break;
    case HOLD:
        act_on_call(in.len > 0 ? (uint8_t)in.data[0] : 0);
        break;
    case N_KINDS:
        break;
    }
    if (kind != BODY && kind != MESSAGE && kind != REPEAT) { /* those gather, so that frames hold several */
        nghttp2_session_resume_data(fuzz.server, 1);
        pump();
    }
}

static void begin(void)
{
    static const struct belfry_grpc_opts opts = {.scheme = "http",
                                                 .authority = "127.0.0.1:2379",
                                                 .user_agent = "fuzz",
                                                 .keepalive_ms = 10000,
                                                 .keepalive_timeout_ms = 5000,
                                                 .max_message_bytes = MESSAGE_MAX};
    static const struct belfry_grpc_events events = {on_message, on_closed};
    static const struct belfry_grpc_call_opts call_opts = {.path = "/s/m", .deadline_ms = 50000};
    fuzz = (struct fuzz){.now_ms = 1};
    nghttp2_session_callbacks *callbacks;
    expect(nghttp2_session_callbacks_new(&callbacks) == 0);
    expect(nghttp2_session_server_new(&fuzz.server, callbacks, NULL) == 0);
    nghttp2_session_callbacks_del(callbacks);
    expect(nghttp2_submit_settings(fuzz.server, 0, NULL, 0) == 0);
    expect(belfry_grpc_connect(&opts, fuzz.now_ms, &fuzz.grpc) == BELFRY_OK);
    expect(belfry_grpc_call_open(fuzz.grpc, &call_opts, &events, NULL, &fuzz.call) == BELFRY_OK);
    expect(belfry_grpc_call_send(fuzz.call, belfry_bytes_str("ask")) == BELFRY_OK);
    pump();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    for (size_t at = 0; at + 2 <= size;) {
        enum kind kind = (enum kind)(data[at] % N_KINDS);
        size_t n = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        step(kind, belfry_bytes_of(data + at + 2, n));
        at += 2 + n;
    }
    pump();
    belfry_http_destroy(fuzz.grpc);
    expect(fuzz.call == NULL && fuzz.n_closed == 1);
    nghttp2_session_del(fuzz.server);
    belfry_buf_fini(&fuzz.body);
    return 0;
}
