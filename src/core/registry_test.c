/* src/core/registry_test.c */
#include "core/registry_bed_test.h"

/* ---- where a watcher belongs ---- */

static void a_watcher_rides_from_the_revision_after_p_only(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    assert_int_equal(place_watcher(stream, 1, BED_P)->state, WATCHER_WAITING);
    assert_int_equal(place_watcher(stream, 2, BED_P + 1)->state, WATCHER_RIDING);
    assert_int_equal(place_watcher(stream, 3, BED_P + 2)->state, WATCHER_WAITING);
    assert_int_equal(stream->n_riding, 1);
    assert_int_equal(stream->n_behind, 2);
}

static void no_watcher_starts_riding_while_a_revision_is_handed_out(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    bed.registry.p.hand_out = BED_P + 1;
    assert_int_equal(place_watcher(stream, 1, BED_P + 1)->state, WATCHER_WAITING);
}

static void on_a_walking_stream_a_watcher_rides_if_its_start_is_still_ahead(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    stream->walk = (struct stream_walk){.at = 5};
    registry_move_stream(stream, STREAM_WALKING);
    assert_int_equal(place_watcher(stream, 1, 5)->state, WATCHER_WAITING);
    assert_int_equal(place_watcher(stream, 2, 6)->state, WATCHER_RIDING);

    /* revision 6 is being given, to ids up to 10 */
    stream->walk = (struct stream_walk){.at = 5, .mid_rev = 6, .mid_id = 10, .mid_any = true};
    assert_int_equal(place_watcher(stream, 10, 6)->state, WATCHER_WAITING);
    assert_int_equal(place_watcher(stream, 11, 6)->state, WATCHER_RIDING);
    assert_int_equal(place_watcher(stream, 9, 7)->state, WATCHER_RIDING);

    /* the rows of revision 6 are being scanned, for whichever ids there were when that began */
    stream->walk.scanning = true;
    assert_int_equal(place_watcher(stream, 12, 6)->state, WATCHER_WAITING);
    assert_int_equal(place_watcher(stream, 13, 7)->state, WATCHER_RIDING);
}

static void watchers_of_the_future_ride_when_p_reaches_them(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *behind = place_watcher(stream, 1, 3);
    struct watcher *soon = place_watcher(stream, 2, BED_P + 4);
    struct watcher *late = place_watcher(stream, 3, BED_P + 5);
    registry_ride_future(&bed.registry, BED_P + 4);
    assert_int_equal(behind->state, WATCHER_WAITING);
    assert_int_equal(soon->state, WATCHER_RIDING);
    assert_int_equal(soon->next, BED_P + 4); /* and is given nothing below */
    assert_int_equal(late->state, WATCHER_WAITING);
}

static void waiting_watchers_come_by_cursor_then_stream_then_id(void **state)
{
    (void)state;
    struct stream *first = open_stream(100), *second = open_stream(100);
    struct watcher *d = place_watcher(second, 1, 7);
    struct watcher *c = place_watcher(first, 9, 7);
    struct watcher *b = place_watcher(first, 2, 7);
    struct watcher *a = place_watcher(second, 5, 4);
    assert_ptr_equal(waiting_from(&bed.registry.waiting, 0), a);
    assert_ptr_equal(waiting_from(&bed.registry.waiting, 4), a);
    struct watcher *const order[] = {b, c, d};
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(waiting_from(&bed.registry.waiting, 5), order[i]);
        watcher_lose(&bed.registry, order[i], 9);
    }
    assert_null(waiting_from(&bed.registry.waiting, 5));
}

/* ---- what a watcher needs next ---- */

static void a_rider_needs_what_its_stream_has_not_been_given(void **state)
{
    (void)state;
    struct stream *told = open_stream(100), *untold = open_stream(100);
    struct watcher *a = place_watcher(told, 1, BED_P + 1), *b = place_watcher(untold, 1, BED_P + 1);
    bed.registry.p.at = 20;
    assert_int_equal(watcher_need(&bed.registry, a), 21);
    bed.registry.p.hand_out = 21;
    bed.registry.p.tell_serial = told->serial;
    assert_int_equal(watcher_need(&bed.registry, a), 22);
    assert_int_equal(watcher_need(&bed.registry, b), 21);

    /* after a cut: a stream that is not judged stands where P was in its own past */
    bed.registry.before = bed.registry.p;
    bed.registry.p = (struct position){.past = 2, .at = 50};
    assert_int_equal(watcher_need(&bed.registry, a), 22);
    assert_int_equal(watcher_need(&bed.registry, b), 21);
    untold->past = 2;
    assert_int_equal(watcher_need(&bed.registry, b), 51);
}

static void a_rider_of_a_walking_stream_needs_what_the_walk_has_not_given_it(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *low = place_watcher(stream, 1, BED_P + 1), *high = place_watcher(stream, 2, BED_P + 1);
    low->next = high->next = 3;
    stream->walk = (struct stream_walk){.at = 5, .mid_rev = 8, .mid_id = 1, .mid_any = true};
    registry_move_stream(stream, STREAM_WALKING);
    assert_int_equal(watcher_need(&bed.registry, low), 9);
    assert_int_equal(watcher_need(&bed.registry, high), 6);
    stream->walk.mid_any = false;
    assert_int_equal(watcher_need(&bed.registry, low), 6);
    low->next = 30; /* it begins above */
    assert_int_equal(watcher_need(&bed.registry, low), 30);
}

static void a_watcher_on_a_bus_needs_what_the_bus_has_not_passed(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *watcher = place_watcher(stream, 1, 4);
    assert_int_equal(watcher_need(&bed.registry, watcher), 4);
    assert_int_equal(watcher_board(&bed.registry, watcher, 2), BELFRY_OK);
    assert_int_equal(bed.registry.buses[2].riders, 1);
    bed.registry.buses[2].at = 3;
    assert_int_equal(watcher_need(&bed.registry, watcher), 4);
    bed.registry.buses[2].at = 7;
    assert_int_equal(watcher_need(&bed.registry, watcher), 7);
    watcher_solo(&bed.registry, watcher, 7);
    assert_int_equal(bed.registry.buses[2].riders, 0);
    assert_int_equal(watcher_need(&bed.registry, watcher), 7);
}

/* ---- moves ---- */

static void every_move_is_counted_where_it_leads(void **state)
{
    (void)state;
    static const enum watcher_state behind[] = {WATCHER_WAITING, WATCHER_BOARDED, WATCHER_STALLED, WATCHER_SOLO};
    struct stream *stream = open_stream(100);
    struct watcher *watcher = place_watcher(stream, 1, 4);
    for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
        if (behind[i] == WATCHER_BOARDED)
            assert_int_equal(watcher_board(&bed.registry, watcher, 1), BELFRY_OK);
        else if (behind[i] == WATCHER_STALLED)
            watcher_stall(&bed.registry, watcher, 5);
        else if (behind[i] == WATCHER_SOLO)
            watcher_solo(&bed.registry, watcher, 6);
        assert_int_equal(watcher->state, behind[i]);
        for (size_t s = 0; s < WATCHER_STATES; s++)
            assert_int_equal(bed.registry.n_state[s], s == behind[i]);
        assert_int_equal(stream->n_behind, 1);
    }
    watcher_lose(&bed.registry, watcher, 8);
    assert_int_equal(bed.registry.n_state[WATCHER_LOST], 1);
    assert_int_equal(watcher->next, 8);
    assert_int_equal(stream->n_behind, 0);
    assert_true(watcher_is_over(watcher));
    watcher_end(&bed.registry, watcher);
    assert_int_equal(bed.registry.n_state[WATCHER_LOST], 0);
    assert_int_equal(bed.registry.n_state[WATCHER_ENDED], 1);
    assert_ptr_equal(stream_find(stream, 1), watcher); /* its id stays taken */
}

static void a_watcher_that_cannot_board_still_waits(void **state)
{
    (void)state;
    struct watcher *watcher = place_watcher(open_stream(100), 1, 4);
    refuse_begin(0);
    enum belfry_err err = watcher_board(&bed.registry, watcher, 1);
    assert_true(refuse_end());
    assert_int_equal(err, BELFRY_ERR_NOMEM);
    assert_int_equal(watcher->state, WATCHER_WAITING);
    assert_ptr_equal(waiting_from(&bed.registry.waiting, 4), watcher);
    assert_int_equal(bed.registry.buses[1].riders, 0);
}

static void stalled_watchers_wait_again_a_few_at_a_time(void **state)
{
    (void)state;
    struct stream *stream = open_stream(0);
    for (int64_t id = 1; id <= 100; id++)
        watcher_stall(&bed.registry, place_watcher(stream, id, 4), 5);
    registry_unstall(&bed.registry, stream);
    assert_int_equal(bed.registry.n_state[WATCHER_WAITING], 64);
    assert_int_equal(stream_find(stream, 64)->state, WATCHER_WAITING); /* those that stalled first */
    assert_int_equal(stream_find(stream, 65)->state, WATCHER_STALLED);
    registry_unstall(&bed.registry, stream);
    assert_int_equal(bed.registry.n_state[WATCHER_STALLED], 0);
    assert_int_equal(stream_find(stream, 100)->next, 5);
}

static void a_watcher_that_stalls_without_cause_is_tried_again_later(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100); /* it has room, and nothing to send: memory was short */
    watcher_stall(&bed.registry, place_watcher(stream, 1, 4), 5);
    assert_ptr_equal(bed.registry.awaiting.next, &stream->ready);
    assert_int_equal(bed.turn.retry_at, bed.turn.now + TURN_RETRY_MS);
}

static void only_riders_below_are_lost_when_history_is_gone(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *waits = place_watcher(stream, 1, 2);
    struct watcher *low = place_watcher(stream, 2, BED_P + 1), *high = place_watcher(stream, INT64_MAX, BED_P + 1);
    low->next = high->next = 0;
    stream->walk = (struct stream_walk){.at = 5, .mid_rev = 6, .mid_id = 1, .mid_any = true};
    registry_move_stream(stream, STREAM_WALKING);
    high->next = 8;
    stream_lose_gone(&bed.registry, stream, 6, 7);
    assert_int_equal(low->state, WATCHER_RIDING); /* it needs 6 */
    stream_lose_gone(&bed.registry, stream, 7, 7);
    assert_int_equal(low->state, WATCHER_LOST);
    assert_int_equal(low->next, 7);
    assert_int_equal(high->state, WATCHER_RIDING);
    assert_int_equal(waits->state, WATCHER_WAITING); /* the sweep judges it */
}

static void progress_that_was_asked_is_due_when_the_last_watcher_has_caught_up(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *a = place_watcher(stream, 1, 4), *b = place_watcher(stream, 2, 4);
    stream->progress_asked = true;
    watcher_detach(&bed.registry, a);
    watcher_place(&bed.registry, a, BED_P + 1);
    assert_true(belfry_list_empty(&bed.registry.ready));
    assert_false(registry_has_more(&bed.registry, stream));
    watcher_detach(&bed.registry, b);
    watcher_place(&bed.registry, b, BED_P + 1);
    assert_ptr_equal(bed.registry.ready.next, &stream->ready);
    assert_true(registry_has_more(&bed.registry, stream));
    bed.registry.stale = true;
    assert_false(registry_has_more(&bed.registry, stream));
}

/* ---- streams ---- */

static void the_watchers_of_a_stream_are_ordered_by_id(void **state)
{
    (void)state;
    static const int64_t ids[] = {5, INT64_MAX, INT64_MIN, 0, -3};
    struct stream *stream = open_stream(100);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        place_watcher(stream, ids[i], BED_P + 1);
    assert_int_equal(stream->n_watchers, 5);
    assert_true(stream_first_from(stream, INT64_MIN)->id == INT64_MIN);
    assert_int_equal(stream_first_from(stream, INT64_MIN + 1)->id, -3);
    assert_int_equal(stream_first_from(stream, 1)->id, 5);
    assert_true(stream_first_from(stream, 6)->id == INT64_MAX);
    assert_null(stream_find(stream, 4));
}

static void a_stream_without_room_is_parked_and_its_riders_are_counted(void **state)
{
    (void)state;
    struct stream *stream = open_stream(0);
    struct watcher *rider = place_watcher(stream, 1, BED_P + 1);
    registry_ready(&bed.registry, stream);
    registry_ready(&bed.registry, stream); /* again: the same */
    assert_true(stream->parked);
    assert_int_equal(bed.registry.n_parked, 1);
    assert_int_equal(bed.registry.n_parks, 1);
    assert_int_equal(bed.registry.n_riding_parked, 1);
    assert_true(belfry_list_empty(&bed.registry.ready));

    place_watcher(stream, 2, BED_P + 1); /* riders that come and leave meanwhile */
    assert_int_equal(bed.registry.n_riding_parked, 2);
    watcher_lose(&bed.registry, rider, 9);
    assert_int_equal(bed.registry.n_riding_parked, 1);

    stream->outlet.room = 1;
    registry_ready(&bed.registry, stream);
    assert_false(stream->parked);
    assert_int_equal(bed.registry.n_parked, 0);
    assert_int_equal(bed.registry.n_parked_peak, 1);
    assert_int_equal(bed.registry.n_unparks, 1);
    assert_int_equal(bed.registry.n_riding_parked, 0);
    assert_ptr_equal(bed.registry.ready.next, &stream->ready);
}

static void a_closed_stream_is_taken_down_within_the_budget(void **state)
{
    (void)state;
    struct stream *stream = open_stream(0);
    for (int64_t id = 0; id < 5; id++)
        place_watcher(stream, id, id == 0 ? 4 : BED_P + 1);
    const struct answer like = {.kind = ANSWER_CREATED};
    assert_int_equal(answer_add(&bed.registry, stream, &like, "", 0), BELFRY_OK);
    registry_close(&bed.registry, stream);
    assert_int_equal(bed.registry.n_streams, 0);
    assert_int_equal(bed.registry.n_parked, 0);
    registry_ready(&bed.registry, stream); /* it has nothing to do any more */
    assert_true(belfry_list_empty(&bed.registry.ready));
    assert_int_equal(bed.registry.n_parked, 0);

    bed.turn.work = 3;
    registry_take_down(&bed.registry);
    assert_int_equal(bed.turn.work, 0);
    assert_int_equal(stream->n_watchers, 2);
    bed.turn.work = 3;
    registry_take_down(&bed.registry);
    assert_int_equal(bed.turn.work, 1);
    assert_true(belfry_list_empty(&bed.registry.closing));
    assert_int_equal(bed.registry.bytes, 0);
}

static void answers_are_sent_in_order_and_a_stream_of_lines_has_none(void **state)
{
    (void)state;
    static const struct lines lines = {.inward = true};
    struct stream *stream = open_stream(100), *silent;
    size_t before = bed.registry.bytes;
    const struct answer first = {.id = 1, .kind = ANSWER_CREATED}, second = {.id = 2, .kind = ANSWER_REFUSED};
    assert_int_equal(answer_add(&bed.registry, stream, &first, "", 0), BELFRY_OK);
    assert_int_equal(answer_add(&bed.registry, stream, &second, "no, thanks", 2), BELFRY_OK);
    assert_int_equal(stream->n_answers, 2);
    struct answer *answer = belfry_container(stream->answers.next, struct answer, link);
    assert_int_equal(answer->id, 1);
    answer_remove(&bed.registry, stream, answer);
    answer = belfry_container(stream->answers.next, struct answer, link);
    assert_string_equal(answer->reason, "no");
    answer_remove(&bed.registry, stream, answer);
    assert_int_equal(bed.registry.bytes, before);

    assert_int_equal(registry_open(&bed.registry, NULL, &lines, 0, &silent), BELFRY_OK);
    assert_int_equal(answer_add(&bed.registry, silent, &first, "", 0), BELFRY_OK);
    assert_int_equal(silent->n_answers, 0);
    place_watcher(silent, 1, 4);
    assert_int_equal(bed.registry.n_lines[LINES_INWARD][WATCHER_WAITING], 1);
    assert_int_equal(bed.registry.n_lines[LINES_BY_EVENT][WATCHER_WAITING], 0);
}

/* ---- timers of periodic progress ---- */

static void a_stream_ticks_while_one_of_its_watchers_wants_progress(void **state)
{
    (void)state;
    struct stream *stream = open_stream(100);
    struct watcher *watcher;
    place_watcher(stream, 1, BED_P + 1);
    assert_true(registry_due(&bed.registry) == BELFRY_NEVER);
    assert_int_equal(try_watcher(stream, 2, WATCHER_PROGRESS, &watcher), BELFRY_OK);
    watcher_place(&bed.registry, watcher, BED_P + 1);
    uint64_t due = registry_due(&bed.registry);
    assert_in_range(due, bed.turn.now + 600, bed.turn.now + 660);

    bed.turn.now = due - 1;
    registry_tick(&bed.registry);
    assert_false(stream->ticking);
    bed.turn.now = due;
    registry_tick(&bed.registry);
    assert_true(stream->ticking);
    assert_true(stream->tick_id == INT64_MIN);
    assert_ptr_equal(bed.registry.ready.next, &stream->ready);
    assert_in_range(registry_due(&bed.registry), due + 600, due + 660);

    registry_set_period(&bed.registry, stream, 100);
    assert_in_range(registry_due(&bed.registry), due + 100, due + 110);
    watcher_detach(&bed.registry, watcher);
    watcher_forget(&bed.registry, watcher);
    assert_true(registry_due(&bed.registry) == BELFRY_NEVER);
}

static enum belfry_err open_and_fill(void)
{
    const struct answer like = {.kind = ANSWER_CREATED};
    struct stream *stream;
    struct watcher *watcher;
    enum belfry_err err = bed_create();
    if (err != BELFRY_OK)
        return err;
    err = registry_open(&bed.registry, NULL, NULL, 0, &stream);
    if (err == BELFRY_OK)
        err = try_watcher(stream, 1, WATCHER_PROGRESS, &watcher);
    if (err == BELFRY_OK) {
        watcher_wait(&bed.registry, watcher, 3);
        err = watcher_board(&bed.registry, watcher, 1);
    }
    if (err == BELFRY_OK)
        err = answer_add(&bed.registry, stream, &like, "reason", 6);
    bed_destroy();
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(open_and_fill) > 4);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_watcher_rides_from_the_revision_after_p_only),
        test(no_watcher_starts_riding_while_a_revision_is_handed_out),
        test(on_a_walking_stream_a_watcher_rides_if_its_start_is_still_ahead),
        test(watchers_of_the_future_ride_when_p_reaches_them),
        test(waiting_watchers_come_by_cursor_then_stream_then_id),
        test(a_rider_needs_what_its_stream_has_not_been_given),
        test(a_rider_of_a_walking_stream_needs_what_the_walk_has_not_given_it),
        test(a_watcher_on_a_bus_needs_what_the_bus_has_not_passed),
        test(every_move_is_counted_where_it_leads),
        test(a_watcher_that_cannot_board_still_waits),
        test(stalled_watchers_wait_again_a_few_at_a_time),
        test(a_watcher_that_stalls_without_cause_is_tried_again_later),
        test(only_riders_below_are_lost_when_history_is_gone),
        test(progress_that_was_asked_is_due_when_the_last_watcher_has_caught_up),
        test(the_watchers_of_a_stream_are_ordered_by_id),
        test(a_stream_without_room_is_parked_and_its_riders_are_counted),
        test(a_closed_stream_is_taken_down_within_the_budget),
        test(answers_are_sent_in_order_and_a_stream_of_lines_has_none),
        test(a_stream_ticks_while_one_of_its_watchers_wants_progress),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
