/* src/follow/hop_test.c: stamps, and what is measured by them. */
#include "follow/hop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

static void revision_came_with_the_stamp_at_or_above_it(void **state)
{
    (void)state;
    static struct stamps stamps;
    uint64_t ns;
    stamps_clear(&stamps);
    assert_false(stamps_when(&stamps, 1, &ns));
    stamps_add(&stamps, 10, 100);
    stamps_add(&stamps, 15, 200);
    stamps_add(&stamps, 16, 300);
    assert_true(stamps_when(&stamps, 10, &ns));
    assert_int_equal(ns, 100);
    assert_true(stamps_when(&stamps, 11, &ns));
    assert_int_equal(ns, 200);
    assert_true(stamps_when(&stamps, 16, &ns));
    assert_int_equal(ns, 300);
    assert_false(stamps_when(&stamps, 9, &ns)); /* with the first, or before it */
    assert_false(stamps_when(&stamps, 17, &ns));
}

static void stamps_keep_the_newest(void **state)
{
    (void)state;
    static struct stamps stamps;
    struct stamp out[3];
    uint64_t ns;
    stamps_clear(&stamps);
    assert_int_equal(stamps_newest(&stamps, out, 3), 0);
    for (int64_t rev = 1; rev <= STAMPS + 10; rev++)
        stamps_add(&stamps, rev, (uint64_t)rev * 10);
    assert_int_equal(stamps_newest(&stamps, out, 3), 3);
    assert_int_equal(out[0].rev, STAMPS + 8);
    assert_int_equal(out[2].ns, (STAMPS + 10) * 10);
    assert_false(stamps_when(&stamps, 10, &ns));
    assert_true(stamps_when(&stamps, 11, &ns));
    stamps_add(&stamps, 5, 99999); /* another past */
    assert_int_equal(stamps_newest(&stamps, out, 3), 1);
    assert_false(stamps_when(&stamps, 11, &ns));
}

static struct stamps ours;
static struct hop hop;

static void begin(int64_t upto)
{
    stamps_clear(&ours);
    hop_begin(&hop, upto);
}

static void hop_is_measured_across_clocks_that_differ(void **state)
{
    static const int64_t offsets[] = {0, 5000 * (int64_t)S, -7 * (int64_t)S};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        uint64_t now = 100 * S, hop_ns, error_ns, theirs_now = (uint64_t)((int64_t)now + offsets[i]);
        struct stamp theirs[5];
        begin(0);
        for (int64_t rev = 1; rev <= 5; rev++) { /* each takes 3 ms, and the third one 50 */
            uint64_t published = (uint64_t)rev * 10 * MS;
            theirs[rev - 1] = (struct stamp){rev, theirs_now + published};
            stamps_add(&ours, rev, now + published + (rev == 3 ? 50 : 3) * MS);
        }
        /* asked at 100 ms, answered there after 1 ms, back after 3: the middle is off by half a millisecond */
        hop_exchange(&hop, now + 100 * MS, now + 103 * MS, theirs_now + 101 * MS);
        hop_measure(&hop, theirs, 5, &ours);
        assert_true(hop_read(&hop, &hop_ns, &error_ns));
        assert_in_range(error_ns, 3 * MS / 2, 2 * MS);
        assert_in_range(hop_ns, 3 * MS - error_ns, 3 * MS + error_ns);
        assert_int_equal(hop_ns, 3 * MS - MS / 2);
    }
}

static void exchange_with_the_smallest_bound_counts(void **state)
{
    (void)state;
    uint64_t hop_ns, error_ns;
    struct stamp theirs[] = {{8, 50 * S}};
    begin(0);
    stamps_add(&ours, 7, 49 * S);
    stamps_add(&ours, 8, 50 * S + MS);
    hop_exchange(&hop, 50 * S, 50 * S + 2 * MS, 50 * S + MS);                /* bound: 1 ms */
    hop_exchange(&hop, 51 * S, 51 * S + 40 * MS, 51 * S);                    /* bound: 20 ms, and 20 ms wrong */
    hop_exchange(&hop, 45 * S, 45 * S + MS / 10, 45 * S + MS / 20 + MS / 2); /* 0.05 ms, and 0.5 for the drift of 5 s */
    hop_measure(&hop, theirs, 1, &ours);
    assert_true(hop_read(&hop, &hop_ns, &error_ns));
    assert_in_range(error_ns, 5 * MS / 10, 6 * MS / 10);
    assert_in_range(hop_ns, MS - error_ns, MS + error_ns);
    assert_in_range(hop_trip(&hop, 51 * S), 1, MS / 10);
    assert_int_equal(hop_trip(&hop, 200 * S), 0); /* too long ago */
}

static void better_exchange_that_comes_later_counts_too(void **state)
{
    (void)state;
    uint64_t hop_ns, error_ns;
    struct stamp theirs[] = {{8, 50 * S}};
    begin(0);
    stamps_add(&ours, 8, 50 * S + MS);
    hop_exchange(&hop, 50 * S, 50 * S + 30 * MS, 50 * S);
    hop_measure(&hop, theirs, 1, &ours);
    assert_true(hop_read(&hop, &hop_ns, &error_ns));
    assert_in_range(error_ns, 15 * MS, 18 * MS);
    hop_exchange(&hop, 51 * S, 51 * S + MS / 5, 51 * S + MS / 10);
    hop_measure(&hop, theirs, 1, &ours);
    assert_true(hop_read(&hop, &hop_ns, &error_ns));
    assert_in_range(error_ns, MS / 10, MS / 4);
    assert_int_equal(hop_ns, MS);
}

static void revision_counts_once_and_only_when_it_came_live(void **state)
{
    (void)state;
    uint64_t hop_ns, error_ns;
    struct stamp theirs[] = {{4, 10 * S}, {5, 11 * S}, {6, 12 * S}};
    begin(4);
    assert_false(hop_read(&hop, &hop_ns, &error_ns));
    stamps_add(&ours, 4, 90 * S); /* by a replay, long after */
    stamps_add(&ours, 5, 11 * S + MS);
    hop_measure(&hop, theirs, 3, &ours);
    assert_false(hop_read(&hop, &hop_ns, &error_ns)); /* no exchange to compare the clocks by */
    stamps_add(&ours, 6, 12 * S + MS);
    hop_exchange(&hop, 13 * S, 13 * S + 2, 13 * S + 1);
    hop_measure(&hop, theirs, 3, &ours);
    hop_measure(&hop, theirs, 3, &ours);
    assert_int_equal(hop.n_samples, 1);
    assert_true(hop_read(&hop, &hop_ns, &error_ns));
    assert_int_equal(hop_ns, MS);
    hop_begin(&hop, 6);
    assert_false(hop_read(&hop, &hop_ns, &error_ns));
}

static void clock_that_is_wrong_by_less_than_the_bound_gives_no_negative_hop(void **state)
{
    (void)state;
    uint64_t hop_ns, error_ns;
    struct stamp theirs[] = {{2, 10 * S + MS}};
    begin(0);
    stamps_add(&ours, 2, 10 * S);
    hop_exchange(&hop, 10 * S, 10 * S + 4 * MS, 10 * S + 2 * MS);
    hop_measure(&hop, theirs, 1, &ours);
    assert_true(hop_read(&hop, &hop_ns, &error_ns));
    assert_int_equal(hop_ns, 0);
    assert_in_range(error_ns, MS, 3 * MS);
}

/* Their machine sleeps for 30 s, and its clock with it. */
static void clock_that_steps_begins_the_measurement_anew(void **state)
{
    (void)state;
    uint64_t hop_ns, error_ns, slept = 30 * S;
    struct stamp theirs[] = {{7, 100 * S}, {8, 101 * S}, {9, 132 * S - 30 * S}, {10, 134 * S - 30 * S}};
    begin(0);
    stamps_add(&ours, 7, 100 * S + MS);
    stamps_add(&ours, 8, 101 * S + MS);
    hop_exchange(&hop, 102 * S, 102 * S + MS / 10, 102 * S + MS / 20); /* a better one than those that follow */
    hop_measure(&hop, theirs, 2, &ours);
    assert_true(hop_read(&hop, &hop_ns, &error_ns));
    assert_int_equal(hop_ns, MS);
    stamps_add(&ours, 9, 132 * S + 2 * MS);
    hop_exchange(&hop, 133 * S, 133 * S + MS, 133 * S + MS / 2 - slept);
    hop_measure(&hop, theirs, 3, &ours);
    assert_false(hop_read(&hop, &hop_ns, &error_ns)); /* which side of the step 9 was on is not known */
    stamps_add(&ours, 10, 134 * S + 2 * MS);
    hop_exchange(&hop, 135 * S, 135 * S + MS, 135 * S + MS / 2 - slept);
    hop_measure(&hop, theirs, 4, &ours);
    assert_true(hop_read(&hop, &hop_ns, &error_ns));
    assert_int_equal(hop.n_samples, 1);
    assert_int_equal(hop_ns, 2 * MS);
    assert_in_range(error_ns, MS / 2, MS);
}

static void clocks_that_drift_have_not_stepped(void **state)
{
    (void)state;
    begin(0);
    for (uint64_t i = 0; i < 100; i++) { /* 100 us a second, and a round trip of 20 us */
        uint64_t at = 100 * S + i * S;
        hop_exchange(&hop, at, at + MS / 50, at + MS / 100 + i * MS / 10);
        assert_int_equal(hop.n_exchanges, i + 1);
    }
}

static void peer_may_say_any_time(void **state)
{
    static const uint64_t times[] = {0, 1, INT64_MAX, INT64_MAX - 1, 100 * S};
    (void)state;
    for (size_t i = 0; i < 25; i++) {
        uint64_t hop_ns, error_ns;
        struct stamp theirs[] = {{1, times[i % 5]}, {2, times[i / 5]}, {INT64_MAX, times[i / 5]}};
        begin(0);
        stamps_add(&ours, 1, 90 * S);
        stamps_add(&ours, 2, 100 * S);
        hop_exchange(&hop, 80 * S, 80 * S + MS, times[i / 5]);
        hop_measure(&hop, theirs, 3, &ours);
        hop_exchange(&hop, 81 * S, 81 * S + MS, times[i % 5]);
        hop_measure(&hop, theirs, 3, &ours);
        if (hop_read(&hop, &hop_ns, &error_ns))
            assert_true(hop_ns <= INT64_MAX && error_ns <= INT64_MAX);
        assert_int_equal(hop.upto, 2); /* what we never had does not keep anything from being measured */
    }
}

static void server_without_a_clock_has_a_round_trip(void **state)
{
    (void)state;
    begin(0);
    hop_exchange(&hop, 10 * S, 10 * S + MS, 0);
    hop_exchange(&hop, 20 * S, 20 * S + 3 * MS, 0);
    assert_int_equal(hop_trip(&hop, 21 * S), MS); /* the shortest, not the last */
}

static enum belfry_err nothing_is_allocated(void)
{
    uint64_t hop_ns, error_ns;
    begin(0);
    stamps_add(&ours, 2, 10 * S);
    return hop_read(&hop, &hop_ns, &error_ns) ? BELFRY_ERR_PROTOCOL : BELFRY_OK;
}

static void refused_allocation_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(nothing_is_allocated), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revision_came_with_the_stamp_at_or_above_it),
        cmocka_unit_test(stamps_keep_the_newest),
        cmocka_unit_test(hop_is_measured_across_clocks_that_differ),
        cmocka_unit_test(exchange_with_the_smallest_bound_counts),
        cmocka_unit_test(better_exchange_that_comes_later_counts_too),
        cmocka_unit_test(revision_counts_once_and_only_when_it_came_live),
        cmocka_unit_test(clock_that_is_wrong_by_less_than_the_bound_gives_no_negative_hop),
        cmocka_unit_test(clock_that_steps_begins_the_measurement_anew),
        cmocka_unit_test(clocks_that_drift_have_not_stepped),
        cmocka_unit_test(peer_may_say_any_time),
        cmocka_unit_test(server_without_a_clock_has_a_round_trip),
        cmocka_unit_test(refused_allocation_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
