/* src/server/h2_server_test.c: the server side of HTTP/2, with nghttp2 as its client, in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "base/rng.h"
#include "server/h2_server.h"
#include "support/refuse.h"

#define N_STREAMS 1200
#define TEXT      512
#define CLIENT_ID ((uint64_t)42)

/* ---- the client ---- */

struct stream { /* as the client sees it; by (id - 1) / 2 */
    char head[TEXT], trailers[TEXT];
    size_t n_data;
    bool wrong; /* a byte of the body was not the pattern's */
    bool ended, closed;
    uint32_t reset; /* UINT32_MAX: none */
    size_t to_send; /* of its request's body */
    bool to_end;
    bool stalled; /* nothing of what came is given back to its window */
};

struct client {
    nghttp2_session *session;
    struct stream streams[N_STREAMS];
    char order[TEXT]; /* "H1 D1 T1 R1 G ..." as frames came */
    size_t n_data_frames, n_empty_frames, n_goaways, n_pings, n_ping_acks, longest;
    uint32_t goaway_code;
    int32_t goaway_last;
    uint32_t settings[8]; /* by id; UINT32_MAX: not announced */
};

static uint8_t pattern(size_t at)
{
    return (uint8_t)(at * 7 + at / 251);
}

static struct stream *stream_at(struct client *client, int32_t id)
{
    assert_true(id > 0 && (id - 1) / 2 < N_STREAMS);
    return &client->streams[(id - 1) / 2];
}

static void put_text(char to[TEXT], const char *text)
{
    size_t n = strlen(to);
    snprintf(to + n, TEXT - n, "%s", text);
}

static void put_order(struct client *client, char what, int32_t id)
{
    char text[16];
    snprintf(text, sizeof(text), "%c%d ", what, (int)id);
    put_text(client->order, text);
}

static int client_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                            const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    (void)session, (void)flags;
    struct stream *s = stream_at(user, frame->hd.stream_id);
    char line[TEXT];
    snprintf(line, sizeof(line), "%.*s: %.*s\n", (int)name_len, (const char *)name, (int)value_len,
             (const char *)value);
    put_text(frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? s->head : s->trailers, line);
    return 0;
}

static int client_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                          void *user)
{
    (void)flags;
    struct stream *s = stream_at(user, id);
    for (size_t i = 0; i < len; i++)
        s->wrong = s->wrong || data[i] != pattern(s->n_data + i);
    s->n_data += len;
    if (!s->stalled)
        assert_int_equal(nghttp2_session_consume(session, id, len), 0);
    return 0;
}

static void client_on_settings(struct client *client, const nghttp2_frame *frame)
{
    for (size_t i = 0; i < frame->settings.niv; i++) {
        assert_true(frame->settings.iv[i].settings_id < 8);
        client->settings[frame->settings.iv[i].settings_id] = frame->settings.iv[i].value;
    }
}

static int client_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct client *client = user;
    int32_t id = frame->hd.stream_id;
    bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    client->longest = frame->hd.length > client->longest ? frame->hd.length : client->longest;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        put_order(client, frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? 'H' : 'T', id);
        stream_at(client, id)->ended |= ends;
        break;
    case NGHTTP2_DATA:
        put_order(client, 'D', id);
        client->n_data_frames++;
        client->n_empty_frames += frame->hd.length == 0;
        stream_at(client, id)->ended |= ends;
        break;
    case NGHTTP2_RST_STREAM:
        put_order(client, 'R', id);
        stream_at(client, id)->reset = frame->rst_stream.error_code;
        break;
    case NGHTTP2_SETTINGS:
        client_on_settings(client, frame);
        break;
    case NGHTTP2_PING:
        put_order(client, 'P', 0);
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
            client->n_ping_acks++;
        else
            client->n_pings++;
        break;
    case NGHTTP2_GOAWAY:
        put_order(client, 'G', 0);
        client->n_goaways++;
        client->goaway_code = frame->goaway.error_code;
        client->goaway_last = frame->goaway.last_stream_id;
        break;
    }
    return 0;
}

static int client_on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    (void)session, (void)code;
    stream_at(user, id)->closed = true;
    return 0;
}

static ssize_t client_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                           nghttp2_data_source *source, void *user)
{
    (void)session, (void)source;
    struct stream *s = stream_at(user, id);
    size_t n = s->to_send < cap ? s->to_send : cap;
    memset(to, 'b', n);
    s->to_send -= n;
    if (s->to_send == 0 && s->to_end)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return n == 0 && !s->to_end ? NGHTTP2_ERR_DEFERRED : (ssize_t)n;
}

static void client_init(struct client *client, int32_t stream_window)
{
    memset(client, 0, sizeof(*client));
    memset(client->settings, 0xff, sizeof(client->settings));
    for (size_t i = 0; i < N_STREAMS; i++)
        client->streams[i].reset = UINT32_MAX;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, (size_t)1 << 20);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, client_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, client_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, client_on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, client_on_close);
    assert_int_equal(nghttp2_session_client_new2(&client->session, callbacks, client, option), 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)stream_window};
    assert_int_equal(nghttp2_submit_settings(client->session, 0, &entry, 1), 0);
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

static const nghttp2_data_provider client_body = {.read_callback = client_read};

/* A request whose body comes from client_send() and client_end(). */
static int32_t client_open(struct client *client, const char *path)
{
    nghttp2_nv nv[] = {field(":method", "POST"), field(":scheme", "http"), field(":path", path),
                       field(":authority", "h:1"), field("te", "trailers")};
    int32_t id = nghttp2_submit_request(client->session, NULL, nv, 5, &client_body, NULL);
    assert_true(id > 0);
    return id;
}

/* A request that is complete. */
static int32_t client_get(struct client *client, const char *path)
{
    nghttp2_nv nv[] = {field(":method", "GET"), field(":scheme", "http"), field(":path", path),
                       field(":authority", "h:1")};
    int32_t id = nghttp2_submit_request(client->session, NULL, nv, 4, NULL, NULL);
    assert_true(id > 0);
    return id;
}

static void client_send(struct client *client, int32_t id, size_t n)
{
    stream_at(client, id)->to_send += n;
    nghttp2_session_resume_data(client->session, id);
}

static void client_end(struct client *client, int32_t id)
{
    stream_at(client, id)->to_end = true;
    nghttp2_session_resume_data(client->session, id);
}

static void client_reset(struct client *client, int32_t id)
{
    assert_int_equal(nghttp2_submit_rst_stream(client->session, 0, id, NGHTTP2_CANCEL), 0);
}

/* ---- the handler ---- */

struct served {
    struct exchange *x; /* NULL: it has ended */
    char head[TEXT];
    size_t n_body, n_pieces, n_written;
    unsigned n_body_end, n_gone, n_writable;
};

enum cuts { WHOLE, SINGLE_BYTES, RANDOM_CUTS };

struct pair {
    struct client client;
    struct h2_server *h2;
    struct exchange_conn conn;
    struct shares shares; /* of the connection alone */
    struct served served[N_STREAMS];
    size_t n_served;
    unsigned n_flushes, n_gone;
    size_t held; /* blocks allocated before it began */
    uint64_t now_ms;
    enum cuts cuts;
    bool crowd;    /* exchanges are taken, without a place in `served` */
    size_t enough; /* of a pull */
    struct belfry_rng rng;
    /* what the handler does, NULL: nothing */
    void (*on_begin)(struct served *s);
    void (*on_body)(struct served *s, size_t len);
    void (*on_body_end)(struct served *s);
    void (*on_writable)(struct served *s);
    void (*on_gone)(struct served *s);
};

static struct pair pair; /* large; a test begins with pair_init() */

static void saw_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct served *s = user;
    assert_ptr_equal(s->x, x);
    s->n_body += bytes.len;
    s->n_pieces++;
    if (pair.on_body != NULL)
        pair.on_body(s, bytes.len);
}

static void saw_body_end(struct exchange *x, void *user)
{
    struct served *s = user;
    assert_ptr_equal(s->x, x);
    assert_int_equal(s->n_body_end++, 0);
    if (pair.on_body_end != NULL)
        pair.on_body_end(s);
}

static void saw_writable(struct exchange *x, void *user)
{
    struct served *s = user;
    assert_ptr_equal(s->x, x);
    s->n_writable++;
    if (pair.on_writable != NULL)
        pair.on_writable(s);
}

static void saw_gone(struct exchange *x, void *user)
{
    struct served *s = user;
    assert_ptr_equal(s->x, x);
    assert_int_equal(s->n_gone++, 0);
    pair.n_gone++;
    s->x = NULL;
    if (pair.on_gone != NULL)
        pair.on_gone(s);
}

static const struct exchange_events seen = {saw_body, saw_body_end, saw_writable, saw_gone};

static void put_bytes(char to[TEXT], struct belfry_bytes bytes)
{
    char text[TEXT];
    snprintf(text, sizeof(text), "%.*s|", (int)bytes.len, bytes.len > 0 ? bytes.data : "");
    put_text(to, text);
}

static void on_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    assert_ptr_equal(user, &pair);
    assert_int_equal(exchange_conn(x)->id, CLIENT_ID);
    if (pair.crowd) {
        static const struct exchange_events ignored = {exchange_drop_body, exchange_ignore, exchange_ignore,
                                                       exchange_ignore};
        exchange_handle(x, &ignored, NULL);
        return;
    }
    assert_true(pair.n_served < N_STREAMS);
    struct served *s = &pair.served[pair.n_served++];
    s->x = x;
    put_bytes(s->head, head->method);
    put_bytes(s->head, head->scheme);
    put_bytes(s->head, head->path);
    put_bytes(s->head, head->authority);
    for (size_t i = 0; i < head->n_fields; i++) {
        put_bytes(s->head, head->fields[i].name);
        put_bytes(s->head, head->fields[i].value);
    }
    exchange_handle(x, &seen, s);
    if (pair.on_begin != NULL)
        pair.on_begin(s);
}

static void on_wants_flush(void *user)
{
    assert_ptr_equal(user, &pair);
    pair.n_flushes++;
}

/* ---- both, and the wire ---- */

static void on_yield(struct shares_conn *share, enum shares_pool pool, void *user)
{
    (void)share, (void)pool, (void)user;
    fail();
}

static enum belfry_err pair_begin(int32_t stream_window, uint32_t max_streams)
{
    memset(&pair, 0, sizeof(pair));
    pair.now_ms = 1000;
    pair.held = refuse_held();
    pair.enough = (size_t)1 << 20;
    pair.conn.id = CLIENT_ID;
    shares_init(&pair.shares, &(struct shares_limits){.percent = {100, 100}}, 1, on_yield, NULL);
    enum belfry_err err = shares_join(&pair.shares, &pair.conn.share, SHARES_CLIENT, "a");
    if (err != BELFRY_OK) {
        pair.conn.share = (struct shares_conn){0};
        return err;
    }
    client_init(&pair.client, stream_window);
    struct h2_server_opts opts = {.conn = &pair.conn,
                                  .begin = on_begin,
                                  .user = &pair,
                                  .max_streams = max_streams,
                                  .wants_flush = on_wants_flush,
                                  .flush_user = &pair};
    return h2_server_create(&opts, &pair.h2);
}

static void pair_init_with(int32_t stream_window, uint32_t max_streams)
{
    assert_int_equal(pair_begin(stream_window, max_streams), BELFRY_OK);
}

static void pair_init(void)
{
    pair_init_with(65535, 0);
}

static size_t memory_used(void)
{
    return pair.shares.pools[SHARES_MEMORY].used;
}

static void set_memory(size_t bytes)
{
    pair.shares.limits.total[SHARES_MEMORY] = bytes;
}

static void pair_fini(void)
{
    h2_server_destroy(pair.h2);
    nghttp2_session_del(pair.client.session);
    for (size_t i = 0; i < pair.n_served; i++)
        assert_null(pair.served[i].x); /* each has ended, one way or the other */
    assert_int_equal(memory_used(), 0);
    shares_leave(&pair.conn.share);
    shares_fini(&pair.shares);
    assert_int_equal(refuse_held(), pair.held);
}

static size_t cut(size_t len)
{
    if (pair.cuts == WHOLE || len <= 1)
        return len;
    if (pair.cuts == SINGLE_BYTES)
        return 1;
    size_t n = 1 + (size_t)belfry_rng_below(&pair.rng, belfry_rng_below(&pair.rng, 4) == 0 ? len : 16);
    return n < len ? n : len;
}

static enum belfry_err to_server(const void *data, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = cut(len - at);
        /* A copy of its own, so that reading past a cut is seen. */
        uint8_t *piece = malloc(n);
        if (piece == NULL)
            return BELFRY_ERR_NOMEM;
        memcpy(piece, (const uint8_t *)data + at, n);
        enum belfry_err err = h2_server_receive(pair.h2, belfry_bytes_of(piece, n), pair.now_ms);
        free(piece);
        h2_server_unhold(pair.h2);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

/* One pull, and the client gets what it gave, whatever became of it. */
static enum belfry_err pull_once(size_t *out_n)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    bool wanted = h2_server_wants_write(pair.h2) || h2_server_owes_pong(pair.h2);
    enum belfry_err err = h2_server_pull(pair.h2, pair.enough, &out);
    *out_n = belfry_buf_len(&out);
    if (!wanted)
        assert_int_equal(*out_n, 0);
    if (*out_n > 0)
        assert_true(nghttp2_session_mem_recv(pair.client.session, out.data, *out_n) == (ssize_t)*out_n);
    belfry_buf_fini(&out);
    return err;
}

static enum belfry_err pump_out(void)
{
    for (size_t n = 1; n > 0;) {
        enum belfry_err err = pull_once(&n);
        if (err != BELFRY_OK)
            return err;
    }
    assert_false(h2_server_wants_write(pair.h2));
    while (h2_server_unhold(pair.h2))
        ;
    return BELFRY_OK;
}

/* Everything the client has to say reaches the server. */
static enum belfry_err pump_in(size_t *out_n)
{
    const uint8_t *data;
    *out_n = 0;
    for (ssize_t n = 1; n > 0;) {
        n = nghttp2_session_mem_send(pair.client.session, &data);
        assert_true(n >= 0);
        *out_n += (size_t)n;
        enum belfry_err err = to_server(data, (size_t)n);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

/* All that the client has, as one packet. */
static enum belfry_err packet_in(void)
{
    struct belfry_buf packet;
    const uint8_t *data;
    belfry_buf_init(&packet);
    for (ssize_t n; (n = nghttp2_session_mem_send(pair.client.session, &data)) > 0;)
        assert_int_equal(belfry_buf_append(&packet, data, (size_t)n), BELFRY_OK);
    struct belfry_bytes bytes = belfry_buf_bytes(&packet);
    enum belfry_err err = to_server((const uint8_t *)bytes.data, bytes.len);
    belfry_buf_fini(&packet);
    return err;
}

static enum belfry_err pump(void)
{
    for (size_t n;;) {
        enum belfry_err err = pump_in(&n);
        if (err == BELFRY_OK)
            err = pump_out();
        if (err != BELFRY_OK)
            return err;
        if (n == 0 && nghttp2_session_want_write(pair.client.session) == 0 && !h2_server_wants_write(pair.h2))
            return BELFRY_OK;
    }
}

#define assert_pumps() assert_int_equal(pump(), BELFRY_OK)

static void raw_head(uint8_t to[9], size_t len, uint8_t type, uint8_t flags, int32_t id)
{
    const uint8_t head[9] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
                             (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    memcpy(to, head, 9);
}

static enum belfry_err raw_frame(uint8_t type, uint8_t flags, int32_t id, const void *payload, size_t len)
{
    uint8_t head[9];
    raw_head(head, len, type, flags, id);
    enum belfry_err err = to_server(head, sizeof(head));
    return err == BELFRY_OK && len > 0 ? to_server(payload, len) : err;
}

/* ---- what handlers say ---- */

static struct belfry_http_field grpc_type(void)
{
    return (struct belfry_http_field){belfry_bytes_str("content-type"), belfry_bytes_str("application/grpc")};
}

static void respond(struct served *s)
{
    struct belfry_http_field type = grpc_type();
    exchange_respond(s->x, 200, &type, 1);
}

/* `n` more bytes of the pattern. */
static void write_on(struct served *s, size_t n)
{
    uint8_t data[1024];
    while (n > 0) {
        size_t len = n < sizeof(data) ? n : sizeof(data);
        for (size_t i = 0; i < len; i++)
            data[i] = pattern(s->n_written + i);
        exchange_write(s->x, data, len);
        s->n_written += len;
        n -= len;
    }
}

static void end(struct served *s)
{
    const struct belfry_http_field trailers[] = {{belfry_bytes_str("grpc-status"), belfry_bytes_str("0")},
                                                 {belfry_bytes_str("grpc-message"), {NULL, 0}}};
    struct exchange *x = s->x;
    s->x = NULL;
    exchange_end(x, trailers, 2);
}

static void reset(struct served *s)
{
    struct exchange *x = s->x;
    s->x = NULL;
    exchange_reset(x, NGHTTP2_CANCEL);
}

static void answer(struct served *s, const char *body)
{
    struct exchange *x = s->x;
    struct belfry_http_field type = grpc_type();
    s->x = NULL;
    exchange_answer(x, 200, &type, 1, belfry_bytes_str(body));
}

static void take_all(struct served *s, size_t len)
{
    exchange_taken(s->x, len);
}

static void serve_hello(struct served *s)
{
    respond(s);
    write_on(s, 300);
    end(s);
}

static struct stream *stream(int32_t id)
{
    return stream_at(&pair.client, id);
}

/* ---- tests: heads ---- */

static void the_head_is_presented_with_all_its_fields(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = serve_hello;
    nghttp2_nv nv[] = {field(":method", "POST"),   field(":scheme", "https"),
                       field(":path", "/a/b?c=d"), field(":authority", "etcd:2379"),
                       field("x-many", "1"),       field("X-Empty", ""),
                       field("x-many", "2")};
    assert_true(nghttp2_submit_request(pair.client.session, NULL, nv, 7, NULL, NULL) == 1);
    assert_pumps();
    assert_string_equal(pair.served[0].head, "POST|https|/a/b?c=d|etcd:2379|x-many|1|x-empty||x-many|2|");
    pair_fini();
}

static void the_host_field_stands_in_for_the_authority(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = serve_hello;
    nghttp2_nv nv[] = {field(":method", "GET"), field(":scheme", "http"), field(":path", "/"), field("host", "etcd")};
    assert_true(nghttp2_submit_request(pair.client.session, NULL, nv, 4, NULL, NULL) == 1);
    assert_pumps();
    assert_string_equal(pair.served[0].head, "GET|http|/|etcd|host|etcd|");
    pair_fini();
}

static void the_response_has_head_body_and_trailers(void **state)
{
    (void)state;
    pair_init();
    pair.on_body_end = serve_hello;
    int32_t id = client_get(&pair.client, "/x");
    assert_pumps();
    assert_int_equal(pair.served[0].n_body_end, 1);
    assert_string_equal(stream(id)->head, ":status: 200\ncontent-type: application/grpc\n");
    assert_string_equal(stream(id)->trailers, "grpc-status: 0\ngrpc-message: \n");
    assert_int_equal(stream(id)->n_data, 300);
    assert_false(stream(id)->wrong);
    assert_true(stream(id)->ended && stream(id)->closed);
    assert_string_equal(pair.client.order, "H1 D1 T1 ");
    assert_int_equal(h2_server_open(pair.h2), 0);
    assert_int_equal(pair.n_gone, 0);
    pair_fini();
}

static void trailers_outlive_what_they_were_made_of(void **state)
{
    (void)state;
    pair_init();
    int32_t id = client_get(&pair.client, "/x");
    assert_pumps();
    char name[] = "grpc-status", value[] = "13";
    const struct belfry_http_field trailers[] = {{belfry_bytes_str(name), belfry_bytes_str(value)},
                                                 {belfry_bytes_str("grpc-message"), {0}}};
    respond(&pair.served[0]);
    struct exchange *x = pair.served[0].x;
    pair.served[0].x = NULL;
    exchange_end(x, trailers, 2);
    memset(name, '?', sizeof(name));
    memset(value, '?', sizeof(value));
    assert_pumps();
    assert_string_equal(stream(id)->trailers, "grpc-status: 13\ngrpc-message: \n");
    pair_fini();
}

static void end_without_trailers(struct served *s)
{
    struct exchange *x = s->x;
    respond(s);
    write_on(s, 10);
    s->x = NULL;
    exchange_end(x, NULL, 0);
}

static void a_body_may_end_without_trailers(void **state)
{
    (void)state;
    pair_init();
    pair.on_body_end = end_without_trailers;
    int32_t id = client_get(&pair.client, "/x");
    assert_pumps();
    assert_string_equal(pair.client.order, "H1 D1 ");
    assert_true(stream(id)->ended && stream(id)->closed);
    assert_int_equal(stream(id)->n_data, 10);
    pair_fini();
}

static void an_end_without_a_body_is_trailers_at_once(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    assert_pumps();
    end(&pair.served[0]);
    assert_pumps();
    assert_string_equal(pair.client.order, "H1 T1 R1 ");
    assert_int_equal(pair.client.n_empty_frames, 0);
    assert_true(stream(id)->ended);
    pair_fini();
}

static void answer_nothing(struct served *s)
{
    answer(s, "");
}

static void an_answer_without_a_body_is_headers_alone(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = answer_nothing;
    int32_t id = client_get(&pair.client, "/x");
    assert_pumps();
    assert_string_equal(pair.client.order, "H1 ");
    assert_true(stream(id)->ended && stream(id)->closed);
    assert_int_equal(stream(id)->reset, UINT32_MAX);
    assert_int_equal(pair.served[0].n_body_end, 0); /* it had its last word before */
    pair_fini();
}

static void answer_pattern(struct served *s)
{
    uint8_t body[300];
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = pattern(i);
    struct exchange *x = s->x;
    s->x = NULL;
    exchange_answer(x, 404, NULL, 0, belfry_bytes_of(body, sizeof(body)));
}

static void respond_pattern(struct served *s)
{
    struct exchange *x = s->x;
    s->x = NULL;
    exchange_respond(x, 200, NULL, 0);
    exchange_write(x, "body", 4);
    exchange_end(x, NULL, 0);
}

/* RFC 9110, 9.3.2. */
static void what_answers_head_has_no_body(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        pair_init();
        pair.on_begin = i == 0 ? answer_pattern : respond_pattern;
        nghttp2_nv nv[] = {field(":method", "HEAD"), field(":scheme", "http"), field(":path", "/x"),
                           field(":authority", "h:1")};
        int32_t id = nghttp2_submit_request(pair.client.session, NULL, nv, 4, NULL, NULL);
        assert_true(id > 0);
        assert_pumps();
        assert_int_equal(stream(id)->n_data, 0);
        assert_true(stream(id)->ended && stream(id)->closed);
        assert_int_equal(stream(id)->reset, UINT32_MAX);
        pair_fini();
    }
}

static void an_answer_has_its_status_and_body(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = answer_pattern;
    int32_t id = client_get(&pair.client, "/x");
    assert_pumps();
    assert_string_equal(stream(id)->head, ":status: 404\n");
    assert_int_equal(stream(id)->n_data, 300);
    assert_false(stream(id)->wrong);
    assert_string_equal(pair.client.order, "H1 D1 ");
    pair_fini();
}

static void respond_with_many_fields(struct served *s)
{
    struct belfry_http_field fields[40];
    for (size_t i = 0; i < 40; i++)
        fields[i] = (struct belfry_http_field){belfry_bytes_str("f"), belfry_bytes_str("v")};
    struct exchange *x = s->x;
    s->x = NULL;
    exchange_answer(x, 200, fields, 40, (struct belfry_bytes){0});
}

static void a_response_may_have_many_fields(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond_with_many_fields;
    int32_t id = client_get(&pair.client, "/x");
    assert_pumps();
    assert_int_equal(strlen(stream(id)->head), strlen(":status: 200\n") + 40 * strlen("f: v\n"));
    pair_fini();
}

static void a_response_before_the_end_of_the_request_stops_it(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = serve_hello;
    int32_t id = client_open(&pair.client, "/x");
    client_send(&pair.client, id, 100000);
    assert_pumps();
    assert_string_equal(pair.client.order, "H1 D1 T1 R1 ");
    assert_int_equal(stream(id)->reset, NGHTTP2_NO_ERROR);
    assert_int_equal(h2_server_open(pair.h2), 0);
    pair_fini();
}

static void trailers_too_large_to_send_reset_their_stream(void **state)
{
    (void)state;
    pair_init();
    int32_t id = client_get(&pair.client, "/x");
    assert_pumps();
    struct served *s = &pair.served[0];
    respond(s);
    char *value = malloc(100000);
    assert_non_null(value);
    memset(value, '~', 100000);
    struct belfry_http_field trailer = {belfry_bytes_str("grpc-message"), belfry_bytes_of(value, 100000)};
    struct exchange *x = s->x;
    s->x = NULL;
    exchange_end(x, &trailer, 1);
    free(value);
    assert_pumps();
    assert_int_equal(stream(id)->reset, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(h2_server_open(pair.h2), 0);
    pair_fini();
}

/* ---- tests: bodies ---- */

static void a_body_comes_in_pieces_and_then_its_end(void **state)
{
    (void)state;
    pair_init();
    pair.on_body = take_all;
    int32_t id = client_open(&pair.client, "/x");
    client_send(&pair.client, id, 5);
    assert_pumps();
    assert_int_equal(pair.served[0].n_body, 5);
    assert_int_equal(pair.served[0].n_body_end, 0);
    client_send(&pair.client, id, 1000000);
    client_end(&pair.client, id);
    assert_pumps();
    assert_int_equal(pair.served[0].n_body, 1000005);
    assert_int_equal(pair.served[0].n_body_end, 1);
    serve_hello(&pair.served[0]);
    assert_pumps();
    assert_int_equal(stream(id)->reset, UINT32_MAX);
    pair_fini();
}

static void a_peer_sends_no_more_than_the_window_until_it_is_taken(void **state)
{
    (void)state;
    pair_init();
    int32_t held = client_open(&pair.client, "/held"), other = client_open(&pair.client, "/other");
    client_send(&pair.client, held, 200000);
    assert_pumps();
    assert_int_equal(pair.served[0].n_body, 65535);
    client_send(&pair.client, other, 65535); /* which it does not stall: the connection's window is given back */
    assert_pumps();
    assert_int_equal(pair.served[1].n_body, 65535);
    exchange_taken(pair.served[0].x, 65535);
    assert_pumps();
    assert_int_equal(pair.served[0].n_body, 2 * 65535);
    serve_hello(&pair.served[0]);
    reset(&pair.served[1]);
    pair_fini();
}

static void what_comes_after_the_last_word_counts_as_taken(void **state)
{
    (void)state;
    pair_init_with(100, 0);
    int32_t id = client_open(&pair.client, "/x");
    stream(id)->stalled = true;
    client_send(&pair.client, id, 300000);
    client_end(&pair.client, id);
    assert_pumps();
    assert_int_equal(pair.served[0].n_body, 65535);
    serve_hello(&pair.served[0]); /* 200 of its bytes have to wait, so that the stream goes on */
    assert_pumps();
    assert_int_equal(stream(id)->to_send, 0);
    assert_int_equal(pair.served[0].n_body, 65535); /* and the handler is told nothing more */
    assert_int_equal(h2_server_open(pair.h2), 1);
    assert_int_equal(h2_server_bytes(pair.h2), 200);
    pair_fini();
}

static void trailers_of_a_request_are_only_its_end(void **state)
{
    (void)state;
    pair_init();
    pair.on_body_end = serve_hello;
    int32_t id = client_open(&pair.client, "/x");
    assert_pumps();
    nghttp2_nv trailer = field("x-trailer", "1");
    assert_int_equal(nghttp2_submit_trailer(pair.client.session, id, &trailer, 1), 0);
    assert_pumps();
    assert_int_equal(pair.served[0].n_body_end, 1);
    assert_string_equal(pair.served[0].head, "POST|http|/x|h:1|te|trailers|");
    assert_true(stream(id)->closed);
    pair_fini();
}

/* ---- tests: writing ---- */

static void what_is_written_goes_out_in_one_frame_and_wants_one_flush(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    assert_pumps();
    pair.n_flushes = 0;
    for (int i = 0; i < 3; i++)
        write_on(&pair.served[0], 100);
    assert_int_equal(pair.n_flushes, 1);
    assert_int_equal(h2_server_bytes(pair.h2), 300);
    assert_pumps();
    assert_int_equal(pair.client.n_data_frames, 1);
    assert_int_equal(stream(id)->n_data, 300);
    assert_int_equal(h2_server_bytes(pair.h2), 0);
    write_on(&pair.served[0], 1);
    assert_int_equal(pair.n_flushes, 2);
    pair_fini();
}

static void nothing_is_wanted_while_the_peer_gives_no_window(void **state)
{
    (void)state;
    pair_init_with(0, 0);
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    stream(id)->stalled = true;
    assert_pumps();
    assert_int_equal(exchange_room(pair.served[0].x), 0);
    pair.n_flushes = 0;
    write_on(&pair.served[0], 100);
    assert_pumps();
    assert_int_equal(stream(id)->n_data, 0);
    assert_int_equal(h2_server_bytes(pair.h2), 100);
    assert_int_equal(nghttp2_submit_window_update(pair.client.session, 0, id, 40), 0);
    assert_pumps();
    assert_int_equal(stream(id)->n_data, 40);
    assert_int_equal(pair.n_flushes, 1); /* for the update; none for what could not go out */
    assert_int_equal(pair.served[0].n_writable, 0);
    pair_fini();
}

static void room_is_the_streams_window_less_what_waits(void **state)
{
    (void)state;
    pair_init_with(5000, 0);
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    stream(id)->stalled = true;
    assert_pumps();
    struct served *s = &pair.served[0];
    assert_int_equal(exchange_room(s->x), 5000);
    write_on(s, 1200);
    assert_int_equal(exchange_room(s->x), 3800);
    assert_pumps();
    assert_int_equal(exchange_room(s->x), 3800);
    write_on(s, 5000); /* taken whatever the room is */
    assert_int_equal(exchange_room(s->x), 0);
    assert_pumps();
    assert_int_equal(stream(id)->n_data, 5000);
    assert_int_equal(h2_server_bytes(pair.h2), 1200);
    reset(s);
    assert_int_equal(h2_server_bytes(pair.h2), 0);
    pair_fini();
}

static void room_is_a_share_of_the_connections_window(void **state)
{
    (void)state;
    pair_init_with(1 << 20, 0);
    pair.on_begin = respond;
    for (int i = 0; i < 4; i++)
        client_open(&pair.client, "/x");
    assert_pumps();
    for (int i = 0; i < 4; i++)
        assert_int_equal(exchange_room(pair.served[i].x), 65535 / 4);
    assert_int_equal(nghttp2_submit_window_update(pair.client.session, 0, 0, 1 << 20), 0);
    assert_pumps();
    for (int i = 0; i < 4; i++)
        assert_int_equal(exchange_room(pair.served[i].x), EXCHANGE_ROOM);
    pair_fini();
}

static void write_room(struct served *s)
{
    for (size_t room; (room = exchange_room(s->x)) > 0;)
        write_on(s, room);
}

static void what_piles_up_without_a_window_is_bounded(void **state)
{
    (void)state;
    pair_init();
    for (int i = 0; i < 1000; i++)
        stream(client_open(&pair.client, "/x"))->stalled = true;
    assert_pumps();
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < 1000; i++) {
            if (round == 0)
                respond(&pair.served[i]);
            write_room(&pair.served[i]);
        }
        assert_pumps();
    }
    assert_true(h2_server_bytes(pair.h2) >= 900 * 1024);
    assert_true(h2_server_bytes(pair.h2) <= 1000 * 1024);
    pair_fini();
}

static void those_who_found_little_room_are_told_of_more(void **state)
{
    (void)state;
    pair_init_with(20000, 0);
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    stream(id)->stalled = true;
    assert_pumps();
    struct served *s = &pair.served[0];
    write_on(s, 20000);
    assert_int_equal(exchange_room(s->x), 0);
    assert_pumps();
    assert_int_equal(s->n_writable, 0);
    assert_int_equal(nghttp2_submit_window_update(pair.client.session, 0, id, 10), 0);
    assert_pumps();
    assert_int_equal(s->n_writable, 1); /* nothing waits, so little will do */
    assert_int_equal(nghttp2_submit_window_update(pair.client.session, 0, id, 16384), 0);
    assert_pumps();
    assert_int_equal(s->n_writable, 1); /* who did not ask again is not told again */
    pair_fini();
}

static void while_held_nobody_has_room(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    client_open(&pair.client, "/a");
    client_open(&pair.client, "/b");
    assert_pumps();
    h2_server_hold(pair.h2);
    assert_int_equal(exchange_room(pair.served[0].x), 0);
    h2_server_unhold(pair.h2);
    assert_int_equal(pair.served[0].n_writable, 1);
    assert_int_equal(pair.served[1].n_writable, 0); /* had not asked */
    assert_true(exchange_room(pair.served[0].x) > EXCHANGE_ROOM_LOW);
    h2_server_unhold(pair.h2);
    assert_int_equal(pair.served[0].n_writable, 1);
    pair_fini();
}

/* `n` exchanges that were told that there is no room, because their peer gives no window. */
static void wait_for_window(size_t n)
{
    pair_init_with(0, 0);
    pair.on_begin = respond;
    for (size_t i = 0; i < n; i++)
        stream(client_open(&pair.client, "/x"))->stalled = true;
    assert_pumps();
    for (size_t i = 0; i < n; i++)
        assert_int_equal(exchange_room(pair.served[i].x), 0);
}

static size_t count_told(size_t n)
{
    size_t told = 0;
    for (size_t i = 0; i < n; i++)
        told += pair.served[i].n_writable;
    return told;
}

static void those_who_wait_cost_nothing_until_something_changes_for_them(void **state)
{
    (void)state;
    wait_for_window(1000);
    clock_t began = clock();
    static const uint8_t ping[8];
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(nghttp2_submit_ping(pair.client.session, 0, ping), 0);
        assert_int_equal(nghttp2_submit_window_update(pair.client.session, 0, 0, 1), 0);
        assert_pumps();
    }
    /* Looking at each of them would be 4,000,000 looks or more, which take seconds. */
    assert_in_range((clock() - began) * 1000 / CLOCKS_PER_SEC, 0, 800);
    assert_int_equal(count_told(1000), 0);
    pair_fini();
}

static void a_streams_own_window_is_told_to_that_stream_alone(void **state)
{
    (void)state;
    wait_for_window(10);
    assert_int_equal(nghttp2_submit_window_update(pair.client.session, 0, 7, 100), 0);
    assert_pumps();
    assert_int_equal(pair.served[3].n_writable, 1);
    assert_int_equal(count_told(10), 1);
    pair_fini();
}

static void some_are_told_at_a_time_and_the_rest_at_the_next(void **state)
{
    (void)state;
    wait_for_window(600);
    uint8_t settings[6] = {0, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0, 0, 0x10, 0};
    assert_int_equal(raw_frame(NGHTTP2_SETTINGS, 0, 0, settings, sizeof(settings)), BELFRY_OK); /* unholds once */
    assert_int_equal(count_told(600), H2_SERVER_OFFERS);
    assert_true(h2_server_unhold(pair.h2));
    assert_int_equal(count_told(600), 2 * H2_SERVER_OFFERS);
    assert_false(h2_server_unhold(pair.h2));
    assert_int_equal(count_told(600), 600);
    assert_false(h2_server_unhold(pair.h2));
    assert_int_equal(count_told(600), 600);
    pair_fini();
}

/* The share of the connection's window, not the stream's own, holds it up: it is told when the others go, too. */
static void a_larger_share_is_told(void **state)
{
    (void)state;
    pair_init_with(1 << 20, 0);
    pair.on_begin = respond;
    for (int i = 0; i < 8; i++)
        client_open(&pair.client, "/x");
    assert_pumps();
    assert_int_equal(exchange_room(pair.served[0].x), 65535 / 8);
    assert_int_equal(h2_server_unhold(pair.h2), false);
    assert_int_equal(pair.served[0].n_writable, 0); /* it knows of that much */
    for (int i = 7; i > 3; i--)
        client_reset(&pair.client, 1 + 2 * i);
    assert_pumps();
    assert_true(pair.served[0].n_writable > 0);
    assert_int_equal(exchange_room(pair.served[0].x), 65535 / 4);
    pair_fini();
}

static void a_wide_window_is_shared_out_as_a_narrower_one(void **state)
{
    (void)state;
    pair_init_with(1 << 30, 0);
    pair.on_begin = respond;
    assert_int_equal(nghttp2_submit_window_update(pair.client.session, 0, 0, 1 << 30), 0);
    size_t promised = 0;
    for (int i = 0; i < 1000; i++)
        client_open(&pair.client, "/x");
    assert_pumps();
    for (size_t i = 0; i < 1000; i++)
        promised += exchange_room(pair.served[i].x);
    assert_in_range(promised, 512 * 1024, 1024 * 1024);
    pair_fini();
}

static void while_many_frames_wait_nothing_more_is_wanted(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = answer_nothing;
    assert_pumps(); /* a client that has not heard our SETTINGS opens 100 */
    assert_true(h2_server_wants_read(pair.h2));
    for (int i = 0; i < 600; i++)
        client_get(&pair.client, "/x");
    size_t n;
    assert_int_equal(pump_in(&n), BELFRY_OK);
    assert_false(h2_server_wants_read(pair.h2));
    assert_pumps();
    assert_true(h2_server_wants_read(pair.h2));
    pair_fini();
}

/* ---- memory ---- */

static void a_stream_for_which_there_is_no_memory_is_refused(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    set_memory(H2_SERVER_CONN + 2 * H2_SERVER_EXCHANGE);
    int32_t ids[3];
    for (size_t i = 0; i < 3; i++)
        ids[i] = client_open(&pair.client, "/x");
    assert_pumps();
    assert_int_equal(pair.n_served, 2);
    assert_int_equal(stream(ids[2])->reset, NGHTTP2_REFUSED_STREAM);
    assert_int_equal(pair.shares.pools[SHARES_MEMORY].refused, 1);
    assert_int_equal(memory_used(), H2_SERVER_CONN + 2 * H2_SERVER_EXCHANGE);
    client_reset(&pair.client, ids[0]);
    assert_pumps();
    int32_t again = client_open(&pair.client, "/again"); /* what was refused left the header table in order */
    assert_pumps();
    assert_int_equal(pair.n_served, 3);
    assert_int_equal(stream(again)->reset, UINT32_MAX);
    assert_non_null(strstr(pair.served[2].head, "/again"));
    pair_fini();
}

static void what_waits_in_buffers_is_counted(void **state)
{
    (void)state;
    pair_init_with(0, 0);
    pair.on_begin = respond;
    client_open(&pair.client, "/x");
    assert_pumps();
    assert_int_equal(memory_used(), H2_SERVER_CONN + H2_SERVER_EXCHANGE);
    write_on(&pair.served[0], 50000);
    assert_in_range(memory_used(), H2_SERVER_CONN + H2_SERVER_EXCHANGE + 50000,
                    H2_SERVER_CONN + H2_SERVER_EXCHANGE + 100000);
    reset(&pair.served[0]);
    assert_pumps();
    assert_int_equal(memory_used(), H2_SERVER_CONN);
    pair_fini();
}

static void while_memory_is_used_up_there_is_the_least_room(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    client_open(&pair.client, "/x");
    assert_pumps();
    struct served *s = &pair.served[0];
    set_memory(1);
    assert_int_equal(exchange_room(s->x), 1024);
    write_on(s, 1024);
    assert_int_equal(exchange_room(s->x), 0);
    assert_pumps(); /* and it goes on, a little at a time */
    assert_int_equal(s->n_writable, 1);
    assert_int_equal(exchange_room(s->x), 1024);
    set_memory(0);
    assert_pumps();
    h2_server_unhold(pair.h2);
    assert_int_equal(s->n_writable, 2);
    assert_true(exchange_room(s->x) > EXCHANGE_ROOM_LOW);
    pair_fini();
}

/* Serves `total` bytes as room allows. */
static size_t total;

static void write_total(struct served *s)
{
    for (size_t room; s->n_written < total && (room = exchange_room(s->x)) > 0;)
        write_on(s, room < total - s->n_written ? room : total - s->n_written);
    if (s->n_written == total)
        end(s);
}

static void respond_total(struct served *s)
{
    respond(s);
    write_total(s);
}

static void many_at_once(enum cuts cuts, size_t enough, int32_t window)
{
    pair_init_with(window, 0);
    pair.cuts = cuts;
    pair.enough = enough;
    pair.on_begin = respond_total;
    pair.on_writable = write_total;
    pair.on_body = take_all;
    int32_t ids[20];
    for (size_t i = 0; i < 20; i++) {
        ids[i] = client_open(&pair.client, "/many");
        client_send(&pair.client, ids[i], 1000);
        client_end(&pair.client, ids[i]);
    }
    assert_pumps();
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(stream(ids[i])->n_data, total);
        assert_false(stream(ids[i])->wrong);
        assert_true(stream(ids[i])->closed);
        assert_string_equal(stream(ids[i])->trailers, "grpc-status: 0\ngrpc-message: \n");
    }
    assert_true(pair.client.longest <= 16384);
    pair_fini();
}

static void many_exchanges_are_served_interleaved(void **state)
{
    (void)state;
    total = 200000;
    many_at_once(WHOLE, (size_t)1 << 20, 65535);
    many_at_once(RANDOM_CUTS, (size_t)1 << 20, 65535);
    total = 20000;
    many_at_once(SINGLE_BYTES, (size_t)1 << 20, 1000);
}

static void a_pull_stops_when_it_has_enough_and_loses_nothing(void **state)
{
    (void)state;
    total = 50000;
    many_at_once(WHOLE, 1, 65535);
    many_at_once(RANDOM_CUTS, 100, 20000);
    pair_init();
    pair.on_begin = respond;
    client_open(&pair.client, "/x");
    assert_pumps();
    write_on(&pair.served[0], 60000);
    pair.enough = 20000;
    size_t n;
    assert_int_equal(pull_once(&n), BELFRY_OK);
    assert_int_equal(n, 2 * (16384 + 9));
    assert_true(h2_server_wants_write(pair.h2));
    assert_pumps();
    assert_int_equal(stream(1)->n_data, 60000);
    pair_fini();
}

static void a_stream_reset_between_pulls_is_dropped(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x"), other = client_open(&pair.client, "/y");
    assert_pumps();
    write_on(&pair.served[0], 40000);
    write_on(&pair.served[1], 10);
    pair.enough = 1;
    size_t n;
    assert_int_equal(pull_once(&n), BELFRY_OK);
    reset(&pair.served[0]);
    assert_pumps();
    assert_true(stream(id)->n_data <= 16384);
    assert_int_equal(stream(id)->reset, NGHTTP2_CANCEL);
    assert_int_equal(stream(other)->n_data, 10);
    pair_fini();
}

/* ---- tests: ends ---- */

static void a_reset_by_the_peer_is_told_once(void **state)
{
    (void)state;
    pair_init_with(100, 0);
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    assert_pumps();
    write_on(&pair.served[0], 1000);
    assert_int_equal(exchange_room(pair.served[0].x), 0);
    client_reset(&pair.client, id);
    assert_pumps();
    assert_int_equal(pair.served[0].n_gone, 1);
    assert_int_equal(h2_server_open(pair.h2), 0);
    assert_int_equal(h2_server_bytes(pair.h2), 0);
    pair_fini();
    assert_int_equal(pair.n_gone, 1);
}

static void after_the_last_word_a_reset_is_not_told(void **state)
{
    (void)state;
    pair_init_with(100, 0);
    pair.on_begin = serve_hello;
    int32_t id = client_open(&pair.client, "/x");
    stream(id)->stalled = true;
    assert_pumps();
    assert_int_equal(h2_server_open(pair.h2), 1);
    client_reset(&pair.client, id);
    assert_pumps();
    assert_int_equal(h2_server_open(pair.h2), 0);
    pair_fini();
    assert_int_equal(pair.n_gone, 0);
}

static void a_reset_by_the_handler_reaches_the_peer(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = reset;
    int32_t before = client_open(&pair.client, "/before");
    assert_pumps();
    assert_int_equal(stream(before)->reset, NGHTTP2_CANCEL);
    assert_string_equal(stream(before)->head, "");
    pair.on_begin = respond;
    int32_t after = client_open(&pair.client, "/after");
    assert_pumps();
    write_on(&pair.served[1], 100);
    reset(&pair.served[1]);
    assert_pumps();
    assert_int_equal(stream(after)->reset, NGHTTP2_CANCEL);
    assert_int_equal(stream(after)->n_data, 0);
    assert_int_equal(h2_server_open(pair.h2), 0);
    pair_fini();
    assert_int_equal(pair.n_gone, 0);
}

static void a_stream_that_breaks_the_protocol_is_gone(void **state)
{
    (void)state;
    pair_init();
    nghttp2_nv nv[] = {field(":method", "POST"), field(":scheme", "http"), field(":path", "/"),
                       field(":authority", "h"), field("content-length", "3")};
    int32_t id = nghttp2_submit_request(pair.client.session, NULL, nv, 5, &client_body, NULL);
    client_send(&pair.client, id, 5);
    assert_pumps();
    assert_int_equal(pair.served[0].n_gone, 1);
    assert_int_equal(stream(id)->reset, NGHTTP2_PROTOCOL_ERROR);
    pair_fini();
}

static void destroy_tells_everybody(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    for (int i = 0; i < 3; i++)
        client_open(&pair.client, "/x");
    assert_pumps();
    write_on(&pair.served[1], 100);
    end(&pair.served[2]);
    pair_fini();
    assert_int_equal(pair.n_gone, 2);
    assert_int_equal(pair.served[2].n_gone, 0);
}

static void exchanges_can_be_let_go_in_steps(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    for (int i = 0; i < 4; i++)
        client_open(&pair.client, "/x");
    assert_pumps();
    unsigned flushes = pair.n_flushes;
    assert_false(h2_server_let_go(pair.h2, 1));
    assert_int_equal(pair.n_gone, 1);
    assert_int_equal(exchange_room(pair.served[2].x), 0); /* the others do not know yet */
    write_on(&pair.served[2], 100);
    exchange_taken(pair.served[2].x, 10);
    end(&pair.served[3]);
    assert_false(h2_server_let_go(pair.h2, 2));
    assert_int_equal(pair.n_gone, 3);
    assert_true(memory_used() > 0);
    assert_true(h2_server_let_go(pair.h2, 2));
    assert_int_equal(pair.n_gone, 3); /* the fourth had its last word */
    assert_int_equal(memory_used(), 0);
    assert_int_equal(pair.n_flushes, flushes);
    pair_fini();
}

static void end_all(struct served *s)
{
    (void)s;
    for (size_t i = 0; i < pair.n_served; i++)
        if (pair.served[i].x != NULL)
            i % 2 == 0 ? reset(&pair.served[i]) : end(&pair.served[i]);
}

static void end_all_at_body(struct served *s, size_t len)
{
    (void)len;
    end_all(s);
}

static void end_all_at_begin(struct served *s)
{
    respond(s);
    end_all(s);
}

static void three_open(void)
{
    pair_init();
    pair.on_begin = respond;
    for (int i = 0; i < 3; i++)
        client_open(&pair.client, "/x");
    assert_pumps();
}

static void all_have_ended(unsigned n_gone)
{
    assert_pumps();
    assert_int_equal(h2_server_open(pair.h2), 0);
    assert_int_equal(pair.n_gone, n_gone);
    pair_fini();
    assert_int_equal(pair.n_gone, n_gone);
}

static void any_event_may_end_any_exchange(void **state)
{
    (void)state;
    three_open();
    pair.on_body = end_all_at_body;
    client_send(&pair.client, 1, 10);
    client_send(&pair.client, 3, 10);
    all_have_ended(0);

    three_open();
    pair.on_body_end = end_all;
    client_end(&pair.client, 3);
    all_have_ended(0);

    three_open();
    pair.on_gone = end_all;
    client_reset(&pair.client, 3);
    all_have_ended(1);

    three_open();
    pair.on_writable = end_all;
    h2_server_hold(pair.h2);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(exchange_room(pair.served[i].x), 0);
    h2_server_unhold(pair.h2);
    assert_int_equal(pair.served[0].n_writable + pair.served[1].n_writable + pair.served[2].n_writable, 1);
    all_have_ended(0);

    three_open();
    pair.on_begin = end_all_at_begin;
    client_get(&pair.client, "/fourth");
    all_have_ended(0);
}

static void a_handler_may_end_others_while_the_connection_is_destroyed(void **state)
{
    (void)state;
    three_open();
    pair.on_gone = end_all;
    pair_fini();
    assert_int_equal(pair.n_gone, 1);
}

/* ---- tests: the connection ---- */

static void settings_are_announced(void **state)
{
    (void)state;
    pair_init();
    assert_pumps();
    assert_int_equal(pair.client.settings[NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE], H2_SERVER_HEADER_BYTES);
    assert_int_equal(pair.client.settings[NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS], UINT32_MAX);
    pair_fini();
    pair_init_with(65535, 7);
    assert_pumps();
    assert_int_equal(pair.client.settings[NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS], 7);
    pair_fini();
}

static void streams_over_the_limit_are_refused(void **state)
{
    (void)state;
    pair_init_with(65535, 2);
    int32_t ids[3];
    for (size_t i = 0; i < 3; i++)
        ids[i] = client_open(&pair.client, "/x"); /* before the limit is known to the client */
    assert_pumps();
    assert_int_equal(pair.n_served, 2);
    assert_int_equal(stream(ids[2])->reset, NGHTTP2_REFUSED_STREAM);
    pair_fini();
}

/* Sends a PING; how often the server asked for a flush because of it. */
static size_t ping(void)
{
    size_t n, before = pair.n_flushes;
    assert_int_equal(nghttp2_submit_ping(pair.client.session, 0, NULL), 0);
    assert_int_equal(pump_in(&n), BELFRY_OK);
    return pair.n_flushes - before;
}

static void a_ping_while_an_exchange_is_open_is_answered_with_the_next_bytes(void **state)
{
    (void)state;
    pair_init();
    client_open(&pair.client, "/x");
    assert_pumps();
    struct exchange *x = pair.served[0].x;
    exchange_respond(x, 200, NULL, 0);
    assert_pumps();
    assert_int_equal(ping(), 0);
    assert_true(h2_server_owes_pong(pair.h2) && !h2_server_wants_write(pair.h2));
    exchange_write(x, "event", 5);
    assert_pumps();
    assert_int_equal(pair.client.n_ping_acks, 1);
    assert_false(h2_server_owes_pong(pair.h2));
    assert_int_equal(ping(), 0); /* and one that nothing is sent with */
    h2_server_pay_pong(pair.h2);
    assert_true(h2_server_wants_write(pair.h2));
    assert_pumps();
    assert_int_equal(pair.client.n_ping_acks, 2);
    pair_fini();
}

/* A client that reads again sends both at once. */
static void a_ping_before_a_request_waits_for_its_answer(void **state)
{
    (void)state;
    pair_init();
    assert_pumps();
    size_t before = pair.n_flushes;
    assert_int_equal(nghttp2_submit_ping(pair.client.session, 0, NULL), 0);
    client_open(&pair.client, "/x");
    assert_int_equal(packet_in(), BELFRY_OK);
    assert_int_equal(pair.n_flushes, before);
    assert_true(h2_server_owes_pong(pair.h2));
    exchange_respond(pair.served[0].x, 200, NULL, 0);
    assert_pumps();
    assert_false(h2_server_owes_pong(pair.h2));
    assert_int_equal(pair.client.n_ping_acks, 1);
    pair_fini();
}

static void a_second_ping_does_not_wait(void **state)
{
    (void)state;
    pair_init();
    client_open(&pair.client, "/x");
    assert_pumps();
    assert_int_equal(ping(), 0);
    assert_int_equal(ping(), 1);
    assert_false(h2_server_owes_pong(pair.h2));
    assert_pumps();
    assert_int_equal(pair.client.n_ping_acks, 2);
    pair_fini();
}

static void a_ping_is_answered_at_once(void **state)
{
    (void)state;
    pair_init();
    assert_pumps();
    pair.n_flushes = 0;
    assert_int_equal(nghttp2_submit_ping(pair.client.session, 0, NULL), 0);
    size_t n;
    assert_int_equal(pump_in(&n), BELFRY_OK);
    assert_int_equal(pair.n_flushes, 1);
    assert_pumps();
    assert_int_equal(pair.client.n_ping_acks, 1);
    pair_fini();
}

static void shut_lets_what_is_open_go_on(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    assert_pumps();
    int32_t crossing = client_open(&pair.client, "/crossing"); /* not sent before the GOAWAY */
    pair.client.order[0] = '\0';
    h2_server_shut(pair.h2);
    h2_server_shut(pair.h2);
    size_t n;
    assert_int_equal(pump_in(&n), BELFRY_OK);
    assert_int_equal(pump_out(), BELFRY_OK);
    assert_int_equal(pair.client.goaway_last, INT32_MAX);
    assert_pumps();
    assert_string_equal(pair.client.order, "G0 P0 H3 G0 ");
    assert_int_equal(pair.client.n_goaways, 2);
    assert_int_equal(pair.client.goaway_code, NGHTTP2_NO_ERROR);
    assert_int_equal(pair.client.goaway_last, crossing);
    assert_int_equal(h2_server_open(pair.h2), 2);
    write_on(&pair.served[0], 1000);
    end(&pair.served[0]);
    end(&pair.served[1]);
    assert_pumps();
    assert_int_equal(stream(id)->n_data, 1000);
    assert_true(stream(id)->ended && stream(crossing)->ended);
    assert_int_equal(h2_server_open(pair.h2), 0);
    pair_fini();
}

static void a_goaway_of_the_peer_ends_nothing(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    assert_pumps();
    assert_int_equal(nghttp2_submit_goaway(pair.client.session, 0, 0, NGHTTP2_NO_ERROR, NULL, 0), 0);
    assert_pumps();
    assert_int_equal(pair.n_gone, 0);
    write_on(&pair.served[0], 10);
    end(&pair.served[0]);
    assert_pumps();
    assert_int_equal(stream(id)->n_data, 10);
    pair_fini();
}

/* A breach ends the connection with a GOAWAY, at the latest in the pull that gives it. */
static void breach(enum belfry_err received, uint32_t code)
{
    size_t n;
    assert_true(received == BELFRY_OK || received == BELFRY_ERR_PROTOCOL);
    assert_true(h2_server_wants_write(pair.h2));
    assert_int_equal(pull_once(&n), BELFRY_ERR_PROTOCOL);
    assert_int_equal(pair.client.n_goaways, 1);
    assert_int_equal(pair.client.goaway_code, code);
    assert_int_equal(h2_server_receive(pair.h2, belfry_bytes_str("more"), pair.now_ms), BELFRY_ERR_PROTOCOL);
    assert_false(h2_server_wants_write(pair.h2));
}

static void a_breach_of_the_protocol_ends_the_connection(void **state)
{
    (void)state;
    three_open();
    breach(raw_frame(NGHTTP2_DATA, 0, 0, "x", 1), NGHTTP2_PROTOCOL_ERROR);
    assert_int_equal(h2_server_open(pair.h2), 3);
    exchange_taken(pair.served[0].x, 10); /* whatever handlers still say is harmless */
    assert_int_equal(exchange_room(pair.served[0].x), 0);
    write_on(&pair.served[1], 100);
    end(&pair.served[2]);
    pair_fini();
    assert_int_equal(pair.n_gone, 2);
}

static void what_is_not_http2_is_refused(void **state)
{
    (void)state;
    pair_init();
    const char *text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_int_equal(to_server(text, strlen(text)), BELFRY_ERR_PROTOCOL);
    size_t n;
    assert_int_equal(pull_once(&n), BELFRY_ERR_PROTOCOL);
    assert_false(h2_server_wants_write(pair.h2));
    h2_server_shut(pair.h2);
    pair_fini();
}

/* ---- tests: floods ---- */

static int32_t open_with_value(char *value)
{
    nghttp2_nv nv[] = {field(":method", "POST"), field(":scheme", "http"), field(":path", "/large"),
                       field(":authority", "h"), field("x-large", value),  field("x-more", "1")};
    nv[4].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    return nghttp2_submit_request(pair.client.session, NULL, nv, 6, &client_body, NULL);
}

static void a_head_that_is_too_large_is_answered_431(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = serve_hello;
    char *value = malloc(H2_SERVER_HEADER_BYTES + 1);
    assert_non_null(value);
    memset(value, 'a', H2_SERVER_HEADER_BYTES);
    size_t most = H2_SERVER_HEADER_BYTES - 6 * 32 - 4 * 11 - 2 * 7; /* six fields, whose other bytes are these */
    value[most] = '\0';
    int32_t fits = open_with_value(value);
    value[most] = 'a';
    value[most + 1] = '\0';
    int32_t over = open_with_value(value); /* by its last field */
    value[most + 1] = 'a';
    value[most + 100] = '\0';
    int32_t far_over = open_with_value(value); /* by the field before, and the last is one more */
    free(value);
    int32_t next = client_get(&pair.client, "/next");
    assert_pumps();
    assert_string_equal(stream(fits)->head, ":status: 200\ncontent-type: application/grpc\n");
    assert_string_equal(stream(over)->head, ":status: 431\n");
    assert_int_equal(stream(over)->reset, NGHTTP2_NO_ERROR);
    assert_string_equal(stream(far_over)->head, ":status: 431\n");
    assert_string_equal(stream(next)->head, ":status: 200\ncontent-type: application/grpc\n");
    assert_memory_equal(pair.served[0].head, "POST|http|/large|h|x-large|aaa", 30);
    assert_string_equal(pair.served[1].head, "GET|http|/next|h:1|");
    assert_int_equal(pair.n_served, 2);
    assert_int_equal(h2_server_open(pair.h2), 0);
    pair_fini();
}

static void a_head_that_never_ends_is_bounded(void **state)
{
    (void)state;
    pair_init();
    assert_pumps();
    /* one literal field again and again, in CONTINUATIONs that never say END_HEADERS */
    uint8_t block[4 + 126] = {0x00, 0x01, 'x', 126};
    memset(block + 4, 'v', 126);
    size_t held = refuse_held();
    enum belfry_err err = raw_frame(NGHTTP2_HEADERS, 0, 1, block, sizeof(block));
    size_t n = 0;
    for (; n < 10000 && err == BELFRY_OK; n++)
        err = raw_frame(NGHTTP2_CONTINUATION, 0, 1, block, sizeof(block));
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    assert_true(n < 100);
    assert_true(refuse_held() <= held + 16);
    breach(err, NGHTTP2_ENHANCE_YOUR_CALM);
    pair_fini();
}

#define PACKED_VALUE 3900

/* A head without END_HEADERS that puts a long field into the table, so that from then on one byte stands for it. */
static void begin_packed_head(void)
{
    static uint8_t block[16 + PACKED_VALUE] = {0x83, 0x86, 0x84, 0x01, 1, 'a', 0x40, 1, 'x', 0x7f, 0xbd, 0x1d};
    assert_int_equal(0x1d << 7 | 0x3d, PACKED_VALUE - 127);
    memset(block + 12, 'v', PACKED_VALUE);
    assert_int_equal(raw_frame(NGHTTP2_HEADERS, 0, 1, block, 12 + PACKED_VALUE), BELFRY_OK);
}

static void packed_heads_are_unpacked_a_turn_at_a_time(void **state)
{
    (void)state;
    static uint8_t frame[9 + 16000] = {
        16000 >> 16, 16000 >> 8 & 0xff, 16000 & 0xff, NGHTTP2_CONTINUATION, 4, 0, 0, 0, 1};
    memset(frame + 9, 0xbe, 16000);
    pair_init();
    assert_pumps();
    begin_packed_head();
    size_t turns = 1;
    assert_int_equal(h2_server_receive(pair.h2, belfry_bytes_of(frame, sizeof(frame)), pair.now_ms), BELFRY_OK);
    assert_true(h2_server_is_behind(pair.h2));
    assert_false(h2_server_wants_read(pair.h2));
    assert_in_range(memory_used(), H2_SERVER_CONN + 15000, H2_SERVER_CONN + 64 * 1024); /* what is kept counts */
    for (; h2_server_is_behind(pair.h2); turns++) {
        assert_int_equal(h2_server_open(pair.h2), 0);
        assert_int_equal(h2_server_receive(pair.h2, (struct belfry_bytes){0}, pair.now_ms), BELFRY_OK);
    }
    assert_in_range(turns, 16000 / (H2_SERVER_TURN / PACKED_VALUE + 1),
                    16000 / (H2_SERVER_TURN / (PACKED_VALUE + 40)) + 2);
    assert_int_equal(h2_server_open(pair.h2), 1); /* it is answered 431 */
    assert_true(h2_server_wants_read(pair.h2));
    assert_true(memory_used() < H2_SERVER_CONN + 4096);
    pair_fini();
}

/* The last field of a head may be the one that is too much for a turn: then no byte is left to go on with. */
static void a_head_whose_last_field_ends_a_turn_is_completed(void **state)
{
    (void)state;
    bool ended_a_turn = false;
    for (unsigned n = 25; n < 40; n++) {
        uint8_t frame[9 + 40] = {0, 0, (uint8_t)n, NGHTTP2_CONTINUATION, 4, 0, 0, 0, 1};
        memset(frame + 9, 0xbe, n);
        pair_init();
        assert_pumps();
        begin_packed_head();
        assert_int_equal(h2_server_receive(pair.h2, belfry_bytes_of(frame, 9 + n), pair.now_ms), BELFRY_OK);
        ended_a_turn = ended_a_turn || h2_server_is_behind(pair.h2);
        for (int i = 0; i < 2 && h2_server_is_behind(pair.h2); i++)
            assert_int_equal(h2_server_receive(pair.h2, (struct belfry_bytes){0}, pair.now_ms), BELFRY_OK);
        assert_false(h2_server_is_behind(pair.h2));
        assert_int_equal(h2_server_open(pair.h2), 1);
        pair_fini();
    }
    assert_true(ended_a_turn);
}

/* Bytes that come while input is kept are used after it. */
static void input_that_follows_kept_input_waits_for_it(void **state)
{
    (void)state;
    static uint8_t frame[9 + 1000] = {0, 1000 >> 8, 1000 & 0xff, NGHTTP2_CONTINUATION, 4, 0, 0, 0, 1};
    static const uint8_t next[] = {0, 0, 6, NGHTTP2_HEADERS, 5, 0, 0, 0, 3, 0x83, 0x86, 0x84, 0x01, 1, 'a'};
    memset(frame + 9, 0xbe, 1000);
    pair_init();
    pair.on_begin = serve_hello;
    assert_pumps();
    begin_packed_head();
    assert_int_equal(h2_server_receive(pair.h2, belfry_bytes_of(frame, sizeof(frame)), pair.now_ms), BELFRY_OK);
    assert_int_equal(h2_server_receive(pair.h2, belfry_bytes_of(next, sizeof(next)), pair.now_ms), BELFRY_OK);
    assert_true(h2_server_is_behind(pair.h2));
    assert_int_equal(pair.n_served, 0);
    while (h2_server_is_behind(pair.h2))
        assert_int_equal(h2_server_receive(pair.h2, (struct belfry_bytes){0}, pair.now_ms), BELFRY_OK);
    assert_int_equal(pair.n_served, 1);
    pair_fini();
}

static void pings_that_are_not_fetched_end_the_connection(void **state)
{
    (void)state;
    pair_init();
    assert_pumps();
    enum belfry_err err = BELFRY_OK;
    size_t n = 0;
    for (; n < 5000 && err == BELFRY_OK; n++)
        err = raw_frame(NGHTTP2_PING, 0, 0, "12345678", 8);
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    assert_true(n >= 1000 && n < 1100);
    breach(err, NGHTTP2_ENHANCE_YOUR_CALM);
    pair_fini();
}

static void pings_that_are_fetched_are_never_punished(void **state)
{
    (void)state;
    pair_init();
    assert_pumps();
    for (size_t n = 0; n < 20000; n++) {
        assert_int_equal(nghttp2_submit_ping(pair.client.session, 0, NULL), 0);
        if (n % 500 == 499)
            assert_pumps();
    }
    assert_int_equal(pair.client.n_ping_acks, 20000);
    pair_fini();
}

/* Opens a stream and resets it before anything is pulled, `n` times; raw, for the client has no so many streams. */
static enum belfry_err rapid_resets(int32_t *id, size_t n)
{
    static const uint8_t block[] = {0x83, 0x86, 0x84, 0x41, 0x01, 'h'}; /* POST http / h */
    static const uint8_t cancel[] = {0, 0, 0, NGHTTP2_CANCEL};
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < n && err == BELFRY_OK; i++, *id += 2) {
        pair.n_served = 0; /* always the same place */
        pair.served[0] = (struct served){0};
        err = raw_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, *id, block, sizeof(block));
        if (err == BELFRY_OK)
            err = raw_frame(NGHTTP2_RST_STREAM, 0, *id, cancel, sizeof(cancel));
        assert_int_equal(h2_server_open(pair.h2), 0);
    }
    return err;
}

static void rapid_resets_end_the_connection(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond; /* which is no answer as long as nothing was pulled */
    assert_pumps();
    int32_t id = 1;
    assert_int_equal(rapid_resets(&id, 1000), BELFRY_OK);
    size_t n;
    assert_int_equal(pull_once(&n), BELFRY_OK);
    pair.now_ms += 1000;
    assert_int_equal(rapid_resets(&id, 200), BELFRY_OK);
    breach(rapid_resets(&id, 1), NGHTTP2_ENHANCE_YOUR_CALM);
    pair_fini();
}

static void parts_of_a_stream_are_kept_until_they_are_one(void **state)
{
    (void)state;
    static const uint8_t window[] = {0, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0, 0, 0xff, 0};
    pair_init();
    assert_pumps();
    int32_t id = 1;
    assert_int_equal(rapid_resets(&id, 1000), BELFRY_OK);
    for (int i = 0; i < 5; i++) { /* a fifth of a stream each; the SETTINGS cost nothing */
        pair.now_ms++;
        assert_int_equal(raw_frame(NGHTTP2_SETTINGS, 0, 0, window, sizeof(window)), BELFRY_OK);
    }
    assert_int_equal(rapid_resets(&id, 1), BELFRY_OK);
    pair.now_ms += 4;
    assert_int_equal(rapid_resets(&id, 1), BELFRY_ERR_PROTOCOL);
    pair_fini();
}

static void a_long_time_forgives_one_burst_and_no_more(void **state)
{
    (void)state;
    pair_init();
    assert_pumps();
    int32_t id = 1;
    assert_int_equal(rapid_resets(&id, 1000), BELFRY_OK);
    pair.now_ms = UINT64_MAX;
    assert_int_equal(rapid_resets(&id, 1000), BELFRY_OK);
    assert_int_equal(rapid_resets(&id, 1), BELFRY_ERR_PROTOCOL);
    pair_fini();
}

static void resets_at_a_steady_rate_are_forgiven(void **state)
{
    (void)state;
    pair_init();
    assert_pumps();
    int32_t id = 1;
    for (int i = 0; i < 500; i++) {
        assert_int_equal(rapid_resets(&id, 20), BELFRY_OK);
        pair.now_ms += 100;
    }
    assert_pumps();
    assert_int_equal(pair.client.n_goaways, 0);
    pair_fini();
}

static void resets_of_what_was_answered_are_never_counted(void **state)
{
    (void)state;
    pair_init();
    pair.on_begin = respond;
    assert_pumps();
    for (int i = 0; i < 1100; i++)
        client_open(&pair.client, "/watch");
    assert_pumps();
    for (int32_t i = 0; i < 1100; i++)
        client_reset(&pair.client, 1 + 2 * i);
    assert_pumps();
    assert_int_equal(pair.n_gone, 1100);
    assert_int_equal(pair.client.n_goaways, 0);
    pair_fini();
}

static void making_us_reset_streams_counts_as_well(void **state)
{
    (void)state;
    static const uint8_t block[] = {0x83, 0x86, 0x84, 0x41, 0x01, 'h'};
    static const uint8_t most[] = {0x7f, 0xff, 0xff, 0xff}; /* an update that overflows the stream's window */
    pair_init();
    assert_pumps();
    enum belfry_err err = BELFRY_OK;
    int32_t id = 1;
    for (; id < 2 * 5000 && err == BELFRY_OK; id += 2) {
        pair.n_served = 0;
        pair.served[0] = (struct served){0};
        struct belfry_buf out; /* not for the client, which did not ask for any of it */
        belfry_buf_init(&out);
        err = raw_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, block, sizeof(block));
        if (err == BELFRY_OK)
            err = raw_frame(NGHTTP2_WINDOW_UPDATE, 0, id, most, sizeof(most));
        if (err == BELFRY_OK)
            err = h2_server_pull(pair.h2, SIZE_MAX, &out);
        assert_true(belfry_buf_len(&out) > 0);
        belfry_buf_fini(&out);
    }
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    assert_int_equal(id, 1 + 2 * 1001);
    pair_fini();
}

static void malformed_requests_whose_resets_are_not_fetched_end_the_connection(void **state)
{
    (void)state;
    static const uint8_t block[] = {0x83, 0x86}; /* no :path */
    pair_init();
    assert_pumps();
    enum belfry_err err = BELFRY_OK;
    int32_t id = 1;
    for (; id < 20000 && err == BELFRY_OK; id += 2)
        err = raw_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, block, sizeof(block));
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    assert_true(id < 2 * 1100);
    assert_int_equal(pair.n_served, 0);
    pair_fini();
}

/* SETTINGS of another window for every stream, each answered; returns how many were taken. */
static size_t change_windows(size_t n, enum belfry_err *out_err)
{
    uint8_t window[] = {0, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0, 0, 0xff, 0};
    size_t taken = 0;
    for (*out_err = BELFRY_OK; taken < n && *out_err == BELFRY_OK; taken++) {
        struct belfry_buf out; /* not for the client, which did not send them */
        belfry_buf_init(&out);
        window[5] ^= 1;
        *out_err = raw_frame(NGHTTP2_SETTINGS, 0, 0, window, sizeof(window));
        if (*out_err == BELFRY_OK)
            *out_err = h2_server_pull(pair.h2, SIZE_MAX, &out);
        belfry_buf_fini(&out);
    }
    return taken;
}

/* Each costs a look at every stream. */
static void windows_of_many_streams_may_not_change_without_end(void **state)
{
    (void)state;
    enum belfry_err err;
    pair_init();
    pair.on_begin = respond;
    assert_pumps();
    client_open(&pair.client, "/watch");
    assert_pumps();
    assert_int_equal(change_windows(500, &err), 500); /* of one stream: never mind */
    assert_int_equal(err, BELFRY_OK);
    pair.now_ms += 60000;
    for (int i = 1; i < 1000; i++)
        client_open(&pair.client, "/watch");
    assert_pumps();
    assert_int_equal(change_windows(20, &err), 20); /* as a client finds out how much its line takes */
    assert_int_equal(err, BELFRY_OK);
    assert_in_range(change_windows(1000, &err), 50, 100);
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    pair_fini();
}

static void one_event_costs_only_so_much(void **state)
{
    (void)state;
    static const uint8_t block[] = {0x83, 0x86, 0x84, 0x41, 0x01, 'h'};
    enum belfry_err err;
    pair_init();
    pair.crowd = true;
    assert_pumps();
    for (int32_t i = 0; i < 20000; i++) /* for whose windows SETTINGS would count as 200 streams */
        assert_int_equal(raw_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1 + 2 * i, block, sizeof(block)), 0);
    assert_int_equal(change_windows(100, &err), 11);
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    pair_fini();
}

/* ---- tests: memory ---- */

static enum belfry_err scenario_steps(void)
{
    int32_t first = client_open(&pair.client, "/first"), second = client_open(&pair.client, "/second");
    client_send(&pair.client, first, 40000);
    enum belfry_err err = pump();
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < 2; i++) {
        respond(&pair.served[i]);
        write_on(&pair.served[i], 3000);
    }
    err = pump();
    if (err != BELFRY_OK)
        return err;
    end(&pair.served[0]);
    client_reset(&pair.client, second);
    client_get(&pair.client, "/third");
    err = pump();
    if (err != BELFRY_OK)
        return err;
    respond_with_many_fields(&pair.served[2]);
    h2_server_shut(pair.h2);
    return pump();
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = pair_begin(2000, 10);
    pair.on_body = take_all;
    if (err == BELFRY_OK)
        err = scenario_steps();
    h2_server_destroy(pair.h2);
    nghttp2_session_del(pair.client.session);
    for (size_t i = 0; i < pair.n_served; i++)
        assert_null(pair.served[i].x);
    shares_leave(&pair.conn.share);
    shares_fini(&pair.shares);
    return err;
}

static void running_out_of_memory_anywhere_is_survived(void **state)
{
    (void)state;
    assert_int_equal(scenario(), BELFRY_OK);
    assert_true(refuse_sweep(scenario) > 30);
}

static void a_failure_to_write_is_told_to_the_owner(void **state)
{
    (void)state;
    three_open();
    pair.n_flushes = 0;
    refuse_begin(0);
    exchange_write(pair.served[0].x, "x", 1);
    assert_true(refuse_end());
    assert_int_equal(pair.n_flushes, 1);
    assert_true(h2_server_wants_write(pair.h2));
    size_t n;
    assert_int_equal(pull_once(&n), BELFRY_ERR_NOMEM);
    assert_int_equal(pair.n_gone, 0);
    write_on(&pair.served[0], 10); /* what handlers say from now on is lost */
    end(&pair.served[1]);
    reset(&pair.served[2]);
    assert_int_equal(h2_server_bytes(pair.h2), 0);
    assert_int_equal(pull_once(&n), BELFRY_ERR_NOMEM);
    assert_int_equal(n, 0);
    pair_fini();
    assert_int_equal(pair.n_gone, 1);
}

static void an_idle_exchange_keeps_no_large_buffer(void **state)
{
    (void)state;
    pair_init_with(1 << 20, 0);
    pair.on_begin = respond;
    int32_t id = client_open(&pair.client, "/x");
    assert_pumps();
    size_t held = refuse_held();
    for (size_t i = 0; i < 32; i++) {
        write_on(&pair.served[0], 32768);
        assert_pumps();
    }
    assert_int_equal(stream(id)->n_data, 1 << 20);
    assert_false(stream(id)->wrong);
    assert_int_equal(refuse_held(), held);
    pair_fini();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_is_presented_with_all_its_fields),
        cmocka_unit_test(the_host_field_stands_in_for_the_authority),
        cmocka_unit_test(the_response_has_head_body_and_trailers),
        cmocka_unit_test(trailers_outlive_what_they_were_made_of),
        cmocka_unit_test(a_body_may_end_without_trailers),
        cmocka_unit_test(an_end_without_a_body_is_trailers_at_once),
        cmocka_unit_test(an_answer_without_a_body_is_headers_alone),
        cmocka_unit_test(what_answers_head_has_no_body),
        cmocka_unit_test(an_answer_has_its_status_and_body),
        cmocka_unit_test(a_response_may_have_many_fields),
        cmocka_unit_test(a_response_before_the_end_of_the_request_stops_it),
        cmocka_unit_test(trailers_too_large_to_send_reset_their_stream),
        cmocka_unit_test(a_body_comes_in_pieces_and_then_its_end),
        cmocka_unit_test(a_peer_sends_no_more_than_the_window_until_it_is_taken),
        cmocka_unit_test(what_comes_after_the_last_word_counts_as_taken),
        cmocka_unit_test(trailers_of_a_request_are_only_its_end),
        cmocka_unit_test(what_is_written_goes_out_in_one_frame_and_wants_one_flush),
        cmocka_unit_test(nothing_is_wanted_while_the_peer_gives_no_window),
        cmocka_unit_test(room_is_the_streams_window_less_what_waits),
        cmocka_unit_test(room_is_a_share_of_the_connections_window),
        cmocka_unit_test(what_piles_up_without_a_window_is_bounded),
        cmocka_unit_test(those_who_found_little_room_are_told_of_more),
        cmocka_unit_test(while_held_nobody_has_room),
        cmocka_unit_test(those_who_wait_cost_nothing_until_something_changes_for_them),
        cmocka_unit_test(a_streams_own_window_is_told_to_that_stream_alone),
        cmocka_unit_test(some_are_told_at_a_time_and_the_rest_at_the_next),
        cmocka_unit_test(a_larger_share_is_told),
        cmocka_unit_test(a_wide_window_is_shared_out_as_a_narrower_one),
        cmocka_unit_test(while_many_frames_wait_nothing_more_is_wanted),
        cmocka_unit_test(a_stream_for_which_there_is_no_memory_is_refused),
        cmocka_unit_test(what_waits_in_buffers_is_counted),
        cmocka_unit_test(while_memory_is_used_up_there_is_the_least_room),
        cmocka_unit_test(many_exchanges_are_served_interleaved),
        cmocka_unit_test(a_pull_stops_when_it_has_enough_and_loses_nothing),
        cmocka_unit_test(a_stream_reset_between_pulls_is_dropped),
        cmocka_unit_test(a_reset_by_the_peer_is_told_once),
        cmocka_unit_test(after_the_last_word_a_reset_is_not_told),
        cmocka_unit_test(a_reset_by_the_handler_reaches_the_peer),
        cmocka_unit_test(a_stream_that_breaks_the_protocol_is_gone),
        cmocka_unit_test(destroy_tells_everybody),
        cmocka_unit_test(exchanges_can_be_let_go_in_steps),
        cmocka_unit_test(any_event_may_end_any_exchange),
        cmocka_unit_test(a_handler_may_end_others_while_the_connection_is_destroyed),
        cmocka_unit_test(settings_are_announced),
        cmocka_unit_test(streams_over_the_limit_are_refused),
        cmocka_unit_test(a_ping_is_answered_at_once),
        cmocka_unit_test(a_ping_while_an_exchange_is_open_is_answered_with_the_next_bytes),
        cmocka_unit_test(a_ping_before_a_request_waits_for_its_answer),
        cmocka_unit_test(a_second_ping_does_not_wait),
        cmocka_unit_test(shut_lets_what_is_open_go_on),
        cmocka_unit_test(a_goaway_of_the_peer_ends_nothing),
        cmocka_unit_test(a_breach_of_the_protocol_ends_the_connection),
        cmocka_unit_test(what_is_not_http2_is_refused),
        cmocka_unit_test(a_head_that_is_too_large_is_answered_431),
        cmocka_unit_test(packed_heads_are_unpacked_a_turn_at_a_time),
        cmocka_unit_test(a_head_whose_last_field_ends_a_turn_is_completed),
        cmocka_unit_test(input_that_follows_kept_input_waits_for_it),
        cmocka_unit_test(a_head_that_never_ends_is_bounded),
        cmocka_unit_test(pings_that_are_not_fetched_end_the_connection),
        cmocka_unit_test(pings_that_are_fetched_are_never_punished),
        cmocka_unit_test(rapid_resets_end_the_connection),
        cmocka_unit_test(parts_of_a_stream_are_kept_until_they_are_one),
        cmocka_unit_test(a_long_time_forgives_one_burst_and_no_more),
        cmocka_unit_test(resets_at_a_steady_rate_are_forgiven),
        cmocka_unit_test(resets_of_what_was_answered_are_never_counted),
        cmocka_unit_test(making_us_reset_streams_counts_as_well),
        cmocka_unit_test(malformed_requests_whose_resets_are_not_fetched_end_the_connection),
        cmocka_unit_test(windows_of_many_streams_may_not_change_without_end),
        cmocka_unit_test(one_event_costs_only_so_much),
        cmocka_unit_test(running_out_of_memory_anywhere_is_survived),
        cmocka_unit_test(a_failure_to_write_is_told_to_the_owner),
        cmocka_unit_test(an_idle_exchange_keeps_no_large_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
