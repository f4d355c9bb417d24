/* src/serve/reads/range_answer.c */
#include "serve/reads/range_answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/sim.h"
#include "net/grpc_frame.h"
#include "serve/reads/range_rows.h"
#include "wire/write.h"

#define HEAD (BELFRY_GRPC_PREFIX_BYTES + RESPONSE_HEADER_MAX) /* room before the rows: what is there is known last */

bool range_answer_knows(const struct belfry_wire_range_request *request)
{
    return !request->is_odd && request->key.len > 0 && request->sort_order >= BELFRY_SORT_NONE &&
           request->sort_order <= BELFRY_SORT_DESCEND && request->sort_target >= BELFRY_SORT_KEY &&
           request->sort_target <= BELFRY_SORT_VALUE;
}

/* A row that waits to be sorted. */
struct kept {
    size_t at, len; /* of its KeyValue, in gathering.rows */
};

/* An answer in the making. */
struct gathering {
    const struct range_source *source; /* what may be used */
    const struct belfry_wire_range_request *request;
    struct belfry_buf *out;
    size_t begin; /* of the rows in `out` */
    bool sorts;
    size_t limit;           /* of rows that pass the filters; 0: none */
    struct belfry_buf rows; /* sorts: KeyValues */
    struct belfry_buf kept; /* sorts: struct kept */
    size_t n, passed_over;
    bool begun; /* the store has given a row */
    bool more;  /* there was a row beyond the limit */
    enum belfry_err err;
};

/* ---- which rows ---- */

/* Rows are read in the order of keys. */
static bool needs_sort(const struct belfry_wire_range_request *request)
{
    return request->sort_target != BELFRY_SORT_KEY || request->sort_order == BELFRY_SORT_DESCEND;
}

/* How many rows are read, after filters; 0: all. etcd sorts what it has read, and reads all of the range when an order
 * is given, but only one row more than the limit when just a target is. */
static size_t rows_to_read(const struct belfry_wire_range_request *request)
{
    if (request->limit <= 0)
        return 0;
    if (!needs_sort(request))
        return (size_t)request->limit;
    bool reads_all = request->sort_order != BELFRY_SORT_NONE || range_rows_filters(request);
    return reads_all ? 0 : (size_t)request->limit + 1;
}

/* ---- rows as bytes ---- */

static enum belfry_err write_row(const struct gathering *gathering, struct belfry_bytes kv)
{
    struct range_row row;
    enum belfry_err err = range_row_init(&row, kv, gathering->request, gathering->source->keys_only);
    if (err != BELFRY_OK)
        return err;
    if (belfry_buf_len(gathering->out) - gathering->begin + row.len > gathering->source->bytes)
        return BELFRY_ERR_TOO_LARGE;
    return range_row_write(&row, gathering->out);
}

static enum belfry_err keep_row(struct gathering *gathering, struct belfry_bytes kv)
{
    struct kept kept = {.at = belfry_buf_len(&gathering->rows), .len = kv.len};
    if (kept.at + kv.len > gathering->source->bytes)
        return BELFRY_ERR_TOO_LARGE;
    enum belfry_err err = belfry_buf_append(&gathering->rows, kv.data, kv.len);
    return err != BELFRY_OK ? err : belfry_buf_append(&gathering->kept, &kept, sizeof(kept));
}

/* False: no more rows are needed, or gathering->err. */
static bool on_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct gathering *gathering = user;
    bool passes = false;
    (void)key;
    gathering->begun = true;
    gathering->err = range_rows_passes(gathering->request, kv, &passes);
    if (gathering->err == BELFRY_OK && !passes && ++gathering->passed_over > gathering->source->walk)
        gathering->err = BELFRY_ERR_TOO_LARGE;
    if (gathering->err != BELFRY_OK || !passes)
        return gathering->err == BELFRY_OK;
    if (gathering->limit != 0 && gathering->n + BELFRY_MUTANT(reads_page_cut) >= gathering->limit) {
        gathering->more = !BELFRY_MUTANT(reads_more_untold);
        return false;
    }
    gathering->n++;
    gathering->err = gathering->sorts ? keep_row(gathering, kv) : write_row(gathering, kv);
    return gathering->err == BELFRY_OK;
}

/* ---- sorting ---- */

/* What a row is sorted by. */
struct sort_row {
    struct belfry_bytes kv;
    struct belfry_bytes text; /* by key or value */
    int64_t number;           /* by anything else */
    size_t place;             /* in the order of keys: equal rows keep it */
};

static enum belfry_err sort_row_of(struct belfry_bytes kv, int32_t target, size_t place, struct sort_row *out)
{
    struct belfry_wire_kv parsed;
    if (belfry_scan_kv(kv, &parsed) != BELFRY_OK)
        return BELFRY_ERR_IO;
    *out = (struct sort_row){.kv = kv, .place = place};
    switch (target) {
    case BELFRY_SORT_VERSION:
        out->number = parsed.version;
        break;
    case BELFRY_SORT_CREATE:
        out->number = parsed.create_rev;
        break;
    case BELFRY_SORT_MOD:
        out->number = parsed.mod_rev;
        break;
    case BELFRY_SORT_VALUE:
        out->text = parsed.value;
        break;
    default:
        out->text = parsed.key;
        break;
    }
    return BELFRY_OK;
}

static int compare_rows(const void *left, const void *right, void *direction)
{
    const struct sort_row *a = left, *b = right;
    int order = a->number != b->number ? (a->number < b->number ? -1 : 1) : belfry_bytes_cmp(a->text, b->text);
    if (order != 0)
        return *(const int *)direction * order;
    return a->place < b->place ? -1 : 1;
}

static enum belfry_err write_sorted(struct gathering *gathering)
{
    const struct belfry_wire_range_request *request = gathering->request;
    const struct kept *kept = (const struct kept *)(const void *)belfry_buf_bytes(&gathering->kept).data;
    struct belfry_bytes rows = belfry_buf_bytes(&gathering->rows);
    if (gathering->n == 0)
        return BELFRY_OK;
    struct sort_row *sorted = calloc(gathering->n, sizeof(*sorted));
    if (sorted == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < gathering->n && err == BELFRY_OK; i++)
        err = sort_row_of(belfry_bytes_of(rows.data + kept[i].at, kept[i].len), request->sort_target, i, &sorted[i]);
    int direction = request->sort_order == BELFRY_SORT_DESCEND ? -1 : 1;
    if (err == BELFRY_OK)
        qsort_r(sorted, gathering->n, sizeof(*sorted), compare_rows, &direction);
    size_t n = gathering->n;
    if (request->limit > 0 && n > (size_t)request->limit) {
        n = (size_t)request->limit;
        gathering->more = true;
    }
    for (size_t i = 0; i < n && err == BELFRY_OK; i++)
        err = write_row(gathering, sorted[i].kv);
    gathering->n = n;
    free(sorted);
    return err;
}

/* ---- the response ---- */

static enum belfry_err read_rows(struct gathering *gathering, struct store_page *page)
{
    struct store *store = gathering->source->store;
    const struct belfry_wire_range_request *request = gathering->request;
    struct belfry_buf end;
    belfry_buf_init(&end);
    struct store_read read = {.view = gathering->source->view,
                              .key = request->key,
                              .rev =
                                  request->revision > 0 && !BELFRY_MUTANT(reads_page_at_head) ? request->revision : 0,
                              .max_rows = request->count_only ? 0 : SIZE_MAX,
                              .max_bytes = SIZE_MAX,
                              .max_walk = gathering->source->older_walk,
                              .counted = true};
    enum belfry_err err = range_rows_end(request, &end, &read.end);
    if (err == BELFRY_OK)
        err = store->api->range(store, &read, on_row, gathering, page);
    if (err == BELFRY_OK)
        err = page->more && !gathering->begun ? BELFRY_ERR_TOO_LARGE : gathering->err; /* more than max_walk */
    belfry_buf_fini(&end);
    return err;
}

static enum belfry_err write_tail(struct gathering *gathering, const struct store_page *page)
{
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(gathering->out, BELFRY_WRITE_RANGE_TAIL_MAX, &to);
    if (err != BELFRY_OK)
        return err;
    int64_t count = (int64_t)(BELFRY_MUTANT(reads_count_of_page) ? gathering->n : page->count);
    size_t len = (size_t)(belfry_write_range_tail(gathering->more, count, to) - to);
    belfry_buf_grown(gathering->out, len);
    return BELFRY_OK;
}

/* Takes what was used. A row that is kept to be sorted and then written counts once. */
static void settle(struct range_source *source, const struct gathering *gathering)
{
    size_t kept = belfry_buf_len(&gathering->rows), written = belfry_buf_len(gathering->out) - gathering->begin;
    size_t used = kept > written ? kept : written;
    source->bytes -= used < source->bytes ? used : source->bytes;
    source->walk -= gathering->passed_over < source->walk ? gathering->passed_over : source->walk;
}

enum belfry_err range_answer_rest(struct range_source *source, const struct belfry_wire_range_request *request,
                                  struct belfry_buf *out, struct store_page *page)
{
    struct gathering gathering = {.source = source,
                                  .request = request,
                                  .out = out,
                                  .begin = belfry_buf_len(out),
                                  .sorts = needs_sort(request),
                                  .limit = rows_to_read(request)};
    enum belfry_err err = read_rows(&gathering, page);
    if (err == BELFRY_OK && gathering.sorts)
        err = write_sorted(&gathering);
    if (err == BELFRY_OK)
        err = write_tail(&gathering, page);
    settle(source, &gathering);
    belfry_buf_fini(&gathering.rows);
    belfry_buf_fini(&gathering.kept);
    return err;
}

/* Writes what precedes the rows, which begin at HEAD. */
static void complete(struct belfry_buf *out, const struct store_page *page, const struct response_identity *identity)
{
    struct response_header header;
    response_header_make(identity, page->meta.revision, &header);
    belfry_buf_take(out, RESPONSE_HEADER_MAX - header.len);
    uint8_t *start = out->data + out->start;
    belfry_grpc_frame_prefix(start, belfry_buf_len(out) - BELFRY_GRPC_PREFIX_BYTES);
    memcpy(start + BELFRY_GRPC_PREFIX_BYTES, header.bytes, header.len);
}

enum belfry_err range_answer(struct store *store, const struct belfry_wire_range_request *request,
                             const struct range_upstream *upstream, struct belfry_buf *out, struct range_answer *answer)
{
    struct range_source source = RANGE_SOURCE(store, upstream->keys_only);
    struct store_page page = {.count = 0};
    uint8_t *room;
    enum belfry_err err = belfry_buf_reserve(out, HEAD, &room);
    if (err != BELFRY_OK)
        return err;
    if (!needs_sort(request))
        source.bytes = RANGE_ANSWER_PIECE;
    memset(room, 0, HEAD);
    belfry_buf_grown(out, HEAD);
    err = range_answer_rest(&source, request, out, &page);
    if (err == BELFRY_OK)
        complete(out, &page, &upstream->identity);
    else
        belfry_buf_clear(out);
    *answer = (struct range_answer){.revision = page.meta.revision, .past = page.meta.past};
    return err;
}
