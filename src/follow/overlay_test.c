/* src/follow/overlay_test.c */
#include "follow/overlay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "follow/past_fixture.h"
#include "support/refuse.h"

/* A revision of `past` as a batch, without previous values. */
static struct batch *batch_of(const struct past *past, int64_t rev)
{
    struct ingest_revision revision = past_revision(past, rev, PAST_BARE);
    struct belfry_bytes none = {0};
    size_t bytes = 0;
    struct batch *batch = NULL;
    for (size_t i = 0; i < revision.n; i++)
        bytes += batch_event_bytes(&revision.events[i], none);
    assert_int_equal(batch_create(rev, BATCH_EVENTS, (uint32_t)revision.n, bytes, &batch), BELFRY_OK);
    for (size_t i = 0; i < revision.n; i++)
        batch_add(batch, &revision.events[i], none);
    return batch;
}

static void assert_left(const struct overlay *overlay, const struct past *past, int key, int64_t rev)
{
    uint8_t raw[128];
    struct past_kv at;
    struct belfry_wire_kv scanned;
    struct belfry_bytes kv;
    bool there = past_at(past, key, rev, &at);
    if (!there)
        assert_true(past_at(past, key, rev - 1, &at));
    size_t len = past_encode_kv(key, &at, raw);
    assert_int_equal(belfry_scan_kv(belfry_bytes_of(raw, len), &scanned), BELFRY_OK);
    assert_true(overlay_find(overlay, scanned.key, &kv));
    assert_true(belfry_bytes_equal(kv, there ? scanned.raw : (struct belfry_bytes){0}));
}

static void newest_value_of_a_key_is_found(void **state)
{
    (void)state;
    struct past *past = past_create(9);
    struct overlay overlay = {0};
    struct batch *batches[4];
    struct belfry_bytes kv;
    past_put(past, 1, "a");
    past_txn(past, 2, (const int[]){1, 3}, (const char *const[]){"b", "c"});
    past_put(past, 3, "d");
    past_delete(past, 1);
    for (int i = 0; i < 4; i++) {
        batches[i] = batch_of(past, 2 + i);
        assert_int_equal(overlay_add(&overlay, batches[i]), BELFRY_OK);
    }
    assert_left(&overlay, past, 1, 5); /* deleted */
    assert_left(&overlay, past, 3, 5);
    assert_false(overlay_find(&overlay, belfry_bytes_str("nobody wrote this"), &kv));
    assert_true(overlay.bytes > 0);
    overlay_clear(&overlay);
    assert_false(overlay_find(&overlay, batch_key(batches[0], &batches[0]->events[0]), &kv));
    assert_int_equal(overlay.bytes, 0);
    for (int i = 0; i < 4; i++)
        batch_unref(batches[i]);
    past_destroy(past);
}

static void batch_that_found_no_memory_is_added_again(void **state)
{
    (void)state;
    struct past *past = past_create(9);
    past_txn(past, 3, (const int[]){1, 3, 5}, (const char *const[]){"a", "b", "c"});
    struct batch *batch = batch_of(past, 2);
    size_t held = refuse_held();
    for (size_t n = 0;; n++) {
        struct overlay overlay = {0};
        refuse_begin(n);
        enum belfry_err err = overlay_add(&overlay, batch);
        bool refused = refuse_end();
        assert_int_equal(err, refused ? BELFRY_ERR_NOMEM : BELFRY_OK);
        assert_int_equal(overlay_add(&overlay, batch), BELFRY_OK);
        assert_left(&overlay, past, 5, 2);
        overlay_clear(&overlay);
        assert_int_equal(refuse_held(), held);
        if (!refused)
            break;
    }
    batch_unref(batch);
    past_destroy(past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_value_of_a_key_is_found),
        cmocka_unit_test(batch_that_found_no_memory_is_added_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
