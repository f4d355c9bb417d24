/* src/core/cut_test.c: a past ends at BED_P; the next one begins at revision 20. */
#include "core/cut.h"

#include "core/registry_bed_test.h"

#define NEW_REV 20

static struct cut cut;

static void begin(enum evlog_cut_why why, int64_t compact_rev)
{
    const struct evlog_cut by = {.past = 2,
                                 .rev = NEW_REV,
                                 .why = why,
                                 .compact_rev = compact_rev,
                                 .rewritten = why == EVLOG_CUT_REWRITTEN ? 2 : 0};
    cut_init(&cut, &bed.registry);
    cut_begin(&cut, &by);
}

static void judge_all(void)
{
    bed.turn.work = BED_WORK;
    assert_true(cut_judge(&cut));
    assert_true(cut_is_done(&cut));
}

#define assert_at(watcher, expected_state, expected_next)                                                              \
    do {                                                                                                               \
        assert_int_equal((watcher)->state, expected_state);                                                            \
        assert_true((watcher)->next == (expected_next));                                                               \
    } while (0)

/* ---- who is lost ---- */

static void a_compaction_loses_the_watchers_that_need_what_is_gone(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *rider = place_watcher(stream, 1, BED_P + 1);
    struct watcher *below = place_watcher(stream, 2, 14), *at = place_watcher(stream, 3, 15);
    begin(EVLOG_CUT_COMPACTED, 15);
    assert_int_equal(bed.registry.p.at, NEW_REV);
    assert_false(cut_is_done(&cut));
    judge_all();
    assert_at(rider, WATCHER_LOST, 15);
    assert_at(below, WATCHER_LOST, 15);
    assert_at(at, WATCHER_WAITING, 15);
}

static void riders_that_a_compaction_spares_wait_where_they_were(void **state)
{
    (void)state;
    struct stream *told = open_stream(100), *untold = open_stream(100), *walking = open_stream(100);
    struct watcher *a = place_watcher(told, 1, BED_P + 1), *b = place_watcher(untold, 1, BED_P + 1);
    struct watcher *c = place_watcher(walking, 1, BED_P + 1), *d = place_watcher(walking, 2, BED_P + 1);
    bed.registry.p.hand_out = BED_P + 1;
    bed.registry.p.tell_serial = told->serial;
    c->next = d->next = 0;
    walking->walk = (struct stream_walk){.at = 6, .mid_rev = 8, .mid_id = 1, .mid_any = true};
    registry_move_stream(walking, STREAM_WALKING);
    begin(EVLOG_CUT_COMPACTED, 8);
    judge_all();
    assert_at(a, WATCHER_WAITING, BED_P + 2);
    assert_at(b, WATCHER_WAITING, BED_P + 1);
    assert_at(c, WATCHER_WAITING, 9); /* it has 8 already */
    assert_at(d, WATCHER_LOST, 8);    /* it needs 7 */
    assert_int_equal(walking->state, STREAM_RIDING);
    assert_int_equal(walking->walk.mid_rev, 0);
}

static void watchers_of_the_future_continue_from_the_new_past(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *next = place_watcher(stream, 1, NEW_REV + 1), *later = place_watcher(stream, 2, NEW_REV + 2);
    begin(EVLOG_CUT_COMPACTED, NEW_REV);
    judge_all();
    assert_at(next, WATCHER_RIDING, NEW_REV + 1);
    assert_at(later, WATCHER_WAITING, NEW_REV + 2);
}

static void no_watcher_rides_along_with_a_walk_through_the_old_past(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *watcher = place_watcher(stream, 1, NEW_REV);
    stream->walk = (struct stream_walk){.at = 6};
    registry_move_stream(stream, STREAM_WALKING);
    begin(EVLOG_CUT_DAMAGED, 0);
    judge_all();
    assert_at(watcher, WATCHER_WAITING, NEW_REV);
}

static void damage_loses_no_watcher(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *rider = place_watcher(stream, 1, BED_P + 1), *behind = place_watcher(stream, 2, 1);
    begin(EVLOG_CUT_DAMAGED, 0);
    judge_all();
    assert_at(rider, WATCHER_WAITING, BED_P + 1);
    assert_at(behind, WATCHER_WAITING, 1);
}

static void a_rewritten_past_loses_all(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *rider = place_watcher(stream, 1, BED_P + 1), *future = place_watcher(stream, 2, NEW_REV + 5);
    begin(EVLOG_CUT_REWRITTEN, NEW_REV);
    judge_all();
    assert_at(rider, WATCHER_LOST, NEW_REV);
    assert_at(future, WATCHER_LOST, NEW_REV);
}

static void a_past_that_was_rewritten_in_between_loses_all(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *future = place_watcher(stream, 1, NEW_REV + 5);
    /* past 2, which this worker has never seen, was a rewritten one; past 3 began by damage */
    const struct evlog_cut by = {.past = 3, .rev = NEW_REV, .why = EVLOG_CUT_DAMAGED, .rewritten = 2};
    cut_init(&cut, &bed.registry);
    cut_begin(&cut, &by);
    judge_all();
    assert_at(future, WATCHER_LOST, NEW_REV);
}

static void a_rewritten_past_is_held_against_older_watchers_only(void **state)
{
    (void)state;
    bed.registry.p.past = 2;
    struct stream *stream = open_stream(100);
    struct watcher *watcher = place_watcher(stream, 1, 5);
    const struct evlog_cut by = {.past = 3, .rev = NEW_REV, .why = EVLOG_CUT_DAMAGED, .rewritten = 2};
    cut_init(&cut, &bed.registry);
    cut_begin(&cut, &by);
    judge_all();
    assert_at(watcher, WATCHER_WAITING, 5);
}

static void what_is_lost_already_keeps_its_reason(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *lost = place_watcher(stream, 1, 3), *ended = place_watcher(stream, 2, 3);
    watcher_lose(&bed.registry, lost, 4);
    watcher_lose(&bed.registry, ended, 4);
    watcher_end(&bed.registry, ended);
    begin(EVLOG_CUT_REWRITTEN, NEW_REV);
    judge_all();
    assert_at(lost, WATCHER_LOST, 4);
    assert_at(ended, WATCHER_ENDED, 4);
}

/* ---- over several turns ---- */

static void the_budget_is_kept_and_every_watcher_is_judged_once(void **state)
{
    (void)state;
    static const int64_t ids[] = {INT64_MIN, -1, 7, INT64_MAX};
    struct stream *streams[2] = {open_stream(100), open_stream(100)};
    for (size_t i = 0; i < 8; i++)
        place_watcher(streams[i / 4], ids[i % 4], BED_P + 1);
    begin(EVLOG_CUT_COMPACTED, 15);
    size_t lost = 0;
    for (unsigned turns = 0; !cut_is_done(&cut); turns++) {
        assert_true(turns < 3);
        bed.turn.work = 3;
        bool done = cut_judge(&cut);
        assert_int_equal(done, cut_is_done(&cut));
        assert_int_equal(bed.registry.n_state[WATCHER_LOST] - lost, done ? 2 : 3);
        lost = bed.registry.n_state[WATCHER_LOST];
    }
    assert_int_equal(lost, 8);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(streams[i]->past, 2);
}

static void a_stream_that_is_judged_now_is_not_judged_again(void **state)
{
    (void)state;
    struct stream *first = open_stream(100), *urgent = open_stream(100);
    struct watcher *a = place_watcher(first, 1, BED_P + 1), *b = place_watcher(urgent, 1, BED_P + 1);
    begin(EVLOG_CUT_DAMAGED, 0);
    cut_stream(&cut, urgent);
    assert_at(b, WATCHER_WAITING, BED_P + 1);
    assert_int_equal(urgent->past, 2);
    assert_int_equal(a->state, WATCHER_RIDING);
    watcher_detach(&bed.registry, b);
    watcher_place(&bed.registry, b, NEW_REV + 1); /* it has caught up in the new past */
    judge_all();
    assert_int_equal(b->state, WATCHER_RIDING);
    assert_at(a, WATCHER_WAITING, BED_P + 1);
}

static void a_judged_stream_continues_with_what_it_was_asked(void **state)
{
    (void)state;
    struct stream *asked = open_stream(100), *idle = open_stream(100);
    asked->progress_asked = true;
    begin(EVLOG_CUT_DAMAGED, 0);
    judge_all();
    assert_ptr_equal(bed.registry.ready.next, &asked->ready);
    assert_true(belfry_list_empty(&idle->ready));
}

/* ---- a revision in slices ---- */

static void a_response_to_an_extent_that_is_not_begun_is_dropped(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *solo = place_watcher(stream, 1, 5);
    watcher_solo(&bed.registry, solo, 5);
    assert_int_equal(output_begin_extent(&bed.output, &stream->outlet, solo, 5), BELFRY_OK);
    stream->solo_now = solo;
    stream->solo_rest = true;
    begin(EVLOG_CUT_DAMAGED, 0);
    judge_all();
    assert_at(solo, WATCHER_WAITING, 5); /* it is read again */
    assert_null(stream->outlet.rest);
    assert_null(stream->solo_now);
    assert_false(stream->solo_rest);
    assert_false(stream->broken);
}

static void a_response_to_an_extent_that_was_begun_breaks_its_stream(void **state)
{
    (void)state;
    const struct belfry_wire_watch message = {.watch_id = 1, .created = true};
    struct stream *stream = open_stream(1);
    struct watcher *solo = place_watcher(stream, 1, 5);
    watcher_solo(&bed.registry, solo, 5);
    assert_true(output_control(&bed.output, &stream->outlet, &message)); /* its first byte is out */
    stream->solo_now = solo;
    stream->solo_rest = true;
    begin(EVLOG_CUT_DAMAGED, 0);
    judge_all();
    assert_at(solo, WATCHER_WAITING, 5);
    assert_null(stream->solo_now);
    assert_non_null(stream->outlet.rest);
    assert_true(stream->broken);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_compaction_loses_the_watchers_that_need_what_is_gone),
        test(riders_that_a_compaction_spares_wait_where_they_were),
        test(watchers_of_the_future_continue_from_the_new_past),
        test(no_watcher_rides_along_with_a_walk_through_the_old_past),
        test(damage_loses_no_watcher),
        test(a_rewritten_past_loses_all),
        test(a_past_that_was_rewritten_in_between_loses_all),
        test(a_rewritten_past_is_held_against_older_watchers_only),
        test(what_is_lost_already_keeps_its_reason),
        test(the_budget_is_kept_and_every_watcher_is_judged_once),
        test(a_stream_that_is_judged_now_is_not_judged_again),
        test(a_judged_stream_continues_with_what_it_was_asked),
        test(a_response_to_an_extent_that_is_not_begun_is_dropped),
        test(a_response_to_an_extent_that_was_begun_breaks_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
