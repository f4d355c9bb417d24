/* src/client/txn.c: a TxnRequest is a sequence of compare, success and failure fields in any order, so each step
 * appends the bytes of its own field and the transaction is ready to send at any time. */
#include "client/txn.h"

#include <stdlib.h>

#include "base/buf.h"
#include "client/range.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"

enum field { COMPARE = 1, SUCCESS = 2, FAILURE = 3 };

struct belfry_txn {
    struct belfry_buf bytes;
    enum belfry_err err; /* the first thing that went wrong */
};

struct belfry_txn *belfry_txn_create(void)
{
    struct belfry_txn *txn = calloc(1, sizeof(*txn));
    if (txn != NULL)
        belfry_buf_init(&txn->bytes);
    return txn;
}

void belfry_txn_free(struct belfry_txn *txn)
{
    if (txn == NULL)
        return;
    belfry_buf_fini(&txn->bytes);
    free(txn);
}

enum belfry_err belfry_txn_request(const struct belfry_txn *txn, struct belfry_bytes *out)
{
    if (txn == NULL)
        return BELFRY_ERR_NOMEM;
    if (txn->err == BELFRY_OK)
        *out = belfry_buf_bytes(&txn->bytes);
    return txn->err;
}

static void append(struct belfry_txn *txn, enum field field, const ProtobufCMessage *message)
{
    uint8_t *to, *at;
    size_t len = protobuf_c_message_get_packed_size(message);
    enum belfry_err err = belfry_buf_reserve(&txn->bytes, 1 + 10 + len, &to);
    if (err != BELFRY_OK) {
        txn->err = err;
        return;
    }
    at = to;
    *at++ = (uint8_t)(field << 3 | 2);
    size_t rest = len;
    for (; rest >= 0x80; rest >>= 7)
        *at++ = (uint8_t)(rest | 0x80);
    *at++ = (uint8_t)rest;
    at += protobuf_c_message_pack(message, at);
    belfry_buf_grown(&txn->bytes, (size_t)(at - to));
}

static bool compare_init(struct belfry_txn *txn, Etcdserverpb__Compare *compare, struct belfry_bytes key, char is)
{
    if (txn == NULL || txn->err != BELFRY_OK)
        return false;
    etcdserverpb__compare__init(compare);
    compare->key = belfry_binary(key);
    switch (is) {
    case '=':
        compare->result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
        return true;
    case '!':
        compare->result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__NOT_EQUAL;
        return true;
    case '<':
        compare->result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__LESS;
        return true;
    case '>':
        compare->result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER;
        return true;
    default:
        txn->err = BELFRY_ERR_INVALID;
        return false;
    }
}

void belfry_txn_if_version(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t version)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
    compare.version = version;
    append(txn, COMPARE, &compare.base);
}

void belfry_txn_if_create_rev(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t rev)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    compare.create_revision = rev;
    append(txn, COMPARE, &compare.base);
}

void belfry_txn_if_mod_rev(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t rev)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    compare.mod_revision = rev;
    append(txn, COMPARE, &compare.base);
}

void belfry_txn_if_value(struct belfry_txn *txn, struct belfry_bytes key, char is, struct belfry_bytes value)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
    compare.value = belfry_binary(value);
    append(txn, COMPARE, &compare.base);
}

void belfry_txn_if_lease(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t lease)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE;
    compare.lease = lease;
    append(txn, COMPARE, &compare.base);
}

static enum field field_of(struct belfry_txn *txn, enum belfry_branch branch)
{
    if (branch != BELFRY_THEN && branch != BELFRY_ELSE)
        txn->err = BELFRY_ERR_INVALID;
    return branch == BELFRY_ELSE ? FAILURE : SUCCESS;
}

void belfry_txn_put(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_bytes key,
                    struct belfry_bytes value, int64_t lease)
{
    if (txn == NULL || txn->err != BELFRY_OK)
        return;
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    put.key = belfry_binary(key);
    put.value = belfry_binary(value);
    put.lease = lease;
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;
    op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    op.request_put = &put;
    append(txn, field_of(txn, branch), &op.base);
}

/* The range on the wire, or NULL with the error noted. */
static struct belfry_wire_range *wire_range(struct belfry_txn *txn, struct belfry_range range)
{
    struct belfry_wire_range *wire = NULL;
    if (txn != NULL && txn->err == BELFRY_OK)
        txn->err = belfry_range_wire(range, &wire);
    return wire;
}

void belfry_txn_del(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range)
{
    struct belfry_wire_range *wire = wire_range(txn, range);
    if (wire == NULL)
        return;
    Etcdserverpb__DeleteRangeRequest del = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    del.key = belfry_binary(wire->key);
    del.range_end = belfry_binary(wire->end);
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;
    op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    op.request_delete_range = &del;
    append(txn, field_of(txn, branch), &op.base);
    free(wire);
}

void belfry_txn_get(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range)
{
    struct belfry_wire_range *wire = wire_range(txn, range);
    if (wire == NULL)
        return;
    Etcdserverpb__RangeRequest get = ETCDSERVERPB__RANGE_REQUEST__INIT;
    get.key = belfry_binary(wire->key);
    get.range_end = belfry_binary(wire->end);
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;
    op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    op.request_range = &get;
    append(txn, field_of(txn, branch), &op.base);
    free(wire);
}
