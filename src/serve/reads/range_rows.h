/* src/serve/reads/range_rows.h
 *
 * range_rows: which rows of the store a Range gives, and how one is written in a RangeResponse.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_READS_RANGE_ROWS_H
#define BELFRY_SERVE_READS_RANGE_ROWS_H

#include "base/buf.h"
#include "core/store.h"
#include "judge/etcd_version.h"
#include "wire/scan.h"

/* Where the request's range ends, as store_read.end says it. Of a single key that is written to `end`, which is empty
 * and lives as long as *out. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err range_rows_end(const struct belfry_wire_range_request *request, struct belfry_buf *end,
                                                struct belfry_bytes *out);

/* Does it leave out rows by their revisions? */
bool range_rows_filters(const struct belfry_wire_range_request *request);

/* Errors: BELFRY_ERR_IO (it is no KeyValue). */
BELFRY_NODISCARD enum belfry_err range_rows_passes(const struct belfry_wire_range_request *request,
                                                   struct belfry_bytes kv, bool *out);

/* A row as a response has it. Lent from the store. */
struct range_row {
    struct belfry_bytes kv;
    bool keys_only;
    struct belfry_wire_kv key_only; /* keys_only: what is written */
    size_t len;                     /* of the KeyValue */
};

/* `keys_only` says how upstream's etcd answers such a request. Errors: BELFRY_ERR_IO (it is no KeyValue),
 * BELFRY_ERR_UNSUPPORTED (that is not known, and the row would show it). */
BELFRY_NODISCARD enum belfry_err range_row_init(struct range_row *row, struct belfry_bytes kv,
                                                const struct belfry_wire_range_request *request,
                                                enum etcd_keys_only keys_only);

/* Bytes that range_row_write() appends. */
size_t range_row_size(const struct range_row *row);

/* Errors: BELFRY_ERR_NOMEM, `out` unchanged. */
BELFRY_NODISCARD enum belfry_err range_row_write(const struct range_row *row, struct belfry_buf *out);

#endif
