/* fuzz/rights_request.c: any bytes as a question of a tier below, and as its milliseconds. What is read as a question
 * is nothing else to protobuf: Ranges of the same keys at the revision that never comes, and no more. */
#include <stdint.h>

#include "fuzz/check.h"
#include "serve/rights/rights_request.h"
#include "wire/rpc.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_range(const Etcdserverpb__RangeRequest *request, const struct rights_range *range)
{
    check(belfry_bytes_equal(belfry_bytes_of(request->key.data, request->key.len), range->key));
    check(belfry_bytes_equal(belfry_bytes_of(request->range_end.data, request->range_end.len), range->end));
    check(request->revision == INT64_MAX && request->limit == 0 && !request->serializable && !request->keys_only &&
          !request->count_only && request->sort_order == 0 && request->sort_target == 0);
    check(request->min_mod_revision == 0 && request->max_mod_revision == 0 && request->min_create_revision == 0 &&
          request->max_create_revision == 0 && request->base.n_unknown_fields == 0);
}

static void check_txn(const Etcdserverpb__TxnRequest *request, const struct rights_range *ranges, size_t n)
{
    check(request->n_compare == 0 && request->n_failure == 0 && request->n_success == n);
    check(request->base.n_unknown_fields == 0);
    for (size_t i = 0; i < n; i++) {
        check(request->success[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE);
        check_range(request->success[i]->request_range, &ranges[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rights_range ranges[RIGHTS_BATCH];
    struct belfry_bytes bytes = belfry_bytes_of(data, size);
    size_t n;
    uint64_t ms;
    if (rights_request_read(belfry_bytes_str(rights_request_path(1)), bytes, ranges, &n) == BELFRY_OK) {
        Etcdserverpb__RangeRequest *request = etcdserverpb__range_request__unpack(NULL, size, data);
        check(request != NULL && n == 1);
        check_range(request, &ranges[0]);
        etcdserverpb__range_request__free_unpacked(request, NULL);
    }
    if (rights_request_read(belfry_bytes_str(rights_request_path(2)), bytes, ranges, &n) == BELFRY_OK) {
        Etcdserverpb__TxnRequest *request = etcdserverpb__txn_request__unpack(NULL, size, data);
        check(request != NULL && n >= 1 && n <= RIGHTS_BATCH);
        check_txn(request, ranges, n);
        etcdserverpb__txn_request__free_unpacked(request, NULL);
    }
    if (rights_request_read_ms(bytes, &ms))
        check(ms <= RIGHTS_REQUEST_MS_MAX && size < RIGHTS_REQUEST_MS);
    return 0;
}
