/* tests/support/fakeetcd.c */
#include "support/fakeetcd.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "support/h2_nv.h"
#include "wire/rpc.pb-c.h"

#define CONNS     16
#define STREAMS   64 /* of one connection at once */
#define WATCHES   16 /* of one stream */
#define PATHS     512
#define PATH_MAX_ 64
#define SCRATCH   (256 * 1024)
#define ROWS_MAX  1024

/* The C library's own, out of reach of the allocator that refuses. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
void __real_free(void *ptr);

struct bytes {
    uint8_t *data;
    size_t len, at;
};

struct watch {
    bool used;
    int64_t next;
    size_t key_len, end_len;
    uint8_t key[FAKE_TEXT], end[FAKE_TEXT];
};

struct stream {
    int32_t id; /* 0: free */
    char path[PATH_MAX_], token[PATH_MAX_];
    struct bytes in, out;
    bool is_over; /* nothing more but the trailers */
    bool answered, stalled, is_watch, late;
    char code[4];
    struct watch watches[WATCHES];
};

struct conn {
    int fd; /* -1: free */
    struct fake *fake;
    nghttp2_session *session;
    struct stream streams[STREAMS];
    struct bytes out;
    bool to_close;
};

struct fake {
    struct fake_store *store;
    struct fake_rule *rule;
    int fd;
    uint16_t port;
    char url[64];
    struct conn conns[CONNS];
    char paths[PATHS][PATH_MAX_];
    size_t n_paths;
    int64_t last_start, lag;
    size_t throttle;
    const void *about; /* lent; NULL: none */
    size_t about_len;
};

static uint8_t scratch[SCRATCH];

static void append(struct bytes *to, const void *data, size_t len)
{
    to->data = __real_realloc(to->data, to->len + len + 1);
    assert(to->data != NULL);
    if (len > 0)
        memcpy(to->data + to->len, data, len);
    to->len += len;
}

static void clear(struct bytes *bytes)
{
    __real_free(bytes->data);
    *bytes = (struct bytes){0};
}

/* ---- the store ---- */

void fake_store_init(struct fake_store *store)
{
    memset(store, 0, sizeof(*store));
    store->cluster_id = 0xc1;
    store->raft_term = 2;
    store->revision = FAKE_FIRST - 1;
    store->leases[0] = (struct fake_lease){.id = 7, .ttl_s = 60};
}

static void change(struct fake_store *store, const void *key, size_t key_len, const void *value, size_t value_len,
                   bool is_delete)
{
    assert(store->n_changes < FAKE_CHANGES && key_len <= FAKE_TEXT && value_len <= FAKE_TEXT);
    struct fake_change *c = &store->changes[store->n_changes++];
    *c = (struct fake_change){
        .rev = ++store->revision, .is_delete = is_delete, .key_len = key_len, .value_len = value_len};
    memcpy(c->key, key, key_len);
    if (value_len > 0)
        memcpy(c->value, value, value_len);
}

void fake_put(struct fake_store *store, const char *key, const char *value)
{
    change(store, key, strlen(key), value, strlen(value), false);
}

void fake_del(struct fake_store *store, const char *key)
{
    change(store, key, strlen(key), NULL, 0, true);
}

static int compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static bool in_range(const struct fake_change *c, const uint8_t *key, size_t key_len, const uint8_t *end,
                     size_t end_len)
{
    if (end_len == 0)
        return compare(c->key, c->key_len, key, key_len) == 0;
    bool open = end_len == 1 && end[0] == 0;
    return compare(c->key, c->key_len, key, key_len) >= 0 && (open || compare(c->key, c->key_len, end, end_len) < 0);
}

/* Is this change what its key holds at `rev`? */
static bool holds(const struct fake_store *store, size_t at, int64_t rev)
{
    const struct fake_change *c = &store->changes[at];
    if (c->rev > rev || c->is_delete)
        return false;
    for (size_t i = at + 1; i < store->n_changes && store->changes[i].rev <= rev; i++) {
        if (compare(store->changes[i].key, store->changes[i].key_len, c->key, c->key_len) == 0)
            return false;
    }
    return true;
}

static int by_key(const void *a, const void *b)
{
    const struct fake_change *const *x = a, *const *y = b;
    return compare((*x)->key, (*x)->key_len, (*y)->key, (*y)->key_len);
}

static void to_kv(const struct fake_change *c, Mvccpb__KeyValue *kv)
{
    mvccpb__key_value__init(kv);
    kv->key = (ProtobufCBinaryData){c->key_len, (uint8_t *)(uintptr_t)c->key};
    kv->mod_revision = c->rev;
    if (c->is_delete)
        return;
    kv->create_revision = c->rev;
    kv->version = 1;
    kv->value = (ProtobufCBinaryData){c->value_len, (uint8_t *)(uintptr_t)c->value};
}

/* ---- answers ---- */

static Etcdserverpb__ResponseHeader header_of(const struct fake *fake)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.cluster_id = fake->store->cluster_id;
    header.member_id = fake->port;
    header.revision = fake->store->revision;
    header.raft_term = fake->store->raft_term;
    return header;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    struct stream *s = source->ptr;
    (void)user;
    size_t left = s->out.len - s->out.at, n = left < len ? left : len;
    if (n == 0 && !s->is_over)
        return NGHTTP2_ERR_DEFERRED;
    if (n > 0)
        memcpy(buf, s->out.data + s->out.at, n);
    s->out.at += n;
    if (s->is_over && s->out.at == s->out.len) {
        nghttp2_nv trailer = {(uint8_t *)(uintptr_t) "grpc-status", (uint8_t *)s->code, 11, strlen(s->code), 0};
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, id, &trailer, 1);
    }
    return (ssize_t)n;
}

/* Sends whatever is in s->out; the response's head first. */
static void flush(struct conn *conn, struct stream *s)
{
    if (s->late)
        return;
    if (s->answered) {
        nghttp2_session_resume_data(conn->session, s->id);
        return;
    }
    nghttp2_nv head[] = {h2_nv(":status", "200"), h2_nv("content-type", "application/grpc")};
    nghttp2_data_provider provider = {.source = {.ptr = s}, .read_callback = read_body};
    nghttp2_submit_response(conn->session, s->id, head, 2, &provider);
    s->answered = true;
}

static void add_message(struct stream *s, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    assert(len <= SCRATCH - 5);
    memcpy(scratch, (const uint8_t[]){0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len},
           5);
    protobuf_c_message_pack(message, scratch + 5);
    append(&s->out, scratch, len + 5);
}

static void answer(struct conn *conn, struct stream *s, const ProtobufCMessage *message)
{
    add_message(s, message);
    s->is_over = true;
    snprintf(s->code, sizeof(s->code), "0");
    flush(conn, s);
}

static void refuse(struct conn *conn, struct stream *s, uint32_t code, const char *message)
{
    char text[4];
    snprintf(text, sizeof(text), "%u", code % 100);
    snprintf(s->code, sizeof(s->code), "%u", code % 100);
    s->is_over = true;
    if (s->answered) {
        flush(conn, s);
        return;
    }
    s->answered = true;
    nghttp2_nv head[] = {h2_nv(":status", "200"), h2_nv("content-type", "application/grpc"), h2_nv("grpc-status", text),
                         h2_nv("grpc-message", message)};
    nghttp2_submit_response(conn->session, s->id, head, 4, NULL);
}

/* ---- unary requests ---- */

static void on_range(struct conn *conn, struct stream *s, const uint8_t *data, size_t len)
{
    static const struct fake_change *rows[FAKE_CHANGES];
    static Mvccpb__KeyValue kvs[ROWS_MAX];
    static Mvccpb__KeyValue *list[ROWS_MAX];
    struct fake_store *store = conn->fake->store;
    Etcdserverpb__RangeRequest *request = etcdserverpb__range_request__unpack(NULL, len, data);
    Etcdserverpb__RangeResponse response = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    assert(request != NULL);
    store->n_serializable += request->serializable;
    int64_t rev = request->revision > 0 ? request->revision : store->revision;
    if (rev < store->compacted || rev > store->revision) {
        refuse(conn, s, 11,
               rev < store->compacted ? "etcdserver: mvcc: required revision has been compacted"
                                      : "etcdserver: mvcc: required revision is a future revision");
        etcdserverpb__range_request__free_unpacked(request, NULL);
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < store->n_changes; i++) {
        if (in_range(&store->changes[i], request->key.data, request->key.len, request->range_end.data,
                     request->range_end.len) &&
            holds(store, i, rev))
            rows[n++] = &store->changes[i];
    }
    qsort(rows, n, sizeof(rows[0]), by_key);
    response.header = &header;
    response.count = (int64_t)n;
    response.kvs = list;
    for (size_t i = 0; i < n && i < ROWS_MAX && !request->count_only; i++) {
        if (request->limit > 0 && (int64_t)i == request->limit) {
            response.more = true;
            break;
        }
        to_kv(rows[i], &kvs[i]);
        list[response.n_kvs++] = &kvs[i];
    }
    etcdserverpb__range_request__free_unpacked(request, NULL);
    answer(conn, s, &response.base);
}

static void on_put(struct conn *conn, struct stream *s, const uint8_t *data, size_t len)
{
    Etcdserverpb__PutRequest *request = etcdserverpb__put_request__unpack(NULL, len, data);
    Etcdserverpb__PutResponse response = ETCDSERVERPB__PUT_RESPONSE__INIT;
    assert(request != NULL);
    change(conn->fake->store, request->key.data, request->key.len, request->value.data, request->value.len, false);
    etcdserverpb__put_request__free_unpacked(request, NULL);
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    response.header = &header;
    answer(conn, s, &response.base);
}

static void on_txn(struct conn *conn, struct stream *s)
{
    Etcdserverpb__TxnResponse response = ETCDSERVERPB__TXN_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    response.header = &header;
    response.succeeded = true;
    answer(conn, s, &response.base);
}

static void on_authenticate(struct conn *conn, struct stream *s, const uint8_t *data, size_t len)
{
    struct fake_store *store = conn->fake->store;
    Etcdserverpb__AuthenticateRequest *request = etcdserverpb__authenticate_request__unpack(NULL, len, data);
    Etcdserverpb__AuthenticateResponse response;
    etcdserverpb__authenticate_response__init(&response);
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    char token[32];
    assert(request != NULL);
    bool good = store->password != NULL && strcmp(request->password, store->password) == 0;
    etcdserverpb__authenticate_request__free_unpacked(request, NULL);
    if (!good) {
        refuse(conn, s, store->password == NULL ? 9 : 3,
               store->password == NULL ? "etcdserver: authentication is not enabled"
                                       : "etcdserver: authentication failed, invalid user ID or password");
        return;
    }
    snprintf(token, sizeof(token), "token-%u", ++store->n_tokens);
    response.header = &header;
    response.token = token;
    answer(conn, s, &response.base);
}

static void on_status(struct conn *conn, struct stream *s)
{
    Etcdserverpb__StatusResponse response;
    etcdserverpb__status_response__init(&response);
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    const struct fake_store *store = conn->fake->store;
    if (store->status_member != 0)
        header.member_id = store->status_member;
    response.header = &header;
    response.version = (char *)(uintptr_t)(store->version != NULL ? store->version : "3.5.99");
    response.dbsize = 4096;
    response.leader = 7;
    answer(conn, s, &response.base);
}

static void on_about(struct conn *conn, struct stream *s)
{
    uint8_t head[5] = {0, 0, 0, (uint8_t)(conn->fake->about_len >> 8), (uint8_t)conn->fake->about_len};
    append(&s->out, head, sizeof(head));
    append(&s->out, conn->fake->about, conn->fake->about_len);
    s->is_over = true;
    snprintf(s->code, sizeof(s->code), "0");
    flush(conn, s);
}

static void on_members(struct conn *conn, struct stream *s)
{
    Etcdserverpb__MemberListResponse response = ETCDSERVERPB__MEMBER_LIST_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    Etcdserverpb__Member member, *members[] = {&member};
    etcdserverpb__member__init(&member);
    char *urls[] = {conn->fake->url};
    member.id = conn->fake->port;
    member.name = (char *)(uintptr_t) "fake";
    member.n_clienturls = 1;
    member.clienturls = urls;
    response.header = &header;
    response.n_members = 1;
    response.members = members;
    answer(conn, s, &response.base);
}

/* ---- leases ---- */

/* The lease, or NULL; id 0 finds a free place. */
static struct fake_lease *find_lease(struct fake_store *store, int64_t id)
{
    for (size_t i = 0; i < FAKE_LEASES; i++) {
        if (store->leases[i].id == id)
            return &store->leases[i];
    }
    return NULL;
}

static void on_grant(struct conn *conn, struct stream *s, const uint8_t *data, size_t len)
{
    struct fake_store *store = conn->fake->store;
    Etcdserverpb__LeaseGrantRequest *request = etcdserverpb__lease_grant_request__unpack(NULL, len, data);
    Etcdserverpb__LeaseGrantResponse response;
    etcdserverpb__lease_grant_response__init(&response);
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    struct fake_lease *lease = find_lease(store, 0);
    assert(request != NULL && lease != NULL);
    if (find_lease(store, request->id) != NULL) {
        refuse(conn, s, 9, "etcdserver: lease already exists");
    } else {
        *lease = (struct fake_lease){.id = request->id, .ttl_s = request->ttl};
        response.header = &header;
        response.id = lease->id;
        response.ttl = lease->ttl_s;
        answer(conn, s, &response.base);
    }
    etcdserverpb__lease_grant_request__free_unpacked(request, NULL);
}

/* The stream stays open, as etcd's does. */
static void on_keepalive(struct conn *conn, struct stream *s, const uint8_t *data, size_t len)
{
    Etcdserverpb__LeaseKeepAliveRequest *request = etcdserverpb__lease_keep_alive_request__unpack(NULL, len, data);
    Etcdserverpb__LeaseKeepAliveResponse response = ETCDSERVERPB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    assert(request != NULL);
    const struct fake_lease *lease = find_lease(conn->fake->store, request->id);
    response.header = &header;
    response.id = request->id;
    response.ttl = lease != NULL ? lease->ttl_s : 0;
    etcdserverpb__lease_keep_alive_request__free_unpacked(request, NULL);
    add_message(s, &response.base);
    flush(conn, s);
}

static void on_revoke(struct conn *conn, struct stream *s, const uint8_t *data, size_t len)
{
    Etcdserverpb__LeaseRevokeRequest *request = etcdserverpb__lease_revoke_request__unpack(NULL, len, data);
    Etcdserverpb__LeaseRevokeResponse response = ETCDSERVERPB__LEASE_REVOKE_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    assert(request != NULL);
    struct fake_lease *lease = find_lease(conn->fake->store, request->id);
    etcdserverpb__lease_revoke_request__free_unpacked(request, NULL);
    if (lease == NULL) {
        refuse(conn, s, 5, "etcdserver: requested lease not found");
        return;
    }
    *lease = (struct fake_lease){0};
    response.header = &header;
    answer(conn, s, &response.base);
}

/* ---- watches ---- */

static void tell_watch(struct conn *conn, struct stream *s, Etcdserverpb__WatchResponse *response)
{
    Etcdserverpb__ResponseHeader header = header_of(conn->fake);
    header.revision -= conn->fake->lag;
    response->header = &header;
    add_message(s, &response->base);
    flush(conn, s);
}

static bool token_is_good(struct conn *conn, const struct stream *s)
{
    struct fake_store *store = conn->fake->store;
    char newest[32];
    if (store->password == NULL)
        return true;
    snprintf(newest, sizeof(newest), "token-%u", store->n_tokens);
    if (store->refuse_tokens) {
        store->refuse_tokens = false;
        return false;
    }
    return strcmp(s->token, newest) == 0;
}

static void on_create(struct conn *conn, struct stream *s, const Etcdserverpb__WatchCreateRequest *request)
{
    Etcdserverpb__WatchResponse response;
    etcdserverpb__watch_response__init(&response);
    struct fake_store *store = conn->fake->store;
    response.created = true;
    if (!token_is_good(conn, s)) {
        response.canceled = true;
        response.watch_id = -1;
        response.cancel_reason =
            (char *)(uintptr_t) "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
        tell_watch(conn, s, &response);
        return;
    }
    int id = 0;
    while (id < WATCHES && s->watches[id].used)
        id++;
    assert(id < WATCHES);
    struct watch *w = &s->watches[id];
    *w = (struct watch){.used = true,
                        .next = request->start_revision > 0 ? request->start_revision : store->revision + 1,
                        .key_len = request->key.len,
                        .end_len = request->range_end.len};
    memcpy(w->key, request->key.data, w->key_len);
    if (w->end_len > 0)
        memcpy(w->end, request->range_end.data, w->end_len);
    conn->fake->last_start = request->start_revision;
    response.watch_id = id;
    tell_watch(conn, s, &response);
}

static void on_cancel(struct conn *conn, struct stream *s, int64_t id)
{
    Etcdserverpb__WatchResponse response;
    etcdserverpb__watch_response__init(&response);
    if (id < 0 || id >= WATCHES || !s->watches[id].used)
        return;
    s->watches[id].used = false;
    response.watch_id = id;
    response.canceled = true;
    tell_watch(conn, s, &response);
}

/* Events of one revision that match, as one response. */
static void tell_revision(struct conn *conn, struct stream *s, int id, int64_t rev)
{
    static Mvccpb__KeyValue kvs[64];
    static Mvccpb__Event events[64];
    static Mvccpb__Event *list[64];
    struct fake_store *store = conn->fake->store;
    Etcdserverpb__WatchResponse response;
    etcdserverpb__watch_response__init(&response);
    const struct watch *w = &s->watches[id];
    for (size_t i = 0; i < store->n_changes; i++) {
        const struct fake_change *c = &store->changes[i];
        if (c->rev != rev || !in_range(c, w->key, w->key_len, w->end, w->end_len))
            continue;
        to_kv(c, &kvs[response.n_events]);
        mvccpb__event__init(&events[response.n_events]);
        events[response.n_events].kv = &kvs[response.n_events];
        events[response.n_events].type =
            c->is_delete ? MVCCPB__EVENT__EVENT_TYPE__DELETE : MVCCPB__EVENT__EVENT_TYPE__PUT;
        if (c->strange != 0)
            events[response.n_events].type = (Mvccpb__Event__EventType)c->strange;
        list[response.n_events] = &events[response.n_events];
        response.n_events++;
    }
    response.watch_id = id;
    response.events = list;
    if (response.n_events > 0)
        tell_watch(conn, s, &response);
}

static void feed_watch(struct conn *conn, struct stream *s, int id)
{
    struct watch *w = &s->watches[id];
    if (w->used && w->next < conn->fake->store->compacted) {
        Etcdserverpb__WatchResponse response;
        etcdserverpb__watch_response__init(&response);
        Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
        w->used = false;
        response.header = &header;
        response.watch_id = id;
        response.canceled = true;
        response.compact_revision = conn->fake->store->compacted;
        add_message(s, &response.base);
        flush(conn, s);
    }
    while (w->used && w->next <= conn->fake->store->revision - conn->fake->lag)
        tell_revision(conn, s, id, w->next++);
}

static void on_progress(struct conn *conn, struct stream *s)
{
    Etcdserverpb__WatchResponse response;
    etcdserverpb__watch_response__init(&response);
    for (int id = 0; id < WATCHES; id++)
        feed_watch(conn, s, id);
    response.watch_id = -1;
    tell_watch(conn, s, &response);
}

static void on_watch(struct conn *conn, struct stream *s, const uint8_t *data, size_t len)
{
    Etcdserverpb__WatchRequest *request = etcdserverpb__watch_request__unpack(NULL, len, data);
    assert(request != NULL);
    if (request->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST)
        on_create(conn, s, request->create_request);
    else if (request->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST)
        on_cancel(conn, s, request->cancel_request->watch_id);
    else if (request->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST)
        on_progress(conn, s);
    etcdserverpb__watch_request__free_unpacked(request, NULL);
}

/* ---- requests ---- */

/* True when a rule took care of the request. */
static bool misbehave(struct conn *conn, struct stream *s)
{
    struct fake_rule *rule = conn->fake->rule;
    if (rule == NULL || rule->times == 0 || strstr(s->path, rule->path) == NULL)
        return false;
    if (rule->skip > 0) {
        rule->skip--;
        return false;
    }
    rule->times--;
    s->late = rule->how == FAKE_LATE;
    s->stalled = !s->late;
    switch (rule->how) {
    case FAKE_STALL:
        break;
    case FAKE_LATE:
        return false;
    case FAKE_RESET:
        nghttp2_submit_rst_stream(conn->session, 0, s->id, rule->code);
        break;
    case FAKE_STATUS:
        refuse(conn, s, rule->code, rule->message != NULL ? rule->message : "");
        break;
    case FAKE_GOAWAY:
        nghttp2_submit_goaway(conn->session, 0, s->id - 2, NGHTTP2_NO_ERROR, NULL, 0);
        break;
    case FAKE_CLOSE:
        conn->to_close = true;
        break;
    case FAKE_EMPTY:
        s->is_over = true;
        snprintf(s->code, sizeof(s->code), "0");
        flush(conn, s);
        break;
    }
    return true;
}

static void dispatch(struct conn *conn, struct stream *s, const uint8_t *data, size_t len)
{
    struct fake *fake = conn->fake;
    if (fake->n_paths < PATHS)
        snprintf(fake->paths[fake->n_paths++], PATH_MAX_, "%s", s->path);
    if (s->stalled || misbehave(conn, s))
        return;
    if (strstr(s->path, "/Authenticate") != NULL)
        on_authenticate(conn, s, data, len);
    else if (s->is_watch)
        on_watch(conn, s, data, len);
    else if (strstr(s->path, "/Status") != NULL)
        on_status(conn, s); /* for anybody, as up to 3.5.27 */
    else if (strstr(s->path, "/About") != NULL && fake->about != NULL)
        on_about(conn, s);
    else if (!token_is_good(conn, s))
        refuse(conn, s, 16, "etcdserver: invalid auth token");
    else if (strstr(s->path, "/Range") != NULL)
        on_range(conn, s, data, len);
    else if (strstr(s->path, "/Put") != NULL)
        on_put(conn, s, data, len);
    else if (strstr(s->path, "/Txn") != NULL)
        on_txn(conn, s);
    else if (strstr(s->path, "/MemberList") != NULL)
        on_members(conn, s);
    else if (strstr(s->path, "/LeaseKeepAlive") != NULL)
        on_keepalive(conn, s, data, len);
    else if (strstr(s->path, "/LeaseGrant") != NULL)
        on_grant(conn, s, data, len);
    else if (strstr(s->path, "/LeaseRevoke") != NULL)
        on_revoke(conn, s, data, len);
    else
        refuse(conn, s, 12, "unknown method");
}

static void take_messages(struct conn *conn, struct stream *s)
{
    while (s->in.len - s->in.at >= 5) {
        const uint8_t *p = s->in.data + s->in.at;
        size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        if (s->in.len - s->in.at - 5 < len)
            return;
        s->in.at += 5 + len;
        dispatch(conn, s, p + 5, len);
    }
}

/* ---- nghttp2 ---- */

static struct stream *find(struct conn *conn, int32_t id)
{
    for (size_t i = 0; i < STREAMS; i++) {
        if (conn->streams[i].id == id)
            return &conn->streams[i];
    }
    return NULL;
}

static void free_stream(struct stream *s)
{
    clear(&s->in);
    clear(&s->out);
    *s = (struct stream){0};
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct conn *conn = user;
    (void)session;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct stream *s = find(conn, 0);
    if (s == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    s->id = frame->hd.stream_id;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct stream *s = find(user, frame->hd.stream_id);
    (void)session;
    (void)flags;
    if (s == NULL)
        return 0;
    if (name_len == 5 && memcmp(name, ":path", 5) == 0) {
        snprintf(s->path, sizeof(s->path), "%.*s", (int)value_len, (const char *)value);
        s->is_watch = strstr(s->path, "Watch/Watch") != NULL;
    } else if (name_len == 5 && memcmp(name, "token", 5) == 0) {
        snprintf(s->token, sizeof(s->token), "%.*s", (int)value_len, (const char *)value);
    } else if (name_len == 9 && memcmp(name, "hasleader", 9) == 0) {
        ((struct conn *)user)->fake->store->n_hasleader++;
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    struct conn *conn = user;
    struct stream *s = find(conn, id);
    (void)session;
    (void)flags;
    if (s == NULL)
        return 0;
    append(&s->in, data, len);
    take_messages(conn, s);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct stream *s = find(user, id);
    (void)session;
    (void)code;
    if (s != NULL)
        free_stream(s);
    return 0;
}

/* ---- connections ---- */

static void close_conn(struct conn *conn)
{
    if (conn->fd < 0)
        return;
    close(conn->fd);
    nghttp2_session_del(conn->session);
    for (size_t i = 0; i < STREAMS; i++)
        free_stream(&conn->streams[i]);
    clear(&conn->out);
    conn->session = NULL;
    conn->to_close = false;
    conn->fd = -1;
}

static void open_conn(struct fake *fake, int fd)
{
    struct conn *conn = NULL;
    for (size_t i = 0; i < CONNS && conn == NULL; i++) {
        if (fake->conns[i].fd < 0)
            conn = &fake->conns[i];
    }
    if (conn == NULL) {
        close(fd);
        return;
    }
    nghttp2_session_callbacks *callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    conn->fd = fd;
    conn->fake = fake;
    nghttp2_session_server_new(&conn->session, callbacks, conn);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(conn->session, 0, NULL, 0);
}

static void read_conn(struct conn *conn)
{
    uint8_t buf[16384];
    ssize_t n;
    while ((n = recv(conn->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
        if (nghttp2_session_mem_recv(conn->session, buf, (size_t)n) < 0 || conn->to_close) {
            close_conn(conn);
            return;
        }
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_conn(conn);
}

static void write_conn(struct conn *conn)
{
    const uint8_t *data;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(conn->session, &data)) > 0)
        append(&conn->out, data, (size_t)n);
    size_t left = conn->out.len - conn->out.at;
    if (conn->fake->throttle > 0 && left > conn->fake->throttle)
        left = conn->fake->throttle;
    if (left > 0) {
        n = send(conn->fd, conn->out.data + conn->out.at, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            conn->out.at += (size_t)n;
    }
    if (conn->out.at == conn->out.len)
        clear(&conn->out);
}

static void feed(struct conn *conn)
{
    for (size_t i = 0; i < STREAMS; i++) {
        struct stream *s = &conn->streams[i];
        if (s->late && conn->fake->rule->released) {
            s->late = false;
            flush(conn, s);
        }
        for (int id = 0; s->id != 0 && s->is_watch && !s->stalled && id < WATCHES; id++)
            feed_watch(conn, s, id);
    }
}

void fake_turn(struct fake *fake)
{
    int fd;
    while (fake->fd >= 0 && (fd = accept4(fake->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        open_conn(fake, fd);
    for (size_t i = 0; i < CONNS; i++) {
        struct conn *conn = &fake->conns[i];
        if (conn->fd >= 0)
            read_conn(conn);
        if (conn->fd < 0)
            continue;
        feed(conn);
        write_conn(conn);
    }
}

/* ---- the outside ---- */

void fake_listen(struct fake *fake)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(fake->port)};
    socklen_t len = sizeof(addr);
    int yes = 1;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fake->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fake->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    int failed = bind(fake->fd, (struct sockaddr *)&addr, len) + listen(fake->fd, 64) +
                 getsockname(fake->fd, (struct sockaddr *)&addr, &len);
    assert(failed == 0);
    (void)failed;
    fake->port = ntohs(addr.sin_port);
    snprintf(fake->url, sizeof(fake->url), "http://127.0.0.1:%u", fake->port);
}

struct fake *fake_create(struct fake_store *store, struct fake_rule *rule)
{
    struct fake *fake = __real_calloc(1, sizeof(*fake));
    assert(fake != NULL);
    fake->store = store;
    fake->rule = rule;
    for (size_t i = 0; i < CONNS; i++)
        fake->conns[i].fd = -1;
    fake_listen(fake);
    return fake;
}

void fake_drop(struct fake *fake, bool refuse_too)
{
    for (size_t i = 0; i < CONNS; i++)
        close_conn(&fake->conns[i]);
    if (refuse_too && fake->fd >= 0) {
        close(fake->fd);
        fake->fd = -1;
    }
}

void fake_drop_watches(struct fake *fake)
{
    for (size_t i = 0; i < CONNS; i++) {
        bool any = false;
        for (size_t j = 0; j < STREAMS; j++)
            any = any || fake->conns[i].streams[j].is_watch;
        if (any)
            close_conn(&fake->conns[i]);
    }
}

void fake_destroy(struct fake *fake)
{
    if (fake == NULL)
        return;
    fake_drop(fake, true);
    __real_free(fake);
}

const char *fake_url(const struct fake *fake)
{
    return fake->url;
}

void fake_drain(struct fake *fake)
{
    for (size_t i = 0; i < CONNS; i++) {
        if (fake->conns[i].fd >= 0)
            nghttp2_submit_goaway(fake->conns[i].session, 0, INT32_MAX, NGHTTP2_NO_ERROR, NULL, 0);
    }
}

void fake_serve(struct fake *fake, struct fake_store *store)
{
    fake->store = store;
}

void fake_tell_about(struct fake *fake, const void *message, size_t len)
{
    fake->about = message;
    fake->about_len = len;
}

void fake_lag(struct fake *fake, int64_t revisions)
{
    fake->lag = revisions;
}

size_t fake_count(const struct fake *fake, const char *path)
{
    size_t n = 0;
    for (size_t i = 0; i < fake->n_paths; i++)
        n += strstr(fake->paths[i], path) != NULL;
    return n;
}

int64_t fake_last_start(const struct fake *fake)
{
    return fake->last_start;
}

size_t fake_n_conns(const struct fake *fake)
{
    size_t n = 0;
    for (size_t i = 0; i < CONNS; i++)
        n += fake->conns[i].fd >= 0;
    return n;
}

size_t fake_n_watches(const struct fake *fake)
{
    size_t n = 0;
    for (size_t i = 0; i < CONNS; i++) {
        for (size_t j = 0; j < STREAMS; j++) {
            for (size_t k = 0; k < WATCHES; k++)
                n += fake->conns[i].fd >= 0 && fake->conns[i].streams[j].watches[k].used;
        }
    }
    return n;
}

void fake_throttle(struct fake *fake, size_t bytes)
{
    fake->throttle = bytes;
}
