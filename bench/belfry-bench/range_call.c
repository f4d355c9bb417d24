/* bench/belfry-bench/range_call.c */
#include "range_call.h"

#include "die.h"
#include "wire/scan.h"

#define VARINT_MAX 10
#define MORE       3 /* field of RangeResponse */

static void put_varint(struct belfry_buf *buf, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    size_t n = 0;
    for (; value >= 128; value >>= 7)
        bytes[n++] = (uint8_t)(value | 128);
    bytes[n++] = (uint8_t)value;
    must(belfry_buf_append(buf, bytes, n), "buffer");
}

static void put_number(struct belfry_buf *buf, unsigned field, uint64_t value)
{
    if (value == 0)
        return;
    put_varint(buf, field << 3);
    put_varint(buf, value);
}

static void put_bytes(struct belfry_buf *buf, unsigned field, struct belfry_bytes bytes)
{
    if (bytes.len == 0)
        return;
    put_varint(buf, field << 3 | 2);
    put_varint(buf, bytes.len);
    must(belfry_buf_append(buf, bytes.data, bytes.len), "buffer");
}

/* etcdserverpb.RangeRequest: key = 1, range_end = 2, limit = 3, revision = 4, serializable = 7 */
void range_call_write(const struct range_call *call, struct belfry_buf *buf)
{
    put_bytes(buf, 1, call->key);
    put_bytes(buf, 2, call->range_end);
    put_number(buf, 3, call->limit);
    put_number(buf, 4, call->revision);
    put_number(buf, 7, call->serializable);
}

enum belfry_err range_call_read(struct belfry_bytes message, struct range_answer *out)
{
    struct range_answer answer = {0};
    struct belfry_wire_header header;
    struct belfry_bytes last = {0};
    struct belfry_wire_kv kv;
    uint64_t more;
    size_t at = 0;
    enum belfry_err err;
    while ((err = belfry_scan_field(message, BELFRY_RANGE_KVS, &at, &last)) == BELFRY_OK)
        answer.n_kvs++;
    if (err != BELFRY_ERR_AGAIN)
        return err;
    if ((err = belfry_scan_response_header(message, &header)) != BELFRY_OK ||
        (err = belfry_scan_number(message, MORE, &more)) != BELFRY_OK)
        return err;
    if (answer.n_kvs > 0) {
        if ((err = belfry_scan_kv(last, &kv)) != BELFRY_OK)
            return err;
        answer.last_key = kv.key;
    }
    answer.revision = header.revision;
    answer.more = more != 0;
    *out = answer;
    return BELFRY_OK;
}
