/* fuzz/relay_guard.c: any bytes as a Range, a Txn, an alarm or a new user on their way up.
 *
 * The first byte says which, and how the rest is cut. However that is, the verdict is the same. If the message is
 * compressed it is no milder: a part that is longer than the whole is then found out too late. And where protobuf-c
 * finds one that would end etcd, it is not "harmless". The same bytes as a compressed message are refused, or read.
 * A Txn is also judged as protobuf-c writes it again: does it need a key that it deletes?
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/check.h"
#include "net/zlib_mem.h"
#include "serve/relay/relay_guard.h"
#include "wire/rpc.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum relay_guard_verdict cut(enum relay_guard_kind kind, uint8_t flag, struct belfry_bytes message, size_t piece)
{
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    struct relay_guard guard;
    relay_guard_init(&guard, kind, true);
    belfry_grpc_frame_prefix(prefix, message.len);
    prefix[0] = flag;
    enum relay_guard_verdict verdict = relay_guard_pass(&guard, belfry_bytes_of(prefix, sizeof(prefix)));
    for (size_t at = 0; at < message.len && verdict == RELAY_GUARD_HARMLESS; at += piece) {
        size_t n = message.len - at < piece ? message.len - at : piece;
        verdict = relay_guard_pass(&guard, belfry_bytes_of(message.data + at, n));
    }
    relay_guard_fini(&guard);
    return verdict;
}

/* As a gzip member that is no smaller than it. */
static enum relay_guard_verdict cut_packed(enum relay_guard_kind kind, struct belfry_bytes message, size_t piece)
{
    size_t cap = message.len + message.len / 8 + 64;
    uint8_t *packed = malloc(cap);
    check(packed != NULL);
    z_stream z = {.next_in = (const Bytef *)message.data,
                  .avail_in = (uInt)message.len,
                  .next_out = packed,
                  .avail_out = (uInt)cap};
    check(deflateInit2(&z, 0, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    check(deflate(&z, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&z);
    enum relay_guard_verdict verdict = cut(kind, 1, belfry_bytes_of(packed, cap - z.avail_out), piece);
    free(packed);
    return verdict;
}

static bool range_kills(const Etcdserverpb__RangeRequest *range)
{
    return (int32_t)range->sort_target < 0 || (int32_t)range->sort_target > 4;
}

static bool txn_kills(const Etcdserverpb__TxnRequest *txn);

static bool ops_kill(Etcdserverpb__RequestOp **ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool is_range = ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        bool is_txn = ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN;
        if ((is_range && range_kills(ops[i]->request_range)) || (is_txn && txn_kills(ops[i]->request_txn)))
            return true;
    }
    return false;
}

static bool txn_kills(const Etcdserverpb__TxnRequest *txn)
{
    return ops_kill(txn->success, txn->n_success) || ops_kill(txn->failure, txn->n_failure);
}

/* ---- what a Txn deletes, and needs ---- */

/* All keys from this one on are deleted. data NULL: none are. */
struct from {
    const uint8_t *data;
    size_t len;
};

static struct from from_of(ProtobufCBinaryData key)
{
    static const uint8_t empty[1];
    return (struct from){key.data != NULL ? key.data : empty,
                         key.len < RELAY_GUARD_KEY_BYTES ? key.len : RELAY_GUARD_KEY_BYTES};
}

static bool is_below(struct from a, struct from b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order < 0 || (order == 0 && a.len < b.len);
}

static struct from lower(struct from a, struct from b)
{
    if (a.data == NULL || b.data == NULL)
        return a.data == NULL ? b : a;
    return is_below(a, b) ? a : b;
}

static bool ops_need_deleted(Etcdserverpb__RequestOp **ops, size_t n, struct from *deleted);

static bool txn_needs_deleted(const Etcdserverpb__TxnRequest *txn, struct from *deleted)
{
    struct from yes = *deleted, no = *deleted;
    bool needs =
        ops_need_deleted(txn->success, txn->n_success, &yes) || ops_need_deleted(txn->failure, txn->n_failure, &no);
    *deleted = lower(yes, no);
    return needs;
}

static bool ops_need_deleted(Etcdserverpb__RequestOp **ops, size_t n, struct from *deleted)
{
    for (size_t i = 0; i < n; i++) {
        const Etcdserverpb__RequestOp *op = ops[i];
        if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN &&
            txn_needs_deleted(op->request_txn, deleted))
            return true;
        if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE) {
            const Etcdserverpb__DeleteRangeRequest *range = op->request_delete_range;
            if (range->range_end.len == 1 && range->range_end.data[0] == 0)
                *deleted = lower(*deleted, from_of(range->key));
        } else if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT && deleted->data != NULL) {
            const Etcdserverpb__PutRequest *put = op->request_put;
            if ((put->ignore_value || put->ignore_lease) && !is_below(from_of(put->key), *deleted))
                return true;
        }
    }
    return false;
}

static void check_deletes(const uint8_t *data, size_t size)
{
    Etcdserverpb__TxnRequest *txn = etcdserverpb__txn_request__unpack(NULL, size, data);
    if (txn == NULL)
        return;
    size_t len = etcdserverpb__txn_request__get_packed_size(txn);
    uint8_t *packed = malloc(len + 1);
    check(packed != NULL && etcdserverpb__txn_request__pack(txn, packed) == len);
    enum relay_guard_verdict verdict = cut(RELAY_GUARD_TXN, 0, belfry_bytes_of(packed, len), len + 1);
    bool needs = txn_needs_deleted(txn, &(struct from){NULL, 0});
    check(needs ? verdict != RELAY_GUARD_HARMLESS : verdict != RELAY_GUARD_DELETED);
    free(packed);
    etcdserverpb__txn_request__free_unpacked(txn, NULL);
}

/* ---- alarms, and all of them ---- */

static bool alarm_kills(int32_t action, int32_t alarm)
{
    return action < 0 || action > 2 || (action == 1 && (alarm < 0 || alarm > 2));
}

static bool kills(enum relay_guard_kind kind, const uint8_t *data, size_t size)
{
    bool found = false;
    if (kind == RELAY_GUARD_NAME) {
        Etcdserverpb__AuthUserAddRequest *user = etcdserverpb__auth_user_add_request__unpack(NULL, size, data);
        found = user != NULL && strlen(user->name) > 32768;
        etcdserverpb__auth_user_add_request__free_unpacked(user, NULL);
    } else if (kind == RELAY_GUARD_ALARM) {
        Etcdserverpb__AlarmRequest *alarm = etcdserverpb__alarm_request__unpack(NULL, size, data);
        found = alarm != NULL && alarm_kills((int32_t)alarm->action, (int32_t)alarm->alarm);
        etcdserverpb__alarm_request__free_unpacked(alarm, NULL);
    } else if (kind == RELAY_GUARD_RANGE) {
        Etcdserverpb__RangeRequest *range = etcdserverpb__range_request__unpack(NULL, size, data);
        found = range != NULL && range_kills(range);
        etcdserverpb__range_request__free_unpacked(range, NULL);
    } else {
        Etcdserverpb__TxnRequest *txn = etcdserverpb__txn_request__unpack(NULL, size, data);
        found = txn != NULL && txn_kills(txn);
        etcdserverpb__txn_request__free_unpacked(txn, NULL);
    }
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    enum relay_guard_kind kind = (enum relay_guard_kind)(data[0] % 4);
    size_t piece = (size_t)(data[0] >> 1) + 1;
    struct belfry_bytes message = belfry_bytes_of(data + 1, size - 1);
    enum relay_guard_verdict verdict = cut(kind, 0, message, size);
    check(verdict == cut(kind, 0, message, piece));
    enum relay_guard_verdict packed = cut_packed(kind, message, piece);
    check(packed == verdict || verdict == RELAY_GUARD_HARMLESS);
    check(verdict != RELAY_GUARD_HARMLESS || !kills(kind, data + 1, size - 1));
    check(cut(kind, 1, message, size) == cut(kind, 1, message, piece));
    check_deletes(data + 1, size - 1);
    return 0;
}
