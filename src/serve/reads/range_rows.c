/* src/serve/reads/range_rows.c */
#include "serve/reads/range_rows.h"

#include <string.h>

#include "wire/write.h"

enum belfry_err range_rows_end(const struct belfry_wire_range_request *request, struct belfry_buf *end,
                               struct belfry_bytes *out)
{
    bool is_open = request->range_end.len == 1 && request->range_end.data[0] == '\0';
    *out = is_open ? (struct belfry_bytes){0} : request->range_end;
    if (request->range_end.len > 0)
        return BELFRY_OK;
    enum belfry_err err = belfry_buf_append(end, request->key.data, request->key.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(end, "", 1); /* [key, key + "\0") has no other key */
    *out = belfry_buf_bytes(end);
    return err;
}

/* ---- which rows ---- */

bool range_rows_filters(const struct belfry_wire_range_request *request)
{
    return request->min_mod_rev != 0 || request->max_mod_rev != 0 || request->min_create_rev != 0 ||
           request->max_create_rev != 0;
}

enum belfry_err range_rows_passes(const struct belfry_wire_range_request *request, struct belfry_bytes kv, bool *out)
{
    struct belfry_wire_kv row;
    *out = true;
    if (!range_rows_filters(request))
        return BELFRY_OK;
    if (belfry_scan_kv(kv, &row) != BELFRY_OK)
        return BELFRY_ERR_IO;
    *out = (request->max_mod_rev == 0 || row.mod_rev <= request->max_mod_rev) &&
           (request->min_mod_rev == 0 || row.mod_rev >= request->min_mod_rev) &&
           (request->max_create_rev == 0 || row.create_rev <= request->max_create_rev) &&
           (request->min_create_rev == 0 || row.create_rev >= request->min_create_rev);
    return BELFRY_OK;
}

/* ---- a row as bytes ---- */

enum belfry_err range_row_init(struct range_row *row, struct belfry_bytes kv,
                               const struct belfry_wire_range_request *request, enum etcd_keys_only keys_only)
{
    row->kv = kv;
    row->keys_only = request->keys_only;
    row->len = kv.len;
    if (!request->keys_only)
        return BELFRY_OK;
    if (belfry_scan_kv(kv, &row->key_only) != BELFRY_OK)
        return BELFRY_ERR_IO;
    row->key_only.value = (struct belfry_bytes){0};
    if (row->key_only.lease != 0 && request->sort_target != BELFRY_SORT_VALUE) { /* whatever the order is */
        if (keys_only == ETCD_KEYS_ONLY_UNKNOWN)
            return BELFRY_ERR_UNSUPPORTED;
        if (keys_only == ETCD_KEYS_ONLY_BARE)
            row->key_only.lease = 0;
    }
    row->len = belfry_write_kv_size(&row->key_only);
    return BELFRY_OK;
}

size_t range_row_size(const struct range_row *row)
{
    return belfry_write_range_field_size(row->len) + row->len;
}

enum belfry_err range_row_write(const struct range_row *row, struct belfry_buf *out)
{
    uint8_t *start, *to;
    enum belfry_err err = belfry_buf_reserve(out, BELFRY_WRITE_RANGE_FIELD_MAX + row->len, &start);
    if (err != BELFRY_OK)
        return err;
    to = belfry_write_range_field(row->len, start);
    if (row->keys_only)
        to = belfry_write_kv(&row->key_only, to);
    else
        to = (uint8_t *)memcpy(to, row->kv.data, row->len) + row->len;
    belfry_buf_grown(out, (size_t)(to - start));
    return BELFRY_OK;
}
