/* src/core/response_test.c */
#include "core/response.h"

#include "base/rng.h"
#include "core/response_judge_test.h"

#define SEED     20240713u
#define N_RANDOM 3000

#define BYTES(...) belfry_bytes_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* clang-format off */
#define CLUSTER 0x08, 0xea, 0x91, 0x89, 0x89, 0x9c, 0xb8, 0xfa, 0xfa, 0x1c
#define MEMBER  0x10, 0x92, 0xd4, 0x94, 0xd8, 0x8a, 0xc4, 0xdc, 0xfc, 0x61
/* clang-format on */

static void assert_same(struct belfry_bytes ours, struct belfry_bytes expected)
{
    assert_int_equal(ours.len, expected.len);
    assert_memory_equal(ours.data, expected.data, expected.len);
}

/* Writes into a block of exactly the size promised, so that AddressSanitizer sees a byte too many. */
static void check_writes(const struct response_opts *opts, const struct response_pick *pick,
                         struct belfry_bytes expected)
{
    bool cut = true;
    size_t size = response_size(&judge_identity, opts, pick, &cut);
    assert_int_equal(size, expected.len);
    assert_false(cut);
    if (size == 0)
        return;
    uint8_t *to = malloc(size);
    assert_non_null(to);
    assert_ptr_equal(response_write(&judge_identity, opts, pick, size, to), to + size);
    assert_same(belfry_bytes_of(to, size), expected);
    free(to);
}

static struct batch *captured_batch(void)
{
    struct belfry_wire_event fields = {.kv = {.key = belfry_bytes_str("foo1"),
                                              .value = belfry_bytes_str("bar"),
                                              .create_rev = 2557,
                                              .mod_rev = 2557,
                                              .version = 1}};
    uint8_t raw[64];
    struct belfry_wire_event event;
    size_t len = belfry_write_event_size(&fields);
    belfry_write_event(&fields, raw);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(raw, len), &event), BELFRY_OK);
    struct batch *batch;
    struct belfry_bytes none = {0};
    assert_int_equal(batch_create(2557, BATCH_EVENTS, 1, batch_event_bytes(&event, none), &batch), BELFRY_OK);
    batch_add(batch, &event, none);
    return batch;
}

static void event_is_written_as_captured(void **state)
{
    (void)state;
    struct batch *batch = captured_batch();
    struct response_opts opts = {.header_rev = 2557};
    check_writes(&opts, &(struct response_pick){.batch = batch},
                 BYTES(0, 0, 0, 0, 0x32, 0x0a, 0x19, CLUSTER, MEMBER, 0x18, 0xfd, 0x13, 0x20, 0x02, 0x5a, 0x15, 0x12,
                       0x13, 0x0a, 0x04, 'f', 'o', 'o', '1', 0x10, 0xfd, 0x13, 0x18, 0xfd, 0x13, 0x20, 0x01, 0x2a, 0x03,
                       'b', 'a', 'r'));
    batch_unref(batch);
}

static void negative_watch_id_takes_ten_bytes(void **state)
{
    (void)state;
    struct batch *batch = captured_batch();
    struct response_opts opts = {.watch_id = -7, .header_rev = 2557};
    check_writes(&opts, &(struct response_pick){.batch = batch},
                 BYTES(0, 0, 0, 0, 0x3d, 0x0a, 0x19, CLUSTER, MEMBER, 0x18, 0xfd, 0x13, 0x20, 0x02, 0x10, 0xf9, 0xff,
                       0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x5a, 0x15, 0x12, 0x13, 0x0a, 0x04, 'f', 'o',
                       'o', '1', 0x10, 0xfd, 0x13, 0x18, 0xfd, 0x13, 0x20, 0x01, 0x2a, 0x03, 'b', 'a', 'r'));
    batch_unref(batch);
}

static void check_control(const struct belfry_wire_watch *watch, struct belfry_bytes expected)
{
    size_t size = response_control_size(watch);
    uint8_t *to = malloc(size);
    assert_non_null(to);
    assert_ptr_equal(response_control(watch, to), to + size);
    assert_same(belfry_bytes_of(to, size), expected);
    free(to);
}

static void created_is_written_as_captured(void **state)
{
    (void)state;
    struct belfry_wire_watch watch = {.header = {.cluster_id = judge_identity.cluster_id,
                                                 .member_id = judge_identity.member_id,
                                                 .raft_term = 2,
                                                 .revision = 2556},
                                      .created = true};
    check_control(&watch, BYTES(0, 0, 0, 0, 0x1d, 0x0a, 0x19, CLUSTER, MEMBER, 0x18, 0xfc, 0x13, 0x20, 0x02, 0x18, 1));
}

static void refusal_has_everything_that_a_control_response_can_have(void **state)
{
    (void)state;
    struct belfry_wire_watch watch = {.watch_id = -1,
                                      .created = true,
                                      .canceled = true,
                                      .compact_revision = 300,
                                      .cancel_reason = belfry_bytes_str("no")};
    check_control(&watch, BYTES(0, 0, 0, 0, 24, 0x0a, 0x00, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                0x01, 0x18, 1, 0x20, 1, 0x28, 0xac, 0x02, 0x32, 2, 'n', 'o'));
}

static const struct judge_event mixed[] = {
    {.key = "a", .value_len = 3},
    {.key = "b", .is_delete = true, .prev_len = 10},
    {.key = "c", .value_len = 200, .prev_len = 200},
    {.key = "d", .is_delete = true},
};
#define N_MIXED ((uint32_t)(sizeof(mixed) / sizeof(*mixed)))

static void every_combination_of_flags_is_what_protobuf_c_writes(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    for (uint8_t flags = 0; flags <= (WATCHER_PREV_KV | WATCHER_NO_PUT | WATCHER_NO_DELETE); flags++) {
        struct response_opts opts = {.watch_id = 300, .header_rev = 80, .flags = flags};
        struct belfry_buf expected;
        belfry_buf_init(&expected);
        judge_response(&expected, &opts, &judge_all, batch);
        check_writes(&opts, &(struct response_pick){.batch = batch}, belfry_buf_bytes(&expected));

        struct response_header header;
        response_header_make(&judge_identity, 80, &header);
        opts.header = &header;
        check_writes(&opts, &(struct response_pick){.batch = batch}, belfry_buf_bytes(&expected));
        belfry_buf_fini(&expected);
    }
    batch_unref(batch);
}

static void both_filters_leave_nothing_to_send(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    struct response_opts opts = {.header_rev = 77, .flags = WATCHER_NO_PUT | WATCHER_NO_DELETE};
    bool cut = true;
    assert_int_equal(response_size(&judge_identity, &opts, &(struct response_pick){.batch = batch}, &cut), 0);
    assert_false(cut);
    batch_unref(batch);
}

static void pick_names_the_events_that_are_sent(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    struct batch *picked = judge_batch(77, BATCH_EVENTS, (struct judge_event[]){mixed[0], mixed[2]}, 2);
    struct response_opts opts = {.watch_id = 1, .header_rev = 77, .flags = WATCHER_PREV_KV | WATCHER_NO_DELETE};
    struct belfry_buf expected;
    belfry_buf_init(&expected);
    judge_response(&expected, &opts, &judge_all, picked);
    struct response_pick pick = {.batch = batch, .events = (const uint32_t[]){0, 1, 2}, .n = 3};
    check_writes(&opts, &pick, belfry_buf_bytes(&expected));

    pick = (struct response_pick){.batch = batch, .events = (const uint32_t[]){3}, .n = 1};
    check_writes(&opts, &pick, (struct belfry_bytes){0});
    belfry_buf_fini(&expected);
    batch_unref(picked);
    batch_unref(batch);
}

static void response_that_grows_by_a_revision_is_one_message(void **state)
{
    (void)state;
    struct batch *first = judge_batch(77, BATCH_EVENTS, mixed, 2), *second = judge_batch(78, BATCH_EVENTS, mixed, 4);
    struct response_opts opts = {.watch_id = 5, .header_rev = 99, .flags = WATCHER_NO_DELETE};
    bool cut;
    struct response_pick pick = {.batch = first}, more = {.batch = second};
    size_t size = response_size(&judge_identity, &opts, &pick, &cut);
    size_t grown = size + response_more_size(&opts, &more);
    uint8_t *to = malloc(grown);
    assert_non_null(to);
    uint8_t *end = response_write(&judge_identity, &opts, &pick, size, to);
    assert_ptr_equal(response_more(&opts, &more, to, end), to + grown);

    assert_int_equal((size_t)to[3] << 8 | to[4], grown - RESPONSE_PREFIX);
    Etcdserverpb__WatchResponse *r = etcdserverpb__watch_response__unpack(NULL, grown - RESPONSE_PREFIX, to + 5);
    assert_non_null(r);
    assert_int_equal(r->n_events, 3);
    assert_int_equal(r->header->revision, 99);
    assert_int_equal(r->events[0]->kv->mod_revision, 77);
    assert_int_equal(r->events[2]->kv->mod_revision, 78);
    etcdserverpb__watch_response__free_unpacked(r, NULL);
    free(to);
    batch_unref(first);
    batch_unref(second);
}

static bool is_cut(const struct response_opts *opts, const struct batch *batch)
{
    bool cut;
    size_t size = response_size(&judge_identity, opts, &(struct response_pick){.batch = batch}, &cut);
    assert_true(size > 0);
    return cut;
}

static void only_who_asked_and_has_two_events_of_enough_bytes_is_cut(void **state)
{
    (void)state;
    struct batch *two = judge_batch(77, BATCH_EVENTS, mixed, 2), *one = judge_batch(77, BATCH_EVENTS, mixed, 1);
    struct response_opts opts = {.header_rev = 77, .flags = WATCHER_FRAGMENT, .fragment_bytes = 1};
    assert_true(is_cut(&opts, two));
    assert_false(is_cut(&opts, one));

    bool cut;
    size_t size = response_size(&judge_identity, &opts, &(struct response_pick){.batch = two}, &cut);
    opts.fragment_bytes = size - RESPONSE_PREFIX; /* the limit is reached, not passed */
    assert_true(is_cut(&opts, two));
    opts.fragment_bytes++;
    assert_false(is_cut(&opts, two));

    opts.fragment_bytes = 0;
    assert_false(is_cut(&opts, two));
    opts = (struct response_opts){.header_rev = 77, .fragment_bytes = 1};
    assert_false(is_cut(&opts, two));
    opts.flags = WATCHER_FRAGMENT | WATCHER_NO_DELETE; /* one of the two is filtered */
    assert_false(is_cut(&opts, two));
    batch_unref(one);
    batch_unref(two);
}

static uint64_t random_number(struct belfry_rng *rng)
{
    uint64_t bits = belfry_rng_below(rng, 65);
    uint64_t value = belfry_rng_next(rng);
    return bits == 0 ? 0 : value >> (64 - bits);
}

static void random_responses_are_what_protobuf_c_writes(void **state)
{
    (void)state;
    print_message("seed %u\n", SEED);
    struct belfry_rng rng = {SEED};
    for (int round = 0; round < N_RANDOM; round++) {
        struct judge_event events[6];
        uint32_t n = 1 + (uint32_t)belfry_rng_below(&rng, 6);
        for (uint32_t i = 0; i < n; i++)
            events[i] = (struct judge_event){.key = "key",
                                             .value_len = belfry_rng_below(&rng, 300),
                                             .is_delete = belfry_rng_below(&rng, 2) == 0,
                                             .prev_len = belfry_rng_below(&rng, 2) * belfry_rng_below(&rng, 20000)};
        struct batch *batch = judge_batch((int64_t)belfry_rng_below(&rng, 1u << 30), BATCH_EVENTS, events, n);
        struct response_opts opts = {.watch_id = (int64_t)random_number(&rng),
                                     .header_rev = (int64_t)random_number(&rng),
                                     .flags = (uint8_t)belfry_rng_below(&rng, 8)};
        struct belfry_buf expected;
        belfry_buf_init(&expected);
        judge_response(&expected, &opts, &judge_all, batch);
        check_writes(&opts, &(struct response_pick){.batch = batch}, belfry_buf_bytes(&expected));
        belfry_buf_fini(&expected);
        batch_unref(batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_is_written_as_captured),
        cmocka_unit_test(negative_watch_id_takes_ten_bytes),
        cmocka_unit_test(created_is_written_as_captured),
        cmocka_unit_test(refusal_has_everything_that_a_control_response_can_have),
        cmocka_unit_test(every_combination_of_flags_is_what_protobuf_c_writes),
        cmocka_unit_test(both_filters_leave_nothing_to_send),
        cmocka_unit_test(pick_names_the_events_that_are_sent),
        cmocka_unit_test(response_that_grows_by_a_revision_is_one_message),
        cmocka_unit_test(only_who_asked_and_has_two_events_of_enough_bytes_is_cut),
        cmocka_unit_test(random_responses_are_what_protobuf_c_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
