/* src/serve/reads/range_slices.c */
#include "serve/reads/range_slices.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "net/grpc_frame.h"
#include "serve/reads/range_rows.h"
#include "wire/write.h"

#define ROW_LOOKS 32 /* rows between two looks at the clock */

/* Before the rows of a chunk: what is there is known last. */
#define CHUNK_HEAD (BELFRY_GRPC_PREFIX_BYTES + BELFRY_WRITE_STREAM_FIELD_MAX + RESPONSE_HEADER_MAX)

/* One slice in the making. */
struct slice {
    struct range_slices *slices;
    struct belfry_buf *out;
    size_t bytes; /* with so many it is full */
    uint64_t until_ns;
    size_t looked, rows; /* rows that the store has given; of these: in the response */
    bool is_cut;         /* the range goes on at slices->cut */
    enum belfry_err err;
};

bool range_slices_can(const struct belfry_wire_range_request *request)
{
    return request->sort_target == BELFRY_SORT_KEY && request->sort_order != BELFRY_SORT_DESCEND;
}

enum belfry_err range_slices_init(struct range_slices *slices, const struct belfry_wire_range_request *request,
                                  enum range_slices_form form, enum etcd_keys_only keys_only)
{
    *slices = (struct range_slices){
        .request = request,
        .form = form,
        .keys_only = keys_only,
        .state = form == RANGE_SLICES_MESSAGE ? RANGE_SLICES_MEASURING : RANGE_SLICES_WRITING,
        .rev = request->revision > 0 ? request->revision : 0,
        .chunk_rows = RANGE_SLICES_CHUNK,
    };
    return range_rows_end(request, &slices->end_bytes, &slices->end);
}

void range_slices_fini(struct range_slices *slices)
{
    belfry_buf_fini(&slices->end_bytes);
    belfry_buf_fini(&slices->next);
    belfry_buf_fini(&slices->cut);
}

/* The next slice begins where this one was cut. */
static void slices_go_on(struct range_slices *slices)
{
    struct belfry_buf was = slices->next;
    slices->next = slices->cut;
    slices->cut = was;
}

static void slices_move_to(struct range_slices *slices, enum range_slices_state to)
{
    assert(to == slices->state + 1);
    slices->state = to;
}

/* ---- rows ---- */

static bool slice_is_full(const struct slice *slice)
{
    const struct range_slices *slices = slice->slices;
    if (slices->state == RANGE_SLICES_WRITING && belfry_buf_len(slice->out) >= slice->bytes)
        return true;
    if (slices->form == RANGE_SLICES_CHUNKS && slice->rows == slices->chunk_rows)
        return true;
    return slice->looked > 0 && slice->looked % ROW_LOOKS == 0 && belfry_clock_ns() > slice->until_ns;
}

/* The next slice begins here. */
static enum belfry_err slice_cut(struct slice *slice, struct belfry_bytes key)
{
    slice->is_cut = true;
    belfry_buf_clear(&slice->slices->cut);
    return belfry_buf_append(&slice->slices->cut, key.data, key.len);
}

static enum belfry_err slice_take_row(struct slice *slice, struct belfry_bytes kv)
{
    struct range_slices *slices = slice->slices;
    struct range_row row;
    enum belfry_err err = range_row_init(&row, kv, slices->request, slices->keys_only);
    if (err == BELFRY_OK && slices->state == RANGE_SLICES_WRITING)
        err = range_row_write(&row, slice->out);
    if (err != BELFRY_OK)
        return err;
    slices->bytes += range_row_size(&row);
    slices->rows++;
    slice->rows++;
    return BELFRY_OK;
}

/* False: the slice is full, or no more rows are needed, or slice->err. */
static bool on_slice_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct slice *slice = user;
    struct range_slices *slices = slice->slices;
    bool passes = false;
    if (slice_is_full(slice)) {
        slice->err = slice_cut(slice, key);
        return false;
    }
    slice->looked++;
    slice->err = range_rows_passes(slices->request, kv, &passes);
    if (slice->err != BELFRY_OK || !passes)
        return slice->err == BELFRY_OK;
    if (slices->request->limit > 0 && slices->rows == (uint64_t)slices->request->limit) {
        slices->more = true;
        return false;
    }
    slice->err = slice_take_row(slice, kv);
    return slice->err == BELFRY_OK;
}

/* Rows are checked when they are written. */
static bool looks_at_lengths(const struct range_slices *slices)
{
    return slices->state == RANGE_SLICES_MEASURING && !slices->request->keys_only &&
           !range_rows_filters(slices->request);
}

static enum belfry_err slice_read(struct slice *slice, struct store *store, struct store_page *page)
{
    const struct range_slices *slices = slice->slices;
    const struct belfry_buf *next = &slices->next;
    struct store_read read = {.key = belfry_buf_len(next) > 0 ? belfry_buf_bytes(next) : slices->request->key,
                              .end = slices->end,
                              .rev = slices->rev,
                              .max_rows = slices->request->count_only ? 0 : SIZE_MAX,
                              .max_bytes = SIZE_MAX,
                              .max_walk = RANGE_SLICES_WALK,
                              .measured = looks_at_lengths(slices),
                              .counted = !slices->begun || slices->request->count_only};
    enum belfry_err err = store->api->range(store, &read, on_slice_row, slice, page);
    if (err == BELFRY_ERR_AGAIN && slices->begun)
        return BELFRY_ERR_CANCELED; /* it was there before */
    return err != BELFRY_OK ? err : slice->err;
}

/* What the first slice has found holds for all. */
static enum belfry_err slices_begin(struct range_slices *slices, const struct store_page *page)
{
    if (slices->begun)
        return page->meta.past == slices->past ? BELFRY_OK : BELFRY_ERR_CANCELED;
    slices->begun = true;
    slices->rev = page->at;
    slices->head_rev = page->meta.revision;
    slices->past = page->meta.past;
    slices->count = page->count;
    return BELFRY_OK;
}

/* ---- one message ---- */

static enum belfry_err write_tail(const struct range_slices *slices, struct belfry_buf *out)
{
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(out, BELFRY_WRITE_RANGE_TAIL_MAX, &to);
    if (err == BELFRY_OK)
        belfry_buf_grown(out, (size_t)(belfry_write_range_tail(slices->more, (int64_t)slices->count, to) - to));
    return err;
}

/* Of the message, behind gRPC's prefix. */
static uint64_t message_size(const struct range_slices *slices, size_t header_len)
{
    uint8_t tail[BELFRY_WRITE_RANGE_TAIL_MAX];
    uint8_t *end = belfry_write_range_tail(slices->more, (int64_t)slices->count, tail);
    return header_len + slices->measured + (uint64_t)(end - tail);
}

/* Makes room for a slice. The first one begins with gRPC's prefix and the header. */
static enum belfry_err message_begin(struct range_slices *slices, const struct response_identity *identity,
                                     struct belfry_buf *out)
{
    struct response_header header;
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(out, RANGE_SLICES_ROOM, &to);
    if (err != BELFRY_OK || slices->headed)
        return err;
    response_header_make(identity, slices->head_rev, &header);
    belfry_grpc_frame_prefix(to, (size_t)message_size(slices, header.len));
    memcpy(to + BELFRY_GRPC_PREFIX_BYTES, header.bytes, header.len);
    belfry_buf_grown(out, BELFRY_GRPC_PREFIX_BYTES + header.len);
    slices->headed = true;
    return BELFRY_OK;
}

/* The range was read to its end. */
static enum belfry_err message_end_pass(struct range_slices *slices, struct belfry_buf *out)
{
    if (slices->state == RANGE_SLICES_WRITING) {
        if (slices->bytes != slices->measured) /* the prefix was wrong: the store has changed under its revision */
            return BELFRY_ERR_IO;
        slices_move_to(slices, RANGE_SLICES_DONE);
        return write_tail(slices, out);
    }
    slices->measured = slices->bytes;
    if (message_size(slices, RESPONSE_HEADER_MAX) > UINT32_MAX)
        return BELFRY_ERR_TOO_LARGE;
    slices->rows = slices->bytes = 0;
    belfry_buf_clear(&slices->next);
    slices_move_to(slices, RANGE_SLICES_WRITING);
    return BELFRY_OK;
}

/* ---- chunks ---- */

static enum belfry_err chunk_begin(struct belfry_buf *out)
{
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(out, CHUNK_HEAD, &to);
    if (err != BELFRY_OK)
        return err;
    memset(to, 0, CHUNK_HEAD);
    belfry_buf_grown(out, CHUNK_HEAD);
    return BELFRY_OK;
}

/* Writes what surrounds the rows, which begin at CHUNK_HEAD. Only the last chunk has a header, more and count. */
static enum belfry_err chunk_end(struct range_slices *slices, const struct response_identity *identity, bool is_last,
                                 struct belfry_buf *out)
{
    struct response_header header = {.len = 0};
    uint8_t field[BELFRY_WRITE_STREAM_FIELD_MAX];
    if (is_last) {
        enum belfry_err err = write_tail(slices, out);
        if (err != BELFRY_OK)
            return err;
        response_header_make(identity, slices->head_rev, &header);
        slices_move_to(slices, RANGE_SLICES_DONE);
    }
    size_t len = belfry_buf_len(out) - CHUNK_HEAD + header.len;
    size_t field_len = (size_t)(belfry_write_stream_field(len, field) - field);
    belfry_buf_take(out, CHUNK_HEAD - BELFRY_GRPC_PREFIX_BYTES - field_len - header.len);
    uint8_t *to = out->data + out->start;
    belfry_grpc_frame_prefix(to, field_len + len);
    memcpy(to + BELFRY_GRPC_PREFIX_BYTES, field, field_len);
    memcpy(to + BELFRY_GRPC_PREFIX_BYTES + field_len, header.bytes, header.len);
    return BELFRY_OK;
}

/* ---- a slice ---- */

static enum belfry_err slices_step(struct range_slices *slices, struct store *store,
                                   const struct response_identity *identity, size_t bytes, struct belfry_buf *out)
{
    struct slice slice = {
        .slices = slices, .out = out, .bytes = bytes, .until_ns = belfry_clock_ns() + RANGE_SLICES_NS};
    struct store_page page = {.count = 0};
    bool is_message = slices->form == RANGE_SLICES_MESSAGE;
    enum belfry_err err = BELFRY_OK;
    if (slices->state == RANGE_SLICES_WRITING)
        err = is_message ? message_begin(slices, identity, out) : chunk_begin(out);
    if (err == BELFRY_OK)
        err = slice_read(&slice, store, &page);
    if (err != BELFRY_OK)
        return err;
    if (page.more && slice.looked == 0) { /* the store needs more time to find the first row */
        if (!is_message)
            belfry_buf_clear(out);
        return BELFRY_OK;
    }
    err = slices_begin(slices, &page);
    if (err != BELFRY_OK)
        return err;
    if (slice.is_cut)
        slices_go_on(slices);
    if (is_message)
        return slice.is_cut ? BELFRY_OK : message_end_pass(slices, out);
    if (slice.rows == slices->chunk_rows && belfry_buf_len(out) < RANGE_SLICES_BYTES / 2)
        slices->chunk_rows *= 2;
    return chunk_end(slices, identity, !slice.is_cut, out);
}

enum belfry_err range_slices_step(struct range_slices *slices, struct store *store,
                                  const struct response_identity *identity, size_t bytes, struct belfry_buf *out)
{
    assert(slices->state != RANGE_SLICES_DONE);
    bytes = bytes < RANGE_SLICES_LEAST ? RANGE_SLICES_LEAST : bytes;
    bytes = bytes > RANGE_SLICES_BYTES ? RANGE_SLICES_BYTES : bytes;
    enum belfry_err err = slices_step(slices, store, identity, bytes, out);
    if (err != BELFRY_OK)
        belfry_buf_clear(out);
    return err;
}
