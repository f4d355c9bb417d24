/* src/serve/reads/range_slices_test.c: slices of a support/modelstore that is written to between them, put together and
 * compared with an answer in one piece, from before. */
#include "serve/reads/range_slices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "net/grpc_frame.h"
#include "support/modelstore.h"
#include "support/refuse.h"
#include "wire/write.h"

#define KEYS      60
#define VALUE_MAX 12000 /* so that all keys are a few slices */
#define ROUNDS    150

static const struct response_identity identity = {.cluster_id = 7, .member_id = 8, .raft_term = 9};

static struct store *store;
static int64_t head;
static struct belfry_rng rng;
static enum etcd_keys_only keys_only; /* of upstream */

/* ---- the data ---- */

static void apply(const struct belfry_wire_event *made)
{
    static uint8_t raw[VALUE_MAX + 256];
    struct belfry_wire_event event;
    struct belfry_wire_header header = {.cluster_id = 7, .member_id = 8, .raft_term = 9, .revision = head};
    struct belfry_bytes prev;
    size_t len = (size_t)(belfry_write_event(made, raw) - raw);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(raw, len), &event), BELFRY_OK);
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->apply(store, head, 0, &event, NULL, &prev), BELFRY_OK);
    assert_int_equal(store->api->advance(store, head, &header), BELFRY_OK);
    assert_int_equal(store->api->commit(store), BELFRY_OK);
}

static void put(size_t i, size_t value_len)
{
    static const char value[VALUE_MAX];
    char key[16];
    head++;
    snprintf(key, sizeof(key), "k%03zu", i);
    struct belfry_wire_event event = {.kv = {.key = belfry_bytes_str(key),
                                             .value = belfry_bytes_of(value, value_len),
                                             .create_rev = head,
                                             .mod_rev = head,
                                             .version = 1,
                                             .lease = head % 3 == 0 ? head : 0}};
    apply(&event);
}

static void delete (size_t i)
{
    char key[16];
    struct belfry_bytes kv;
    snprintf(key, sizeof(key), "k%03zu", i);
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    bool is_there = store->api->get(store, belfry_bytes_str(key), &kv) == BELFRY_OK;
    store->api->abort(store);
    if (!is_there)
        return;
    head++;
    struct belfry_wire_event event = {.is_delete = true, .kv = {.key = belfry_bytes_str(key), .mod_rev = head}};
    apply(&event);
}

static void change(void)
{
    size_t i = belfry_rng_below(&rng, KEYS);
    if (belfry_rng_below(&rng, 3) == 0)
        delete (i);
    else
        put(i, belfry_rng_below(&rng, VALUE_MAX));
}

static void adopt(int64_t rev, uint64_t past)
{
    struct belfry_wire_header header = {.cluster_id = 7, .revision = rev};
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    assert_int_equal(store->api->adopt(store, rev, &header, past), BELFRY_OK);
    head = rev;
}

static int setup(void **state)
{
    (void)state;
    store = modelstore_create(
        &(struct modelstore_opts){.history_rows = 100000, .history_age_s = 100, .extent_bytes = 1 << 20});
    adopt(1, 1);
    rng = (struct belfry_rng){belfry_clock_ns()};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    keys_only = ETCD_KEYS_ONLY_LEASED;
    for (size_t i = 0; i < 3 * (size_t)KEYS; i++)
        change();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    modelstore_destroy(store);
    return refuse_held() == 0 ? 0 : -1;
}

static const struct belfry_wire_range_request everything = {.key = {"\0", 1}, .range_end = {"\0", 1}};

static struct belfry_wire_range_request draw(enum range_slices_form form)
{
    static const char *const keys[] = {"k", "k000", "k017", "k02", "k040", "l"};
    static const char *const ends[] = {"", "k", "k027", "k05", "l", "\xff"};
    struct belfry_wire_range_request r = {.key = belfry_bytes_str(keys[belfry_rng_below(&rng, 6)]),
                                          .range_end = belfry_bytes_str(ends[belfry_rng_below(&rng, 6)])};
    if (belfry_rng_below(&rng, 2) == 0)
        r = everything;
    if (belfry_rng_below(&rng, 2) == 0)
        r.limit = (int64_t)belfry_rng_below(&rng, KEYS + 2) - 1;
    if (belfry_rng_below(&rng, 2) == 0)
        r.revision = 2 + (int64_t)belfry_rng_below(&rng, (uint64_t)head - 1);
    r.keys_only = belfry_rng_below(&rng, 5) == 0;
    keys_only = belfry_rng_below(&rng, 2) == 0 ? ETCD_KEYS_ONLY_LEASED : ETCD_KEYS_ONLY_BARE;
    r.count_only = belfry_rng_below(&rng, 10) == 0;
    int64_t *const filters[] = {&r.min_mod_rev, &r.max_mod_rev, &r.min_create_rev, &r.max_create_rev};
    if (form == RANGE_SLICES_MESSAGE && belfry_rng_below(&rng, 3) == 0)
        *filters[belfry_rng_below(&rng, 4)] = (int64_t)belfry_rng_below(&rng, (uint64_t)head + 10);
    return r;
}

/* ---- reading ---- */

static void append(struct belfry_buf *to, struct belfry_bytes bytes)
{
    assert_int_equal(belfry_buf_append(to, bytes.data, bytes.len), BELFRY_OK);
}

/* An answer as a plain loop over all rows makes it. */
struct whole {
    const struct belfry_wire_range_request *request;
    struct belfry_buf rows;
    int64_t n;
    bool more;
};

static bool on_whole_row(struct belfry_bytes key, struct belfry_bytes raw, void *user)
{
    struct whole *whole = user;
    const struct belfry_wire_range_request *r = whole->request;
    uint8_t field[BELFRY_WRITE_RANGE_FIELD_MAX], bare[64];
    struct belfry_wire_kv kv;
    (void)key;
    assert_int_equal(belfry_scan_kv(raw, &kv), BELFRY_OK);
    if ((r->min_mod_rev != 0 && kv.mod_rev < r->min_mod_rev) || (r->max_mod_rev != 0 && kv.mod_rev > r->max_mod_rev) ||
        (r->min_create_rev != 0 && kv.create_rev < r->min_create_rev) ||
        (r->max_create_rev != 0 && kv.create_rev > r->max_create_rev))
        return true;
    whole->more = r->limit > 0 && whole->n == r->limit;
    if (whole->more)
        return false;
    whole->n++;
    if (r->keys_only) {
        kv.value.len = 0;
        kv.lease = keys_only == ETCD_KEYS_ONLY_BARE ? 0 : kv.lease;
        raw = belfry_bytes_of(bare, (size_t)(belfry_write_kv(&kv, bare) - bare));
    }
    append(&whole->rows, belfry_bytes_of(field, (size_t)(belfry_write_range_field(raw.len, field) - field)));
    append(&whole->rows, raw);
    return true;
}

/* The whole response, behind gRPC's prefix. */
static struct belfry_buf answer_whole(const struct belfry_wire_range_request *request)
{
    struct belfry_buf out = {0};
    struct whole whole = {.request = request};
    struct response_header header;
    struct store_page page;
    bool is_open = request->range_end.len == 1 && request->range_end.data[0] == '\0';
    char end[16];
    uint8_t tail[BELFRY_WRITE_RANGE_TAIL_MAX], prefix[BELFRY_GRPC_PREFIX_BYTES];
    memcpy(end, request->key.data, request->key.len);
    end[request->key.len] = '\0';
    struct store_read read = {.key = request->key,
                              .end = is_open ? (struct belfry_bytes){0} : request->range_end,
                              .rev = request->revision > 0 ? request->revision : 0,
                              .max_rows = request->count_only ? 0 : SIZE_MAX,
                              .max_bytes = SIZE_MAX,
                              .counted = true};
    if (request->range_end.len == 0)
        read.end = belfry_bytes_of(end, request->key.len + 1);
    assert_int_equal(store->api->range(store, &read, on_whole_row, &whole, &page), BELFRY_OK);
    response_header_make(&identity, head, &header);
    size_t tail_len = (size_t)(belfry_write_range_tail(whole.more, (int64_t)page.count, tail) - tail);
    belfry_grpc_frame_prefix(prefix, header.len + belfry_buf_len(&whole.rows) + tail_len);
    append(&out, belfry_bytes_of(prefix, sizeof(prefix)));
    append(&out, belfry_bytes_of(header.bytes, header.len));
    append(&out, belfry_buf_bytes(&whole.rows));
    append(&out, belfry_bytes_of(tail, tail_len));
    belfry_buf_fini(&whole.rows);
    return out;
}

/* Takes gRPC's prefix and the field that contains the RangeResponse off a chunk. */
static struct belfry_bytes open_chunk(struct belfry_bytes chunk)
{
    size_t at = 0;
    struct belfry_bytes response, message = belfry_grpc_frame_only(chunk);
    assert_non_null(message.data);
    assert_int_equal(belfry_scan_field(message, 1, &at, &response), BELFRY_OK);
    assert_int_equal(at, message.len);
    return response;
}

/* Where the rows of a RangeResponse begin: behind its header, if it has one. */
static size_t header_len(struct belfry_bytes response)
{
    size_t at = 0;
    struct belfry_bytes header;
    bool has_header = response.len > 0 && response.data[0] == 0x0a;
    if (!has_header)
        return 0;
    assert_int_equal(belfry_scan_field(response, 1, &at, &header), BELFRY_OK);
    return at;
}

struct merged {
    struct belfry_buf header, rest;
    size_t n_parts, n_rows;
};

static void merge(struct merged *merged, struct belfry_bytes chunk, bool is_last)
{
    struct belfry_bytes response = open_chunk(chunk), row;
    size_t head_len = header_len(response), at = 0, n = 0;
    assert_int_equal(head_len > 0, is_last);
    append(&merged->header, belfry_bytes_of(response.data, head_len));
    append(&merged->rest, belfry_bytes_of(response.data + head_len, response.len - head_len));
    while (belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row) == BELFRY_OK)
        n++;
    if (merged->n_parts == 0)
        assert_in_range(n, 0, RANGE_SLICES_CHUNK);
    merged->n_rows += n;
}

/* Changes the store between the slices. */
static void read_in_slices(const struct belfry_wire_range_request *request, enum range_slices_form form,
                           struct merged *out)
{
    struct range_slices slices;
    struct belfry_buf part = {0};
    assert_int_equal(range_slices_init(&slices, request, form, keys_only), BELFRY_OK);
    while (slices.state != RANGE_SLICES_DONE) {
        size_t bytes = belfry_rng_below(&rng, 2 * RANGE_SLICES_BYTES), most = bytes + VALUE_MAX + 256;
        assert_int_equal(range_slices_step(&slices, store, &identity, bytes, &part), BELFRY_OK);
        if (bytes < RANGE_SLICES_LEAST)
            most += RANGE_SLICES_LEAST;
        assert_in_range(belfry_buf_len(&part), 0, most);
        assert_in_range(belfry_buf_len(&part), 0, RANGE_SLICES_BYTES + VALUE_MAX + 256);
        if (belfry_buf_len(&part) > 0) {
            if (form == RANGE_SLICES_CHUNKS)
                merge(out, belfry_buf_bytes(&part), slices.state == RANGE_SLICES_DONE);
            else
                append(&out->rest, belfry_buf_bytes(&part));
            out->n_parts++;
        }
        belfry_buf_fini(&part);
        for (size_t n = belfry_rng_below(&rng, 4); n > 0; n--)
            change();
    }
    range_slices_fini(&slices);
}

static void expect_same(struct belfry_bytes got, struct belfry_bytes right)
{
    assert_int_equal(got.len, right.len);
    assert_memory_equal(got.data, right.data, right.len);
}

/* ---- tests ---- */

static void slices_of_a_message_are_the_answer_in_one_piece(void **state)
{
    (void)state;
    size_t most = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        struct belfry_wire_range_request request = draw(RANGE_SLICES_MESSAGE);
        struct belfry_buf right = answer_whole(&request);
        struct merged got = {.n_parts = 0};
        read_in_slices(&request, RANGE_SLICES_MESSAGE, &got);
        expect_same(belfry_buf_bytes(&got.rest), belfry_buf_bytes(&right));
        most = got.n_parts > most ? got.n_parts : most;
        belfry_buf_fini(&got.rest);
        belfry_buf_fini(&right);
    }
    assert_in_range(most, 3, KEYS);
}

static void chunks_that_are_merged_are_the_answer_in_one_piece(void **state)
{
    (void)state;
    size_t most = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        struct belfry_wire_range_request request = draw(RANGE_SLICES_CHUNKS);
        struct belfry_buf right = answer_whole(&request);
        struct merged got = {.n_parts = 0};
        read_in_slices(&request, RANGE_SLICES_CHUNKS, &got);
        append(&got.header, belfry_buf_bytes(&got.rest));
        struct belfry_bytes message = belfry_grpc_frame_only(belfry_buf_bytes(&right));
        expect_same(belfry_buf_bytes(&got.header), message);
        most = got.n_parts > most ? got.n_parts : most;
        belfry_buf_fini(&got.header);
        belfry_buf_fini(&got.rest);
        belfry_buf_fini(&right);
    }
    assert_in_range(most, 4, KEYS);
}

static void chunks_of_small_rows_grow(void **state)
{
    (void)state;
    for (size_t i = 0; i < 10 + 20 + 40 + 5; i++)
        put(i, 1);
    const struct belfry_wire_range_request request = {.key = belfry_bytes_str("k"),
                                                      .range_end = belfry_bytes_str("k075")};
    struct merged got = {.n_parts = 0};
    read_in_slices(&request, RANGE_SLICES_CHUNKS, &got);
    assert_int_equal(got.n_parts, 4);
    assert_int_equal(got.n_rows, 75);
    belfry_buf_fini(&got.header);
    belfry_buf_fini(&got.rest);
}

/* Reads the first slice; then something happens; then this comes of the second. */
static enum belfry_err second_slice(void (*happens)(void))
{
    struct range_slices slices;
    struct belfry_buf part = {0};
    for (size_t i = 0; i < KEYS; i++)
        put(i, VALUE_MAX);
    assert_int_equal(range_slices_init(&slices, &everything, RANGE_SLICES_CHUNKS, keys_only), BELFRY_OK);
    assert_int_equal(range_slices_step(&slices, store, &identity, SIZE_MAX, &part), BELFRY_OK);
    belfry_buf_clear(&part);
    happens();
    enum belfry_err err = range_slices_step(&slices, store, &identity, SIZE_MAX, &part);
    assert_int_equal(belfry_buf_len(&part) > 0, err == BELFRY_OK);
    belfry_buf_fini(&part);
    range_slices_fini(&slices);
    return err;
}

static void nothing_happens(void)
{
}

static void another_past_at_the_same_revision(void)
{
    adopt(head, 2);
}

static void another_past_that_is_behind(void)
{
    adopt(head - 10, 3);
}

static void the_window_is_lost(void)
{
    adopt(head + 1, 3);
}

static void an_answer_ends_when_its_state_is_gone(void **state)
{
    (void)state;
    assert_int_equal(second_slice(nothing_happens), BELFRY_OK);
    assert_int_equal(second_slice(another_past_at_the_same_revision), BELFRY_ERR_CANCELED);
    assert_int_equal(second_slice(another_past_that_is_behind), BELFRY_ERR_CANCELED);
    assert_int_equal(second_slice(the_window_is_lost), BELFRY_ERR_COMPACTED);
}

static void a_revision_that_is_not_there_yet_can_be_tried_again(void **state)
{
    (void)state;
    struct belfry_wire_range_request request = everything;
    request.revision = head + 1;
    struct range_slices slices;
    struct belfry_buf part = {0};
    assert_int_equal(range_slices_init(&slices, &request, RANGE_SLICES_CHUNKS, keys_only), BELFRY_OK);
    assert_int_equal(range_slices_step(&slices, store, &identity, SIZE_MAX, &part), BELFRY_ERR_AGAIN);
    put(0, 1);
    assert_int_equal(range_slices_step(&slices, store, &identity, SIZE_MAX, &part), BELFRY_OK);
    assert_int_equal(slices.rev, head);
    belfry_buf_fini(&part);
    range_slices_fini(&slices);
}

static void sorts_are_not_read_in_slices(void **state)
{
    (void)state;
    struct belfry_wire_range_request request = everything;
    assert_true(range_slices_can(&request));
    request.sort_order = BELFRY_SORT_ASCEND;
    assert_true(range_slices_can(&request));
    request.sort_target = BELFRY_SORT_MOD;
    assert_false(range_slices_can(&request));
    request.sort_target = BELFRY_SORT_KEY;
    request.sort_order = BELFRY_SORT_DESCEND;
    assert_false(range_slices_can(&request));
}

static enum belfry_err scenario(enum range_slices_form form)
{
    struct range_slices slices;
    struct belfry_buf part = {0};
    enum belfry_err err = range_slices_init(&slices, &everything, form, keys_only);
    while (err == BELFRY_OK && slices.state != RANGE_SLICES_DONE) {
        err = range_slices_step(&slices, store, &identity, SIZE_MAX, &part);
        assert_true(err == BELFRY_OK || belfry_buf_len(&part) == 0);
        belfry_buf_fini(&part);
    }
    range_slices_fini(&slices);
    return err;
}

static void refused_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    size_t held = refuse_held();
    for (int form = RANGE_SLICES_MESSAGE; form <= RANGE_SLICES_CHUNKS; form++) {
        for (size_t n = 0;; n++) {
            refuse_begin(n);
            enum belfry_err err = scenario((enum range_slices_form)form);
            bool reached = refuse_end();
            assert_int_equal(refuse_held(), held);
            assert_int_equal(err, reached ? BELFRY_ERR_NOMEM : BELFRY_OK);
            if (!reached)
                break;
        }
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(slices_of_a_message_are_the_answer_in_one_piece),
        T(chunks_that_are_merged_are_the_answer_in_one_piece),
        T(chunks_of_small_rows_grow),
        T(an_answer_ends_when_its_state_is_gone),
        T(a_revision_that_is_not_there_yet_can_be_tried_again),
        T(sorts_are_not_read_in_slices),
        T(refused_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
