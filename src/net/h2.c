/* src/net/h2.c */
#include "net/h2.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/owner.h"
#include "net/h2_mem.h"

#define FRAME_BYTES    (16 * 1024 + 64) /* nghttp2 hands out at most one frame of 16 KiB and its header at a time */
#define FIELD_OVERHEAD 32               /* RFC 9113, 6.5.2 */
#define WHY_BYTES      160

/* What has become of the connection. DOWN is final: nghttp2's state cannot be relied on and is not touched again.
 *
 *     UP --> ENDING --> DOWN
 *      \________________^
 */
enum h2_state {
    UP,
    ENDING, /* a GOAWAY of ours is queued or sent; nghttp2 ignores what comes */
    DOWN    /* out of memory, flooded, or the socket is gone */
};

struct belfry_h2 {
    /* fixed at creation */
    nghttp2_session *session; /* owned */
    const struct belfry_h2_events *events;
    void *user;
    /* owner only */
    enum h2_state state;
    enum belfry_err failed; /* first failure that could not be returned where it happened */
    bool goaway_received;
    bool starved;        /* nghttp2 was refused memory */
    size_t n_streams;    /* submitted and not closed, let go or not: what counts against the peer's limit */
    size_t header_bytes; /* of the block that is being received; blocks do not interleave */
    char why[WHY_BYTES]; /* what was wrong with the bytes received last; "" when nothing was */
    BELFRY_OWNER;
};

/* Running out of memory while packing headers makes nghttp2 end the connection as if the peer were to blame. */
static enum belfry_err blame(const struct belfry_h2 *h2)
{
    return h2->starved ? BELFRY_ERR_NOMEM : BELFRY_ERR_PROTOCOL;
}

static enum belfry_err err_of(const struct belfry_h2 *h2, ssize_t rc)
{
    if (rc >= 0)
        return BELFRY_OK;
    return rc == NGHTTP2_ERR_NOMEM ? BELFRY_ERR_NOMEM : blame(h2);
}

/* For functions without a result: kept until receive or pull can report it. */
static void note_failure(struct belfry_h2 *h2, enum belfry_err err)
{
    if (err != BELFRY_OK && h2->failed == BELFRY_OK)
        h2->failed = err;
}

static int to_nghttp2(struct belfry_h2 *h2, enum belfry_err err)
{
    note_failure(h2, err);
    return err == BELFRY_OK ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static struct belfry_h2_stream *stream_of(const struct belfry_h2 *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2->session, id);
}

/* From here on no event names the stream. */
static int32_t let_go(struct belfry_h2 *h2, struct belfry_h2_stream *stream)
{
    int32_t id = stream->id;
    stream->id = 0;
    if (id != 0)
        nghttp2_session_set_stream_user_data(h2->session, id, NULL); /* also finds a request that is still queued */
    return id;
}

static void close_with(struct belfry_h2 *h2, struct belfry_h2_stream *stream, uint32_t code, const char *why)
{
    belfry_h2_reset(h2, stream, code);
    h2->events->closed(stream, code, why, h2->user);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    (void)frame;
    struct belfry_h2 *h2 = user;
    h2->header_bytes = 0;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    (void)session;
    (void)flags;
    struct belfry_h2 *h2 = user;
    struct belfry_h2_stream *stream = stream_of(h2, frame->hd.stream_id);
    if (stream == NULL || frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    h2->header_bytes += name_len + value_len + FIELD_OVERHEAD;
    if (h2->header_bytes > BELFRY_H2_HEADER_BYTES) {
        stream->flooded = true;
        close_with(h2, stream, NGHTTP2_INTERNAL_ERROR, "response headers over 64 KiB");
        return 0;
    }
    return to_nghttp2(
        h2, h2->events->field(stream, belfry_bytes_of(name, name_len), belfry_bytes_of(value, value_len), h2->user));
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct belfry_h2 *h2 = user;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        h2->goaway_received = true;
        h2->events->goaway(frame->goaway.last_stream_id, frame->goaway.error_code,
                           belfry_bytes_of(frame->goaway.opaque_data, frame->goaway.opaque_data_len), h2->user);
        return 0;
    }
    struct belfry_h2_stream *stream = stream_of(h2, frame->hd.stream_id);
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (stream != NULL && frame->hd.type == NGHTTP2_HEADERS)
        return to_nghttp2(h2, h2->events->block(stream, last, h2->user));
    if (stream != NULL && frame->hd.type == NGHTTP2_DATA && last)
        return to_nghttp2(h2, h2->events->end(stream, h2->user));
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                         void *user)
{
    (void)flags;
    struct belfry_h2 *h2 = user;
    if (nghttp2_session_consume_connection(session, len) != 0)
        return to_nghttp2(h2, BELFRY_ERR_NOMEM);
    struct belfry_h2_stream *stream = stream_of(h2, id);
    if (stream == NULL)
        return 0;
    return to_nghttp2(h2, h2->events->data(stream, belfry_bytes_of(data, len), h2->user));
}

/* A frame that breaks the rules of its stream. nghttp2 has queued the RST_STREAM; the owner hears of it now, not when
 * that is pulled. For a breach of the connection's rules the reason is kept. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
    (void)session;
    struct belfry_h2 *h2 = user;
    if (h2->why[0] == '\0')
        snprintf(h2->why, sizeof(h2->why), "%s", nghttp2_strerror(error));
    struct belfry_h2_stream *stream = frame->hd.stream_id == 0 ? NULL : stream_of(h2, frame->hd.stream_id);
    if (stream != NULL) {
        let_go(h2, stream);
        h2->events->closed(stream, NGHTTP2_PROTOCOL_ERROR, h2->why, h2->user);
    }
    return 0;
}

static int on_error(nghttp2_session *session, int error, const char *text, size_t len, void *user)
{
    (void)session;
    (void)error;
    struct belfry_h2 *h2 = user;
    snprintf(h2->why, sizeof(h2->why), "%.*s", (int)(len < WHY_BYTES ? len : WHY_BYTES), text);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    (void)session;
    struct belfry_h2 *h2 = user;
    h2->n_streams--;
    struct belfry_h2_stream *stream = stream_of(h2, id);
    if (stream == NULL)
        return 0;
    let_go(h2, stream);
    h2->events->closed(stream, code, nghttp2_http2_strerror(code), h2->user);
    return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct belfry_h2 *h2 = user;
    if (frame->hd.type == NGHTTP2_GOAWAY && h2->state == UP)
        h2->state = ENDING; /* one that nghttp2 decided on */
    if (frame->hd.type == NGHTTP2_HEADERS) {
        struct belfry_h2_stream *stream = stream_of(h2, frame->hd.stream_id);
        if (stream != NULL) {
            stream->pulled = true;
            if (h2->events->pulled != NULL)
                h2->events->pulled(stream, h2->user);
        }
    }
    return 0;
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)source;
    struct belfry_h2 *h2 = user;
    struct belfry_h2_stream *stream = stream_of(h2, id);
    if (stream == NULL)
        return NGHTTP2_ERR_DEFERRED; /* let go: its RST_STREAM is on the way */
    bool end = false;
    size_t n = h2->events->read(stream, to, cap, &end, h2->user);
    if (end)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    stream->deferred = n == 0 && !end;
    return stream->deferred ? NGHTTP2_ERR_DEFERRED : (ssize_t)n;
}

static enum belfry_err session_create(struct belfry_h2 *h2)
{
    nghttp2_mem mem = belfry_h2_mem(&h2->starved);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int rc = nghttp2_session_callbacks_new(&callbacks);
    if (rc == 0)
        rc = nghttp2_option_new(&option);
    if (rc == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
        nghttp2_session_callbacks_set_error_callback2(callbacks, on_error);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
        nghttp2_option_set_no_auto_window_update(option, 1);
        rc = nghttp2_session_client_new3(&h2->session, callbacks, h2, option, &mem);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return rc == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static enum belfry_err greet(struct belfry_h2 *h2, uint32_t window)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, BELFRY_H2_HEADER_BYTES},
    };
    int rc = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, sizeof(settings) / sizeof(settings[0]));
    if (rc == 0)
        rc = nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, BELFRY_H2_CONNECTION_WINDOW);
    return rc == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

enum belfry_err belfry_h2_create(uint32_t window, const struct belfry_h2_events *events, void *user,
                                 struct belfry_h2 **out)
{
    struct belfry_h2 *h2 = calloc(1, sizeof(*h2));
    if (h2 == NULL)
        return BELFRY_ERR_NOMEM;
    h2->events = events;
    h2->user = user;
    enum belfry_err err = session_create(h2);
    if (err == BELFRY_OK)
        err = greet(h2, window);
    if (err != BELFRY_OK) {
        belfry_h2_destroy(h2);
        return err;
    }
    BELFRY_OWNER_INIT(h2);
    *out = h2;
    return BELFRY_OK;
}

void belfry_h2_destroy(struct belfry_h2 *h2)
{
    if (h2 == NULL)
        return;
    BELFRY_OWNER_CHECK(h2);
    nghttp2_session_del(h2->session);
    free(h2);
}

/* nghttp2 answers a breach of the protocol by queueing a GOAWAY of its own and going deaf, without an error; that it
 * then allows no new request gives it away. After the peer's GOAWAY it never does, and pull finds out instead. */
static bool went_deaf(const struct belfry_h2 *h2)
{
    return !h2->goaway_received && nghttp2_session_get_next_stream_id(h2->session) <= INT32_MAX &&
           nghttp2_session_check_request_allowed(h2->session) == 0;
}

/* What receive and pull return: a failure of nghttp2 (rc), one noted on the way, or the end of the connection. */
static enum belfry_err outcome(struct belfry_h2 *h2, ssize_t rc)
{
    if (rc < 0 || h2->failed != BELFRY_OK) {
        note_failure(h2, err_of(h2, rc));
        h2->state = DOWN;
        if (h2->why[0] == '\0')
            snprintf(h2->why, sizeof(h2->why), "%s",
                     h2->failed == BELFRY_ERR_PROTOCOL ? nghttp2_strerror((int)rc) : belfry_strerror((int)h2->failed));
        return h2->failed;
    }
    if (h2->state == UP && went_deaf(h2))
        h2->state = ENDING;
    return h2->state == UP ? BELFRY_OK : blame(h2);
}

enum belfry_err belfry_h2_receive(struct belfry_h2 *h2, struct belfry_bytes bytes)
{
    BELFRY_OWNER_CHECK(h2);
    if (h2->state == DOWN)
        return h2->failed;
    if (h2->state == UP)
        h2->why[0] = '\0'; /* what was said of a stream is no reason for the connection */
    return outcome(h2, nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes.data, bytes.len));
}

enum belfry_err belfry_h2_pull(struct belfry_h2 *h2, size_t enough, struct belfry_buf *out)
{
    BELFRY_OWNER_CHECK(h2);
    if (h2->state == DOWN)
        return h2->failed;
    ssize_t n = 1;
    while (n > 0 && h2->failed == BELFRY_OK && belfry_buf_len(out) < enough && belfry_h2_wants_write(h2)) {
        uint8_t *room;
        note_failure(h2, belfry_buf_reserve(out, FRAME_BYTES, &room)); /* first: what nghttp2 gives is given once */
        if (h2->failed != BELFRY_OK)
            break;
        const uint8_t *frame;
        n = nghttp2_session_mem_send(h2->session, &frame);
        if (n > 0)
            note_failure(h2, belfry_buf_append(out, frame, (size_t)n));
    }
    return outcome(h2, n);
}

bool belfry_h2_wants_write(const struct belfry_h2 *h2)
{
    return h2->state != DOWN && nghttp2_session_want_write(h2->session) != 0;
}

const char *belfry_h2_why(const struct belfry_h2 *h2)
{
    if (h2->why[0] != '\0')
        return h2->why;
    return h2->starved ? belfry_strerror(BELFRY_ERR_NOMEM) : "the peer broke the HTTP/2 protocol";
}

size_t belfry_h2_room(const struct belfry_h2 *h2)
{
    size_t limit = nghttp2_session_get_remote_settings(h2->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return limit > h2->n_streams ? limit - h2->n_streams : 0;
}

static enum belfry_err submit(struct belfry_h2 *h2, const nghttp2_nv *fields, size_t n,
                              const nghttp2_data_provider *body, struct belfry_h2_stream *stream)
{
    int32_t id = nghttp2_submit_request(h2->session, NULL, fields, n, body, stream);
    if (id < 0)
        return id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE ? BELFRY_ERR_LIMIT : err_of(h2, id);
    *stream = (struct belfry_h2_stream){.id = id};
    h2->n_streams++;
    return BELFRY_OK;
}

enum belfry_err belfry_h2_submit(struct belfry_h2 *h2, const nghttp2_nv *fields, size_t n,
                                 struct belfry_h2_stream *stream)
{
    BELFRY_OWNER_CHECK(h2);
    nghttp2_data_provider body = {.read_callback = on_read};
    return submit(h2, fields, n, &body, stream);
}

enum belfry_err belfry_h2_submit_bodiless(struct belfry_h2 *h2, const nghttp2_nv *fields, size_t n,
                                          struct belfry_h2_stream *stream)
{
    BELFRY_OWNER_CHECK(h2);
    return submit(h2, fields, n, NULL, stream);
}

enum belfry_err belfry_h2_resume(struct belfry_h2 *h2, struct belfry_h2_stream *stream)
{
    BELFRY_OWNER_CHECK(h2);
    if (stream->id == 0 || !stream->deferred || h2->state == DOWN)
        return BELFRY_OK;
    stream->deferred = false;
    return nghttp2_session_resume_data(h2->session, stream->id) == NGHTTP2_ERR_NOMEM ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static void submit_rst(struct belfry_h2 *h2, int32_t id, uint32_t code)
{
    if (id != 0 && h2->state != DOWN)
        note_failure(h2, err_of(h2, nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, id, code)));
}

void belfry_h2_finish(struct belfry_h2 *h2, struct belfry_h2_stream *stream)
{
    BELFRY_OWNER_CHECK(h2);
    int32_t id = let_go(h2, stream);
    if (id != 0 && nghttp2_session_get_stream_local_close(h2->session, id) == 0)
        submit_rst(h2, id, NGHTTP2_NO_ERROR);
}

void belfry_h2_reset(struct belfry_h2 *h2, struct belfry_h2_stream *stream, uint32_t code)
{
    BELFRY_OWNER_CHECK(h2);
    submit_rst(h2, let_go(h2, stream), code);
}

void belfry_h2_taken(struct belfry_h2 *h2, struct belfry_h2_stream *stream, size_t n)
{
    BELFRY_OWNER_CHECK(h2);
    if (stream->id != 0 && n > 0 && h2->state != DOWN)
        note_failure(h2, err_of(h2, nghttp2_session_consume_stream(h2->session, stream->id, n)));
}

enum belfry_err belfry_h2_ping(struct belfry_h2 *h2)
{
    BELFRY_OWNER_CHECK(h2);
    return h2->state == DOWN ? h2->failed : err_of(h2, nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL));
}

void belfry_h2_terminate(struct belfry_h2 *h2, uint32_t code)
{
    BELFRY_OWNER_CHECK(h2);
    if (h2->state != UP)
        return;
    h2->state = ENDING;
    note_failure(h2, err_of(h2, nghttp2_session_terminate_session(h2->session, code)));
}

void belfry_h2_abandon(struct belfry_h2 *h2)
{
    BELFRY_OWNER_CHECK(h2);
    note_failure(h2, BELFRY_ERR_UNAVAILABLE);
    h2->state = DOWN;
}
