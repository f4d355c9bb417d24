/* src/wire/scan.h
 *
 * scan: reads KeyValue, Event and WatchResponse without copying, and decodes only what is needed.
 *
 * Results point into the scanned bytes, which the caller keeps alive. The raw bytes of every event stay available,
 * because they are sent downstream unchanged. Unknown fields are skipped. If a field appears twice, the last one
 * counts, also for a header or kv. (protobuf would merge the two, but no server sends two, and `raw` can point to only
 * one.) A truncated or malformed message is BELFRY_ERR_PROTOCOL.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_WIRE_SCAN_H
#define BELFRY_WIRE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* mvccpb.KeyValue */
struct belfry_wire_kv {
    struct belfry_bytes raw; /* the message itself, without tag and length */
    struct belfry_bytes key, value;
    int64_t create_rev, mod_rev, version, lease;
};

/* mvccpb.Event */
struct belfry_wire_event {
    struct belfry_bytes raw;
    bool is_delete;
    bool has_prev;
    struct belfry_wire_kv kv;
    struct belfry_wire_kv prev; /* valid if has_prev */
};

/* etcdserverpb.ResponseHeader */
struct belfry_wire_header {
    uint64_t cluster_id, member_id, raft_term;
    int64_t revision;
};

/* etcdserverpb.WatchResponse, without its events */
struct belfry_wire_watch {
    struct belfry_wire_header header; /* zeroes if absent */
    int64_t watch_id;
    bool created, canceled, fragment;
    int64_t compact_revision;
    struct belfry_bytes cancel_reason;
    size_t n_events;
};

/* etcdserverpb.WatchRequest */
enum belfry_wire_watch_kind { BELFRY_WATCH_NOTHING, BELFRY_WATCH_CREATE, BELFRY_WATCH_CANCEL, BELFRY_WATCH_PROGRESS };

struct belfry_wire_watch_request {
    enum belfry_wire_watch_kind kind;
    int64_t watch_id;                   /* CREATE, CANCEL; the fields below: only CREATE */
    struct belfry_bytes key, range_end; /* as received */
    int64_t start_revision;
    bool progress_notify, prev_kv, fragment;
    bool no_put, no_delete; /* filters; unknown ones are ignored */
};

BELFRY_NODISCARD enum belfry_err belfry_scan_kv(struct belfry_bytes message, struct belfry_wire_kv *out);
/* An event that is neither a put nor a delete is malformed. */
BELFRY_NODISCARD enum belfry_err belfry_scan_event(struct belfry_bytes message, struct belfry_wire_event *out);
BELFRY_NODISCARD enum belfry_err belfry_scan_header(struct belfry_bytes message, struct belfry_wire_header *out);

/* Reads a WatchResponse without its events: it counts them and checks only that their lengths fit. */
BELFRY_NODISCARD enum belfry_err belfry_scan_watch(struct belfry_bytes message, struct belfry_wire_watch *out);

/* Reads a WatchRequest, which comes from an untrusted client: unlike the other functions, it rejects a known field with
 * a wrong wire type, as etcd does. If several members of the union are set, the last counts. */
BELFRY_NODISCARD enum belfry_err belfry_scan_watch_request(struct belfry_bytes message,
                                                           struct belfry_wire_watch_request *out);

/* Finds the next length-delimited field `number` at or after offset *at, which starts at 0, and moves *at past it.
 * Stores the field's bytes in *out. Errors: BELFRY_ERR_AGAIN (no more such fields), BELFRY_ERR_PROTOCOL. Number 11
 * walks the events of a WatchResponse, number 2 the kvs of a RangeResponse. */
BELFRY_NODISCARD enum belfry_err belfry_scan_field(struct belfry_bytes message, uint32_t number, size_t *at,
                                                   struct belfry_bytes *out);

#define BELFRY_WATCH_EVENTS 11 /* field of WatchResponse */
#define BELFRY_RANGE_KVS    2  /* field of RangeResponse */

/* The last value of the varint field `number`; 0 if absent. Reads the whole message.
 * Errors: BELFRY_ERR_PROTOCOL. */
BELFRY_NODISCARD enum belfry_err belfry_scan_number(struct belfry_bytes message, uint32_t number, uint64_t *out);

/* The header (field 1) of any etcd response, by its first appearance; zeroes if absent.
 * Errors: BELFRY_ERR_PROTOCOL. */
BELFRY_NODISCARD enum belfry_err belfry_scan_response_header(struct belfry_bytes message,
                                                             struct belfry_wire_header *out);

/* mod_revision of an Event's kv, reading only that and the type; 0 if absent.
 * Errors: BELFRY_ERR_PROTOCOL (malformed, or neither a put nor a delete). */
BELFRY_NODISCARD enum belfry_err belfry_scan_event_rev(struct belfry_bytes event, int64_t *out);

#endif
