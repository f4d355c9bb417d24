/* src/client/txn.c: a TxnRequest is a sequence of compare, success and failure fields in any order, so each step
 * appends the bytes of its own field and the transaction is ready to send at any time. */
#include "client/txn.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "client/etcd_request.h"
#include "client/opts.h"
#include "client/range_bytes.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"

#define HEAD_MAX 11 /* a tag, and a length of at most ten bytes */

enum field { COMPARE = 1, SUCCESS = 2, FAILURE = 3 };      /* of a TxnRequest */
enum op { OP_RANGE = 1, OP_PUT = 2, OP_DELETE_RANGE = 3 }; /* of a RequestOp */

struct belfry_txn {
    struct belfry_buf bytes;
    enum belfry_err err; /* the first error */
    const char *why;     /* its details; NULL: none */
    bool needs_leader;   /* a step writes, or reads what is newest */
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

bool belfry_txn_needs_leader(const struct belfry_txn *txn)
{
    return txn->needs_leader;
}

const char *belfry_txn_why(const struct belfry_txn *txn)
{
    return txn != NULL ? txn->why : NULL;
}

/* Writes the tag and the length that precede `len` bytes of a field. */
static uint8_t *write_head(uint8_t *to, unsigned field, size_t len)
{
    *to++ = (uint8_t)(field << 3 | 2);
    for (; len >= 0x80; len >>= 7)
        *to++ = (uint8_t)(len | 0x80);
    *to++ = (uint8_t)len;
    return to;
}

static void append_compare(struct belfry_txn *txn, const Etcdserverpb__Compare *compare)
{
    uint8_t *to;
    size_t len = protobuf_c_message_get_packed_size(&compare->base);
    txn->err = belfry_buf_reserve(&txn->bytes, HEAD_MAX + len, &to);
    if (txn->err != BELFRY_OK)
        return;
    uint8_t *end = write_head(to, COMPARE, len);
    end += protobuf_c_message_pack(&compare->base, end);
    belfry_buf_grown(&txn->bytes, (size_t)(end - to));
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
        txn->why = "a comparison of the transaction is none of = ! < >";
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
    append_compare(txn, &compare);
}

void belfry_txn_if_create_rev(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t rev)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    compare.create_revision = rev;
    append_compare(txn, &compare);
}

void belfry_txn_if_mod_rev(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t rev)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    compare.mod_revision = rev;
    append_compare(txn, &compare);
}

void belfry_txn_if_value(struct belfry_txn *txn, struct belfry_bytes key, char is, struct belfry_bytes value)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
    compare.value = belfry_binary(value);
    append_compare(txn, &compare);
}

void belfry_txn_if_lease(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t lease)
{
    Etcdserverpb__Compare compare;
    if (!compare_init(txn, &compare, key, is))
        return;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE;
    compare.lease = lease;
    append_compare(txn, &compare);
}

/* ---- steps ---- */

/* Appends a RequestOp around `request` (unless `err` is set) and frees it. */
static void append_step(struct belfry_txn *txn, enum belfry_branch branch, enum op op, enum belfry_err err,
                        struct belfry_buf *request)
{
    uint8_t *to, inner[HEAD_MAX];
    size_t len = belfry_buf_len(request), inner_len = (size_t)(write_head(inner, op, len) - inner);
    if (err == BELFRY_OK && branch != BELFRY_THEN && branch != BELFRY_ELSE) {
        err = BELFRY_ERR_INVALID;
        txn->why = "a step of the transaction is in no branch";
    }
    if (err == BELFRY_OK)
        err = belfry_buf_reserve(&txn->bytes, HEAD_MAX + inner_len + len, &to);
    if (err == BELFRY_OK) {
        uint8_t *end = write_head(to, branch == BELFRY_THEN ? SUCCESS : FAILURE, inner_len + len);
        end = mempcpy(end, inner, inner_len);
        if (len > 0)
            end = mempcpy(end, request->data + request->start, len);
        belfry_buf_grown(&txn->bytes, (size_t)(end - to));
        txn->needs_leader = txn->needs_leader || op != OP_RANGE;
    }
    txn->err = err;
    belfry_buf_fini(request);
}

/* False: an earlier step failed, or the options are not for this one. */
static bool may_append(struct belfry_txn *txn, const struct belfry_opts *opts, unsigned where)
{
    if (txn == NULL || txn->err != BELFRY_OK)
        return false;
    if (!belfry_opts_fit(opts, where)) {
        txn->err = BELFRY_ERR_INVALID;
        txn->why = "an option of a step of the transaction is not for that step";
    }
    return txn->err == BELFRY_OK;
}

void belfry_txn_put(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_bytes key,
                    struct belfry_bytes value, int64_t lease)
{
    struct belfry_buf request = {0};
    if (may_append(txn, NULL, BELFRY_FOR_PUT))
        append_step(txn, branch, OP_PUT, belfry_request_put_leased(&request, key, value, lease), &request);
}

void belfry_txn_put_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_bytes key,
                         struct belfry_bytes value, const struct belfry_opts *opts)
{
    struct belfry_buf request = {0};
    if (may_append(txn, opts, BELFRY_FOR_PUT))
        append_step(txn, branch, OP_PUT, belfry_request_put(&request, key, value, opts), &request);
}

void belfry_txn_del_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range,
                         const struct belfry_opts *opts)
{
    struct belfry_wire_range *wire = NULL;
    struct belfry_buf request = {0};
    if (!may_append(txn, opts, BELFRY_FOR_DEL))
        return;
    enum belfry_err err = belfry_range_wire(range, &wire);
    txn->why = belfry_range_why(err);
    if (err == BELFRY_OK)
        err = belfry_request_delete(&request, wire, opts);
    append_step(txn, branch, OP_DELETE_RANGE, err, &request);
    free(wire);
}

void belfry_txn_get_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range,
                         const struct belfry_opts *opts)
{
    struct belfry_wire_range *wire = NULL;
    struct belfry_buf request = {0};
    if (!may_append(txn, opts, BELFRY_FOR_GET))
        return;
    enum belfry_err err = belfry_range_wire(range, &wire);
    txn->why = belfry_range_why(err);
    if (err == BELFRY_OK)
        err = belfry_request_range(&request, wire, opts);
    append_step(txn, branch, OP_RANGE, err, &request);
    txn->needs_leader = txn->needs_leader || belfry_opts_number(opts, BELFRY_OPT_SERIALIZABLE) == 0;
    free(wire);
}

void belfry_txn_del(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range)
{
    belfry_txn_del_with(txn, branch, range, NULL);
}

void belfry_txn_get(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range)
{
    belfry_txn_get_with(txn, branch, range, NULL);
}
