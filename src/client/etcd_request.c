/* src/client/etcd_request.c */
#include "client/etcd_request.h"

#include "client/opts.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"

static enum belfry_err append(struct belfry_buf *out, const ProtobufCMessage *message)
{
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(out, protobuf_c_message_get_packed_size(message), &to);
    if (err == BELFRY_OK)
        belfry_buf_grown(out, protobuf_c_message_pack(message, to));
    return err;
}

enum belfry_err belfry_request_count(struct belfry_buf *out, struct belfry_bytes key)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.key = belfry_binary(key);
    request.count_only = true;
    return append(out, &request.base);
}

static enum belfry_err append_page(struct belfry_buf *out, struct belfry_bytes key, struct belfry_bytes end,
                                   int64_t rev, int64_t limit, bool serializable)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.key = belfry_binary(key);
    request.range_end = belfry_binary(end);
    request.revision = rev;
    request.limit = limit;
    request.serializable = serializable;
    return append(out, &request.base);
}

enum belfry_err belfry_request_page(struct belfry_buf *out, struct belfry_bytes key, struct belfry_bytes end,
                                    int64_t rev, int64_t limit)
{
    return append_page(out, key, end, rev, limit, false);
}

enum belfry_err belfry_request_pinned_page(struct belfry_buf *out, struct belfry_bytes key, struct belfry_bytes end,
                                           int64_t rev, int64_t limit)
{
    return append_page(out, key, end, rev, limit, true);
}

enum belfry_err belfry_request_range(struct belfry_buf *out, const struct belfry_wire_range *range,
                                     const struct belfry_opts *opts)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.key = belfry_binary(range->key);
    request.range_end = belfry_binary(range->end);
    request.limit = belfry_opts_number(opts, BELFRY_OPT_LIMIT);
    request.revision = belfry_opts_number(opts, BELFRY_OPT_REV);
    request.sort_order = (Etcdserverpb__RangeRequest__SortOrder)belfry_opts_number(opts, BELFRY_OPT_ORDER);
    request.sort_target = (Etcdserverpb__RangeRequest__SortTarget)belfry_opts_number(opts, BELFRY_OPT_SORT_BY);
    request.serializable = belfry_opts_number(opts, BELFRY_OPT_SERIALIZABLE) != 0;
    request.keys_only = belfry_opts_number(opts, BELFRY_OPT_KEYS_ONLY) != 0;
    request.count_only = belfry_opts_number(opts, BELFRY_OPT_COUNT_ONLY) != 0;
    request.min_mod_revision = belfry_opts_number(opts, BELFRY_OPT_MIN_MOD_REV);
    request.max_mod_revision = belfry_opts_number(opts, BELFRY_OPT_MAX_MOD_REV);
    request.min_create_revision = belfry_opts_number(opts, BELFRY_OPT_MIN_CREATE_REV);
    request.max_create_revision = belfry_opts_number(opts, BELFRY_OPT_MAX_CREATE_REV);
    return append(out, &request.base);
}

enum belfry_err belfry_request_put(struct belfry_buf *out, struct belfry_bytes key, struct belfry_bytes value,
                                   const struct belfry_opts *opts)
{
    Etcdserverpb__PutRequest request = ETCDSERVERPB__PUT_REQUEST__INIT;
    request.key = belfry_binary(key);
    request.value = belfry_binary(value);
    request.lease = belfry_opts_number(opts, BELFRY_OPT_LEASE);
    request.prev_kv = belfry_opts_number(opts, BELFRY_OPT_PREV_KV) != 0;
    request.ignore_value = belfry_opts_number(opts, BELFRY_OPT_IGNORE_VALUE) != 0;
    request.ignore_lease = belfry_opts_number(opts, BELFRY_OPT_IGNORE_LEASE) != 0;
    return append(out, &request.base);
}

enum belfry_err belfry_request_put_leased(struct belfry_buf *out, struct belfry_bytes key, struct belfry_bytes value,
                                          int64_t lease)
{
    Etcdserverpb__PutRequest request = ETCDSERVERPB__PUT_REQUEST__INIT;
    request.key = belfry_binary(key);
    request.value = belfry_binary(value);
    request.lease = lease;
    return append(out, &request.base);
}

enum belfry_err belfry_request_delete(struct belfry_buf *out, const struct belfry_wire_range *range,
                                      const struct belfry_opts *opts)
{
    Etcdserverpb__DeleteRangeRequest request = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    request.key = belfry_binary(range->key);
    request.range_end = belfry_binary(range->end);
    request.prev_kv = belfry_opts_number(opts, BELFRY_OPT_PREV_KV) != 0;
    return append(out, &request.base);
}

enum belfry_err belfry_request_compact(struct belfry_buf *out, int64_t rev, bool physical)
{
    Etcdserverpb__CompactionRequest request = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
    request.revision = rev;
    request.physical = physical;
    return append(out, &request.base);
}

enum belfry_err belfry_request_lease_grant(struct belfry_buf *out, int64_t ttl_s, int64_t id)
{
    Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    request.ttl = ttl_s;
    request.id = id;
    return append(out, &request.base);
}

enum belfry_err belfry_request_lease_id(struct belfry_buf *out, int64_t id)
{
    Etcdserverpb__LeaseRevokeRequest request = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    request.id = id;
    return append(out, &request.base);
}

enum belfry_err belfry_request_lease_ttl(struct belfry_buf *out, int64_t id, bool keys)
{
    Etcdserverpb__LeaseTimeToLiveRequest request = ETCDSERVERPB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    request.id = id;
    request.keys = keys;
    return append(out, &request.base);
}

enum belfry_err belfry_request_member_list(struct belfry_buf *out)
{
    Etcdserverpb__MemberListRequest request = ETCDSERVERPB__MEMBER_LIST_REQUEST__INIT;
    request.linearizable = true;
    return append(out, &request.base);
}

enum belfry_err belfry_request_authenticate(struct belfry_buf *out, char *user, char *password)
{
    Etcdserverpb__AuthenticateRequest request;
    etcdserverpb__authenticate_request__init(&request);
    request.name = user;
    request.password = password;
    return append(out, &request.base);
}
