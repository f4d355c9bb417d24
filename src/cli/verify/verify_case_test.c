/* src/cli/verify/verify_case_test.c: time, the window, the cluster: what is late, forgotten, or has not happened. */
#include "cli/verify/verify_judge_private.h"

#include "cli/verify/verify_fixture.h"
#include "support/refuse.h"

static void what_comes_before_the_reference_waits_and_counts_as_no_lag(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_int_equal(give(c, &feed[0], 1000), BELFRY_OK);
    assert_true(verify_case_ahead(c));
    assert_int_equal(verify_judge_numbers(judge)->n_events, 0);
    assert_int_equal(refer(&history[0], 1700), BELFRY_OK);
    assert_false(verify_case_ahead(c));
    assert_true(verify_judge_numbers(judge)->n_events > 0);
    assert_int_equal(refer(&history[1], 2000), BELFRY_OK);
    assert_int_equal(give(c, &feed[1], 2500), BELFRY_OK);
    const struct verify_lag *lag = &verify_judge_numbers(judge)->lag;
    assert_int_equal(lag->n, feed[0].n + feed[1].n);
    assert_int_equal(lag->n_early, feed[0].n);
    assert_int_equal(lag->max_us, 500);
    assert_int_equal(n_blamed, 0);
}

static void replayed_history_is_no_measure_of_lag(void **state)
{
    (void)state;
    judge_feed(feed, n_feed, 1, true);
    assert_int_equal(n_blamed, 0);
    assert_int_equal(verify_judge_numbers(judge)->lag.n, 0);
}

static void a_replay_may_take_long_as_long_as_it_moves(void **state)
{
    (void)state;
    refer_all();
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    for (size_t i = 0; i < n_feed; i++) {
        int64_t now = (int64_t)i * MAX_LAG_US;
        assert_false(verify_case_overdue(c, now));
        assert_int_equal(give(c, &feed[i], now), BELFRY_OK);
        assert_int_equal(verify_case_live(c), i + 1 == n_feed);
    }
    assert_int_equal(n_blamed, 0);
}

static void who_is_live_must_keep_up_event_by_event(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_true(verify_case_live(c));
    for (size_t i = 0; i < REVS; i++)
        assert_int_equal(refer(&history[i], (int64_t)i * MAX_LAG_US), BELFRY_OK);
    assert_int_equal(give(c, &feed[0], MAX_LAG_US), BELFRY_OK);
    assert_true(verify_case_complete(c, feed[0].rev));
    assert_false(verify_case_complete(c, feed[1].rev));
    assert_false(verify_case_overdue(c, 2 * MAX_LAG_US));
    assert_true(verify_case_overdue(c, 2 * MAX_LAG_US + 1));
    assert_only(JUDGE_ALIVE, 1);
    assert_true(verify_case_overdue(c, 3 * MAX_LAG_US)); /* and is told once */
    assert_only(JUDGE_ALIVE, 1);
}

static void nobody_is_overdue_because_this_process_slept(void **state)
{
    (void)state;
    refer_all();
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    verify_judge_excuse(judge, 100 * MAX_LAG_US);
    assert_false(verify_case_overdue(c, 101 * MAX_LAG_US));
    assert_true(verify_case_overdue(c, 101 * MAX_LAG_US + 1));
}

static void what_fell_out_of_the_window_is_counted_and_not_judged(void **state)
{
    (void)state;
    end(NULL);
    assert_int_equal(open_judge(2000), BELFRY_OK);
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    refer_all();
    const struct verify_numbers *numbers = verify_judge_numbers(judge);
    uint64_t n_lost = numbers->n_not_judged;
    assert_true(n_lost > 20);
    assert_true(verify_judge_first(judge) > 20);
    size_t n_events = 0;
    for (size_t i = 0; i < n_feed; i++) {
        n_events += feed[i].n;
        assert_int_equal(give(c, &feed[i], 1), BELFRY_OK);
    }
    assert_int_equal(n_blamed, 0);
    assert_int_equal(numbers->n_not_judged, n_lost); /* when they left, not again when they came after all */
    assert_int_equal(numbers->n_events + n_lost, n_events);
    assert_true(verify_case_complete(c, INT64_MAX));
}

static void what_has_not_happened_in_the_cluster_is_found(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_int_equal(give(c, &feed[20], 1000), BELFRY_OK);
    verify_judge_cluster_at(judge, 5, 999); /* asked before: it may have happened since */
    verify_judge_cluster_at(judge, feed[20].rev, 2000);
    assert_int_equal(n_blamed, 0);
    verify_judge_cluster_at(judge, 5, 2000);
    assert_only(JUDGE_RELIABLE, 1);
    assert_false(verify_case_ahead(c));
    assert_true(verify_case_overdue(c, 2000));
}

static void progress_beyond_the_cluster_is_found(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    verify_case_progress(c, 100, 100, 1000);
    verify_judge_cluster_at(judge, 99, 1001);
    assert_only(JUDGE_PROGRESS, 1);
    verify_judge_cluster_at(judge, 99, 1002);
    assert_only(JUDGE_PROGRESS, 1);
}

static void a_gap_of_the_reference_is_counted_and_excuses(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    verify_judge_begin(judge, 2);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(refer(&history[i], 0), BELFRY_OK);
    assert_int_equal(give(c, &feed[0], 1), BELFRY_OK);
    verify_judge_begin(judge, 22);
    assert_int_equal(verify_judge_head(judge), 21);
    for (size_t i = 20; i < REVS; i++)
        assert_int_equal(refer(&history[i], 0), BELFRY_OK);
    for (size_t i = 1; i < n_feed; i++)
        assert_int_equal(give(c, &feed[i], 1), BELFRY_OK);
    assert_int_equal(n_blamed, 0);
    assert_int_equal(verify_judge_numbers(judge)->n_gaps, 1);
    assert_true(verify_case_complete(c, INT64_MAX));
}

static void the_place_of_a_case_is_behind_all_it_was_told(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 7, true);
    assert_int_equal(verify_case_next(c), 7);
    assert_int_equal(give(c, &feed[8], 1), BELFRY_OK);
    assert_int_equal(verify_case_next(c), feed[8].rev + 1);
    verify_case_close(c);
    c = open_case(belfry_prefix(""), 7, true);
    verify_case_progress(c, 20, 20, 1);
    assert_int_equal(verify_case_next(c), 21);
}

/* ---- late, or only slow ---- */

static void a_replay_that_tells_the_same_progress_again_and_again_is_overdue(void **state)
{
    (void)state;
    refer_all();
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_int_equal(give(c, &feed[0], 0), BELFRY_OK);
    for (int64_t now = 0; now <= MAX_LAG_US; now += MAX_LAG_US / 4) {
        assert_false(verify_case_overdue(c, now));
        verify_case_progress(c, feed[0].rev, 99, now);
    }
    assert_true(verify_case_overdue(c, MAX_LAG_US + 1));
    assert_only(JUDGE_ALIVE, 1);
}

/* A live case that has been given the first revision, loses its connection, and sees the others told at time 0. */
static struct verify_case *open_cut_case(void)
{
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_int_equal(refer(&history[0], 0), BELFRY_OK);
    assert_int_equal(give(c, &feed[0], 0), BELFRY_OK);
    assert_true(verify_case_live(c));
    verify_case_link(c, VERIFY_CUT, 1);
    for (size_t i = 1; i < REVS; i++)
        assert_int_equal(refer(&history[i], 0), BELFRY_OK);
    return c;
}

static void who_is_connected_again_may_catch_up_as_long_as_it_moves(void **state)
{
    (void)state;
    struct verify_case *c = open_cut_case();
    int64_t now = MAX_LAG_US;
    assert_false(verify_case_overdue(c, now));
    verify_case_link(c, VERIFY_CONNECTED, now);
    for (size_t i = 1; i < n_feed; i++) {
        now += MAX_LAG_US;
        assert_false(verify_case_overdue(c, now));
        assert_int_equal(give(c, &feed[i], now), BELFRY_OK);
    }
    assert_int_equal(n_blamed, 0);
    assert_int_equal(verify_judge_numbers(judge)->lag.max_us, now); /* it is lag all the same */
    struct told next = {.rev = REVS + 2, .header = REVS + 2, .n = 1, .events = {feed[0].events[0]}};
    next.events[0].mod_rev = REVS + 2;
    assert_int_equal(refer(&next, now), BELFRY_OK);
    assert_int_equal(give(c, &next, now), BELFRY_OK);
    next.events[0].mod_rev = next.rev = REVS + 3;
    assert_int_equal(refer(&next, now), BELFRY_OK); /* it had caught up: event by event again */
    assert_true(verify_case_overdue(c, now + MAX_LAG_US + 1));
}

static void without_a_connection_nothing_is_overdue_and_how_long_is_counted(void **state)
{
    (void)state;
    struct verify_case *c = open_cut_case();
    assert_true(verify_case_cut(c));
    verify_case_link(c, VERIFY_CUT, 5); /* told again: it is the same one */
    assert_false(verify_case_overdue(c, 100 * MAX_LAG_US));
    verify_case_link(c, VERIFY_CONNECTED, 100 * MAX_LAG_US);
    assert_false(verify_case_cut(c));
    assert_int_equal(verify_judge_numbers(judge)->cut_us, 100 * MAX_LAG_US - 1);
    assert_false(verify_case_overdue(c, 101 * MAX_LAG_US));
    assert_true(verify_case_overdue(c, 101 * MAX_LAG_US + 1));
    assert_only(JUDGE_ALIVE, 1);
    assert_true(verify_case_given_up(c));
}

static void a_server_that_only_accepts_connections_is_overdue(void **state)
{
    (void)state;
    struct verify_case *c = open_cut_case();
    for (int64_t now = 0; now <= MAX_LAG_US; now += MAX_LAG_US / 10) {
        verify_case_link(c, VERIFY_CUT, now);
        verify_case_link(c, VERIFY_CONNECTED, now);
        assert_false(verify_case_overdue(c, now));
    }
    assert_true(verify_case_overdue(c, MAX_LAG_US + 1));
    assert_only(JUDGE_ALIVE, 1);
}

/* ---- the end ---- */

static void what_was_skipped_before_what_is_held_is_found_at_the_end(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_int_equal(refer(&history[0], 0), BELFRY_OK);
    assert_int_equal(refer(&history[1], 0), BELFRY_OK);
    assert_int_equal(give(c, &feed[0], 0), BELFRY_OK);
    assert_int_equal(give(c, &feed[5], 0), BELFRY_OK);
    assert_true(verify_case_ahead(c));
    assert_int_equal(n_blamed, 0);
    assert_false(verify_case_complete(c, feed[5].rev));
    assert_true(verify_case_complete(c, feed[1].rev));
    verify_judge_end(judge, feed[1].rev, 0);
    assert_only(JUDGE_RELIABLE, 1);
    assert_int_equal(verify_judge_numbers(judge)->n_not_judged, 0); /* it is of a time that is not judged */
}

static void what_the_reference_never_told_is_counted_at_the_end(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_int_equal(give(c, &feed[0], 0), BELFRY_OK);
    verify_judge_end(judge, feed[0].rev, 0);
    assert_false(verify_case_ahead(c));
    assert_int_equal(verify_judge_numbers(judge)->n_not_judged, feed[0].n);
    assert_int_equal(n_blamed, 0);
}

static void progress_over_what_was_not_given_is_found_at_the_end(void **state)
{
    (void)state;
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_int_equal(refer(&history[0], 0), BELFRY_OK);
    verify_case_progress(c, 50, 50, 0);
    assert_int_equal(n_blamed, 0);
    verify_judge_end(judge, 50, 0);
    assert_only(JUDGE_PROGRESS, 1);
}

/* ---- memory ---- */

static void the_window_stays_within_its_bytes_however_much_is_told(void **state)
{
    (void)state;
    static char value[100000];
    end(NULL);
    assert_int_equal(open_judge(100000), BELFRY_OK);
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    struct told told = {.n = 1};
    told.events[0] = (struct belfry_event){.op = BELFRY_PUT, .key = text("/k"), .value = {value, sizeof(value)}};
    for (int64_t rev = 2; rev < 10000; rev++) {
        told.rev = told.events[0].mod_rev = told.events[0].create_rev = rev;
        assert_int_equal(refer(&told, 0), BELFRY_OK);
        assert_true(judge->window.bytes <= 100000);
    }
    assert_true(judge->window.n_slots <= 1024);
    uint64_t held = judge->window.next - judge->window.first;
    assert_true(held > 300); /* of a value only a digest is kept */
    assert_int_equal(verify_judge_numbers(judge)->n_not_judged, 9998 - held);
    verify_case_close(c);
}

static void a_revision_larger_than_the_window_is_kept_until_the_next(void **state)
{
    (void)state;
    end(NULL);
    assert_int_equal(open_judge(1), BELFRY_OK);
    for (size_t i = 0; i < REVS; i++) {
        assert_int_equal(refer(&history[i], 0), BELFRY_OK);
        assert_int_equal(judge->window.next - judge->window.first, 1);
        assert_int_equal(verify_judge_first(judge), i == 0 ? 1 : history[i].rev - 1 + 1);
    }
}

/* ---- previous values that are missing ---- */

/* Returns the revision of the newest event that should have had one. */
static int64_t judge_without_prev(bool asked_for)
{
    int64_t newest = 0;
    for (size_t i = 0; i < n_feed; i++)
        for (size_t k = 0; k < feed[i].n; k++)
            if (feed[i].events[k].prev.data != NULL)
                newest = feed[i].rev;
    n_feed = feed_of(belfry_prefix(""), 1, false, feed);
    judge_feed(feed, n_feed, 1, asked_for);
    assert_int_equal(n_blamed, 0);
    return newest;
}

static void a_compaction_explains_missing_previous_values(void **state)
{
    (void)state;
    int64_t newest = judge_without_prev(true);
    assert_true(verify_judge_doubts_prev(judge));
    assert_int_equal(verify_judge_ask_prev(judge), newest);
    assert_int_equal(verify_judge_ask_prev(judge), 0); /* one at a time */
    verify_judge_answer_prev(judge, VERIFY_COMPACTED);
    assert_false(verify_judge_doubts_prev(judge));
    assert_int_equal(n_blamed, 0);
    assert_true(verify_judge_numbers(judge)->n_prev_absent > 10);
}

static void a_missing_previous_value_that_can_be_read_is_a_violation(void **state)
{
    (void)state;
    int64_t newest = judge_without_prev(true);
    assert_int_equal(verify_judge_ask_prev(judge), newest);
    verify_judge_answer_prev(judge, VERIFY_READABLE);
    assert_only(JUDGE_PREV_KV, 1);
    assert_non_null(strstr(last_words, "came none, and no compaction explains it"));
    assert_non_null(strstr(last_asked, "all keys from revision 1, prev-kv"));
    assert_int_equal(verify_judge_ask_prev(judge), 0);
}

static void what_nobody_knows_is_asked_again_unless_a_newer_one_is(void **state)
{
    (void)state;
    int64_t newest = judge_without_prev(true);
    assert_int_equal(verify_judge_ask_prev(judge), newest);
    verify_judge_answer_prev(judge, VERIFY_NOBODY_KNOWS);
    assert_int_equal(verify_judge_ask_prev(judge), newest);
    judge->missing = judge->asked;
    judge->missing.rev++;
    verify_judge_answer_prev(judge, VERIFY_NOBODY_KNOWS);
    assert_int_equal(verify_judge_ask_prev(judge), newest + 1);
    verify_judge_answer_prev(judge, VERIFY_COMPACTED);
    assert_false(verify_judge_doubts_prev(judge));
    verify_judge_answer_prev(judge, VERIFY_READABLE); /* of nothing: after verify_judge_begin() one may come */
    assert_int_equal(n_blamed, 0);
}

static void who_did_not_ask_for_previous_values_misses_none(void **state)
{
    (void)state;
    (void)judge_without_prev(false);
    assert_false(verify_judge_doubts_prev(judge));
    assert_int_equal(verify_judge_numbers(judge)->n_prev_absent, 0);
}

static void another_past_has_other_previous_values(void **state)
{
    (void)state;
    (void)judge_without_prev(true);
    verify_judge_begin(judge, 100);
    assert_false(verify_judge_doubts_prev(judge));
}

static enum belfry_err scenario(void)
{
    struct verify_case *c = NULL;
    struct verify_spec spec = {.watcher = 3, .range = belfry_prefix(""), .start = 1, .prev_kv = true};
    enum belfry_err err = open_judge(2000);
    if (err == BELFRY_OK)
        err = verify_case_open(judge, &spec, 0, &c);
    for (size_t i = 0; i < 10 && err == BELFRY_OK; i++)
        err = refer(&history[i], 0);
    for (size_t i = 5; i < 11 && err == BELFRY_OK; i++) /* the last is held when the judge ends */
        err = give(c, &feed[i], 1);
    if (err == BELFRY_OK)
        verify_judge_end(judge, INT64_MAX, 0);
    verify_judge_destroy(judge);
    judge = NULL;
    return err;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    end(NULL);
    assert_true(refuse_sweep(scenario) >= 10);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin_feed, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_comes_before_the_reference_waits_and_counts_as_no_lag),
        TEST(replayed_history_is_no_measure_of_lag),
        TEST(a_replay_may_take_long_as_long_as_it_moves),
        TEST(who_is_live_must_keep_up_event_by_event),
        TEST(nobody_is_overdue_because_this_process_slept),
        TEST(what_fell_out_of_the_window_is_counted_and_not_judged),
        TEST(what_has_not_happened_in_the_cluster_is_found),
        TEST(progress_beyond_the_cluster_is_found),
        TEST(a_gap_of_the_reference_is_counted_and_excuses),
        TEST(the_place_of_a_case_is_behind_all_it_was_told),
        TEST(a_replay_that_tells_the_same_progress_again_and_again_is_overdue),
        TEST(who_is_connected_again_may_catch_up_as_long_as_it_moves),
        TEST(without_a_connection_nothing_is_overdue_and_how_long_is_counted),
        TEST(a_server_that_only_accepts_connections_is_overdue),
        TEST(what_was_skipped_before_what_is_held_is_found_at_the_end),
        TEST(what_the_reference_never_told_is_counted_at_the_end),
        TEST(progress_over_what_was_not_given_is_found_at_the_end),
        TEST(the_window_stays_within_its_bytes_however_much_is_told),
        TEST(a_revision_larger_than_the_window_is_kept_until_the_next),
        TEST(a_compaction_explains_missing_previous_values),
        TEST(a_missing_previous_value_that_can_be_read_is_a_violation),
        TEST(what_nobody_knows_is_asked_again_unless_a_newer_one_is),
        TEST(who_did_not_ask_for_previous_values_misses_none),
        TEST(another_past_has_other_previous_values),
        TEST(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
