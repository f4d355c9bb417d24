/* tests/support/fakeupstream.c */
#include "support/fakeupstream.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "support/h2_nv.h"

#define CONNS    4
#define REQUESTS 512
#define FIELDS   64
#define VALUE    4096

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
void __real_free(void *ptr);

struct conn {
    int fd; /* -1: free */
    struct upstream *upstream;
    SSL *ssl; /* NULL: plain */
    nghttp2_session *session;
    uint8_t *out;
    size_t out_len, out_at;
    int32_t last_id;
};

struct entry {
    struct upstream_request request;
    struct conn *conn; /* NULL: gone */
    int32_t id;
    size_t fields_len;
    uint8_t *data; /* of the response */
    size_t data_len, data_at;
    bool is_over;
    char trailers[FIELDS][2][256];
    size_t n_trailers;
};

struct upstream {
    struct upstream_opts opts;
    SSL_CTX *tls; /* NULL: plain */
    int fd;
    uint16_t port;
    char url[64];
    struct conn conns[CONNS];
    struct entry entries[REQUESTS];
    size_t n;
    bool served[REQUESTS];
};

static void append(uint8_t **to, size_t *len, const void *data, size_t n)
{
    *to = __real_realloc(*to, *len + n + 1);
    assert(*to != NULL);
    if (n > 0)
        memcpy(*to + *len, data, n);
    *len += n;
}

static struct entry *find(struct conn *conn, int32_t id)
{
    for (size_t i = 0; i < conn->upstream->n; i++) {
        if (conn->upstream->entries[i].conn == conn && conn->upstream->entries[i].id == id)
            return &conn->upstream->entries[i];
    }
    return NULL;
}

/* ---- what comes ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct conn *conn = user;
    (void)session;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    assert(conn->upstream->n < REQUESTS);
    struct entry *entry = &conn->upstream->entries[conn->upstream->n++];
    entry->conn = conn;
    entry->id = conn->last_id = frame->hd.stream_id;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct entry *entry = find(user, frame->hd.stream_id);
    uint8_t *text = (uint8_t *)entry->request.fields;
    (void)session;
    (void)flags;
    append(&text, &entry->fields_len, name, name_len);
    append(&text, &entry->fields_len, ": ", 2);
    append(&text, &entry->fields_len, value, value_len);
    append(&text, &entry->fields_len, "\n", 1);
    text[entry->fields_len] = '\0';
    entry->request.fields = (char *)text;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    struct conn *conn = user;
    struct entry *entry = find(conn, id);
    (void)flags;
    append(&entry->request.body, &entry->request.body_len, data, len);
    if (!conn->upstream->opts.hold)
        nghttp2_session_consume(session, id, len);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct entry *entry = frame->hd.stream_id != 0 ? find(user, frame->hd.stream_id) : NULL;
    (void)session;
    if (entry != NULL && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        entry->request.ended = true;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct entry *entry = find(user, id);
    (void)session;
    if (entry == NULL)
        return 0;
    entry->request.closed = true;
    entry->request.code = code;
    entry->conn = NULL;
    return 0;
}

/* ---- what goes ---- */

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    struct entry *entry = source->ptr;
    size_t left = entry->data_len - entry->data_at, n = left < cap ? left : cap;
    (void)user;
    if (n == 0 && !entry->is_over)
        return NGHTTP2_ERR_DEFERRED;
    if (n > 0)
        memcpy(to, entry->data + entry->data_at, n);
    entry->data_at += n;
    if (!entry->is_over || entry->data_at < entry->data_len)
        return (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (entry->n_trailers > 0) {
        nghttp2_nv list[FIELDS];
        for (size_t i = 0; i < entry->n_trailers; i++)
            list[i] = h2_nv(entry->trailers[i][0], entry->trailers[i][1]);
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, id, list, entry->n_trailers);
    }
    return (ssize_t)n;
}

void upstream_head(struct upstream *upstream, size_t request, const char *const *fields, bool last)
{
    struct entry *entry = &upstream->entries[request];
    nghttp2_nv list[FIELDS];
    size_t n = 0;
    for (; fields[2 * n] != NULL; n++)
        list[n] = h2_nv(fields[2 * n], fields[2 * n + 1]);
    nghttp2_data_provider provider = {.source = {.ptr = entry}, .read_callback = on_read};
    if (entry->conn != NULL)
        nghttp2_submit_response(entry->conn->session, entry->id, list, n, last ? NULL : &provider);
}

static void resume(struct entry *entry)
{
    if (entry->conn != NULL)
        nghttp2_session_resume_data(entry->conn->session, entry->id);
}

void upstream_data(struct upstream *upstream, size_t request, const void *data, size_t len)
{
    struct entry *entry = &upstream->entries[request];
    append(&entry->data, &entry->data_len, data, len);
    resume(entry);
}

void upstream_trailers(struct upstream *upstream, size_t request, const char *const *fields)
{
    struct entry *entry = &upstream->entries[request];
    entry->is_over = true;
    for (; fields != NULL && *fields != NULL; fields += 2) {
        snprintf(entry->trailers[entry->n_trailers][0], 256, "%s", fields[0]);
        snprintf(entry->trailers[entry->n_trailers++][1], 256, "%s", fields[1]);
    }
    resume(entry);
}

void upstream_reset(struct upstream *upstream, size_t request, uint32_t code)
{
    struct entry *entry = &upstream->entries[request];
    if (entry->conn != NULL)
        nghttp2_submit_rst_stream(entry->conn->session, 0, entry->id, code);
}

size_t upstream_unsent(const struct upstream *upstream, size_t request)
{
    return upstream->entries[request].data_len - upstream->entries[request].data_at;
}

void upstream_grpc(struct upstream *upstream, size_t request, const void *message, size_t len, const char *status)
{
    const uint8_t prefix[] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    upstream_head(upstream, request, (const char *const[]){":status", "200", "content-type", "application/grpc", NULL},
                  false);
    upstream_data(upstream, request, prefix, sizeof(prefix));
    upstream_data(upstream, request, message, len);
    upstream_trailers(upstream, request, (const char *const[]){"grpc-status", status, "grpc-message", "", NULL});
}

void upstream_goaway(struct upstream *upstream, bool unseen)
{
    for (size_t i = 0; i < CONNS; i++) {
        struct conn *conn = &upstream->conns[i];
        if (conn->fd >= 0)
            nghttp2_submit_goaway(conn->session, 0, unseen ? conn->last_id - 2 : conn->last_id, 0, NULL, 0);
    }
}

/* ---- TLS ---- */

static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                     unsigned in_len, void *user)
{
    static const unsigned char h2[] = "h2";
    (void)ssl, (void)in, (void)in_len, (void)user;
    *out = h2;
    *out_len = 2;
    return SSL_TLSEXT_ERR_OK;
}

static int take_any(int fine, X509_STORE_CTX *store)
{
    (void)fine, (void)store;
    return 1;
}

static SSL_CTX *make_tls(const struct upstream_opts *opts)
{
    if (opts->cert == NULL)
        return NULL;
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to the socket itself */
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    int loaded = SSL_CTX_use_certificate_chain_file(tls, opts->cert) +
                 SSL_CTX_use_PrivateKey_file(tls, opts->key, SSL_FILETYPE_PEM);
    assert(loaded == 2);
    (void)loaded;
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(tls, choose_h2, NULL);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, take_any);
    return tls;
}

/* As recv(2) and send(2) have it. */
static ssize_t tls_result(struct conn *conn, int n)
{
    if (n > 0)
        return n;
    int error = SSL_get_error(conn->ssl, n);
    ERR_clear_error();
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
    return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

static ssize_t receive(struct conn *conn, void *to, size_t cap)
{
    if (conn->ssl != NULL)
        return tls_result(conn, SSL_read(conn->ssl, to, (int)cap));
    return recv(conn->fd, to, cap, MSG_DONTWAIT);
}

static ssize_t transmit(struct conn *conn, const void *data, size_t len)
{
    if (conn->ssl != NULL)
        return tls_result(conn, SSL_write(conn->ssl, data, (int)len));
    return send(conn->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- connections ---- */

static void close_conn(struct conn *conn)
{
    if (conn->fd < 0)
        return;
    for (size_t i = 0; i < conn->upstream->n; i++) {
        if (conn->upstream->entries[i].conn == conn)
            conn->upstream->entries[i].conn = NULL;
    }
    close(conn->fd);
    SSL_free(conn->ssl);
    nghttp2_session_del(conn->session);
    __real_free(conn->out);
    *conn = (struct conn){.fd = -1};
}

static void open_conn(struct upstream *upstream, int fd)
{
    size_t i = 0;
    while (i < CONNS && upstream->conns[i].fd >= 0)
        i++;
    assert(i < CONNS);
    struct conn *conn = &upstream->conns[i];
    *conn = (struct conn){.fd = fd, .upstream = upstream};
    if (upstream->tls != NULL) {
        conn->ssl = SSL_new(upstream->tls);
        SSL_set_fd(conn->ssl, fd);
        SSL_set_accept_state(conn->ssl);
    }
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_server_new2(&conn->session, callbacks, conn, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_settings_entry limit = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, upstream->opts.max_streams};
    nghttp2_submit_settings(conn->session, 0, &limit, upstream->opts.max_streams > 0);
}

static void turn_conn(struct conn *conn)
{
    uint8_t buf[16384];
    ssize_t n;
    while ((n = receive(conn, buf, sizeof(buf))) > 0) {
        if (nghttp2_session_mem_recv(conn->session, buf, (size_t)n) < 0) {
            close_conn(conn);
            return;
        }
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_conn(conn);
        return;
    }
    const uint8_t *data;
    while ((n = nghttp2_session_mem_send(conn->session, &data)) > 0)
        append(&conn->out, &conn->out_len, data, (size_t)n);
    if (conn->out_len > conn->out_at) {
        n = transmit(conn, conn->out + conn->out_at, conn->out_len - conn->out_at);
        conn->out_at += n > 0 ? (size_t)n : 0;
    }
}

void upstream_turn(struct upstream *upstream)
{
    int fd;
    while (upstream->fd >= 0 && (fd = accept4(upstream->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        open_conn(upstream, fd);
    for (size_t i = 0; i < CONNS; i++) {
        if (upstream->conns[i].fd >= 0)
            turn_conn(&upstream->conns[i]);
    }
    for (size_t i = 0; i < upstream->n && upstream->opts.serve != NULL; i++) {
        if (upstream->served[i] || !upstream->entries[i].request.ended)
            continue;
        upstream->served[i] = true;
        upstream->opts.serve(upstream, i, upstream->opts.user);
    }
}

void upstream_listen(struct upstream *upstream)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(upstream->port)};
    socklen_t len = sizeof(addr);
    int yes = 1;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    upstream->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(upstream->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    int failed = bind(upstream->fd, (struct sockaddr *)&addr, len) + listen(upstream->fd, 64) +
                 getsockname(upstream->fd, (struct sockaddr *)&addr, &len);
    assert(failed == 0);
    (void)failed;
    upstream->port = ntohs(addr.sin_port);
    snprintf(upstream->url, sizeof(upstream->url), "http%s://127.0.0.1:%u", upstream->tls != NULL ? "s" : "",
             upstream->port);
}

struct upstream *upstream_create(const struct upstream_opts *opts)
{
    struct upstream *upstream = __real_calloc(1, sizeof(*upstream));
    assert(upstream != NULL);
    if (opts != NULL)
        upstream->opts = *opts;
    upstream->tls = make_tls(&upstream->opts);
    for (size_t i = 0; i < CONNS; i++)
        upstream->conns[i].fd = -1;
    upstream_listen(upstream);
    return upstream;
}

void upstream_drop(struct upstream *upstream, bool refuse)
{
    for (size_t i = 0; i < CONNS; i++)
        close_conn(&upstream->conns[i]);
    if (refuse && upstream->fd >= 0) {
        close(upstream->fd);
        upstream->fd = -1;
    }
}

void upstream_destroy(struct upstream *upstream)
{
    if (upstream == NULL)
        return;
    upstream_drop(upstream, true);
    SSL_CTX_free(upstream->tls);
    for (size_t i = 0; i < upstream->n; i++) {
        __real_free(upstream->entries[i].request.fields);
        __real_free(upstream->entries[i].request.body);
        __real_free(upstream->entries[i].data);
    }
    __real_free(upstream);
}

const char *upstream_url(const struct upstream *upstream)
{
    return upstream->url;
}

size_t upstream_count(const struct upstream *upstream)
{
    return upstream->n;
}

size_t upstream_n_conns(const struct upstream *upstream)
{
    size_t n = 0;
    for (size_t i = 0; i < CONNS; i++)
        n += upstream->conns[i].fd >= 0;
    return n;
}

const struct upstream_request *upstream_request(const struct upstream *upstream, size_t request)
{
    assert(request < upstream->n);
    return &upstream->entries[request].request;
}

const char *upstream_field(const struct upstream *upstream, size_t request, const char *name)
{
    static char value[VALUE];
    const char *at = upstream_request(upstream, request)->fields;
    size_t len = strlen(name);
    for (; at != NULL && *at != '\0'; at = strchr(at, '\n') + 1) {
        if (strncmp(at, name, len) != 0 || strncmp(at + len, ": ", 2) != 0)
            continue;
        snprintf(value, sizeof(value), "%.*s", (int)(strchr(at, '\n') - at - (long)len - 2), at + len + 2);
        return value;
    }
    return NULL;
}
