/* tests/storm/origin.c */
#include "storm/origin.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "storm/frames.h"
#include "storm/verdict.h"
#include "support/h2_nv.h"

#define CONNS    16
#define BODY_MAX (256 * 1024) /* of a request that is kept */
#define OUT_MAX  (200 * 1024)
#define CODES    14 /* of HTTP/2's errors */

struct origin_conn {
    int fd; /* -1: free */
    nghttp2_session *session;
    struct belfry_list calls;
    struct belfry_buf out;
    bool is_broken;
    bool is_mute;    /* sends what is in `out`, and nothing more */
    bool knows_none; /* has said that no call of it is processed: so none will be */
};

static struct {
    const struct origin_dialect *dialect;
    struct choices *choices;
    char path[108];
    int fd; /* -1: not listening */
    bool is_orderly;
    enum origin_fault fault;
    struct origin_conn conns[CONNS];
} origin;

static struct origin_call *call_of(struct belfry_list *node)
{
    return belfry_container(node, struct origin_call, node);
}

/* ---- answers ---- */

static size_t copy_fields(nghttp2_nv *to, const struct origin_field *fields, size_t n)
{
    verdict_must(n <= ORIGIN_FIELDS, "fields");
    for (size_t i = 0; i < n; i++)
        to[i] = h2_nv(fields[i].name, fields[i].value);
    return n;
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    struct origin_call *call = source->ptr;
    struct belfry_bytes left = belfry_buf_bytes(&call->answer);
    size_t n = left.len < cap ? left.len : cap;
    (void)user;
    if (n == 0 && !call->is_over)
        return NGHTTP2_ERR_DEFERRED;
    if (n > 0)
        memcpy(to, left.data, n);
    belfry_buf_take(&call->answer, n);
    if (!call->is_over || n < left.len)
        return (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (call->n_trailers > 0) {
        nghttp2_nv trailers[ORIGIN_FIELDS];
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, id, trailers, copy_fields(trailers, call->trailers, call->n_trailers));
    }
    return (ssize_t)n;
}

void origin_respond(struct origin_call *call, const char *status, const struct origin_field *fields, size_t n)
{
    nghttp2_nv head[1 + ORIGIN_FIELDS] = {h2_nv(":status", status)};
    nghttp2_data_provider provider = {.source = {.ptr = call}, .read_callback = on_read};
    if (!call->has_head)
        nghttp2_submit_response(call->conn->session, call->id, head, 1 + copy_fields(head + 1, fields, n), &provider);
    call->has_head = call->is_processed = true;
}

void origin_write(struct origin_call *call, const void *data, size_t len)
{
    verdict_must(belfry_buf_append(&call->answer, data, len) == BELFRY_OK, "an answer");
    nghttp2_session_resume_data(call->conn->session, call->id);
}

void origin_end(struct origin_call *call, const struct origin_field *trailers, size_t n)
{
    verdict_must(n <= ORIGIN_FIELDS, "trailers");
    call->is_over = true;
    call->due_ms = BELFRY_NEVER;
    call->n_trailers = n;
    for (size_t i = 0; i < n; i++)
        call->trailers[i] = trailers[i];
    nghttp2_session_resume_data(call->conn->session, call->id);
}

void origin_reset(struct origin_call *call, uint32_t code)
{
    call->is_over = true;
    call->due_ms = BELFRY_NEVER;
    nghttp2_submit_rst_stream(call->conn->session, 0, call->id, code);
}

/* ---- what comes ---- */

static struct origin_call *call_find(struct origin_conn *conn, int32_t id)
{
    return nghttp2_session_get_stream_user_data(conn->session, id);
}

static void call_free(struct origin_call *call)
{
    belfry_list_remove(&call->node);
    belfry_buf_fini(&call->body);
    belfry_buf_fini(&call->answer);
    free(call);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct origin_conn *conn = user;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct origin_call *call = calloc(1, sizeof(*call));
    verdict_must(call != NULL, "a call");
    call->conn = conn;
    call->due_ms = BELFRY_NEVER;
    call->id = frame->hd.stream_id;
    belfry_list_append(&conn->calls, &call->node);
    nghttp2_session_set_stream_user_data(session, call->id, call);
    return 0;
}

static void copy(char *to, size_t room, const uint8_t *from, size_t len)
{
    size_t n = len < room - 1 ? len : room - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct origin_call *call = call_find(user, frame->hd.stream_id);
    struct belfry_bytes field = belfry_bytes_of(name, name_len);
    (void)session, (void)flags;
    if (call == NULL)
        return 0;
    const struct {
        const char *name;
        char *to;
        size_t room;
    } kept[] = {{":method", call->method, sizeof(call->method)},
                {":path", call->path, sizeof(call->path)},
                {"token", call->token, sizeof(call->token)},
                {"authorization", call->token, sizeof(call->token)},
                {"if-none-match", call->if_none_match, sizeof(call->if_none_match)}};
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (belfry_bytes_equal(field, belfry_bytes_str(kept[i].name)))
            copy(kept[i].to, kept[i].room, value, value_len);
    if (belfry_bytes_equal(field, belfry_bytes_str("belfry-rights")))
        call->is_question = true;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    struct origin_call *call = call_find(user, id);
    (void)session, (void)flags;
    if (call != NULL && belfry_buf_len(&call->body) + len <= BODY_MAX)
        verdict_must(belfry_buf_append(&call->body, data, len) == BELFRY_OK, "a body");
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    bool is_part = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    struct origin_conn *conn = user;
    struct origin_call *call = frame->hd.stream_id != 0 && is_part ? call_find(conn, frame->hd.stream_id) : NULL;
    (void)session;
    if (call == NULL || call->is_over || conn->knows_none || origin.fault == ORIGIN_SILENT)
        return 0;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        origin.dialect->serve(call);
    else if (frame->hd.type == NGHTTP2_DATA && origin.dialect->more != NULL)
        origin.dialect->more(call);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct origin_call *call = call_find(user, id);
    (void)session, (void)code;
    if (call != NULL)
        call_free(call);
    return 0;
}

/* ---- connections ---- */

static void conn_open(struct origin_conn *conn, int fd)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    *conn = (struct origin_conn){.fd = fd};
    belfry_list_init(&conn->calls);
    verdict_must(nghttp2_session_callbacks_new(&callbacks) == 0, "nghttp2");
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    verdict_must(nghttp2_option_new(&option) == 0, "nghttp2");
    nghttp2_option_set_no_closed_streams(option, 1); /* else it remembers as many as may be open */
    verdict_must(nghttp2_session_server_new2(&conn->session, callbacks, conn, option) == 0, "nghttp2");
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_settings_entry limit = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                    origin.is_orderly ? UINT32_MAX : 1 + choose(origin.choices, 64)};
    nghttp2_submit_settings(conn->session, 0, &limit, 1);
}

static void conn_close(struct origin_conn *conn)
{
    if (conn->fd < 0)
        return;
    for (struct belfry_list *node; (node = belfry_list_pop(&conn->calls)) != NULL;)
        call_free(call_of(node));
    nghttp2_session_del(conn->session);
    belfry_buf_fini(&conn->out);
    close(conn->fd);
    conn->fd = -1;
}

static bool conn_read(struct origin_conn *conn)
{
    static uint8_t in[64 * 1024];
    ssize_t n = recv(conn->fd, in, sizeof(in), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        conn->is_broken = true;
    else if (n > 0 && nghttp2_session_mem_recv(conn->session, in, (size_t)n) < 0)
        conn->is_broken = true;
    return n > 0 || conn->is_broken;
}

static bool conn_answer_due(struct origin_conn *conn)
{
    bool did = false;
    uint64_t now_ms = belfry_clock_ms();
    belfry_list_each_safe (node, &conn->calls) {
        struct origin_call *call = call_of(node);
        if (call->due_ms == BELFRY_NEVER || call->due_ms > now_ms || conn->knows_none)
            continue;
        call->due_ms = BELFRY_NEVER;
        origin.dialect->due(call);
        did = true;
    }
    return did;
}

static bool conn_write(struct origin_conn *conn)
{
    const uint8_t *data;
    ssize_t n;
    while (!conn->is_mute && belfry_buf_len(&conn->out) < OUT_MAX &&
           (n = nghttp2_session_mem_send(conn->session, &data)) > 0)
        verdict_must(belfry_buf_append(&conn->out, data, (size_t)n) == BELFRY_OK, "output");
    struct belfry_bytes out = belfry_buf_bytes(&conn->out);
    n = out.len == 0 ? 0 : send(conn->fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        belfry_buf_take(&conn->out, (size_t)n);
    else if (n < 0 && errno != EAGAIN)
        conn->is_broken = true;
    return n > 0;
}

static bool accept_one(void)
{
    for (size_t i = 0; i < CONNS; i++) {
        if (origin.conns[i].fd >= 0)
            continue;
        int fd = accept4(origin.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            conn_open(&origin.conns[i], fd);
        return fd >= 0;
    }
    return false;
}

bool origin_turn(void)
{
    if (origin.fault == ORIGIN_DEAF)
        return false;
    bool did = origin.fd >= 0 && accept_one();
    for (size_t i = 0; i < CONNS; i++) {
        struct origin_conn *conn = &origin.conns[i];
        if (conn->fd < 0)
            continue;
        did = conn_read(conn) || did;
        did = conn_answer_due(conn) || did;
        did = conn_write(conn) || did;
        if (conn->is_broken)
            conn_close(conn);
    }
    return did;
}

uint64_t origin_due(void)
{
    uint64_t due_ms = BELFRY_NEVER;
    for (size_t i = 0; i < CONNS; i++) {
        struct origin_conn *conn = &origin.conns[i];
        for (struct belfry_list *node = conn->calls.next; conn->fd >= 0 && node != &conn->calls; node = node->next)
            due_ms = belfry_min_time(due_ms, call_of(node)->due_ms);
    }
    return due_ms;
}

/* ---- the run's ---- */

static void origin_listen(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (origin.fd >= 0)
        return;
    unlink(origin.path);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", origin.path);
    origin.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    verdict_must(origin.fd >= 0 && bind(origin.fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                     listen(origin.fd, 64) == 0,
                 "a unix socket");
}

static void stop_listening(void)
{
    if (origin.fd >= 0)
        close(origin.fd);
    origin.fd = -1;
}

void origin_open(const struct origin_dialect *dialect, const char *path, struct choices *choices)
{
    memset(&origin, 0, sizeof(origin));
    origin.fd = -1;
    origin.dialect = dialect;
    origin.choices = choices;
    snprintf(origin.path, sizeof(origin.path), "%s", path);
    for (size_t i = 0; i < CONNS; i++)
        origin.conns[i].fd = -1;
    origin_listen();
}

void origin_close(void)
{
    origin_strike(ORIGIN_DROP);
    stop_listening();
    unlink(origin.path);
}

void origin_set_orderly(void)
{
    origin.is_orderly = true;
}

void origin_set_fault(enum origin_fault fault)
{
    origin.fault = fault;
    if (fault == ORIGIN_AWAY)
        stop_listening();
    else
        origin_listen();
    if (fault == ORIGIN_AWAY)
        origin_strike(ORIGIN_DROP);
}

enum origin_fault origin_fault(void)
{
    return origin.fault;
}

static bool conn_has_processed(struct origin_conn *conn)
{
    for (struct belfry_list *node = conn->calls.next; node != &conn->calls; node = node->next)
        if (call_of(node)->is_processed)
            return true;
    return false;
}

static void conn_reset_first(struct origin_conn *conn)
{
    uint32_t code = choose(origin.choices, CODES);
    if (belfry_list_empty(&conn->calls))
        return;
    struct origin_call *call = call_of(conn->calls.next);
    origin_reset(call, call->is_processed && code == NGHTTP2_REFUSED_STREAM ? NGHTTP2_INTERNAL_ERROR : code);
}

/* HEADERS of 64 bytes, of which 12 are there: ":status: 200" and the beginning of a name. */
static void conn_send_half(struct origin_conn *conn)
{
    static const uint8_t block[64] = {0x88, 0x40, 0x20, 'x', '-', 'h', 'a', 'l', 'f', 'a', 'n', 'd'};
    struct belfry_buf frame;
    if (belfry_list_empty(&conn->calls))
        return;
    belfry_buf_init(&frame);
    frame_write(&frame, FRAME_HEADERS, FRAME_END_HEADERS, (uint32_t)call_of(conn->calls.next)->id, block,
                sizeof(block));
    verdict_must(belfry_buf_append(&conn->out, belfry_buf_bytes(&frame).data, 9 + 12) == BELFRY_OK, "half a head");
    belfry_buf_fini(&frame);
    conn->is_mute = true;
}

static void conn_strike(struct origin_conn *conn, enum origin_blow blow)
{
    static const uint8_t garbage[] = "HTTP/1.1 400 Bad Request\r\n\r\n\0\0\xff";
    switch (blow) {
    case ORIGIN_DROP:
        conn_close(conn);
        break;
    case ORIGIN_GOAWAY:
        if (choose(origin.choices, 2) == 0 && !conn_has_processed(conn))
            conn->knows_none = true; /* and stays so: a later GOAWAY must not take it back */
        nghttp2_submit_goaway(conn->session, 0, conn->knows_none ? 0 : 0x7fffffff, 0, NULL, 0);
        break;
    case ORIGIN_RESET:
        conn_reset_first(conn);
        break;
    case ORIGIN_GARBAGE:
        verdict_must(belfry_buf_append(&conn->out, garbage, sizeof(garbage)) == BELFRY_OK, "garbage");
        break;
    case ORIGIN_HALF:
        conn_send_half(conn);
        break;
    case ORIGIN_BLOWS:
        break;
    }
}

void origin_strike(enum origin_blow blow)
{
    for (size_t i = 0; i < CONNS; i++)
        if (origin.conns[i].fd >= 0)
            conn_strike(&origin.conns[i], blow);
}
