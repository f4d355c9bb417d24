/* src/serve/rights/rights_request.c */
#include "serve/rights/rights_request.h"

#include <stdio.h>

#include "wire/binary.h"
#include "wire/rpc.pb-c.h"
#include "wire/scan.h"
#include "wire/write.h"

#define RANGE_PATH "/etcdserverpb.KV/Range"
#define TXN_PATH   "/etcdserverpb.KV/Txn"

const char *rights_request_path(size_t n_ranges)
{
    return n_ranges == 1 ? RANGE_PATH : TXN_PATH;
}

/* ---- writing ---- */

static enum belfry_err write_one(struct belfry_buf *buf, const struct rights_range *range)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    uint8_t *to;
    request.key = belfry_binary(range->key);
    request.range_end = belfry_binary(range->end);
    request.revision = INT64_MAX;
    size_t len = etcdserverpb__range_request__get_packed_size(&request);
    enum belfry_err err = belfry_buf_reserve(buf, len, &to);
    if (err == BELFRY_OK)
        belfry_buf_grown(buf, etcdserverpb__range_request__pack(&request, to));
    return err;
}

static enum belfry_err write_operation(struct belfry_buf *buf, const struct rights_range *range)
{
    return belfry_write_txn_range(buf, range->key, range->end, INT64_MAX);
}

enum belfry_err rights_request_write(struct belfry_buf *buf, const struct rights_question *question)
{
    enum belfry_err err = BELFRY_OK;
    if (question->n == 1)
        return write_one(buf, rights_question_range(question, NULL));
    for (const struct rights_range *range = NULL;
         err == BELFRY_OK && (range = rights_question_range(question, range)) != NULL;)
        err = write_operation(buf, range);
    return err;
}

/* ---- reading ---- */

/* The last field of that number; empty if absent. */
static enum belfry_err read_bytes(struct belfry_bytes message, uint32_t number, struct belfry_bytes *out)
{
    size_t at = 0;
    enum belfry_err err;
    *out = (struct belfry_bytes){0};
    while ((err = belfry_scan_field(message, number, &at, out)) == BELFRY_OK)
        continue;
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

static enum belfry_err read_one(struct belfry_bytes message, struct rights_range *out)
{
    enum belfry_err err = read_bytes(message, 1, &out->key);
    return err == BELFRY_OK ? read_bytes(message, 2, &out->end) : err;
}

static enum belfry_err read_operations(struct belfry_bytes message, struct rights_range *out, size_t *out_n)
{
    struct belfry_bytes operation, range;
    enum belfry_err err;
    size_t at = 0;
    for (*out_n = 0; (err = belfry_scan_field(message, 2, &at, &operation)) == BELFRY_OK; (*out_n)++) {
        if (*out_n == RIGHTS_BATCH)
            return BELFRY_ERR_PROTOCOL;
        err = read_bytes(operation, 1, &range);
        if (err == BELFRY_OK)
            err = read_one(range, &out[*out_n]);
        if (err != BELFRY_OK)
            return err;
    }
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

/* The ranges are written again. If that gives the same bytes, nothing else was in them. */
enum belfry_err rights_request_read(struct belfry_bytes path, struct belfry_bytes message,
                                    struct rights_range out[RIGHTS_BATCH], size_t *out_n)
{
    bool is_one = belfry_bytes_equal(path, belfry_bytes_str(RANGE_PATH));
    if (!is_one && !belfry_bytes_equal(path, belfry_bytes_str(TXN_PATH)))
        return BELFRY_ERR_PROTOCOL;
    *out_n = 1;
    enum belfry_err err = is_one ? read_one(message, &out[0]) : read_operations(message, out, out_n);
    struct belfry_buf again;
    belfry_buf_init(&again);
    for (size_t i = 0; i < *out_n && err == BELFRY_OK; i++)
        err = is_one ? write_one(&again, &out[i]) : write_operation(&again, &out[i]);
    if (err == BELFRY_OK && (*out_n == 0 || !belfry_bytes_equal(belfry_buf_bytes(&again), message)))
        err = BELFRY_ERR_PROTOCOL;
    belfry_buf_fini(&again);
    return err;
}

/* ---- milliseconds ---- */

bool rights_request_read_ms(struct belfry_bytes value, uint64_t *out_ms)
{
    uint64_t ms = 0;
    if (value.len == 0 || value.len >= RIGHTS_REQUEST_MS)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return false;
        ms = ms * 10 + (uint64_t)(value.data[i] - '0');
    }
    *out_ms = ms;
    return ms <= RIGHTS_REQUEST_MS_MAX;
}

struct belfry_bytes rights_request_write_ms(uint64_t ms, char out[RIGHTS_REQUEST_MS])
{
    uint64_t most = RIGHTS_REQUEST_MS_MAX;
    int len = snprintf(out, RIGHTS_REQUEST_MS, "%u", (unsigned)(ms < most ? ms : most));
    return belfry_bytes_of(out, (size_t)len);
}
