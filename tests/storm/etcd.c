/* tests/storm/etcd.c */
#include "storm/etcd.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "storm/feed.h"
#include "storm/messages.h"
#include "storm/verdict.h"
#include "wire/rpc.pb-c.h"

#define CONNS       16
#define BODY_MAX    (256 * 1024) /* of a request that is kept */
#define ANSWER_MAX  (200 * 1024)
#define ETCD_TTL_S  30
#define NO_USER     "etcdserver: user name is empty"
#define BAD_TOKEN   "etcdserver: invalid auth token"
#define DENIED      "etcdserver: permission denied"
#define FUTURE      "etcdserver: mvcc: required revision is a future revision"
#define AUTH_OFF    "etcdserver: authentication is not enabled"
#define AUTH_FAILED "etcdserver: authentication failed, invalid user ID or password"

struct call {
    struct belfry_list node;
    struct conn *conn;
    int32_t id;
    char path[96], token[128];
    bool is_question; /* about rights */
    bool has_head, is_over;
    struct belfry_buf body, answer;
    const char *status, *message; /* of the trailers */
    uint64_t due_ms;              /* when it is answered; BELFRY_NEVER: this is not decided by time */
};

struct conn {
    int fd; /* -1: free */
    nghttp2_session *session;
    struct belfry_list calls;
    struct belfry_buf out;
    bool is_broken;
};

static struct {
    struct choices *choices;
    char path[108];
    int fd; /* -1: not listening */
    bool auth;
    bool is_orderly;
    enum etcd_fault fault;
    int64_t last_lease;
    struct conn conns[CONNS];
} etcd;

/* ---- answers ---- */

static nghttp2_nv nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    struct call *call = source->ptr;
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
    nghttp2_nv trailers[] = {nv("grpc-status", call->status), nv("grpc-message", call->message)};
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    nghttp2_submit_trailer(session, id, trailers, 2);
    return (ssize_t)n;
}

static void call_respond(struct call *call)
{
    nghttp2_nv head[] = {nv(":status", "200"), nv("content-type", "application/grpc")};
    nghttp2_data_provider provider = {.source = {.ptr = call}, .read_callback = on_read};
    if (!call->has_head)
        nghttp2_submit_response(call->conn->session, call->id, head, 2, &provider);
    call->has_head = true;
    nghttp2_session_resume_data(call->conn->session, call->id);
}

static void call_end(struct call *call, const char *status, const char *message)
{
    call->is_over = true;
    call->status = status;
    call->message = message;
    call_respond(call);
}

static void call_message(struct call *call, const void *message, size_t len)
{
    const uint8_t prefix[] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    verdict_must(belfry_buf_append(&call->answer, prefix, sizeof(prefix)) == BELFRY_OK &&
                     belfry_buf_append(&call->answer, message, len) == BELFRY_OK,
                 "an answer");
    call_respond(call);
}

/* Of every response. */
static Etcdserverpb__ResponseHeader response_header(void)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.cluster_id = 7;
    header.member_id = 8;
    header.raft_term = 9;
    header.revision = feed_head();
    return header;
}

/* A message with nothing but a header, and perhaps more. */
static void call_answer_header(struct call *call, size_t more)
{
    static uint8_t packed[ANSWER_MAX + 64];
    Etcdserverpb__ResponseHeader header = response_header();
    Etcdserverpb__RangeResponse response = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    response.header = &header;
    size_t len = etcdserverpb__range_response__pack(&response, packed);
    if (more > 4) { /* a field that no reader knows, as long as it is wanted */
        packed[len++] = 15 << 3 | 2;
        for (size_t n = more; len < sizeof(packed); n >>= 7) {
            packed[len++] = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
            if (n <= 0x7f)
                break;
        }
        memset(packed + len, 'u', more);
        len += more;
    }
    call_message(call, packed, len);
    call_end(call, "0", "");
}

static void call_log_in(struct call *call)
{
    struct belfry_bytes body = belfry_buf_bytes(&call->body);
    Etcdserverpb__AuthenticateResponse response;
    static char jwt[] = "e30.eyJyZXZpc2lvbiI6MTd9.c2ln"; /* with the revision 17 of the auth store */
    uint8_t packed[256];
    etcdserverpb__authenticate_response__init(&response);
    response.token = jwt;
    if (!etcd.auth)
        call_end(call, "9", AUTH_OFF);
    else if (body.len <= 5) /* without a name: is auth on? */
        call_end(call, "3", AUTH_FAILED);
    else {
        call_message(call, packed, etcdserverpb__authenticate_response__pack(&response, packed));
        call_end(call, "0", "");
    }
}

/* Why it is refused; NULL: it is not. */
static const char *call_refusal(const struct call *call, const char **status)
{
    struct belfry_bytes body = belfry_buf_bytes(&call->body);
    bool is_made = strchr(call->token, '.') != NULL, is_part = strcmp(call->token, ETCD_PART) == 0;
    if (!etcd.auth || is_made || strcmp(call->token, ETCD_ROOT) == 0)
        return NULL;
    *status = call->token[0] == '\0' ? "3" : is_part ? "7" : "16";
    if (!is_part)
        return call->token[0] == '\0' ? NO_USER : BAD_TOKEN;
    return body.len > 0 && memmem(body.data, body.len, "/b", 2) != NULL ? DENIED : NULL;
}

static bool call_is_read(const struct call *call)
{
    return strcmp(call->path, "/etcdserverpb.KV/Range") == 0;
}

/* A call that is passed on: whatever the run likes. */
static void call_answer_any(struct call *call)
{
    switch (call_is_read(call) ? 0 : choose(etcd.choices, 8)) {
    case 0:
    case 1:
    case 2:
        call_answer_header(call, 0);
        break;
    case 3:
        call_answer_header(call, choose(etcd.choices, ANSWER_MAX));
        break;
    case 4:
        call_end(call, "5", "etcdserver: requested lease not found");
        break;
    case 5:
        call_end(call, "14", "etcdserver: leader changed");
        break;
    case 6:
        nghttp2_submit_rst_stream(call->conn->session, 0, call->id, choose(etcd.choices, 14));
        break;
    case 7: /* it never is */
        break;
    }
}

/* ---- in good order ---- */

static void call_grant(struct call *call)
{
    Etcdserverpb__ResponseHeader header = response_header();
    Etcdserverpb__LeaseGrantResponse response;
    uint8_t packed[128];
    etcdserverpb__lease_grant_response__init(&response);
    response.header = &header;
    response.id = ++etcd.last_lease;
    response.ttl = ETCD_TTL_S;
    call_message(call, packed, etcdserverpb__lease_grant_response__pack(&response, packed));
    call_end(call, "0", "");
}

/* Each message is a question, and is answered immediately. */
static void call_keep_alive(struct call *call)
{
    struct belfry_bytes message;
    uint8_t packed[128];
    for (; messages_first(&call->body, &message); messages_drop(&call->body, message)) {
        Etcdserverpb__LeaseKeepAliveRequest *request =
            etcdserverpb__lease_keep_alive_request__unpack(NULL, message.len, (const uint8_t *)message.data);
        Etcdserverpb__ResponseHeader header = response_header();
        Etcdserverpb__LeaseKeepAliveResponse response = ETCDSERVERPB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
        verdict_must(request != NULL, "a keep-alive");
        response.header = &header;
        response.id = request->id;
        response.ttl = ETCD_TTL_S;
        etcdserverpb__lease_keep_alive_request__free_unpacked(request, NULL);
        call_message(call, packed, etcdserverpb__lease_keep_alive_response__pack(&response, packed));
    }
}

static bool call_is(const struct call *call, const char *path)
{
    return strcmp(call->path, path) == 0;
}

/* How long values are that it asks for. Now and then they are many. */
static size_t call_value_len(const struct call *call)
{
    struct belfry_bytes message;
    if (!call_is_read(call) || !messages_first(&call->body, &message))
        return 0;
    Etcdserverpb__RangeRequest *range =
        etcdserverpb__range_request__unpack(NULL, message.len, (const uint8_t *)message.data);
    bool has_values = range != NULL && !range->count_only;
    etcdserverpb__range_request__free_unpacked(range, NULL);
    return has_values ? 5 + choose(etcd.choices, choose_rarely(etcd.choices, 8) ? ANSWER_MAX - 5 : 2000) : 0;
}

static void call_answer_orderly(struct call *call)
{
    if (call_is(call, "/etcdserverpb.Lease/LeaseGrant"))
        call_grant(call);
    else if (call_is(call, "/etcdserverpb.Lease/LeaseKeepAlive"))
        call_end(call, "0", ""); /* the client has ended it */
    else
        call_answer_header(call, call_value_len(call));
}

static void call_answer_later(struct call *call)
{
    uint32_t most = choose_rarely(etcd.choices, 16) ? 800 : 10;
    call->due_ms = belfry_clock_ms() + choose(etcd.choices, most);
}

static bool call_is_due(const struct call *call)
{
    return call->due_ms != BELFRY_NEVER && call->due_ms <= belfry_clock_ms();
}

static bool conn_answer_due(struct conn *conn)
{
    bool did = false;
    for (struct belfry_list *node = conn->calls.next; node != &conn->calls; node = node->next) {
        struct call *call = belfry_container(node, struct call, node);
        if (!call_is_due(call))
            continue;
        call->due_ms = BELFRY_NEVER;
        call_answer_orderly(call);
        did = true;
    }
    return did;
}

/* ---- what is asked ---- */

static void call_serve(struct call *call)
{
    const char *status = "0", *why = NULL;
    if (strcmp(call->path, "/etcdserverpb.Auth/Authenticate") == 0)
        call_log_in(call);
    else if ((why = call_refusal(call, &status)) != NULL)
        call_end(call, status, why);
    else if (call->is_question)
        call_end(call, "11", FUTURE);
    else if (etcd.is_orderly)
        call_answer_later(call);
    else
        call_answer_any(call);
}

/* ---- what comes ---- */

static struct call *call_find(struct conn *conn, int32_t id)
{
    return nghttp2_session_get_stream_user_data(conn->session, id);
}

static void call_free(struct call *call)
{
    belfry_list_remove(&call->node);
    belfry_buf_fini(&call->body);
    belfry_buf_fini(&call->answer);
    free(call);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct conn *conn = user;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct call *call = calloc(1, sizeof(*call));
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
    struct call *call = call_find(user, frame->hd.stream_id);
    struct belfry_bytes field = belfry_bytes_of(name, name_len);
    (void)session, (void)flags;
    if (call == NULL)
        return 0;
    if (belfry_bytes_equal(field, belfry_bytes_str(":path")))
        copy(call->path, sizeof(call->path), value, value_len);
    else if (belfry_bytes_equal(field, belfry_bytes_str("token")) ||
             belfry_bytes_equal(field, belfry_bytes_str("authorization")))
        copy(call->token, sizeof(call->token), value, value_len);
    else if (belfry_bytes_equal(field, belfry_bytes_str("belfry-rights")))
        call->is_question = true;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    struct call *call = call_find(user, id);
    (void)session, (void)flags;
    if (call != NULL && belfry_buf_len(&call->body) + len <= BODY_MAX)
        verdict_must(belfry_buf_append(&call->body, data, len) == BELFRY_OK, "a body");
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    bool is_part = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    struct call *call = frame->hd.stream_id != 0 && is_part ? call_find(user, frame->hd.stream_id) : NULL;
    (void)session;
    if (call == NULL || call->is_over || etcd.fault == ETCD_SILENT)
        return 0;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        call_serve(call);
    else if (etcd.is_orderly && call_is(call, "/etcdserverpb.Lease/LeaseKeepAlive"))
        call_keep_alive(call);
    else if (!etcd.is_orderly && frame->hd.type == NGHTTP2_DATA && choose(etcd.choices, 2) == 0)
        call_message(call, "\x08\x01", 2); /* a stream of messages, such as LeaseKeepAlive */
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct call *call = call_find(user, id);
    (void)session, (void)code;
    if (call != NULL)
        call_free(call);
    return 0;
}

/* ---- connections ---- */

static void conn_open(struct conn *conn, int fd)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    *conn = (struct conn){.fd = fd};
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
                                    etcd.is_orderly ? UINT32_MAX : 1 + choose(etcd.choices, 64)};
    nghttp2_submit_settings(conn->session, 0, &limit, 1);
}

static void conn_close(struct conn *conn)
{
    if (conn->fd < 0)
        return;
    for (struct belfry_list *node; (node = belfry_list_pop(&conn->calls)) != NULL;)
        call_free(belfry_container(node, struct call, node));
    nghttp2_session_del(conn->session);
    belfry_buf_fini(&conn->out);
    close(conn->fd);
    conn->fd = -1;
}

static bool conn_read(struct conn *conn)
{
    static uint8_t in[64 * 1024];
    ssize_t n = recv(conn->fd, in, sizeof(in), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        conn->is_broken = true;
    else if (n > 0 && nghttp2_session_mem_recv(conn->session, in, (size_t)n) < 0)
        conn->is_broken = true;
    return n > 0 || conn->is_broken;
}

static bool conn_write(struct conn *conn)
{
    const uint8_t *data;
    ssize_t n;
    while (belfry_buf_len(&conn->out) < ANSWER_MAX && (n = nghttp2_session_mem_send(conn->session, &data)) > 0)
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
        if (etcd.conns[i].fd >= 0)
            continue;
        int fd = accept4(etcd.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            conn_open(&etcd.conns[i], fd);
        return fd >= 0;
    }
    return false;
}

bool etcd_turn(void)
{
    if (etcd.fault == ETCD_DEAF)
        return false;
    bool did = etcd.fd >= 0 && accept_one();
    for (size_t i = 0; i < CONNS; i++) {
        struct conn *conn = &etcd.conns[i];
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

uint64_t etcd_due(void)
{
    uint64_t due_ms = BELFRY_NEVER;
    for (size_t i = 0; i < CONNS; i++) {
        struct conn *conn = &etcd.conns[i];
        for (struct belfry_list *node = conn->calls.next; conn->fd >= 0 && node != &conn->calls; node = node->next)
            due_ms = belfry_min_time(due_ms, belfry_container(node, struct call, node)->due_ms);
    }
    return due_ms;
}

/* ---- the run's ---- */

static void etcd_listen(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (etcd.fd >= 0)
        return;
    unlink(etcd.path);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", etcd.path);
    etcd.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    verdict_must(etcd.fd >= 0 && bind(etcd.fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                     listen(etcd.fd, 64) == 0,
                 "a unix socket");
}

static void stop_listening(void)
{
    if (etcd.fd >= 0)
        close(etcd.fd);
    etcd.fd = -1;
}

void etcd_open(const char *path, struct choices *choices)
{
    memset(&etcd, 0, sizeof(etcd));
    etcd.fd = -1;
    etcd.choices = choices;
    snprintf(etcd.path, sizeof(etcd.path), "%s", path);
    for (size_t i = 0; i < CONNS; i++)
        etcd.conns[i].fd = -1;
    etcd_listen();
}

void etcd_close(void)
{
    etcd_strike(ETCD_DROP);
    stop_listening();
    unlink(etcd.path);
}

void etcd_set_orderly(void)
{
    etcd.is_orderly = true;
}

void etcd_set_auth(bool on)
{
    etcd.auth = on;
}

bool etcd_has_auth(void)
{
    return etcd.auth;
}

void etcd_set_fault(enum etcd_fault fault)
{
    etcd.fault = fault;
    if (fault == ETCD_AWAY)
        stop_listening();
    else
        etcd_listen();
    if (fault == ETCD_AWAY)
        etcd_strike(ETCD_DROP);
}

enum etcd_fault etcd_fault(void)
{
    return etcd.fault;
}

static void conn_strike(struct conn *conn, enum etcd_blow blow)
{
    static const uint8_t garbage[] = "HTTP/1.1 400 Bad Request\r\n\r\n\0\0\xff";
    switch (blow) {
    case ETCD_DROP:
        conn_close(conn);
        break;
    case ETCD_GOAWAY:
        nghttp2_submit_goaway(conn->session, 0, choose(etcd.choices, 2) == 0 ? 0 : 0x7fffffff, 0, NULL, 0);
        break;
    case ETCD_RESET:
        if (!belfry_list_empty(&conn->calls))
            nghttp2_submit_rst_stream(conn->session, 0, belfry_container(conn->calls.next, struct call, node)->id,
                                      choose(etcd.choices, 14));
        break;
    case ETCD_GARBAGE:
        verdict_must(belfry_buf_append(&conn->out, garbage, sizeof(garbage)) == BELFRY_OK, "garbage");
        break;
    case ETCD_BLOWS:
        break;
    }
}

void etcd_strike(enum etcd_blow blow)
{
    for (size_t i = 0; i < CONNS; i++)
        if (etcd.conns[i].fd >= 0)
            conn_strike(&etcd.conns[i], blow);
}
