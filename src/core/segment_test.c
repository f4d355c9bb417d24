/* src/core/segment_test.c */
#include "core/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static enum belfry_err add(struct segment_builder *builder, int64_t rev)
{
    struct batch *batch = NULL;
    enum belfry_err err = batch_create(rev, BATCH_ADVANCE, 0, 0, &batch);
    return err != BELFRY_OK ? err : segment_add(builder, batch);
}

/* Revisions 10, 12, 14 ... of which there are n. */
static struct segment *segment_of(size_t n)
{
    struct segment_builder builder;
    struct segment *segment = NULL;
    segment_begin(&builder);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(add(&builder, 10 + 2 * (int64_t)i), BELFRY_OK);
    assert_int_equal(segment_finish(&builder, 3, 9, 10 + 2 * (int64_t)n, &segment), BELFRY_OK);
    assert_int_equal(builder.n, 0);
    assert_int_equal(builder.bytes, 0);
    segment_abort(&builder);
    return segment;
}

static void segment_has_what_was_added(void **state)
{
    (void)state;
    struct segment *segment = segment_of(100);
    assert_int_equal(segment->past, 3);
    assert_int_equal(segment->from, 9);
    assert_int_equal(segment->upto, 210);
    assert_int_equal(segment->n, 100);
    size_t bytes = 0;
    for (size_t i = 0; i < segment->n; i++) {
        assert_int_equal(segment->batches[i]->rev, 10 + 2 * i);
        bytes += segment->batches[i]->bytes + sizeof(struct batch *);
    }
    assert_true(segment->bytes >= bytes);
    segment_unref(segment);
}

static void stretch_without_events_is_a_segment(void **state)
{
    (void)state;
    struct segment *segment = segment_of(0);
    assert_int_equal(segment->n, 0);
    assert_int_equal(segment_find(segment, 9), 0);
    segment_unref(segment);
}

static void find_gives_the_first_at_or_above(void **state)
{
    (void)state;
    struct segment *segment = segment_of(5); /* 10 12 14 16 18 */
    assert_int_equal(segment_find(segment, 0), 0);
    assert_int_equal(segment_find(segment, 10), 0);
    assert_int_equal(segment_find(segment, 11), 1);
    assert_int_equal(segment_find(segment, 14), 2);
    assert_int_equal(segment_find(segment, 18), 4);
    assert_int_equal(segment_find(segment, 19), 5);
    segment_unref(segment);
}

static void last_reference_frees_the_batches_too(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct segment *segment = segment_of(20);
    struct batch *kept = batch_ref(segment->batches[7]);
    assert_ptr_equal(segment_ref(segment), segment);
    segment_unref(segment);
    assert_int_equal(segment->batches[19]->rev, 48);
    segment_unref(segment);
    assert_int_equal(refuse_held(), before + 1);
    assert_int_equal(kept->rev, 24);
    batch_unref(kept);
    assert_int_equal(refuse_held(), before);
    segment_unref(NULL);
}

static void abort_drops_what_was_added(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct segment_builder builder;
    segment_begin(&builder);
    for (int64_t rev = 1; rev <= 40; rev++)
        assert_int_equal(add(&builder, rev), BELFRY_OK);
    assert_true(builder.bytes > 0);
    segment_abort(&builder);
    assert_int_equal(builder.n, 0);
    assert_int_equal(refuse_held(), before);
}

static enum belfry_err build_and_drop(void)
{
    struct segment_builder builder;
    struct segment *segment = NULL;
    segment_begin(&builder);
    enum belfry_err err = BELFRY_OK;
    for (int64_t rev = 1; rev <= 20 && err == BELFRY_OK; rev++)
        err = add(&builder, rev);
    if (err == BELFRY_OK)
        err = segment_finish(&builder, 1, 1, 20, &segment);
    segment_abort(&builder);
    segment_unref(segment);
    return err;
}

static void refused_allocations_leave_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(build_and_drop), 20 + 2 + 1);
}

/* Without an abort: the builder is empty after finish(), whatever came of it. */
static void failed_finish_drops_everything(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct segment_builder builder;
    struct segment *segment = NULL;
    segment_begin(&builder);
    assert_int_equal(add(&builder, 5), BELFRY_OK);
    refuse_begin(0);
    assert_int_equal(segment_finish(&builder, 1, 5, 5, &segment), BELFRY_ERR_NOMEM);
    assert_true(refuse_end());
    assert_null(segment);
    assert_int_equal(refuse_held(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segment_has_what_was_added),       cmocka_unit_test(stretch_without_events_is_a_segment),
        cmocka_unit_test(find_gives_the_first_at_or_above), cmocka_unit_test(last_reference_frees_the_batches_too),
        cmocka_unit_test(abort_drops_what_was_added),       cmocka_unit_test(refused_allocations_leave_nothing),
        cmocka_unit_test(failed_finish_drops_everything),
    };
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
