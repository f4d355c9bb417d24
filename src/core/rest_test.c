/* src/core/rest_test.c */
#include "core/rest.h"

#include "base/rng.h"
#include "core/response_judge_test.h"
#include "support/refuse.h"

#define SEED     20240714u
#define N_RANDOM 2000
#define MIB      ((size_t)1024 * 1024)

static const struct judge_event mixed[] = {
    {.key = "a", .value_len = 3},
    {.key = "b/1", .is_delete = true, .prev_len = 10},
    {.key = "b/2", .value_len = 200, .prev_len = 200},
    {.key = "c", .is_delete = true},
    {.key = "b/3", .value_len = 40},
};
#define N_MIXED ((uint32_t)(sizeof(mixed) / sizeof(*mixed)))

/* ---- running a rest to its end ---- */

/* The revision that slices are cut from: event `i` of the whole is event `i` of the revision. */
struct source {
    const struct judge_event *events;
    uint32_t n, slice_events;
    int64_t rev;
    uint32_t overlap; /* a slice begins so many events before what was asked for */
    uint32_t n_slices;
};

static void give_slice(struct rest *rest, struct source *source, uint32_t sub)
{
    uint32_t from = sub > source->overlap ? sub - source->overlap : 0;
    uint32_t n = sub - from + source->slice_events;
    if (n > source->n - from)
        n = source->n - from;
    struct batch *slice = judge_batch(source->rev, BATCH_SLICE, source->events + from, n);
    batch_set_slice(slice, from, from + n < source->n);
    rest_slice(rest, slice);
    batch_unref(slice);
    source->n_slices++;
}

/* Fills by `room` bytes at a time until it is done, into a block of exactly that size. */
static void run(struct rest *rest, struct source *source, size_t room, struct belfry_buf *out)
{
    uint8_t *part = malloc(room);
    assert_non_null(part);
    while (!rest_done(rest)) {
        int64_t rev;
        uint32_t sub;
        while (rest_wants_slice(rest, &rev, &sub)) {
            assert_non_null(source);
            assert_int_equal(rev, source->rev);
            give_slice(rest, source, sub);
        }
        size_t n = rest_fill(rest, part, room);
        assert_true(n == room || rest_done(rest) || rest_wants_slice(rest, &rev, &sub));
        assert_int_equal(belfry_buf_append(out, part, n), BELFRY_OK);
    }
    free(part);
}

static void assert_same(const struct belfry_buf *ours, struct belfry_bytes expected)
{
    assert_int_equal(belfry_buf_len(ours), expected.len);
    if (expected.len > 0)
        assert_memory_equal(belfry_buf_bytes(ours).data, expected.data, expected.len);
}

static void check_batch(const struct response_opts *opts, const struct range *range, const struct batch *batch,
                        size_t room, struct belfry_bytes expected)
{
    struct rest *rest;
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(rest_of_batch(&judge_identity, opts, range, batch, &rest), BELFRY_OK);
    run(rest, NULL, room, &out);
    assert_same(&out, expected);
    rest_destroy(rest);
    belfry_buf_fini(&out);
}

static void check_extent(const struct response_opts *opts, const struct range *range, struct source *source,
                         size_t room, struct belfry_bytes expected)
{
    struct rest *rest;
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(rest_of_extent(&judge_identity, opts, range, source->rev, &rest), BELFRY_OK);
    run(rest, source, room, &out);
    assert_same(&out, expected);
    rest_destroy(rest);
    belfry_buf_fini(&out);
}

/* ---- bytes ---- */

static void bytes_go_out_in_parts_and_were_begun(void **state)
{
    (void)state;
    char text[] = "the rest of a message";
    for (size_t room = 1; room <= sizeof(text); room++) {
        struct rest *rest;
        struct belfry_buf out;
        belfry_buf_init(&out);
        char lent[sizeof(text)];
        memcpy(lent, text, sizeof(text));
        assert_int_equal(rest_of_bytes(belfry_bytes_str(lent), &rest), BELFRY_OK);
        memset(lent, 0, sizeof(lent));
        assert_true(rest_begun(rest));
        assert_true(rest_bytes(rest) >= strlen(text));
        run(rest, NULL, room, &out);
        assert_same(&out, belfry_bytes_str(text));
        assert_int_equal(rest_fill(rest, (uint8_t *)lent, sizeof(lent)), 0);
        rest_destroy(rest);
        belfry_buf_fini(&out);
    }
    rest_destroy(NULL);
}

/* ---- lines ---- */

static void line_goes_out_in_parts_and_is_held_by_reference(void **state)
{
    (void)state;
    struct belfry_bytes text = belfry_bytes_str("{\"type\":\"ADDED\"}\n");
    for (size_t room = 1; room <= text.len + 1; room++) {
        struct belfry_blob *line;
        struct rest *rest;
        struct belfry_buf out;
        int64_t rev;
        uint32_t sub;
        belfry_buf_init(&out);
        assert_int_equal(belfry_blob_copy(text, &line), BELFRY_OK);
        size_t held = refuse_held();
        assert_int_equal(rest_of_line(belfry_blob_ref(line), &rest), BELFRY_OK);
        assert_int_equal(refuse_held(), held + 1); /* the rest itself, and no copy */
        assert_false(rest_begun(rest));
        assert_false(rest_done(rest));
        assert_false(rest_wants_slice(rest, &rev, &sub));
        assert_true(rest_bytes(rest) > text.len);
        run(rest, NULL, room, &out);
        assert_true(rest_begun(rest));
        assert_same(&out, text);
        rest_destroy(rest);
        belfry_blob_unref(line);
        belfry_buf_fini(&out);
    }
}

static enum belfry_err half_a_line(void)
{
    struct belfry_blob *line;
    struct rest *rest;
    uint8_t byte;
    enum belfry_err err = belfry_blob_copy(belfry_bytes_str("line\n"), &line);
    if (err == BELFRY_OK)
        err = rest_of_line(line, &rest);
    if (err != BELFRY_OK)
        return err;
    assert_int_equal(rest_fill(rest, &byte, 1), 1);
    rest_destroy(rest);
    return BELFRY_OK;
}

static void line_is_let_go_when_its_rest_cannot_be_kept_or_ends_early(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(half_a_line), 2);
}

/* ---- batches ---- */

static void batch_is_the_same_in_parts_of_every_size(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    struct response_opts opts = {.watch_id = 300, .header_rev = 77, .flags = WATCHER_PREV_KV};
    struct belfry_buf expected;
    belfry_buf_init(&expected);
    judge_response(&expected, &opts, &judge_all, batch);
    for (size_t room = 1; room <= belfry_buf_len(&expected) + 1; room++)
        check_batch(&opts, &judge_all, batch, room, belfry_buf_bytes(&expected));
    belfry_buf_fini(&expected);
    batch_unref(batch);
}

static void range_and_filters_choose_the_events(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    const struct range ranges[] = {
        {.kind = RANGE_KEY, .key = belfry_bytes_str("a")},
        {.kind = RANGE_PREFIX, .key = belfry_bytes_str("b/")},
        {.kind = RANGE_SPAN, .key = belfry_bytes_str("b"), .end = belfry_bytes_str("b/3")},
        {.kind = RANGE_SPAN, .key = belfry_bytes_str("b/2")},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
        for (uint8_t flags = 0; flags < (WATCHER_NO_PUT | WATCHER_NO_DELETE); flags++) {
            struct response_opts opts = {.header_rev = 77, .flags = flags};
            struct belfry_buf expected;
            belfry_buf_init(&expected);
            judge_response(&expected, &opts, &ranges[i], batch);
            check_batch(&opts, &ranges[i], batch, 7, belfry_buf_bytes(&expected));
            belfry_buf_fini(&expected);
        }
    }
    batch_unref(batch);
}

static void range_is_a_copy_and_the_batch_is_held(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    struct response_header header;
    response_header_make(&judge_identity, 77, &header);
    struct response_opts opts = {.header_rev = 77, .header = &header};
    char key[] = "b", end[] = "b/3";
    struct range range = {.kind = RANGE_SPAN, .key = belfry_bytes_str(key), .end = belfry_bytes_str(end)};
    struct belfry_buf expected, out;
    belfry_buf_init(&expected);
    belfry_buf_init(&out);
    judge_response(&expected, &opts, &range, batch);

    struct rest *rest;
    assert_int_equal(rest_of_batch(&judge_identity, &opts, &range, batch, &rest), BELFRY_OK);
    size_t pinned = batch->bytes;
    batch_unref(batch);
    memset(key, 'x', sizeof(key) - 1);
    memset(end, 'x', sizeof(end) - 1);
    memset(&header, 0, sizeof(header));
    assert_false(rest_begun(rest));
    assert_true(rest_bytes(rest) > pinned);
    uint8_t byte;
    assert_int_equal(rest_fill(rest, &byte, 0), 0);
    assert_false(rest_begun(rest));
    assert_int_equal(rest_fill(rest, &byte, 1), 1);
    assert_true(rest_begun(rest));
    assert_int_equal(belfry_buf_append(&out, &byte, 1), BELFRY_OK);
    run(rest, NULL, 100, &out);
    assert_same(&out, belfry_buf_bytes(&expected));
    assert_true(rest_bytes(rest) < pinned + 1000); /* let go at the end */
    rest_destroy(rest);
    belfry_buf_fini(&expected);
    belfry_buf_fini(&out);
}

static void rest_left_in_the_middle_lets_everything_go(void **state)
{
    (void)state;
    size_t held = refuse_held();
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    struct response_opts opts = {.header_rev = 77};
    struct rest *rest;
    uint8_t part[50];
    assert_int_equal(rest_of_batch(&judge_identity, &opts, &judge_all, batch, &rest), BELFRY_OK);
    batch_unref(batch);
    assert_int_equal(rest_fill(rest, part, sizeof(part)), sizeof(part));
    rest_destroy(rest);
    assert_int_equal(refuse_held(), held);
}

/* ---- fragments ---- */

/* Every limit from nothing to more than the whole: so each place of a cut is met, the exact fit too. */
static void pieces_are_cut_where_etcd_cuts_them(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    size_t seen[N_MIXED + 1] = {0};
    for (size_t limit = 1; limit < 600; limit++) {
        struct response_opts opts = {
            .watch_id = 9, .header_rev = 77, .flags = WATCHER_FRAGMENT | WATCHER_PREV_KV, .fragment_bytes = limit};
        struct belfry_buf expected;
        belfry_buf_init(&expected);
        seen[judge_response(&expected, &opts, &judge_all, batch)]++;
        check_batch(&opts, &judge_all, batch, 11, belfry_buf_bytes(&expected));
        struct source source = {.events = mixed, .n = N_MIXED, .slice_events = 2, .rev = 77};
        check_extent(&opts, &judge_all, &source, 64, belfry_buf_bytes(&expected));
        belfry_buf_fini(&expected);
    }
    for (size_t n = 1; n <= N_MIXED; n++)
        assert_true(seen[n] > 0);
    batch_unref(batch);
}

/* Two bytes decide: a whole response does without `fragment`, which its pieces would have. */
static void response_just_below_the_limit_is_whole(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    struct response_opts opts = {.header_rev = 77, .flags = WATCHER_FRAGMENT};
    bool cut;
    size_t message = response_size(&judge_identity, &opts, &(struct response_pick){.batch = batch}, &cut) - 5;
    for (size_t over = 0; over <= 3; over++) {
        opts.fragment_bytes = message + over;
        struct belfry_buf expected;
        belfry_buf_init(&expected);
        assert_int_equal(judge_response(&expected, &opts, &judge_all, batch), over == 0 ? 2 : 1);
        check_batch(&opts, &judge_all, batch, 1, belfry_buf_bytes(&expected));
        belfry_buf_fini(&expected);
    }
    batch_unref(batch);
}

/* ---- extents ---- */

static void extent_is_what_the_batch_of_the_same_revision_is(void **state)
{
    (void)state;
    struct batch *batch = judge_batch(77, BATCH_EVENTS, mixed, N_MIXED);
    struct response_opts opts = {.watch_id = 1, .header_rev = 77, .flags = WATCHER_NO_DELETE};
    struct belfry_buf expected;
    belfry_buf_init(&expected);
    judge_response(&expected, &opts, &judge_all, batch);
    for (uint32_t slice_events = 1; slice_events <= N_MIXED; slice_events++) {
        for (size_t room = 1; room <= belfry_buf_len(&expected) + 1; room++) {
            struct source source = {.events = mixed, .n = N_MIXED, .slice_events = slice_events, .rev = 77};
            check_extent(&opts, &judge_all, &source, room, belfry_buf_bytes(&expected));
            uint32_t pass = (N_MIXED + slice_events - 1) / slice_events;
            assert_int_equal(source.n_slices, slice_events >= N_MIXED ? 1 : 2 * pass);
        }
    }
    belfry_buf_fini(&expected);
    batch_unref(batch);
}

static void slices_are_wanted_from_the_start_for_each_pass(void **state)
{
    (void)state;
    struct response_opts opts = {.header_rev = 77};
    struct source source = {.events = mixed, .n = N_MIXED, .slice_events = 3, .rev = 77};
    struct rest *rest;
    int64_t rev = 0;
    uint32_t sub = 99;
    uint8_t part[2000];
    assert_int_equal(rest_of_extent(&judge_identity, &opts, &judge_all, 77, &rest), BELFRY_OK);
    for (int pass = 0; pass < 2; pass++) {
        assert_true(rest_wants_slice(rest, &rev, &sub));
        assert_int_equal(rev, 77);
        assert_int_equal(sub, 0);
        if (pass == 0)
            assert_int_equal(rest_fill(rest, part, sizeof(part)), 0); /* no length yet, so nothing to send */
        give_slice(rest, &source, 0);
        assert_true(pass == 0 || rest_fill(rest, part, sizeof(part)) > 0);
        assert_true(rest_wants_slice(rest, &rev, &sub));
        assert_int_equal(sub, 3);
        give_slice(rest, &source, 3);
    }
    assert_false(rest_wants_slice(rest, &rev, &sub));
    assert_true(rest_fill(rest, part, sizeof(part)) > 0);
    assert_true(rest_done(rest));
    assert_false(rest_wants_slice(rest, &rev, &sub));
    rest_destroy(rest);
}

/* Measured as one source has them, written as another has them: with a previous value more, or less. */
static void check_other_rows(const struct judge_event *measured, const struct judge_event *written)
{
    struct response_opts opts = {.header_rev = 77, .flags = WATCHER_PREV_KV};
    struct source first = {.events = measured, .n = 3, .slice_events = 2, .rev = 77}, second = first;
    struct rest *rest;
    uint8_t part[2000];
    second.events = written;
    assert_int_equal(rest_of_extent(&judge_identity, &opts, &judge_all, 77, &rest), BELFRY_OK);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t sub = 0; sub < 3; sub += 2) {
            give_slice(rest, pass == 0 ? &first : &second, sub);
            rest_fill(rest, part, sizeof(part));
            assert_false(rest_done(rest));
            if (rest_broken(rest))
                break;
        }
    }
    assert_true(rest_broken(rest));
    assert_true(rest_begun(rest));
    rest_destroy(rest);
}

static void rows_other_than_those_measured_break_it(void **state)
{
    (void)state;
    static const struct judge_event with[] = {
        {.key = "a", .value_len = 3}, {.key = "b", .is_delete = true, .prev_len = 10}, {.key = "c", .value_len = 4}};
    static const struct judge_event without[] = {
        {.key = "a", .value_len = 3}, {.key = "b", .is_delete = true}, {.key = "c", .value_len = 4}};
    check_other_rows(with, without);
    check_other_rows(without, with);
}

static void extent_without_a_passing_event_ends_without_bytes(void **state)
{
    (void)state;
    struct range range = {.kind = RANGE_KEY, .key = belfry_bytes_str("nobody")};
    struct response_opts opts = {.header_rev = 77};
    struct source source = {.events = mixed, .n = N_MIXED, .slice_events = 2, .rev = 77};
    check_extent(&opts, &range, &source, 10, (struct belfry_bytes){0});
    assert_int_equal(source.n_slices, 3);
}

static void message_over_four_gib_is_cut_for_everybody(void **state)
{
    (void)state;
    static char value[MIB];
    static uint8_t raw[MIB + 100];
    struct belfry_wire_event fields = {.kv = {.key = belfry_bytes_str("k"), .value = belfry_bytes_of(value, MIB)}};
    struct belfry_wire_event event;
    size_t len = belfry_write_event_size(&fields);
    belfry_write_event(&fields, raw);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(raw, len), &event), BELFRY_OK);
    struct batch *slice;
    struct belfry_bytes none = {0};
    assert_int_equal(batch_create(77, BATCH_SLICE, 1, batch_event_bytes(&event, none), &slice), BELFRY_OK);
    batch_add(slice, &event, none);

    struct response_opts opts = {.header_rev = 77, .fragment_bytes = 2 * MIB}; /* fragments were not asked for */
    struct rest *rest;
    int64_t rev;
    uint32_t sub = 0, n = 0;
    assert_int_equal(rest_of_extent(&judge_identity, &opts, &judge_all, 77, &rest), BELFRY_OK);
    do {
        assert_in_range(n, 0, 4096);
        batch_set_slice(slice, sub, true);
        rest_slice(rest, slice);
        n++;
    } while (rest_wants_slice(rest, &rev, &sub) && sub > 0);

    uint8_t head[100];
    size_t filled = rest_fill(rest, head, sizeof(head));
    uint32_t message = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
    struct belfry_wire_watch expected = response_head(&judge_identity, &opts, true);
    size_t head_bytes = RESPONSE_PREFIX + belfry_write_watch_head_size(&expected);
    assert_int_equal(filled, head_bytes);     /* and then slices are wanted */
    assert_int_equal(head[filled - 2], 0x38); /* fragment */
    assert_true((uint64_t)message + 2 * MIB > UINT32_MAX);
    assert_int_equal(sub, 0);
    rest_destroy(rest);
    batch_unref(slice);
}

/* ---- everything at once ---- */

static void random_rests_are_what_etcd_would_send(void **state)
{
    (void)state;
    print_message("seed %u\n", SEED);
    static const char *const keys[] = {"a", "b", "b/1", "b/2", "c"};
    const struct range ranges[] = {judge_all,
                                   {.kind = RANGE_PREFIX, .key = belfry_bytes_str("b")},
                                   {.kind = RANGE_KEY, .key = belfry_bytes_str("b/1")}};
    struct belfry_rng rng = {SEED};
    for (int round = 0; round < N_RANDOM; round++) {
        struct judge_event events[JUDGE_EVENTS_MAX];
        uint32_t n = 1 + (uint32_t)belfry_rng_below(&rng, 20);
        for (uint32_t i = 0; i < n; i++)
            events[i] = (struct judge_event){.key = keys[belfry_rng_below(&rng, 5)],
                                             .value_len = belfry_rng_below(&rng, 200),
                                             .is_delete = belfry_rng_below(&rng, 2) == 0,
                                             .prev_len = belfry_rng_below(&rng, 2) * belfry_rng_below(&rng, 300)};
        struct response_opts opts = {.watch_id = (int64_t)belfry_rng_below(&rng, 1000) - 1,
                                     .header_rev = 77,
                                     .flags = (uint8_t)belfry_rng_below(&rng, 32),
                                     .fragment_bytes = belfry_rng_below(&rng, 1500)};
        const struct range *range = &ranges[belfry_rng_below(&rng, 3)];
        struct batch *batch = judge_batch(77, BATCH_EVENTS, events, n);
        struct belfry_buf expected;
        belfry_buf_init(&expected);
        judge_response(&expected, &opts, range, batch);
        check_batch(&opts, range, batch, 1 + belfry_rng_below(&rng, 300), belfry_buf_bytes(&expected));
        struct source source = {.events = events,
                                .n = n,
                                .slice_events = 1 + (uint32_t)belfry_rng_below(&rng, 8),
                                .rev = 77,
                                .overlap = (uint32_t)belfry_rng_below(&rng, 3)};
        check_extent(&opts, range, &source, 1 + belfry_rng_below(&rng, 300), belfry_buf_bytes(&expected));
        belfry_buf_fini(&expected);
        batch_unref(batch);
    }
}

/* "key", put */
static const uint8_t stored[] = {0x12, 0x05, 0x0a, 0x03, 'k', 'e', 'y'};

static enum belfry_err all_kinds(void)
{
    struct rest *rests[3] = {NULL};
    struct batch *batch = NULL;
    struct response_opts opts = {.header_rev = 77};
    uint8_t part[64];
    enum belfry_err err = rest_of_bytes(belfry_bytes_str("bytes"), &rests[0]);
    if (err == BELFRY_OK)
        err = batch_create(77, BATCH_EVENTS, 1, sizeof(stored), &batch);
    if (err == BELFRY_OK) {
        batch_add_stored(batch, belfry_bytes_of(stored, sizeof(stored)), (struct belfry_bytes){0},
                         belfry_bytes_of(stored + 4, 3), false);
        err = rest_of_batch(&judge_identity, &opts, &judge_all, batch, &rests[1]);
    }
    if (err == BELFRY_OK) {
        assert_int_equal(rest_fill(rests[1], part, 10), 10);
        err = rest_of_extent(&judge_identity, &opts, &judge_all, 77, &rests[2]);
    }
    if (err == BELFRY_OK) /* nothing is allocated behind creation */
        rest_slice(rests[2], batch);
    for (size_t i = 0; i < 3; i++)
        rest_destroy(rests[i]);
    batch_unref(batch);
    return err;
}

static void refused_memory_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(all_kinds), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_out_in_parts_and_were_begun),
        cmocka_unit_test(line_goes_out_in_parts_and_is_held_by_reference),
        cmocka_unit_test(line_is_let_go_when_its_rest_cannot_be_kept_or_ends_early),
        cmocka_unit_test(batch_is_the_same_in_parts_of_every_size),
        cmocka_unit_test(range_and_filters_choose_the_events),
        cmocka_unit_test(range_is_a_copy_and_the_batch_is_held),
        cmocka_unit_test(rest_left_in_the_middle_lets_everything_go),
        cmocka_unit_test(pieces_are_cut_where_etcd_cuts_them),
        cmocka_unit_test(response_just_below_the_limit_is_whole),
        cmocka_unit_test(extent_is_what_the_batch_of_the_same_revision_is),
        cmocka_unit_test(slices_are_wanted_from_the_start_for_each_pass),
        cmocka_unit_test(rows_other_than_those_measured_break_it),
        cmocka_unit_test(extent_without_a_passing_event_ends_without_bytes),
        cmocka_unit_test(message_over_four_gib_is_cut_for_everybody),
        cmocka_unit_test(random_rests_are_what_etcd_would_send),
        cmocka_unit_test(refused_memory_is_an_error_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
