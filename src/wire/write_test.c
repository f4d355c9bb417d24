/* src/wire/write_test.c: what we write is byte for byte what was captured and what protobuf-c writes. */
#include "wire/write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/refuse.h"
#include "wire/rpc.pb-c.h"

#define SEED     20240712u
#define N_RANDOM 4000
#define POOL     300

#define BYTES(...) belfry_bytes_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* clang-format off */
#define CLUSTER 0x08, 0xea, 0x91, 0x89, 0x89, 0x9c, 0xb8, 0xfa, 0xfa, 0x1c
#define MEMBER  0x10, 0x92, 0xd4, 0x94, 0xd8, 0x8a, 0xc4, 0xdc, 0xfc, 0x61
/* clang-format on */
#define CLUSTER_ID 0x1cf5e9c1c12248eau
#define MEMBER_ID  0x61f97220ab052a12u

static void assert_same(struct belfry_bytes ours, struct belfry_bytes expected)
{
    assert_int_equal(ours.len, expected.len);
    assert_memory_equal(ours.data, expected.data, expected.len);
}

/* Writes into blocks of exactly the size promised, so that AddressSanitizer sees a byte too many. */
static struct belfry_bytes written_head(const struct belfry_wire_watch *watch)
{
    size_t len = belfry_write_watch_head_size(watch);
    uint8_t *data = malloc(len);
    assert_non_null(data);
    assert_ptr_equal(belfry_write_watch_head(watch, data), data + len);
    return belfry_bytes_of(data, len);
}

static struct belfry_bytes written_event(const struct belfry_wire_event *event)
{
    size_t len = belfry_write_event_size(event);
    uint8_t *data = malloc(len);
    assert_non_null(data);
    assert_ptr_equal(belfry_write_event(event, data), data + len);
    return belfry_bytes_of(data, len);
}

/* A whole response with one event, put together as a server does. */
static struct belfry_bytes spliced(const struct belfry_wire_watch *watch, struct belfry_bytes event)
{
    size_t head = belfry_write_watch_head_size(watch);
    size_t len = head + belfry_write_event_field_size(event.len) + event.len;
    uint8_t *data = malloc(len);
    assert_non_null(data);
    uint8_t *to = belfry_write_event_field(event.len, belfry_write_watch_head(watch, data));
    memcpy(to, event.data, event.len);
    assert_ptr_equal(to + event.len, data + len);
    return belfry_bytes_of(data, len);
}

static void release(struct belfry_bytes bytes)
{
    void *data;
    memcpy(&data, &bytes.data, sizeof(data));
    free(data);
}

static void created_is_written_as_captured(void **state)
{
    (void)state;
    struct belfry_wire_watch w = {
        .header = {.cluster_id = CLUSTER_ID, .member_id = MEMBER_ID, .revision = 2556, .raft_term = 2},
        .created = true};
    struct belfry_bytes head = written_head(&w);
    assert_same(head, BYTES(0x0a, 0x19, CLUSTER, MEMBER, 0x18, 0xfc, 0x13, 0x20, 0x02, 0x18, 0x01));
    release(head);
}

static void event_is_spliced_as_captured(void **state)
{
    (void)state;
    struct belfry_wire_watch w = {
        .header = {.cluster_id = CLUSTER_ID, .member_id = MEMBER_ID, .revision = 2557, .raft_term = 2}, .n_events = 1};
    struct belfry_wire_event e = {.kv = {.key = belfry_bytes_str("foo1"),
                                         .value = belfry_bytes_str("bar"),
                                         .create_rev = 2557,
                                         .mod_rev = 2557,
                                         .version = 1}};
    struct belfry_bytes raw = written_event(&e), message = spliced(&w, raw);
    assert_same(message,
                BYTES(0x0a, 0x19, CLUSTER, MEMBER, 0x18, 0xfd, 0x13, 0x20, 0x02, 0x5a, 0x15, 0x12, 0x13, 0x0a, 0x04,
                      'f', 'o', 'o', '1', 0x10, 0xfd, 0x13, 0x18, 0xfd, 0x13, 0x20, 0x01, 0x2a, 0x03, 'b', 'a', 'r'));
    release(raw);
    release(message);
}

static void header_of_zeroes_is_still_written(void **state)
{
    (void)state;
    struct belfry_bytes head = written_head(&(struct belfry_wire_watch){.watch_id = -1});
    assert_same(head, BYTES(0x0a, 0x00, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01));
    release(head);
}

static void event_without_anything_still_has_its_kv(void **state)
{
    (void)state;
    struct belfry_bytes event = written_event(&(struct belfry_wire_event){.is_delete = true, .has_prev = true});
    assert_same(event, BYTES(0x08, 0x01, 0x12, 0x00, 0x1a, 0x00));
    release(event);
}

static void event_field_is_a_tag_and_a_length(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 127, 128, 16383, 16384, (size_t)3 << 20, SIZE_MAX};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        uint8_t *to = malloc(belfry_write_event_field_size(lengths[i]));
        assert_non_null(to);
        uint8_t *end = belfry_write_event_field(lengths[i], to);
        assert_int_equal(end - to, belfry_write_event_field_size(lengths[i]));
        assert_in_range(end - to, 2, BELFRY_WRITE_EVENT_FIELD_MAX);
        assert_int_equal(to[0], 0x5a);
        uint64_t length = 0;
        for (ptrdiff_t k = end - to - 1; k >= 1; k--)
            length = length << 7 | (to[k] & 0x7f);
        assert_true(length == lengths[i]);
        free(to);
    }
}

static void requests_are_written_as_captured(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    struct belfry_wire_create create = {
        .key = belfry_bytes_str("foo"), .range_end = belfry_bytes_str("fop"), .prev_kv = true};
    assert_int_equal(belfry_write_watch_create(&buf, &create), BELFRY_OK);
    assert_same(belfry_buf_bytes(&buf), BYTES(0x0a, 0x0c, 0x0a, 3, 'f', 'o', 'o', 0x12, 3, 'f', 'o', 'p', 0x30, 0x01));
    belfry_buf_clear(&buf);

    create = (struct belfry_wire_create){.key = belfry_bytes_str("foo")};
    assert_int_equal(belfry_write_watch_create(&buf, &create), BELFRY_OK);
    assert_same(belfry_buf_bytes(&buf), BYTES(0x0a, 0x05, 0x0a, 0x03, 'f', 'o', 'o'));
    belfry_buf_clear(&buf);

    /* One after another: each appends. */
    assert_int_equal(belfry_write_watch_progress(&buf), BELFRY_OK);
    assert_int_equal(belfry_write_watch_cancel(&buf, 0), BELFRY_OK);
    assert_int_equal(belfry_write_watch_cancel(&buf, 300), BELFRY_OK);
    assert_same(belfry_buf_bytes(&buf), BYTES(0x1a, 0x00, 0x12, 0x00, 0x12, 0x03, 0x08, 0xac, 0x02));
    belfry_buf_fini(&buf);
}

static void create_with_everything_is_written(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    struct belfry_wire_create create = {.key = belfry_bytes_of("\0", 1),
                                        .range_end = belfry_bytes_of("\0", 1),
                                        .start_revision = 300,
                                        .watch_id = -1,
                                        .progress_notify = true,
                                        .prev_kv = true,
                                        .fragment = true,
                                        .no_put = true,
                                        .no_delete = true};
    assert_int_equal(belfry_write_watch_create(&buf, &create), BELFRY_OK);
    assert_same(belfry_buf_bytes(&buf),
                BYTES(0x0a, 0x1e, 0x0a, 1, 0, 0x12, 1, 0, 0x18, 0xac, 0x02, 0x20, 1, 0x2a, 2, 0, 1, 0x30, 1, 0x38, 0xff,
                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x40, 1));
    belfry_buf_fini(&buf);
}

/* ---- against protobuf-c */

static uint64_t random_number(struct belfry_rng *rng)
{
    uint64_t bits = belfry_rng_below(rng, 65);
    uint64_t value = belfry_rng_next(rng);
    return bits == 0 ? 0 : value >> (64 - bits);
}

static struct belfry_bytes random_bytes(const uint8_t *pool, struct belfry_rng *rng)
{
    size_t from = belfry_rng_below(rng, POOL);
    return belfry_bytes_of(pool + from, belfry_rng_below(rng, 4) == 0 ? 0 : belfry_rng_below(rng, POOL - from));
}

static struct belfry_wire_kv random_kv(const uint8_t *pool, struct belfry_rng *rng)
{
    return (struct belfry_wire_kv){.key = random_bytes(pool, rng),
                                   .value = random_bytes(pool, rng),
                                   .create_rev = (int64_t)random_number(rng),
                                   .mod_rev = (int64_t)random_number(rng),
                                   .version = (int64_t)random_number(rng),
                                   .lease = (int64_t)random_number(rng)};
}

static struct belfry_wire_event random_event(const uint8_t *pool, struct belfry_rng *rng)
{
    struct belfry_wire_event event = {.is_delete = belfry_rng_below(rng, 2) == 1,
                                      .has_prev = belfry_rng_below(rng, 2) == 1,
                                      .kv = random_kv(pool, rng)};
    if (event.has_prev)
        event.prev = random_kv(pool, rng);
    return event;
}

static struct belfry_wire_watch random_watch(struct belfry_rng *rng)
{
    static const char reason[] = "etcdserver: mvcc: required revision has been compacted";
    return (struct belfry_wire_watch){.header = {.cluster_id = random_number(rng),
                                                 .member_id = random_number(rng),
                                                 .revision = (int64_t)random_number(rng),
                                                 .raft_term = random_number(rng)},
                                      .watch_id = (int64_t)random_number(rng),
                                      .created = belfry_rng_below(rng, 2) == 1,
                                      .canceled = belfry_rng_below(rng, 2) == 1,
                                      .fragment = belfry_rng_below(rng, 2) == 1,
                                      .compact_revision = (int64_t)random_number(rng),
                                      .cancel_reason = belfry_bytes_of(reason, belfry_rng_below(rng, sizeof(reason)))};
}

static void fill_pool(uint8_t *pool, struct belfry_rng *rng)
{
    for (size_t i = 0; i < POOL; i++)
        pool[i] = (uint8_t)belfry_rng_next(rng);
}

static void same_kv(const struct belfry_wire_kv *ours, const Mvccpb__KeyValue *theirs)
{
    assert_true(belfry_bytes_equal(ours->key, belfry_bytes_of(theirs->key.data, theirs->key.len)));
    assert_true(belfry_bytes_equal(ours->value, belfry_bytes_of(theirs->value.data, theirs->value.len)));
    assert_true(ours->create_rev == theirs->create_revision);
    assert_true(ours->mod_rev == theirs->mod_revision);
    assert_true(ours->version == theirs->version);
    assert_true(ours->lease == theirs->lease);
}

static void same_head(const struct belfry_wire_watch *ours, const Etcdserverpb__WatchResponse *theirs)
{
    assert_non_null(theirs->header);
    assert_true(ours->header.cluster_id == theirs->header->cluster_id);
    assert_true(ours->header.member_id == theirs->header->member_id);
    assert_true(ours->header.revision == theirs->header->revision);
    assert_true(ours->header.raft_term == theirs->header->raft_term);
    assert_true(ours->watch_id == theirs->watch_id);
    assert_int_equal(ours->created, theirs->created);
    assert_int_equal(ours->canceled, theirs->canceled);
    assert_int_equal(ours->fragment, theirs->fragment);
    assert_true(ours->compact_revision == theirs->compact_revision);
    assert_int_equal(strlen(theirs->cancel_reason), ours->cancel_reason.len);
    assert_memory_equal(theirs->cancel_reason, ours->cancel_reason.data, ours->cancel_reason.len);
}

static void same_event(const struct belfry_wire_event *ours, const Mvccpb__Event *theirs)
{
    assert_int_equal(ours->is_delete, theirs->type == MVCCPB__EVENT__EVENT_TYPE__DELETE);
    assert_non_null(theirs->kv);
    same_kv(&ours->kv, theirs->kv);
    assert_int_equal(ours->has_prev, theirs->prev_kv != NULL);
    if (ours->has_prev)
        same_kv(&ours->prev, theirs->prev_kv);
}

/* protobuf-c reads it as meant, and writing what it read gives the very same bytes. */
static void protobuf_c_agrees(struct belfry_bytes message, const struct belfry_wire_watch *watch,
                              const struct belfry_wire_event *event)
{
    Etcdserverpb__WatchResponse *r =
        etcdserverpb__watch_response__unpack(NULL, message.len, (const uint8_t *)message.data);
    assert_non_null(r);
    same_head(watch, r);
    assert_int_equal(r->n_events, 1);
    same_event(event, r->events[0]);

    assert_int_equal(etcdserverpb__watch_response__get_packed_size(r), message.len);
    uint8_t *again = malloc(message.len);
    assert_non_null(again);
    etcdserverpb__watch_response__pack(r, again);
    assert_memory_equal(again, message.data, message.len);
    free(again);
    etcdserverpb__watch_response__free_unpacked(r, NULL);
}

static void random_responses_are_what_protobuf_c_writes(void **state)
{
    (void)state;
    print_message("seed %u\n", SEED);
    struct belfry_rng rng = {SEED};
    uint8_t pool[POOL];
    for (int i = 0; i < N_RANDOM; i++) {
        fill_pool(pool, &rng);
        struct belfry_wire_watch watch = random_watch(&rng);
        struct belfry_wire_event event = random_event(pool, &rng);
        struct belfry_bytes raw = written_event(&event), message = spliced(&watch, raw);
        protobuf_c_agrees(message, &watch, &event);

        struct belfry_wire_event back; /* and our own scanner reads it back */
        assert_int_equal(belfry_scan_event(raw, &back), BELFRY_OK);
        assert_true(belfry_bytes_equal(back.kv.key, event.kv.key) && belfry_bytes_equal(back.kv.value, event.kv.value));
        assert_int_equal(back.kv.raw.len, belfry_write_kv_size(&event.kv));
        release(raw);
        release(message);
    }
}

static void same_create(const struct belfry_wire_create *ours, const Etcdserverpb__WatchCreateRequest *theirs)
{
    assert_true(belfry_bytes_equal(ours->key, belfry_bytes_of(theirs->key.data, theirs->key.len)));
    assert_true(belfry_bytes_equal(ours->range_end, belfry_bytes_of(theirs->range_end.data, theirs->range_end.len)));
    assert_true(ours->start_revision == theirs->start_revision);
    assert_true(ours->watch_id == theirs->watch_id);
    assert_int_equal(ours->progress_notify, theirs->progress_notify);
    assert_int_equal(ours->prev_kv, theirs->prev_kv);
    assert_int_equal(ours->fragment, theirs->fragment);
    bool no_put = false, no_delete = false;
    for (size_t i = 0; i < theirs->n_filters; i++) {
        no_put |= theirs->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT;
        no_delete |= theirs->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE;
    }
    assert_int_equal(theirs->n_filters, ours->no_put + ours->no_delete);
    assert_true(no_put == ours->no_put && no_delete == ours->no_delete);
}

static void random_creates_are_read_by_protobuf_c(void **state)
{
    (void)state;
    struct belfry_rng rng = {SEED + 1};
    uint8_t pool[POOL];
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    for (int i = 0; i < N_RANDOM; i++) {
        fill_pool(pool, &rng);
        uint64_t flags = belfry_rng_next(&rng);
        struct belfry_wire_create create = {.key = random_bytes(pool, &rng),
                                            .range_end = random_bytes(pool, &rng),
                                            .start_revision = (int64_t)random_number(&rng),
                                            .watch_id = (int64_t)random_number(&rng),
                                            .progress_notify = flags & 1,
                                            .prev_kv = flags & 2,
                                            .fragment = flags & 4,
                                            .no_put = flags & 8,
                                            .no_delete = flags & 16};
        assert_int_equal(belfry_write_watch_create(&buf, &create), BELFRY_OK);
        struct belfry_bytes bytes = belfry_buf_bytes(&buf);
        Etcdserverpb__WatchRequest *r =
            etcdserverpb__watch_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
        assert_non_null(r);
        assert_int_equal(r->request_union_case, ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST);
        same_create(&create, r->create_request);
        etcdserverpb__watch_request__free_unpacked(r, NULL);
        belfry_buf_take(&buf, bytes.len);
    }
    belfry_buf_fini(&buf);
}

static void cancel_of_any_id_is_read_by_protobuf_c(void **state)
{
    (void)state;
    static const int64_t ids[] = {0, 1, -1, 127, 128, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        struct belfry_buf buf;
        belfry_buf_init(&buf);
        assert_int_equal(belfry_write_watch_cancel(&buf, ids[i]), BELFRY_OK);
        Etcdserverpb__WatchRequest *r = etcdserverpb__watch_request__unpack(NULL, belfry_buf_len(&buf), buf.data);
        assert_non_null(r);
        assert_int_equal(r->request_union_case, ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST);
        assert_true(r->cancel_request->watch_id == ids[i]);
        etcdserverpb__watch_request__free_unpacked(r, NULL);
        belfry_buf_fini(&buf);
    }
}

static void ranges_of_a_transaction_are_read_by_protobuf_c(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_write_txn_range(&buf, belfry_bytes_str("a"), belfry_bytes_of("", 1), INT64_MAX), BELFRY_OK);
    assert_int_equal(belfry_write_txn_range(&buf, belfry_bytes_str("k"), (struct belfry_bytes){0}, 0), BELFRY_OK);
    Etcdserverpb__TxnRequest *txn = etcdserverpb__txn_request__unpack(NULL, belfry_buf_len(&buf), buf.data);
    assert_non_null(txn);
    assert_true(txn->n_success == 2 && txn->n_compare == 0 && txn->n_failure == 0);
    const Etcdserverpb__RangeRequest *range = txn->success[0]->request_range;
    assert_true(range->key.len == 1 && range->key.data[0] == 'a' && range->range_end.len == 1);
    assert_true(range->range_end.data[0] == '\0' && range->revision == INT64_MAX && !range->serializable);
    range = txn->success[1]->request_range;
    assert_true(range->key.len == 1 && range->key.data[0] == 'k' && range->range_end.len == 0 && range->revision == 0);
    etcdserverpb__txn_request__free_unpacked(txn, NULL);
    belfry_buf_fini(&buf);
}

static enum belfry_err write_requests(void)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    struct belfry_wire_create create = {.key = belfry_bytes_str("/registry/pods/"), .progress_notify = true};
    enum belfry_err err = BELFRY_OK;
    for (int64_t id = 1; id <= 100 && err == BELFRY_OK; id++) {
        size_t before = belfry_buf_len(&buf);
        create.watch_id = id;
        err = belfry_write_watch_create(&buf, &create);
        if (err == BELFRY_OK)
            err = belfry_write_watch_cancel(&buf, id);
        else
            assert_int_equal(belfry_buf_len(&buf), before);
    }
    if (err == BELFRY_OK)
        err = belfry_write_watch_progress(&buf);
    if (err == BELFRY_OK)
        err = belfry_write_txn_range(&buf, create.key, create.key, 1);
    belfry_buf_fini(&buf);
    return err;
}

static void refused_memory_leaves_the_buffer_as_it_was(void **state)
{
    (void)state;
    assert_in_range(refuse_sweep(write_requests), 2, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(created_is_written_as_captured),
        cmocka_unit_test(event_is_spliced_as_captured),
        cmocka_unit_test(header_of_zeroes_is_still_written),
        cmocka_unit_test(event_without_anything_still_has_its_kv),
        cmocka_unit_test(event_field_is_a_tag_and_a_length),
        cmocka_unit_test(requests_are_written_as_captured),
        cmocka_unit_test(create_with_everything_is_written),
        cmocka_unit_test(random_responses_are_what_protobuf_c_writes),
        cmocka_unit_test(random_creates_are_read_by_protobuf_c),
        cmocka_unit_test(cancel_of_any_id_is_read_by_protobuf_c),
        cmocka_unit_test(ranges_of_a_transaction_are_read_by_protobuf_c),
        cmocka_unit_test(refused_memory_leaves_the_buffer_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
