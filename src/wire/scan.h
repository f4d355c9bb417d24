/* src/wire/scan.h
 *
 * scan: reading KeyValue, Event and WatchResponse without copying or decoding more than asked.
 *
 * Everything found points into the bytes scanned, which the caller keeps alive. The raw bytes of every event stay
 * reachable, because they are what goes on downstream. Unknown fields are skipped; a field that appears twice counts as
 * its last appearance, a header or kv too (protobuf would merge the two, but nobody sends two, and `raw` can name but
 * one); a truncated or malformed message is BELFRY_ERR_PROTOCOL.
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

/* etcdserverpb.WatchResponse, all but its events */
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
    int64_t watch_id;                   /* CREATE, CANCEL; all that follows: CREATE */
    struct belfry_bytes key, range_end; /* as they came */
    int64_t start_revision;
    bool progress_notify, prev_kv, fragment;
    bool no_put, no_delete; /* filters; unknown ones are ignored */
};

BELFRY_NODISCARD enum belfry_err belfry_scan_kv(struct belfry_bytes message, struct belfry_wire_kv *out);
/* An event that is neither a put nor a delete is malformed. */
BELFRY_NODISCARD enum belfry_err belfry_scan_event(struct belfry_bytes message, struct belfry_wire_event *out);
BELFRY_NODISCARD enum belfry_err belfry_scan_header(struct belfry_bytes message, struct belfry_wire_header *out);

/* Reads all of a WatchResponse but does not look into its events, beyond checking that their lengths fit and counting.
 */
BELFRY_NODISCARD enum belfry_err belfry_scan_watch(struct belfry_bytes message, struct belfry_wire_watch *out);

/* Reads a WatchRequest, which comes from who knows whom: unlike the others it takes a known field of a foreign wire
 * type for malformed, as etcd does. Of several members of the union the last counts. */
BELFRY_NODISCARD enum belfry_err belfry_scan_watch_request(struct belfry_bytes message,
                                                           struct belfry_wire_watch_request *out);

/* Finds the next appearance of the length-delimited field `number` at or after *at, an offset into `message` that
 * starts at 0 and is moved behind what was found. Stores the field's bytes in *out. Errors: BELFRY_ERR_AGAIN (no more
 * of them), BELFRY_ERR_PROTOCOL. With number 11 it walks the events of a WatchResponse, with 2 the kvs of a
 * RangeResponse. */
BELFRY_NODISCARD enum belfry_err belfry_scan_field(struct belfry_bytes message, uint32_t number, size_t *at,
                                                   struct belfry_bytes *out);

#define BELFRY_WATCH_EVENTS 11 /* field of WatchResponse */
#define BELFRY_RANGE_KVS    2  /* field of RangeResponse */

/* The last appearance of the varint field `number`; 0 when there is none. Reads the whole message.
 * Errors: BELFRY_ERR_PROTOCOL. */
BELFRY_NODISCARD enum belfry_err belfry_scan_number(struct belfry_bytes message, uint32_t number, uint64_t *out);

/* The header that every response of etcd carries as its field 1, by its first appearance; zeroes when it is absent.
 * Errors: BELFRY_ERR_PROTOCOL. */
BELFRY_NODISCARD enum belfry_err belfry_scan_response_header(struct belfry_bytes message,
                                                             struct belfry_wire_header *out);

/* mod_revision of an Event's kv, without reading the rest of it but its type; 0 when absent.
 * Errors: BELFRY_ERR_PROTOCOL (malformed, or neither a put nor a delete). */
BELFRY_NODISCARD enum belfry_err belfry_scan_event_rev(struct belfry_bytes event, int64_t *out);

#endif
