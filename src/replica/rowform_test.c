/* src/replica/rowform_test.c */
#include "replica/rowform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static const struct belfry_hash_key hash = {1, 2};

static void short_key_is_stored_as_it_is(void **state)
{
    (void)state;
    char key[ROWFORM_KEY_MAX];
    memset(key, 'k', sizeof(key));
    MDB_val stored = rowform_state_key(hash, belfry_bytes_of(key, sizeof(key)), NULL);
    assert_ptr_equal(stored.mv_data, key);
    assert_int_equal(stored.mv_size, sizeof(key));
    assert_false(rowform_is_long(stored));
}

static void long_keys_that_differ_anywhere_are_stored_apart(void **state)
{
    (void)state;
    char key[2000];
    uint8_t a[ROWFORM_KEY_MAX + ROWFORM_HASH], b[sizeof(a)];
    memset(key, 'k', sizeof(key));
    MDB_val first = rowform_state_key(hash, belfry_bytes_of(key, 1000), a);
    assert_int_equal(first.mv_size, sizeof(a));
    assert_true(rowform_is_long(first));
    assert_memory_equal(a, key, ROWFORM_KEY_MAX);
    for (size_t at = ROWFORM_KEY_MAX; at < 1000; at += 7) {
        key[at] = 'x';
        rowform_state_key(hash, belfry_bytes_of(key, 1000), b);
        assert_memory_equal(a, b, ROWFORM_KEY_MAX);
        assert_memory_not_equal(a + ROWFORM_KEY_MAX, b + ROWFORM_KEY_MAX, 8); /* either half tells them apart */
        assert_memory_not_equal(a + ROWFORM_KEY_MAX + 8, b + ROWFORM_KEY_MAX + 8, 8);
        key[at] = 'k';
    }
    rowform_state_key(hash, belfry_bytes_of(key, 1001), b);
    assert_memory_not_equal(a, b, sizeof(a));
    rowform_state_key((struct belfry_hash_key){3, 4}, belfry_bytes_of(key, 1000), b); /* another environment's */
    assert_memory_not_equal(a, b, sizeof(a));
}

static void places_in_history_are_ordered_as_their_bytes_are(void **state)
{
    (void)state;
    const struct {
        int64_t rev;
        uint32_t sub;
    } places[] = {{1, 0}, {1, 1}, {1, 256}, {2, 0}, {255, 7}, {256, 0}, {256, UINT32_MAX}, {257, 0}, {INT64_MAX, 0}};
    uint8_t last[ROWFORM_AT] = {0}, at[ROWFORM_AT];
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        rowform_at(places[i].rev, places[i].sub, at);
        assert_true(memcmp(last, at, sizeof(at)) < 0);
        MDB_val val = {.mv_size = sizeof(at), .mv_data = at};
        assert_int_equal(rowform_rev(val), places[i].rev);
        assert_int_equal(rowform_sub(val), places[i].sub);
        memcpy(last, at, sizeof(at));
    }
}

/* Writes a row of these sizes, reads it back and compares. */
static void round_trip(size_t event_len, size_t key_at, size_t key_len, size_t prev_len, bool is_delete)
{
    char *bytes = malloc(event_len + prev_len + 1);
    memset(bytes, 'e', event_len);
    memset(bytes + event_len, 'p', prev_len);
    struct rowform_event row = {.event = belfry_bytes_of(bytes, event_len),
                                .key = belfry_bytes_of(bytes + key_at, key_len),
                                .prev = belfry_bytes_of(bytes + event_len, prev_len),
                                .is_delete = is_delete},
                         back;
    size_t size = rowform_event_size(&row);
    assert_true(size <= event_len + prev_len + ROWFORM_HEAD_MAX);
    uint8_t *stored = malloc(size); /* exactly: ASan sees a byte too many */
    rowform_event_write(&row, stored);
    assert_true(rowform_event_read((MDB_val){.mv_size = size, .mv_data = stored}, &back));
    assert_true(belfry_bytes_equal(row.event, back.event) && belfry_bytes_equal(row.prev, back.prev));
    assert_int_equal(back.key.len, key_len);
    assert_int_equal(back.key.data - back.event.data, key_at);
    assert_int_equal(back.is_delete, is_delete);
    free(stored);
    free(bytes);
}

static void row_is_read_as_it_was_written(void **state)
{
    (void)state;
    round_trip(30, 4, 10, 0, false);
    round_trip(30, 4, 10, 25, true);
    round_trip(127, 0, 127, 1, false);
    round_trip(128, 127, 1, 1, false);
    round_trip(300000, 6, 200000, 100000, false);
}

static void damaged_row_is_refused_and_never_read_beyond(void **state)
{
    (void)state;
    char bytes[60];
    memset(bytes, 'e', sizeof(bytes));
    struct rowform_event row = {.event = belfry_bytes_of(bytes, 40),
                                .key = belfry_bytes_of(bytes + 6, 20),
                                .prev = belfry_bytes_of(bytes + 40, 20)},
                         back;
    size_t size = rowform_event_size(&row);
    for (size_t cut = 0; cut < size - 20; cut++) { /* without its prev a row is still one */
        uint8_t *stored = malloc(size), *part = malloc(cut + 1);
        rowform_event_write(&row, stored);
        memcpy(part, stored, cut);
        assert_false(rowform_event_read((MDB_val){.mv_size = cut, .mv_data = part}, &back));
        free(stored);
        free(part);
    }
    struct belfry_rng rng = {5};
    for (int i = 0; i < 20000; i++) {
        uint8_t stored[80];
        rowform_event_write(&row, stored);
        for (size_t at = 8; at < 12; at++)
            stored[at] = (uint8_t)belfry_rng_next(&rng);
        if (!rowform_event_read((MDB_val){.mv_size = size, .mv_data = stored}, &back))
            continue;
        const char *end = (const char *)stored + size;
        assert_true(back.event.data + back.event.len <= end && back.prev.data + back.prev.len == end);
        assert_true(back.key.data >= back.event.data && back.key.data + back.key.len <= end);
    }
}

static MDB_val val_of(char *bytes, size_t len)
{
    return (MDB_val){.mv_size = len, .mv_data = bytes};
}

static void row_passes_only_as_it_was_sealed(void **state)
{
    (void)state;
    char key[] = "key", other[] = "kez";
    uint8_t value[40 + ROWFORM_CHECK];
    uint64_t check;
    memset(value, 'v', sizeof(value));
    uint64_t sealed = rowform_seal(3, ROWFORM_STATE, val_of(key, 3), value, 40);
    MDB_val row = {.mv_size = sizeof(value), .mv_data = value};
    assert_true(rowform_open(3, ROWFORM_STATE, val_of(key, 3), &row, &check));
    assert_true(row.mv_size == 40 && check == sealed);
    row.mv_size = sizeof(value);
    assert_true(rowform_check_of(row) == sealed);
    assert_false(rowform_open(3, ROWFORM_STATE, val_of(other, 3), &row, &check)); /* under another key */
    row.mv_size = sizeof(value);
    assert_false(rowform_open(3, ROWFORM_HISTORY, val_of(key, 3), &row, &check)); /* in another table */
    row.mv_size = sizeof(value);
    assert_false(rowform_open(4, ROWFORM_STATE, val_of(key, 3), &row, &check)); /* of another replica */
    for (size_t bit = 0; bit < 8 * sizeof(value); bit++) {
        value[bit / 8] = (uint8_t)(value[bit / 8] ^ 1u << bit % 8);
        row.mv_size = sizeof(value);
        assert_false(rowform_open(3, ROWFORM_STATE, val_of(key, 3), &row, &check));
        value[bit / 8] = (uint8_t)(value[bit / 8] ^ 1u << bit % 8);
    }
    for (size_t len = 0; len < sizeof(value); len++) {
        row.mv_size = len;
        assert_false(rowform_open(3, ROWFORM_STATE, val_of(key, 3), &row, &check));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_key_is_stored_as_it_is),
        cmocka_unit_test(long_keys_that_differ_anywhere_are_stored_apart),
        cmocka_unit_test(places_in_history_are_ordered_as_their_bytes_are),
        cmocka_unit_test(row_is_read_as_it_was_written),
        cmocka_unit_test(damaged_row_is_refused_and_never_read_beyond),
        cmocka_unit_test(row_passes_only_as_it_was_sealed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
