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

/* etcdserverpb.RangeRequest */
struct belfry_wire_range_request {
    struct belfry_bytes key, range_end; /* as received */
    int64_t limit, revision;
    int32_t sort_order, sort_target; /* enum belfry_wire_sort_order, _target; or a number that is neither */
    bool serializable, keys_only, count_only;
    int64_t min_mod_rev, max_mod_rev, min_create_rev, max_create_rev;
    bool is_odd; /* it has fields that are not listed here, or a range_end that is there and empty: etcd 3.5 takes that
                    for "\0", though it judges the right to one key alone */
};

enum belfry_wire_sort_order { BELFRY_SORT_NONE, BELFRY_SORT_ASCEND, BELFRY_SORT_DESCEND };
enum belfry_wire_sort_target {
    BELFRY_SORT_KEY,
    BELFRY_SORT_VERSION,
    BELFRY_SORT_CREATE,
    BELFRY_SORT_MOD,
    BELFRY_SORT_VALUE
};

/* etcdserverpb.Compare */
struct belfry_wire_compare {
    struct belfry_bytes key, range_end; /* as received */
    int32_t result, target;             /* enum belfry_wire_compare_result, _target; or a number that is neither */
    int64_t number;                     /* with which the target is compared; 0 if none of its kind was received */
    struct belfry_bytes value;          /* the same, of BELFRY_COMPARE_VALUE */
    bool is_odd;                        /* as a RangeRequest's */
};

enum belfry_wire_compare_result {
    BELFRY_COMPARE_EQUAL,
    BELFRY_COMPARE_GREATER,
    BELFRY_COMPARE_LESS,
    BELFRY_COMPARE_NOT_EQUAL
};
enum belfry_wire_compare_target {
    BELFRY_COMPARE_VERSION,
    BELFRY_COMPARE_CREATE,
    BELFRY_COMPARE_MOD,
    BELFRY_COMPARE_VALUE,
    BELFRY_COMPARE_LEASE
};

/* etcdserverpb.RequestOp. The kinds are the numbers of its fields. */
enum belfry_wire_op_kind { BELFRY_OP_NONE, BELFRY_OP_RANGE, BELFRY_OP_PUT, BELFRY_OP_DELETE, BELFRY_OP_TXN };

struct belfry_wire_op {
    enum belfry_wire_op_kind kind;
    struct belfry_bytes request; /* the message of that kind */
    bool is_odd;                 /* it has another field, or two */
};

/* etcdserverpb.TxnRequest, without its parts */
struct belfry_wire_txn_request {
    size_t n_compares, n_success, n_failure;
    bool is_odd; /* it has fields that are not listed here */
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

/* Reads a RangeRequest, as strictly as the above. */
BELFRY_NODISCARD enum belfry_err belfry_scan_range_request(struct belfry_bytes message,
                                                           struct belfry_wire_range_request *out);

/* Reads a TxnRequest without its parts, or a part of it, as strictly as the above. It counts the parts and checks only
 * that their lengths fit; belfry_scan_field() walks them. */
BELFRY_NODISCARD enum belfry_err belfry_scan_txn_request(struct belfry_bytes message,
                                                         struct belfry_wire_txn_request *out);
BELFRY_NODISCARD enum belfry_err belfry_scan_compare(struct belfry_bytes message, struct belfry_wire_compare *out);
BELFRY_NODISCARD enum belfry_err belfry_scan_op(struct belfry_bytes message, struct belfry_wire_op *out);

/* Finds the next length-delimited field `number` at or after offset *at, which starts at 0, and moves *at past it.
 * Stores the field's bytes in *out. Errors: BELFRY_ERR_AGAIN (no more such fields), BELFRY_ERR_PROTOCOL. Number 11
 * walks the events of a WatchResponse, number 2 the kvs of a RangeResponse. */
BELFRY_NODISCARD enum belfry_err belfry_scan_field(struct belfry_bytes message, uint32_t number, size_t *at,
                                                   struct belfry_bytes *out);

#define BELFRY_WATCH_EVENTS 11 /* field of WatchResponse */
#define BELFRY_RANGE_KVS    2  /* field of RangeResponse */
#define BELFRY_TXN_COMPARES 1  /* fields of TxnRequest */
#define BELFRY_TXN_SUCCESS  2
#define BELFRY_TXN_FAILURE  3

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
