/* src/serve/reads/range_answer_test.c: answers from a support/modelstore, compared with what protobuf-c writes of an
 * answer that a plain array gives. */
#include "serve/reads/range_answer.h"

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
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define KEYS      40
#define REVISIONS 300
#define REQUESTS  4000

static struct range_upstream upstream = {.identity = {.cluster_id = 7, .member_id = 8, .raft_term = 9}};

struct row {
    bool is_there;
    char key[8], value[8];
    int64_t create_rev, mod_rev, version, lease;
};

static struct store *store;
static struct row history[REVISIONS + 2][KEYS]; /* what there was at each revision */
static int64_t head;

/* ---- the data ---- */

static void write_row(struct row *row, bool is_delete)
{
    uint8_t raw[256];
    struct belfry_wire_event event = {.is_delete = is_delete,
                                      .kv = {.key = belfry_bytes_str(row->key), .mod_rev = head}};
    struct belfry_wire_header header = {.cluster_id = 7, .member_id = 8, .raft_term = 9, .revision = head};
    struct belfry_bytes prev;
    if (!is_delete)
        event.kv = (struct belfry_wire_kv){.key = belfry_bytes_str(row->key),
                                           .value = belfry_bytes_str(row->value),
                                           .create_rev = row->create_rev,
                                           .mod_rev = row->mod_rev,
                                           .version = row->version,
                                           .lease = row->lease};
    size_t len = (size_t)(belfry_write_event(&event, raw) - raw);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(raw, len), &event), BELFRY_OK);
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->apply(store, head, 0, &event, NULL, &prev), BELFRY_OK);
    assert_int_equal(store->api->advance(store, head, &header), BELFRY_OK);
    assert_int_equal(store->api->commit(store), BELFRY_OK);
}

static void change(struct belfry_rng *rng)
{
    size_t i = belfry_rng_below(rng, KEYS);
    memcpy(history[head + 1], history[head], sizeof(history[head]));
    head++;
    struct row *row = &history[head][i];
    bool is_delete = row->is_there && belfry_rng_below(rng, 3) == 0;
    snprintf(row->key, sizeof(row->key), "k%02zu", i);
    if (!is_delete) {
        row->create_rev = row->is_there ? row->create_rev : head;
        row->version = row->is_there ? row->version + 1 : 1;
        row->mod_rev = head;
        row->lease = (int64_t)belfry_rng_below(rng, 2);
        snprintf(row->value, sizeof(row->value), "%.*s", (int)belfry_rng_below(rng, 3), "vv");
    }
    row->is_there = !is_delete;
    write_row(row, is_delete);
}

static int setup(void **state)
{
    (void)state;
    store = modelstore_create(
        &(struct modelstore_opts){.history_rows = 10000, .history_age_s = 100, .extent_bytes = 1 << 20});
    memset(history, 0, sizeof(history));
    struct belfry_wire_header header = {.cluster_id = 7, .revision = 1};
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    assert_int_equal(store->api->adopt(store, 1, &header, 1), BELFRY_OK);
    head = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    modelstore_destroy(store);
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- what is right ---- */

static bool is_right(const struct belfry_wire_range_request *r, const struct row *row)
{
    return (r->min_mod_rev == 0 || row->mod_rev >= r->min_mod_rev) &&
           (r->max_mod_rev == 0 || row->mod_rev <= r->max_mod_rev) &&
           (r->min_create_rev == 0 || row->create_rev >= r->min_create_rev) &&
           (r->max_create_rev == 0 || row->create_rev <= r->max_create_rev);
}

static bool is_in(const struct belfry_wire_range_request *r, const struct row *row)
{
    struct belfry_bytes key = belfry_bytes_str(row->key);
    if (!row->is_there)
        return false;
    if (r->range_end.len == 0)
        return belfry_bytes_equal(key, r->key);
    bool is_open = r->range_end.len == 1 && r->range_end.data[0] == '\0';
    return belfry_bytes_cmp(key, r->key) >= 0 && (is_open || belfry_bytes_cmp(key, r->range_end) < 0);
}

static int order_of(const struct belfry_wire_range_request *r, const struct row *a, const struct row *b)
{
    int64_t x = 0, y = 0;
    switch (r->sort_target) {
    case BELFRY_SORT_KEY:
        return strcmp(a->key, b->key);
    case BELFRY_SORT_VALUE:
        return strcmp(a->value, b->value);
    case BELFRY_SORT_VERSION:
        x = a->version, y = b->version;
        break;
    case BELFRY_SORT_CREATE:
        x = a->create_rev, y = b->create_rev;
        break;
    default:
        x = a->mod_rev, y = b->mod_rev;
        break;
    }
    return x < y ? -1 : x > y;
}

/* By insertion, which leaves equal rows in their order. */
static void sort(const struct belfry_wire_range_request *r, const struct row **rows, size_t n)
{
    int direction = r->sort_order == BELFRY_SORT_DESCEND ? -1 : 1;
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && direction * order_of(r, rows[j - 1], rows[j]) > 0; j--) {
            const struct row *row = rows[j];
            rows[j] = rows[j - 1];
            rows[j - 1] = row;
        }
}

/* Reads as etcd's server does: all rows, filters, order, limit. */
static size_t right_answer(const struct belfry_wire_range_request *r, uint8_t *to)
{
    static Mvccpb__KeyValue kvs[KEYS];
    Mvccpb__KeyValue *list[KEYS];
    const struct row *rows[KEYS], *at = history[r->revision > 0 ? r->revision : head];
    size_t n = 0;
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__RangeResponse response = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    header.cluster_id = 7, header.member_id = 8, header.raft_term = 9, header.revision = head;
    bool filters = r->min_mod_rev != 0 || r->max_mod_rev != 0 || r->min_create_rev != 0 || r->max_create_rev != 0;
    size_t most = r->limit > 0 && r->sort_order == BELFRY_SORT_NONE && !filters ? (size_t)r->limit + 1 : KEYS;
    for (size_t i = 0; i < KEYS; i++) {
        if (!is_in(r, &at[i]))
            continue;
        response.count++;
        if (n < most && is_right(r, &at[i]) && !r->count_only)
            rows[n++] = &at[i];
    }
    if (r->sort_order != BELFRY_SORT_NONE || r->sort_target != BELFRY_SORT_KEY)
        sort(r, rows, n);
    response.more = r->limit > 0 && n > (size_t)r->limit;
    n = response.more ? (size_t)r->limit : n;
    for (size_t i = 0; i < n; i++) {
        kvs[i] = (Mvccpb__KeyValue)MVCCPB__KEY_VALUE__INIT;
        kvs[i].key = belfry_binary(belfry_bytes_str(rows[i]->key));
        kvs[i].value = belfry_binary(r->keys_only ? (struct belfry_bytes){0} : belfry_bytes_str(rows[i]->value));
        kvs[i].create_revision = rows[i]->create_rev;
        kvs[i].mod_revision = rows[i]->mod_rev;
        kvs[i].version = rows[i]->version;
        bool is_bare = r->keys_only && r->sort_target != BELFRY_SORT_VALUE;
        kvs[i].lease = is_bare && upstream.keys_only == ETCD_KEYS_ONLY_BARE ? 0 : rows[i]->lease;
        list[i] = &kvs[i];
    }
    response.header = &header;
    response.n_kvs = n;
    response.kvs = list;
    return etcdserverpb__range_response__pack(&response, to);
}

static void expect_right(const struct belfry_wire_range_request *request)
{
    static uint8_t right[1 << 16];
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    struct belfry_buf out;
    struct range_answer answer;
    belfry_buf_init(&out);
    assert_int_equal(range_answer(store, request, &upstream, &out, &answer), BELFRY_OK);
    assert_int_equal(answer.revision, head);
    assert_int_equal(answer.past, 1);
    size_t len = right_answer(request, right);
    struct belfry_bytes got = belfry_buf_bytes(&out);
    belfry_grpc_frame_prefix(prefix, len);
    assert_int_equal(got.len, sizeof(prefix) + len);
    assert_memory_equal(got.data, prefix, sizeof(prefix));
    assert_memory_equal(got.data + sizeof(prefix), right, len);
    belfry_buf_fini(&out);
}

/* ---- tests ---- */

static struct belfry_wire_range_request draw(struct belfry_rng *rng)
{
    static const char *const keys[] = {"k", "k00", "k07", "k1", "k20", "l", "\xff"};
    static const char *const ends[] = {"", "k", "k07", "k2", "l", "\xff"};
    struct belfry_wire_range_request r = {.key = belfry_bytes_str(keys[belfry_rng_below(rng, 7)]),
                                          .range_end = belfry_bytes_str(ends[belfry_rng_below(rng, 6)])};
    if (belfry_rng_below(rng, 4) == 0)
        r.range_end = belfry_bytes_of("", 1);
    if (belfry_rng_below(rng, 2) == 0)
        r.limit = (int64_t)belfry_rng_below(rng, 12) - 1;
    if (belfry_rng_below(rng, 2) == 0)
        r.revision = 2 + (int64_t)belfry_rng_below(rng, (uint64_t)head - 1);
    if (belfry_rng_below(rng, 2) == 0)
        r.sort_order = (int32_t)belfry_rng_below(rng, 3), r.sort_target = (int32_t)belfry_rng_below(rng, 5);
    r.keys_only = belfry_rng_below(rng, 4) == 0;
    r.count_only = belfry_rng_below(rng, 8) == 0;
    int64_t *const filters[] = {&r.min_mod_rev, &r.max_mod_rev, &r.min_create_rev, &r.max_create_rev};
    if (belfry_rng_below(rng, 3) == 0)
        *filters[belfry_rng_below(rng, 4)] = (int64_t)belfry_rng_below(rng, (uint64_t)head + 10);
    return r;
}

static void every_request_is_answered_as_a_plain_array_does(void **state)
{
    (void)state;
    struct belfry_rng rng = {belfry_clock_ns()};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    while (head < REVISIONS)
        change(&rng);
    for (size_t i = 0; i < REQUESTS; i++) {
        struct belfry_wire_range_request request = draw(&rng);
        upstream.keys_only = belfry_rng_below(&rng, 2) == 0 ? ETCD_KEYS_ONLY_LEASED : ETCD_KEYS_ONLY_BARE;
        expect_right(&request);
    }
}

/* Without the version of etcd an answer is given only if it is the same for all of them. */
static void a_lease_that_etcd_may_not_tell_is_no_answer(void **state)
{
    static const struct {
        size_t key; /* 1 has a lease, 0 has none */
        bool keys_only;
        int32_t order, target;
        enum belfry_err err;
    } rows[] = {
        {0, true, BELFRY_SORT_NONE, BELFRY_SORT_KEY, BELFRY_OK},
        {1, false, BELFRY_SORT_NONE, BELFRY_SORT_KEY, BELFRY_OK},
        {1, true, BELFRY_SORT_NONE, BELFRY_SORT_VALUE, BELFRY_OK}, /* whatever the order is */
        {1, true, BELFRY_SORT_DESCEND, BELFRY_SORT_VALUE, BELFRY_OK},
        {1, true, BELFRY_SORT_NONE, BELFRY_SORT_KEY, BELFRY_ERR_UNSUPPORTED},
        {1, true, BELFRY_SORT_DESCEND, BELFRY_SORT_MOD, BELFRY_ERR_UNSUPPORTED},
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        memcpy(history[head + 1], history[head], sizeof(history[head]));
        head++;
        history[head][i] = (struct row){
            .is_there = true, .create_rev = head, .mod_rev = head, .version = 1, .lease = (int64_t)i, .value = "v"};
        snprintf(history[head][i].key, sizeof(history[head][i].key), "k%02zu", i);
        write_row(&history[head][i], false);
    }
    upstream.keys_only = ETCD_KEYS_ONLY_UNKNOWN;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_wire_range_request request = {.key = belfry_bytes_str(rows[i].key == 0 ? "k00" : "k01"),
                                                    .keys_only = rows[i].keys_only,
                                                    .sort_order = rows[i].order,
                                                    .sort_target = rows[i].target};
        struct belfry_buf out;
        struct range_answer answer;
        belfry_buf_init(&out);
        assert_int_equal(range_answer(store, &request, &upstream, &out, &answer), rows[i].err);
        assert_int_equal(belfry_buf_len(&out) > 0, rows[i].err == BELFRY_OK);
        belfry_buf_fini(&out);
        if (rows[i].err == BELFRY_OK)
            expect_right(&request);
    }
}

static enum belfry_err try_at(int64_t revision)
{
    struct belfry_wire_range_request request = {.key = belfry_bytes_str("k"), .revision = revision};
    struct belfry_buf out;
    struct range_answer answer;
    belfry_buf_init(&out);
    enum belfry_err err = range_answer(store, &request, &upstream, &out, &answer);
    assert_int_equal(belfry_buf_len(&out) > 0, err == BELFRY_OK);
    belfry_buf_fini(&out);
    return err;
}

static void revisions_outside_of_the_window_are_errors(void **state)
{
    (void)state;
    struct belfry_rng rng = {1};
    for (int i = 0; i < 10; i++)
        change(&rng);
    assert_int_equal(try_at(head), BELFRY_OK);
    assert_int_equal(try_at(head + 1), BELFRY_ERR_AGAIN);
    assert_int_equal(try_at(INT64_MAX), BELFRY_ERR_AGAIN);
    assert_int_equal(try_at(-5), BELFRY_OK); /* as 0 */
    struct belfry_wire_header header = {.cluster_id = 7, .revision = head};
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    assert_int_equal(store->api->adopt(store, head, &header, 1), BELFRY_OK);
    assert_int_equal(try_at(head - 1), BELFRY_ERR_COMPACTED);
}

static void requests_that_are_not_as_etcd_knows_them_are_not_known(void **state)
{
    (void)state;
    const struct belfry_wire_range_request good = {.key = belfry_bytes_str("k"), .sort_target = BELFRY_SORT_VALUE};
    struct belfry_wire_range_request bad[6] = {good, good, good, good, good, good};
    assert_true(range_answer_knows(&good));
    bad[0].key.len = 0;
    bad[1].sort_order = 3;
    bad[2].sort_order = -1;
    bad[3].sort_target = 5;
    bad[4].sort_target = -1;
    bad[5].is_odd = true;
    for (size_t i = 0; i < 6; i++)
        assert_false(range_answer_knows(&bad[i]));
}

static enum belfry_err scenario(void)
{
    struct belfry_wire_range_request request = {
        .key = belfry_bytes_str("k"), .range_end = belfry_bytes_of("", 1), .sort_target = BELFRY_SORT_MOD};
    struct belfry_buf out;
    struct range_answer answer;
    belfry_buf_init(&out);
    enum belfry_err err = range_answer(store, &request, &upstream, &out, &answer);
    if (err == BELFRY_OK) {
        belfry_buf_clear(&out);
        request.sort_target = BELFRY_SORT_KEY;
        request.range_end.len = 0;
        err = range_answer(store, &request, &upstream, &out, &answer);
    }
    belfry_buf_fini(&out);
    return err;
}

static void refused_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    struct belfry_rng rng = {1};
    for (int i = 0; i < 10; i++)
        change(&rng);
    size_t held = refuse_held();
    for (size_t n = 0;; n++) {
        refuse_begin(n);
        enum belfry_err err = scenario();
        bool reached = refuse_end();
        assert_int_equal(refuse_held(), held);
        assert_int_equal(err, reached ? BELFRY_ERR_NOMEM : BELFRY_OK);
        if (!reached)
            break;
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(every_request_is_answered_as_a_plain_array_does), T(a_lease_that_etcd_may_not_tell_is_no_answer),
        T(revisions_outside_of_the_window_are_errors),      T(requests_that_are_not_as_etcd_knows_them_are_not_known),
        T(refused_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
