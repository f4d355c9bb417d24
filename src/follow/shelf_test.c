/* src/follow/shelf_test.c */
#include "follow/shelf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct segment *segment_of(uint64_t past, int64_t from, int64_t upto)
{
    struct segment_builder builder;
    struct segment *segment;
    segment_begin(&builder);
    struct batch *batch;
    assert_int_equal(batch_create(from, BATCH_EVENTS, 1, 1000, &batch), BELFRY_OK);
    assert_int_equal(segment_add(&builder, batch), BELFRY_OK);
    assert_int_equal(segment_finish(&builder, past, from, upto, &segment), BELFRY_OK);
    return segment;
}

static size_t put(struct shelf *shelf, uint64_t past, int64_t from, int64_t upto)
{
    struct segment *segment = segment_of(past, from, upto);
    size_t bytes = segment->bytes;
    shelf_put(shelf, segment);
    segment_unref(segment);
    return bytes;
}

static bool has(struct shelf *shelf, uint64_t past, int64_t rev)
{
    struct segment *segment = shelf_find(shelf, past, rev);
    bool found = segment != NULL && segment->from <= rev && rev <= segment->upto && segment->past == past;
    segment_unref(segment);
    return found;
}

static void a_stretch_is_found_by_any_of_its_revisions(void **state)
{
    (void)state;
    struct shelf *shelf;
    assert_int_equal(shelf_create(1 << 20, &shelf), BELFRY_OK);
    size_t bytes = put(shelf, 1, 10, 19);
    assert_true(has(shelf, 1, 10));
    assert_true(has(shelf, 1, 19));
    assert_false(has(shelf, 1, 9));
    assert_false(has(shelf, 1, 20));
    put(shelf, 1, 12, 15); /* a part of what is there */
    assert_int_equal(shelf_bytes(shelf), bytes);
    shelf_destroy(shelf);
}

static void the_longest_unused_goes_first(void **state)
{
    (void)state;
    struct segment *segment = segment_of(1, 1, 9);
    size_t each = segment->bytes;
    segment_unref(segment);
    struct shelf *shelf;
    assert_int_equal(shelf_create(3 * each, &shelf), BELFRY_OK);
    put(shelf, 1, 10, 19);
    put(shelf, 1, 20, 29);
    put(shelf, 1, 30, 39);
    assert_true(has(shelf, 1, 10));
    put(shelf, 1, 40, 49);
    assert_true(has(shelf, 1, 10));
    assert_false(has(shelf, 1, 20));
    assert_int_equal(shelf_bytes(shelf), 3 * each);
    shelf_destroy(shelf);
}

static void it_has_so_many_places_whatever_the_bytes(void **state)
{
    (void)state;
    struct shelf *shelf;
    assert_int_equal(shelf_create(SIZE_MAX / 2, &shelf), BELFRY_OK);
    for (int64_t i = 0; i <= SHELF_SEGMENTS; i++)
        put(shelf, 1, 10 * i, 10 * i + 9);
    assert_false(has(shelf, 1, 0));
    assert_true(has(shelf, 1, 10));
    assert_true(has(shelf, 1, 10 * SHELF_SEGMENTS));
    shelf_destroy(shelf);
}

static void one_past_only_is_on_it(void **state)
{
    (void)state;
    struct shelf *shelf;
    assert_int_equal(shelf_create(1 << 20, &shelf), BELFRY_OK);
    put(shelf, 1, 10, 19);
    size_t bytes = put(shelf, 2, 100, 109);
    assert_int_equal(shelf_bytes(shelf), bytes);
    assert_false(has(shelf, 1, 10));
    put(shelf, 1, 20, 29); /* came late */
    assert_false(has(shelf, 1, 20));
    assert_true(has(shelf, 2, 100));
    assert_false(has(shelf, 3, 100));
    shelf_destroy(shelf);
}

static void what_is_larger_than_the_shelf_is_not_kept(void **state)
{
    (void)state;
    struct shelf *shelf;
    assert_int_equal(shelf_create(100, &shelf), BELFRY_OK);
    put(shelf, 1, 10, 19);
    assert_int_equal(shelf_bytes(shelf), 0);
    assert_false(has(shelf, 1, 10));
    shelf_destroy(shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stretch_is_found_by_any_of_its_revisions), cmocka_unit_test(the_longest_unused_goes_first),
        cmocka_unit_test(it_has_so_many_places_whatever_the_bytes),   cmocka_unit_test(one_past_only_is_on_it),
        cmocka_unit_test(what_is_larger_than_the_shelf_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
