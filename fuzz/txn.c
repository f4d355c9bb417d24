/* fuzz/txn.c: any bytes as a TxnRequest.
 *
 * Nothing may be read outside the message. Where protobuf-c accepts the message too, both must have read the same, part
 * by part. As with a RangeRequest, we give up where it goes on; and a part that is not taken (a field of a union that
 * another one follows) may be malformed.
 */
#include <stdint.h>

#include "fuzz/check.h"
#include "wire/rpc.pb-c.h"
#include "wire/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_data(struct belfry_bytes ours, ProtobufCBinaryData theirs)
{
    check(belfry_bytes_equal(ours, belfry_bytes_of(theirs.data, theirs.len)));
}

/* What protobuf-c has of the union, if it is of the target. */
static int64_t number_of(const Etcdserverpb__Compare *theirs)
{
    switch ((int)theirs->target) {
    case BELFRY_COMPARE_VERSION:
        return theirs->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION ? theirs->version : 0;
    case BELFRY_COMPARE_CREATE:
        return theirs->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION
                   ? theirs->create_revision
                   : 0;
    case BELFRY_COMPARE_MOD:
        return theirs->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION ? theirs->mod_revision : 0;
    case BELFRY_COMPARE_LEASE:
        return theirs->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE ? theirs->lease : 0;
    default:
        return 0;
    }
}

static void same_compare(struct belfry_bytes message, const Etcdserverpb__Compare *theirs)
{
    struct belfry_wire_compare ours;
    if (belfry_scan_compare(message, &ours) != BELFRY_OK)
        return;
    bool has_value = (int)theirs->target == BELFRY_COMPARE_VALUE &&
                     theirs->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
    same_data(ours.key, theirs->key);
    same_data(ours.range_end, theirs->range_end);
    check(ours.result == (int32_t)theirs->result && ours.target == (int32_t)theirs->target);
    check(ours.number == number_of(theirs));
    if (has_value)
        same_data(ours.value, theirs->value);
    else
        check(ours.value.len == 0);
    check(ours.is_odd || theirs->base.n_unknown_fields == 0);
}

static void same_range(struct belfry_bytes message, const Etcdserverpb__RangeRequest *theirs)
{
    struct belfry_wire_range_request ours;
    if (belfry_scan_range_request(message, &ours) != BELFRY_OK)
        return;
    same_data(ours.key, theirs->key);
    same_data(ours.range_end, theirs->range_end);
    check(ours.revision == theirs->revision && ours.serializable == theirs->serializable);
}

/* An operation with one field: with two, protobuf-c may merge them. */
static void same_op(struct belfry_bytes message, const Etcdserverpb__RequestOp *theirs)
{
    struct belfry_wire_op ours;
    if (belfry_scan_op(message, &ours) != BELFRY_OK || ours.is_odd)
        return;
    check((int)ours.kind == (int)theirs->request_case);
    if (ours.kind == BELFRY_OP_RANGE)
        same_range(ours.request, theirs->request_range);
}

static void same_ops(struct belfry_bytes message, uint32_t number, Etcdserverpb__RequestOp **theirs, size_t n)
{
    struct belfry_bytes op;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        check(belfry_scan_field(message, number, &at, &op) == BELFRY_OK);
        same_op(op, theirs[i]);
    }
    check(belfry_scan_field(message, number, &at, &op) == BELFRY_ERR_AGAIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes message = belfry_bytes_of(data, size), compare;
    struct belfry_wire_txn_request ours;
    if (belfry_scan_txn_request(message, &ours) != BELFRY_OK)
        return 0;
    Etcdserverpb__TxnRequest *theirs = etcdserverpb__txn_request__unpack(NULL, size, data);
    if (theirs == NULL)
        return 0;
    check(ours.n_compares == theirs->n_compare && ours.n_success == theirs->n_success &&
          ours.n_failure == theirs->n_failure);
    check(ours.is_odd || theirs->base.n_unknown_fields == 0);
    size_t at = 0;
    for (size_t i = 0; i < ours.n_compares; i++) {
        check(belfry_scan_field(message, BELFRY_TXN_COMPARES, &at, &compare) == BELFRY_OK);
        same_compare(compare, theirs->compare[i]);
    }
    same_ops(message, BELFRY_TXN_SUCCESS, theirs->success, theirs->n_success);
    same_ops(message, BELFRY_TXN_FAILURE, theirs->failure, theirs->n_failure);
    etcdserverpb__txn_request__free_unpacked(theirs, NULL);
    return 0;
}
