/* src/core/batch_test.c */
#include "core/batch.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/refuse.h"
#include "wire/write.h"

/* An Event in `to`, scanned. */
static void write_event(uint8_t *to, struct belfry_wire_event fields, struct belfry_wire_event *out)
{
    size_t len = belfry_write_event_size(&fields);
    assert_ptr_equal(belfry_write_event(&fields, to), to + len);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(to, len), out), BELFRY_OK);
}

static struct belfry_wire_kv kv_of(const char *key, const char *value, int64_t rev)
{
    return (struct belfry_wire_kv){.key = belfry_bytes_str(key),
                                   .value = belfry_bytes_str(value),
                                   .create_rev = rev,
                                   .mod_rev = rev,
                                   .version = 1};
}

static struct batch *batch_of(const struct belfry_wire_event *event, struct belfry_bytes prev_kv)
{
    struct batch *batch = NULL;
    assert_int_equal(batch_create(7, BATCH_EVENTS, 1, batch_event_bytes(event, prev_kv), &batch), BELFRY_OK);
    batch_add(batch, event, prev_kv);
    return batch;
}

/* The batch's one event reads back, with and without prev_kv, as an Event of these fields. */
static void check_reads_as(const struct batch *batch, const char *key, const char *value, bool is_delete,
                           struct belfry_bytes prev_kv)
{
    const struct batch_event *event = &batch->events[0];
    struct belfry_wire_event got;
    assert_int_equal(batch->n_events, 1);
    assert_int_equal(event->is_delete, is_delete);
    assert_true(belfry_bytes_equal(batch_key(batch, event), belfry_bytes_str(key)));
    assert_true(belfry_bytes_equal(batch_prev_kv(batch, event), prev_kv));

    assert_int_equal(belfry_scan_event(batch_bytes(batch, event, false), &got), BELFRY_OK);
    assert_false(got.has_prev);
    assert_int_equal(got.is_delete, is_delete);
    assert_true(belfry_bytes_equal(got.kv.key, belfry_bytes_str(key)));
    assert_true(belfry_bytes_equal(got.kv.value, belfry_bytes_str(value)));

    assert_int_equal(belfry_scan_event(batch_bytes(batch, event, true), &got), BELFRY_OK);
    assert_int_equal(got.has_prev, prev_kv.len > 0);
    if (got.has_prev)
        assert_true(belfry_bytes_equal(got.prev.raw, prev_kv));
    assert_true(belfry_bytes_equal(got.kv.key, belfry_bytes_str(key)));
}

static void event_is_kept_as_it_came(void **state)
{
    (void)state;
    uint8_t raw[256];
    struct belfry_wire_event event;
    write_event(raw, (struct belfry_wire_event){.kv = kv_of("key", "value", 7)}, &event);
    struct batch *batch = batch_of(&event, (struct belfry_bytes){0});
    assert_true(belfry_bytes_equal(batch_bytes(batch, &batch->events[0], false), event.raw));
    assert_true(belfry_bytes_equal(batch_bytes(batch, &batch->events[0], true), event.raw));
    memset(raw, 0, sizeof(raw));
    check_reads_as(batch, "key", "value", false, (struct belfry_bytes){0});
    batch_unref(batch);
}

static void previous_value_follows_the_event(void **state)
{
    (void)state;
    uint8_t raw[512], before[512];
    char long_value[301];
    memset(long_value, 'v', 300);
    long_value[300] = '\0';
    struct belfry_wire_event event;
    write_event(raw, (struct belfry_wire_event){.kv = kv_of("key", "value", 7), .is_delete = true}, &event);
    for (int long_one = 0; long_one < 2; long_one++) {
        struct belfry_wire_kv old = kv_of("key", long_one ? long_value : "old", 5);
        struct belfry_bytes prev = belfry_bytes_of(before, belfry_write_kv_size(&old));
        belfry_write_kv(&old, before);
        struct batch *batch = batch_of(&event, prev);
        check_reads_as(batch, "key", "value", true, prev);
        assert_int_equal(batch->events[0].prev_len, prev.len + (long_one ? 3 : 2));
        batch_unref(batch);
    }
}

static bool is_prev_lost(struct belfry_wire_event fields, struct belfry_bytes prev_kv)
{
    uint8_t raw[256];
    struct belfry_wire_event event;
    write_event(raw, fields, &event);
    struct batch *batch = batch_of(&event, prev_kv);
    bool lost = batch_prev_lost(batch, &batch->events[0]);
    batch_unref(batch);
    return lost;
}

static void previous_value_is_lost_when_there_was_one_and_it_did_not_come(void **state)
{
    (void)state;
    uint8_t prev[64];
    struct belfry_wire_kv before = kv_of("key", "old", 6);
    struct belfry_bytes prev_kv = belfry_bytes_of(prev, (size_t)(belfry_write_kv(&before, prev) - prev));
    struct belfry_wire_event created = {.kv = kv_of("key", "value", 7)}, replaced = created;
    struct belfry_wire_event gone = {.is_delete = true, .kv = {.key = belfry_bytes_str("key"), .mod_rev = 7}};
    replaced.kv.version = 2;
    assert_false(is_prev_lost(created, (struct belfry_bytes){0}));
    assert_true(is_prev_lost(replaced, (struct belfry_bytes){0}));
    assert_true(is_prev_lost(gone, (struct belfry_bytes){0}));
    assert_false(is_prev_lost(replaced, prev_kv));
    assert_false(is_prev_lost(gone, prev_kv));
}

static void delete_finds_the_put_of_its_key_in_the_same_revision(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        bool is_delete;
        int put; /* the place of the put; -1: there is none */
    } rows[] = {{"a", false, -1}, {"b", false, -1}, {"b", true, 1},   {"c", true, -1},
                {"d", false, -1}, {"a", true, 0},   {"a", false, -1}, {"a", true, 6}};
    enum { N = sizeof(rows) / sizeof(rows[0]) };
    uint8_t raw[N][64];
    for (uint32_t first_sub = 0; first_sub <= 7; first_sub += 7) { /* a later slice cannot know of earlier puts */
        struct batch *batch;
        struct belfry_wire_event events[N];
        uint8_t prev[64];
        struct belfry_wire_kv before = kv_of("key", "old", 6);
        struct belfry_bytes prev_kv = belfry_bytes_of(prev, (size_t)(belfry_write_kv(&before, prev) - prev));
        size_t bytes = 0;
        for (size_t i = 0; i < N; i++) {
            struct belfry_wire_event fields = {.kv = kv_of(rows[i].key, "v", 7), .is_delete = rows[i].is_delete};
            write_event(raw[i], fields, &events[i]);
            bytes += batch_event_bytes(&events[i], prev_kv);
        }
        assert_int_equal(batch_create(7, BATCH_SLICE, N, bytes, &batch), BELFRY_OK);
        batch_set_slice(batch, first_sub, true);
        for (size_t i = 0; i < N; i++)
            batch_add(batch, &events[i], prev_kv);
        for (size_t i = 0; i < N; i++) {
            const struct batch_event *event = &batch->events[i], *put = batch_put_before(batch, event);
            assert_ptr_equal(put, rows[i].put < 0 ? NULL : &batch->events[rows[i].put]);
            bool is_unsure = rows[i].is_delete && rows[i].put < 0 && first_sub > 0;
            assert_int_equal(batch_prev_lost(batch, event), is_unsure);
        }
        batch_unref(batch);
    }
}

/* Puts and deletes of any of `n_keys` keys. */
static struct batch *batch_of_many(uint32_t n, uint32_t n_keys, struct belfry_rng *rng)
{
    uint8_t raw[64];
    struct belfry_wire_event scanned;
    struct batch *batch;
    char key[sizeof("0123456789")];
    struct belfry_wire_event gone = {.is_delete = true, .kv = kv_of("0123456789", "v", 7)};
    write_event(raw, gone, &scanned); /* a put is not longer */
    assert_int_equal(
        batch_create(7, BATCH_EVENTS, n, n * batch_event_bytes(&scanned, (struct belfry_bytes){0}), &batch), BELFRY_OK);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%010" PRIu32, (uint32_t)belfry_rng_below(rng, n_keys));
        struct belfry_wire_event event = {.kv = kv_of(key, "v", 7), .is_delete = belfry_rng_below(rng, 2) == 0};
        write_event(raw, event, &scanned);
        batch_add(batch, &scanned, (struct belfry_bytes){0});
    }
    return batch;
}

/* By looking at each put before it. */
static const struct batch_event *put_before_slowly(const struct batch *batch, uint32_t event)
{
    const struct batch_event *of = &batch->events[event];
    for (const struct batch_event *at = of; of->is_delete && at-- > batch->events;)
        if (!at->is_delete && belfry_bytes_equal(batch_key(batch, at), batch_key(batch, of)))
            return at;
    return NULL;
}

static void puts_of_a_large_revision_are_found_without_looking_at_all_of_them(void **state)
{
    (void)state;
    struct belfry_rng rng = {11};
    static const uint32_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 1000, 5000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint32_t n = sizes[i];
        for (uint32_t n_keys = 1; n_keys <= 10 * n; n_keys *= 10) {
            struct batch *batch = batch_of_many(n, n_keys, &rng);
            uint64_t looked_at = 0;
            for (uint32_t event = 0; event < n; event++) {
                const struct batch_event *at = &batch->events[event], *put = batch_put_before(batch, at);
                assert_ptr_equal(put, put_before_slowly(batch, event));
                for (bool is_over = !at->is_delete; !is_over; is_over = at == NULL || at == put) {
                    at = at->put_before > 0 ? &batch->events[at->put_before - 1] : NULL;
                    looked_at++;
                }
            }
            assert_true(n <= 100 || looked_at < 4 * (uint64_t)n);
            batch_unref(batch);
        }
    }
}

static void prev_kv_at_the_end_of_an_event_is_cut_off(void **state)
{
    (void)state;
    uint8_t raw[256], plain[256];
    struct belfry_wire_event event, without;
    struct belfry_wire_event fields = {.kv = kv_of("key", "value", 7)};
    write_event(plain, fields, &without);
    fields.has_prev = true;
    fields.prev = kv_of("key", "foreign", 3);
    write_event(raw, fields, &event);
    struct batch *batch = batch_of(&event, (struct belfry_bytes){0});
    assert_true(belfry_bytes_equal(batch_bytes(batch, &batch->events[0], true), without.raw));
    check_reads_as(batch, "key", "value", false, (struct belfry_bytes){0});
    batch_unref(batch);
}

/* Fields of an event as bytes: type DELETE; kv with key "k", value "v" and an unknown field; prev with key "k". */
#define TYPE    "\x08\x01"
#define KV      "\x12\x09\x0a\x01k\x2a\x01v\x98\x06\x05"
#define PREV    "\x1a\x03\x0a\x01k"
#define PREV_B  "\x1a\x83\x00\x0a\x01k"
#define PREV_C  "\x9a\x00\x03\x0a\x01k"
#define UNKNOWN "\xa0\x06\x01"

static void check_stripped(struct belfry_bytes raw, struct belfry_bytes expected)
{
    struct belfry_wire_event event;
    assert_int_equal(belfry_scan_event(raw, &event), BELFRY_OK);
    assert_true(event.has_prev);
    static const char before[] = "\x0a\x01k\x2a\x03old";
    struct belfry_bytes prev = belfry_bytes_of(before, sizeof(before) - 1);
    struct batch *batch = batch_of(&event, prev);
    assert_true(belfry_bytes_equal(batch_bytes(batch, &batch->events[0], false), expected));
    assert_int_equal(batch->events[0].len + batch->events[0].prev_len, batch_event_bytes(&event, prev));
    check_reads_as(batch, "k", "v", event.is_delete, prev);
    batch_unref(batch);
}

#define STRIP(raw, expected)                                                                                           \
    check_stripped(belfry_bytes_of(raw, sizeof(raw) - 1), belfry_bytes_of(expected, sizeof(expected) - 1))

static void prev_kv_anywhere_in_an_event_is_left_out(void **state)
{
    (void)state;
    STRIP(TYPE KV PREV, TYPE KV);
    STRIP(KV TYPE UNKNOWN PREV, KV TYPE UNKNOWN);
    STRIP(TYPE PREV KV, TYPE KV);
    STRIP(PREV KV, KV);
    STRIP(PREV TYPE KV PREV, TYPE KV);
    STRIP(KV PREV_B, KV);
    STRIP(TYPE KV PREV_C, TYPE KV);
    STRIP(KV PREV UNKNOWN, KV);
}

static void event_without_a_key_has_an_empty_one(void **state)
{
    (void)state;
    struct belfry_wire_event event;
    assert_int_equal(belfry_scan_event((struct belfry_bytes){0}, &event), BELFRY_OK);
    struct batch *batch = batch_of(&event, (struct belfry_bytes){0});
    assert_int_equal(batch_key(batch, &batch->events[0]).len, 0);
    assert_int_equal(batch_bytes(batch, &batch->events[0], true).len, 0);
    batch_unref(batch);

    static const char only_prev[] = PREV UNKNOWN;
    assert_int_equal(belfry_scan_event(belfry_bytes_of(only_prev, sizeof(only_prev) - 1), &event), BELFRY_OK);
    batch = batch_of(&event, (struct belfry_bytes){0});
    assert_true(belfry_bytes_equal(batch_bytes(batch, &batch->events[0], false), belfry_bytes_of("\x12\x00", 2)));
    batch_unref(batch);
}

static void events_lie_one_behind_the_other(void **state)
{
    (void)state;
    uint8_t raw[3][256];
    struct belfry_wire_event events[3];
    static const char *const keys[] = {"a", "bb", "ccc"};
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        write_event(raw[i], (struct belfry_wire_event){.kv = kv_of(keys[i], "v", 7), .is_delete = i == 1}, &events[i]);
        bytes += batch_event_bytes(&events[i], events[0].kv.raw);
    }
    struct batch *batch = NULL;
    assert_int_equal(batch_create(7, BATCH_EVENTS, 3, bytes, &batch), BELFRY_OK);
    assert_true(batch->bytes >= bytes + 3 * sizeof(struct batch_event));
    for (int i = 0; i < 3; i++)
        batch_add(batch, &events[i], events[0].kv.raw);

    assert_int_equal(batch->n_events, 3);
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        const struct batch_event *event = &batch->events[i];
        assert_int_equal(event->at, at);
        assert_true(belfry_bytes_equal(batch_key(batch, event), belfry_bytes_str(keys[i])));
        assert_true(belfry_bytes_equal(batch_bytes(batch, event, false), events[i].raw));
        assert_int_equal(event->is_delete, i == 1);
        at += event->len + event->prev_len;
    }
    assert_int_equal(at, bytes);
    batch_unref(batch);
}

static void stored_event_equals_the_one_that_was_added(void **state)
{
    (void)state;
    uint8_t raw[256];
    struct belfry_wire_event event;
    write_event(raw, (struct belfry_wire_event){.kv = kv_of("key", "value", 7), .is_delete = true}, &event);
    struct belfry_bytes prev = event.kv.raw;
    struct batch *added = batch_of(&event, prev), *stored = NULL;
    const struct batch_event *one = &added->events[0];
    assert_int_equal(batch_create(7, BATCH_SLICE, 1, batch_stored_bytes(one->len, prev.len), &stored), BELFRY_OK);
    batch_add_stored(stored, batch_bytes(added, one, false), prev, batch_key(added, one), true);
    assert_true(belfry_bytes_equal(batch_bytes(stored, &stored->events[0], true), batch_bytes(added, one, true)));
    check_reads_as(stored, "key", "value", true, prev);
    batch_unref(added);
    batch_unref(stored);
}

static void slices_extents_and_advances_say_what_they_are(void **state)
{
    (void)state;
    struct batch *slice = NULL, *extent = NULL, *advance = NULL;
    assert_int_equal(batch_create(9, BATCH_SLICE, 0, 0, &slice), BELFRY_OK);
    batch_set_slice(slice, 40, true);
    assert_int_equal(slice->kind, BATCH_SLICE);
    assert_int_equal(slice->first_sub, 40);
    assert_true(slice->more);
    assert_int_equal(batch_create(9, BATCH_EXTENT, 0, 0, &extent), BELFRY_OK);
    batch_set_extent(extent, 1000000, (uint64_t)5 << 32);
    assert_int_equal(extent->n_events, 0);
    assert_int_equal(extent->extent_events, 1000000);
    assert_true(extent->extent_bytes == (uint64_t)5 << 32);
    assert_int_equal(batch_create(10, BATCH_ADVANCE, 0, 0, &advance), BELFRY_OK);
    assert_int_equal(advance->rev, 10);
    assert_int_equal(advance->n_events, 0);
    batch_unref(slice);
    batch_unref(extent);
    batch_unref(advance);
}

static void four_gib_are_too_large(void **state)
{
    (void)state;
    struct batch *batch = NULL;
    assert_int_equal(batch_create(1, BATCH_EVENTS, 1, (size_t)UINT32_MAX + 1, &batch), BELFRY_ERR_TOO_LARGE);
    assert_null(batch);
}

static void last_reference_frees(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct batch *batch = NULL;
    assert_int_equal(batch_create(1, BATCH_ADVANCE, 0, 0, &batch), BELFRY_OK);
    assert_ptr_equal(batch_ref(batch), batch);
    batch_unref(batch);
    assert_int_equal(refuse_held(), before + 1);
    batch_unref(batch);
    assert_int_equal(refuse_held(), before);
    batch_unref(NULL);
}

#define N_THREADS 4

static void *ref_and_unref(void *arg)
{
    const struct batch *batch = arg;
    for (int i = 0; i < 10000; i++) {
        const struct batch *mine = batch_ref(batch);
        if (mine->rev != 1)
            return NULL;
        batch_unref(mine);
    }
    batch_unref(batch);
    return arg;
}

static void threads_share_a_batch(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct batch *batch = NULL;
    assert_int_equal(batch_create(1, BATCH_ADVANCE, 0, 0, &batch), BELFRY_OK);
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ref_and_unref, batch_ref(batch)), 0);
    batch_unref(batch);
    for (int i = 0; i < N_THREADS; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    assert_int_equal(refuse_held(), before);
}

static enum belfry_err create_and_drop(void)
{
    struct batch *batch = NULL;
    enum belfry_err err = batch_create(1, BATCH_EVENTS, 10, 100, &batch);
    batch_unref(batch);
    return err;
}

static void one_allocation_and_it_may_fail(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(create_and_drop), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_is_kept_as_it_came),
        cmocka_unit_test(previous_value_follows_the_event),
        cmocka_unit_test(previous_value_is_lost_when_there_was_one_and_it_did_not_come),
        cmocka_unit_test(delete_finds_the_put_of_its_key_in_the_same_revision),
        cmocka_unit_test(puts_of_a_large_revision_are_found_without_looking_at_all_of_them),
        cmocka_unit_test(prev_kv_at_the_end_of_an_event_is_cut_off),
        cmocka_unit_test(prev_kv_anywhere_in_an_event_is_left_out),
        cmocka_unit_test(event_without_a_key_has_an_empty_one),
        cmocka_unit_test(events_lie_one_behind_the_other),
        cmocka_unit_test(stored_event_equals_the_one_that_was_added),
        cmocka_unit_test(slices_extents_and_advances_say_what_they_are),
        cmocka_unit_test(four_gib_are_too_large),
        cmocka_unit_test(last_reference_frees),
        cmocka_unit_test(threads_share_a_batch),
        cmocka_unit_test(one_allocation_and_it_may_fail),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
