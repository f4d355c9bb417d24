/* bench/belfry-bench/range_call.h
 *
 * range_call: what is asked of etcdserverpb.KV/Range, and what came back.
 *
 * Thread: any. Pure.
 */
#ifndef BENCH_RANGE_CALL_H
#define BENCH_RANGE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#define RANGE_CALL_PATH "/etcdserverpb.KV/Range"

struct range_call {
    struct belfry_bytes key, range_end; /* an empty end: one key */
    uint64_t limit, revision;           /* 0: none, the newest */
    bool serializable;
};

/* Appends the RangeRequest to `buf`. Dies when memory is out. */
void range_call_write(const struct range_call *call, struct belfry_buf *buf);

struct range_answer {
    int64_t revision; /* of the store */
    size_t n_kvs;
    bool more;
    struct belfry_bytes last_key; /* points into the message; empty without kvs */
};

/* Errors: BELFRY_ERR_PROTOCOL. */
BELFRY_NODISCARD enum belfry_err range_call_read(struct belfry_bytes message, struct range_answer *out);

#endif
