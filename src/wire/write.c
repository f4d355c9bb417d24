/* src/wire/write.c: every message has two functions, size and write, which must handle the same fields. */
#include "wire/write.h"

#include <assert.h>
#include <string.h>

/* All field numbers here are below 16, so every tag is one byte. */
#define VARINT(number) ((uint8_t)((number) << 3))
#define LEN(number)    ((uint8_t)((number) << 3 | 2))
#define TAG_BYTES      1

enum request { REQUEST_CREATE = LEN(1), REQUEST_CANCEL = LEN(2), REQUEST_PROGRESS = LEN(3) };

static size_t varint_size(uint64_t value)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (bits + 6) / 7;
}

/* A scalar field; proto3 omits zeroes. Pass negative numbers sign-extended; they take ten bytes. */
static size_t number_size(uint64_t value)
{
    return value == 0 ? 0 : TAG_BYTES + varint_size(value);
}

static uint8_t *put_number(uint8_t *to, uint8_t tag, uint64_t value)
{
    if (value == 0)
        return to;
    *to++ = tag;
    return belfry_write_varint(to, value);
}

/* Tag and length of a field of `len` bytes. */
static size_t head_size(size_t len)
{
    return TAG_BYTES + varint_size(len);
}

static uint8_t *put_head(uint8_t *to, uint8_t tag, size_t len)
{
    *to++ = tag;
    return belfry_write_varint(to, len);
}

static size_t bytes_size(struct belfry_bytes bytes)
{
    return bytes.len == 0 ? 0 : head_size(bytes.len) + bytes.len;
}

static uint8_t *put_bytes(uint8_t *to, uint8_t tag, struct belfry_bytes bytes)
{
    if (bytes.len == 0)
        return to;
    to = put_head(to, tag, bytes.len);
    memcpy(to, bytes.data, bytes.len);
    return to + bytes.len;
}

static size_t header_size(const struct belfry_wire_header *header)
{
    return number_size(header->cluster_id) + number_size(header->member_id) + number_size((uint64_t)header->revision) +
           number_size(header->raft_term);
}

size_t belfry_write_watch_head_size(const struct belfry_wire_watch *watch)
{
    size_t header = header_size(&watch->header);
    return head_size(header) + header + number_size((uint64_t)watch->watch_id) + number_size(watch->created) +
           number_size(watch->canceled) + number_size((uint64_t)watch->compact_revision) +
           bytes_size(watch->cancel_reason) + number_size(watch->fragment);
}

uint8_t *belfry_write_watch_head(const struct belfry_wire_watch *watch, uint8_t *to)
{
    const struct belfry_wire_header *header = &watch->header;
    to = put_head(to, LEN(1), header_size(header));
    to = put_number(to, VARINT(1), header->cluster_id);
    to = put_number(to, VARINT(2), header->member_id);
    to = put_number(to, VARINT(3), (uint64_t)header->revision);
    to = put_number(to, VARINT(4), header->raft_term);

    to = put_number(to, VARINT(2), (uint64_t)watch->watch_id);
    to = put_number(to, VARINT(3), watch->created);
    to = put_number(to, VARINT(4), watch->canceled);
    to = put_number(to, VARINT(5), (uint64_t)watch->compact_revision);
    to = put_bytes(to, LEN(6), watch->cancel_reason);
    return put_number(to, VARINT(7), watch->fragment);
}

size_t belfry_write_event_field_size(size_t event_len)
{
    return head_size(event_len);
}

uint8_t *belfry_write_event_field(size_t event_len, uint8_t *to)
{
    return put_head(to, LEN(BELFRY_WATCH_EVENTS), event_len);
}

size_t belfry_write_range_field_size(size_t kv_len)
{
    return head_size(kv_len);
}

uint8_t *belfry_write_range_field(size_t kv_len, uint8_t *to)
{
    return put_head(to, LEN(BELFRY_RANGE_KVS), kv_len);
}

uint8_t *belfry_write_range_tail(bool more, int64_t count, uint8_t *to)
{
    to = put_number(to, VARINT(3), more);
    return put_number(to, VARINT(4), (uint64_t)count);
}

uint8_t *belfry_write_stream_field(size_t len, uint8_t *to)
{
    return put_head(to, LEN(1), len);
}

uint8_t *belfry_write_txn_succeeded(bool succeeded, uint8_t *to)
{
    return put_number(to, VARINT(2), succeeded);
}

uint8_t *belfry_write_txn_field(size_t range_len, uint8_t *to)
{
    to = put_head(to, LEN(3), head_size(range_len) + range_len); /* a ResponseOp, */
    return put_head(to, LEN(1), range_len);                      /* whose response_range it is */
}

size_t belfry_write_kv_size(const struct belfry_wire_kv *kv)
{
    return bytes_size(kv->key) + number_size((uint64_t)kv->create_rev) + number_size((uint64_t)kv->mod_rev) +
           number_size((uint64_t)kv->version) + bytes_size(kv->value) + number_size((uint64_t)kv->lease);
}

uint8_t *belfry_write_kv(const struct belfry_wire_kv *kv, uint8_t *to)
{
    to = put_bytes(to, LEN(1), kv->key);
    to = put_number(to, VARINT(2), (uint64_t)kv->create_rev);
    to = put_number(to, VARINT(3), (uint64_t)kv->mod_rev);
    to = put_number(to, VARINT(4), (uint64_t)kv->version);
    to = put_bytes(to, LEN(5), kv->value);
    return put_number(to, VARINT(6), (uint64_t)kv->lease);
}

size_t belfry_write_event_size(const struct belfry_wire_event *event)
{
    size_t kv = belfry_write_kv_size(&event->kv);
    size_t size = number_size(event->is_delete) + head_size(kv) + kv;
    if (event->has_prev) {
        size_t prev = belfry_write_kv_size(&event->prev);
        size += head_size(prev) + prev;
    }
    return size;
}

uint8_t *belfry_write_event(const struct belfry_wire_event *event, uint8_t *to)
{
    to = put_number(to, VARINT(1), event->is_delete);
    to = put_head(to, LEN(2), belfry_write_kv_size(&event->kv));
    to = belfry_write_kv(&event->kv, to);
    if (event->has_prev) {
        to = put_head(to, LEN(3), belfry_write_kv_size(&event->prev));
        to = belfry_write_kv(&event->prev, to);
    }
    return to;
}

/* filters=5 is a packed list of one-byte enums: NOPUT 0, NODELETE 1. */
static size_t n_filters(const struct belfry_wire_create *create)
{
    return (size_t)create->no_put + (size_t)create->no_delete;
}

static uint8_t *put_filters(uint8_t *to, const struct belfry_wire_create *create)
{
    if (n_filters(create) == 0)
        return to;
    to = put_head(to, LEN(5), n_filters(create));
    if (create->no_put)
        *to++ = 0;
    if (create->no_delete)
        *to++ = 1;
    return to;
}

static size_t create_size(const struct belfry_wire_create *create)
{
    size_t filters = n_filters(create);
    return bytes_size(create->key) + bytes_size(create->range_end) + number_size((uint64_t)create->start_revision) +
           number_size(create->progress_notify) + (filters == 0 ? 0 : head_size(filters) + filters) +
           number_size(create->prev_kv) + number_size((uint64_t)create->watch_id) + number_size(create->fragment);
}

static uint8_t *put_create(uint8_t *to, const struct belfry_wire_create *create)
{
    to = put_bytes(to, LEN(1), create->key);
    to = put_bytes(to, LEN(2), create->range_end);
    to = put_number(to, VARINT(3), (uint64_t)create->start_revision);
    to = put_number(to, VARINT(4), create->progress_notify);
    to = put_filters(to, create);
    to = put_number(to, VARINT(6), create->prev_kv);
    to = put_number(to, VARINT(7), (uint64_t)create->watch_id);
    return put_number(to, VARINT(8), create->fragment);
}

/* Makes room for a whole WatchRequest and writes its head; *out is where its content, `len` bytes, goes. */
static enum belfry_err begin_request(struct belfry_buf *buf, enum request request, size_t len, uint8_t **out)
{
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(buf, head_size(len) + len, &to);
    if (err != BELFRY_OK)
        return err;
    belfry_buf_grown(buf, head_size(len) + len);
    *out = put_head(to, (uint8_t)request, len);
    return BELFRY_OK;
}

enum belfry_err belfry_write_watch_create(struct belfry_buf *buf, const struct belfry_wire_create *create)
{
    size_t len = create_size(create);
    uint8_t *to;
    enum belfry_err err = begin_request(buf, REQUEST_CREATE, len, &to);
    if (err != BELFRY_OK)
        return err;
    uint8_t *end = put_create(to, create);
    assert(end == to + len);
    (void)end;
    return BELFRY_OK;
}

enum belfry_err belfry_write_watch_cancel(struct belfry_buf *buf, int64_t watch_id)
{
    uint8_t *to;
    enum belfry_err err = begin_request(buf, REQUEST_CANCEL, number_size((uint64_t)watch_id), &to);
    if (err == BELFRY_OK)
        put_number(to, VARINT(1), (uint64_t)watch_id);
    return err;
}

enum belfry_err belfry_write_watch_progress(struct belfry_buf *buf)
{
    uint8_t *to;
    return begin_request(buf, REQUEST_PROGRESS, 0, &to);
}

enum belfry_err belfry_write_txn_range(struct belfry_buf *buf, struct belfry_bytes key, struct belfry_bytes range_end,
                                       int64_t revision)
{
    size_t range = bytes_size(key) + bytes_size(range_end) + number_size((uint64_t)revision);
    size_t op = head_size(range) + range;
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(buf, head_size(op) + op, &to);
    if (err != BELFRY_OK)
        return err;
    belfry_buf_grown(buf, head_size(op) + op);
    to = put_head(to, LEN(2), op);    /* TxnRequest.success */
    to = put_head(to, LEN(1), range); /* RequestOp.request_range */
    to = put_bytes(to, LEN(1), key);
    to = put_bytes(to, LEN(2), range_end);
    put_number(to, VARINT(4), (uint64_t)revision);
    return BELFRY_OK;
}
