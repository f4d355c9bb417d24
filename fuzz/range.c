/* fuzz/range.c: any bytes as a RangeRequest.
 *
 * Nothing may be read outside the message. Where protobuf-c accepts the message too, both must have read the same. We
 * give up at field number 0, at numbers beyond 2^29, at varints beyond 64 bits and at foreign wire types of known
 * fields, where it goes on.
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

static void same(const struct belfry_wire_range_request *ours, const Etcdserverpb__RangeRequest *theirs)
{
    same_data(ours->key, theirs->key);
    same_data(ours->range_end, theirs->range_end);
    check(ours->limit == theirs->limit && ours->revision == theirs->revision);
    check(ours->sort_order == (int32_t)theirs->sort_order && ours->sort_target == (int32_t)theirs->sort_target);
    check(ours->serializable == theirs->serializable && ours->keys_only == theirs->keys_only);
    check(ours->count_only == theirs->count_only);
    check(ours->min_mod_rev == theirs->min_mod_revision && ours->max_mod_rev == theirs->max_mod_revision);
    check(ours->min_create_rev == theirs->min_create_revision && ours->max_create_rev == theirs->max_create_revision);
    check(ours->is_odd || theirs->base.n_unknown_fields == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_wire_range_request ours;
    if (belfry_scan_range_request(belfry_bytes_of(data, size), &ours) != BELFRY_OK)
        return 0;
    Etcdserverpb__RangeRequest *theirs = etcdserverpb__range_request__unpack(NULL, size, data);
    if (theirs == NULL)
        return 0;
    same(&ours, theirs);
    etcdserverpb__range_request__free_unpacked(theirs, NULL);
    return 0;
}
