/* src/wire/write.h
 *
 * write: encodes the messages that are sent often: WatchResponse downstream, WatchRequest and Txn upstream.
 *
 * A WatchResponse is written in pieces, so that an event's bytes go downstream as received, never encoded again. For
 * every event the caller writes a field head and then the raw event (or passes both to a gathering write):
 *
 *     size  = belfry_write_watch_head_size(&watch);
 *     size += belfry_write_event_field_size(raw.len) + raw.len;             for every event
 *     to    = belfry_write_watch_head(&watch, to);
 *     to    = belfry_write_event_field(raw.len, to); then raw itself        for every event
 *
 * Functions that write to `to` need exactly as many bytes as their _size function returns, and return the address after
 * the last byte written. Fields are written in the order of their numbers, without zeroes: byte for byte what etcd
 * would write.
 *
 * Thread: any. Pure.
 * Memory: only belfry_write_watch_create, _cancel, _progress and _txn_range allocate, through the buffer given.
 */
#ifndef BELFRY_WIRE_WRITE_H
#define BELFRY_WIRE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "wire/scan.h"

/* A number as protobuf writes it, in up to BELFRY_WRITE_VARINT_MAX bytes. */
#define BELFRY_WRITE_VARINT_MAX 10
static inline uint8_t *belfry_write_varint(uint8_t *to, uint64_t value)
{
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

/* etcdserverpb.WatchResponse without its events (n_events is ignored). The header is written even if it is all
 * zeroes: old Go clients crash on a response without one. */
size_t belfry_write_watch_head_size(const struct belfry_wire_watch *watch);
uint8_t *belfry_write_watch_head(const struct belfry_wire_watch *watch, uint8_t *to);

/* The tag and the length that precede an event of `event_len` bytes in a WatchResponse. */
#define BELFRY_WRITE_EVENT_FIELD_MAX 11 /* the largest result of belfry_write_event_field_size() */
size_t belfry_write_event_field_size(size_t event_len);
uint8_t *belfry_write_event_field(size_t event_len, uint8_t *to);

/* etcdserverpb.RangeResponse behind its header: the tag and the length that precede each KeyValue, and what follows the
 * last. */
#define BELFRY_WRITE_RANGE_FIELD_MAX 11
#define BELFRY_WRITE_RANGE_TAIL_MAX  13
size_t belfry_write_range_field_size(size_t kv_len);
uint8_t *belfry_write_range_field(size_t kv_len, uint8_t *to);
uint8_t *belfry_write_range_tail(bool more, int64_t count, uint8_t *to);

/* etcdserverpb.RangeStreamResponse: the tag and the length that precede its RangeResponse of `len` bytes. */
#define BELFRY_WRITE_STREAM_FIELD_MAX 11
uint8_t *belfry_write_stream_field(size_t len, uint8_t *to);

/* etcdserverpb.TxnResponse behind its header: whether it succeeded, and what precedes each RangeResponse of `range_len`
 * bytes in its responses. */
#define BELFRY_WRITE_TXN_SUCCEEDED_MAX 2
#define BELFRY_WRITE_TXN_FIELD_MAX     22
uint8_t *belfry_write_txn_succeeded(bool succeeded, uint8_t *to);
uint8_t *belfry_write_txn_field(size_t range_len, uint8_t *to);

/* mvccpb.KeyValue and mvccpb.Event from their fields (`raw` is ignored). An event's kv is written even if it is empty;
 * its prev only if has_prev. */
size_t belfry_write_kv_size(const struct belfry_wire_kv *kv);
uint8_t *belfry_write_kv(const struct belfry_wire_kv *kv, uint8_t *to);
size_t belfry_write_event_size(const struct belfry_wire_event *event);
uint8_t *belfry_write_event(const struct belfry_wire_event *event, uint8_t *to);

/* etcdserverpb.WatchCreateRequest */
struct belfry_wire_create {
    struct belfry_bytes key, range_end;
    int64_t start_revision;
    int64_t watch_id; /* 0: the server chooses */
    bool progress_notify, prev_kv, fragment;
    bool no_put, no_delete;
};

/* Append one etcdserverpb.WatchRequest to `buf`, without gRPC's prefix. Errors: BELFRY_ERR_NOMEM, `buf` unchanged. */
BELFRY_NODISCARD enum belfry_err belfry_write_watch_create(struct belfry_buf *buf,
                                                           const struct belfry_wire_create *create);
BELFRY_NODISCARD enum belfry_err belfry_write_watch_cancel(struct belfry_buf *buf, int64_t watch_id);
BELFRY_NODISCARD enum belfry_err belfry_write_watch_progress(struct belfry_buf *buf);

/* Appends a Range to the operations of an etcdserverpb.TxnRequest without comparisons. Errors: as above. */
BELFRY_NODISCARD enum belfry_err belfry_write_txn_range(struct belfry_buf *buf, struct belfry_bytes key,
                                                        struct belfry_bytes range_end, int64_t revision);

#endif
