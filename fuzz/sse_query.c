/* fuzz/sse_query.c: any bytes as the query of /v1/events, and as a Last-Event-ID. Ranges are never empty, lie within
 * their hull; what is refused says why; an id that is read is written as it was. */
#include <stdint.h>

#include "fuzz/check.h"
#include "serve/sse/sse_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_id(struct belfry_bytes text)
{
    struct sse_id id, again;
    char written[SSE_ID_TEXT];
    if (!sse_id_read(text, &id))
        return;
    check(id.rev >= 0);
    sse_id_write(&id, written);
    check(sse_id_read(belfry_bytes_str(written), &again));
    check(again.rev == id.rev && again.tagged == id.tagged && again.tag == id.tag);
}

static void check_key(const struct sse_ranges *ranges, const struct range *hull, struct belfry_bytes key)
{
    check(!sse_ranges_have(ranges, ranges->n, key) || range_has(hull, key));
}

static void check_ranges(const struct sse_ranges *ranges, struct belfry_bytes input)
{
    struct belfry_buf key, end;
    struct range hull;
    belfry_buf_init(&key);
    belfry_buf_init(&end);
    check(sse_ranges_hull(ranges, &key, &end) == BELFRY_OK);
    check(range_read(belfry_buf_bytes(&key), belfry_buf_bytes(&end), &hull));
    for (size_t i = 0; i < ranges->n; i++) {
        check(ranges->list[i].key.len > 0);
        check_key(ranges, &hull, ranges->list[i].range.key);
        check_key(ranges, &hull, ranges->list[i].range.end);
    }
    for (size_t from = 0; from < input.len && from < 8; from++)
        check_key(ranges, &hull, belfry_bytes_of(input.data + from, input.len - from));
    belfry_buf_fini(&key);
    belfry_buf_fini(&end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes input = belfry_bytes_of(data, size);
    struct sse_query query;
    const char *why = NULL;
    enum belfry_err err = sse_query_read(input, &query, &why);
    check_id(input);
    check(err == BELFRY_OK || (err == BELFRY_ERR_INVALID && why != NULL));
    if (err == BELFRY_OK) {
        struct sse_ranges ranges = {.n = query.n_ranges, .list = query.ranges};
        check(query.n_ranges >= 1 && query.n_ranges <= SSE_RANGES);
        check_ranges(&ranges, input);
    }
    sse_query_fini(&query);
    return 0;
}
