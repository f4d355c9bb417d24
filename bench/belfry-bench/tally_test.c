/* bench/belfry-bench/tally_test.c */
#include "tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const int64_t revs[] = {10, 11, 12, 13};
static const struct tally_puts all = {.revs = revs, .n_puts = 4};

static uint64_t judged(const struct tally *tally, const struct tally_puts *puts, const char *says)
{
    static char text[1024];
    memset(text, 0, sizeof(text));
    FILE *out = fmemopen(text, sizeof(text) - 1, "w");
    assert_non_null(out);
    uint64_t lost = tally_judge(tally, puts, 2, 1, out);
    fclose(out);
    assert_string_equal(text, says);
    return lost;
}

static void give(struct tally *tally, size_t watcher, size_t without)
{
    for (size_t i = 0; i < 4; i++)
        if (i != without)
            assert_true(tally_event(tally, watcher, revs[i]));
}

static void everything_once_is_nothing_lost(void **state)
{
    (void)state;
    struct tally tally;
    tally_init(&tally, 3);
    for (size_t w = 0; w < 3; w++)
        give(&tally, w, 4);
    assert_int_equal(judged(&tally, &all, ""), 0);
    assert_int_equal(tally.events, 12);
    assert_int_equal(tally.doubled, 0);
    tally_fini(&tally);
}

static void a_lost_event_is_named_by_watcher_and_revision(void **state)
{
    (void)state;
    struct tally tally;
    tally_init(&tally, 5);
    for (size_t w = 0; w < 4; w++)
        give(&tally, w, w);
    assert_int_equal(
        judged(&tally, &all,
               "lost: connection 0 stream 0 watch 0 has 3 of 4 events; the first missing has revision 10\n"
               "lost: connection 0 stream 1 watch 0 has 3 of 4 events; the first missing has revision 11\n"
               "lost: connection 1 stream 0 watch 0 has 3 of 4 events; the first missing has revision 12\n"
               "lost: connection 1 stream 1 watch 0 has 3 of 4 events; the first missing has revision 13\n"
               "lost: connection 2 stream 0 watch 0 has 0 of 4 events; the first missing has revision 10\n"),
        8);
    tally_fini(&tally);
}

static void what_is_not_above_the_last_is_doubled(void **state)
{
    (void)state;
    struct tally tally;
    tally_init(&tally, 1);
    give(&tally, 0, 4);
    assert_false(tally_event(&tally, 0, 13));
    assert_false(tally_event(&tally, 0, 10));
    assert_int_equal(judged(&tally, &all, "doubled: connection 0 stream 0 watch 0 got revision 13 after 13; 2 such\n"),
                     0);
    assert_int_equal(tally.doubled, 2);
    tally_fini(&tally);
}

static void what_is_not_above_its_beginning_is_doubled(void **state)
{
    (void)state;
    struct tally tally;
    tally_init(&tally, 1);
    tally_begin(&tally, 0, 11);
    assert_false(tally_event(&tally, 0, 11));
    assert_true(tally_event(&tally, 0, 12));
    tally_begin(&tally, 0, 20); /* it comes back, and has begun long ago */
    assert_true(tally_event(&tally, 0, 13));
    assert_int_equal(tally.doubled, 1);
    tally_fini(&tally);
}

static void puts_for_one_watcher_are_expected_there_alone(void **state)
{
    (void)state;
    const uint32_t watchers[] = {1, 0, 1, 1};
    const struct tally_puts puts = {.revs = revs, .watchers = watchers, .n_puts = 4};
    struct tally tally;
    tally_init(&tally, 3);
    tally_event(&tally, 1, 10);
    tally_event(&tally, 1, 12);
    tally_event(&tally, 0, 11);
    assert_int_equal(
        judged(&tally, &puts,
               "lost: connection 0 stream 1 watch 0 has 2 of 3 events; the first missing has revision 12\n"),
        1);
    tally_fini(&tally);
}

static void puts_to_a_range_are_expected_by_all_that_watch_it(void **state)
{
    (void)state;
    const uint32_t ranges[] = {1, 0, 1, 1}, range_of[] = {1, 1, 0};
    const struct tally_puts puts = {.revs = revs, .watchers = ranges, .n_puts = 4, .range_of = range_of, .n_ranges = 2};
    struct tally tally;
    tally_init(&tally, 3);
    assert_int_equal(tally_wanted(&tally, &puts), 7);
    for (size_t i = 0; i < 4; i++)
        if (ranges[i] == 1)
            tally_event(&tally, 0, revs[i]);
    tally_event(&tally, 1, 10);
    tally_event(&tally, 2, 11);
    assert_int_equal(
        judged(&tally, &puts,
               "lost: connection 0 stream 1 watch 0 has 1 of 3 events; the first missing has revision 12\n"),
        2);
    tally_fini(&tally);
}

static void a_new_round_keeps_the_order_of_the_last(void **state)
{
    (void)state;
    struct tally tally;
    tally_init(&tally, 1);
    give(&tally, 0, 4);
    tally_restart(&tally);
    assert_int_equal(tally.events, 0);
    assert_false(tally_event(&tally, 0, 13));
    assert_true(tally_event(&tally, 0, 20));
    assert_int_equal(tally.rows[0].events, 1);
    tally_fini(&tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_once_is_nothing_lost),
        cmocka_unit_test(a_lost_event_is_named_by_watcher_and_revision),
        cmocka_unit_test(what_is_not_above_the_last_is_doubled),
        cmocka_unit_test(what_is_not_above_its_beginning_is_doubled),
        cmocka_unit_test(puts_for_one_watcher_are_expected_there_alone),
        cmocka_unit_test(puts_to_a_range_are_expected_by_all_that_watch_it),
        cmocka_unit_test(a_new_round_keeps_the_order_of_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
