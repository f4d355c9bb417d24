/* src/client/reply.c */
#include "client/reply.h"

#include <stdlib.h>

#include "client/callback_batch.h"
#include "wire/rpc.pb-c.h"

#define TXN_OPS_MAX   65536 /* answers in a transaction; etcd's default limit is 128 */
#define TXN_DEPTH_MAX 8     /* nested transactions; ours have none */

static enum belfry_err init_at(struct belfry_reply_view *view, enum belfry_reply_kind kind, struct belfry_bytes message,
                               unsigned depth);

static enum belfry_err number(struct belfry_bytes message, uint32_t field, int64_t *out)
{
    uint64_t value;
    enum belfry_err err = belfry_scan_number(message, field, &value);
    if (err == BELFRY_OK)
        *out = (int64_t)value;
    return err;
}

/* Key-values in field `field`: checked and counted now, decoded during the walk. */
static enum belfry_err kvs(struct belfry_reply_view *view, uint32_t field)
{
    struct belfry_bytes bytes;
    struct belfry_wire_kv kv;
    size_t at = 0;
    enum belfry_err err;
    while ((err = belfry_scan_field(view->message, field, &at, &bytes)) == BELFRY_OK) {
        if ((err = belfry_scan_kv(bytes, &kv)) != BELFRY_OK)
            return err;
        view->reply.n_kvs++;
    }
    view->kv_field = field;
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

static enum belfry_err range(struct belfry_reply_view *view)
{
    int64_t more = 0;
    enum belfry_err err = kvs(view, BELFRY_RANGE_KVS);
    if (err == BELFRY_OK)
        err = number(view->message, 3, &more);
    if (err == BELFRY_OK)
        err = number(view->message, 4, &view->reply.count);
    view->reply.more = more != 0;
    return err;
}

static enum belfry_err deleted(struct belfry_reply_view *view)
{
    enum belfry_err err = kvs(view, 3);
    return err == BELFRY_OK ? number(view->message, 2, &view->reply.deleted) : err;
}

/* ---- transactions ---- */

/* One ResponseOp: the field number is the kind of answer. */
static enum belfry_err op(struct belfry_reply_view *view, struct belfry_bytes bytes, unsigned depth)
{
    static const enum belfry_reply_kind kinds[] = {
        [1] = BELFRY_REPLY_RANGE, BELFRY_REPLY_PUT, BELFRY_REPLY_DELETE, BELFRY_REPLY_TXN};
    for (uint32_t field = 1; field <= 4; field++) {
        struct belfry_bytes inner;
        size_t at = 0;
        enum belfry_err err = belfry_scan_field(bytes, field, &at, &inner);
        if (err == BELFRY_OK)
            return init_at(view, kinds[field], inner, depth);
        if (err != BELFRY_ERR_AGAIN)
            return err;
    }
    return BELFRY_ERR_PROTOCOL;
}

static enum belfry_err txn(struct belfry_reply_view *view, unsigned depth)
{
    struct belfry_bytes bytes;
    int64_t succeeded;
    size_t at = 0, n = 0;
    enum belfry_err err = number(view->message, 2, &succeeded);
    if (err != BELFRY_OK || depth >= TXN_DEPTH_MAX)
        return BELFRY_ERR_PROTOCOL;
    view->reply.succeeded = succeeded != 0;
    while ((err = belfry_scan_field(view->message, 3, &at, &bytes)) == BELFRY_OK)
        n++;
    if (err != BELFRY_ERR_AGAIN || n > TXN_OPS_MAX)
        return BELFRY_ERR_PROTOCOL;
    view->ops = calloc(n + 1, sizeof(*view->ops));
    if (view->ops == NULL)
        return BELFRY_ERR_NOMEM;
    at = 0;
    while (belfry_scan_field(view->message, 3, &at, &bytes) == BELFRY_OK) {
        err = op(&view->ops[view->n_ops], bytes, depth + 1);
        if (err != BELFRY_OK)
            return err;
        view->n_ops++;
    }
    return BELFRY_OK;
}

/* ---- leases ---- */

static enum belfry_err lease(struct belfry_reply_view *view)
{
    enum belfry_err err = number(view->message, 2, &view->reply.lease);
    return err == BELFRY_OK ? number(view->message, 3, &view->reply.ttl_s) : err;
}

static enum belfry_err lease_ttl(struct belfry_reply_view *view)
{
    struct belfry_bytes key;
    size_t at = 0, n = 0;
    enum belfry_err err = lease(view);
    if (err == BELFRY_OK)
        err = number(view->message, 4, &view->reply.granted_ttl_s);
    if (err != BELFRY_OK)
        return err;
    while (belfry_scan_field(view->message, 5, &at, &key) == BELFRY_OK)
        n++;
    view->keys = calloc(n + 1, sizeof(*view->keys));
    if (view->keys == NULL)
        return BELFRY_ERR_NOMEM;
    at = 0;
    while (belfry_scan_field(view->message, 5, &at, &key) == BELFRY_OK)
        view->keys[view->n_keys++] = key;
    return BELFRY_OK;
}

static enum belfry_err leases(struct belfry_reply_view *view)
{
    struct belfry_bytes bytes;
    size_t at = 0, n = 0;
    enum belfry_err err;
    while ((err = belfry_scan_field(view->message, 2, &at, &bytes)) == BELFRY_OK)
        n++;
    if (err != BELFRY_ERR_AGAIN)
        return err;
    view->leases = calloc(n + 1, sizeof(*view->leases));
    if (view->leases == NULL)
        return BELFRY_ERR_NOMEM;
    at = 0;
    while (belfry_scan_field(view->message, 2, &at, &bytes) == BELFRY_OK) {
        err = number(bytes, 1, &view->leases[view->n_leases]);
        if (err != BELFRY_OK)
            return err;
        view->n_leases++;
    }
    return BELFRY_OK;
}

/* ---- status and members ---- */

/* Copies a list of texts, with a NULL at its end, to *to, and moves *to past it. */
static const char *const *list(const char ***to, char **from, size_t n)
{
    const char **start = *to;
    for (size_t i = 0; i < n; i++)
        *(*to)++ = from[i];
    *(*to)++ = NULL;
    return start;
}

static enum belfry_err status(struct belfry_reply_view *view)
{
    Etcdserverpb__StatusResponse *message =
        etcdserverpb__status_response__unpack(NULL, view->message.len, (const uint8_t *)view->message.data);
    if (message == NULL)
        return BELFRY_ERR_PROTOCOL;
    view->unpacked = message;
    view->texts = calloc(message->n_errors + 1, sizeof(*view->texts));
    if (view->texts == NULL)
        return BELFRY_ERR_NOMEM;
    const char **to = view->texts;
    view->status = (struct belfry_status){.version = message->version,
                                          .db_size = message->dbsize,
                                          .db_size_in_use = message->dbsizeinuse,
                                          .leader = message->leader,
                                          .raft_index = message->raftindex,
                                          .raft_term = message->raftterm,
                                          .raft_applied_index = message->raftappliedindex,
                                          .is_learner = message->islearner,
                                          .errors = list(&to, message->errors, message->n_errors)};
    view->reply.status = &view->status;
    return BELFRY_OK;
}

static enum belfry_err members(struct belfry_reply_view *view)
{
    Etcdserverpb__MemberListResponse *message =
        etcdserverpb__member_list_response__unpack(NULL, view->message.len, (const uint8_t *)view->message.data);
    if (message == NULL)
        return BELFRY_ERR_PROTOCOL;
    view->unpacked = message;
    size_t n_texts = 0;
    for (size_t i = 0; i < message->n_members; i++)
        n_texts += message->members[i]->n_peerurls + message->members[i]->n_clienturls + 2;
    view->texts = calloc(n_texts + 1, sizeof(*view->texts));
    view->members = calloc(message->n_members + 1, sizeof(*view->members));
    if (view->texts == NULL || view->members == NULL)
        return BELFRY_ERR_NOMEM;
    const char **to = view->texts;
    for (size_t i = 0; i < message->n_members; i++) {
        Etcdserverpb__Member *member = message->members[i];
        view->members[i] = (struct belfry_member){.id = member->id,
                                                  .name = member->name,
                                                  .peer_urls = list(&to, member->peerurls, member->n_peerurls),
                                                  .client_urls = list(&to, member->clienturls, member->n_clienturls),
                                                  .is_learner = member->islearner};
    }
    view->n_members = message->n_members;
    return BELFRY_OK;
}

/* ---- decode ---- */

static enum belfry_err decode(struct belfry_reply_view *view, unsigned depth)
{
    switch (view->kind) {
    case BELFRY_REPLY_RANGE:
        return range(view);
    case BELFRY_REPLY_PUT:
        return kvs(view, 2);
    case BELFRY_REPLY_DELETE:
        return deleted(view);
    case BELFRY_REPLY_TXN:
        return txn(view, depth);
    case BELFRY_REPLY_HEADER:
        return BELFRY_OK;
    case BELFRY_REPLY_GRANT:
    case BELFRY_REPLY_KEEPALIVE:
        return lease(view);
    case BELFRY_REPLY_TTL:
        return lease_ttl(view);
    case BELFRY_REPLY_LEASES:
        return leases(view);
    case BELFRY_REPLY_STATUS:
        return status(view);
    case BELFRY_REPLY_MEMBERS:
        return members(view);
    }
    return BELFRY_ERR_INVALID;
}

static enum belfry_err init_at(struct belfry_reply_view *view, enum belfry_reply_kind kind, struct belfry_bytes message,
                               unsigned depth)
{
    struct belfry_wire_header header;
    *view = (struct belfry_reply_view){.kind = kind, .message = message};
    view->reply.why = view->reply.endpoint = "";
    enum belfry_err err = belfry_scan_response_header(message, &header);
    if (err == BELFRY_OK) {
        belfry_batch_header(&header, &view->reply.header);
        err = decode(view, depth);
    }
    if (err != BELFRY_OK) {
        belfry_reply_fini(view);
        *view = (struct belfry_reply_view){.kind = kind, .reply = {.why = "", .endpoint = ""}}; /* an empty walk */
    }
    return err;
}

enum belfry_err belfry_reply_init(struct belfry_reply_view *view, enum belfry_reply_kind kind,
                                  struct belfry_bytes message)
{
    return init_at(view, kind, message, 0);
}

void belfry_reply_fini(struct belfry_reply_view *view)
{
    for (size_t i = 0; i < view->n_ops; i++)
        belfry_reply_fini(&view->ops[i]);
    free(view->ops);
    free(view->members);
    free(view->leases);
    free(view->keys);
    free(view->texts);
    if (view->unpacked != NULL)
        protobuf_c_message_free_unpacked(view->unpacked, NULL);
    view->ops = NULL;
    view->n_ops = 0;
    view->members = NULL;
    view->leases = NULL;
    view->keys = NULL;
    view->texts = NULL;
    view->unpacked = NULL;
}

/* ---- walks ---- */

static struct belfry_reply_view *view_of(const struct belfry_reply *reply)
{
    return (struct belfry_reply_view *)(uintptr_t)reply; /* ours, created non-const */
}

const struct belfry_event *belfry_reply_kv(const struct belfry_reply *reply, const struct belfry_event *after)
{
    struct belfry_reply_view *view = view_of(reply);
    struct belfry_bytes bytes;
    struct belfry_wire_kv kv;
    if (after == NULL)
        view->at = 0;
    if (view->kv_field == 0 || belfry_scan_field(view->message, view->kv_field, &view->at, &bytes) != BELFRY_OK ||
        belfry_scan_kv(bytes, &kv) != BELFRY_OK)
        return NULL;
    belfry_batch_kv(&kv, &view->event);
    return &view->event;
}

const struct belfry_member *belfry_reply_member(const struct belfry_reply *reply, const struct belfry_member *after)
{
    const struct belfry_reply_view *view = view_of(reply);
    const struct belfry_member *next = after == NULL ? view->members : after + 1;
    return view->n_members > 0 && next < view->members + view->n_members ? next : NULL;
}

const int64_t *belfry_reply_lease(const struct belfry_reply *reply, const int64_t *after)
{
    const struct belfry_reply_view *view = view_of(reply);
    const int64_t *next = after == NULL ? view->leases : after + 1;
    return view->n_leases > 0 && next < view->leases + view->n_leases ? next : NULL;
}

const struct belfry_bytes *belfry_reply_key(const struct belfry_reply *reply, const struct belfry_bytes *after)
{
    const struct belfry_reply_view *view = view_of(reply);
    const struct belfry_bytes *next = after == NULL ? view->keys : after + 1;
    return view->n_keys > 0 && next < view->keys + view->n_keys ? next : NULL;
}

const struct belfry_reply *belfry_reply_op(const struct belfry_reply *reply, const struct belfry_reply *after)
{
    const struct belfry_reply_view *view = view_of(reply);
    const struct belfry_reply_view *next = after == NULL ? view->ops : view_of(after) + 1;
    return view->n_ops > 0 && next < view->ops + view->n_ops ? &next->reply : NULL;
}
